"""What the conformance tests draw: shapes, dtypes, arrays with extreme values, layouts of every sort, modes, indices.

Values come from a drawn seed, not element by element: drawing stays cheap and hypothesis spends its choices on layouts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

import distarray as da
from conformance.contexts import context, device_numbers

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
BOOL = [np.dtype(bool)]
SIGNED = [np.dtype(t) for t in ("int8", "int16", "int32", "int64")]
UNSIGNED = [np.dtype(t) for t in ("uint8", "uint16", "uint32", "uint64")]
INTEGERS = SIGNED + UNSIGNED
FLOATS = [np.dtype(t) for t in ("float32", "float64")]
COMPLEX = [np.dtype(t) for t in ("complex64", "complex128")]
STANDARD = BOOL + INTEGERS + FLOATS + COMPLEX
NUMPY = STANDARD + [np.dtype("float16")]
ALL = NUMPY + [BFLOAT16]

device_counts = st.deferred(lambda: st.sampled_from(device_numbers()))


def dtypes(among: Sequence[np.dtype] = NUMPY) -> st.SearchStrategy[np.dtype]:
    """A dtype among those given; the common ones come first, so that failures shrink to them."""
    common = [t for t in map(np.dtype, ("int64", "float64")) if t in among]
    return st.sampled_from(common + [t for t in among if t not in common])


def modes(dtype: np.dtype | None = None) -> st.SearchStrategy[Any]:
    """A mode that keeps the values of every array of the dtype (no complex number is a bit-exact identity of PROD)."""
    lossless = [da.REPLICA, da.SUM, da.MAX, da.MIN]
    if dtype is None or np.dtype(dtype).kind != "c":
        lossless.append(da.PROD)
    return st.sampled_from(lossless)


def sides() -> st.SearchStrategy[int]:
    """The length of an axis: zero seldom."""
    return st.sampled_from([1, 2, 3, 4, 5, 6, 7, 8, 11, 0, 3, 4, 5, 2])


@st.composite
def shapes(draw: st.DrawFn, min_dims: int = 0, max_dims: int = 4, max_size: int = 400) -> tuple[int, ...]:
    """A shape: 0-d and zero-size included."""
    ndim = draw(st.sampled_from([d for d in (2, 1, 3, 2, 0, 4, 1) if min_dims <= d <= max_dims] or [min_dims]))
    shape: tuple[int, ...] = ()
    for _ in range(ndim):
        side = draw(sides())
        shape += (side if math.prod(shape) * side <= max_size else 1,)
    return shape


def extremes(dtype: np.dtype) -> np.ndarray:
    """The values of a dtype at which arithmetic goes wrong first."""
    if dtype.kind == "b":
        return np.array([True, False])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.array([info.min, info.max, 0, 1, info.max - 1], dtype)
    real = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0])
    if dtype.kind == "c":
        return np.array([complex(a, b) for a in real for b in real[1:4]] + [0j, -1j], dtype)
    return real.astype(dtype)


@st.composite
def arrays(draw: st.DrawFn, shape: Any = None, dtype: Any = None, *, extreme: bool = True, top: int = 9) -> np.ndarray:
    """An array of mostly ordinary values within [-top, top], with extreme ones among them in one case of three."""
    shape = draw(shapes()) if shape is None else shape
    dtype = draw(dtypes()) if dtype is None else np.dtype(dtype)
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    if dtype.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype.kind in "iu":
        values = rng.integers(0 if dtype.kind == "u" else -top, top + 1, shape).astype(dtype)
    elif dtype.kind == "c":
        values = (rng.uniform(-top, top, shape) + 1j * rng.uniform(-top, top, shape)).astype(dtype)
    else:
        values = np.asarray(rng.uniform(-top, top, shape)).astype(dtype)
    values = np.asarray(values)
    share = draw(st.sampled_from([0.0, 0.0, 0.15, 0.5])) if extreme else 0.0
    if share:
        chosen = rng.choice(extremes(dtype), size=shape)
        values = np.where(rng.random(shape) < share, chosen, values).astype(dtype)
    return values


@st.composite
def axis_pieces(draw: st.DrawFn, n: int) -> list[Any]:
    """Indices of one axis that together cover it: whole, uneven, empty, strided, overlapping, ints."""
    kind = draw(st.sampled_from(["cuts", "strided", "overlap", "even", "whole", "ints", "backward"]))
    if kind == "whole" or n == 0:
        return [slice(None)] * draw(st.integers(1, 2)) if n else [slice(None), slice(0, 0)]
    if kind == "ints" and n <= 4:
        return [i - n if i == n - 1 else i for i in range(n)]
    if kind == "strided":
        step = draw(st.integers(2, 4))
        return [slice(i, None, step) for i in range(step)]
    if kind == "backward":
        return [slice(None, n // 2, -1), slice(n // 2, None, -1)]
    if kind == "even":
        parts = draw(st.integers(2, 4))
        bounds = [n * i // parts for i in range(parts + 1)]
    else:
        bounds = [0, *sorted(draw(st.lists(st.integers(0, n), min_size=1, max_size=4))), n]
    halo = draw(st.integers(1, 2)) if kind == "overlap" else 0
    return [slice(max(a - halo, 0), min(b + halo, n)) for a, b in itertools.pairwise(bounds)]


@st.composite
def raw_maps(draw: st.DrawFn, shape: tuple[int, ...], n: int) -> dict[int, Any]:
    """A dict index map that covers the shape: `axis_pieces`, replicas, several chunks a device, devices left out."""
    devices = draw(st.permutations(range(n)))[: draw(st.integers(1, n))] if draw(st.booleans()) else list(range(n))
    split = draw(st.sets(st.integers(0, len(shape) - 1), max_size=2)) if shape else set()
    keys: list[tuple[Any, ...]] = [()]
    for axis in range(max(split, default=-1) + 1):
        pieces = draw(axis_pieces(shape[axis])) if axis in split else [slice(None)]
        keys = [(*key, piece) for key in keys for piece in pieces]
    found: dict[int, list[Any]] = {}
    shift = draw(st.integers(0, n))
    shared = draw(st.booleans())
    for number, key in enumerate(keys):
        holders = [devices[(number + shift) % len(devices)]]
        if shared and draw(st.booleans()):
            holders.append(draw(st.sampled_from(devices)))
        for device in holders:
            found.setdefault(device, []).append(key)
    if draw(st.sampled_from([False, False, False, True])) and shape:  # one more box over the others
        extra = tuple(slice(draw(st.integers(0, s)), None, draw(st.integers(1, 3))) for s in shape)
        found.setdefault(draw(st.sampled_from(devices)), []).append(extra)
    one = draw(st.booleans())
    result: dict[int, Any] = {}
    for device, indices in found.items():
        single = len(indices) == 1 and one
        index = indices[0] if single else indices
        result[device] = index[0] if single and len(index) == 1 else index
    return result


@st.composite
def specs(draw: st.DrawFn, shape: tuple[int, ...], n: int) -> Any:
    """A layout specification that fits the shape on n devices."""
    kinds = ["replicated"] + (["blocks", "cyclic", "uneven", "grid"] if shape else [])
    kind = draw(st.sampled_from(kinds[::-1]))
    if kind == "replicated":
        return da.replicated()
    axis = draw(st.integers(-len(shape), len(shape) - 1)) if kind != "grid" else 0
    if kind == "blocks":
        return da.blocks(axis)
    if kind == "cyclic":
        return da.cyclic(axis, draw(st.integers(1, 3)))
    if kind == "uneven":
        size = shape[axis]
        cuts = [0, *sorted(draw(st.lists(st.integers(0, size), min_size=n - 1, max_size=n - 1))), size]
        return da.blocks(axis, sizes=[b - a for a, b in itertools.pairwise(cuts)])
    rows = draw(st.sampled_from([d for d in range(1, n + 1) if n % d == 0]))
    return da.grid((n,)) if len(shape) == 1 else da.grid((rows, n // rows))


def layouts(shape: tuple[int, ...], n: int, *, default: bool = True) -> st.SearchStrategy[Any]:
    """A layout for a shape on n devices: a specification, a raw dict, or None (the default layout, where allowed)."""
    kinds = [specs(shape, n), raw_maps(shape, n), raw_maps(shape, n)]
    return st.one_of(*kinds, st.none()) if default else st.one_of(*kinds)


class Pair(NamedTuple):
    """An array under test beside its model, each a view of a base (or the base itself)."""

    x: Any
    ref: np.ndarray
    base_x: Any
    base_ref: np.ndarray


@st.composite
def placed(draw: st.DrawFn, a: np.ndarray, n: int, *, partial: bool = True) -> Any:
    """A distributed array with the values of `a`, in any layout and mode."""
    with context(n):
        x = da.asarray(a, layout=draw(layouts(a.shape, n)))
        if partial and draw(st.sampled_from([False, False, True])):
            x = x.change_mode(draw(modes(a.dtype)))
    return x


@st.composite
def pairs(draw: st.DrawFn, a: np.ndarray, n: int, *, partial: bool = True, views: bool = True) -> Pair:
    """`a` placed on n devices: as it is, or as a view (slices, flips, permutation) of a larger distributed array."""
    if not views or draw(st.sampled_from([True, True, False])):
        ref = a.copy()
        x = draw(placed(ref, n, partial=partial))
        return Pair(x, ref, x, ref)
    perm = draw(st.permutations(range(a.ndim)))
    inner = a.transpose(perm)
    key: tuple[Any, ...] = ()
    back: tuple[Any, ...] = ()
    shape: tuple[int, ...] = ()
    for size in inner.shape:
        start, step, tail = (draw(st.integers(low, 2)) for low in (0, 1, 0))
        shape += (start + step * size + tail,)
        key += (slice(start, start + step * (size - 1) + 1 if size else start, step),)
        back += (slice(None, None, draw(st.sampled_from([1, -1]))),)
    if draw(st.booleans()):
        key, shape = (1, *key), (2, *shape)
    base_ref = np.zeros(shape, a.dtype)
    undo = tuple(int(i) for i in np.argsort(perm))
    ref = base_ref[(*key, ...)][(*back, ...)].transpose(undo)  # the Ellipsis keeps a 0-d view a view
    ref[...] = a
    base_x = draw(placed(base_ref, n, partial=partial))
    x = base_x[(*key, ...)][(*back, ...)].transpose(undo)
    return Pair(x, ref, base_x, base_ref)


def distributed(a: np.ndarray, n: int, **kwargs: Any) -> st.SearchStrategy[Any]:
    """A distributed array equal to `a`: any layout, perhaps in a partial mode, perhaps a view of a larger array."""
    return pairs(a, n, **kwargs).map(lambda pair: pair.x)


@st.composite
def operands(draw: st.DrawFn, n: int, **kwargs: Any) -> Pair:
    """A fresh pair with drawn shape, dtype and values; keywords go to `arrays`."""
    return draw(pairs(draw(arrays(**kwargs)), n))


@st.composite
def broadcastable(draw: st.DrawFn, number: int = 2, max_dims: int = 3) -> list[tuple[int, ...]]:
    """Shapes that broadcast against each other."""
    full = draw(shapes(max_dims=max_dims))
    result = [full]
    for _ in range(number - 1):
        shape = full[draw(st.sampled_from([0, 0, 0, *range(len(full) + 1)])) :]
        result.append(tuple(1 if draw(st.sampled_from([False, False, True])) else s for s in shape))
    return draw(st.permutations(result))


def scalars(dtype: np.dtype) -> st.SearchStrategy[Any]:
    """A Python scalar (weak) or a NumPy one (strong)."""
    python: list[Any] = [True] if dtype.kind == "b" else [2, 0, 1, True]
    python += [-3] if dtype.kind != "u" else []
    python += [0.5, -0.0, float("nan"), float("inf")] if dtype.kind in "fcV" else []
    python += [2 - 1j] if dtype.kind == "c" else []
    return st.sampled_from([*python, np.float32(1.5), np.int16(3), dtype.type(1)])


def axes(ndim: int) -> st.SearchStrategy[int]:
    """One axis, negative ones included (ndim ≥ 1)."""
    return st.integers(-ndim, ndim - 1)


@st.composite
def axis_sets(draw: st.DrawFn, ndim: int) -> Any:
    """None, an axis, or a tuple of axes, negative ones included."""
    if ndim == 0:
        return draw(st.sampled_from([None, ()]))
    kind = draw(st.sampled_from(["one", "none", "tuple"]))
    if kind == "none":
        return None
    if kind == "one":
        return draw(axes(ndim))
    chosen = draw(st.sets(st.integers(0, ndim - 1)))
    return tuple(axis - ndim if draw(st.booleans()) else axis for axis in chosen)


@st.composite
def basic_indices(draw: st.DrawFn, shape: tuple[int, ...], *, newaxis: bool = True, ints: bool = True) -> Any:
    """A basic index: ints, slices with any step, Ellipsis, None; at times too long or out of range by one."""
    key: list[Any] = []
    for size in shape[: draw(st.integers(0, len(shape)))]:
        if ints and size and draw(st.sampled_from([False, False, True])):
            key.append(draw(st.integers(-size, size - 1)))
            continue
        bound = st.none() | st.integers(-size - 1, size + 1)
        key.append(slice(draw(bound), draw(bound), draw(st.sampled_from([None, 1, -1, 2, 3, -2]))))
    if draw(st.booleans()):
        at = draw(st.integers(0, len(key)))
        rest = len(shape) - len(key)
        drop = draw(st.integers(0, len(key) - at))  # axes that the Ellipsis takes from those already indexed
        if rest or drop == 0:
            key = [*key[:at], Ellipsis, *key[at:]] if rest == 0 or at == len(key) else [*key, Ellipsis]
    if newaxis and draw(st.sampled_from([False, False, True])):
        key.insert(draw(st.integers(0, len(key))), None)
    if len(key) == 1 and draw(st.booleans()):
        return key[0]
    return tuple(key)
