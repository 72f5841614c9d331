"""Cumulative sums and products in one pass: each element is read once and written once.

A block scans a row, or a strip of columns, tile after tile: threads scan what they hold, warps by exchange between their
threads, the block through shared memory, while the next tile is on its way. It serves where there are enough rows or strips
to keep a GPU busy.
"""

from __future__ import annotations

import numpy as np

from distarray.devices.arrays import AnyDType, DeviceArray, Library
from distarray.devices.kernels import Kernel, Kernels
from distarray.fusion.kernels.element import headers_of
from distarray.fusion.kernels.formulas import TYPES
from distarray.fusion.kernels.reductions import arranged

__all__ = ["scan", "source_of"]

LEAST = 1 << 16
"""Elements below which the library's scans serve: a bound of the shape alone, since the order of additions differs."""

_THREADS = 256
_WARPS = _THREADS // 32
_FEWEST = 64
"""Blocks that it takes to be faster than the library."""

_SIGNS = {"add": ("+", "0"), "multiply": ("*", "1")}
_KERNELS = Kernels(256)

_LOADS = """
template <typename T, int N> struct alignas(sizeof(T) * N) Pack { T v[N]; };
"""


def source_of(name: str, source: AnyDType, result: AnyDType, lanes: int, columns: bool, begun: bool) -> tuple[str, str]:
    """The kernel of a scan from dtype `source` to `result`. `begun`: it goes on from a running slice."""
    sign, start = _SIGNS[name]
    work = np.dtype("float32") if result == np.float16 else result
    head = f"""{headers_of({source, result})}{_LOADS}
typedef {TYPES[source]} S; typedef {TYPES[result]} R; typedef {TYPES[work]} A;
struct Args {{ const S* p; R* q; const R* before; long long outer, m, inner, po, pm, strips; }};
__device__ __forceinline__ A join(A a, A b) {{ return a {sign} b; }}
__device__ __forceinline__ A taken(S x) {{ return A(R(x)); }}
"""
    body = _COLUMNS if columns else _ROWS
    for word, text in (
        ("LANES", str(lanes)), ("NONE", f"A({start})"), ("BEGUN", "true" if begun else "false"), ("WARPS", str(_WARPS)),
        ("THREADS", str(_THREADS)),
    ):  # fmt: skip
        body = body.replace(word, text)
    return head + body, "PPPqqqqqq"


_ROWS = """
extern "C" __global__ void __launch_bounds__(THREADS) kernel(const __grid_constant__ Args a) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const long long row = blockIdx.x;
    const S* p = a.p + row * a.po;
    R* q = a.q + row * a.m;
    const bool packed = ((size_t)p % sizeof(Pack<S, LANES>) == 0) && ((size_t)q % sizeof(Pack<R, LANES>) == 0);
    __shared__ A held[2][4 * WARPS];
    A carry = BEGUN ? A(a.before[row]) : NONE;
    S x[4][LANES], y[4][LANES];
    auto load = [&](S (&into)[4][LANES], long long base) {
        #pragma unroll
        for (int u = 0; u < 4; ++u) {
            const long long j = base + (u * THREADS + threadIdx.x) * LANES;
            if (packed && j + LANES <= a.m) {
                const Pack<S, LANES> v = *(const Pack<S, LANES>*)(p + j);
                #pragma unroll
                for (int k = 0; k < LANES; ++k) into[u][k] = v.v[k];
            } else {
                #pragma unroll
                for (int k = 0; k < LANES; ++k) if (j + k < a.m) into[u][k] = p[j + k];
            }
        }
    };
    load(x, 0);
    int turn = 0;
    for (long long base = 0; base < a.m; base += 4 * THREADS * LANES, turn ^= 1) {
        load(y, base + 4 * THREADS * LANES);
        A v[4][LANES], before[4];
        #pragma unroll
        for (int u = 0; u < 4; ++u) {
            const long long j = base + (u * THREADS + threadIdx.x) * LANES;
            #pragma unroll
            for (int k = 0; k < LANES; ++k) {
                const A own = j + k < a.m ? taken(x[u][k]) : NONE;
                v[u][k] = k ? join(v[u][k ? k - 1 : 0], own) : own;
            }
            A all = v[u][LANES - 1];
            #pragma unroll
            for (int d = 1; d < 32; d *= 2) {
                const A left = __shfl_up_sync(0xffffffffu, all, d);
                if (lane >= d) all = join(left, all);
            }
            if (lane == 31) held[turn][u * WARPS + warp] = all;
            const A left = __shfl_up_sync(0xffffffffu, all, 1);
            before[u] = lane ? left : NONE;
        }
        __syncthreads();
        #pragma unroll
        for (int u = 0; u < 4; ++u) {
            A mine = carry;
            #pragma unroll
            for (int w = 0; w < WARPS; ++w) {
                if (w == warp) mine = carry;
                carry = join(carry, held[turn][u * WARPS + w]);
            }
            mine = join(mine, before[u]);
            const long long j = base + (u * THREADS + threadIdx.x) * LANES;
            if (packed && j + LANES <= a.m) {
                Pack<R, LANES> r;
                #pragma unroll
                for (int k = 0; k < LANES; ++k) r.v[k] = R(join(mine, v[u][k]));
                *(Pack<R, LANES>*)(q + j) = r;
            } else {
                #pragma unroll
                for (int k = 0; k < LANES; ++k) if (j + k < a.m) q[j + k] = R(join(mine, v[u][k]));
            }
        }
        #pragma unroll
        for (int u = 0; u < 4; ++u)
            #pragma unroll
            for (int k = 0; k < LANES; ++k) x[u][k] = y[u][k];
    }
}
"""

