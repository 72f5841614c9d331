"""Elements chosen by a mask, in order, and rows chosen by their numbers.

A mask is read twice: to count in tiles, and to write. A block lists the chosen positions of its tile first, so that
reads and writes of neighbours go together.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from distarray.devices.arrays import DeviceArray, Library
from distarray.devices.kernels import Kernel, Kernels

__all__ = ["PIECES", "compress", "sources", "take_rows", "take_rows_of", "takes_rows"]

LEAST = 1 << 16
"""Elements below which the library serves as well."""

PIECES = 8
"""Arrays that lie one behind the other along the axis that is taken from: so many are known to a kernel."""

_THREADS = 256
_EACH = 16
_TILE = _THREADS * _EACH
_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "uint2", 16: "uint4"}
_KERNELS = Kernels(64)

_MASK = f"""
// sixteen flags of a thread, as bits; their bytes are 0 or 1
__device__ __forceinline__ unsigned int flags(const unsigned char* mask, long long first, long long n) {{
    unsigned int bits = 0;
    if (first + {_EACH} <= n && (unsigned long long)(mask + first) % 16 == 0) {{
        const uint4 four = *(const uint4*)(mask + first);
        const unsigned int words[4] = {{four.x, four.y, four.z, four.w}};
        #pragma unroll
        for (int w = 0; w < 4; ++w) bits |= ((words[w] & 0x01010101u) * 0x10204080u >> 28) << (4 * w);
    }} else {{
        for (int k = 0; k < {_EACH}; ++k) if (first + k < n && mask[first + k]) bits |= 1u << k;
    }}
    return bits;
}}
__device__ __forceinline__ int before_me(int own, int& total) {{
    __shared__ int held[{_THREADS // 32}];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int all = own;
    #pragma unroll
    for (int d = 1; d < 32; d *= 2) {{ const int left = __shfl_up_sync(0xffffffffu, all, d); if (lane >= d) all += left; }}
    if (lane == 31) held[warp] = all;
    __syncthreads();
    int sum = 0, mine = 0;
    #pragma unroll
    for (int w = 0; w < {_THREADS // 32}; ++w) {{ if (w == warp) mine = sum; sum += held[w]; }}
    total = sum;
    return mine + all - own;
}}
"""


def sources(itemsize: int) -> dict[str, tuple[str, str]]:
    """The kernels for elements of a size: their sources, and the members of their arguments."""
    word = _WORDS[itemsize]
    return {
        "count": (_COUNT, "PPq"),
        "write": (_write(word), "PPPPq"),
        "rows": (_rows(word), "PPPPqqqq"),
        "pieces": (_pieces(word), "PPqq" + "P" * PIECES + "q" * PIECES),
    }


_COUNT = f"""{_MASK}
struct Args {{ const unsigned char* mask; long long* counts; long long n; }};
extern "C" __global__ void __launch_bounds__({_THREADS}) kernel(const __grid_constant__ Args a) {{
    int total;
    const long long first = blockIdx.x * {_TILE}ll + threadIdx.x * {_EACH};
    before_me(__popc(flags(a.mask, first, a.n)), total);
    if (threadIdx.x == 0) a.counts[blockIdx.x] = total;
}}
"""
"""How many elements of each tile of a mask are true."""


def _write(word: str) -> str:
    """The elements that a mask chooses, one behind the other. Words in shared memory say which those of a tile are."""
    return f"""{_MASK}
typedef {word} T;
struct Args {{ const T* p; const unsigned char* mask; const long long* ends; T* q; long long n; }};
extern "C" __global__ void __launch_bounds__({_THREADS}) kernel(const __grid_constant__ Args a) {{
    __shared__ unsigned short list[{_TILE}];
    const long long base = blockIdx.x * {_TILE}ll, first = base + threadIdx.x * {_EACH};
    unsigned int bits = flags(a.mask, first, a.n);
    int total, place = before_me(__popc(bits), total);
    while (bits) {{
        list[place++] = threadIdx.x * {_EACH} + __ffs(bits) - 1;
        bits &= bits - 1;
    }}
    __syncthreads();
    T* q = a.q + (a.ends[blockIdx.x] - total);
    const T* p = a.p + base;
    #pragma unroll 4
    for (int k = threadIdx.x; k < total; k += {_THREADS}) q[k] = p[list[k]];
}}
"""


def _rows(word: str) -> str:
    """Rows by number, from numbered places or into them."""
    return f"""
typedef {word} T;
struct Args {{ const T* p; const long long* index; const long long* places; T* q; long long n, width, stride, tiles; }};
extern "C" __global__ void __launch_bounds__({_THREADS}) kernel(const __grid_constant__ Args a) {{
    const long long row = blockIdx.x / a.tiles, tile = blockIdx.x % a.tiles;
    const T* p = a.p + (a.index ? a.index[row] : row) * a.stride;
    T* q = a.q + (a.places ? a.places[row] : row) * a.width;
    const long long first = tile * {_THREADS * 4} + threadIdx.x;
    T held[4];
    #pragma unroll
    for (int k = 0; k < 4; ++k) if (first + k * {_THREADS} < a.width) held[k] = p[first + k * {_THREADS}];
    #pragma unroll
    for (int k = 0; k < 4; ++k) if (first + k * {_THREADS} < a.width) q[first + k * {_THREADS}] = held[k];
}}
"""


def _pieces(word: str) -> str:
    """Rows by number out of several pieces, which follow each other along the first axis."""
    each = range(PIECES)
    return f"""
typedef {word} T;
struct Args {{
    const long long* index; T* q; long long width, tiles; const T {", ".join([f"*p{k}" for k in each])};
    long long {", ".join([f"start{k}" for k in each])};
}};
extern "C" __global__ void __launch_bounds__({_THREADS}) kernel(const __grid_constant__ Args a) {{
    const long long row = blockIdx.x / a.tiles, tile = blockIdx.x % a.tiles, from = a.index[row];
    const T* p = a.p0;
    long long start = a.start0;
    {" ".join([f"if (from >= a.start{k}) {{ p = a.p{k}; start = a.start{k}; }}" for k in each[1:]])}
    p += (from - start) * a.width;
    T* q = a.q + row * a.width;
    const long long first = tile * {_THREADS * 4} + threadIdx.x;
    T held[4];
    #pragma unroll
    for (int k = 0; k < 4; ++k) if (first + k * {_THREADS} < a.width) held[k] = p[first + k * {_THREADS}];
    #pragma unroll
    for (int k = 0; k < 4; ++k) if (first + k * {_THREADS} < a.width) q[first + k * {_THREADS}] = held[k];
}}
"""


def _kernel(lib: Library, name: str, itemsize: int) -> Kernel:
    found: Kernel = _KERNELS.get((name, itemsize), lambda: Kernel(lib, *sources(itemsize)[name]))
    return found


def compress(lib: Library, array: DeviceArray, mask: DeviceArray, count: int) -> Any:
    """``array[mask]`` for a mask of the array's shape with `count` true elements, or None where this does not serve."""
    itemsize = array.dtype.itemsize
    if array.size < LEAST or array.shape != mask.shape or itemsize not in _WORDS or mask.dtype != np.dtype(bool):
        return None
    if not (array.flags.c_contiguous and mask.flags.c_contiguous) or array.data.ptr % itemsize:
        return None
    n, tiles = array.size, -(-array.size // _TILE)
    counts = lib.empty(tiles, np.int64)
    _kernel(lib, "count", itemsize)(tiles, _THREADS, mask.data.ptr, counts.data.ptr, n)
    ends = lib.cumsum(counts)
    out = lib.empty(count, array.dtype)
    _kernel(lib, "write", itemsize)(tiles, _THREADS, array.data.ptr, mask.data.ptr, ends.data.ptr, out.data.ptr, n)
    return out


def takes_rows(array: DeviceArray, out: DeviceArray) -> bool:
    """Whether rows of an array, of `out` too, are long enough and lie in one piece: what `take_rows` serves."""
    width = array.dtype.itemsize * prod(array.shape[1:])
    return bool(width >= 512 and out.size and array.size and out.flags.c_contiguous and array[0].flags.c_contiguous)


def take_rows_of(lib: Library, arrays: list[Any], index: DeviceArray, out: DeviceArray) -> bool:
    """``out = concatenate(arrays)[index]`` along the first axis, for numbers in range (int64) at most `PIECES` arrays of one GPU.

    Returns
    -------
    bool
        False, and nothing is done, where one is not in C order or rows are short.
    """
    width, word = out.nbytes // out.shape[0], 16
    if width < 512 or not all(array.flags.c_contiguous and array.size for array in (*arrays, out)):
        return False
    pointers = [array.data.ptr for array in arrays]
    while word > 1 and (width % word or any(p % word for p in (*pointers, out.data.ptr))):
        word //= 2
    starts = [0]
    for array in arrays[:-1]:
        starts.append(starts[-1] + array.shape[0])
    missing = PIECES - len(arrays)
    width //= word
    tiles = -(-width // (_THREADS * 4))
    _kernel(lib, "pieces", word)(
        tiles * out.shape[0], _THREADS, index.data.ptr, out.data.ptr, width, tiles, *pointers, *[0] * missing, *starts,
        *[1 << 62] * missing,
    )  # fmt: skip
    return True


def take_rows(
    lib: Library, array: DeviceArray, index: DeviceArray | None, out: DeviceArray, places: DeviceArray | None = None
) -> bool:
    """``out[places] = array[index]`` along the first axis for numbers in range (int64), each None for all rows in order.

    Returns
    -------
    bool
        False, and nothing is done, where `takes_rows` says so.
    """
    given = [each for each in (index, places) if each is not None]
    if not takes_rows(array, out) or any(e.dtype != np.int64 or not e.flags.c_contiguous for e in given):
        return False
    count = given[0].size if given else array.shape[0]
    width, stride = out.nbytes // out.shape[0], array.strides[0]
    word = 16
    while word > 1 and (width % word or stride % word or array.data.ptr % word or out.data.ptr % word):
        word //= 2
    width, stride = width // word, stride // word
    tiles = -(-width // (_THREADS * 4))
    pointers = [0 if each is None else each.data.ptr for each in (index, places)]
    if count:
        _kernel(lib, "rows", word)(
            tiles * count, _THREADS, array.data.ptr, *pointers, out.data.ptr, count, width, stride, tiles
        )
    return True
