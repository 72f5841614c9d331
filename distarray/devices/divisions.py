"""Arrays on a GPU divided at a key: what comes before it first, in order, and the rest behind, in two passes.

One pass counts, in tiles, what comes before the key and what equals it; the other puts every element in its place. A block lines up
its tile in shared memory first, so that reads and writes of neighbours go together. Elements are compared as integers in NumPy's
order of them, NaN last: neither a denormal number nor the sign of a zero is lost to the compiler's arithmetic.
"""

from __future__ import annotations

import numpy as np

from distarray.devices.arrays import AnyDType, DeviceArray, Library
from distarray.devices.kernels import Kernel, Kernels

__all__ = ["divide", "ordinal", "sources"]

_THREADS = 256
_EACH = 16
_TILE = _THREADS * _EACH
_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
_KERNELS = Kernels(32)

_ORDINALS = {
    "u": "return bits;",
    "i": "return (T)(bits ^ TOP);",
    "f": "if ((T)(bits << 1) > (T)(INFINITE << 1)) return (T)~(T)0; if ((T)(bits << 1) == 0) return TOP;"
    " return (T)(bits & TOP ? ~bits : bits | TOP);",
}
"""The place of an element among all of its type, from its bits: NaN last, and both zeros the same."""

_INFINITE = {2: "0x7c00u", 4: "0x7f800000u", 8: "0x7ff0000000000000ull"}


def _kind(dtype: AnyDType) -> str:
    return "u" if dtype.kind == "b" else dtype.kind


def ordinal(value: object, dtype: AnyDType) -> int:
    """The place of a number among all of its type, as the kernels find it."""
    size = 8 * dtype.itemsize
    bits, top = int(np.asarray([value], dtype).view(f"u{dtype.itemsize}")[0]), 1 << (size - 1)
    if dtype.kind == "f":
        if value != value:
            return (1 << size) - 1
        bits = 0 if bits == top else bits
        return (1 << size) - 1 - bits if bits & top else bits | top
    return bits ^ top if dtype.kind == "i" else bits


def _head(kind: str, itemsize: int) -> str:
    return f"""
typedef {_WORDS[itemsize]} T;
#define TOP ((T)((T)1 << {8 * itemsize - 1}))
#define INFINITE ((T){_INFINITE.get(itemsize, 0)})
__device__ __forceinline__ T ordinal(T bits) {{ {_ORDINALS[kind]} }}
// how many come before the key, and in the upper half how many equal it, of the threads before this one
__device__ __forceinline__ unsigned int before_me(unsigned int own, unsigned int& total) {{
    __shared__ unsigned int held[{_THREADS // 32}];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned int all = own;
    #pragma unroll
    for (int d = 1; d < 32; d *= 2) {{
        const unsigned int left = __shfl_up_sync(0xffffffffu, all, d);
        if (lane >= d) all += left;
    }}
    if (lane == 31) held[warp] = all;
    __syncthreads();
    unsigned int sum = 0, mine = 0;
    #pragma unroll
    for (int w = 0; w < {_THREADS // 32}; ++w) {{ if (w == warp) mine = sum; sum += held[w]; }}
    total = sum;
    return mine + all - own;
}}
"""


def sources(kind: str, itemsize: int) -> dict[str, tuple[str, str]]:
    """The kernels for elements of a kind and a size: their sources, and the members of their arguments."""
    head = _head(kind, itemsize)
    return {"count": (_counting(head), "PPqqQ"), "write": (_writing(head), "PPPPqqqQ")}


def _counting(head: str) -> str:
    """How many elements of each tile come before the key, and behind these numbers, how many equal it."""
    return f"""{head}
struct Args {{ const T* p; long long* counts; long long n, tiles; unsigned long long key; }};
extern "C" __global__ void __launch_bounds__({_THREADS}) kernel(const __grid_constant__ Args a) {{
    const T key = (T)a.key;
    unsigned int own = 0, total;
    const long long base = blockIdx.x * {_TILE}ll + threadIdx.x;
    #pragma unroll
    for (int k = 0; k < {_EACH}; ++k) if (base + k * {_THREADS} < a.n) {{
        const T place = ordinal(a.p[base + k * {_THREADS}]);
        own += place < key ? 1u : place == key ? 0x10000u : 0u;
    }}
    before_me(own, total);
    if (threadIdx.x == 0) {{
        a.counts[blockIdx.x] = total & 0xffffu;
        a.counts[a.tiles + blockIdx.x] = total >> 16;
    }}
}}
"""


