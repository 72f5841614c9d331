"""What `python -m distarray info` prints: the first thing to look at, and to send, when a program does not run as expected.

Only looks. It never initialises MPI (mpi4py is asked in a process of its own, told not to), opens no connection, makes no
file, and never prints a secret. Whatever cannot be found out is a line that says why.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from distarray.cluster import LAUNCHERS, detect, local_device
from distarray.comm.deadlines import BOOTSTRAP, COLLECTIVE, bootstrap_timeout, collective_timeout
from distarray.devices import CudaRuntime, cpu_count
from distarray.devices.gpus import gpu_report
from distarray.errors import DistArrayError
from distarray.rendezvous import secret

__all__ = ["Section", "collect", "show"]


class Section(NamedTuple):
    """A title and its lines, each a name and a value."""

    title: str
    rows: list[tuple[str, str]]


def collect(environ: Mapping[str, str] | None = None) -> list[Section]:
    """Everything that can be found out, section by section. Raises for nothing."""
    environ = os.environ if environ is None else environ
    gpus, reason = gpu_report()
    runtime = None
    if gpus:
        try:
            runtime = CudaRuntime()
        except Exception as error:  # a driver too old for the toolkit, a library that does not load
            gpus, reason = 0, f"{gpus} there, but CUDA does not start: {type(error).__name__}: {error}"
    return [
        Section("devices", list(_devices(gpus, reason, runtime))),
        Section("links", list(_links(gpus, runtime))),
        Section("libraries", list(_libraries(runtime))),
        Section("launch", list(_launch(environ, gpus))),
        Section("deadlines and secret", list(_settings(environ))),
    ]


def show(sections: Sequence[Section], *, plain: bool = False) -> None:
    """Print: as tables on a terminal where rich is installed, else as plain lines."""
    if not plain and sys.stdout.isatty() and importlib.util.find_spec("rich") is not None:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        console = Console()
        for section in sections:
            table = Table(title=section.title, title_justify="left", show_header=False, box=None, padding=(0, 2, 0, 0))
            table.add_column(no_wrap=True, style="bold")
            table.add_column(overflow="fold")
            for name, value in section.rows:
                table.add_row(Text(name), Text(value))
            console.print(table)
            console.print()
        return
    for section in sections:
        print(section.title)
        width = max((len(name) for name, _ in section.rows), default=0)
        for name, value in section.rows:
            print(f"  {name:<{width}}  {value}")
        print()


# -- sections ------------------------------------------------------------------------------------------------------------


def _devices(gpus: int, reason: str, runtime: Any) -> Iterator[tuple[str, str]]:
    yield "machine", f"{socket.gethostname()}, {platform.platform()}"
    yield "host devices", f"{cpu_count()} (cores that this process may use; the machine has {os.cpu_count()})"
    yield "GPUs", str(gpus) if gpus else f"0: {reason}"
    for ordinal in range(gpus if runtime is not None else 0):
        yield f"GPU {ordinal}", _asked(lambda ordinal=ordinal: _gpu(runtime, ordinal))
    yield "CUDA_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES", "not set")


def _links(gpus: int, runtime: Any) -> Iterator[tuple[str, str]]:
    yield "host devices", "shared memory of one process"
    for one in range(gpus if runtime is not None else 0):
        yield f"GPU {one} reaches", _asked(lambda one=one: _peers(runtime, one, gpus))
    with contextlib.suppress(OSError):
        yield "network interfaces", ", ".join(name for _, name in socket.if_nameindex()) or "none"


def _libraries(runtime: Any) -> Iterator[tuple[str, str]]:
    yield "Python", f"{platform.python_version()} ({sys.executable})"
    for name in ("distarray", "numpy", "array-api-compat", "scipy", "threadpoolctl"):
        yield name, _version(name)
    cupy = [
        name for name in ("cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x", "cupy") if _version(name) != "not installed"
    ]
    yield "cupy", ", ".join(f"{_version(name)} ({name})" for name in cupy) or "not installed"
    if runtime is not None:
        yield (
            "CUDA",
            _asked(lambda: f"runtime {runtime.api.runtimeGetVersion()}, driver {runtime.api.driverGetVersion()}"),
        )
        yield "NCCL through cupy", _asked(lambda: str(runtime.cupy.cuda.nccl.get_version()))
    nccl = [name for name in ("nvidia-nccl-cu12", "nvidia-nccl-cu13") if _version(name) != "not installed"]
    yield "NCCL wheel", ", ".join(f"{_version(name)} ({name})" for name in nccl) or "not installed"
    yield "nccl4py", _version("nccl4py")
    yield "llvmlite", _version("llvmlite")
    yield "mpi4py", _version("mpi4py")
    yield "MPI library", _mpi()


def _launch(environ: Mapping[str, str], gpus: int) -> Iterator[tuple[str, str]]:
    try:
        launch = detect(environ)
    except DistArrayError as error:
        yield "launcher", f"unusable: {error}"
    else:
        yield "launcher", launch.launcher if launch.launcher != "none" else "none: a single process"
        yield "rank", f"{launch.rank} of {launch.size}"
        yield "local rank", "unknown" if launch.local_rank is None else str(launch.local_rank)
        yield "rank 0", f"host {launch.host or 'by default or MPI'}, port {launch.port or 'by default or MPI'}"
        if gpus:
            with contextlib.suppress(DistArrayError):
                yield "GPU of this process", str(local_device(launch, gpus))
    for launcher in LAUNCHERS:
        one = launcher(environ)
        values = [f"{name}={environ[name]}" for name in one.needs if name in environ]
        yield f"  {one.name}", "; ".join(["present" if one.is_present() else "absent", *values])


def _settings(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for what, (variable, _), read in (
        ("bootstrap", BOOTSTRAP, bootstrap_timeout), ("collective", COLLECTIVE, collective_timeout),
    ):  # fmt: skip
        yield f"{what} deadline", f"{_asked(lambda read=read: format(read(environ), 'g') + ' s')} ({variable})"
    yield "rendezvous secret", _asked(lambda: secret.describe(environ))


# -- questions -----------------------------------------------------------------------------------------------------------


def _asked(question: Any) -> str:
    """The answer as text, or why there is none."""
    try:
        return str(question())
    except Exception as error:
        return f"unknown ({type(error).__name__}: {error})"


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _gpu(runtime: CudaRuntime, ordinal: int) -> str:
    properties = runtime.api.getDeviceProperties(ordinal)
    name = properties["name"].decode(errors="replace")
    uuid = bytes(properties.get("uuid", b"")[:16]).hex()
    memory = properties["totalGlobalMem"] / 2**30
    return f"{name}, {memory:.1f} GiB, compute capability {properties['major']}.{properties['minor']}, uuid {uuid or 'unknown'}"


def _peers(runtime: CudaRuntime, one: int, gpus: int) -> str:
    reached = [str(other) for other in range(gpus) if other != one and runtime.api.deviceCanAccessPeer(one, other)]
    return f"GPU {', '.join(reached)} directly" if reached else "no other GPU directly"


_ASK_MPI = """
import mpi4py
mpi4py.rc.initialize = False
mpi4py.rc.finalize = False
from mpi4py import MPI
assert not MPI.Is_initialized()
print(MPI.Get_library_version().strip().splitlines()[0].split(",")[0].replace(chr(0), "").expandtabs(1))
"""


def _mpi() -> str:
    """The MPI library that mpi4py finds, asked in another process: loading one can fail in ways that end a process."""
    if importlib.util.find_spec("mpi4py") is None:
        return "not asked: mpi4py is not installed (pip install 'distarray[mpi]', and an MPI library)"
    try:
        done = subprocess.run(
            [sys.executable, "-c", _ASK_MPI],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"unknown ({error})"
    if done.returncode == 0:
        return done.stdout.strip()
    lines = done.stderr.strip().splitlines()
    return f"cannot be loaded: {lines[-1] if lines else f'exit status {done.returncode}'}"
