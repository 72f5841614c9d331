"""What processes tell each other of small values, so that all of them go on with the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import numpy as np

from distarray.array.dtypes import dtype_name
from distarray.comm.base import Signature
from distarray.context import Context
from distarray.errors import CollectiveMismatchError, CommunicationError
from distarray.failures import remote, told


def gathered(context: Context, value: object, operation: str) -> list[Any]:
    """A small JSON value of every process, in rank order."""
    if context.communicator is None:
        return [value]
    said = context.communicator.all_gather(json.dumps(value).encode(), Signature(operation))
    return [json.loads(answer) for answer in said]


def agreed(context: Context, operation: str, local: Callable[[], Any]) -> list[Any]:
    """What `local` returns on every process, a small JSON value, in rank order. It must not communicate.

    Where it raises on one process all of them raise, and go on with the next operation: it fails in the exchange, not
    before it.

    Raises
    ------
    RemoteError
        `local` raised on another process, and not on this one, where its own exception goes on. It is of that exception's type
        too, and a ``RemoteFileError`` where that is an ``OSError``.
    """
    if context.communicator is None:
        return [local()]
    failed: Exception | None = None
    mine: dict[str, Any] = {}
    try:
        mine["said"] = local()
    except CommunicationError:
        raise  # the other processes can't be reached any more
    except Exception as error:
        failed = error
        mine["failed"] = told(error)
    answers = gathered(context, mine, operation)
    if failed is not None:
        raise failed
    for rank, answer in enumerate(answers):
        if "failed" in answer:
            raise remote(answer["failed"], rank, operation)
    return [answer["said"] for answer in answers]


def compare_host(context: Context, array: np.ndarray[Any, Any]) -> None:
    """In debug mode, compare a host operand between processes, so that one that differs is named and not computed with.

    Raises
    ------
    CollectiveMismatchError
        Naming the processes that differ.
    """
    data = np.ascontiguousarray(array)
    name = blake2b(f"{data.shape}{dtype_name(data.dtype)}".encode() + data.tobytes(), digest_size=16).hexdigest()
    names = gathered(context, name, "comparing a host operand")
    wrong = [rank for rank, other in enumerate(names) if other != names[0]]
    if wrong:
        raise CollectiveMismatchError(
            f"a host array of shape {data.shape} has other values on process {wrong[0]} than on process 0, and all "
            f"processes must give the same: seed random numbers alike, or scatter one process's array with "
            f"distarray.asarray(x, root=0)"
        )
