"""Collectives of host arrays built on `Communicator.exchange`, so that they have its deadlines and its errors.

The fold of an all-reduce goes by rank, whatever the arrival and the library: every process gets the same bits, and so
does every run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from distarray.comm.base import Communicator, Message, Signature
from distarray.errors import LayoutError, UnsupportedError

__all__ = ["all_reduce"]

FOLDS: dict[str, np.ufunc] = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}

SMALL = 1 << 15
"""Bytes up to which everyone sends everything to everyone: one round instead of two."""

CHUNK = 1 << 21
"""Bytes of a piece: it stays in the cache between its arrival, its fold and its departure."""


def all_reduce(
    comm: Communicator,
    array: np.ndarray[Any, Any],
    op: str = "sum",
    out: np.ndarray[Any, Any] | None = None,
    *,
    site: str = "",
) -> np.ndarray[Any, Any]:
    """The arrays of all processes, folded element by element in rank order.

    Parameters
    ----------
    comm : Communicator
        Of the processes, which all call this with arrays of one shape and dtype.
    array : ndarray
        This process's part, C-contiguous.
    op : {"sum", "prod", "min", "max"}
        NumPy's own fold: sums of bool are ``or``, NaN wins in min and max, integers wrap.
    out : ndarray, optional
        Where the result goes; it may be `array`. New memory costs as much as moving the data: pass it where the call
        is repeated.
    site : str, optional
        Where the call stands, for error messages.

    Returns
    -------
    ndarray
        `out`, or a new array: the same bits on every process.

    Raises
    ------
    UnsupportedError
        Another `op`, or an array of objects.
    LayoutError
        An array that is not C-contiguous, or an `out` of another shape or dtype.
    CommunicationError
        As `Communicator.exchange`. `out` then holds no defined values.

    Notes
    -----
    Communication: a reduce-scatter and an all-gather by direct messages [1]_, in pieces of 2 MiB that are folded while
    they are in the cache; each process sends and receives ``2 (size - 1) / size`` of the array's bytes.

    .. [1] R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH", 2005.
    """
    if op not in FOLDS:
        raise UnsupportedError(f"op={op!r} is no fold that all_reduce knows; use one of {', '.join(map(repr, FOLDS))}.")
    if out is None:
        out = np.empty_like(array, order="C")
    for name, one in (("array", array), ("out", out)):
        if one.shape != array.shape or one.dtype != array.dtype or not one.flags.c_contiguous:
            raise LayoutError(
                f"{name} has shape {one.shape}, dtype {one.dtype} and strides {one.strides}; all_reduce needs C-contiguous "
                f"arrays of shape {array.shape} and dtype {array.dtype}: pass np.ascontiguousarray({name})."
            )
    signature = Signature("all_reduce", f"{op} of {array.dtype} {array.shape}", site)
    source, target = array.reshape(-1), out.reshape(-1)
    if comm.size == 1:
        np.copyto(target, source)
    elif array.nbytes <= SMALL:
        _all_to_all(comm, source, target, FOLDS[op], signature)
    else:
        _by_pieces(comm, source, target, FOLDS[op], signature)
    return out


def _all_to_all(comm: Communicator, source: Any, target: Any, fold: np.ufunc, signature: Signature) -> None:
    parts = np.empty((comm.size, source.size), source.dtype)
    parts[comm.rank] = source
    others = [rank for rank in range(comm.size) if rank != comm.rank]
    comm.exchange([Message(p, parts[comm.rank]) for p in others], [Message(p, parts[p]) for p in others], signature)
    _fold(fold, list(parts), target)


def _by_pieces(comm: Communicator, source: Any, target: Any, fold: np.ufunc, signature: Signature) -> None:
    """Rank r folds segment r. Piece by piece: collect it, fold it, hand it out; all ranks take the same number of rounds."""
    size, me = comm.size, comm.rank
    bounds = [source.size * rank // size for rank in range(size + 1)]
    step = max(CHUNK // source.itemsize, 1)
    others = [(me + shift) % size for shift in range(1, size)]
    longest = max(high - low for low, high in zip(bounds, bounds[1:]))
    staging = np.empty((size, min(step, longest)), source.dtype)
    for start in range(0, longest, step):
        pieces = [slice(min(low + start, high), min(low + start + step, high)) for low, high in zip(bounds, bounds[1:])]
        mine = pieces[me]
        length = mine.stop - mine.start
        received = [Message(peer, staging[peer, :length]) for peer in others]
        comm.exchange([Message(peer, source[pieces[peer]]) for peer in others], received, signature)
        own = source[mine]
        if me > 1 and np.may_share_memory(source, target):  # the fold of the ranks before would overwrite it
            staging[me, :length] = own
            own = staging[me, :length]
        parts = [own if rank == me else staging[rank, :length] for rank in range(size)]
        _fold(fold, parts, target[mine])
        handed = [Message(peer, target[pieces[peer]]) for peer in others]
        comm.exchange([Message(peer, target[mine]) for peer in others], handed, signature)


def _fold(fold: np.ufunc, parts: list[Any], out: Any) -> None:
    with np.errstate(all="ignore"):  # the values are other processes' as well: their operation warned if it should
        fold(parts[0], parts[1], out=out)
        for part in parts[2:]:
            fold(out, part, out=out)
