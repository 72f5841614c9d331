"""``like=``: every creation function of NumPy's gives a distributed array."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import distarray as da

FILE = str(Path(np.__file__))  # any file serves
CALLS: dict[str, Callable[[Any], Any]] = {
    "arange": lambda like: np.arange(3, like=like),
    "array": lambda like: np.array([1, 2], like=like),
    "asanyarray": lambda like: np.asanyarray([1, 2], like=like),
    "asarray": lambda like: np.asarray([1, 2], like=like),
    "ascontiguousarray": lambda like: np.ascontiguousarray([1, 2], like=like),
    "asfortranarray": lambda like: np.asfortranarray([1, 2], like=like),
    "eye": lambda like: np.eye(2, 3, 1, like=like),
    "frombuffer": lambda like: np.frombuffer(b"12345678", np.uint8, like=like),
    "fromfile": lambda like: np.fromfile(FILE, np.int16, like=like),
    "fromfunction": lambda like: np.fromfunction(lambda i: i * 2, (3,), like=like),
    "fromiter": lambda like: np.fromiter([1, 2], int, like=like),
    "fromstring": lambda like: np.fromstring("1 2", sep=" ", like=like),
    "full": lambda like: np.full(2, 3, like=like),
    "genfromtxt": lambda like: np.genfromtxt(["1 2"], like=like),
    "identity": lambda like: np.identity(2, like=like),
    "loadtxt": lambda like: np.loadtxt(["1 2"], like=like),
    "ones": lambda like: np.ones(2, like=like),
    "require": lambda like: np.require([1, 2], float, ["W"], like=like),
    "tri": lambda like: np.tri(2, like=like),
    "zeros": lambda like: np.zeros(2, like=like),
}


@pytest.mark.parametrize("name", CALLS)
def test_like_gives_a_distributed_array(name):
    with da.init(devices=2, kind="host"):
        x = da.asarray([1.0], layout=da.blocks(0))
        found, wanted = CALLS[name](x), CALLS[name](None)
        assert isinstance(found, da.DistributedArray)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found.get(), wanted)
