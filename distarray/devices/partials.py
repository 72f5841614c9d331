"""Kernels that fold partial values of which every GPU has a whole copy: each reads all of them where they lie, also on other
GPUs, and folds them in one order, so that all get the same bits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from distarray.devices.arrays import Library
from distarray.devices.kernels import Kernel, Kernels

__all__ = ["MOST", "fold_kernel", "launch_folds"]

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


def fold_kernel(
    lib: Library, fold: str, dtype: np.dtype[Any], copies: int, size: int
) -> tuple[Kernel, int, int] | None:
    """The kernel that folds `copies` arrays of `size` elements, its blocks, and how many numbers these are; None where there is
    none."""
    found = _element(fold, dtype) if fold in _FOLDS and copies <= MOST else None
    if found is None:
        return None
    element, each = found
    kernel = _KERNELS.get((lib, fold, element, copies), lambda: Kernel(lib, *source_of(fold, element, copies)))
    return kernel, -(-size * each // _THREADS), size * each


def launch_folds(
    runtime: Any,
    kernel: Kernel,
    blocks: int,
    numbers: int,
    parts: Sequence[int],
    outs: Sequence[tuple[int, int]],
    givers: Sequence[int],
) -> None:
    """Fold the copies at the addresses `parts` into each of `outs`, which are (GPU, address), on its GPU's compute stream; with
    the order that takes to the compute streams of the GPUs `givers`, on which the copies lie."""
    apart = len({*givers, *[ordinal for ordinal, _ in outs]}) > 1
    here = runtime.current()
    switch, streams = runtime.api.setDevice, runtime.streams
    try:
        ready = {}
        if apart:
            for ordinal in givers:
                switch(ordinal)
                ready[ordinal] = event = runtime.event(ordinal)
                event.record(streams[ordinal])
        done: list[tuple[int, Any]] = []
        met = set()
        for ordinal, address in sorted(outs, key=lambda out: out[0], reverse=True):
            switch(ordinal)
            if apart and ordinal not in met:
                met.add(ordinal)
                for giver, event in ready.items():
                    if giver != ordinal:
                        streams[ordinal].wait_event(event)
            kernel.launch(ordinal, 0, blocks, _THREADS, *parts, address, numbers)
        for ordinal in met:
            switch(ordinal)
            event = runtime.event(ordinal)
            event.record(streams[ordinal])
            done.append((ordinal, event))
        for giver in ready:
            switch(giver)
            for ordinal, event in done:
                if giver != ordinal:
                    streams[giver].wait_event(event)
        for ordinal, event in (*ready.items(), *done):
            runtime.reuse(ordinal, event)
    finally:
        switch(here)
