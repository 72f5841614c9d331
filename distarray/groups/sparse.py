"""The collectives of a process group on sparse matrices: csr, csc and coo.

A matrix travels as its three arrays. What they are (format, shape, data types, lengths) goes from host to host first, so
that the receiver allocates what it will get, whatever matrix it brought; only then the arrays themselves. Reductions
gather the matrices and fold them in rank order, so that every process gets the same bits.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from distarray.groups import buffers
from distarray.groups.buffers import Stream
from distarray.groups.engine import Engine

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "broadcast", "gather", "involved", "recv", "reduce", "reduce_scatter",
    "scatter", "send", "send_recv",
]  # fmt: skip

FIELDS = {"csr": ("data", "indices", "indptr"), "csc": ("data", "indices", "indptr"), "coo": ("data", "row", "col")}


def involved(value: object) -> bool:
    """Whether an argument is a sparse matrix, or a list or tuple with one in it. Imports no library."""
    if type(value).__module__.split(".")[0] in ("numpy", "cupy", "torch"):
        return False
    if isinstance(value, (list, tuple)):
        return any(map(_is_sparse, value))
    return _is_sparse(value)


def _is_sparse(value: object) -> bool:
    for name in ("scipy.sparse", "cupyx.scipy.sparse"):
        module = sys.modules.get(name)
        if module is not None and module.issparse(value):
            return True
    return False


# ---- checks


def _check(group: Engine, value: Any, name: str) -> Any:
    """The matrix, once it is one that this group can send or fill."""
    array_library, sparse = group._libraries()
    if not sparse.issparse(value):
        home = f"{sparse.__name__} for arrays of {array_library.__name__}"
        raise TypeError(f"{name} is a {type(value).__name__}; this group needs a sparse matrix of {home}")
    if value.format not in FIELDS:
        raise TypeError(
            f"{name} is a sparse matrix in {value.format} format; csr, csc and coo are supported: use {name}.tocsr()"
        )
    if len(value.shape) != 2:
        raise ValueError(
            f"{name} has shape {value.shape}; sparse matrices of two dimensions are supported: use reshape"
        )
    for field in FIELDS[value.format]:
        buffers.as_view(getattr(value, field), f"{name}.{field}")
    return value


def _check_list(group: Engine, values: object, name: str) -> list[Any]:
    if not isinstance(values, (list, tuple)) or len(values) != group.size:
        found = f"{len(values)} of them" if isinstance(values, (list, tuple)) else f"a {type(values).__name__}"
        raise ValueError(f"{name} must be a list of {group.size} sparse matrices, one for each process; found {found}")
    return [_check(group, value, f"{name}[{i}]") for i, value in enumerate(values)]


def _check_empty(values: object, name: str) -> list[Any]:
    if not isinstance(values, list) or values:
        raise ValueError(
            f"{name} must be an empty list, which is filled with one matrix of each process; pass [] and keep it"
        )
    return values


def _check_reduction(op: str, matrices: Sequence[Any]) -> None:
    if op not in ("sum", "prod"):
        raise ValueError(
            f"Sparse matrix only supports sum/prod reduction, not {op!r}; prod is the matrix product in rank order"
        )
    if op == "prod":
        for matrix in matrices:
            if matrix.shape[0] != matrix.shape[1]:
                raise ValueError(
                    f"op 'prod' is the matrix product of all processes' matrices, which must be square; found {matrix.shape}"
                )


# ---- moving


class _Letter:
    """What a matrix is, as it goes ahead of its arrays."""

    def __init__(self, matrix: Any) -> None:
        self.format: str = matrix.format
        self.shape: tuple[int, ...] = tuple(map(int, matrix.shape))
        arrays = [getattr(matrix, field) for field in FIELDS[matrix.format]]
        self.arrays = [(array.dtype.name, int(array.size)) for array in arrays]

    def __bytes__(self) -> bytes:
        return json.dumps([self.format, self.shape, self.arrays]).encode()

    @classmethod
    def read(cls, payload: bytes) -> _Letter:
        letter = cls.__new__(cls)
        form, shape, arrays = json.loads(payload)
        letter.format, letter.shape = str(form), tuple(map(int, shape))
        letter.arrays = [(str(dtype), int(size)) for dtype, size in arrays]
        if letter.format not in FIELDS or len(letter.arrays) != 3:
            raise ValueError(f"a process announced a sparse matrix of an unknown kind: {payload[:80]!r}")
        return letter

    def allocate(self, library: Any) -> list[Any]:
        return [library.empty(size, np.dtype(dtype)) for dtype, size in self.arrays]


def _parts(matrix: Any) -> list[Any]:
    return [getattr(matrix, field).reshape(-1) for field in FIELDS[matrix.format]]


def _move(
    group: Engine,
    method: str,
    sends: Sequence[tuple[int, Any]],
    sources: Sequence[int],
    stream: Stream,
    op: str = "",
    root: int = -1,
) -> list[tuple[_Letter, list[Any]]]:
    """Send matrices and receive one from each of `sources`, in that order: (what it is, its arrays)."""
    library, _ = group._libraries()
    own = [matrix for peer, matrix in sends if peer == group.rank]
    outward = [(peer, matrix) for peer, matrix in sends if peer != group.rank]
    alone = not outward and all(peer == group.rank for peer in sources)
    with nullcontext() if alone else group._making_sparse(method, op, root):
        for peer, matrix in outward:
            group._post(peer, bytes(_Letter(matrix)))
        letters = [_Letter(own[0]) if peer == group.rank else _Letter.read(group._fetch(peer)) for peer in sources]
        arrays = [
            [part.copy() for part in _parts(own[0])] if peer == group.rank else letter.allocate(library)
            for peer, letter in zip(sources, letters)
        ]
        inward = [(peer, parts) for peer, parts in zip(sources, arrays) if peer != group.rank]
        for field in range(3):  # at most one message for each pair of processes in a round
            group._exchange(
                [(peer, _parts(matrix)[field]) for peer, matrix in outward if _parts(matrix)[field].size],
                [(peer, parts[field]) for peer, parts in inward if parts[field].size],
                "sparse",
                stream,
            )
    return list(zip(letters, arrays))


def _build(like: Any, letter: _Letter, arrays: Sequence[Any], name: str) -> Any:
    """A matrix of the class of `like` from what came."""
    if letter.format != like.format:
        raise ValueError(
            f"{name}: the matrix that came is in {letter.format} format, the one here in {like.format}; use the same format "
            f"on all processes: x.to{letter.format}()"
        )
    if letter.format == "coo":
        return type(like)((arrays[0], (arrays[1], arrays[2])), shape=letter.shape)
    return type(like)((arrays[0], arrays[1], arrays[2]), shape=letter.shape)


def _assign(target: Any, source: Any, name: str) -> None:
    """Overwrite a matrix, its shape too. The data keeps the target's type, which must be the source's."""
    if target.format != source.format:
        source = source.asformat(target.format)
    if target.dtype != source.dtype:
        raise ValueError(
            f"{name} has dtype {target.dtype.name} and the matrix that came {source.dtype.name}; they must be equal: use "
            f"{name}.astype({source.dtype.name!r})"
        )
    target._shape = tuple(source.shape)
    if target.format == "coo" and hasattr(target, "coords"):  # scipy: row and col are properties of it
        target.data, target.coords = source.data, source.coords
    else:
        for field in FIELDS[target.format]:
            setattr(target, field, getattr(source, field))
    for cached in ("_has_canonical_format", "_has_sorted_indices"):  # what was known of the old entries
        vars(target).pop(cached, None)
    if target.format == "coo" and hasattr(target, "has_canonical_format"):
        target.has_canonical_format = False


def _receive(
    group: Engine,
    method: str,
    sends: Sequence[tuple[int, Any]],
    sources: Sequence[int],
    like: object,
    stream: Stream,
    op: str = "",
    root: int = -1,
) -> list[Any]:
    moved = _move(group, method, sends, sources, stream, op, root)
    return [_build(like, letter, arrays, "sparse") for letter, arrays in moved]


def _fold(matrices: Sequence[Any], op: str) -> Any:
    shapes = {matrix.shape for matrix in matrices}
    if len(shapes) > 1:
        raise ValueError(f"the processes' matrices have different shapes, which cannot be reduced: {sorted(shapes)}")
    combine: Callable[[Any, Any], Any] = (lambda a, b: a + b) if op == "sum" else (lambda a, b: a @ b)
    total = matrices[0]
    for matrix in matrices[1:]:
        total = combine(total, matrix)
    return total.asformat(matrices[0].format)


def _everyone(group: Engine) -> range:
    return range(group.size)


# ---- the collectives


def send(group: Engine, matrix: object, peer: int, stream: buffers.Stream) -> None:
    _move(group, "send", [(peer, _check(group, matrix, "array"))], [], stream)


def recv(group: Engine, out: object, peer: int, stream: buffers.Stream) -> None:
    _check(group, out, "out_array")
    [came] = _receive(group, "recv", [], [peer], out, stream)
    _assign(out, came, "out_array")


def send_recv(group: Engine, matrix: object, out: object, peer: int, stream: buffers.Stream) -> None:
    _check(group, matrix, "in_array"), _check(group, out, "out_array")
    [came] = _receive(group, "send_recv", [(peer, matrix)], [peer], out, stream)
    _assign(out, came, "out_array")


def broadcast(group: Engine, matrix: object, root: int, stream: buffers.Stream) -> None:
    _check(group, matrix, "in_out_array")
    if group.rank == root:
        _move(group, "broadcast", [(peer, matrix) for peer in _everyone(group) if peer != root], [], stream, root=root)
        return
    [came] = _receive(group, "broadcast", [], [root], matrix, stream, root=root)
    _assign(matrix, came, "in_out_array")


def scatter(group: Engine, matrices: object, out: object, root: int, stream: buffers.Stream) -> None:
    _check(group, out, "out_array")
    sends = list(enumerate(_check_list(group, matrices, "in_array"))) if group.rank == root else []
    [came] = _receive(group, "scatter", sends, [root], out, stream, root=root)
    _assign(out, came, "out_array")


def gather(group: Engine, matrix: object, out: object, root: int, stream: buffers.Stream) -> None:
    _check(group, matrix, "in_array")
    if group.rank == root:
        filled, sends = _check_empty(out, "out_array"), [(root, matrix)]
        filled.extend(_receive(group, "gather", sends, _everyone(group), matrix, stream, root=root))
    else:
        _move(group, "gather", [(root, matrix)], [], stream, root=root)


def all_gather(group: Engine, matrix: object, out: object, stream: buffers.Stream) -> None:
    _check(group, matrix, "in_array")
    sends = [(peer, matrix) for peer in _everyone(group)]
    _check_empty(out, "out_array").extend(_receive(group, "all_gather", sends, _everyone(group), matrix, stream))


def all_to_all(group: Engine, matrices: object, out: object, stream: buffers.Stream) -> None:
    checked = _check_list(group, matrices, "in_array")
    like = checked[group.rank]
    filled, sends = _check_empty(out, "out_array"), list(enumerate(checked))
    filled.extend(_receive(group, "all_to_all", sends, _everyone(group), like, stream))


def reduce(group: Engine, matrix: object, out: object, root: int, op: str, stream: buffers.Stream) -> None:
    _check(group, matrix, "in_array")
    _check_reduction(op, [matrix])
    if group.rank != root:
        _move(group, "reduce", [(root, matrix)], [], stream, op, root)
        return
    _check(group, out, "out_array")
    came = _receive(group, "reduce", [(root, matrix)], _everyone(group), matrix, stream, op, root)
    _assign(out, _fold(came, op), "out_array")


def all_reduce(group: Engine, matrix: object, out: object, op: str, stream: buffers.Stream) -> None:
    _check(group, matrix, "in_array"), _check(group, out, "out_array")
    _check_reduction(op, [matrix])
    sends = [(peer, matrix) for peer in _everyone(group)]
    _assign(out, _fold(_receive(group, "all_reduce", sends, _everyone(group), matrix, stream, op), op), "out_array")


def reduce_scatter(group: Engine, matrices: object, out: object, op: str, stream: buffers.Stream) -> None:
    checked = _check_list(group, matrices, "in_array")
    _check(group, out, "out_array")
    _check_reduction(op, checked)
    came = _receive(
        group, "reduce_scatter", list(enumerate(checked)), _everyone(group), checked[group.rank], stream, op
    )
    _assign(out, _fold(came, op), "out_array")
