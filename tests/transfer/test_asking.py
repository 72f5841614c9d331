"""Who asks for a whole array on the host: counted always; refused inside ``no_implicit_communication()`` unless the user's
own line asked. The lines of this file are a user's."""

from __future__ import annotations

import copy
import pickle
import random
import warnings
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import numpy as renamed
import pytest
from numpy import asarray as other_name

import distarray as da

HOST = np.arange(12.0).reshape(3, 4)


class Holder:
    lib = np


def local_function(x: Any) -> Any:
    function = np.asarray
    return function(x)


ASKED: dict[str, Callable[[Any], Any]] = {
    "asarray": lambda x: np.asarray(x),
    "another module name": lambda x: renamed.asarray(x),
    "another function name": lambda x: other_name(x),
    "an attribute": lambda x: Holder.lib.asanyarray(x),
    "a local": local_function,
    "keywords": lambda x: np.array(x, dtype="f4", copy=True),
    "starred": lambda x: np.asarray(*[x]),
    "within a call": lambda x: np.sort(np.asarray(x)).sum(),
    "an attribute of the result": lambda x: np.asarray(x).sum(),
    "several lines": lambda x: np.asarray(
        x,
        dtype=float,
    ),
    "a comprehension": lambda x: [np.asarray(row) for row in x],
    "nested": lambda x: np.array([x[0], x[1]]),
    "exec": lambda x: exec("import numpy\ny = numpy.asarray(x)", {"x": x}),
    "the method": lambda x: x.__array__(),
    "from_dlpack": lambda x: np.from_dlpack(x),
    "to_numpy": lambda x: x.to_numpy(),
    "get": lambda x: x.get(),
    "to_device": lambda x: x.to_device("cpu"),
    "tolist": lambda x: x.tolist(),
    "scalars": lambda x: (float(x[0, 0]), int(x[0, 1]), bool(x[0, 2]), complex(x[1, 1]), x[1, 2].item(), x.item(3)),
    "a pickle": lambda x: pickle.dumps({"x": x}),
    "text": lambda x: f"{x}{x!r}{x[0, 0]:.2f}" + str(x) + np.array2string(x),
}

UNASKED: dict[str, Callable[[Any], Any]] = {
    "r_": lambda x: np.r_[x, x],
    "c_": lambda x: np.c_[x, x],
    "ascontiguousarray": lambda x: np.ascontiguousarray(x),
    "asfortranarray": lambda x: np.asfortranarray(x),
    "asarray_chkfinite": lambda x: np.asarray_chkfinite(x),
    "permutation": lambda x: np.random.default_rng(0).permutation(x),
    "the old permutation": lambda x: np.random.permutation(x),
    "normal": lambda x: np.random.default_rng(0).normal(x),
    "choice": lambda x: np.random.default_rng(0).choice(x),
    "a host array's item": lambda x: np.zeros((3, 4)).__setitem__(..., x),
    "elements in turn": lambda x: np.fromiter(x.reshape(-1), float),
    "a library's pickle": lambda x: ForkingPickler.dumps(x),
    "testing": lambda x: np.testing.assert_array_equal(x, HOST),
}


def store(x: Any) -> None:
    host = np.zeros((3, 4))
    host[:] = x


def update(x: Any) -> None:
    host = np.zeros((3, 4))
    host += x


WRITES: dict[str, Callable[[Any], Any]] = {
    "an assignment": store,
    "an update": update,
    "copyto": lambda x: np.copyto(np.zeros((3, 4)), x),
    "out= of a ufunc": lambda x: np.multiply(x, 2, out=np.zeros((3, 4))),
    "where=": lambda x: np.multiply(x, 2, out=np.zeros((3, 4)), where=HOST > 2),
    "out= of a sum": lambda x: np.sum(x * np.ones((1, 3, 4)), axis=0, out=np.zeros((3, 4))),
    "out= of a median": lambda x: np.median(x[None], axis=0, out=np.zeros((3, 4))),
    "out= of a scan": lambda x: x.cumsum(axis=1, out=np.zeros((3, 4))),
    "out= of a product": lambda x: np.matmul(np.eye(3), x, out=np.zeros((3, 4))),
    "at": lambda x: np.add.at(np.zeros((3, 4)), np.arange(3), x),
    "out= of a join": lambda x: np.concatenate([x], out=np.zeros((3, 4))),
    "out= of einsum": lambda x: np.einsum("ij->ij", x, out=np.zeros((3, 4))),
    "out= of take": lambda x: np.take(x, np.arange(4), axis=1, out=np.zeros((3, 4))),
    "out= of compress": lambda x: np.compress(np.ones(4, bool), x, axis=1, out=np.zeros((3, 4))),
    "out= of several products": lambda x: np.linalg.multi_dot([np.eye(3), np.eye(3), x], out=np.zeros((3, 4))),
    "out= of random numbers": lambda x: da.random.default_rng(0).permuted(x, axis=1, out=np.zeros((3, 4))),
}
UNASKED |= WRITES


