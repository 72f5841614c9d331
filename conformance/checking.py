"""How results are compared with NumPy's: bit for bit, or within a tolerance where rounding may differ; and the
invariants that every distributed array must keep."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import ml_dtypes
import numpy as np

import distarray as da
from conformance.contexts import kind
from conformance.mpi import every_chunk


def on_gpu() -> bool:
    """Whether the devices under test are GPUs: their results may differ from NumPy's as ``docs/gpu.md`` says."""
    return kind() != "host"


#: Functions -> the ulps by which a GPU may differ, and the size of what is added up to which they are relative.
GPU_ULPS: dict[str, tuple[float, Any]] = {
    "logaddexp": (64, 16.0), "logaddexp2": (64, 16.0), "power": (256, None), "pow": (256, None), "ipow": (256, None),
    "float_power": (256, None),
}  # fmt: skip


def allowed(name: str, how: dict[str, Any]) -> dict[str, Any]:
    """How a function's results are compared; on GPUs with what ``docs/gpu.md`` allows it."""
    if on_gpu() and name in GPU_ULPS:
        ulps, scale = GPU_ULPS[name]
        return (
            how | {"exact": False, "ulps": max(ulps, how.get("ulps", 0))} | ({} if scale is None else {"scale": scale})
        )
    return how


def put(chunk: Any, value: Any) -> None:
    """Set every element of a live chunk; a GPU's with that GPU current."""
    with getattr(chunk, "device", None) if hasattr(chunk, "get") else nullcontext():
        chunk[...] = value


def to_numpy(chunk: Any) -> np.ndarray:
    """A chunk as a NumPy array, from the host or a GPU."""
    return chunk.get() if hasattr(chunk, "get") and not isinstance(chunk, da.DistributedArray) else np.asarray(chunk)


def eps(dtype: np.dtype) -> float:
    """Distance from 1 to the next value of a floating dtype."""
    return float((ml_dtypes if dtype.kind == "V" or dtype.name == "bfloat16" else np).finfo(dtype).eps)


def is_exact(dtype: np.dtype) -> bool:
    """Whether arithmetic in the dtype is exact."""
    return dtype.kind in "biu"


def _wide(a: np.ndarray) -> np.ndarray:
    return a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)


def _bits(a: np.ndarray, zero_sign: bool, one_nan: bool = False) -> np.ndarray:
    """The values with every NaN made one, as integers (or pairs of them)."""
    a = np.array(a, order="C", copy=True)
    if a.dtype.kind == "c":
        a = a.reshape(*a.shape, 1).view(a.real.dtype)
        if on_gpu() or one_nan:  # the other part of a complex NaN is lost in extrema
            a[(a != a).any(axis=-1)] = np.nan
    if a.dtype.kind not in "biu":
        a[a != a] = np.nan
        if not zero_sign:
            a[a == 0] = 0
    return a.view(f"u{a.dtype.itemsize}") if a.dtype.kind != "b" else a


def _describe(got: np.ndarray, ref: np.ndarray, wrong: np.ndarray) -> str:
    if wrong.ndim > ref.ndim:
        wrong = wrong.any(axis=-1)
    first = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.ndim else ()
    return (f"{int(wrong.sum())} of {ref.size} elements differ; the first at {first}: got {got[first]!r}, "
            f"NumPy has {ref[first]!r}\ngot:\n{got}\nNumPy:\n{ref}")  # fmt: skip


