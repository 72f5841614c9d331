"""``da.polynomial`` beside ``numpy.polynomial``: values at distributed points, fits, and the classes of series."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import distarray as da

RNG = np.random.default_rng(0)
X, Y, Z = RNG.random((3, 7))
C1, C2, C3, C4 = RNG.random(4), RNG.random((3, 4)), RNG.random((2, 3, 4)), RNG.random((2, 3, 4, 2))
NAMES = ["Polynomial", "Chebyshev", "Hermite", "HermiteE", "Laguerre", "Legendre"]


def _valnd(p: Any) -> Callable[..., Any]:
    """``polyvalnd``, which NumPy has from 2.5 on: it is a polynomial of fewer variables after the other."""

    def by_steps(points: Any, c: Any) -> Any:
        value = p.polyval(points[0], c)
        for x in points[1:]:
            value = p.polyval(x, value, tensor=False)
        return value

    return getattr(p, "polyvalnd", by_steps)


CALLS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "val": lambda p, x, y, z: p.polyval(x, C1),
    "val, integers": lambda p, x, y, z: p.polyval(x, [1, 2, 3]),
    "val, one coefficient": lambda p, x, y, z: p.polyval(x, 3),
    "val, several": lambda p, x, y, z: p.polyval(x, C3),
    "val, column": lambda p, x, y, z: p.polyval(x[:, None], C2),
    "val, no tensor": lambda p, x, y, z: p.polyval(x[:4], C2, tensor=False),
    "val2d": lambda p, x, y, z: p.polyval2d(x, y, C2),
    "val2d, several": lambda p, x, y, z: p.polyval2d(x, y, C4),
    "val3d": lambda p, x, y, z: p.polyval3d(x, y, z, C3),
    "val3d, several": lambda p, x, y, z: p.polyval3d(x, y, z, C4),
    "valnd": lambda p, x, y, z: _valnd(p)([x, y, z], C4),
    "valnd, one": lambda p, x, y, z: _valnd(p)([x], C3),
    "valnd, four": lambda p, x, y, z: _valnd(p)((x, y, z, x), C4),
    "grid2d": lambda p, x, y, z: p.polygrid2d(x, y, C3),
    "grid3d": lambda p, x, y, z: p.polygrid3d(x, y, z, C4),
    "from roots": lambda p, x, y, z: p.polyvalfromroots(x, C1),
    "from roots, several": lambda p, x, y, z: p.polyvalfromroots(x, C2),
    "from roots, no tensor": lambda p, x, y, z: p.polyvalfromroots(x[:4], C2, tensor=False),
    "vander": lambda p, x, y, z: p.polyvander(x, 3),
    "vander, columns": lambda p, x, y, z: p.polyvander(x[:, None], 0),
    "vander2d": lambda p, x, y, z: p.polyvander2d(x, y, [2, 1]),
    "vander3d": lambda p, x, y, z: p.polyvander3d(x, y, z, (2, 0, 1)),
    "fit": lambda p, x, y, z: p.polyfit(x, y, 2),
    "fit, powers": lambda p, x, y, z: p.polyfit(x, y, [0, 3]),
    "fit, weights": lambda p, x, y, z: p.polyfit(x, y, 2, w=z),
    "fit, two": lambda p, x, y, z: p.polyfit(x, np.stack([y, z], axis=1), 1),
    "fit, full": lambda p, x, y, z: p.polyfit(x, y, 1, full=True)[1][0],
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    "layout", [da.blocks(0), da.cyclic(0), da.replicated()], ids=["blocks", "cyclic", "replicated"]
)
def test_values_are_numpys(name: str, layout: Any, four: Any) -> None:
    wanted = CALLS[name](np.polynomial.polynomial, X, Y, Z)
    found = CALLS[name](da.polynomial.polynomial, *(da.asarray(v, layout=layout) for v in (X, Y, Z)))
    assert isinstance(found, da.DistributedArray)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(found.get(), wanted, rtol=1e-8)


def test_numpys_own_functions_dispatch_where_they_can(four: Any) -> None:
    x, y = da.asarray(X, layout=da.blocks(0)), da.asarray(Y, layout=da.blocks(0))
    for name in ("polyval2d", "polygrid2d"):
        function = getattr(np.polynomial.polynomial, name)
        try:
            found = function(x, y, C2)
        except ValueError:  # before NumPy let others override these
            continue
        np.testing.assert_allclose(found.get() if isinstance(found, da.DistributedArray) else found, function(X, Y, C2))


@pytest.mark.parametrize("name", NAMES)
def test_series_are_called_without_moving_points(name: str, four: Any) -> None:
    ours, numpys = getattr(da.polynomial, name), getattr(np.polynomial, name)
    x = da.asarray(X, layout=da.blocks(0))
    for domain in (None, [-2, 3]):
        series = ours(C1, domain=domain)
        with da.no_implicit_communication():
            found = series(x).evaluate()
        np.testing.assert_allclose(found.get(), numpys(C1, domain=domain)(X))
        assert isinstance(series.deriv() * series + 1, ours)
        np.testing.assert_allclose(series.deriv()(x).get(), numpys(C1, domain=domain).deriv()(X))
        np.testing.assert_allclose(series(0.5), numpys(C1, domain=domain)(0.5))


@pytest.mark.parametrize(
    "kwargs", [{}, {"domain": []}, {"domain": [0, 2], "window": [-1, 2]}, {"w": Z}, {"full": True}]
)
def test_fits_are_numpys(kwargs: Any, four: Any) -> None:
    given = {k: da.asarray(v) if k == "w" else v for k, v in kwargs.items()}
    found = da.polynomial.Polynomial.fit(da.asarray(X, layout=da.blocks(0)), Y, 2, **given)
    wanted = np.polynomial.Polynomial.fit(X, Y, 2, **kwargs)
    if kwargs.get("full"):
        np.testing.assert_allclose(found[1][0].get(), wanted[1][0])
        found, wanted = found[0], wanted[0]
    np.testing.assert_allclose(found.coef, wanted.coef, rtol=1e-8)
    np.testing.assert_allclose([found.domain, found.window], [wanted.domain, wanted.window])


def test_one_point_has_a_domain(four: Any) -> None:
    x = da.ones(5, layout=da.blocks(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.RankWarning)
        assert da.polynomial.Polynomial.fit(x, x, 0).domain.tolist() == [0, 2]
    with pytest.warns(np.exceptions.RankWarning):
        da.polynomial.polynomial.polyfit(x, x, 2)


WRONG: dict[str, Callable[[Any, Any], Any]] = {
    "incompatible": lambda p, x: p.polyval2d(x, x[:3], C2),
    "incompatible, three": lambda p, x: p.polyval3d(x, x[:3], x, C3),
    "negative": lambda p, x: p.polyvander(x, -1),
    "not integer": lambda p, x: p.polyvander(x, 1.5),
    "degrees": lambda p, x: p.polyvander2d(x, x, [1]),
    "no tensor": lambda p, x: p.polyvalfromroots(x, [1, 2], tensor=False),
    "negative fit": lambda p, x: p.polyfit(x, x, -1),
    "powers": lambda p, x: p.polyfit(x, x, []),
    "two axes": lambda p, x: p.polyfit(x[None], x, 1),
    "nothing": lambda p, x: p.polyfit(x[:0], x[:0], 1),
    "lengths": lambda p, x: p.polyfit(x, x[:2], 1),
    "weights": lambda p, x: p.polyfit(x, x, 1, w=x[:2]),
    "weights' axes": lambda p, x: p.polyfit(x, x, 1, w=x[None]),
    "scalar": lambda p, x: p.polyfit(x, x[0], 1),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_numpys(name: str, four: Any) -> None:
    with pytest.raises((ValueError, TypeError)) as theirs:
        WRONG[name](np.polynomial.polynomial, X)
    with pytest.raises(theirs.type):
        WRONG[name](da.polynomial.polynomial, da.asarray(X, layout=da.blocks(0)))


def test_the_rest_is_numpys_own() -> None:
    for name in np.polynomial.__all__:
        assert hasattr(da.polynomial, name), name
    for name in np.polynomial.polynomial.__all__:
        assert name == "Polynomial" or hasattr(da.polynomial.polynomial, name), name


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("other", NAMES)
def test_series_are_made_of_each_other(name: str, other: str, four: Any) -> None:
    made, wanted = [
        getattr(p, name).fit(x, x * x + 1, 2, domain=[0, 2]).convert(kind=getattr(p, other))
        for p, x in ((da.polynomial, da.asarray(X, layout=da.blocks(0))), (np.polynomial, X))
    ]
    np.testing.assert_allclose(made.coef, wanted.coef, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(made(made).coef, wanted(wanted).coef, rtol=1e-9, atol=1e-12)
