"""What host devices of one process lack is read where it lies, with the bits, the writes and the ledger of copies."""

import numpy as np
import pytest

import distarray as da
from conformance.checking import on_gpu
from distarray.devices import HostDevice

pytestmark = pytest.mark.skipif(on_gpu(), reason="GPUs fetch into buffers")

SIZE = 300_000


@pytest.fixture
def copied(monkeypatch):
    """The bytes that have been copied from one array to another so far."""
    count = []
    copy = HostDevice.copy

    def counting(self, dst, src, device):
        count.append(dst.nbytes)
        copy(self, dst, src, device)

    monkeypatch.setattr(HostDevice, "copy", counting)
    return lambda: sum(count)


def test_operands_cut_elsewhere_are_read_where_they_lie(copied):
    rng = np.random.default_rng(0)
    a, b = rng.random(SIZE), rng.random(SIZE)
    with da.init(devices=4, kind="host") as context:
        x, y = da.asarray(a), da.asarray(b, layout=da.blocks(0, sizes=[100_000, 100_000, 100_000, 0]))
        before = copied(), [device.count for device in context.devices]
        found = (np.exp(x) - y).evaluate()
        assert copied() == before[0]
        np.testing.assert_array_equal(found.get(), np.exp(a) - b)
        del found
        assert [device.count for device in context.devices] == before[1]
        with da.ledger() as log:
            np.testing.assert_array_equal((np.exp(x) - y).get(), np.exp(a) - b)
        assert log.bytes_moved == 8 * (25_000 + 50_000 + 75_000)
        assert copied() > before[0]


def test_what_is_lent_is_not_what_is_written():
    rng = np.random.default_rng(1)
    a, b = rng.random(SIZE), rng.random(SIZE)
    with da.init(devices=4, kind="host"):
        x, y = da.asarray(a), da.asarray(b)
        for shift in (1, 70_000, 160_000):
            x[shift:] -= x[:-shift]
            a[shift:] -= a[:-shift].copy()
            x[:-shift] += y[shift:] * x[shift:]
            a[:-shift] += b[shift:] * a[shift:]
            np.testing.assert_array_equal(x.get(), a)
            z, c = x.view("c16"), a.view("c16")
            z.real[shift // 2 :] += z.imag[: SIZE // 2 - shift // 2]
            c.real[shift // 2 :] += c.imag[: SIZE // 2 - shift // 2].copy()
            np.testing.assert_array_equal(x.get(), a)


def test_lines_that_do_not_lie_side_by_side_are_copied(copied):
    """NumPy's functions may give other bits for them than for a buffer."""
    host = np.random.default_rng(2).random((600, 600))
    with da.init(devices=3, kind="host"):
        x = da.asarray(host, layout=da.blocks(1))
        y = da.asarray(host)
        before = copied()
        np.testing.assert_array_equal((np.exp(x) * y).get(), np.exp(host) * host)
        assert copied() > before
