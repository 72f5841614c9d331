"""The plugin with which NumPy's own tests run on distributed arrays: every function of NumPy's that a test module calls gets
its host arrays cut into parts on four devices, and gives host arrays again. Apart from ``conformance/numpy_tests.py``, which
starts the tests' processes, since it runs inside them.

NumPy's functions are called themselves, so that the arrays come in through NumPy's protocols, as in a user's program.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.testing import overrides

import distarray as da

DEVICES = int(os.environ["NUMPY_TESTS_DEVICES"] or 0)
"""Into how many parts arrays are cut; 0: the tests run as they are, for comparison."""

WHOLE = os.environ.get("NUMPY_TESTS_SETUP") == "whole"
"""Whether arrays lie where they lie by default, which is whole for the small ones of tests; else they are cut into rows."""

LARGEST = 2**28
"""Arrays of more bytes stay NumPy's: tests make them of broadcast ones that fill no memory."""

CONTEXT = da.init(devices=DEVICES, kind="host", minimum_chunk=None if WHOLE else 1) if DEVICES else None
FUNCTIONS = overrides.get_overridable_numpy_array_functions()


class Call:
    """One call: host arrays → distributed ones, and back."""

    def __init__(self) -> None:
        self.placed: dict[int, tuple[np.ndarray, da.DistributedArray]] = {}

    def place(self, value: Any) -> Any:
        if type(value) is np.ndarray and 0 < value.nbytes <= LARGEST:
            if id(value) not in self.placed:
                with warnings_kept():
                    try:
                        x = da.asarray(value, layout=None if WHOLE or not value.ndim else da.blocks(0))
                    except TypeError:  # text, objects: NumPy's own
                        return value
                if not value.flags.writeable:
                    x.setflags(write=False)
                self.placed[id(value)] = (value, x)
            return self.placed[id(value)][1]
        if type(value) in (list, tuple):
            placed = [self.place(v) for v in value]
            return type(value)(placed) if any(a is not b for a, b in zip(placed, value)) else value
        return value

    def give(self, value: Any) -> Any:
        if isinstance(value, da.DistributedArray):
            for host, x in self.placed.values():
                if x is value:
                    return host
            host = np.asarray(value.get())
            if not value.flags.writeable and host.ndim:
                host.flags.writeable = False
            return host[()] if value._detached else host
        if type(value) in (list, tuple):
            return type(value)(self.give(v) for v in value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(self.give(v) for v in value))
        return value

    def write(self) -> None:
        """Back to the host, what the call wrote."""
        for host, x in self.placed.values():
            if host.flags.writeable:
                value = x.get()
                if value.tobytes() != host.tobytes():
                    host[...] = value


@contextmanager
def warnings_kept() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def called(function: Any, args: Any, kwargs: Any) -> Any:
    """What a function gives of host arrays, by way of distributed ones."""
    call = Call()
    placed_args, placed_kwargs = [call.place(a) for a in args], {k: call.place(v) for k, v in kwargs.items()}
    if not call.placed:
        return function(*args, **kwargs)
    try:
        found = function(*placed_args, **placed_kwargs)
    finally:
        call.write()
    return call.give(found)


class Ufunc:
    """Stands for a ufunc."""

    def __init__(self, ufunc: np.ufunc) -> None:
        self.__dict__["ufunc"] = ufunc
        functools.update_wrapper(self, ufunc, updated=())

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        return np.ufunc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return called(self.ufunc, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.__dict__["ufunc"], name)
        if name in ("reduce", "accumulate", "reduceat", "outer", "at"):
            return lambda *args, **kwargs: called(found, args, kwargs)
        return found

    def __delattr__(self, name: str) -> None:
        self.__dict__[name] = getattr(self.ufunc, name)

    def __eq__(self, other: Any) -> bool:
        return self.ufunc == (other.__dict__["ufunc"] if type(other) is Ufunc else other)

    def __hash__(self) -> int:
        return hash(self.ufunc)

    def __repr__(self) -> str:
        return repr(self.ufunc)

    def __reduce__(self) -> Any:
        return wrapped_ufunc, (self.ufunc,)


