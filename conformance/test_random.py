"""Random arrays: the same for every layout, device count and process count; NumPy's arguments and errors; the moments and
the distributions that they are to have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import distarray as da
from conformance.checking import check_invariants
from conformance.contexts import context, device_numbers, examples
from conformance.ranks import SHARES, on_ranks
from conformance.strategies import device_counts, layouts
from distarray.random import streams

#: name → its arguments, and what SciPy calls the distribution
DISTRIBUTIONS: dict[str, tuple[tuple[Any, ...], Any]] = {
    "beta": ((2.0, 3.0), stats.beta(2, 3)),
    "binomial": ((9, 0.3), stats.binom(9, 0.3)),
    "chisquare": ((3.0,), stats.chi2(3)),
    "exponential": ((2.0,), stats.expon(scale=2)),
    "f": ((3.0, 30.0), stats.f(3, 30)),
    "gamma": ((2.5, 2.0), stats.gamma(2.5, scale=2)),
    "geometric": ((0.3,), stats.geom(0.3)),
    "gumbel": ((1.0, 2.0), stats.gumbel_r(1, 2)),
    "hypergeometric": ((15, 20, 10), stats.hypergeom(35, 15, 10)),
    "integers": ((-3, 5), stats.randint(-3, 5)),
    "laplace": ((1.0, 2.0), stats.laplace(1, 2)),
    "logistic": ((1.0, 2.0), stats.logistic(1, 2)),
    "lognormal": ((0.5, 0.3), stats.lognorm(0.3, scale=np.exp(0.5))),
    "logseries": ((0.6,), stats.logser(0.6)),
    "negative_binomial": ((4, 0.4), stats.nbinom(4, 0.4)),
    "noncentral_chisquare": ((3.0, 2.0), stats.ncx2(3, 2)),
    "noncentral_f": ((3.0, 30.0, 2.0), stats.ncf(3, 30, 2)),
    "normal": ((1.0, 2.0), stats.norm(1, 2)),
    "pareto": ((3.0,), stats.lomax(3)),
    "poisson": ((4.0,), stats.poisson(4)),
    "power": ((3.0,), stats.powerlaw(3)),
    "random": ((), stats.uniform()),
    "rayleigh": ((2.0,), stats.rayleigh(scale=2)),
    "standard_cauchy": ((), stats.cauchy()),
    "standard_exponential": ((), stats.expon()),
    "standard_gamma": ((2.5,), stats.gamma(2.5)),
    "standard_normal": ((), stats.norm()),
    "standard_t": ((5.0,), stats.t(5)),
    "triangular": ((0.0, 1.0, 3.0), stats.triang(1 / 3, 0, 3)),
    "uniform": ((-1.0, 3.0), stats.uniform(-1, 4)),
    "vonmises": ((0.0, 2.0), stats.vonmises(2)),
    "wald": ((1.0, 2.0), stats.invgauss(0.5, scale=2)),
    "weibull": ((1.5,), stats.weibull_min(1.5)),
    "zipf": ((3.0,), stats.zipf(3)),
}


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks so short that small arrays have many."""
    monkeypatch.setattr(streams, "BLOCK", 64)


@examples(2)
@given(data=st.data(), n=device_counts)
def test_values_do_not_depend_on_the_layout(data, n):
    name = data.draw(st.sampled_from(list(DISTRIBUTIONS)))
    shape = data.draw(st.sampled_from([(500,), (20, 31), (7, 9, 11), (1,), (), (0, 3), (130, 2)]))
    args = list(DISTRIBUTIONS[name][0])
    spread = bool(args and shape) and name != "integers" and data.draw(st.booleans())
    if spread:  # a parameter for each element along the last axis, of the host or distributed
        args[0] = np.broadcast_to(np.asarray(args[0]), shape[-1:]).copy()
    with context(1):
        ref = getattr(da.random.default_rng(3), name)(*args, size=shape).get()
    with context(n):
        if spread and data.draw(st.booleans()):
            args[0] = da.asarray(args[0], layout=data.draw(layouts(shape[-1:], n)))
        rng = da.random.default_rng(3)
        x = getattr(rng, name)(*args, size=shape, layout=data.draw(layouts(shape, n)))
        assert x.dtype == getattr(np.random.default_rng(3), name)(*DISTRIBUTIONS[name][0], size=1).dtype
        assert np.array_equal(x.get(), ref)
        assert not ref.size > 60 or not np.array_equal(getattr(rng, name)(*args, size=shape).get(), ref)
        check_invariants(x)


