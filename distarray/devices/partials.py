"""Kernels that fold partial values of which every GPU has a whole copy: each reads all of them where they lie, also on other
GPUs, and folds them in one order, so that all get the same bits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from distarray.devices.arrays import Library
from distarray.devices.kernels import Kernel, Kernels
from distarray.devices.moves import StreamOrder

__all__ = ["MOST", "Folds", "fold_kernel", "source_of"]

MOST = 16
"""Copies that a kernel folds."""

_THREADS = 256
_KERNELS = Kernels(64)

_SIGNED = {1: "signed char", 2: "short", 4: "int", 8: "long long"}
_FLOATING = {4: "float", 8: "double"}
_BETTER = "a != a ? a : b != b ? b : a {more} b ? a : b"
_FOLDS = {"add": "a + b", "multiply": "a * b", "maximum": _BETTER.format(more=">"), "minimum": _BETTER.format(more="<")}


@cache
def _element(name: str, dtype: np.dtype[Any]) -> tuple[str, int] | None:
    """The type in C in which values are folded, and how many of it an element has; None where there is none."""
    kind, size = dtype.kind, dtype.itemsize
    extreme = name in ("maximum", "minimum")
    if kind == "f":
        return (_FLOATING[size], 1) if size in _FLOATING else None
    if kind == "c":  # sums of complex numbers are those of their parts
        return (_FLOATING[size // 2], 2) if name == "add" and size // 2 in _FLOATING else None
    if kind == "b":
        return ("unsigned char", 1) if extreme else None
    if kind not in "iu":
        return None
    signed = _SIGNED[size]
    return (signed if kind == "i" and extreme else f"unsigned {signed.removeprefix('signed ')}", 1)


def source_of(fold: str, element: str, copies: int) -> tuple[str, str]:
    """A kernel's source, and the members of its argument."""
    pointers = " ".join([f"const T* p{i};" for i in range(copies)])
    steps = " ".join([f"a = joined(a, g.p{i}[i]);" for i in range(1, copies)])
    source = f"""
typedef {element} T;
struct Args {{ {pointers} T* out; long long size; }};
__device__ __forceinline__ T joined(T a, T b) {{ return {_FOLDS[fold]}; }}
extern "C" __global__ void __launch_bounds__({_THREADS}) kernel(const __grid_constant__ Args g) {{
    const long long i = blockIdx.x * {_THREADS}ll + threadIdx.x;
    if (i >= g.size) return;
    T a = g.p0[i];
    {steps}
    g.out[i] = a;
}}
"""
    return source, "P" * (copies + 1) + "q"


class Folds:
    """One kind of fold, made again and again: of whole copies that lie on some GPUs into arrays on some.

    Parameters
    ----------
    runtime : CudaRuntime
    kernel : Kernel
    size : int
        The numbers of a copy.
    givers, takers : sequence of int
        The GPU of each copy, and of each array that is written.
    """

    def __init__(
        self, runtime: ModuleType, kernel: Kernel, size: int, givers: Sequence[int], takers: Sequence[int]
    ) -> None:
        self._runtime = runtime
        self._kernel = kernel
        self._size = size
        self._takers = tuple(takers)
        self._order = StreamOrder(runtime, (*givers, *takers))

    def run(self, parts: Sequence[int], outs: Sequence[int]) -> None:
        """Fold the copies at the addresses `parts` into those at `outs`, on the compute streams of their GPUs."""
        runtime, size, launch = self._runtime, self._size, self._kernel.launch
        streams, switch = runtime.streams, runtime.api.setDevice
        blocks = -(-size // _THREADS)
        self._order.keep()
        here = at = runtime.current()
        try:
            for ordinal, out in zip(self._takers, outs, strict=True):
                if at != ordinal:
                    switch(ordinal)
                    at = ordinal
                launch(ordinal, streams[ordinal].ptr, blocks, _THREADS, *parts, out, size)
        finally:
            if at != here:
                switch(here)
        self._order.keep()


def fold_kernel(lib: Library, fold: str, dtype: np.dtype[Any], copies: int, size: int) -> tuple[Kernel, int] | None:
    """The kernel that folds `copies` arrays of `size` elements, and how many numbers these are; None where there is none."""
    found = _element(fold, dtype) if fold in _FOLDS and copies <= MOST else None
    if found is None:
        return None
    element, each = found
    return _KERNELS.get(
        (lib, fold, element, copies), lambda: Kernel(lib, *source_of(fold, element, copies))
    ), size * each