def _writing(head: str) -> str:
    """Every element into its place."""
    return f"""{head}
struct Args {{ const T* p; const long long *less, *same; T* q; long long n, equals, rank; unsigned long long key; }};
extern "C" __global__ void __launch_bounds__({_THREADS}) kernel(const __grid_constant__ Args a) {{
    __shared__ T held[{_TILE + _TILE // _EACH}];
    const T key = (T)a.key;
    const long long base = blockIdx.x * {_TILE}ll;
    const int count = (int)(a.n - base < {_TILE} ? a.n - base : {_TILE});
    #pragma unroll
    for (int k = 0; k < {_EACH}; ++k) {{
        const int at = k * {_THREADS} + threadIdx.x;
        if (at < count) held[at + at / {_EACH}] = a.p[base + at];
    }}
    __syncthreads();
    T mine[{_EACH}];
    unsigned int own = 0, total;
    const int first = threadIdx.x * {_EACH};
    #pragma unroll
    for (int k = 0; k < {_EACH}; ++k) if (first + k < count) {{
        mine[k] = held[first + threadIdx.x + k];
        const T place = ordinal(mine[k]);
        own += place < key ? 1u : place == key ? 0x10000u : 0u;
    }}
    const unsigned int ahead = before_me(own, total);
    // of the equals of the whole array only the first come before
    const long long less = a.less[blockIdx.x] - (total & 0xffffu), same = a.same[blockIdx.x] - (total >> 16);
    const long long room = a.equals - same, taken = room < 0 ? a.equals : same;
    const int fits = (int)(room < 0 ? 0 : room > {_TILE} ? {_TILE} : room), equal = (int)(total >> 16);
    const int lefts = (int)(total & 0xffffu) + (equal < fits ? equal : fits);
    int lower = (int)(ahead & 0xffffu), alike = (int)(ahead >> 16);
    #pragma unroll
    for (int k = 0; k < {_EACH}; ++k) if (first + k < count) {{
        const T place = ordinal(mine[k]);
        const int before = lower + (alike < fits ? alike : fits);
        const bool goes = place < key || (place == key && alike < fits);
        lower += place < key; alike += place == key;
        held[goes ? before : lefts + first + k - before] = mine[k];
    }}
    __syncthreads();
    T* low = a.q + (less + taken);
    T* high = a.q + (a.rank + base - less - taken);
    for (int k = threadIdx.x; k < count; k += {_THREADS}) if (k < lefts) low[k] = held[k]; else high[k - lefts] = held[k];
}}
"""


def _kernel(lib: Library, name: str, dtype: AnyDType) -> Kernel:
    kind, itemsize = _kind(dtype), dtype.itemsize
    found: Kernel = _KERNELS.get((name, kind, itemsize), lambda: Kernel(lib, *sources(kind, itemsize)[name]))
    return found


def divide(
    lib: Library,
    source: DeviceArray,
    out: DeviceArray | None,
    value: object,
    equals: int | None = None,
    rank: int | None = None,
) -> tuple[int, int]:
    """Put first in `out` what comes before a key in `source`, and so many of its equals, those that are first; then the rest.

    Parameters
    ----------
    source : array of bool, integer or floating dtype
        1-d, without gaps; no part of `out`.
    out : array or None
        Of the same dtype and length; None: `source` itself, where anything has to move.
    value : number
    equals : int, optional
        All by default.
    rank : int, optional
        How many elements come first, with as many equals as that takes, in the place of `equals`.

    Returns
    -------
    less, rank : int
        How many come before the key, and how many were put first.
    """
    n, dtype = source.size, source.dtype
    tiles, key = -(-n // _TILE), ordinal(value, dtype)
    if not n:
        return 0, 0
    counts = lib.empty(2 * tiles, np.int64)
    _kernel(lib, "count", dtype)(tiles, _THREADS, source.data.ptr, counts.data.ptr, n, tiles, key)
    ends = [lib.cumsum(counts[:tiles]), lib.cumsum(counts[tiles:])]
    less, same = (int(each[-1]) for each in ends)
    if rank is not None:
        equals = rank - less
    taken = same if equals is None else max(0, min(equals, same))
    rank = less + taken
    target = out
    if target is None:
        if not 0 < rank < n:
            return less, rank
        target = lib.empty(n, dtype)
    pointers = [array.data.ptr for array in (source, *ends, target)]
    _kernel(lib, "write", dtype)(tiles, _THREADS, *pointers, n, taken, rank, key)
    if out is None:
        source[...] = target
    return less, rank
