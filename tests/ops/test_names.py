"""Names that NumPy has and distarray lacks, and functions called with host arrays alone."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import distarray as da
from distarray.ops import memory
from distarray.ops.numpy_names import ELSEWHERE, NUMPYS


@pytest.mark.parametrize("there", ["module", "linalg", "fft", "random", "array"])
def test_a_missing_name_says_what_to_do(there: str, four: Any) -> None:
    ours, numpys, call = {
        "module": (da, np, "numpy.{} on x.get()"),
        "linalg": (da.linalg, np.linalg, "numpy.linalg.{} on x.get()"),
        "fft": (da.fft, np.fft, "numpy.fft.{} on x.get()"),
        "random": (da.random, np.random, "numpy.random.{} on x.get()"),
        "array": (da.zeros(3), np.ndarray, "x.get().{}"),
    }[there]
    names = [name for name in dir(numpys) if not name.startswith("_") and name not in dir(ours)]
    assert names
    for name in names:
        assert not hasattr(ours, name)
        with pytest.raises(AttributeError, match="nothing was gathered") as caught:
            getattr(ours, name)
        if callable(getattr(numpys, name)) and not isinstance(getattr(numpys, name), type):
            assert call.format(name) in str(caught.value)
        assert caught.value.name == name


def test_every_public_name_is_there_or_has_its_reason(four: Any) -> None:
    """What is missing stands in a table: of namespaces in theirs, of arrays in that of their attributes."""
    for ours, numpys, missing in (
        (da, np, set(ELSEWHERE)),
        (da.linalg, np.linalg, set()),
        (da.fft, np.fft, set()),
        (da.polynomial, np.polynomial, set()),
        (da.random, np.random, {"random_integers"}),
    ):
        lacking = {name for name in numpys.__all__ if name not in dir(ours)}
        assert lacking <= missing, lacking - missing
        for name in lacking:
            with pytest.raises(AttributeError) as caught:
                getattr(ours, name)
            assert "has no distributed implementation" not in str(caught.value)
    for one, theirs, known in (
        (da.zeros(3), np.ndarray, set(memory.ELSEWHERE)),
        (da.random.default_rng(1), np.random.Generator, set()),
        (da.add, np.ufunc, set()),
        (da.matmul, np.ufunc, set()),
        (da.random.RandomState(1), np.random.RandomState, {"random_integers"}),
    ):
        lacking = {name for name in dir(theirs) if not name.startswith("_") and name not in dir(one)}
        assert lacking <= known, lacking - known
        for name in lacking:
            with pytest.raises(AttributeError):
                getattr(one, name)


def test_names_that_numpy_has_given_up(four: Any) -> None:
    for ours, theirs, name in (
        (da, np, "float_"), (da, np, "Inf"), (da, np, "asfarray"),
    ):  # fmt: skip
        with pytest.raises(AttributeError) as told:
            getattr(theirs, name)
        with pytest.raises(AttributeError, match=re.escape(str(told.value))):
            getattr(ours, name)


def test_names_of_numpys_scalars(four: Any) -> None:
    for x, name in (
        (da.zeros(3)[0], "hex"),
        (da.asarray([3, 4])[1], "denominator"),
        (da.asarray([3, 4]).sum(), "numerator"),
    ):
        with pytest.raises(AttributeError, match=rf"x\.get\(\)\[\(\)\]\.{name}"):
            getattr(x, name)
    with pytest.raises(AttributeError, match=r"has no attribute .hex.$"):
        da.zeros(3).hex  # noqa: B018 - the look-up is what raises


def test_names_that_nobody_has(four: Any) -> None:
    for ours in (da, da.linalg, da.random, da.zeros(3)):
        before = dir(ours)
        for name in ("zeroes", "__nothing__", "_private"):
            with pytest.raises(AttributeError, match=f"has no attribute '{name}'$"):
                getattr(ours, name)
        assert dir(ours) == before


HOST = np.arange(1.0, 13.0).reshape(3, 4)
CALLS: dict[str, Any] = {
    "matmul": lambda m: m.matmul(HOST, HOST.T), "dot": lambda m: m.dot(HOST, HOST.T), "dot scalars": lambda m: m.dot(2, 3),
    "tensordot": lambda m: m.tensordot(HOST, HOST, ((1,), (1,))), "vecdot": lambda m: m.vecdot(HOST, HOST),
    "matvec": lambda m: m.matvec(HOST, HOST[0]), "vecmat": lambda m: m.vecmat(HOST[:, 0], HOST),
    "outer": lambda m: m.outer(HOST[0], [1, 2]), "inner": lambda m: m.inner(HOST, HOST), "vdot": lambda m: m.vdot(HOST, HOST),
    "norm": lambda m: m.linalg.norm(HOST), "norm of lists": lambda m: m.linalg.norm([[3, 4]], axis=1),
    "vector_norm": lambda m: m.linalg.vector_norm(HOST, axis=0), "matrix_norm": lambda m: m.linalg.matrix_norm(HOST),
    "matrix_transpose": lambda m: m.linalg.matrix_transpose(HOST), "take": lambda m: m.take(HOST, [0, 2], 1),
    "take_along_axis": lambda m: m.take_along_axis(HOST, np.zeros((3, 1), int), 1),
    "compress": lambda m: m.compress([True, False, True], HOST, 0), "extract": lambda m: m.extract(HOST > 4, HOST),
    "copy": lambda m: m.copy(HOST), "astype": lambda m: m.astype(HOST, "f4"), "sum": lambda m: m.sum(HOST, axis=0),
    "add": lambda m: m.add(HOST, HOST), "concat": lambda m: m.concat([HOST, HOST]),
    "where": lambda m: m.where(HOST > 3, HOST, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_host_arrays_alone_are_placed(name: str, four: Any) -> None:
    got, expected = CALLS[name](da), np.asarray(CALLS[name](np))
    assert isinstance(got, da.DistributedArray)
    assert got.device == four.group
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got.get(), expected, rtol=1e-14)


def _raises(function: Any, given: Any, kind: Any) -> bool:
    """Whether NumPy's function raises the same."""
    try:
        function(*given)
    except kind:
        return function is not None
    except Exception:
        return False
    return False


