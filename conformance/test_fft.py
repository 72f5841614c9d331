"""Fourier transforms against NumPy's: every function, any layout and mode, axes cut and whole, lengths odd, prime, cropped
and padded; what they move, and in what memory. `test_fft_lines` has long lines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import distarray as da
from conformance.checking import assert_same, both, check_invariants
from conformance.contexts import context, examples, kind
from conformance.ranks import SHARES, on_ranks
from conformance.strategies import NUMPY, arrays, device_counts, dtypes, layouts, pairs, shapes
from distarray.algorithms import chirp, four_step

SINGLE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
SEVERAL = ["fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2"]
LENGTHS = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 31, 36, 49, 64, 97, 128, 0])


@pytest.fixture(autouse=True, params=[2**16, 1], ids=["small", "split"])
def split_from(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays as small as these go to one device where a single axis is cut; or through the distributed transform, and where
    no factor fits through a convolution in parts."""
    monkeypatch.setattr(four_step, "SPLIT_FROM", request.param)
    monkeypatch.setattr(chirp, "LEAST", chirp.LEAST if request.param > 1 else 1)


def how(*sizes: int) -> dict[str, Any]:
    """Rounding is relative to the largest sum that there could be."""
    return {"exact": False, "ulps": 40, "scale": 20.0 * max(1, int(np.prod(sizes))) ** 0.5 * 9, "zero_sign": False}


def calls(data: st.DataObject, a: np.ndarray) -> tuple[str, dict[str, Any]]:
    name = data.draw(st.sampled_from(SINGLE * 2 + SEVERAL))
    norm = data.draw(st.sampled_from([None, "backward", "ortho", "forward"] * 6 + ["other"]))
    ends = st.integers(-a.ndim, a.ndim - 1) if a.ndim and data.draw(st.integers(0, 19)) else st.just(a.ndim)
    if name in SINGLE:
        n = data.draw(st.sampled_from([None, None, data.draw(LENGTHS)]))
        return name, {"n": n, "axis": data.draw(ends), "norm": norm}
    axes = data.draw(st.lists(ends, min_size=1, max_size=3))
    if data.draw(st.booleans()):
        return name, {"axes": axes, "norm": norm}
    s = [data.draw(st.sampled_from([-1, data.draw(LENGTHS)])) for _ in axes]
    return name, {"s": s[:3], "axes": axes, "norm": norm}


@examples(4)
@given(data=st.data(), n=device_counts)
def test_transforms(data, n):
    shape = tuple(data.draw(st.lists(LENGTHS, max_size=3)))
    while np.prod(shape) > 4000:
        shape = shape[1:]
    a = data.draw(arrays(shape, data.draw(dtypes(NUMPY)), extreme=False))
    name, kwargs = calls(data, a)
    with context(n):
        x = data.draw(pairs(a, n)).x
        sizes = [*shape, *([kwargs.get("n") or 1] if name in SINGLE else [max(s, 1) for s in kwargs.get("s", [])])]
        loose = how(*sizes)
        if a.dtype == np.float16:
            loose["ulps"], loose["unit"] = 8, np.dtype(np.float32)
            scaled = kwargs["norm"] in (("ortho", "forward") if name[0] in "fr" else (None, "backward", "ortho"))
            if scaled or name in ("irfft", "hfft", "irfftn", "irfft2"):  # NumPy has the factor in half precision
                loose["unit"] = a.dtype
        if both(lambda: getattr(np.fft, name)(a, **kwargs), lambda: getattr(np.fft, name)(x, **kwargs), **loose):
            check_invariants(getattr(da.fft, name)(x, **kwargs))
        assert np.array_equal(x.get(), a)


@given(data=st.data(), shares=st.sampled_from(SHARES))
def test_transforms_on_ranks(data, shares):
    shape = data.draw(st.sampled_from([(48,), (97,), (12, 10), (3, 64), (4, 3, 5)]))
    a = np.random.default_rng(5).uniform(-1, 1, shape)
    name = data.draw(st.sampled_from(SINGLE + SEVERAL[:4]))
    layout = data.draw(layouts(shape, sum(shares)))

    def program() -> Any:
        return getattr(np.fft, name)(da.asarray(a, layout=layout)).get()

    ref = getattr(np.fft, name)(a)
    for got in on_ranks(shares, program):
        assert_same(got, ref, local=True, **how(*shape))


