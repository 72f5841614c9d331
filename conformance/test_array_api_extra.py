"""Every function of array-api-extra on distributed arrays, in several layouts, beside the same call on NumPy's arrays.

The library knows arrays by their namespace alone, so that what it composes of the standard's functions is what other
programs that are written against the standard compose. A function that it gains is missing in the table here, which a test says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_api_extra as xpx
import numpy as np
import pytest

import distarray as da
from conformance.checking import assert_same
from conformance.contexts import context

A = np.array([[3.0, -1.5, 0.0, 2.0, 7.5], [np.nan, 4.0, -2.0, 2.0, 0.5], [1.0, 1.0, 9.0, -6.0, 2.0]])
I = np.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5])  # noqa: E741 - an array of integers, as F is of floats
J = np.array([5, 8, 9, 7, 9, 3])
Z = A[:2, 1:] + 1j * A[1:, :4][::-1]

UNORDERED = {"argpartition", "partition"}  # whose results may differ where both are right


#: name -> calls of the function `f` on arrays that `a` makes of NumPy's, in the namespace `xp`
CALLS: dict[str, list[Callable[[Any, Any, Any], Any]]] = {
    "angle": [lambda f, a, xp: f(a(Z)), lambda f, a, xp: f(a(Z), deg=True), lambda f, a, xp: f(a(A))],
    "apply_where": [
        lambda f, a, xp: f(a(A) > 1, a(A), lambda x: x * 2, lambda x: -x),
        lambda f, a, xp: f(a(A) > 1, (a(A), a(A) + 1), lambda x, y: x / y, fill_value=-1.0),
        lambda f, a, xp: f(a(A) > 100, a(A), lambda x: x * 2, fill_value=0.0),
    ],
    "argpartition": [
        lambda f, a, xp: parted(a(I), f(a(I), 4), 4, positions=True),
        lambda f, a, xp: parted(a(I), f(a(I), 4, axis=None), 4, positions=True),
        lambda f, a, xp: parted(a(A[2]), f(a(A[2]), 1), 1, positions=True),
    ],
    "partition": [
        lambda f, a, xp: parted(a(I), f(a(I), 4), 4, positions=False),
        lambda f, a, xp: parted(a(A[2]), f(a(A[2]), 1), 1, positions=False),
    ],
    "at": [
        lambda f, a, xp: f(a(I), slice(2, 5)).set(7, copy=True),
        lambda f, a, xp: f(a(I))[1].add(10, copy=True),
        lambda f, a, xp: f(a(A), a(A) > 2).multiply(3.0, copy=True),
        lambda f, a, xp: f(a(A))[1:, ::2].set(a(A)[:2, ::2], copy=True),
        lambda f, a, xp: f(a(I), a(I) > 3).min(4, copy=True),
        lambda f, a, xp: f(xp.asarray(a(I), copy=True))[3].subtract(1),
    ],
    "atleast_nd": [lambda f, a, xp: f(a(I), ndim=3), lambda f, a, xp: f(a(A), ndim=1)],
    "broadcast_shapes": [lambda f, a, xp: f((3, 1), (4,)), lambda f, a, xp: f((None, 1), (4,))],
    "cov": [
        lambda f, a, xp: f(a(A[[0, 2]])),
        lambda f, a, xp: f(a(A[[0, 2]]), axis=0, correction=0),
        lambda f, a, xp: f(a(A[[0, 2]]), fweights=a(np.array([1, 2, 1, 3, 1]))),
        lambda f, a, xp: f(a(A[[0, 2]]), aweights=a(np.array([1, 0.5, 1, 2, 1]))),
        lambda f, a, xp: f(a(A[2])),
    ],
    "create_diagonal": [lambda f, a, xp: f(a(I)), lambda f, a, xp: f(a(A[2]), offset=-2), lambda f, a, xp: f(a(A))],
    "default_dtype": [
        lambda f, a, xp: str(np.dtype(f(xp))),
        lambda f, a, xp: str(np.dtype(f(xp, "complex floating"))),
        lambda f, a, xp: str(np.dtype(f(xp, "integral"))),
        lambda f, a, xp: str(np.dtype(f(xp, "indexing"))),
    ],
    "deg2rad": [lambda f, a, xp: f(a(A))],
    "rad2deg": [lambda f, a, xp: f(a(A))],
    "diag_indices": [lambda f, a, xp: f(5, xp=xp), lambda f, a, xp: f(4, ndim=3, xp=xp)],
    "expand_dims": [lambda f, a, xp: f(a(A), axis=1), lambda f, a, xp: f(a(A), axis=(0, -1))],
    "isclose": [
        lambda f, a, xp: f(a(A), a(A) + 1e-9),
        lambda f, a, xp: f(a(A), a(A), equal_nan=True),
        lambda f, a, xp: f(a(I), 5, rtol=0.3),
        lambda f, a, xp: f(a(Z), a(Z) * (1 + 1e-7)),
    ],
    "isin": [
        lambda f, a, xp: f(a(I), a(J)),
        lambda f, a, xp: f(a(I), a(J), invert=True),
        lambda f, a, xp: f(a(A), a(A[2])),
    ],
    "kron": [
        lambda f, a, xp: f(a(I), a(J)),
        lambda f, a, xp: f(a(A[[0, 2]]), a(A[2:])),
        lambda f, a, xp: f(a(A[2]), a(A[[0, 2]])),
    ],
    "lazy_apply": [
        lambda f, a, xp: f(lambda x: x + 1, a(I)),
        lambda f, a, xp: f(lambda x: np.cumsum(x), a(I), as_numpy=True),
        lambda f, a, xp: f(lambda x, y: (x * 2, y), a(I), a(J), shape=((11,), (6,)), dtype=(xp.int64, xp.int64)),
    ],
    "nan_to_num": [
        lambda f, a, xp: f(a(A)),
        lambda f, a, xp: f(a(np.array([np.inf, -np.inf, np.nan, 1])), fill_value=3.0),
        # not of integers, which the library itself makes floating for every namespace but those that it knows
        lambda f, a, xp: f(a(Z)),
    ],
    "nanmax": [lambda f, a, xp: f(a(A)), lambda f, a, xp: f(a(A), axis=0), lambda f, a, xp: f(a(A), axis=(0, 1))],
    "nanmin": [lambda f, a, xp: f(a(A)), lambda f, a, xp: f(a(A), axis=1)],
    "nanmean": [lambda f, a, xp: f(a(A)), lambda f, a, xp: f(a(A), axis=1)],
    "nansum": [lambda f, a, xp: f(a(A)), lambda f, a, xp: f(a(A), axis=1)],
    "nunique": [lambda f, a, xp: f(a(I)), lambda f, a, xp: f(a(A))],
    "one_hot": [lambda f, a, xp: f(a(I), 10), lambda f, a, xp: f(a(J), 10, axis=0, dtype=xp.float32)],
    "pad": [
        lambda f, a, xp: f(a(A), 2),
        lambda f, a, xp: f(a(A), ((1, 0), (0, 3)), constant_values=5.0),
        lambda f, a, xp: f(a(I), (2, 1)),
    ],
    "searchsorted": [
        lambda f, a, xp: f(a(np.sort(I)), a(J)),
        lambda f, a, xp: f(a(np.sort(I)), a(J), side="right"),
        lambda f, a, xp: f(a(np.sort(A[[0, 2]])), a(A[[2, 0]])),
    ],
    "setdiff1d": [lambda f, a, xp: f(a(I), a(J)), lambda f, a, xp: f(a(np.unique(I)), a(J), assume_unique=True)],
    "sinc": [lambda f, a, xp: f(a(A))],
    "tril_indices": [lambda f, a, xp: f(4, xp=xp), lambda f, a, xp: f(4, offset=1, m=5, xp=xp)],
    "triu_indices": [lambda f, a, xp: f(4, xp=xp), lambda f, a, xp: f(3, offset=-1, m=5, xp=xp)],
    "union1d": [lambda f, a, xp: f(a(I), a(J))],
    "unravel_index": [lambda f, a, xp: f(a(I), (4, 5)), lambda f, a, xp: f(a(np.array([7, 1])), (2, 2, 3))],
}  # fmt: skip

#: what of the library's public names is not here, and why
ABSENT = {"testing": "a module of marks for pytest, without functions of arrays"}

LAYOUTS = [
    ("blocks", lambda v: da.blocks(0), da.REPLICA),
    ("cyclic", lambda v: da.cyclic(v.ndim - 1, 2), da.REPLICA),
    ("partial", lambda v: da.blocks(v.ndim - 1), da.SUM),
    ("replicated", lambda v: da.replicated(), da.REPLICA),
]


def parted(x: Any, found: Any, kth: int, *, positions: bool) -> Any:
    """What a partition says: which element is at `kth`, and that those before and behind are where they belong."""
    values = np.asarray(found)
    if positions:
        assert sorted(values.tolist()) == list(range(x.shape[0]))
        values = np.asarray(x)[values]
    assert sorted(values.tolist()) == sorted(np.asarray(x).tolist())
    assert (values[:kth] <= values[kth]).all() and (values[kth:] >= values[kth]).all()
    return found, values[kth]


def checked(name: str, got: Any, ref: Any) -> None:
    if isinstance(ref, tuple):
        assert isinstance(got, (tuple, list)) and len(got) == len(ref)
        for each, other in zip(got, ref):
            checked(name, each, other)
    elif isinstance(ref, np.ndarray):
        assert isinstance(got, da.DistributedArray)
        if name not in UNORDERED:
            assert_same(got, ref, exact=False, ulps=8)
    else:
        assert got == ref


def test_the_table_is_whole() -> None:
    assert set(CALLS) | set(ABSENT) | {"__version__"} == set(xpx.__all__)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed:DeprecationWarning")
def test_the_result_is_numpys(name: str) -> None:
    f = getattr(xpx, name)
    for call in CALLS[name]:
        ref = call(f, np.asarray, np)
        for n in (1, 4):
            with context(n):
                for _, spec, mode in LAYOUTS:

                    def placed(v: Any, spec: Any = spec, mode: Any = mode) -> Any:
                        kept = mode if v.dtype.kind != "b" else da.REPLICA
                        return da.asarray(v, layout=spec(v)).change_mode(kept)

                    checked(name, call(f, placed, da), ref)