def test_no_exported_function_fails_from_inside_on_host_arrays(four: Any) -> None:
    """Called with whatever combination of host arguments, they work or refuse as NumPy does."""
    skipped = {"init", "init_all", "init_process_group", "group", "ledger", "no_implicit_communication"}
    numpys = set(NUMPYS)  # some of them change settings
    some = [HOST, np.eye(3), HOST > 5, HOST[0].astype(int), [1, 2], 2]
    inside = (AssertionError, AttributeError, StopIteration, KeyError, NameError, RuntimeError)
    wrong = []
    for module in (da, da.linalg, da.fft):
        for name in module.__all__:
            function = getattr(module, name)
            if name in skipped or name in numpys or not callable(function) or isinstance(function, type):
                continue
            for arguments in ([a] for a in some), ([a, b] for a in some for b in (a, 0, [0, 1])):
                for given in arguments:
                    given = [a.copy() if isinstance(a, np.ndarray) else a for a in given]
                    try:
                        with np.errstate(all="ignore"):
                            function(*given)
                    except inside as error:
                        theirs = getattr({da: np}.get(module, getattr(np, module.__name__[10:], None)), name, None)
                        if _raises(theirs, given, type(error)):
                            continue
                        wrong.append(f"{module.__name__}.{name}{tuple(map(np.shape, given))}: {error!r}")
                    except Exception:  # as NumPy would refuse them: what it says is tested elsewhere
                        continue
    assert not wrong


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("put", ([0, 5], [9, 8])), ("place", (HOST > 5, [1.0, 2.0])), ("putmask", (HOST > 5, -HOST))],
)
def test_writers_write_host_arrays(name: str, arguments: Any, four: Any) -> None:
    mine, numpys = HOST.copy(), HOST.copy()
    assert getattr(da, name)(mine, *arguments) is None
    getattr(np, name)(numpys, *arguments)
    np.testing.assert_array_equal(mine, numpys)


def test_local_chunks_and_explain_of_host_arrays(four: Any) -> None:
    assert da.explain(HOST).bytes_moved == 0
    assert da.explain(HOST, da.blocks(0)).layout.devices == (0, 1, 2, 3)
    assert [chunk.device for chunk in da.local_chunks(HOST)] == [0, 1, 2, 3]
