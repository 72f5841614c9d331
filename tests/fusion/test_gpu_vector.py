"""The 16-byte kernels give NumPy's bits, at sizes that leave a rest, in place, and step aside where they do not serve."""

import numpy as np
import pytest

import distarray as da

pytestmark = pytest.mark.cuda


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide"])
@pytest.mark.parametrize("size", [1 << 21, (1 << 21) + 3, 3 * (1 << 20) + 1])
def test_bits(four, dtype, name, size):
    rng = np.random.default_rng(size)
    a, b = (rng.standard_normal(size).astype(dtype) for _ in range(2))
    a[:5] = [np.inf, -np.inf, np.nan, 0.0, -0.0]
    b[:3] = [np.nan, np.inf, 0.0]
    f = getattr(np, name)
    with da.init(devices=1, kind="cuda"), np.errstate(all="ignore"):
        x, y = da.asarray(a), da.asarray(b)
        np.testing.assert_array_equal(f(x, y).get(), f(a, b))
        np.testing.assert_array_equal(f(x[1:], y[:-1]).get(), f(a[1:], b[:-1]))
        x[...] = f(x, y)
        np.testing.assert_array_equal(x.get(), f(a, b))
        np.testing.assert_array_equal((f(y, y) * y - x).get(), f(b, b) * b - f(a, b))
