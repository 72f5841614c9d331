"""Everything that needs several GPUs of one host, in one command of under nine minutes; a table last.

    python3 benchmarks/many_gpus.py --gpus 4 --out DIR [--budget 520] [--only STEP,...]
    python3 benchmarks/many_gpus.py --dry-run            # made-up steps: the machinery alone
    python3 benchmarks/many_gpus.py --gpus 4 --kind host ...     # small sizes on CPUs: the programs alone

Correctness on all GPUs in one process and in one a GPU, a lost rank among it; each work on 1, 2, 4, … GPUs, weak and strong;
collectives beside NCCL called directly; and side by side with JAX, torch DTensor and cupyx.distributed.

Each step is a process of its own with a limit; whatever it started is ended with it, and what it had reported until then
counts. DIR gets ``all.log`` (every step's output; that of a running step in ``STEP.log``), ``results.json`` and
``table.txt``. Needs Linux, mpirun, CuPy and NCCL; the peers JAX, PyTorch and cupyx.distributed are "n/a" where they fail.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import resource
import shlex
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = Path(__file__).resolve().with_name("_many_gpu_programs")
MARK = "MANY_GPUS_STEP"
KEPT = 1_500_000
"""Bytes of a step's output that go into all.log."""

WORKS = {
    "add": ("a + b", "ms"), "sum0": ("sum(axis=0) to all", "ms"), "columns": ("rows -> columns", "ms"),
    "gemm32": ("GEMM f32, rows x replicas", "TF"), "gemm32_rows": ("GEMM f32, rows x rows", "TF"),
    "gemm16": ("GEMM f16, rows x replicas", "TF"), "gemm16_rows": ("GEMM f16, rows x rows", "TF"),
    "gemm16_alone": ("cuBLAS f16, nothing moved", "TF"),
    "small_add": ("64 x 64 a + a", "us"), "small_sum": ("64 x 64 sum to all", "us"),
}  # fmt: skip
"""Work -> its name and its unit."""


def limit_of(work: str, gpus: int) -> float:
    """What the memory, the links or the units of so many H200s allow, as they were measured."""
    array = 32768 * 16384 * 4
    return {
        "add": 3 * array / gpus / 4.1e9, "sum0": array / gpus / 4.1e9 + 0.03,
        "columns": array * (gpus - 1) / gpus**2 / 3.9e8, "gemm32": 53.0 * gpus, "gemm32_rows": 53.0 * gpus,
        "gemm16_alone": 765.0 * gpus,
        "gemm16": 765.0 * gpus, "gemm16_rows": 765.0 * gpus, "small_add": 7.9 * gpus, "small_sum": 30.0,
    }[work]  # fmt: skip


BARS = {
    "a + b": 98, "(a*b+a)*0.5-b": 98, "stencil": 95, "Gray-Scott": 95, "GEMM f16, rows x all": 92, "GEMM f32, rows x all": 92,
}  # fmt: skip
"""Per cent of weak efficiency that a work is to reach."""
COLUMNS = {
    "cupyx": "cupyx", "jax_eager": "JAX eager", "jax_jit": "JAX jit", "dtensor": "DTensor", "distarray1": "da 1 proc",
    "distarrays": "da n procs",
}  # fmt: skip
LIMITS = {
    "peer copy, one way": 395, "peer copy, both ways": 780, "reshard device 0 to 1, 1 GiB": 395,
    "NCCL exchange, 1 GiB each way": 357,
}  # fmt: skip
NOISE = 1.03
"""How much slower than cupyx.distributed still counts as equal."""


@dataclass
class Step:
    """One command, and what became of it."""

    name: str
    command: Sequence[str]
    limit: float
    environment: dict[str, str] = field(default_factory=dict)
    state: str = "not run"
    seconds: float = 0.0
    summary: str = ""
    failed: list[str] = field(default_factory=list)


