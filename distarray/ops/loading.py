"""Arrays read from files: NumPy's formats, of which every device reads its own part in place."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any, cast

import numpy as np

from distarray.algorithms.held import run_by_device
from distarray.array.agreement import agreed
from distarray.array.aliases import DeviceLike, DTypeLike, File, LayoutLike
from distarray.array.dtypes import check_dtype
from distarray.array.functions import implements
from distarray.array.layouts import resolve_layout
from distarray.array.state import DistributedArray, from_chunks
from distarray.current import current
from distarray.devices import Chunk, Device
from distarray.devices.arrays import AnyDType
from distarray.geometry import Region
from distarray.ops.convert import asarray

__all__ = ["fromfile", "load"]


class Archive(Mapping[str, DistributedArray]):
    """The arrays of an ``.npz`` file, each read when it is asked for.

    Members that are not compressed are read in place, by every device its part; compressed ones are unpacked whole on each
    host.
    """

    def __init__(self, path: str, layout: LayoutLike, device: DeviceLike) -> None:
        self._path, self._layout, self._device = path, layout, device
        self._members: dict[str, zipfile.ZipInfo] = {}

        def names() -> list[str]:
            with zipfile.ZipFile(path) as archive:
                self._members = {i.filename.removesuffix(".npy"): i for i in archive.infolist()}
            return list(self._members)

        self.files = _same(path, names)

    def __getitem__(self, name: str) -> DistributedArray:
        info = self._members[name.removesuffix(".npy") if name not in self._members else name]
        if info.compress_type == zipfile.ZIP_STORED:
            return _mapped(self._path, info, self._layout, self._device)

        def unpack() -> Any:
            with zipfile.ZipFile(self._path) as archive, archive.open(info) as member:
                return np.lib.format.read_array(member)

        return asarray(_read_whole(unpack), layout=self._layout, device=self._device)

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)

    def close(self) -> None:
        """Does nothing: no file is kept open."""

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class OpenArchive(Archive):
    """The arrays of an ``.npz`` file that was open: it was read whole by every process."""

    def __init__(self, arrays: dict[str, Any], layout: LayoutLike, device: DeviceLike) -> None:
        self._arrays, self._layout, self._device = arrays, layout, device
        self.files = list(arrays)

    def __getitem__(self, name: str) -> DistributedArray:
        known = name.removesuffix(".npy") if name not in self._arrays else name
        return asarray(self._arrays[known], layout=self._layout, device=self._device)


def _unpacked(found: object) -> Any:
    return dict(found) if isinstance(found, Mapping) else found


def load(
    file: File,
    mmap_mode: str | None = None,
    allow_pickle: bool = False,
    fix_imports: bool = True,
    encoding: str = "ASCII",
    *,
    layout: LayoutLike = None,
    device: DeviceLike = None,
) -> Any:
    """Read a ``.npy`` or ``.npz`` file, as ``numpy.load``.

    Parameters
    ----------
    file : str, path or binary file
        An open file is read whole by every process.
    mmap_mode, allow_pickle, fix_imports, encoding : object
        NumPy's; without effect: files are read in place, and objects are refused.
    layout : specification, dict, IndexMap or Layout, optional
        Default: blocks of rows; small arrays are replicated.
    device : Group, int or list of int, optional
        The devices to use. Default: all of the current context.

    Returns
    -------
    DistributedArray, or a mapping from names to them for ``.npz``

    Raises
    ------
    OSError
        There is no such file.
    ValueError
        It is no ``.npy`` or ``.npz`` file, is cut short, or holds objects.

    Notes
    -----
    Communication: between devices none: each reads its part, so all processes must see the file; three small rounds. Memory:
    the chunks.
    """
    if hasattr(file, "read"):
        values = _read_whole(lambda: _unpacked(np.load(file, allow_pickle=False)))
        return (
            OpenArchive(values, layout, device)
            if isinstance(values, dict)
            else asarray(values, layout=layout, device=device)
        )
    path = os.fspath(cast("str", file))

    def zipped() -> bool:
        with open(path, "rb") as opened:
            return opened.read(2) == b"PK"

    if _same(path, zipped):
        return Archive(path, layout, device)
    return _mapped(path, None, layout, device)


@implements(np.fromfile)
def fromfile(
    file: File,
    dtype: DTypeLike = float,
    count: int = -1,
    sep: str = "",
    offset: int = 0,
    *,
    layout: LayoutLike = None,
    device: DeviceLike = None,
) -> DistributedArray:
    """Read a file's elements as an array of one axis, as ``numpy.fromfile``.

    Parameters
    ----------
    file : str, path or binary file
    dtype : dtype
        Of the file's elements.
    count : int
        How many elements; -1: all.
    sep : str
        Between elements of a text file; without it, the file is binary.
    offset : int
        Bytes to leave out at the beginning.
    layout : specification, dict, IndexMap or Layout, optional
        Default: blocks of rows; small arrays are replicated.
    device : Group, int or list of int, optional
        The devices to use. Default: all of the current context.

    Returns
    -------
    DistributedArray
        Of one axis.

    Raises
    ------
    OSError
        There is no such file.

    Notes
    -----
    Communication: between devices none: each reads its part of a binary file; text (`sep`) and open files are read whole by
    every process. Two small rounds.
    """
    if sep != "" or hasattr(file, "read"):
        values = _read_whole(lambda: np.fromfile(file, dtype, count, sep, offset=offset))
        return asarray(values, layout=layout, device=device)
    kind = check_dtype(dtype)
    size = max(0, _same(os.fspath(cast("str", file)), lambda: os.path.getsize(file)) - offset) // kind.itemsize
    return _read(
        os.fspath(cast("str", file)), offset, kind, (size if count < 0 else min(count, size),), "C", layout, device
    )


def _same(path: str, local: Callable[[], Any]) -> Any:
    """What every process finds out about a file, a small JSON value."""
    found = agreed(current(), "load", local)
    wrong = [rank for rank, other in enumerate(found) if other != found[0]]
    if wrong:
        raise ValueError(f"process {wrong[0]} sees another file {path} than process 0: all must see the same one")
    return found[0]


def _read_whole(local: Callable[[], Any]) -> Any:
    """What this process reads for itself; all raise where one of them can't."""
    found: list[Any] = []
    agreed(current(), "load", lambda: found.append(local()))
    return found[0]


