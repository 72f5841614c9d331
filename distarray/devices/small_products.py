"""Products of small matrices on a GPU, in one launch: cuBLAS takes longer to be called than such a product takes to be computed.

Every element is a sum in the order of its terms, each added with one rounding, so that the result does not depend on how matrices
are cut. The second factor may lie in blocks of rows, as several logical devices of one GPU hold it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distarray.devices.arrays import AnyDType, DeviceArray, Library
from distarray.devices.kernels import Kernel, Kernels

__all__ = ["PIECES", "SmallProduct", "multiply_small", "small_product", "source_of"]

MOST = 1 << 20
"""Multiplications of a product."""

LONGEST = 1 << 9
"""Terms of a sum, which one thread adds."""

PIECES = 16
"""Blocks of rows in which the second factor may lie."""

_TILE = 16
_KERNELS = Kernels(64)
_TYPES = {
    np.dtype("float32"): ("float", 'asm("fma.rn.f32 %0, %1, %2, %0;" : "+f"(sum) : "f"(x), "f"(y));'),
    np.dtype("float64"): ("double", "sum = fma(x, y, sum);"),
}
"""The type in C, and how a term is added: without taking denormal numbers for zero."""

SmallProduct = tuple[Kernel, int, int, tuple[int, ...]]
"""A kernel, its blocks and threads, and what it is passed behind the addresses: of the first factor, the result, and the pieces of
the second."""


def source_of(dtype: AnyDType, pieces: int) -> tuple[str, str]:
    """A kernel's source, and the members of its argument."""
    text, add = _TYPES[dtype]
    pointers = " ".join([f"const T* q{i};" for i in range(pieces)])
    ends = "".join([f", e{i}" for i in range(pieces - 1)])
    found = " ".join([f"if (k >= a.e{i}) {{ q = a.q{i + 1}; first = a.e{i}; }}" for i in range(pieces - 1)])
    source = f"""
typedef {text} T;
struct Args {{ const T* p; T* out; {pointers} long long rows, columns, summed{ends}; }};
extern "C" __global__ void __launch_bounds__({_TILE * _TILE}) kernel(const __grid_constant__ Args a) {{
    __shared__ T left[{_TILE}][{_TILE + 1}], right[{_TILE}][{_TILE + 1}];
    const int across = threadIdx.x % {_TILE}, down = threadIdx.x / {_TILE};
    const long long tiles = (a.columns + {_TILE - 1}) / {_TILE}, band = blockIdx.x / tiles;
    const long long row = band * {_TILE} + down, column = (blockIdx.x - band * tiles) * {_TILE} + across;
    T sum = 0;
    for (long long from = 0; from < a.summed; from += {_TILE}) {{
        const long long i = from + across, k = from + down;
        const T* q = a.q0;
        long long first = 0;
        {found}
        left[down][across] = row < a.rows && i < a.summed ? a.p[row * a.summed + i] : T(0);
        right[down][across] = k < a.summed && column < a.columns ? q[(k - first) * a.columns + column] : T(0);
        __syncthreads();
        #pragma unroll
        for (int n = 0; n < {_TILE}; ++n) {{
            const T x = left[down][n], y = right[n][across];
            {add}
        }}
        __syncthreads();
    }}
    if (row < a.rows && column < a.columns) a.out[row * a.columns + column] = sum;
}}
"""
    return source, "P" * (pieces + 2) + "q" * (pieces + 2)


def small_product(
    lib: Library, dtype: AnyDType, rows: int, columns: int, summed: int, ends: Sequence[int]
) -> SmallProduct | None:
    """How matrices in C order are multiplied whose second factor lies in blocks of rows that end at `ends`; None where that is no
    small product, or of another dtype."""
    if dtype not in _TYPES or not 0 < rows * columns * summed <= MOST or summed > LONGEST or len(ends) > PIECES:
        return None
    kernel = _KERNELS.get((lib, dtype, len(ends)), lambda: Kernel(lib, *source_of(dtype, len(ends))))
    blocks = -(-rows // _TILE) * -(-columns // _TILE)
    return kernel, blocks, _TILE * _TILE, (rows, columns, summed, *ends[:-1])


def multiply_small(lib: Library, left: DeviceArray, right: DeviceArray, into: DeviceArray) -> bool:
    """``into = left @ right`` on the current device and stream; False, and nothing is done, where that is no small product of
    matrices in C order."""
    if not left.ndim == right.ndim == into.ndim == 2 or not left.dtype == right.dtype == into.dtype:
        return False
    if not (left.flags.c_contiguous and right.flags.c_contiguous and into.flags.c_contiguous):
        return False
    (rows, columns), summed = into.shape, left.shape[1]
    found = small_product(lib, into.dtype, rows, columns, summed, (summed,))
    if found is None:
        return False
    kernel, blocks, threads, values = found
    kernel(blocks, threads, left.data.ptr, into.data.ptr, right.data.ptr, *values)
    return True
