"""Where an array says that it is: ``device``, ``to_device``, ``device=`` and DLPack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_api_compat
import numpy as np
import pytest

import distarray as da

HOST = np.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize("device", [0, 3, [1], [0, 2], [2, 0], (1, 3), [0, 1, 2, 3]])
def test_device_is_where_the_array_went(device: Any, four: Any) -> None:
    for layout in (None, da.blocks(0), da.replicated()):
        x = da.asarray(HOST, layout=layout)
        y = x.to_device(device)
        assert y.device == device
        assert set(y.devices) == set(y.device.ids)
        assert y.to_device(y.device) is y
        assert y.to_device(x.device).device == x.device
        np.testing.assert_array_equal(y.get(), HOST)
        for made in (da.zeros(3, device=device), da.zeros((400, 4), device=y.device), da.asarray(HOST, device=device),
                     da.zeros_like(x, device=device), da.zeros_like(y)):  # fmt: skip
            assert made.device == device
            assert made.device == y.device
            assert hash(made.device) == hash(y.device)


JOINED: dict[str, Callable[[Any], Any]] = {
    "concatenate": lambda x: np.concatenate([x, x]), "beside a host array": lambda x: np.concatenate([x, [1.0, 2.0]]),
    "stack": lambda x: np.stack([x, x]), "append": lambda x: np.append(x, 1), "insert": lambda x: np.insert(x, 1, [2, 3]),
    "delete": lambda x: np.delete(x, 1), "tile": lambda x: np.tile(x, 2), "pad": lambda x: np.pad(x, 1),
    "vander": lambda x: np.vander(x[:4]), "meshgrid": lambda x: np.meshgrid(x, x)[0], "cross": lambda x: np.cross(x[:3], x[3:6]),
    "searchsorted": lambda x: np.searchsorted(x, [1, 2]), "full_like": lambda x: np.full_like(x, 2, shape=(80,)),
}  # fmt: skip


@pytest.mark.parametrize("name", JOINED)
@pytest.mark.parametrize("ids", [[1], [0, 3]])
def test_what_is_joined_stays_on_its_devices(name: str, ids: list[int]) -> None:
    with da.init(devices=4, kind="host", minimum_chunk=1):
        host = np.arange(40.0)
        x = da.asarray(host).to_device(ids)
        found = JOINED[name](x)
        assert set(found.devices) <= set(ids)
        np.testing.assert_array_equal(found.get(), JOINED[name](host))


def test_other_devices_are_not_equal(four: Any) -> None:
    x, y = da.zeros(4, device=[1]), da.zeros(4, device=[0])
    assert x.device != y.device
    assert x.to_device(da.zeros(4).device).device == four.group != x.device
    assert x.device == 1 == x[1:].device == x.device
    assert x.device == [1]
    assert x.device != [1, 2]
    assert x.device != "cpu"
    assert len({x.device, y.device, da.ones(3, device=1).device}) == 2
    with da.init(devices=4, kind="host"):
        assert da.zeros(4, device=[1]).device != x.device
    assert da.zeros(8, layout={0: slice(0, 4), 2: slice(4, 8)}).device == [0, 2]


def test_a_recorded_expression_says_where_it_will_be(four: Any) -> None:
    whole, some = da.asarray(HOST, layout=da.blocks(0)), da.asarray(HOST, device=[1, 2], layout=da.blocks(0))
    for e in (whole + 1, some * 2, whole + some, some + whole, some[1:] + some[:-1], np.sqrt(some) + HOST):
        said = e.device
        assert e._node is not None  # nothing was evaluated
        assert said == list(e.devices)
        assert e.device == said
    partial = da.distributed_array(HOST[0], {0: slice(0, 3), 1: slice(2, 4)}, "sum")
    e = np.sqrt(partial)
    assert e.device == list(e.devices) == [0, 1]


def test_to_the_host(four: Any) -> None:
    x = da.asarray(HOST, layout=da.blocks(0))
    for host in (x.to_device("cpu"), array_api_compat.to_device(x, "cpu")):
        assert type(host) is np.ndarray
        assert host.device == "cpu"
        np.testing.assert_array_equal(host, HOST)
    assert array_api_compat.device(x) == x.device
    assert array_api_compat.to_device(x, [1]).device == [1]
    with pytest.raises(da.DeviceError):
        x.to_device("gpu")


def test_what_the_namespace_says_is_true(four: Any) -> None:
    info = da.__array_namespace_info__()
    assert info.default_device() == da.zeros(3).device
    for device in info.devices():
        assert da.zeros(3, device=device).device == device
    assert da.zeros(3, device=2).device in info.devices()


# --- DLPack out ---------------------------------------------------------------------------------------------------------


class Live:
    """The live chunk of an array, offered to a library of its device by DLPack alone."""

    def __init__(self, x: Any, device: tuple[int, int]) -> None:
        self.x, self.device = x, device

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.x.__dlpack__(**kwargs | {"dl_device": self.device, "copy": False})

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


def taken(context: Any, x: Any) -> Any:
    """The live chunk, as the library of the context's memory takes it."""
    device = context.by_id[x.device.ids[0]]
    return device.lib.from_dlpack(Live(x, memory(device)))


