"""Arrays in files: NumPy's formats, written and read by every device for itself, and never whole on one host.

A file appears under its name when it is complete: it is written aside, then renamed, so that a write that fails or is
killed leaves what was there.
"""

from __future__ import annotations

import io
import math
import os
import secrets
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, cast

import numpy as np

from distarray.algorithms.held import run_by_device
from distarray.array.agreement import agreed
from distarray.array.aliases import ArrayLike, DeviceLike, DTypeLike, File, LayoutLike
from distarray.array.documented import described_as
from distarray.array.dtypes import check_dtype
from distarray.array.functions import implements
from distarray.array.layouts import resolve_layout
from distarray.array.state import DistributedArray, from_chunks
from distarray.context import Context
from distarray.current import current
from distarray.devices import Chunk, Device
from distarray.errors import UnsupportedError
from distarray.geometry import Region
from distarray.geometry.reshape import reshape_region
from distarray.ops.convert import asarray
from distarray.storage import Operand

__all__ = ["fromfile", "load", "save", "savetxt", "savez", "savez_compressed", "tofile"]

_PIECE = 1 << 24
"""Bytes that go through the host at a time."""


# --- writing ------------------------------------------------------------------------------------------------------------


@implements(np.save)
def save(file: File, arr: ArrayLike, allow_pickle: bool = True) -> None:
    """Write an array to a ``.npy`` file, as ``numpy.save``.

    Parameters
    ----------
    file : str, path or binary file
        ``.npy`` is added to a name without it. A file that is open is written piece after piece, by every process to its
        own.
    arr : array_like
    allow_pickle : bool
        Has no effect: distributed arrays hold no objects.

    Raises
    ------
    OSError
        The file can't be written; on all processes, and what was there is left.
    UnsupportedError
        A bfloat16 array, which the format has no name for.

    Notes
    -----
    Communication: between devices none: each writes the elements that it owns at their place in the file, which all
    processes must see (one host, or a shared file system); three small rounds. To an open file the array passes through
    every host in pieces of 16 MiB. Memory: one piece a device.

    Examples
    --------
    >>> import os, tempfile, numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"), tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "x.npy")
    ...     da.save(path, da.asarray(np.arange(6.0), layout=da.blocks(0)))
    ...     np.load(path), da.load(path).get()
    (array([0., 1., 2., 3., 4., 5.]), array([0., 1., 2., 3., 4., 5.]))
    """
    x = asarray(arr)
    header = _header(x)
    if hasattr(file, "write"):
        file.write(header)
        for piece in _pieces(x):
            file.write(piece.data)
        return
    path = os.fspath(cast("str", file))
    _write(x, path if path.endswith(".npy") else path + ".npy", header, "save")


def tofile(a: ArrayLike, fid: File, sep: str = "", format: str = "%s") -> None:
    """Write an array's elements to a file, as ``numpy.ndarray.tofile``.

    Parameters
    ----------
    a : array_like
    fid : str, path or binary file
    sep : str
        Between elements that are written as text; without it, their bytes are written in C order.
    format : str
        Of an element written as text, for ``%``.

    Raises
    ------
    OSError
        The file can't be written; on all processes, and what was there is left.

    Notes
    -----
    Communication: as for :func:`save`; as text the array passes through every host, and process 0 writes.
    """
    x = asarray(a)
    if sep == "":
        if hasattr(fid, "write"):
            for piece in _pieces(x):
                fid.write(piece.data)
        else:
            _write(x, os.fspath(cast("str", fid)), b"", "tofile")
        return
    texts = (sep.join(format % value for value in piece.reshape(-1).tolist()) for piece in _pieces(x))
    _write_text(x, fid, _between(texts, sep), "tofile")