def _mapped(path: str, member: zipfile.ZipInfo | None, layout: LayoutLike, device: DeviceLike) -> DistributedArray:
    """The array of a ``.npy`` file, or of a member of a zip archive that is not compressed."""

    def header() -> list[Any]:
        with open(path, "rb") as file:
            if member is not None:
                file.seek(member.header_offset + 26)  # where the lengths of the name and the extra field stand
                lengths = int.from_bytes(file.read(2), "little") + int.from_bytes(file.read(2), "little")
                file.seek(member.header_offset + 30 + lengths)
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = read(file)
            first = file.tell()
        if dtype.hasobject:
            raise ValueError("Object arrays cannot be loaded: a distributed array holds numbers")
        if os.path.getsize(path) < first + math.prod(shape) * dtype.itemsize:
            raise ValueError(f"{path} is cut short: its header promises shape {shape}, dtype {dtype}")
        return [shape, fortran, np.lib.format.dtype_to_descr(dtype), first]

    shape, fortran, described, first = _same(path, header)
    dtype = np.lib.format.descr_to_dtype(_tuples(described))
    return _read(path, first, check_dtype(dtype), tuple(shape), "F" if fortran else "C", layout, device)


def _tuples(described: object) -> Any:
    """The description of a dtype whose tuples came as lists: fields, each with a name, a dtype and perhaps a shape."""
    if not isinstance(described, list):
        return described
    return [(name, _tuples(kind), *[tuple(shape) for shape in rest]) for name, kind, *rest in described]


def _read(
    path: str, offset: int, dtype: AnyDType, shape: tuple[int, ...], order: str, layout: LayoutLike, device: DeviceLike
) -> DistributedArray:
    context = current()
    native = dtype.newbyteorder("=")
    target = resolve_layout(context, layout, shape, device=device, itemsize=dtype.itemsize)
    if not math.prod(shape):
        return asarray(np.empty(shape, native), layout=target)
    chunks: list[Chunk | None] = [None] * len(target.chunks)

    mapped = cache(lambda: np.memmap(path, dtype, "r", offset, shape, cast("Any", order)))

    def read(own: Device, number: int, region: Region) -> None:
        chunks[number] = own.from_host(mapped()[region.key], native, "load")

    tasks = [
        (device_id, partial(read, context.by_id[device_id], number, region))
        for number, (device_id, region) in enumerate(target.chunks)
        if context.by_id[device_id].process == context.process
    ]
    agreed(context, "load", lambda: run_by_device(context, tasks, math.prod(shape) * dtype.itemsize))
    return from_chunks(context, target, chunks, native)
