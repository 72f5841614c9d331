"""Public docstrings are numpydoc: every parameter and result is described; ``pyproject.toml`` says which checks hold."""

from __future__ import annotations

import inspect
import sys
import tomllib
from collections.abc import Iterator
from enum import EnumType
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpydoc.validate import validate

import distarray as da
from distarray.array.documented import described_as, join_sections, split_sections
from distarray.ops.elementwise import ufunc

CHECKS = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["tool"]["numpydoc_validation"][
    "checks"
]


def described(name: str, value: Any) -> bool:
    """Whether an object has a docstring of this package: NumPy's own objects, constants and tables have none."""
    if isinstance(value, (ufunc, property)):
        return True
    if not (inspect.isfunction(value) or inspect.isclass(value)):
        return False
    return str(value.__module__).startswith("distarray")


def public() -> Iterator[tuple[str, Any]]:
    """The public names and what they are."""
    for module in ("distarray", "distarray.linalg", "distarray.fft", "distarray.random", "distarray.emath"):
        space: Any = da if module == "distarray" else getattr(da, module.partition(".")[2])
        for name in sorted(space.__all__):
            value = getattr(space, name)
            if described(name, value):  # distarray.array is a function, and a package
                yield f"{module if f'{module}.{name}' not in sys.modules else value.__module__}.{name}", value
    classes = [
        da.DistributedArray,
        *{v for v in vars(da).values() if inspect.isclass(v) and v is not da.DistributedArray},
    ]
    for kind in classes:
        if not described(kind.__name__, kind) or issubclass(kind, BaseException):
            continue
        where = "distarray" if getattr(da, kind.__name__, None) is kind else kind.__module__
        for name in sorted(vars(kind)):
            value = inspect.getattr_static(kind, name)
            if not name.startswith("_") and described(name, value):
                yield f"{where}.{kind.__name__}.{name}", value


def faults(name: str, value: Any = None) -> list[str]:
    """What the checks find in a docstring. The call of an enumeration is Python's, with parameters that each version names."""
    checks = {*CHECKS} - ({"PR01"} if isinstance(value, EnumType) else set())
    return [f"{code} {text}" for code, text in validate(name)["errors"] if code in checks]


def test_public_docstrings_describe_every_parameter_and_result():
    found = {name: faults(name, value) for name, value in public()}
    assert not {name: said for name, said in found.items() if said}


def test_faults_are_found():
    def undescribed(a, b):
        return a

    undescribed.__module__ = da.__name__
    da.undescribed = undescribed  # type: ignore[attr-defined]
    try:
        assert {said[:4] for said in faults("distarray.undescribed")} == {"GL08"}
        undescribed.__doc__ = "Nothing.\n\nParameters\n----------\na : int\n"
        assert {said[:4] for said in faults("distarray.undescribed")} == {"PR01", "RT01"}
    finally:
        del da.undescribed  # type: ignore[attr-defined]


def test_methods_are_described_by_their_functions():
    text = da.DistributedArray.sum.__doc__
    assert "keepdims : bool, optional" in text and "Communication: none." in text and "\na :" not in text


def model(a: Any, axis: Any = None, out: Any = None) -> Any:
    """The model.

    Parameters
    ----------
    a : array_like
    axis, out : int, optional
        Of `a`.

    Returns
    -------
    DistributedArray

    Notes
    -----
    Communication: none.
    """


def test_described_as_takes_what_is_missing_from_the_model():
    @described_as(model)
    def function(a: Any, q: Any, axis: Any = None, *rest: Any, out: Any = None) -> Any:
        """A function.

        Parameters
        ----------
        q : float
            Its own.
        axis : str
        """

    assert function.__doc__ == (
        "A function.\n\nParameters\n----------\na : array_like\nq : float\n    Its own.\naxis : str\n"
        "out : int, optional\n    Of `a`.\n\nReturns\n-------\nDistributedArray\n\nNotes\n-----\nCommunication: none."
    )
    assert join_sections(split_sections(function.__doc__)) == function.__doc__


def test_described_as_speaks_of_the_array_in_methods():
    class Kind:
        @described_as(model)
        def method(self, axis: Any = None, out: Any = None) -> Any:
            """A method."""

    assert "Of the array." in (Kind.method.__doc__ or "") and "array_like" not in (Kind.method.__doc__ or "")


@pytest.mark.parametrize("name", ["add", "sin", "divmod"])
def test_ufuncs_are_described_by_numpys_summary(name):
    first = getattr(da, name).__doc__.splitlines()[0]
    assert first in " ".join(getattr(np, name).__doc__.split())