def steps(options: argparse.Namespace) -> list[Step]:
    """In the order of their worth."""
    python, host, gpus = sys.executable, options.kind == "host", options.gpus

    def mpirun(n: int = gpus) -> list[str]:
        return [*shlex.split(options.mpirun), "-n", str(n), python]

    scale = ["--scale", "64"] if host else []
    kind, number = ["--kind", options.kind], ["--gpus", str(gpus)]
    nccl = str(ROOT / "tests/groups/nccl_program.py")
    plugins = ["-p", "no:benchmark", "-p", "no:cacheprovider", f"--kind={options.kind}"]
    waits = {"DISTARRAY_TIMEOUT": "40", "DISTARRAY_BOOTSTRAP_TIMEOUT": "40"}

    def program(name: str) -> str:
        return str(PROGRAMS / f"{name}.py")

    def store() -> dict[str, str]:
        return {**waits, "DISTARRAY_PORT": str(free_port())}

    suite = [
        python, "-m", "pytest", *plugins, "-n", "2" if host else "14", "-v", "--tb=short", "--timeout=100",
        "--timeout-method=thread", f"--devices={gpus},7", "conformance", "--ignore=conformance/test_ranks.py",
        "--ignore=conformance/test_mode_table.py", "tests/ops", "tests/fusion", "tests/transfer", "tests/devices",
    ]  # fmt: skip
    suite_nccl = [
        *mpirun(), "-m", "pytest", *plugins, "-v", "--tb=short", "conformance", "--mpi", "--hypothesis-profile=mpi",
        "--timeout=100", "--timeout-method=thread",
    ]  # fmt: skip
    init_all = [
        python, "-m", "pytest", *plugins, "-v", "--tb=short", "--timeout=50", "--timeout-method=thread",
        "tests/groups/test_nccl.py", "-k", "init_all or device",
    ]  # fmt: skip
    on_cpus = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={gpus}"} if host else {}
    growing = [n for n in (2, 4, 8) if n < gpus] + [gpus]
    lost = [*mpirun(), program("lost_rank"), *number, *kind] if host else [python, program("lost_rank"), *number]
    return [
        Step("machine", [python, "-c", MACHINE], 30),
        Step("programs", [*mpirun(), program("programs"), *kind], 90, waits),
        Step("nccl_mpi", [*mpirun(), nccl, "mpi"], 80, waits),
        Step("lost", lost, 60, waits),
        Step("distarray1", [python, program("distarray_bench"), *number, *kind, *scale], 80),
        Step(
            "distarrays",
            [*mpirun(), program("distarray_bench"), *number, "--processes", str(gpus), *kind, *scale],
            80,
            waits,
        ),
        Step("scaling1", [python, program("scaling_bench"), *number, *kind, *scale], 150),
        *[
            Step(
                f"scaling{n}",
                [*mpirun(n), program("scaling_bench"), *number, "--processes", str(n), *kind, *scale],
                90,
                waits,
            )
            for n in growing
        ],
        Step(
            "jax",
            [python, program("jax_bench"), *number, *scale],
            90,
            {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **on_cpus},
        ),
        Step(
            "collectives",
            [*mpirun(), program("collectives_bench"), *kind, *(["--most", "65536"] if host else [])],
            90,
            waits,
        ),
        Step("suite", suite, 190),
        Step("suite_nccl", suite_nccl, 150, {"DISTARRAY_TIMEOUT": "20", "DISTARRAY_TEST_MPI_EXAMPLES": "4"}),
        Step("cupyx", [python, program("cupyx_bench"), *number, *scale], 75),
        Step("dtensor", [*mpirun(), program("dtensor_bench"), *kind, *scale], 70, {"MASTER_PORT": str(free_port())}),
        Step("nccl_lost", [*mpirun(), nccl, "lost"], 45, store()),
        Step("init_all", init_all, 60),
        Step("nccl_debug", [*mpirun(), nccl, "debug"], 45, store()),
        Step("nccl_shared", [*mpirun(), nccl, "shared"], 30, store()),
        Step("nccl_store", [*mpirun(), nccl, "store"], 70, store()),
    ]