def memory(device: Any) -> tuple[int, int]:
    """Where a device's memory is, as DLPack numbers it."""
    return (1, 0) if device.kind == "host" else (2, device.ordinal)


@pytest.mark.parametrize("dtype", ["f8", "i2", "c8", "?"])
def test_dlpack_without_a_copy(dtype: str, four: Any) -> None:
    """The one chunk that holds the whole array is handed out live."""
    with four.by_id[2].active():  # its own stream, which orders what CuPy writes
        host = HOST.astype(dtype)
        x = da.asarray(host, device=[2])
        y = x + x  # recorded before, and reads the values of before
        live = taken(four, x)
        live[0, 0] = 0
        live[1, 1] = 1
        assert x.get()[1, 1] == 1
        x[2, 2] = 0
        assert live[2, 2] == 0
        np.testing.assert_array_equal(y.get(), host + host)
        column = taken(four, x[:, 1])
        live[2, 1] = 0
        assert column.shape == (3,)
        assert column[2] == 0
        copied = np.from_dlpack(x)  # in the host's memory, whatever the devices are
        assert x.__dlpack_device__() == (1, 0)
        live[0, 1] = 0
        assert copied[0, 1] == 1


def test_dlpack_of_copies_and_parts(four: Any) -> None:
    parts = da.asarray(HOST, layout=da.blocks(0))
    with pytest.raises(BufferError, match="copy=None"):
        taken(four, parts)
    with pytest.raises(BufferError, match="copy=None"):
        np.from_dlpack(parts, copy=False)
    np.testing.assert_array_equal(np.from_dlpack(parts, copy=True), HOST)
    assert taken(four, parts[:1]).tolist() == HOST[:1].tolist()
    partial = da.asarray(HOST, layout=da.replicated()).change_mode("sum")
    with pytest.raises(BufferError):
        taken(four, partial)


def test_dlpack_knows_the_memory(four: Any) -> None:
    """Nothing is handed out live to who asks for memory of another kind."""
    x = da.asarray(HOST, device=[2])
    for other in ((1, 0), (2, 0)):
        if other != memory(four.by_id[2]):
            with pytest.raises(BufferError, match="copy=None"):
                x.__dlpack__(dl_device=other, copy=False)
    if four.kind == "cuda":
        with pytest.raises(BufferError, match="copy=None"):
            np.from_dlpack(x, copy=False)


def test_dlpack_of_host_devices_tells_what_is_read_only() -> None:
    with da.init(devices=4, kind="host"):
        x = da.asarray(HOST, device=[2])
        assert np.shares_memory(np.from_dlpack(x, copy=False), np.from_dlpack(x[:, 1], copy=False))
        replicated = np.from_dlpack(da.asarray(HOST, layout=da.replicated()), copy=False)
        np.testing.assert_array_equal(replicated, HOST)
        assert not replicated.flags.writeable  # the other copies would not follow


# --- from_dlpack --------------------------------------------------------------------------------------------------------


class Foreign:
    """An array of another library: nothing but DLPack."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("dtype", ["f8", "u1", "c8", "?"])
def test_from_dlpack_copies(dtype: str, four: Any) -> None:
    host = np.arange(1200).reshape(30, 40).astype(dtype)
    for source in (host, Foreign(host), host.T):
        x = da.from_dlpack(source)
        np.testing.assert_array_equal(x.get(), np.from_dlpack(source))
    assert da.from_dlpack(Foreign(host), device=[1, 2]).devices == (1, 2)
    assert da.from_dlpack(x) is x
    with da.ledger() as log:
        assert da.from_dlpack(x, copy=True) is not x
    assert not log.bytes_moved


def test_from_dlpack_without_a_copy(four: Any) -> None:
    """One device takes the memory as it is; recorded work that read it before keeps what it read."""
    device = four.by_id[2]
    with device.active():  # its own stream, which orders what CuPy writes
        theirs = device.lib.arange(6.0)
        x = da.from_dlpack(Foreign(theirs), device=2, copy=False)
        y = x + 1
        theirs[0] = 7
        assert x.tolist() == [7, 1, 2, 3, 4, 5]
        assert y.tolist() == [1, 2, 3, 4, 5, 6]
        x[5] = 0
        assert theirs[5] == 0


def test_from_dlpack_keeps_what_is_read_only() -> None:
    with da.init(devices=4, kind="host"):
        host = np.arange(6.0)
        host.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            da.from_dlpack(host, device=2, copy=False)[0] = 1


def test_from_dlpack_refuses(four: Any) -> None:
    with pytest.raises(TypeError, match="__dlpack__"):
        da.from_dlpack([1, 2])
    with pytest.raises(BufferError, match="copy=None"):
        da.from_dlpack(np.arange(3), copy=False)
    with pytest.raises(BufferError, match="copy=None"):
        da.from_dlpack(np.arange(6).reshape(2, 3).T, device=0, copy=False)
    with pytest.raises(BufferError):
        da.from_dlpack(da.asarray(np.arange(4000)), device=[0], copy=False)
