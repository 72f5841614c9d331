"""opt_einsum contracts distributed arrays: by itself, by the backend's name, in expressions, with shared intermediates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import opt_einsum
import pytest

import distarray as da

rng = np.random.default_rng(0)
HOSTS = rng.random((4, 5)), rng.random((5, 6)), rng.random((6, 4))
CHAIN = "ij,jk,kl->il"
SHAPES = [a.shape for a in HOSTS]
CALLS: dict[str, Callable[..., Any]] = {
    "by itself": lambda *a: opt_einsum.contract(CHAIN, *a),
    "numpy": lambda *a: opt_einsum.contract(CHAIN, *a, backend="numpy"),
    "distarray": lambda *a: opt_einsum.contract(CHAIN, *a, backend="distarray"),
    "expression": lambda *a: opt_einsum.contract_expression(CHAIN, *SHAPES)(*a),
    "expression of the backend": lambda *a: opt_einsum.contract_expression(CHAIN, *SHAPES)(*a, backend="distarray"),
    "a constant": lambda a, b, c: opt_einsum.contract_expression(CHAIN, a, *SHAPES[1:], constants=[0])(b, c),
    "to a number": lambda *a: opt_einsum.contract("ij,jk,ki->", *a),
    "outer": lambda a, b, c: opt_einsum.contract("i,j->ij", a[0], b[0]),
    "elements": lambda a, b, c: opt_einsum.contract("ij,ij->ij", a, a),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("layout", [da.blocks(0), da.blocks(1), da.replicated()], ids=str)
def test_calls(name: str, layout: Any, four: Any) -> None:
    found = CALLS[name](*[da.asarray(a, layout=layout) for a in HOSTS])
    assert isinstance(found, da.DistributedArray)
    theirs = {**CALLS, "distarray": CALLS["numpy"], "expression of the backend": CALLS["expression"]}
    np.testing.assert_allclose(found.get(), theirs[name](*HOSTS))


def test_shared_intermediates(four: Any) -> None:
    a, b, c = [da.asarray(x, layout=da.blocks(0)) for x in HOSTS]
    with opt_einsum.shared_intermediates() as cache:
        found = opt_einsum.contract(CHAIN, a, b, c)
        opt_einsum.contract("ij,jk->ik", a, b)
    assert cache
    np.testing.assert_allclose(found.get(), HOSTS[0] @ HOSTS[1] @ HOSTS[2])