@pytest.mark.parametrize("name", list(DISTRIBUTIONS))
def test_distributions(name, monkeypatch):
    monkeypatch.setattr(streams, "BLOCK", 1000)
    args, law = DISTRIBUTIONS[name]
    with context(max(device_numbers())):
        values = getattr(da.random.default_rng(11), name)(*args, size=20000).get()
    if values.dtype.kind == "f":
        assert stats.kstest(values, law.cdf).pvalue > 1e-3
        return
    seen, counts = np.unique(values, return_counts=True)
    often = law.pmf(seen) * values.size > 10
    expected = law.pmf(seen[often]) * values.size
    rest = max(values.size - expected.sum(), 1e-9)
    statistic = ((counts[often] - expected) ** 2 / expected).sum() + (counts[~often].sum() - rest) ** 2 / max(rest, 10)
    assert stats.chi2(often.sum()).sf(statistic) > 1e-3


def test_rows_at_a_time():
    with context(max(device_numbers())):
        rng = da.random.default_rng(2)
        rows = rng.dirichlet([1.0, 2.0, 3.0], size=(30, 10))
        assert rows.shape == (30, 10, 3)
        assert np.allclose(rows.sum(axis=-1), 1)
        assert np.allclose(rows.mean(axis=(0, 1)), [1 / 6, 2 / 6, 3 / 6], atol=0.05)
        counts = rng.multinomial(20, [0.2, 0.3, 0.5], size=300)
        assert bool((counts.sum(axis=1) == 20).all())
        drawn = rng.multivariate_hypergeometric([5, 6, 7], 4, size=50)
        assert bool((drawn.sum(axis=1) == 4).all())
        points = rng.multivariate_normal([1.0, -1.0], [[2.0, 0.5], [0.5, 1.0]], size=4000).get()
        assert np.allclose(np.cov(points.T), [[2.0, 0.5], [0.5, 1.0]], atol=0.15)
        assert np.allclose(points.mean(axis=0), [1, -1], atol=0.1)


def test_streams_are_independent():
    """Neighbouring blocks, calls, children and seeds are uncorrelated."""
    with context(1):
        rng = da.random.default_rng(0)
        first, second = rng.standard_normal(64 * 200).get(), rng.standard_normal(64 * 200).get()
        child, other = (g.standard_normal(64 * 200).get() for g in rng.spawn(2))
        seed = da.random.default_rng(1).standard_normal(64 * 200).get()
    table = np.corrcoef([first, second, child, other, seed, np.roll(first, 64), np.roll(first, 1)])
    assert np.abs(table - np.eye(7)).max() < 0.04


@given(shares=st.sampled_from(SHARES), size=st.sampled_from([1000, (40, 30), ()]))
def test_processes_agree(shares, size):
    def program() -> Any:
        rng = da.random.default_rng()
        return [
            rng.normal(size=size, layout=da.blocks(-1) if size else None).get(),
            rng.integers(0, 5, size=7).get(),
            rng.bytes(4),
        ]

    first, *others = on_ranks(shares, program)
    for other in others:
        assert all(np.array_equal(a, b) for a, b in zip(first, other))


@pytest.mark.parametrize("call", [
    lambda g, a: g.normal(0, -1), lambda g, a: g.normal(0, a([1.0, -1.0])), lambda g, a: g.integers(5, 2),
    lambda g, a: g.normal(size=-1), lambda g, a: g.normal(a([0.0] * 3), size=(4,)), lambda g, a: g.normal(1, 2, 3, 4),
    lambda g, a: g.random(dtype=int), lambda g, a: g.integers(0, 300, dtype="i1"), lambda g, a: g.choice(0),
    lambda g, a: g.choice(3, p=[0.5, 0.6, 0.1]), lambda g, a: g.choice(3, 4, replace=False), lambda g, a: g.poisson(-1),
    lambda g, a: g.normal(loc="a"), lambda g, a: g.permutation(a(3.0)), lambda g, a: g.dirichlet([1, -1]),
])  # fmt: skip
def test_errors_are_numpys(call):
    try:
        call(np.random.default_rng(0), np.asarray)
    except Exception as error:
        kind = type(error)
    with context(2), pytest.raises(kind):
        call(da.random.default_rng(0), da.asarray)


def test_out_and_the_older_calls():
    with context(3):
        out = da.zeros((4, 5), layout=da.blocks(1))
        assert da.random.default_rng(0).random(out=out) is out
        assert np.array_equal(out.get(), da.random.default_rng(0).random((4, 5)).get())
        with pytest.raises(ValueError, match="out="):
            da.random.default_rng(0).random((4, 4), out=out)
        da.random.seed(5)
        first = da.random.rand(3, 2).get()
        assert da.random.randn(2).shape == (2,)
        assert 0 <= int(da.random.randint(4)) < 4
        da.random.seed(5)
        assert np.array_equal(da.random.random((3, 2)).get(), first)
        with da.no_implicit_communication():
            da.random.default_rng(0).normal(size=(300, 4), layout=da.blocks(0))
