"""Fourier transforms of long lines along an axis that is cut: any lengths, cropped and padded, in blocks, and in what memory.

Each test sets from where on transforms are distributed, in blocks or in parts; `test_fft` has those that run either way.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import distarray as da
from conformance.checking import assert_same
from conformance.contexts import context, kind
from conformance.test_fft import how
from distarray.algorithms import chirp, four_step


@pytest.mark.skipif(kind() != "host", reason="cuFFT takes work space of its own, which a limit does not count")
@pytest.mark.parametrize("n", [2, 3, 4, 7])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_one_axis_stays_within_two_and_a_half_shares(name: str, n: int) -> None:
    a = np.random.default_rng(0).standard_normal((1 << 16) + (name == "irfft"))
    a = a.astype("float64" if name == "rfft" else "complex128")
    f = getattr(np.fft, name)
    ref = f(a)
    limit = int(2.5 * (a.nbytes + ref.nbytes) / n)
    with da.init(devices=n, kind="host", memory_limit=limit, minimum_chunk=1):
        x = da.asarray(a, layout=da.blocks(0))
        with da.ledger() as log:
            found = f(x)
        assert log.bytes_moved <= {"rfft": 3, "irfft": 4}.get(name, 3 if n in (3, 7) else 2) * a.nbytes
        assert_same(found, ref, **how(ref.size))


ONE_AXIS = {"fft": "complex128", "ifft": "complex64", "rfft": "float64", "irfft": "complex128", "hfft": "complex64"}


@pytest.mark.skipif(kind() != "host", reason="cuFFT takes work space of its own, which a limit does not count")
@pytest.mark.parametrize("n", [16411, 2 * 8209, 3**4 * 199, 4 * 4099])
@pytest.mark.parametrize("name", ONE_AXIS)
def test_lengths_of_any_factors_stay_within_two_and_a_half_shares(
    name: str, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Primes, twice and four times a prime, and odd ones; a convolution in parts moves the padded data three times."""
    monkeypatch.setattr(chirp, "LEAST", 1)
    monkeypatch.setattr(four_step, "SPLIT_FROM", 1)
    rng = np.random.default_rng(0)
    half = name in ("irfft", "hfft")
    size = n // 2 + 1 if half else n
    a = (rng.standard_normal(size) + (0 if name == "rfft" else 1j * rng.standard_normal(size))).astype(ONE_AXIS[name])
    f = partial(getattr(np.fft, name), n=n) if half else getattr(np.fft, name)
    ref = f(a)
    with da.init(devices=4, kind="host", memory_limit=int(2.5 * (a.nbytes + ref.nbytes) / 4), minimum_chunk=1):
        x = da.asarray(a, layout=da.blocks(0))
        with da.ledger() as log:
            found = f(x)
        assert log.bytes_moved <= (12 if name in ("rfft", "irfft", "hfft") else 9) * a.nbytes
        assert_same(found, ref, **how(n))


@pytest.mark.parametrize("least", [1, 1 << 30])
@pytest.mark.parametrize(("shape", "axis"), [((2, 2053), 1), ((2053, 2), 0), ((1, 2209, 1), 1), ((2048, 2), 0)])
def test_split_axes_among_others(shape: Any, axis: int, least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Transforms of an axis that is cut, of cropped and of padded data, in parts and at once."""
    monkeypatch.setattr(chirp, "LEAST", least)
    monkeypatch.setattr(four_step, "SPLIT_FROM", 1)
    rng = np.random.default_rng(0)
    a = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    n = shape[axis]
    with context(5):
        x = da.asarray(a, layout=da.blocks(axis))
        for f in (np.fft.fft, np.fft.ifft, np.fft.irfft, np.fft.hfft):
            for length in (n, n + 12, n // 2 + 5):
                assert_same(f(x, length, axis), f(a, length, axis), **how(n))
        y, b = da.asarray(a.real, layout=da.blocks(axis)), a.real
        for length in (n, n + 12, n // 2 + 5):
            assert_same(np.fft.rfft(y, length, axis), np.fft.rfft(b, length, axis), **how(n))


@pytest.mark.parametrize("dtype", ["complex128", "complex64", "float64"])
@pytest.mark.parametrize("n", [4 * 1024, 3 * 1225, 4 * 16 * 67 + 1, 5 * 4 * 1021])
@pytest.mark.parametrize("split_from", [1, 1 << 16])
def test_long_lines_are_transformed_in_blocks(
    n: int, split_from: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(four_step, "SPLIT_FROM", split_from)
    monkeypatch.setattr(four_step, "LONG", 1)
    monkeypatch.setattr(four_step, "BLOCK", 1 << 8)
    rng = np.random.default_rng(0)
    a = (rng.standard_normal(n) + (1j * rng.standard_normal(n) if dtype[0] == "c" else 0)).astype(dtype)
    with context(4):
        x = da.asarray(a, layout=da.blocks(0))
        for f in (np.fft.fft, np.fft.ifft, *([np.fft.rfft] if dtype[0] == "f" else [])):
            assert_same(f(x), f(a), **how(n))
        assert_same(np.fft.ifft(np.fft.fft(x)), np.fft.ifft(np.fft.fft(a)), **how(n))