@pytest.mark.parametrize("layout", [da.blocks(0), da.replicated(), None])
@pytest.mark.parametrize("name", ASKED)
def test_what_the_user_asks_for_comes(name: str, layout: Any, four: Any) -> None:
    x = da.asarray(HOST, layout=layout)
    with da.ledger() as log, da.no_implicit_communication():
        ASKED[name](x)
    assert log.bytes_to_host > 0
    assert "to the host" in repr(log)


@pytest.mark.parametrize("layout", [da.blocks(0), da.replicated(), None])
@pytest.mark.parametrize("name", UNASKED)
def test_what_other_code_asks_for_counts_and_can_be_refused(name: str, layout: Any, four: Any) -> None:
    x = da.asarray(HOST, layout=layout)
    with da.ledger() as log:
        UNASKED[name](x)
    assert log.bytes_to_host >= x.nbytes
    with (
        da.ledger() as log,
        da.no_implicit_communication(),
        pytest.raises(da.ImplicitCommunicationError, match=r"x\.get\(\)"),
    ):
        UNASKED[name](x)
    assert log.bytes_to_host == 0


@pytest.mark.parametrize("name", WRITES)
def test_values_that_are_refused_are_not_written(name: str, four: Any) -> None:
    x = da.asarray(HOST, layout=da.blocks(0))
    written: list[Any] = []

    def zeros(*args: Any) -> Any:
        written.append(np.zeros(*args))
        return written[-1]

    source = WRITES[name]
    traced = type(source)(source.__code__, {**source.__globals__, "np": type("np", (), {**vars(np), "zeros": zeros})})
    with da.ledger() as log, da.no_implicit_communication(), pytest.raises(da.ImplicitCommunicationError):
        traced(x)
    assert not log.bytes_moved
    assert not any(array.any() for array in written)


def test_a_line_that_ran_often_is_seen_as_before(four: Any) -> None:
    """Python rewrites the instructions of code that runs often."""
    x = da.zeros(3)

    def asks() -> Any:
        return np.asarray(x)

    def does_not() -> Any:
        return np.ascontiguousarray(x)

    for _ in range(100):
        asks()
        does_not()
    with da.no_implicit_communication():
        for _ in range(3):
            asks()
            with pytest.raises(da.ImplicitCommunicationError, match=r"^ascontiguousarray\(\)"):
                does_not()


def test_the_message_names_who_asked(four: Any) -> None:
    x = da.asarray(HOST)
    with da.no_implicit_communication():
        with pytest.raises(da.ImplicitCommunicationError, match=r"^permutation\(\) asks for all 96 bytes"):
            np.random.default_rng(0).permutation(x)
        with pytest.raises(da.ImplicitCommunicationError, match=r"^numpy\.lib"):
            np.r_[x, x]


SHUFFLES = [
    np.random.default_rng(0).shuffle,
    np.random.RandomState(0).shuffle,
    random.Random(0).shuffle,
]


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("view", [lambda x: x, lambda x: x.T, lambda x: x + 0])
def test_shuffles_that_would_lose_rows_are_refused(shuffle: Any, view: Any, four: Any) -> None:
    for layout in (da.blocks(0), da.replicated()):
        x = view(da.asarray(HOST, layout=layout))
        before = x.get()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(da.UnsupportedError, match=r"x\[\.\.\.\] = x\[rng\.permutation\(len\(x\)\)\]"):
                shuffle(x)
        np.testing.assert_array_equal(x.get(), before)


def test_the_shuffle_that_the_message_names(four: Any) -> None:
    x = da.asarray(HOST, layout=da.blocks(0))
    rng, same = np.random.default_rng(3), np.random.default_rng(3)
    x[...] = x[rng.permutation(len(x))]
    np.testing.assert_array_equal(x.get(), HOST[same.permutation(3)])
    x[0] = x[1]  # through views, as NumPy does
    assert x[0].tolist() == x[1].tolist()
    copied = copy.deepcopy(x)
    copied[0], copied[2] = copied[2].copy(), copied[0].copy()
    assert copied[0].tolist() == x[2].tolist()


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_shuffles_of_one_axis_work(shuffle: Any, four: Any) -> None:
    x = da.arange(7, layout=da.blocks(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shuffle(x)
    assert sorted(x.tolist()) == list(range(7))


def test_strides_stay_within_the_elements(four: Any) -> None:
    """``as_strided`` gets a copy of the elements alone: beside a view's, it would read whatever lies there."""
    x = da.asarray(HOST, layout=da.blocks(0)).ravel()
    as_strided = np.lib.stride_tricks.as_strided
    for view, host in ((x, HOST.ravel()), (x[3:9], HOST.ravel()[3:9])):
        np.testing.assert_array_equal(as_strided(view, (4, 3), (8, 8)), as_strided(host, (4, 3), (8, 8)))
        np.testing.assert_array_equal(as_strided(view), host)
        for shape, strides in (((2, 2), (-8, 8)), ((len(host), 2), (8, 8))):
            with pytest.raises(TypeError, match="beyond the elements"):
                as_strided(view, shape, strides)
