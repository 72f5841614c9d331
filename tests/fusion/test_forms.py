"""Expressions and calls that come again: what they share, and on GPUs that the shortest ways give what the general ones do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import distarray as da
from distarray.errors import ImplicitCommunicationError
from distarray.fusion import forms
from distarray.fusion.kernels import direct

# --- what they share -----------------------------------------------------------------------------------------------------


def test_a_form_names_operands_and_numbers_in_the_order_of_the_calls() -> None:
    with da.init(devices=2, kind="host") as context:
        layout = da.zeros((4, 4), layout=da.blocks(0)).layout
        single = np.dtype("f4")
        a = forms.base_form(context, layout, None, single)
        assert a is not None and a is forms.base_form(context, layout, None, single)
        assert forms.base_form(context, layout, da.zeros(3)._view_map(), single) is None  # a view that comes only once
        double = forms.grown(context, np.multiply, [a, float], {}, single, False)
        back = forms.grown(context, np.subtract, [float, double], {}, single, False)
        both = forms.grown(context, np.add, [back, double], {}, single, False)
        assert both is not None and both is forms.grown(context, np.add, [back, double], {}, single, False)
        assert [step.args for step in both.steps] == [
            (("leaf", 0), ("number", 1)),
            (("number", 0), ("step", 0)),
            (("leaf", 1), ("number", 2)),
            (("step", 1), ("step", 2)),
        ]
        assert len(both.bases) == 2 and both.numbers == 3


def test_a_form_is_bounded() -> None:
    with da.init(devices=1, kind="host") as context:
        layout = da.zeros(4).layout
        form = forms.base_form(context, layout, None, np.dtype("f8"))
        for _ in range(forms.STEPS - 1):
            assert form is not None
            form = forms.grown(context, np.negative, [form], {}, np.dtype("f8"), False)
        assert form is not None and forms.grown(context, np.negative, [form], {}, np.dtype("f8"), False) is not None
        last = forms.grown(context, np.negative, [form], {}, np.dtype("f8"), False)
        assert forms.grown(context, np.negative, [last], {}, np.dtype("f8"), False) is None


def test_the_same_key_shows_the_same_view() -> None:
    with da.init(devices=1, kind="host") as context:
        first = forms.view_of(context, None, (5, 5), (slice(1, -1), slice(None, 3)))
        assert first is forms.view_of(context, None, (5, 5), (slice(1, -1), slice(None, 3)))
        assert first == da.zeros((5, 5))[1:-1, :3]._view_map()
        inner = forms.view_of(context, first, first.shape, (slice(1, None),))
        assert inner == da.zeros((5, 5))[1:-1, :3][1:]._view_map()
        assert forms.view_of(context, None, (5, 5), (slice(0, 1),)) is not forms.view_of(
            context, None, (5, 5), slice(0, 1)
        )
        with pytest.raises(IndexError):
            forms.view_of(context, None, (5, 5), (0, 0, 0))


# --- on a GPU -----------------------------------------------------------------------------------------------------------


def lives(count: int, layout: Any, shape: tuple[int, ...], dtype: str = "f4") -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(5)
    host = [rng.standard_normal(shape).astype(dtype) for _ in range(count)]
    return host, [da.asarray(a, layout=layout) for a in host]


@pytest.mark.cuda
@pytest.mark.parametrize("devices", [1, 2, 3])
@pytest.mark.parametrize("shape", [(9, 7), (300, 257)])
def test_steps_that_come_again_are_those_of_numpy(devices: int, shape: tuple[int, int]) -> None:
    """A stencil in place and its kin, often enough for every short way, with other numbers and arrays each time."""

    def step(u: Any, v: Any, rate: float) -> Any:
        inner = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1]
        moved = inner * rate + v[1:-1, 1:-1]
        old = u + v
        u[1:-1, 1:-1] = moved
        v[1:-1, 1:-1] = moved * 0.5 - u[1:-1, 1:-1]
        v += u * rate
        return old - 1.0, np.where(u > v, u, 0.25)

    with da.init(devices=devices, kind="cuda"):
        (a, b), (x, y) = lives(2, da.blocks(0), shape)
        for turn in range(25):
            rate = np.float32(0.01 * turn).item()
            wanted, found = step(a, b, rate), step(x, y, rate)
            if turn == 20:
                held = x[1:-1, 1:-1] * 2.0  # still to be computed when its operand is written
                kept = a[1:-1, 1:-1] * np.float32(2.0)
            for one, two in zip(wanted, found, strict=True):
                np.testing.assert_allclose(two.get(), one, rtol=2e-6, atol=2e-6)
            a /= 4
            b /= 4
            x /= 4.0
            y /= 4.0
        np.testing.assert_allclose(held.get(), kept, rtol=2e-6, atol=2e-6)
        np.testing.assert_allclose(x.get(), a, rtol=2e-6, atol=2e-6)


@pytest.mark.cuda
def test_moves_are_counted_however_often_a_call_came() -> None:
    with da.init(devices=2, kind="cuda"):
        _, (x,) = lives(1, da.blocks(0), (64, 8))
        counts = []
        for _ in range(20):
            (x[:-1] + x[1:]).evaluate()
            with da.ledger() as log:
                (x[:-1] + x[1:]).evaluate()
            counts.append(log.bytes_moved)
        assert set(counts) == {8 * 4}
        with pytest.raises(ImplicitCommunicationError), da.no_implicit_communication():
            (x[:-1] + x[1:]).evaluate()


@pytest.mark.cuda
@pytest.mark.parametrize("devices", [1, 2, 3])
def test_reductions_and_products_that_come_again(devices: int) -> None:
    with da.init(devices=devices, kind="cuda"):
        (a, b), (x, y) = lives(2, da.blocks(0), (48, 48))
        for turn in range(6):
            a *= 2
            x *= 2.0
            np.testing.assert_allclose(x.sum(axis=0).get(), a.sum(axis=0), rtol=1e-5, atol=1e-4)
            np.testing.assert_allclose(x.max(axis=1, keepdims=True).get(), a.max(axis=1, keepdims=True))
            np.testing.assert_allclose(float(x.sum()), a.sum(dtype="f8"), rtol=1e-4, atol=1e-3)
            np.testing.assert_allclose((x @ y).get(), a @ b, rtol=1e-4, atol=1e-3)
            assert float(x.max()) == a.max(), turn
            with da.ledger() as log:
                moved = (x @ y).get()
            np.testing.assert_allclose(moved, a @ b, rtol=1e-4, atol=1e-3)
            assert bool(log.bytes_moved) == (devices > 1)


@pytest.mark.cuda
@pytest.mark.parametrize("devices", [1, 2, 5])
@pytest.mark.parametrize("dtype", ["f4", "i2", "c16"])
def test_rows_are_taken_from_all_chunks_of_a_gpu(devices: int, dtype: str) -> None:
    with da.init(devices=devices, kind="cuda"):
        (a,), (x,) = lives(1, da.blocks(0), (40, 300), dtype)
        rows = np.random.default_rng(2).integers(-40, 40, 91)
        np.testing.assert_array_equal(x[rows].get(), a[rows])
        np.testing.assert_array_equal(x[rows.reshape(7, 13)].get(), a[rows.reshape(7, 13)])
        with pytest.raises(IndexError):
            x[np.array([0, 40])]


@pytest.mark.cuda
def test_a_recipe_takes_no_memory_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "OFTEN", {True: 1, False: 1})
    with da.init(devices=1, kind="cuda", memory_limit=1 << 20) as context:
        x = da.ones(200_000, dtype="f4", layout=da.blocks(0))
        x += 1.0
        device = context.devices[0]
        device.reset_peak()
        x += 1.0
        assert device.peak == 800_000
