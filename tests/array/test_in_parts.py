"""Numbers that processes hold in parts and that come again: made by the chunk, they are what the first of their kind was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import distarray as da
from conformance.ranks import on_ranks

H = np.random.default_rng(3).standard_normal(37)
HOSTS = [
    H, H.astype("f4"), np.arange(37) - 9, H > 0.5, H.astype("f2"), H + 1j * H[::-1], np.where(H > 1, np.nan, H), H.reshape(1, 37).T,
    np.full(37, 2**62),
]  # fmt: skip
CALLS: dict[str, Any] = {
    "sum": lambda x: x.sum(), "np.sum": np.sum, "prod": lambda x: x.prod(), "max": np.max, "min": lambda x: x.min(),
    "any": lambda x: x.any(), "all": np.all, "mean": lambda x: x.mean(), "of comparison": lambda x: (x != 3).any(),
    "norm": np.linalg.norm, "where": lambda x: np.sum(x, where=None), "keepdims": lambda x: x.sum(keepdims=True),
}  # fmt: skip
PRODUCTS: dict[str, Any] = {
    "@": lambda x, y: x @ y, "dot": np.dot, "vdot": np.vdot, "inner": np.inner, "norm": lambda x, y: np.linalg.norm(x - y),
}  # fmt: skip


def unwarned(*args: Any, **kwargs: Any) -> Any:
    """An array of a context where warnings are no errors: else processes agree on each call, in the general way."""
    x = da.asarray(*args, **kwargs)
    x._context.warnings_raise = False
    return x


def _outcome(call: Any, *arrays: Any) -> Any:
    try:
        value = call(*arrays)
        return value.dtype, value.get().tobytes(), value.shape, value.layout
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("shares", [(1, 1), (1, 1, 1), (2, 1)], ids=str)
def test_what_comes_again_is_what_came_first(shares: tuple[int, ...]) -> None:
    def program() -> list[str]:
        found = []
        for h in HOSTS:
            x, y = (unwarned(h, layout=da.blocks(0)) for _ in range(2))
            for name, call in CALLS.items():
                first, *later = [_outcome(call, x) for _ in range(3)]
                found += [f"{name} of {h.dtype}"] if any(one != first for one in later) else []
            for name, call in PRODUCTS.items():
                first, *later = [_outcome(call, x.reshape(-1), y.reshape(-1)) for _ in range(3)]
                found += [f"{name} of {h.dtype}"] if any(one != first for one in later) else []
        return found

    with np.errstate(all="ignore"):
        assert on_ranks(shares, program) == [[]] * len(shares)


def test_a_number_in_parts_is_an_array_as_any_other() -> None:
    def program() -> list[Any]:
        x = unwarned(np.arange(6.0), layout=da.blocks(0))
        x.sum(), (x @ x)
        total, product = x.sum(), x @ x
        taken = len(x._own().version.layout.totals)  # how both are made is known
        x[0] = 100  # what was summed stays
        with da.ledger() as log:
            number = float(total)
        kept = total.copy(), total.reshape(1), total[...], total.astype(int)
        values = [float(one.reshape(())) for one in kept]
        total += 1
        plain = total.item(), repr(product), hash(x.sum()) == hash(115.0), int(x.sum()), bool((x > 99).any())
        combined = (x - x.sum()).get().tolist(), float(product / 2), total.mode.name, product.mode.name
        return [taken, number, log.bytes_to_host, values, plain, combined]

    for found in on_ranks((1, 1), program):
        taken, number, fetched, values, plain, combined = found
        assert taken == 2
        assert (number, fetched, values) == (15.0, 8, [15.0] * 4)
        assert plain == (16.0, "DistributedArray(55.)", True, 115, True) or plain[0] == 16.0
        assert plain[2:] == (True, 115, True)
        assert combined[:2] == ([-15.0, *(np.arange(1.0, 6) - 115)], 27.5)


def test_conditions_that_raise_do_so_on_all_processes() -> None:
    def program() -> list[list[str]]:
        x = unwarned(np.array([1e308, 1e308, 1.0, 1.0]), layout=da.blocks(0))  # one process overflows
        found = []
        for call in (lambda: x.sum(), lambda: x @ x):
            texts = []
            for _ in range(3):
                with np.errstate(over="raise"):
                    try:
                        call()
                        texts.append("nothing")
                    except FloatingPointError as error:
                        texts.append(str(error))
                with np.errstate(all="ignore"):
                    texts.append(str(float(call())))
            found.append(texts)
        return found

    for sums, products in on_ranks((1, 1), program):
        assert (
            sums == ["overflow encountered in add", "inf"] * 3 or sums == ["overflow encountered in reduce", "inf"] * 3
        )
        assert all("overflow" in text for text in products[::2]) and products[1::2] == ["inf"] * 3


def test_a_process_that_fails_is_heard_of() -> None:
    def program() -> str:
        x = unwarned(np.ones(4), layout=da.blocks(0))
        float(x.sum())
        if x._context.process:
            raise KeyError("the reason")
        with pytest.raises(da.errors.RemoteError) as caught:
            float(x.sum())
        return str(caught.value)

    with pytest.raises(KeyError, match="the reason"):
        on_ranks((1, 1), program)


def test_each_dtype_of_a_sum_is_its_own() -> None:
    def program() -> list[Any]:
        found = []
        for h in (np.arange(6), np.arange(6) > 2):
            x = unwarned(h, layout=da.blocks(0))
            for _ in range(3):
                for call in (
                    lambda x: x.mean(),
                    lambda x: x.sum(),
                    lambda x: x.sum(dtype="f4"),
                    lambda x: x.mean(dtype="f4"),
                ):
                    found.append(_outcome(call, x)[:2] == (call(h).dtype, call(h).tobytes()))
        return found

    assert on_ranks((1, 1), program) == [[True] * 24] * 2


@pytest.mark.parametrize("bad", [0, 1])
def test_conditions_of_one_process_change_no_course(bad: int) -> None:
    def program() -> list[Any]:
        h = np.ones(8)
        h[4 * bad : 4 * bad + 2] = 1e308
        x = unwarned(h, layout=da.blocks(0))
        found = []
        for _ in range(3):
            numbers = (x @ x, x.sum(), x @ x + x.sum(), x.sum() + x.sum(), x.sum() * 2, 1 / x.sum(), x.max() + x.sum(),
                       np.linalg.norm(x), x.mean(), np.sqrt(x.sum()), (x - x.sum()).max(), -x.sum())  # fmt: skip
            found.append([str(float(number)) for number in numbers])
        return found

    with np.errstate(all="ignore"):
        for found in on_ranks((1, 1), program):
            assert found[0] == found[1] == found[2]
            assert found[0][:6] == ["inf", "inf", "inf", "inf", "inf", "0.0"]
