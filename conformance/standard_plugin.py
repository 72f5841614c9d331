"""The plugin with which the public suite of the array API standard runs here: it makes the set-up, and the namespace that
the suite tests (``conformance/standard_namespace.py``). Apart from ``conformance/standard.py``, which starts the suite's
processes, since it runs inside them.

The environment variable ``STANDARD_SETUP`` names the set-up: a number of devices; ``scattered``, four devices with every
array that is created in another layout and mode; or ``mpi``. ``STANDARD_KIND`` names the kind of devices, by default "host".
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from random import Random, seed
from typing import Any
from zlib import crc32

import pytest

import distarray as da
from conformance import mpi
from distarray.context import ProcessDefault

SETUP = os.environ["STANDARD_SETUP"]
KIND = os.environ.get("STANDARD_KIND", "host")
DEVICES = 4
CREATION = """asarray arange from_dlpack full full_like linspace meshgrid ones ones_like zeros zeros_like eye""".split()


def pieces_of(n: int, rng: Random) -> list[slice]:
    """Indices that together cover an axis: uneven, strided, overlapping, many."""
    kind = rng.choice(["uneven", "strided", "overlapping", "many", "whole"])
    if kind == "whole" or n < 2:
        return [slice(None)]
    if kind == "strided":
        step = rng.randint(2, 3)
        return [slice(i, None, step) for i in range(step)]
    if kind == "many":
        return [slice(i, i + 1) for i in range(n)] if n < 12 else [slice(i, i + 5) for i in range(0, n, 5)]
    cuts = sorted(rng.randint(0, n) for _ in range(DEVICES - 1))
    halo = 1 if kind == "overlapping" else 0
    return [slice(max(a - halo, 0), min(b + halo, n)) for a, b in zip([0, *cuts], [*cuts, n])]


def scattered(x: Any) -> Any:
    """The same array in a layout and mode that its values decide, so that a test that is repeated sees the same."""
    if not isinstance(x, da.DistributedArray):
        return type(x)(map(scattered, x)) if isinstance(x, (list, tuple)) else x
    value = x.get()
    rng = Random(crc32(value.tobytes(), crc32(f"{x.shape} {x.dtype}".encode())))
    devices = rng.sample(range(DEVICES), rng.randint(1, DEVICES))
    keys: list[tuple[slice, ...]] = [()]
    for n in x.shape[:3]:
        keys = [(*key, piece) for key in keys for piece in pieces_of(n, rng)]
    layout: dict[int, Any] = {}
    for number, key in enumerate(keys):
        for holder in {devices[number % len(devices)], rng.choice(devices)}:
            layout.setdefault(holder, []).append(key)
    if not x.shape:
        layout = {device: [()] for device in devices}
    modes = [da.REPLICA, da.REPLICA, da.SUM, da.MIN, da.MAX, da.PROD]
    mode = rng.choice(modes[:-1] if x.dtype.kind == "c" else modes)
    return x.reshard(layout).change_mode(mode)


_exporting = False
"""Whether the test that runs hands arrays to DLPack, which takes one chunk without a copy, and no more."""


def _scattering(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        # what is asked to share memory with its source, or to lie where it can be shared, is left as it is
        return found if _exporting or kwargs.get("copy") is False else scattered(found)

    return call


def _set_up() -> None:
    if SETUP == "mpi":
        session = mpi.start(KIND)
        ProcessDefault.context = session.context(session.shares(DEVICES))
    else:
        da.init(devices=DEVICES if SETUP == "scattered" else int(SETUP), kind=KIND)


def namespace() -> dict[str, Any]:
    """What the suite gets."""
    names = {name: getattr(da, name) for name in dir(da) if not name.startswith("__") or "array" in name}
    if SETUP == "scattered":
        names |= {name: _scattering(getattr(da, name)) for name in CREATION}
    return names


_set_up()


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    found = mpi.session()
    if found is not None and found.rank > 0:
        config.pluginmanager.get_plugin("terminalreporter")._tw._file = open(os.devnull, "w")  # noqa: SIM115 - open as long as the process
        config.option.json_report_file = os.devnull


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Under MPI: what one rank finds in a test, all of them find."""
    global _exporting
    _exporting = "dlpack" in pyfuncitem.nodeid
    seed(pyfuncitem.nodeid)  # some tests draw by the random module, and all ranks must draw the same
    if mpi.session() is None:
        return None
    mpi.run_item(pyfuncitem)
    return True
