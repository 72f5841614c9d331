"""Arrays written to files: NumPy's formats, written by every device for itself, and never whole on one host.

A file appears under its name when it is complete: it is written aside, then renamed, so that a write that fails or is
killed leaves what was there.
"""

from __future__ import annotations

import io
import math
import os
import secrets
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import cache, partial
from io import FileIO
from typing import Any, cast

import numpy as np

from distarray.algorithms.held import run_by_device
from distarray.array.agreement import agreed
from distarray.array.aliases import ArrayLike, File
from distarray.array.documented import described_as
from distarray.array.functions import implements
from distarray.array.state import DistributedArray
from distarray.context import Context
from distarray.current import current
from distarray.devices import Device
from distarray.devices.arrays import DeviceArray
from distarray.errors import UnsupportedError
from distarray.geometry import Region
from distarray.geometry.reshape import reshape_region
from distarray.ops.convert import asarray
from distarray.storage import Operand

__all__ = ["save", "savetxt", "savez", "savez_compressed", "tofile"]

_PIECE = 1 << 24
"""Bytes that go through the host at a time."""


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
        _each_writes(x, file, header, "save")
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
            _each_writes(x, fid, b"", "tofile")
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
def savez(file: File, *args: ArrayLike, allow_pickle: bool = True, **kwds: ArrayLike) -> None:
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
def savez_compressed(file: File, *args: ArrayLike, allow_pickle: bool = True, **kwds: ArrayLike) -> None:
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
    size, itemsize = math.prod(found.shape), found.dtype.itemsize
    if not size:
        return
    tasks: list[tuple[int, Callable[[], None]]] = []
    mapped = cache(lambda: np.memmap(path, found.dtype, "r+", offset, found.shape))
    with ExitStack() as opened:
        file = opened.enter_context(open(path, "r+b", buffering=0))
        for number, device in enumerate(context.local_devices):
            if number and device.kind != "host":  # each device's thread writes through a file of its own
                file = opened.enter_context(open(path, "r+b", buffering=0))
            for chunk, region in found.layout.index_map.first_owned(device.id):
                array = found.arrays[chunk][found.layout.chunks[chunk][1].locate(region).key]
                run = reshape_region(region, found.shape, (size,))
                if run is None or run[0].step != 1:
                    tasks.append((device.id, partial(_write_strided, device, mapped, region, array)))
                    continue
                place = offset + run[0].start * itemsize
                if device.kind == "host":  # the system takes one write to a file at a time: threads would wait in turn
                    _write_run(device, file, place, array)
                else:
                    tasks.append((device.id, partial(_write_run, device, file, place, array)))
        run_by_device(context, tasks, size * itemsize)