@functools.cache
def wrapped_function(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return called(function, args, kwargs)

    return call


@functools.cache
def wrapped_ufunc(ufunc: np.ufunc) -> Ufunc:
    return Ufunc(ufunc)


class Module(ModuleType):
    """Stands for one of NumPy's modules."""

    def __init__(self, module: ModuleType) -> None:
        super().__init__(module.__name__)
        self.__dict__["module"] = module

    def __getattr__(self, name: str) -> Any:
        return wrapped(getattr(self.__dict__["module"], name))

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["module"], name, value)


@functools.cache
def wrapped_module(module: ModuleType) -> Module:
    return Module(module)


def wrapped(value: Any) -> Any:
    """What a test module gets in the place of one of NumPy's functions and modules, and containers of them."""
    if type(value) is np.ufunc:
        return wrapped_ufunc(value)
    if inspect.ismodule(value) and type(value) is not Module:
        name = value.__name__
        own = name.partition(".")[0] == "numpy" and not name.startswith(("numpy.testing", "numpy.ma"))
        return wrapped_module(value) if own else value
    with suppress(TypeError):
        if callable(value) and value in FUNCTIONS:
            return wrapped_function(value)
    if type(value) in (list, tuple, set) and any(callable(v) for v in value):
        return type(value)(wrapped(v) for v in value)
    if type(value) is dict:
        return {wrapped(k): wrapped(v) for k, v in value.items()}
    if type(value) is functools.partial:
        return functools.partial(wrapped(value.func), *value.args, **value.keywords)
    return value


def patch(namespace: Any) -> None:
    for name, value in list(vars(namespace).items()):
        if name.startswith("__"):
            continue
        if inspect.isclass(value) and value.__module__ == vars(namespace).get("__name__"):
            patch(value)
            continue
        if isinstance(value, staticmethod):
            new: Any = staticmethod(wrapped(value.__func__))
        else:
            new = wrapped(value)
            if inspect.isclass(namespace) and inspect.isbuiltin(
                value
            ):  # those of C are no methods of the class they stand in
                new = staticmethod(new)
        if new is not value:
            setattr(namespace, name, new)


PATCHED: set[str] = set()


@pytest.hookimpl(hookwrapper=True)
def pytest_pycollect_makemodule(module_path: Any, parent: Any) -> Any:
    outcome = yield
    item = outcome.get_result()
    if DEVICES and item is not None and item.obj.__name__ not in PATCHED:
        PATCHED.add(item.obj.__name__)
        patch(item.obj)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: Any) -> None:
    """Functions among a test's parameters."""
    if DEVICES and hasattr(item, "funcargs"):
        for name, value in item.funcargs.items():
            item.funcargs[name] = wrapped(value)


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Every n-th test, where the tests are shared out among n runs."""
    part, _, parts = os.environ.get("NUMPY_TESTS_PART", "0/1").partition("/")
    items[:] = items[int(part) :: int(parts)]


OUTCOMES: dict[str, list[str]] = {}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: as NumPy's tests mark them")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    """Where a failing test counted warnings, which there were."""
    outcome = yield
    report = outcome.get_result()
    if call.excinfo is None or not report.failed:
        return
    for entry in call.excinfo.traceback:
        for value in entry.frame.f_locals.values():
            if isinstance(value, pytest.WarningsRecorder):
                report.warned = [f"{w.filename}:{w.lineno} {w.category.__name__}: {w.message}" for w in value.list]


def pytest_runtest_logreport(report: Any) -> None:
    """What became of each test, and what it said."""
    if report.when == "call" or report.outcome != "passed":
        crash = getattr(report.longrepr, "reprcrash", None)
        said = "" if not report.failed else crash.message if crash else str(report.longrepr)[-300:]
        if warned := getattr(report, "warned", None):
            said = f"{said} after the warnings {warned}"
        name = report.nodeid.partition("/numpy/")[2] or report.nodeid
        OUTCOMES[name] = ["xfailed" if hasattr(report, "wasxfail") else report.outcome, said]


def pytest_sessionfinish() -> None:
    Path(os.environ["NUMPY_TESTS_OUTCOMES"]).write_text(json.dumps(OUTCOMES))