@implements(np.savetxt)
def savetxt(
    fname: File,
    X: ArrayLike,
    fmt: str | Sequence[str] = "%.18e",
    delimiter: str = " ",
    newline: str = "\n",
    header: str = "",
    footer: str = "",
    comments: str = "# ",
    encoding: str | None = None,
) -> None:
    """Write an array of one or two axes as text, as ``numpy.savetxt``.

    Parameters
    ----------
    fname : str, path or file
    X : array_like
        Of one or two axes.
    fmt : str or sequence of str
        Formats of an element, or of each column's.
    delimiter, newline : str
        Between columns, and behind rows.
    header, footer : str
        Lines before and behind, after `comments`.
    comments : str
        What marks the header and the footer.
    encoding : str, optional
        Default: Latin 1.

    Raises
    ------
    ValueError
        `X` has neither one axis nor two.
    OSError
        The file can't be written; on all processes, and what was there is left.

    Notes
    -----
    Communication: the array passes through every host in pieces of 16 MiB, and process 0 writes.
    """
    x = asarray(X)
    if not 0 < x.ndim < 3:
        raise ValueError(f"Expected 1D or 2D array, got {x.ndim}D array instead")

    def texts() -> Iterator[str]:
        rows = max(1, _PIECE // max(1, x.nbytes // max(1, len(x))))
        for first in range(0, max(1, len(x)), rows):
            last = first + rows >= len(x)
            text = io.StringIO()
            np.savetxt(text, x[first : first + rows].get(), fmt, delimiter, newline, header if not first else "",
                       footer if last else "", comments)  # fmt: skip
            yield text.getvalue()

    _write_text(x, fname, texts(), "savetxt", encoding)


@implements(np.savez)
def savez(file: File, *args: Any, allow_pickle: bool = True, **kwds: Any) -> None:
    """Write several arrays to one ``.npz`` file, as ``numpy.savez``.

    Parameters
    ----------
    file : str, path or binary file
        ``.npz`` is added to a name without it.
    *args : array_like
        Named ``arr_0``, ``arr_1``, and so on.
    allow_pickle : bool
        Has no effect: distributed arrays hold no objects.
    **kwds : array_like
        By name.

    Raises
    ------
    ValueError
        A name of `kwds` is one of those of `args`.
    OSError
        The file can't be written; on all processes, and what was there is left.

    Notes
    -----
    Communication: the arrays pass through every host in pieces of 16 MiB, and process 0 writes: one zip archive has one
    writer. :func:`save` writes in parallel.
    """
    _archive(file, args, kwds, zipfile.ZIP_STORED, "savez")


@implements(np.savez_compressed)
@described_as(savez)
def savez_compressed(file: File, *args: Any, allow_pickle: bool = True, **kwds: Any) -> None:
    """Write several arrays to one compressed ``.npz`` file, as ``numpy.savez_compressed``.

    Notes
    -----
    Communication: as for :func:`savez`.
    """
    _archive(file, args, kwds, zipfile.ZIP_DEFLATED, "savez_compressed")


def _header(x: DistributedArray) -> bytes:
    if x.dtype.kind == "V" and x.dtype.names is None:
        raise UnsupportedError(f"the .npy format has no name for {x.dtype}: save x.astype(numpy.float32)")
    text = io.BytesIO()
    described = {"descr": np.lib.format.dtype_to_descr(x.dtype), "fortran_order": False, "shape": x.shape}
    np.lib.format.write_array_header_1_0(text, described)
    return text.getvalue()


def _pieces(x: DistributedArray) -> Iterator[Any]:
    """The elements in C order, some at a time, on every process."""
    if x.nbytes <= _PIECE or x.ndim == 0:
        yield np.ascontiguousarray(x.get())
        return
    rows = max(1, _PIECE // max(1, x.nbytes // x.shape[0]))
    for first in range(0, x.shape[0], rows):
        part = x[first : first + rows]
        if rows == 1:
            yield from _pieces(part[0, ...])
        else:
            yield np.ascontiguousarray(part.get())


def _between(texts: Iterator[str], sep: str) -> Iterator[str]:
    for number, text in enumerate(texts):
        yield sep + text if number else text


def _aside(context: Context, path: str, operation: str, write: Callable[[str], None]) -> None:
    """Have `write` make a file under a name of its own, which then takes the place of `path`."""
    folder, name = os.path.split(path)
    token = agreed(context, operation, lambda: secrets.token_hex(6))[0]
    other = os.path.join(folder, f".{name}.{token}.part")
    try:
        write(other)
        agreed(context, operation, lambda: os.replace(other, path) if context.process == 0 else None)
    except BaseException:
        if context.process == 0 and os.path.exists(other):
            os.unlink(other)
        raise


def _write(x: DistributedArray, path: str, header: bytes, operation: str) -> None:
    """Have every device write its part to its place behind the header."""
    context = x._context
    found = x._operand(operation)

    def begin(other: str) -> None:
        if context.process == 0:
            with open(other, "xb") as file:
                file.write(header)
                file.truncate(len(header) + x.nbytes)

    def write(other: str) -> None:
        agreed(context, operation, lambda: begin(other))
        agreed(context, operation, lambda: _write_own(context, found, other, len(header)))

    _aside(context, path, operation, write)


def _write_own(context: Context, found: Operand, path: str, offset: int) -> None:
    if not math.prod(found.shape):
        return
    file = os.open(path, os.O_RDWR)
    try:
        tasks = []
        for device in context.local_devices:
            for chunk, region in found.layout.index_map.first_owned(device.id):
                key = found.layout.chunks[chunk][1].locate(region).key
                task = partial(_write_region, device, file, path, offset, found, region, found.arrays[chunk][key])
                tasks.append((device.id, task))
        run_by_device(context, tasks, math.prod(found.shape) * found.dtype.itemsize)
    finally:
        os.close(file)


def _write_region(
    device: Device, file: int, path: str, offset: int, found: Operand, region: Region, array: Any
) -> None:
    run = reshape_region(region, found.shape, (math.prod(found.shape),))
    if run is not None and run[0].step == 1:
        place = offset + run[0].start * found.dtype.itemsize
        flat, step = array.reshape(-1), max(1, _PIECE // found.dtype.itemsize)
        for first in range(0, flat.size, step):
            data = memoryview(_on_host(device, flat[first : first + step])).cast("B")
            while data:
                done = os.pwrite(file, data, place)
                data, place = data[done:], place + done
        return
    target = np.memmap(path, found.dtype, "r+", offset, found.shape)
    rows = max(1, _PIECE // max(1, array.nbytes // array.shape[0]))
    part = target[region.key]
    for first in range(0, array.shape[0], rows):
        part[first : first + rows] = _on_host(device, array[first : first + rows])


def _on_host(device: Device, array: Any) -> Any:
    return np.ascontiguousarray(array) if device.kind == "host" else device.to_host(array)


def _write_text(
    x: DistributedArray, file: Any, texts: Iterator[str], operation: str, encoding: str | None = None
) -> None:
    """Write a text that all processes know: process 0 to a named file, each process to an open file of its own."""
    if hasattr(file, "write"):
        for text in texts:
            try:
                file.write(text)
            except TypeError:
                file.write(text.encode(encoding or "latin1"))
        return

    def write(other: str) -> None:
        out = None
        try:
            for text in texts:
                if x._context.process == 0:
                    out = out or open(other, "w", encoding=encoding or "latin1", newline="")  # noqa: SIM115 - closed below
                    out.write(text)
        finally:
            if out is not None:
                out.close()

    _aside(x._context, os.fspath(cast("str", file)), operation, write)


def _archive(file: Any, args: tuple[Any, ...], kwds: dict[str, Any], method: int, operation: str) -> None:
    named = {f"arr_{i}": a for i, a in enumerate(args)}
    for name in kwds:
        if name in named:
            raise ValueError(f"Cannot use un-named variables and keyword {name}")
    arrays = {name: asarray(a) for name, a in {**named, **kwds}.items()}
    headers = {name: _header(a) for name, a in arrays.items()}
    context = next((a._context for a in arrays.values()), None) or current()

    def fill(target: Any) -> None:
        """Every process gives its pieces; the one that has a target writes them."""
        with nullcontext() if target is None else zipfile.ZipFile(target, "w", method, allowZip64=True) as out:
            for name, x in arrays.items():
                with nullcontext() if out is None else out.open(f"{name}.npy", "w", force_zip64=True) as member:
                    write = (lambda data: None) if member is None else member.write
                    write(headers[name])
                    for piece in _pieces(x):
                        write(piece.data if piece.size else b"")

    if hasattr(file, "write"):
        fill(file)
        return
    path = os.fspath(cast("str", file))
    path = path if path.endswith(".npz") else path + ".npz"
    _aside(context, path, operation, lambda other: fill(other if context.process == 0 else None))


# --- reading ------------------------------------------------------------------------------------------------------------


class Archive(Mapping[str, DistributedArray]):
    """The arrays of an ``.npz`` file, each read when it is asked for.

    Members that are not compressed are read in place, by every device its part; compressed ones are unpacked whole on each
    host.
    """

    def __init__(self, path: str, layout: LayoutLike, device: DeviceLike) -> None:
        self._path, self._layout, self._device = path, layout, device
        with zipfile.ZipFile(path) as archive:
            self._members = {i.filename.removesuffix(".npy"): i for i in archive.infolist()}
        self.files = list(self._members)

    def __getitem__(self, name: str) -> DistributedArray:
        info = self._members[name.removesuffix(".npy") if name not in self._members else name]
        if info.compress_type == zipfile.ZIP_STORED:
            with open(self._path, "rb") as file:
                file.seek(info.header_offset + 26)  # where the lengths of the name and the extra field stand
                lengths = int.from_bytes(file.read(2), "little") + int.from_bytes(file.read(2), "little")
            return _mapped(self._path, info.header_offset + 30 + lengths, self._layout, self._device)
        with zipfile.ZipFile(self._path) as archive, archive.open(info) as member:
            return asarray(np.lib.format.read_array(member), layout=self._layout, device=self._device)

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
    Communication: none: every device reads its part, so all processes must see the file. Memory: the chunks.
    """
    if hasattr(file, "read"):
        return asarray(np.load(file, allow_pickle=False), layout=layout, device=device)
    path = os.fspath(cast("str", file))
    with open(path, "rb") as opened:
        start = opened.read(4)
    if start[:2] == b"PK":
        return Archive(path, layout, device)
    return _mapped(path, 0, layout, device)


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
    Communication: none: every device reads its part of a binary file; text (`sep`) and open files are read whole by every
    process.
    """
    if sep != "" or hasattr(file, "read"):
        return asarray(np.fromfile(file, dtype, count, sep, offset=offset), layout=layout, device=device)
    kind = check_dtype(dtype)
    size = max(0, os.path.getsize(file) - offset) // kind.itemsize
    return _read(
        os.fspath(cast("str", file)), offset, kind, (size if count < 0 else min(count, size),), "C", layout, device
    )


def _mapped(path: str, offset: int, layout: Any, device: Any) -> DistributedArray:
    """The array of a ``.npy`` file that begins at `offset`."""
    with open(path, "rb") as file:
        file.seek(offset)
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(file)
        first = file.tell()
    if dtype.hasobject:
        raise ValueError("Object arrays cannot be loaded: a distributed array holds numbers")
    if os.path.getsize(path) < first + math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{path} is cut short: its header promises shape {shape}, dtype {dtype}")
    return _read(path, first, check_dtype(dtype), shape, "F" if fortran else "C", layout, device)


def _read(
    path: str, offset: int, dtype: Any, shape: tuple[int, ...], order: str, layout: Any, device: Any
) -> DistributedArray:
    context = current()
    native = dtype.newbyteorder("=")
    target = resolve_layout(context, layout, shape, device=device, itemsize=dtype.itemsize)
    if not math.prod(shape):
        return asarray(np.empty(shape, native), layout=target)
    chunks: list[Chunk | None] = [None] * len(target.chunks)

    def read(own: Device, number: int, region: Region) -> None:
        source = np.memmap(path, dtype, "r", offset, shape, cast("Any", order))
        chunks[number] = own.from_host(source[region.key], native, "load")

    tasks = [
        (device_id, partial(read, context.by_id[device_id], number, region))
        for number, (device_id, region) in enumerate(target.chunks)
        if context.by_id[device_id].process == context.process
    ]
    agreed(context, "load", lambda: run_by_device(context, tasks, math.prod(shape) * dtype.itemsize))
    return from_chunks(context, target, chunks, native)
