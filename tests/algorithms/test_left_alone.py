"""Operations that fail for lack of memory, at whatever step, leave operands and `out` as they were, and nothing allocated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import distarray as da

RNG = np.random.default_rng(0)
LINE = RNG.standard_normal(1 << 14)
SQUARE = RNG.standard_normal((128, 128))
DEFINITE = SQUARE @ SQUARE.T + np.eye(128)

CALLS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "sorted in place": (LINE, lambda x: x.sort()),
    "parted in place": (LINE, lambda x: x.partition(1000)),
    "sorted along the cut axis": (SQUARE, lambda x: x.sort(axis=0)),
    "argsort": (LINE, lambda x: x.argsort()),
    "unique": (LINE, lambda x: np.unique(x, return_inverse=True)),
    "fft in place": (LINE + 0j, lambda x: np.fft.fft(x, out=x)),
    "ifftn in place": (SQUARE + 0j, lambda x: np.fft.ifftn(x, out=x)),
    "cholesky": (DEFINITE, np.linalg.cholesky),
    "solve": (SQUARE, lambda x: np.linalg.solve(x, x)),
    "qr": (SQUARE, np.linalg.qr),
    "svdvals, scaled": (SQUARE * 1e-300, np.linalg.svdvals),
    "eigh": (DEFINITE, np.linalg.eigh),
    "lstsq": (SQUARE, lambda x: np.linalg.lstsq(x, x)),
    "matrix_power": (SQUARE, lambda x: np.linalg.matrix_power(x, -3)),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_fails_leaves_its_operands(name: str) -> None:
    a, f = CALLS[name]
    failed = 0
    for shares in (1.05, 1.3, 1.7, 2.0):
        with da.init(devices=4, kind="host", minimum_chunk=1) as context:
            context.WHOLE = 1
            x = da.asarray(a, layout=da.blocks(0))
            for device in context.local_devices:
                device.memory_limit = int(a.nbytes / 4 * shares) + 4096
            try:
                f(x)
            except MemoryError:
                failed += 1
            else:
                continue
            assert sum([device.allocated for device in context.local_devices]) <= a.nbytes + 4096
            for device in context.local_devices:
                device.memory_limit = None
            np.testing.assert_array_equal(x.get(), a)
    assert failed
