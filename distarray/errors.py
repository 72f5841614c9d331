"""One tree of exceptions, each also a NumPy or Python type, so that programs written for NumPy catch what they expect.

Every message says what was given, what was needed, and ends with the call that fixes it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

__all__ = [
    "CollectiveMismatchError",
    "CommunicationError",
    "CoverageError",
    "DeviceError",
    "DeviceMemoryError",
    "DistArrayError",
    "ForkError",
    "HostFallbackWarning",
    "ImplicitCommunicationError",
    "IndexMapError",
    "LayoutComplexityError",
    "LayoutError",
    "PeerLostError",
    "PerformanceHint",
    "ReadOnlyError",
    "RemoteError",
    "RemoteFileError",
    "RendezvousError",
    "UnsupportedError",
]


class DistArrayError(Exception):
    """Base of every error that distarray itself raises."""


class LayoutError(DistArrayError, ValueError):
    """A layout cannot be built or used: wrong axis, wrong number of devices, shapes that do not fit."""


class IndexMapError(LayoutError, IndexError):
    """An index of an index map is malformed or out of bounds for the array's shape."""


class CoverageError(LayoutError):
    """An index map leaves elements of a REPLICA array without a device."""


class LayoutComplexityError(LayoutError):
    """Strided, overlapping regions need more pieces than the stated bound; deciding them exactly is refused."""


class DeviceError(DistArrayError, ValueError):
    """A device or device kind is unknown, absent, or not part of the context."""


class DeviceMemoryError(DistArrayError, MemoryError):
    """An allocation would exceed a device's memory limit."""


class ImplicitCommunicationError(DistArrayError, RuntimeError):
    """An operation would move data inside ``no_implicit_communication()``."""


class ReadOnlyError(DistArrayError, ValueError):
    """The target of a write is read-only."""


def read_only(what: str, cure: str, reason: str = "") -> ReadOnlyError:
    """The error of a write to what is read-only: it names the target, says why where that is known, and ends with the cure."""
    return ReadOnlyError(f"{what} is read-only{': ' + reason if reason else ''}; {cure}")


class ForkError(DistArrayError, RuntimeError):
    """A forked child used devices and threads that live in its parent."""


class UnsupportedError(DistArrayError, TypeError):
    """A function or argument has no distributed implementation; nothing was gathered."""


class PerformanceHint(UserWarning):
    """A line of the program could be much faster in another form. Given where ``DISTARRAY_HINTS=1``."""


class HostFallbackWarning(UserWarning):
    """A function without a distributed implementation gathered its arguments, as ``host_fallback`` lets it."""


class CommunicationError(DistArrayError, RuntimeError):
    """Communication between processes failed."""


class PeerLostError(CommunicationError, ConnectionError):
    """A process died, stopped, or did not come to an operation by the deadline."""


class CollectiveMismatchError(CommunicationError):
    """Processes came to different operations: they no longer run the same program."""


class RemoteError(CommunicationError):
    """Another process raised an exception inside an operation."""


class RemoteFileError(RemoteError, OSError):
    """Another process could not read or write a file: an ``OSError`` on every process."""


class RendezvousError(CommunicationError, ConnectionError):
    """The processes of a group could not find each other, or one of them could not prove that it belongs to the job."""


def absent(
    where: str, name: str, numpys: object, cure: str, obj: object, reason: str = "it has no distributed implementation"
) -> AttributeError:
    """The AttributeError for a name that a namespace or an array lacks: what to do, where `numpys`, NumPy's counterpart, has
    the name, and what NumPy says of it, where it has given the name up."""
    text = f"{where} has no attribute {name!r}"
    if not name.startswith("__"):
        if name in dir(numpys) or (gone := _given_up(numpys, name)) is None:
            text += (
                f": {reason}, and nothing was gathered. To run NumPy's on one host, use {cure}; to "
                f"run it on each chunk, use distarray.map_chunks"
            )
        else:
            text += gone
    return AttributeError(text, name=name, obj=obj)


def _given_up(numpys: object, name: str) -> str | None:
    """What NumPy says of a name that it once had, "" of one that it never had; None where it still gives the name."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            getattr(numpys, name)
    except AttributeError as gone:
        told = str(gone)
        return f": {told}" if "removed" in told or "deprecated" in told else ""
    return None


def absent_from(
    module: str, reasons: Mapping[str, str] | None = None, late: Mapping[str, Callable[[], Any]] | None = None
) -> Callable[[str], Any]:
    """The ``__getattr__`` of a namespace's module, which has a counterpart of the same name in NumPy.

    `reasons` says of some names why they are not there; `late` makes the values that are looked up when asked for.
    """
    theirs = "numpy" + module.removeprefix("distarray")

    def find(name: str) -> Any:
        if late is not None and name in late:
            return late[name]()
        numpys = sys.modules.get(theirs)
        found = getattr(numpys, name, None) if not name.startswith("__") and name in dir(numpys) else None
        on = " on x.get()" if callable(found) and not isinstance(found, type) else ""
        known = {} if reasons is None or name not in reasons else {"reason": reasons[name]}
        raise absent(f"module {module!r}", name, numpys, f"{theirs}.{name}{on}", sys.modules[module], **known)

    return find
