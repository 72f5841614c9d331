"""The array's methods: real signatures and docstrings, the same for people and for type checkers."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest

import distarray as da

PACKAGE = Path(da.__file__).parent
#: What Python or NumPy calls, and nobody by name: type checkers need not see it.
CALLED_BY_NAME_BY_NOBODY = set(
    """_only __getattr__ __array_ufunc__ __array_function__ __array_namespace__ __repr__ __str__ __format__ __delitem__
    __copy__ __deepcopy__ __reduce__ __dlpack__ __dlpack_device__""".split()
)


def is_property(definition: ast.FunctionDef) -> bool:
    return any(isinstance(decorator, (ast.Name, ast.Attribute)) for decorator in definition.decorator_list)


def definitions(file: str, name: str) -> dict[str, str]:
    """Method → its arguments, of a class."""
    tree = ast.parse((PACKAGE / file).read_text())
    (found,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    functions = [f for f in found.body if isinstance(f, ast.FunctionDef) and not is_property(f)]
    arguments = {f.name: ast.unparse(f.args) for f in functions}
    for statement in found.body:  # __add__ = __radd__ = _with
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name):
            names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
            arguments |= {name: arguments[statement.value.id] for name in names if statement.value.id in arguments}
    return arguments


def test_type_checkers_see_the_methods_that_there_are() -> None:
    declared = definitions("array/declared.py", "Declared")
    places = {"array/operators.py": "Operators", "protocols.py": "Protocols"} | {
        f"methods/{chapter}.py": f"{name}Methods"
        for chapter, name in [
            ("items", "Item"), ("conversion", "Conversion"), ("shape", "Shape"), ("calculation", "Calculation"),
        ]
    }  # fmt: skip
    defined = {name: found for place in places.items() for name, found in definitions(*place).items()}
    wrong = [
        f"def {name}({arguments})"
        for name, arguments in defined.items()
        if declared.get(name) != arguments and not (name in CALLED_BY_NAME_BY_NOBODY and name not in declared)
    ]
    assert not wrong, f"array/declared.py must declare: {wrong}"


@pytest.mark.parametrize("name", [n for n in dir(da.DistributedArray) if not n.startswith("_")])
def test_what_is_public_says_what_it_does(name: str) -> None:
    found = inspect.getattr_static(da.DistributedArray, name)
    function = found.fget if isinstance(found, property) else found
    assert function.__qualname__ == f"DistributedArray.{name}"
    assert inspect.getdoc(function) or name in ("shape", "dtype", "ndim", "size", "itemsize", "device"), name


@pytest.mark.parametrize(
    "name", [n for n in dir(np.ndarray) if not n.startswith("_") and hasattr(da.DistributedArray, n)]
)
def test_methods_take_numpys_arguments(name: str) -> None:
    """By their names and in their order; what NumPy hands on as ``**kwargs`` stands behind them."""
    if not callable(getattr(np.ndarray, name)):
        return
    ours = [p for p in inspect.signature(getattr(da.DistributedArray, name)).parameters if p != "self"]
    numpys = [
        p.name
        for p in inspect.signature(getattr(np.ndarray, name)).parameters.values()
        if p.kind is not p.VAR_KEYWORD and p.name not in ("self", "args")
    ]
    assert ours[: len(numpys)] == numpys


@pytest.mark.parametrize("layout", [None, da.blocks(0)], ids=str)
def test_arguments_may_be_named_as_numpys(layout, four):
    """What NumPy's own functions and methods take by name."""
    host = np.array([0.0, 1, 2, 4, 5, 7])
    calls = [
        lambda x: np.searchsorted(a=x, v=[1.0, 6], side="right"), lambda x: x.searchsorted(v=[2.0]),
        lambda x: x.compress(condition=[1, 0, 1]),
        lambda x: x.take(indices=[0, 3], axis=0), lambda x: x.repeat(repeats=2), lambda x: x.put(indices=[0], values=9.0) or x,
        lambda x: x.partition(kth=2) or np.sort(x), lambda x: np.take(a=x, indices=[1]),
    ]  # fmt: skip
    for call in calls:
        np.testing.assert_array_equal(call(da.asarray(host, layout=layout)).get(), call(host.copy()))


@pytest.mark.parametrize("name", ["frombuffer", "fromiter", "fromstring", "genfromtxt", "loadtxt"])
def test_readers_show_numpys_signature(name):
    shown = inspect.signature(getattr(da, name)).parameters
    assert all(p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in shown.values())
    if name != "fromstring":
        assert list(shown) == [p for p in inspect.signature(getattr(np, name)).parameters if p != "like"]
    np.testing.assert_array_equal(da.fromstring("1 2 3", dtype=int, sep=" ").get(), [1, 2, 3])
