"""Small partial values that every GPU holds whole: folded in one kernel a GPU, to the bits of the general way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import distarray as da
from distarray.devices import partials


def test_sources_declare_what_they_are_passed() -> None:
    for copies in (2, 5):
        source, fields = partials.source_of("maximum", "float", copies)
        assert fields == "P" * (copies + 1) + "q" and source.count("joined(a, g.p") == copies - 1


def test_what_has_no_kernel() -> None:
    assert partials._element("add", np.dtype("?")) is None
    assert partials._element("multiply", np.dtype("c8")) is None
    assert partials._element("add", np.dtype("f2")) is None
    assert partials._element("add", np.dtype("i2")) == ("unsigned short", 1)
    assert partials._element("minimum", np.dtype("i8")) == ("long long", 1)
    assert partials._element("add", np.dtype("c16")) == ("double", 2)


@pytest.mark.cuda
@pytest.mark.parametrize("devices", [2, 3, 5])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1", "c8", "?", "f2"])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "any", "all"])
def test_folds_are_those_of_the_general_way(devices: int, dtype: str, name: str, monkeypatch: Any) -> None:
    rng = np.random.default_rng(7)
    a = (rng.standard_normal((23, 5, 9)) * 2).astype(dtype)
    a[3, 1] = 0
    if a.dtype.kind == "f":
        a[2, 2, 2] = np.nan
        a[5, 0, 0] = np.inf
    used = []
    ran = partials.Folds.run
    monkeypatch.setattr(partials.Folds, "run", lambda *given: used.append(1) or ran(*given))
    with da.init(devices=devices, kind="cuda"), np.errstate(all="ignore"):
        x = da.asarray(a, layout=da.blocks(0))
        found = []
        for _ in range(6):
            y = getattr(x, name)(axis=0).change_mode("replica")
            found.append(y.get())
            for chunks in y.all_chunks().values():
                for chunk in chunks:
                    np.testing.assert_array_equal(chunk.get(), found[0])
        with da.ledger():
            found.append(getattr(x, name)(axis=0).change_mode("replica").get())
        for other in found[1:]:
            np.testing.assert_array_equal(other, found[0])
        if a.dtype.kind in "biu":
            np.testing.assert_array_equal(found[0], getattr(a, name)(axis=0))
    assert used or found[0].dtype.kind == "c" or found[0].dtype == np.dtype("f2")


@pytest.mark.cuda
def test_memory_is_not_used_again_too_soon() -> None:
    """Sums whose partial values are freed at once, one behind the other, on as many GPUs as there are."""
    with da.init(kind="cuda", devices=4):
        a = np.random.default_rng(1).standard_normal((64, 64)).astype("f4")
        x = da.asarray(a, layout=da.blocks(0))
        kept = [(x * float(i)).sum(axis=0).change_mode("replica") for i in range(200)]
        for i, y in enumerate(kept):
            np.testing.assert_allclose(y.get(), (a * np.float32(i)).sum(axis=0), rtol=1e-4, atol=1e-2)
