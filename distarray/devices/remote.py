"""Devices of other processes: known by id, so that layouts and plans name them; they hold nothing here."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, NoReturn

import numpy.typing as npt

from distarray.devices.arrays import DeviceArray
from distarray.devices.base import Chunk, Device

__all__ = ["RemoteDevice"]


class RemoteDevice(Device):
    """A device that another process owns. Asking it to hold or compute anything is a bug in the caller."""

    def __init__(self, id: int, kind: str, *, process: int) -> None:
        super().__init__(id, process=process)
        self.kind = kind

    def _absent(self) -> NoReturn:
        raise AssertionError(f"device {self.id} belongs to process {self.process}: nothing can be done on it from here")

    @cached_property
    def xp(self) -> Any:
        self._absent()

    @cached_property
    def lib(self) -> Any:
        self._absent()

    @cached_property
    def lapack(self) -> Any:
        self._absent()

    def empty(self, shape: Sequence[int], dtype: npt.DTypeLike, label: str = "") -> Chunk:
        self._absent()

    def fill(self, array: DeviceArray, value: object) -> None:
        self._absent()

    def from_host(self, array: npt.ArrayLike, dtype: npt.DTypeLike | None = None, label: str = "") -> Chunk:
        self._absent()

    def from_foreign(self, array: DeviceArray, label: str = "") -> Chunk:
        self._absent()

    def to_host(self, array: DeviceArray) -> npt.NDArray[Any]:
        self._absent()

    def copy(self, dst_array: DeviceArray, src_array: DeviceArray, src_device: Device) -> None:
        self._absent()

    def active(self) -> AbstractContextManager[Any]:
        self._absent()

    def synchronize(self) -> None:
        """There is nothing to wait for: no work of this process runs there."""

    def owns(self, array: DeviceArray) -> bool:
        return False
