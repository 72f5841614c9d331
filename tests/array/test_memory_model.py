"""What is a view and what a copy, as NumPy's strides decide it: a copy shows no later write, a view each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import distarray as da

VIEWS: dict[str, Callable[[Any], Any]] = {
    "diagonal": lambda a: a.diagonal(), "upper diagonal": lambda a: a.diagonal(1), "T.diagonal": lambda a: a.T.diagonal(),
    "real": lambda a: a.real, "imag column": lambda a: a.imag[:, 0], "real rows": lambda a: a.real[::2],
    "real.T": lambda a: a.real.T, "real diagonal": lambda a: a.real.diagonal(), "field": lambda a: a["b"],
    "windows": lambda a: sliding_window_view(a, 2, axis=1), "squares": lambda a: sliding_window_view(a, (2, 2)),
    "one window": lambda a: sliding_window_view(a, 2, axis=1)[0, 0], "T": lambda a: a.T, "reshaped T": lambda a: a.T.reshape(2, -1),
    "reshaped": lambda a: a.reshape(2, 8), "other dtype": lambda a: a.view("f4"), "column": lambda a: a[:, 1],
    "every second": lambda a: a[::2], "broadcast": lambda a: np.broadcast_to(a, (2, 4, 4)),
}  # fmt: skip
STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "ravel": lambda xp, y: y.ravel(), "ravel K": lambda xp, y: y.ravel("K"), "ravel F": lambda xp, y: y.ravel("F"),
    "flatten": lambda xp, y: y.flatten(), "reshape": lambda xp, y: y.reshape(-1),
    "reshape F": lambda xp, y: y.reshape(-1, order="F"),
    "more axes": lambda xp, y: y.reshape(*y.shape, 1), "two rows": lambda xp, y: y.reshape(2, -1),
    "T.ravel": lambda xp, y: y.T.ravel(), "swapped": lambda xp, y: y.swapaxes(0, -1).reshape(-1),
    "expanded": lambda xp, y: np.expand_dims(y, 0).ravel(), "first": lambda xp, y: y[..., :1].ravel(),
    "asarray": lambda xp, y: xp.asarray(y), "asarray C": lambda xp, y: xp.asarray(y, order="C"),
    "asarray F": lambda xp, y: xp.asarray(y, order="F"), "C": lambda xp, y: xp.ascontiguousarray(y),
    "F": lambda xp, y: xp.asfortranarray(y), "require": lambda xp, y: xp.require(y, requirements="C"),
    "array": lambda xp, y: xp.array(y, copy=None, order="C"),
}  # fmt: skip


def filled(dtype: Any) -> Any:
    host = np.zeros((4, 4), dtype)
    count = np.arange(16).reshape(4, 4)
    if host.dtype.names:
        host["a"] = host["b"] = count
    else:
        host[...] = count * (1 + 2j) if host.dtype.kind == "c" else count
    return host


@pytest.mark.parametrize("layout", [None, da.blocks(0), da.blocks(1), da.cyclic(0), da.replicated()], ids=str)
@pytest.mark.parametrize("dtype", ["f8", "c16", [("a", "f8"), ("b", "f4")]], ids=str)
def test_later_writes_are_shown_as_by_numpy(dtype: Any, layout: Any) -> None:
    seen = 0
    with da.init(devices=3, kind="host", minimum_chunk=1):
        for name, view in VIEWS.items():
            for step, take in STEPS.items():
                host = filled(dtype)
                try:
                    want = take(np, view(host))
                except (ValueError, TypeError, IndexError):  # no such view of this dtype, or shape
                    continue
                x = da.asarray(host, layout=layout)
                shown = view(x)
                got = take(da, shown)
                if name != "other dtype":  # its strides are those of bytes
                    assert shown.strides == view(host).strides, name
                assert np.array_equal(got.get(), want), f"{step} of {name}"
                for array in (host, x):
                    array["b" if host.dtype.names else ...] = -1
                assert np.array_equal(got.get(), want), f"{step} of {name} after a write"
                seen += 1
    assert seen > 200


@pytest.mark.parametrize(
    "write",
    [
        lambda y: y.__setitem__(0, 1), lambda y: y.__iadd__(1), lambda y: np.add(y, 1, out=y), lambda y: y.fill(0),
        lambda y: y.sort(),
        lambda y: np.copyto(y, 1), lambda y: y.put([0], 1), lambda y: setattr(y, "flat", 1), lambda y: np.putmask(y, y > 0, 1),
    ],
)  # fmt: skip
def test_a_write_to_a_copy_that_stands_for_a_view_says_what_to_do(write: Callable[[Any], None]) -> None:
    with da.init(devices=2, kind="host", minimum_chunk=1):
        host = np.arange(12.0)[::-1].reshape(3, 4).copy()
        x = da.asarray(host, layout=da.blocks(1))
        y = x.ravel()
        with pytest.raises(
            da.errors.ReadOnlyError, match=r"read-only: it is a copy where NumPy has a view.* x\.reshard\("
        ):
            write(y)
        assert np.array_equal(x, host) and np.array_equal(y, host.ravel())
        z = x.reshard(da.replicated())
        write(z.ravel())
        assert not np.array_equal(z, host)
