"""Every array of every dense call, as a process group may be given it: each rank runs these on NumPy or CuPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

ACCEPTED = ("C", "F")
ORDERS = (*ACCEPTED, "strided", "reversed", "stride 0")


def laid(values: Any, order: str, xp: Any) -> Any:
    """The values as an array of some memory order."""
    values = xp.array(values)
    if order == "F":
        return xp.asfortranarray(values)
    if order == "strided":
        wide = xp.zeros((*values.shape[:-1], 2 * values.shape[-1]), values.dtype)
        wide[..., ::2] = values
        return wide[..., ::2]
    if order == "reversed":
        return xp.ascontiguousarray(values[::-1])[::-1]
    if order == "stride 0":
        return xp.broadcast_to(values.reshape(-1)[:1], values.shape)
    return xp.ascontiguousarray(values)


def on_host(array: Any) -> np.ndarray[Any, Any]:
    return np.asarray(array.get() if hasattr(array, "get") else array)


class Call:
    """A call: its input and output on each rank, and what the output must be. All ranks give arrays of the same orders."""

    def __init__(self, group: Any) -> None:
        n, self.rank, self.group = group.size, group.rank, group
        self.parts = [np.arange(6.0).reshape(2, 3) + 100 * i for i in range(n)]
        self.wholes = [np.arange(n * 6.0).reshape(n, 2, 3) + 100 * i for i in range(n)]
        self.peer = self.rank ^ 1 if self.rank ^ 1 < n else self.rank

    def of(self, name: str) -> tuple[Any, Any, Callable[[Any, Any], None]]:
        """(the input, the right output, the call)"""
        g, r, parts, wholes = self.group, self.rank, self.parts, self.wholes
        total = np.sum(wholes, axis=0)
        exchanged = np.stack([whole[r] for whole in wholes])
        return {
            "all_reduce": (parts[r], sum(parts), lambda x, y: g.all_reduce(x, y)),
            "reduce_scatter": (wholes[r], total[r], lambda x, y: g.reduce_scatter(x, y, 6)),
            "all_gather": (parts[r], np.stack(parts), lambda x, y: g.all_gather(x, y, 6)),
            "all_to_all": (wholes[r], exchanged, lambda x, y: g.all_to_all(x, y)),
            "send_recv": (parts[r], parts[self.peer], lambda x, y: g.send_recv(x, y, self.peer)),
        }[name]


def calls_of_all(group: Any, xp: Any) -> None:
    """Input and output in every order: the values, or a ValueError on all ranks, where one is not contiguous, that leaves
    the output as it was."""
    call, refused = Call(group), 0
    for name in ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "send_recv"):
        for one, other in product(ORDERS, ORDERS[:-1]):
            given, want, make = call.of(name)
            x, y = laid(given, one, xp), laid(np.zeros_like(want), other, xp)
            try:
                make(x, y)
            except ValueError as error:
                if "contiguous" not in str(error):
                    raise
                want, refused = np.zeros_like(want), refused + 1
            np.testing.assert_array_equal(on_host(y), want, err_msg=f"{name} from {one} into {other}")
    assert 60 < refused <= 80  # all but C and F, which an axis of length 1 may be too


def calls_with_a_root(group: Any, xp: Any) -> None:
    call, n, r = Call(group), group.size, group.rank
    for one, other in product(ACCEPTED, ACCEPTED):
        x = laid(call.parts[r], one, xp)
        y = laid(np.zeros((n, 2, 3)), other, xp)
        group.gather(x, y if r == 0 else None, 0)
        if r == 0:
            np.testing.assert_array_equal(on_host(y), np.stack(call.parts))
        y = laid(np.zeros((2, 3)), other, xp)
        group.scatter(laid(call.wholes[0], one, xp) if r == 0 else None, y, 0)
        np.testing.assert_array_equal(on_host(y), call.wholes[0][r])
        if n > 1 and r == 0:
            group.send(x, 1)
        elif r == 1:
            group.recv(y, 0)
            np.testing.assert_array_equal(on_host(y), call.parts[0])
        x, y = laid(call.parts[r], one, xp), laid(np.zeros((2, 3)), other, xp)
        group.reduce(x, y if r == 0 else None, 0)
        if r == 0:
            np.testing.assert_array_equal(on_host(y), sum(call.parts))
    for order in ACCEPTED:
        x, y = laid(call.parts[r], order, xp), laid(np.zeros((2, 3)), order, xp)
        group.reduce(x, y if r == n - 1 else None, n - 1)
        if r == n - 1:
            np.testing.assert_array_equal(on_host(y), sum(call.parts))
        group.broadcast(x, n - 1)
        np.testing.assert_array_equal(on_host(x), call.parts[n - 1])


def orders_that_differ(group: Any, xp: Any) -> None:
    """One rank's arrays lie in another order than those of the others: nobody's elements are permuted."""
    call, n, r = Call(group), group.size, group.rank
    order = "F" if r == 0 else "C"
    for name in ("all_gather", "reduce_scatter", "send_recv"):
        given, want, make = call.of(name)
        x = laid(given, "C" if name == "reduce_scatter" else order, xp)
        y = laid(np.zeros_like(want), "C" if name == "all_gather" else order, xp)
        make(x, y)
        np.testing.assert_array_equal(on_host(y), want)
    if n > 1 and r == 0:
        group.send(laid(call.parts[0], "F", xp), 1)
    elif r == 1:
        y = laid(np.zeros((2, 3)), "C", xp)
        group.recv(y, 0)
        np.testing.assert_array_equal(on_host(y), call.parts[0])


def reductions_in_orders_that_differ(group: Any, xp: Any) -> None:
    """Where the order is not compared, as over NCCL, reductions and broadcasts of both orders have the right values."""
    call, n, r = Call(group), group.size, group.rank
    order = "F" if r == 0 else "C"
    x, y = laid(call.parts[r], order, xp), laid(np.zeros((2, 3)), order, xp)
    group.all_reduce(x, y)
    np.testing.assert_array_equal(on_host(y), sum(call.parts))
    group.reduce(x, y, 0)
    np.testing.assert_array_equal(on_host(y), sum(call.parts))
    group.broadcast(x, n - 1)
    np.testing.assert_array_equal(on_host(x), call.parts[n - 1])


def not_arrays(group: Any, xp: Any) -> None:
    """What has no memory of its own to read or to write is refused, as an input and as an output, before anything is sent."""
    import distarray

    call = Call(group)
    with distarray.init(devices=2, kind="host"):
        spread = distarray.zeros(6)
    masked = np.ma.masked_array(np.zeros(6), np.arange(6) < 3)
    for name in ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "send_recv"):
        given, want, make = call.of(name)
        x, y = laid(given, "C", xp), laid(np.zeros_like(want), "C", xp)
        for wrong, text in ((spread, "DistributedArray"), ([1.0, 2.0], "is a list"), ([x], "in a loop")):
            with pytest.raises(TypeError, match=text):
                make(x, wrong)
            with pytest.raises(TypeError, match=text):
                make(wrong, y)
        with pytest.raises(TypeError):
            make(x, masked)
        if xp is np:
            frozen = y.copy()
            frozen.flags.writeable = False
            for shared in (frozen, memoryview(bytes(y))):
                with pytest.raises(ValueError, match="read-only"):
                    make(x, shared)
    if group.size == 1:
        whole, part = laid(call.wholes[0], "C", xp), laid(call.parts[0], "C", xp)
        for make in (
            lambda bad: group.broadcast(bad), lambda bad: group.reduce(bad, part), lambda bad: group.reduce(part, bad),
            lambda bad: group.scatter(bad, part), lambda bad: group.scatter(whole, bad),
            lambda bad: group.gather(bad, whole), lambda bad: group.gather(part, bad),
        ):  # fmt: skip
            with pytest.raises(TypeError, match="DistributedArray"):
                make(spread)
    assert (spread.get() == 0).all()


CASES = (calls_of_all, calls_with_a_root, orders_that_differ, not_arrays)