_COLUMNS = """
extern "C" __global__ void __launch_bounds__(THREADS) kernel(const __grid_constant__ Args a) {
    const int across = threadIdx.x % 8, deep = threadIdx.x / 8 % 4, warp = threadIdx.x / 32;
    const long long strip = blockIdx.x % a.strips, up = blockIdx.x / a.strips;
    const long long j = (strip * 8 + across) * LANES;
    const S* p = a.p + up * a.po + j;
    R* q = a.q + up * a.m * a.inner + j;
    const bool packed = ((size_t)p % sizeof(Pack<S, LANES>) == 0) && ((size_t)q % sizeof(Pack<R, LANES>) == 0)
        && a.pm % LANES == 0 && a.inner % LANES == 0;
    const long long room = a.inner - j;  // columns that there are
    __shared__ A held[2][WARPS][8 * LANES];
    A carry[LANES];
    #pragma unroll
    for (int k = 0; k < LANES; ++k) carry[k] = BEGUN && k < room ? A(a.before[up * a.inner + j + k]) : NONE;
    S x[4][LANES], y[4][LANES];
    auto load = [&](S (&into)[4][LANES], long long base) {
        #pragma unroll
        for (int r = 0; r < 4; ++r) {
            const long long i = base + (warp * 4 + deep) * 4 + r;
            if (i < a.m) {
                if (packed) {
                    if (room > 0) {
                        const Pack<S, LANES> v = *(const Pack<S, LANES>*)(p + i * a.pm);
                        #pragma unroll
                        for (int k = 0; k < LANES; ++k) into[r][k] = v.v[k];
                    }
                } else {
                    #pragma unroll
                    for (int k = 0; k < LANES; ++k) if (k < room) into[r][k] = p[i * a.pm + k];
                }
            }
        }
    };
    load(x, 0);
    int turn = 0;
    for (long long base = 0; base < a.m; base += 16 * WARPS, turn ^= 1) {
        load(y, base + 16 * WARPS);
        A v[4][LANES], before[LANES];
        #pragma unroll
        for (int r = 0; r < 4; ++r) {
            const long long i = base + (warp * 4 + deep) * 4 + r;
            #pragma unroll
            for (int k = 0; k < LANES; ++k) {
                const A own = i < a.m && k < room ? taken(x[r][k]) : NONE;
                v[r][k] = r ? join(v[r ? r - 1 : 0][k], own) : own;
            }
        }
        #pragma unroll
        for (int k = 0; k < LANES; ++k) {
            A all = v[3][k];
            A left = __shfl_up_sync(0xffffffffu, all, 8);
            if (deep >= 1) all = join(left, all);
            left = __shfl_up_sync(0xffffffffu, all, 16);
            if (deep >= 2) all = join(left, all);
            if (deep == 3) held[turn][warp][across * LANES + k] = all;
            left = __shfl_up_sync(0xffffffffu, all, 8);
            before[k] = deep ? left : NONE;
        }
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < LANES; ++k) {
            A mine = carry[k];
            #pragma unroll
            for (int w = 0; w < WARPS; ++w) {
                if (w == warp) mine = carry[k];
                carry[k] = join(carry[k], held[turn][w][across * LANES + k]);
            }
            before[k] = join(mine, before[k]);
        }
        #pragma unroll
        for (int r = 0; r < 4; ++r) {
            const long long i = base + (warp * 4 + deep) * 4 + r;
            if (i < a.m) {
                if (packed) {
                    if (room > 0) {
                        Pack<R, LANES> out;
                        #pragma unroll
                        for (int k = 0; k < LANES; ++k) out.v[k] = R(join(before[k], v[r][k]));
                        *(Pack<R, LANES>*)(q + i * a.inner) = out;
                    }
                } else {
                    #pragma unroll
                    for (int k = 0; k < LANES; ++k) if (k < room) q[i * a.inner + k] = R(join(before[k], v[r][k]));
                }
            }
        }
        #pragma unroll
        for (int r = 0; r < 4; ++r)
            #pragma unroll
            for (int k = 0; k < LANES; ++k) x[r][k] = y[r][k];
    }
}
"""


def scan(
    lib: Library, name: str, array: DeviceArray, out: DeviceArray, axis: int, before: DeviceArray | None = None
) -> bool:
    """``out = ufunc.accumulate(array, axis)`` for ``add`` and ``multiply``, on the current device.

    Parameters
    ----------
    before : cupy.ndarray, optional
        The running slice to go on from: of the dtype of `out`, in C order, with length 1 along the axis.

    Returns
    -------
    bool
        False, and nothing is done, where this kernel does not serve.
    """
    source, result = array.dtype, out.dtype
    if (
        name not in _SIGNS
        or array.size < LEAST
        or source not in TYPES
        or result not in TYPES
        or result.kind not in "iuf"
    ):
        return False
    if not out.flags.c_contiguous or (before is not None and not before.flags.c_contiguous):
        return False
    item = source.itemsize
    found = arranged(array.shape, [tuple([s // item for s in array.strides])], (axis,))
    if found is None:
        return False
    outer, m, inner, ((po, pm, pi),) = found
    columns = inner > 1
    if (pi if columns else pm) != 1 or m < 2:
        return False
    lanes = max(1, min(4, 16 // max(item, result.itemsize)))
    strips = -(-inner // (8 * lanes)) if columns else 1
    if outer * strips < _FEWEST:
        return False
    key = (name, source, result, lanes, columns, before is not None)
    kernel = _KERNELS.get(key, lambda: Kernel(lib, *source_of(*key)))
    held = 0 if before is None else before.data.ptr
    kernel(outer * strips, _THREADS, array.data.ptr, out.data.ptr, held, outer, m, inner, po, pm, strips)
    return True