def _write_run(device: Device, file: FileIO, place: int, array: Any) -> None:
    """Write elements that lie one behind the other in the file."""
    file.seek(place)
    if device.kind == "host" and array.flags.c_contiguous:
        _write_bytes(file, array)
        return
    flat, step = array.reshape(-1), max(1, _PIECE // array.dtype.itemsize)
    for first in range(0, flat.size, step):
        _write_bytes(file, _on_host(device, flat[first : first + step]))


def _write_bytes(file: FileIO, array: Any) -> None:
    """Write an array in C order where the file stands.

    Of large ones ``tofile`` asks for the room on the disk before it writes. Without that the file system looks for it when
    the file takes another's name, and begins to write out: three times the time of the writes themselves. An interrupt
    while it looks at what the file is becomes a TypeError there.
    """
    if array.nbytes < _PIECE:
        rest = array.reshape(-1).view(np.uint8).data
        while rest:
            rest = rest[file.write(rest) :]
        return
    try:
        array.tofile(file)
    except TypeError as error:
        raise KeyboardInterrupt from error


def _write_strided(
    device: Device, mapped: Callable[[], np.memmap[Any, Any]], region: Region, array: DeviceArray
) -> None:
    """Write elements that lie apart in the file."""
    rows = max(1, _PIECE // max(1, array.nbytes // array.shape[0]))
    part = mapped()[region.key]
    for first in range(0, array.shape[0], rows):
        part[first : first + rows] = _on_host(device, array[first : first + rows])


def _on_host(device: Device, array: DeviceArray) -> Any:
    return np.ascontiguousarray(array) if device.kind == "host" else device.to_host(array)


def _in_turn(context: Context, operation: str, steps: Iterator[Callable[[], object]], *, writes: bool = True) -> None:
    """Take local steps between which the processes communicate, on those that write.

    After a failure, nothing more is written, and all go on to the end, where they raise.
    """
    failed: Exception | None = None
    for step in steps:
        if writes and failed is None:
            try:
                step()
            except Exception as error:
                failed = error

    def outcome() -> None:
        if failed is not None:
            raise failed

    agreed(context, operation, outcome)


def _each_writes(x: DistributedArray, file: Any, header: bytes, operation: str) -> None:
    """Write the elements to a file that every process has opened for itself."""

    def steps() -> Iterator[Callable[[], object]]:
        yield partial(file.write, header)
        for piece in _pieces(x):
            yield partial(file.write, piece.data)

    _in_turn(x._context, operation, steps())


def _write_text(
    x: DistributedArray, file: object, texts: Iterator[str], operation: str, encoding: str | None = None
) -> None:
    """Write a text that all processes know: process 0 to a named file, each process to an open file of its own."""
    code = encoding or "latin1"
    if hasattr(file, "write"):

        def put(text: str) -> None:
            try:
                file.write(text)
            except TypeError:
                file.write(text.encode(code))

        _in_turn(x._context, operation, (partial(put, text) for text in texts))
        return

    def write(other: str) -> None:
        opened: list[Any] = []

        def steps() -> Iterator[Callable[[], object]]:
            try:
                yield lambda: opened.append(open(other, "w", encoding=code, newline=""))  # noqa: SIM115 - closed below
                for text in texts:
                    yield lambda text=text: opened[0].write(text)  # type: ignore[misc]
                yield lambda: opened[0].close()
            finally:
                with suppress(OSError):  # what closing adds to a failure
                    for out in opened:
                        out.close()

        _in_turn(x._context, operation, steps(), writes=x._context.process == 0)

    _aside(x._context, os.fspath(cast("str", file)), operation, write)


def _archive(file: Any, args: tuple[Any, ...], kwds: dict[str, Any], method: int, operation: str) -> None:
    named = {f"arr_{i}": a for i, a in enumerate(args)}
    for name in kwds:
        if name in named:
            raise ValueError(f"Cannot use un-named variables and keyword {name}")
    arrays = {name: asarray(a) for name, a in {**named, **kwds}.items()}
    headers = {name: _header(a) for name, a in arrays.items()}
    context = next((a._context for a in arrays.values()), None) or current()

    def steps(target: Any) -> Iterator[Callable[[], object]]:
        opened: list[Any] = []  # the archive, and the member that is written
        try:
            yield lambda: opened.append(zipfile.ZipFile(target, "w", method, allowZip64=True))
            for name, x in arrays.items():
                yield lambda name=name: opened.append(opened[0].open(f"{name}.npy", "w", force_zip64=True))  # type: ignore[misc]
                yield lambda name=name: opened[1].write(headers[name])  # type: ignore[misc]
                for piece in _pieces(x):
                    yield lambda data=(piece.data if piece.size else b""): opened[1].write(data)  # type: ignore[misc]
                yield lambda: opened.pop().close()
            yield lambda: opened[0].close()
        finally:
            with suppress(Exception):  # what closing adds to a failure
                for part in reversed(opened):
                    part.close()

    if hasattr(file, "write"):
        _in_turn(context, operation, steps(file))
        return
    path = os.fspath(cast("str", file))
    path = path if path.endswith(".npz") else path + ".npz"
    first = context.process == 0
    _aside(context, path, operation, lambda other: _in_turn(context, operation, steps(other), writes=first))
