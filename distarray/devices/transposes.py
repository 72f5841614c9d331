"""Copies between arrays of different axis order, through tiles in shared memory: both sides then move whole lines.

A plain copy kernel reads or writes one element a line there, and moves eight times what it needs to.
"""

from __future__ import annotations

from distarray.devices.arrays import DeviceArray, Library
from distarray.devices.kernels import Kernel, Kernels, collapse

__all__ = ["source_of", "transposed_copy"]

LEAST = 1 << 14
"""Elements below which a copy is no longer than its launch."""

_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "uint2", 16: "uint4"}
_THREADS = 256
_AROUND = 2
"""Axes that a kernel takes besides the two of a tile."""

_KERNELS = Kernels(64)


def source_of(itemsize: int) -> tuple[str, str]:
    """The kernel for elements of a size, and the members of its argument."""
    tile = 64 if itemsize <= 4 else 32
    word, down = _WORDS[itemsize], _THREADS // tile
    source = f"""
typedef {word} T;
struct Args {{
    const T* p; T* q;
    long long near, far, p_far, q_near, across, down, size1, size0, p0, p1, q0, q1;
}};
extern "C" __global__ void __launch_bounds__({_THREADS}) kernel(const __grid_constant__ Args a) {{
    __shared__ T held[{tile}][{tile + 1}];
    long long tile = blockIdx.x;
    const long long x = tile % a.across * {tile}; tile /= a.across;
    const long long y = tile % a.down * {tile}; tile /= a.down;
    const long long i1 = tile % a.size1, i0 = tile / a.size1;
    const T* p = a.p + i0 * a.p0 + i1 * a.p1;
    T* q = a.q + i0 * a.q0 + i1 * a.q1;
    const int lane = threadIdx.x % {tile}, row = threadIdx.x / {tile};
    p += x + lane + (y + row) * a.p_far;
    q += y + lane + (x + row) * a.q_near;
    const long long p_step = {down} * a.p_far, q_step = {down} * a.q_near;
    if (x + {tile} <= a.near && y + {tile} <= a.far) {{
        T mine[{tile // down}];
        #pragma unroll
        for (int k = 0; k < {tile // down}; ++k) mine[k] = p[k * p_step];
        #pragma unroll
        for (int k = 0; k < {tile // down}; ++k) held[row + k * {down}][lane] = mine[k];
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < {tile // down}; ++k) q[k * q_step] = held[lane][row + k * {down}];
    }} else {{
        for (int k = 0; k < {tile}; k += {down})
            if (x + lane < a.near && y + row + k < a.far) held[row + k][lane] = p[k / {down} * p_step];
        __syncthreads();
        for (int k = 0; k < {tile}; k += {down})
            if (x + row + k < a.near && y + lane < a.far) q[k / {down} * q_step] = held[lane][row + k];
    }}
}}
"""
    return source, "PP" + "q" * 12


def transposed_copy(lib: Library, dst: DeviceArray, src: DeviceArray) -> bool:
    """``dst[...] = src`` for arrays of one shape, dtype and GPU, where the axis along which neighbours of one lie together
    is another for the other. False, and nothing is done, for all else."""
    itemsize = dst.dtype.itemsize
    if dst.size < LEAST or itemsize not in _WORDS or dst.ndim < 2:
        return False
    strides = []
    for array in (dst, src):
        if any(s % itemsize for s in array.strides) or array.data.ptr % itemsize:
            return False
        strides.append(tuple([s // itemsize for s in array.strides]))
    sizes, (to, frm) = collapse(dst.shape, strides)
    if not 2 <= len(sizes) <= 2 + _AROUND or to.count(1) != 1 or frm.count(1) != 1 or to.index(1) == frm.index(1):
        return False
    far, near = to.index(1), frm.index(1)  # along `far` the target's neighbours lie together, along `near` the source's
    if min(sizes[far], sizes[near]) < 16:
        return False
    rest = [k for k in range(len(sizes)) if k not in (far, near)]
    around = [(sizes[k], frm[k], to[k]) for k in rest]
    around = [(1, 0, 0)] * (_AROUND - len(around)) + around
    (size0, p0, q0), (size1, p1, q1) = around
    tile = 64 if itemsize <= 4 else 32
    across, down = -(-sizes[near] // tile), -(-sizes[far] // tile)
    kernel = _KERNELS.get(itemsize, lambda: Kernel(lib, *source_of(itemsize)))
    blocks = across * down * size1 * size0
    kernel(
        blocks, _THREADS, src.data.ptr, dst.data.ptr, sizes[near], sizes[far], frm[far], to[near], across, down, size1,
        size0, p0, p1, q0, q1,
    )  # fmt: skip
    return True