@given(data=st.data(), n=device_counts)
def test_out(data, n):
    a = np.arange(12.0).reshape(3, 4)
    with context(n):
        x = da.asarray(a, layout=data.draw(layouts(a.shape, n)))
        out = da.zeros((3, 4), dtype=complex, layout=data.draw(layouts(a.shape, n)))
        assert np.fft.fftn(x, out=out) is out
        assert_same(out, np.fft.fftn(a), **how(12))
        host = np.zeros((3, 4), complex)
        assert np.fft.fft(x, axis=0, out=host) is host
        assert np.allclose(host, np.fft.fft(a, axis=0))
        before = out.get()
        for wrong, error in ((da.zeros((3, 5), dtype=complex), ValueError), (da.zeros((3, 4)), TypeError)):
            with pytest.raises(error):
                np.fft.fft(x, out=wrong)
        assert np.array_equal(out.get(), before)


@given(data=st.data(), n=device_counts)
def test_frequencies_and_shifts(data, n):
    size = data.draw(st.integers(1, 40))
    d = data.draw(st.sampled_from([1.0, 0.1, 3]))
    with context(n):
        assert_same(da.fft.fftfreq(size, d), np.fft.fftfreq(size, d))
        assert_same(da.fft.rfftfreq(size, d), np.fft.rfftfreq(size, d))
        a = data.draw(arrays(data.draw(shapes(min_dims=1)), extreme=False))
        x = data.draw(pairs(a, n)).x
        axes = data.draw(st.sampled_from([None, 0, -1, (0,), a.ndim]))
        shift = data.draw(st.sampled_from([np.fft.fftshift, np.fft.ifftshift]))
        both(lambda: shift(a, axes), lambda: shift(x, axes))


def test_pencils_move_the_data_once_and_the_inverse_takes_them_back():
    a = np.random.default_rng(0).standard_normal((60, 48)) + 0j
    with context(4):
        x = da.asarray(a, layout=da.blocks(0))
        with da.ledger() as log:
            y = da.fft.fft2(x).evaluate()
        assert 0 < log.bytes_moved <= a.nbytes * 3 / 4  # a quarter stays where it is
        assert y.layout == da.zeros(a.shape, layout=da.blocks(1)).layout
        with da.ledger() as log:
            back = da.fft.ifft2(y).evaluate()
        assert log.bytes_moved <= a.nbytes * 3 / 4
        assert back.layout == x.layout
        assert np.allclose(back.get(), a)
        with da.no_implicit_communication():
            da.fft.fft(x, axis=1).evaluate()
            da.fft.rfft(x.real, axis=1).evaluate()


def test_four_steps_move_the_data_twice_and_back():
    a = np.random.default_rng(0).standard_normal(2**17) + 0j
    with context(4):
        x = da.asarray(a, layout=da.blocks(0))
        with da.ledger() as log:
            y = da.fft.fft(x).evaluate()
        assert log.bytes_moved <= 2 * a.nbytes * 3 / 4
        assert y.layout == da.zeros(a.shape, layout=da.cyclic(0)).layout
        with da.ledger() as log:
            back = da.fft.ifft(y).evaluate()
        assert log.bytes_moved <= 2 * a.nbytes * 3 / 4
        assert back.layout == x.layout
        assert np.allclose(back.get(), a)


@pytest.mark.skipif(kind() != "host", reason="cuFFT takes work space of its own, which a limit does not count")
@pytest.mark.parametrize("shape", [(512, 512), (2**18,), (7, 40000)])
def test_memory_stays_within_two_and_a_half_shares(shape):
    n = 4
    whole = int(np.prod(shape)) * 16
    with da.init(devices=n, kind="host", memory_limit=int(2.5 * 2 * whole / n)):
        x = da.zeros(shape, dtype=complex, layout=da.blocks(len(shape) - 1))
        x[(0,) * len(shape)] = 1
        assert bool(np.all(np.abs(da.fft.fftn(x) - 1) < 1e-12))


def test_an_output_of_greater_precision_is_computed_in_it() -> None:
    a = np.random.default_rng(0).standard_normal((6, 4)).astype("float32")
    with context(3):
        out = da.zeros((6, 4), dtype="complex128", layout=da.blocks(0))
        np.fft.fftn(da.asarray(a, layout=da.blocks(0)), out=out)
        assert_same(out, np.fft.fftn(a, out=np.zeros((6, 4), "complex128")), **how(24))


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64", "complex64"])
@pytest.mark.parametrize("name", ["irfft", "hfft"])
def test_inverse_real_transforms_take_any_dtype_on_ranks(name, dtype):
    """What is converted first is what a process has."""
    host = np.arange(48).astype(dtype)

    def program():
        return getattr(np.fft, name)(da.asarray(host, layout=da.blocks(0))).get()

    for got in on_ranks((1, 1), program):
        np.testing.assert_allclose(got, getattr(np.fft, name)(host), rtol=1e-4, atol=1e-3)