MACHINE = """
import importlib.metadata, os, shutil
for name in "numpy cupy-cuda13x jax torch mpi4py nccl4py nvidia-nccl-cu13 pytest pytest-xdist hypothesis".split():
    try:
        print("MACHINE", name, importlib.metadata.version(name))
    except Exception:
        print("MACHINE", name, "missing")
print("MACHINE mpirun", shutil.which("mpirun"))
for name in ("NCCL_NVLS_ENABLE", "TORCH_SYMM_MEM_DISABLE_MULTICAST", "NVSHMEM_DISABLE_NVLS"):
    print("MACHINE " + name, os.environ.get(name, "unset"))
try:
    import cupy
    n = cupy.cuda.runtime.getDeviceCount()
    print("MACHINE GPUs", n, "driver", cupy.cuda.runtime.driverGetVersion(), "NCCL", cupy.cuda.nccl.get_version())
    for i in range(n):
        print("MACHINE peer access of", i, [cupy.cuda.runtime.deviceCanAccessPeer(i, j) for j in range(n) if j != i])
except Exception as error:
    print("MACHINE CuPy:", type(error).__name__, error)
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# ---- running a step


def marked(mark: str) -> list[int]:
    """The processes that a step started, wherever they have gone: those with its mark in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                if mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def send(number: int, pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def is_python(pid: int) -> bool:
    try:
        return "python" in Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return False


def end(process: subprocess.Popen[bytes], mark: str, *, ask: bool) -> None:
    """End a step's processes. `ask`: let Python say where it stands (faulthandler), and mpirun clean up, before."""
    if ask:
        for number, chosen in ((signal.SIGABRT, is_python), (signal.SIGTERM, lambda pid: True)):
            send(number, [pid for pid in marked(mark) if chosen(pid)])
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(2)
    due = time.monotonic() + 5
    while (left := marked(mark)) and time.monotonic() < due:
        send(signal.SIGKILL, left)
        time.sleep(0.05)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(2)


def run(step: Step, limit: float, out: Path, dry: bool) -> str:
    """Run a step; returns what it printed."""
    token = uuid.uuid4().hex
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    environment = {
        **os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "DISTARRAY_SECRET": token, **step.environment, MARK: token,
    }  # fmt: skip
    if dry:
        environment.pop("DISTARRAY_SECRET")
    command = [sys.executable, str(PROGRAMS / "fake.py"), step.name] if dry else step.command
    log = out / f"{step.name}.log"
    start = time.monotonic()
    with log.open("wb") as file:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, cwd=ROOT, env=environment,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            step.state, step.summary = "failed to start", str(error)
            log.unlink()
            return ""
        over = True
        try:
            process.wait(limit)
            over = False
            step.state = "ok" if process.returncode == 0 else f"exit {process.returncode}"
        except subprocess.TimeoutExpired:
            step.state = f"ended at its limit of {limit:.0f} s"
        except BaseException:
            step.state = "interrupted"
            raise
        finally:
            end(process, f"{MARK}={token}", ask=over)
            step.seconds = time.monotonic() - start
            text = keep(step, log, out / "all.log", command)
    return text


def keep(step: Step, log: Path, everything: Path, command: Sequence[str]) -> str:
    """Move a step's output to the end of all.log."""
    text = log.read_text(errors="replace")
    kept = text if len(text) <= KEPT else f"{text[: KEPT // 3]}\n[... cut ...]\n{text[-2 * KEPT // 3 :]}"
    with everything.open("a") as file:
        file.write(
            f"\n######## {step.name}: {step.state}, {step.seconds:.1f} s\n# {shlex.join(command)[:600]}\n{kept}\n"
        )
    log.unlink()
    return text


# ---- reading what it printed


def read(step: Step, text: str, results: list[dict[str, Any]]) -> None:
    """Take a step's results and say in a line what became of it."""
    found = []
    for line in re.findall(r"RESULT (\{.*\})", text):
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    results += found
    if step.name == "machine":
        step.summary = "; ".join(line[8:] for line in text.splitlines() if line.startswith("MACHINE "))
    elif step.name in ("suite", "suite_nccl", "init_all"):
        read_pytest(step, text)
    elif step.name.startswith("nccl_"):
        passed = re.findall(r"rank \d+: (\w+) ok", text)
        step.failed = [f"rank {rank} {name}" for rank, name in re.findall(r"rank (\d+): (\w+) FAILED", text)]
        said = re.findall(r"(formed in .*|costs .*|ok after .*)", text)
        step.summary = f"{len(passed)} ok, {len(step.failed)} failed; {'; '.join(dict.fromkeys(said))}"[:200]
    elif found:
        bad = [f for f in found if f.get("na") or not f.get("ok", True)]
        step.failed = [f"{f['work']}: {f.get('na') or f.get('note', '')}"[:150] for f in bad if f["kind"] == "program"]
        unfit = sum(1 for f in bad if f["kind"] != "program")
        step.summary = f"{len(found) - len(bad)} ok, {len(step.failed)} failed" + (
            f", {unfit} n/a or wrong" if unfit else ""
        )
    if step.state != "ok" and not found and step.name not in ("suite", "suite_nccl", "init_all"):
        last = [line.strip() for line in text.splitlines() if re.match(r"\w*(Error|Exception|Exit)\b", line.strip())]
        step.summary = f"{step.summary} {last[-1] if last else ''}".strip()[:220]


def read_pytest(step: Step, text: str) -> None:
    names = re.findall(r"(?:FAILED|ERROR) (\S+?\.py\b[^\n]*?)(?: - [^\n]*)?\s*$", text, re.M)
    step.failed = list(dict.fromkeys(name.strip() for name in names))
    ends = re.findall(r"^=+ ((?:\d+ [a-z]+(?:, )?)+ in [\d.]+s.*?) =+$", text, re.M)
    passed = len(re.findall(r"\bPASSED\b", text))
    step.summary = ends[-1] if ends else f"no result line; {passed} passed and {len(step.failed)} failed until then"


# ---- the table


class Table:
    """Rows of text in columns."""

    def __init__(self, *head: str) -> None:
        self.rows = [head]

    def add(self, *row: str) -> None:
        self.rows.append(row)

    def lines(self) -> list[str]:
        widths = [max(len(row[i]) for row in self.rows) for i in range(len(self.rows[0]))]
        return [" | ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in self.rows]


def shown(ms: float, unit: str) -> str:
    if unit == "TF":
        return f"{2 * 16384**3 / ms / 1e9:.0f} TF"
    return f"{ms * 1e3:.1f} us" if unit == "us" else f"{ms:.3g} ms"


def right(found: dict[str, Any] | None) -> bool:
    return found is not None and "ms" in found and bool(found.get("ok"))


def verdict(work: str, found: dict[str, dict[str, Any] | None]) -> str:
    problems = []
    for name, label in (("distarray1", "1p"), ("distarrays", "np")):
        ours = found[name]
        if ours is None or "ms" not in ours:
            problems.append(f"{label} n/a")
            continue
        if not ours.get("ok"):
            problems.append(f"{label} WRONG")
        cupyx = found["cupyx"]
        if right(cupyx) and cupyx is not None and ours["ms"] > NOISE * cupyx["ms"]:
            problems.append(f"{label} slower than cupyx")
        jax = [f["ms"] for f in (found["jax_eager"], found["jax_jit"]) if f is not None and right(f)]
        if work == "columns" and jax and ours["ms"] > min(jax):
            problems.append(f"{label} slower than JAX")
    if work == "columns" and not right(found["jax_jit"]) and not right(found["jax_eager"]):
        problems.append("no JAX figure")
    if found["cupyx"] is None:
        problems.append("no cupyx figure")
    return "; ".join(problems) or ("met" if right(found["cupyx"]) else "met (cupyx cannot)")


def scaled(results: Sequence[dict[str, Any]]) -> list[str]:
    """Times on growing numbers of GPUs and the efficiency of the most, in one process and in one a GPU."""
    rows: dict[tuple[str, str], dict[tuple[int, int], dict[str, Any]]] = {}
    for one in results:
        if one["kind"] == "scaling" and "ms" in one:
            both = (
                ("weak", "strong") if one["parts"] == one["gpus"] else (one["form"],)
            )  # on all GPUs they are one work
            for form in both:
                rows.setdefault((one["work"], form), {})[one["processes"], one["gpus"]] = one
    columns = sorted({place for found in rows.values() for place in found}, key=lambda p: (p[0] > 1, p[1]))
    if not columns:
        return []
    table = Table(
        "work",
        "form",
        *[f"{n} in {p}" for p, n in columns],
        "efficiency, 1 process",
        "a process a GPU",
        "bar",
        "values",
    )
    for (work, form), found in rows.items():
        alone = found.get((1, 1)) or rows.get((work, "weak"), {}).get((1, 1))
        if form == "strong" and (1, 1) not in found:
            continue
        cells = [f"{found[place]['ms']:.3g}" if place in found else "-" for place in columns]
        shares = []
        for processes in (False, True):
            most = max([p for p in found if (p[0] > 1) is processes and p[1] > 1], key=lambda p: p[1], default=None)
            parts = 1 if most is None or form == "weak" else most[1]
            share = 0.0 if most is None or alone is None else alone["ms"] / found[most]["ms"] / parts
            shares.append(f"{share:.0%}" if share else "-")
        same = len(
            {f"{one['print']:.3g}" for one in found.values() if one["parts"] == max(o["parts"] for o in found.values())}
        )
        bar = f"{BARS[work]} %" if form == "weak" and work in BARS else ""
        table.add(work, form, *cells, *shares, bar, "ok" if same == 1 else "WRONG")
    return ["== scaling, ms: GPUs in processes", *table.lines()]


def report(done: Sequence[Step], results: Sequence[dict[str, Any]], took: float, gpus: int) -> str:
    """The whole table, under 16,000 characters."""
    by_place = {(r["column"], r["work"]): r for r in results if r["kind"] == "row"}
    table = Table("work", *COLUMNS.values(), "floor", "verdict")
    notes: dict[str, list[str]] = {}
    for work, (title, unit) in WORKS.items():
        found = {column: by_place.get((column, work)) for column in COLUMNS}
        cells = []
        for column, one in found.items():
            if one is None:
                cells.append("-")
            elif "ms" not in one:
                cells.append("n/a")
                notes.setdefault(f"{COLUMNS[column]}: {one.get('na', '?')}"[:170], []).append(work)
            else:
                cells.append(shown(one["ms"], unit) + ("" if one.get("ok") else " WRONG"))
                if not one.get("ok"):
                    notes.setdefault(f"{COLUMNS[column]} WRONG: {one.get('note', '')}"[:170], []).append(work)
        table.add(title, *cells, f"{limit_of(work, gpus):.3g} {unit}", verdict(work, found))
    facts = Table("bandwidth", "measured", "before", "values")
    for one in results:
        if one["kind"] == "fact":
            value = f"{one['value']:.0f} {one['unit']}" if "value" in one else f"n/a: {one.get('na', '')}"[:100]
            values = "" if "value" not in one else "ok" if one.get("ok") else "WRONG"
            facts.add(one["work"], value, f"{LIMITS.get(one['work'], 0)} GB/s", values)
    reduce = Table("collective", "ours us", "algbw", "busbw", "NCCL us", "algbw", "busbw", "ours/NCCL", "verdict")
    for one in results:
        if one["kind"] == "collective":
            reduce.add(one["work"], *reduced(one))
    lines = ["== steps"]
    for step in done:
        lines.append(
            f"{step.name}: {step.state}, {step.seconds:.0f} s. {step.summary}"[: 600 if step.name == "machine" else 240]
        )
    failures = [f"  {step.name}: {name}"[:170] for step in done for name in step.failed]
    tail = ["== bandwidth", *facts.lines(), f"== collectives, {gpus} processes, float32 (GB/s)", *reduce.lines()]
    tail += scaled(results)
    tail += [f"== side by side, medians; arrays 32768 x 16384 float32, GEMM 16384; {took:.0f} s in all", *table.lines()]
    reasons = [f"n/a or wrong, {', '.join(works)}: {text}" for text, works in notes.items()]
    room = 15800 - sum(len(line) + 1 for line in (*lines, *tail))
    middle = []
    for line in ([f"== failed ({len(failures)})", *failures] if failures else []) + reasons:
        room -= len(line) + 1
        if room < 60:
            middle.append("  ... more in results.json")
            break
        middle.append(line)
    return "\n".join((*lines, *middle, *tail))


def reduced(one: dict[str, Any]) -> list[str]:
    """The cells of a size: nccl-tests' columns for both ways."""
    if "us" not in one:
        return ["n/a", one.get("na", "")[:80], "", "", "", "", "", ""]
    cells, times = [], one["us"]
    for name in ("distarray", "NCCL"):
        us = times.get(name)
        rates = (
            [f"{one['bytes'] / us / 1e3:.2f}", f"{one['bytes'] * one['bus'] / us / 1e3:.2f}"] if us else ["n/a", "n/a"]
        )
        cells += [f"{us:.1f}" if us else "n/a", *rates]
    if not times.get("NCCL"):
        return [*cells, "n/a", "WRONG" if not one["ok"] else "n/a"]
    share = times["NCCL"] / times["distarray"]
    said = "no bar" if one["bytes"] < 1 << 20 else "met" if share >= 0.95 else "below 95 %"
    return [*cells, f"{share:.1%}", said if one["ok"] else "WRONG"]


def stop(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--out", type=Path, default=Path(os.environ.get("OUT") or "many_gpus_out"), help="for logs and results"
    )
    parser.add_argument("--gpus", type=int, default=2, help="how many GPUs (default 2)")
    parser.add_argument("--budget", type=float, default=520, help="seconds for all steps together (default 520)")
    parser.add_argument("--only", default="", help="names of steps, with commas")
    parser.add_argument("--dry-run", action="store_true", help="run a made-up program instead of each step")
    parser.add_argument("--kind", choices=("cuda", "host"), default="cuda")
    parser.add_argument(
        "--mpirun", default="mpirun --allow-run-as-root --bind-to none", help="how to start MPI programs"
    )
    options = parser.parse_args()
    start = time.monotonic()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    (out / "all.log").write_text("")
    todo = steps(options)
    if options.only:
        names = options.only.split(",")
        if unknown := set(names) - {step.name for step in todo}:
            parser.error(f"no steps {sorted(unknown)}; there are {', '.join(step.name for step in todo)}")
        todo = [step for step in todo if step.name in names]
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    signal.signal(signal.SIGTERM, stop)
    results: list[dict[str, Any]] = []

    def save() -> str:
        text = report(todo, results, time.monotonic() - start, options.gpus)
        (out / "table.txt").write_text(text + "\n")
        facts = {
            "steps": [{**vars(step), "command": shlex.join(step.command)[:600]} for step in todo],
            "results": results,
        }
        (out / "results.json").write_text(json.dumps(facts, indent=1))
        return text

    try:
        for step in todo:
            left = options.budget - (time.monotonic() - start) - 10  # ending a step takes some, too
            if left < 8:
                step.summary = "no time was left"
                continue
            text = run(step, min(step.limit, left), out, options.dry_run)
            read(step, text, results)
            save()
            print(f"{time.monotonic() - start:4.0f} s {step.name}: {step.state}", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    print(save(), flush=True)


if __name__ == "__main__":
    main()
