"""Programs import from NumPy's modules under the package's name; generators are saved, and NumPy's older calls are methods, too."""

from __future__ import annotations

import copy
import importlib
import inspect
import json
import pickle

import numpy as np
import pytest

import distarray as da
from distarray.typing import NDArray


@pytest.mark.parametrize(
    "module",
    ["dtypes", "exceptions", "polynomial", "polynomial.polynomial", "polynomial.chebyshev", "lib", "lib.stride_tricks",
     "lib.scimath", "typing", "linalg", "fft", "random", "testing"],
)  # fmt: skip
def test_modules_are_found_by_their_names(module: str) -> None:
    ours, theirs = importlib.import_module(f"distarray.{module}"), importlib.import_module(f"numpy.{module}")
    absent = {name for name in getattr(theirs, "__all__", ()) if not hasattr(ours, name)}
    allowed = {
        "lib": {"array_utils", "format", "introspect", "npyio", "tracemalloc_domain"},  # NumPy's own files and memory
        "typing": {"NBitBase"},  # NumPy gives it up
        "random": {"random_integers"},  # given up since 2015
    }
    assert absent == allowed.get(module, set()) & set(getattr(theirs, "__all__", ()))


def test_annotations_name_the_dtype() -> None:
    assert NDArray is da.DistributedArray
    assert NDArray[np.float64].__args__ == (np.float64,)


def test_errors_of_linear_algebra_have_numpys_type() -> None:
    with da.init(devices=3, kind="host", minimum_chunk=1), pytest.raises(da.linalg.LinAlgError, match="Singular"):
        da.linalg.inv(da.zeros((2, 2)))


def test_windows_are_the_same_function() -> None:
    assert da.lib.stride_tricks.sliding_window_view is da.sliding_window_view
    with pytest.raises(AttributeError, match="sliding_window_view"):
        da.lib.stride_tricks.as_strided  # noqa: B018 - the access is the test


@pytest.mark.parametrize("make", [da.random.default_rng, da.random.RandomState])
def test_generators_go_on_from_a_state_that_was_kept(make: type) -> None:
    with da.init(devices=3, kind="host", minimum_chunk=1):
        rng = make(5)
        rng.normal(size=7)
        holder = rng.bit_generator if make is da.random.default_rng else None
        state = json.loads(json.dumps(holder.state if holder else rng.get_state()))
        twins = [pickle.loads(pickle.dumps(rng)), copy.deepcopy(rng)]
        expected = rng.normal(size=9).get()
        for twin in twins:
            np.testing.assert_array_equal(twin.normal(size=9).get(), expected)
        if holder:
            holder.state = state
        else:
            rng.set_state(state)
        np.testing.assert_array_equal(rng.normal(size=9).get(), expected)


def test_states_of_numpys_generators_are_refused_and_change_nothing() -> None:
    with da.init(devices=2, kind="host"):
        rng = da.random.RandomState(1)
        before = rng.get_state()
        for state in (np.random.RandomState(1).get_state(), np.random.default_rng(1).bit_generator.state, {}):
            with pytest.raises(ValueError, match="default_rng"):
                rng.set_state(state)
        assert rng.get_state() == before


@pytest.mark.parametrize(
    "seed", [np.random.SeedSequence(3), np.random.PCG64(3), np.random.Philox(3), np.random.default_rng(3), [3], 3]
)
def test_seeds_of_every_form(seed: object) -> None:
    with da.init(devices=2, kind="host"):
        drawn = [da.random.default_rng(seed).random(4).get(), da.random.RandomState(seed).rand(4).get()]
        np.testing.assert_array_equal(*drawn)
        np.testing.assert_array_equal(drawn[0], da.random.default_rng(3).random(4).get() if seed != [3] else drawn[1])


def test_generators_are_made_of_numpys_bit_generators() -> None:
    with da.init(devices=2, kind="host"):
        made = da.random.Generator(da.random.PCG64(8))
        np.testing.assert_array_equal(made.random(5).get(), da.random.default_rng(8).random(5).get())
        with pytest.raises(TypeError, match="default_rng"):
            da.random.Generator(8)  # type: ignore[arg-type]


def test_older_calls_are_methods_of_a_state() -> None:
    with da.init(devices=3, kind="host", minimum_chunk=1):
        da.random.seed(11)
        state = da.random.RandomState(11)
        for name, args in [("rand", (2, 3)), ("randn", (4,)), ("randint", (0, 9, (3, 2))), ("random_sample", (5,)),
                           ("normal", (1.0, 2.0, 6)), ("choice", (7, 3)), ("permutation", (6,))]:  # fmt: skip
            np.testing.assert_array_equal(getattr(da.random, name)(*args).get(), getattr(state, name)(*args).get())
            assert "self" not in inspect.signature(getattr(da.random, name)).parameters
        kept = da.random.get_state()
        first = da.random.rand(3).get()
        da.random.set_state(kept)
        np.testing.assert_array_equal(da.random.rand(3).get(), first)
        values = state.tomaxint(100)
        assert values.dtype == np.int64
        assert int(values.min()) >= 0
        assert int(values.max()) > 2**60