def assert_same(dist: Any, ref: Any, *, exact: bool = True, ulps: float = 4, scale: Any = None,
                zero_sign: bool = True, local: bool = False, one_nan: bool = False, unit: Any = None,
                squared: bool = False) -> None:  # fmt: skip
    """Assert that `dist` is a distributed array with NumPy's dtype, shape and values.

    `exact`: bit for bit, with NaN equal to NaN and the sign of zeros kept (`zero_sign`). Otherwise floating values may
    differ by `ulps` units of the dtype's precision, relative to max(|ref|, scale). `local` accepts NumPy results;
    `one_nan` takes all complex NaNs for one;
    `unit`: the dtype whose precision counts where it is less than the result's. `squared`: squares are compared, for a
    square root of what may be near zero.
    """
    if isinstance(ref, tuple):
        assert isinstance(dist, tuple), f"got {type(dist).__name__}, NumPy returns a tuple"
        assert len(dist) == len(ref)
        for d, r in zip(dist, ref):
            assert_same(d, r, exact=exact, ulps=ulps, scale=scale, zero_sign=zero_sign, local=local, one_nan=one_nan, unit=unit,
                        squared=squared)  # fmt: skip
        return
    if not isinstance(ref, (np.ndarray, np.generic)):  # None, or a Python scalar
        assert type(dist) is type(ref) or isinstance(dist, da.DistributedArray), f"got {dist!r}, NumPy has {ref!r}"
        assert (dist.get() if isinstance(dist, da.DistributedArray) else dist) == ref
        return
    ref = np.asarray(ref)
    if not local:
        assert isinstance(dist, da.DistributedArray), f"got a {type(dist).__name__}, not a DistributedArray"
    assert tuple(dist.shape) == ref.shape, f"shape {dist.shape}, NumPy has {ref.shape}"
    assert dist.dtype == ref.dtype, f"dtype {dist.dtype}, NumPy has {ref.dtype}"
    got = np.asarray(dist)
    assert got.shape == ref.shape, f"get() has shape {got.shape}, the array says {ref.shape}"
    assert got.dtype == ref.dtype, f"get() has dtype {got.dtype}, the array says {ref.dtype}"
    if exact or is_exact(ref.dtype):
        wrong = np.asarray(_bits(got, zero_sign, one_nan) != _bits(ref, zero_sign, one_nan))
        assert not wrong.any(), _describe(got, ref, wrong)
        return
    with np.errstate(all="ignore"):
        wide_got, wide_ref = _wide(got), _wide(ref)
        if squared:
            wide_got, wide_ref = wide_got**2, wide_ref**2
        bound = np.abs(wide_ref) if scale is None else np.maximum(np.abs(wide_ref), np.abs(scale))
        coarse = eps(unit) if unit is not None and not is_exact(unit) else 0.0
        near = np.abs(wide_got - wide_ref) <= ulps * max(eps(ref.dtype), coarse) * bound + 1e-30
        if ref.dtype.kind == "c":  # inf in a part: compare parts only where both are finite
            ends = ~np.isfinite(wide_ref) & ~np.isfinite(wide_got)
            if on_gpu():  # complex functions of infinities end in NaN there
                ends |= np.isnan(wide_got)
        else:
            ends = (wide_got == wide_ref) | (np.isnan(wide_ref) & np.isnan(wide_got))
    wrong = np.asarray(~(near | ends))
    assert not wrong.any(), _describe(got, ref, wrong)


def outcome(call: Callable[[], Any]) -> tuple[Any, Exception | None]:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call(), None
        except Exception as error:
            return None, error


def _public(error: Exception) -> list[type]:
    """The builtin exception types that an error must be caught as."""
    bases = [c for c in type(error).__mro__ if c.__module__ == "builtins" and issubclass(c, Exception)]
    return [c for c in bases if not any(issubclass(other, c) and other is not c for other in bases)]


def both(np_call: Callable[[], Any], da_call: Callable[[], Any], *, also: Any = (), **how: Any) -> bool:
    """Make NumPy's call and ours: the results are the same, or both raise and ours is caught as NumPy's would be.

    `also`: exception types that are right too, where a call has several faults and NumPy meets another one first. Other
    keywords go to `assert_same`. Returns whether the calls succeeded.
    """
    ref, np_error = outcome(np_call)
    got, da_error = outcome(da_call)
    if np_error is not None:
        assert da_error is not None, f"NumPy raises {type(np_error).__name__}: {np_error}\ngot {got!r}"
        for kind in _public(np_error):
            assert isinstance(da_error, (kind, *also)), f"NumPy raises {np_error!r}, got {da_error!r}"
        return False
    if da_error is not None:
        raise AssertionError(f"NumPy returns {ref!r}, got {da_error!r}") from da_error
    assert_same(got, ref, **how)
    return True


def as_dict(index_map: Any) -> dict[int, list[tuple[slice, ...]]]:
    """An array's index map as the raw dict form."""
    return index_map.to_dict() if hasattr(index_map, "to_dict") else dict(index_map)


def check_invariants(x: Any) -> None:
    """Assert what every distributed array keeps: chunks fit their regions, replicas are bit-equal, nothing is missing.

    It takes the chunks out of the array, which marks its storage as exposed: check at the end of a test.
    """
    value = np.asarray(x.get())
    assert value.shape == tuple(x.shape)
    assert value.dtype == x.dtype
    regions = as_dict(x.index_map)
    chunks = every_chunk(x)
    assert set(chunks) == {device for device, held in regions.items() if held} | {d for d in chunks if not chunks[d]}
    seen = np.zeros(x.shape, bool)
    replica = x.mode in (None, da.REPLICA)
    with np.errstate(all="ignore"):
        total = None if replica else np.full(x.shape, x.mode.unheld(x.dtype), x.dtype)
        for device, held in regions.items():
            assert len(held) == len(chunks[device])
            for region, chunk in zip(held, chunks[device]):
                data = to_numpy(chunk)
                assert data.dtype == x.dtype
                assert data.shape == value[region].shape, f"device {device}: {data.shape} for {region} of {x.shape}"
                if total is not None:
                    fresh = np.where(seen[region], total[region], x.mode.identity(x.dtype))
                    seen[region] = True
                    total[region] = x.mode.fold(fresh, data)
                    continue
                seen[region] = True
                same = _bits(data, True) == _bits(value[region], True)
                assert np.all(same), f"device {device}: its copy of {region} differs from the array's value"
    if total is None:
        assert seen.all(), "elements without a device"
    else:
        loose = not is_exact(x.dtype)
        scale = np.nan_to_num(np.abs(_wide(value)), posinf=0).max(initial=0) if loose else None
        assert_same(total, value, exact=not loose, ulps=64, scale=scale, local=True)
