"""An exception of one process is raised by all, as one of its type: NumPy's, the program's own, and what asks for arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import distarray as da
from conformance.ranks import on_ranks
from distarray.failures import alike, remote, told

H = np.arange(12.0)


class ProgramError(Exception):
    """What a program raises of its own."""


class Wanting(ValueError):
    def __init__(self, where: int, *, why: str) -> None:
        super().__init__(f"{where}: {why}")


def unicode_error() -> Exception:
    try:
        b"\xff".decode()
    except UnicodeDecodeError as error:
        return error
    raise AssertionError


RAISED: list[tuple[Exception, type[Exception]]] = [
    (ProgramError("own"), ProgramError),
    (ProgramError("own", 3), ProgramError),
    (ProgramError(), ProgramError),
    (KeyError("name"), KeyError),
    (StopIteration(), StopIteration),
    (FileNotFoundError(2, "No such file or directory", "x.npy"), FileNotFoundError),
    (np.linalg.LinAlgError("Singular matrix"), np.linalg.LinAlgError),
    (np.exceptions.AxisError(3, 2), np.exceptions.AxisError),
    (FloatingPointError("overflow encountered in add"), FloatingPointError),
    (da.IndexMapError("out of bounds"), da.IndexMapError),
    (Wanting(3, why="too long"), ValueError),  # it can't be made of its text
    (unicode_error(), UnicodeError),
]  # fmt: skip


@pytest.mark.parametrize(("error", "kind"), RAISED)
def test_words_bring_the_type_and_the_text(error: Exception, kind: type[Exception]) -> None:
    made = alike(told(error))
    assert type(made) is kind
    assert str(made) == str(error)


@pytest.mark.parametrize(("error", "kind"), RAISED)
def test_a_failure_elsewhere_is_caught_as_what_it_was(error: Exception, kind: type[Exception]) -> None:
    made = remote(told(error), 3, "save")
    assert isinstance(made, da.RemoteError)
    assert isinstance(made, kind)
    assert isinstance(made, da.RemoteFileError) == isinstance(error, OSError)
    assert str(made) == f"process 3 raised {type(error).__qualname__} in save: {error}"


def test_what_this_process_does_not_know_is_the_nearest_it_knows() -> None:
    class Local(ProgramError):
        pass

    assert type(alike(told(Local("here")))) is ProgramError
    assert type(alike(told(FileExistsError(17, "exists", "y")))) is FileExistsError
    error = alike(told(FileNotFoundError(2, "none", "x")))
    assert isinstance(error, OSError)
    assert (error.errno, error.filename) == (2, "x")


def _stop(v: Any) -> Any:
    return next(iter(())) if np.max(v) >= 11 else v


def _own(v: Any) -> Any:
    if np.max(v) >= 11:
        raise ProgramError("eleven")
    return v


class _Source:
    shape, dtype, ndim = (12,), H.dtype, 1

    def __getitem__(self, key: Any) -> Any:
        return _own(H[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        _own(value)


def _called(x: da.DistributedArray, how: Any) -> Any:
    def condition(*_: Any) -> None:
        raise ProgramError("condition")

    with np.errstate(all=how, call=condition):
        y = da.asarray(np.append(np.ones(11), 0), layout=da.blocks(0))
        return (x / y).evaluate()


def _raising(call: Callable[[], Any]) -> None:
    with np.errstate(all="raise"):
        call()


def _stacked(x: da.DistributedArray, value: float) -> da.DistributedArray:
    """Matrices of 2 × 2, cut between them; the last has the value."""
    return da.where(x.reshape(3, 2, 2) == 11, value, x.reshape(3, 2, 2) + da.asarray(np.eye(2))).reshard(da.blocks(0))


CALLS: dict[str, tuple[type[Exception], Callable[[da.DistributedArray], Any]]] = {
    "vectorize": (ProgramError, lambda x: da.vectorize(_own, otypes="d")(x)),
    "frompyfunc": (ProgramError, lambda x: np.frompyfunc(_own, 1, 1)(x)),
    "map_chunks": (StopIteration, lambda x: da.map_chunks(_stop, x)),
    "apply_along_axis": (StopIteration, lambda x: np.apply_along_axis(_stop, 1, x.reshape(4, 3))),
    "piecewise": (ProgramError, lambda x: np.piecewise(x, [x > 10], [_own, 0])),
    "pad": (StopIteration, lambda x: np.pad(x.reshape(4, 3), 1, lambda v, *_: _stop(v))),
    "errstate call": (ProgramError, lambda x: _called(x, "call")),
    "errstate raise": (FloatingPointError, lambda x: _called(x, "raise")),
    "det": (FloatingPointError, lambda x: _raising(lambda: np.linalg.det(_stacked(x, np.nan)))),
    "slogdet": (FloatingPointError, lambda x: _raising(lambda: np.linalg.slogdet(_stacked(x, np.nan)))),
    "logspace": (FloatingPointError, lambda x: _raising(lambda: da.logspace(0, 400, 400).evaluate())),
    "from_array": (ProgramError, lambda x: da.from_array(_Source(), layout=da.blocks(0))),
    "store": (ProgramError, lambda x: da.store(x, _Source())),
    "save": (FileNotFoundError, lambda x: np.save("no/such/folder.npy", x)),
    "savez": (FileNotFoundError, lambda x: np.savez("no/such/folder.npz", x)),
    "tofile": (FileNotFoundError, lambda x: x.tofile("no/such/folder")),
    "load": (FileNotFoundError, lambda x: da.load("no/such/folder.npy")),
}


@pytest.mark.parametrize("name", CALLS)
def test_all_processes_raise_one_type_and_go_on(name: str) -> None:
    kind, call = CALLS[name]

    def program() -> None:
        x = da.asarray(H, layout=da.blocks(0))
        with pytest.raises(kind):
            call(x)
        assert float(da.ones(4).sum()) == 4.0
        assert np.array_equal(x.get(), H)

    on_ranks((1, 1, 2), program)
