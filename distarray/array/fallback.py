"""NumPy's functions that have no distributed implementation, run on one host where the user asks for that, and only then."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from distarray.array.layouts import resolve_layout
from distarray.array.place import place
from distarray.array.state import DistributedArray
from distarray.context import Context
from distarray.errors import HostFallbackWarning, ImplicitCommunicationError
from distarray.transfer.ledger import watching

__all__ = ["falls_back", "host_fallback", "on_host"]

_chosen: ContextVar[bool | None] = ContextVar("distarray_host_fallback", default=None)
_warned: set[Any] = set()


@contextmanager
def host_fallback() -> Iterator[None]:
    """Let NumPy functions that are not distributed run on the host, inside a ``with`` block.

    The arrays that such a function gets are gathered, NumPy's own function runs (on every process), and what it returns is
    spread again in the default layout. One :class:`HostFallbackWarning` for each function names the bytes; the ledger counts
    them as bytes to the host. ``DISTARRAY_HOST_FALLBACK=1`` chooses it for a whole program. Nothing in the package uses it.

    Yields
    ------
    None

    Notes
    -----
    Communication: every argument, whole, to every process.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     with da.host_fallback():
    ...         np.unwrap(da.asarray([0.0, 6.0])).get()
    array([ 0.        , -0.28318531])
    """
    token = _chosen.set(True)
    try:
        yield
    finally:
        _chosen.reset(token)


def falls_back() -> bool:
    """Whether functions without an implementation may run on the host."""
    chosen = _chosen.get()
    return os.environ.get("DISTARRAY_HOST_FALLBACK", "0") not in ("", "0") if chosen is None else chosen


def on_host(
    context: Context, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Run a function of NumPy's on gathered arguments, and spread what it returns."""
    nbytes = 0

    def gathered(item: Any) -> Any:
        nonlocal nbytes
        if isinstance(item, DistributedArray):
            nbytes += item.nbytes
            return item.get()
        if type(item) in (list, tuple):
            return type(item)([gathered(part) for part in item])
        if type(item) is dict:
            return {key: gathered(part) for key, part in item.items()}
        return item

    if isinstance(kwargs.get("out"), DistributedArray):
        raise TypeError(
            f"{name} runs on the host here, which can't write to a distributed out=: assign x[...] = {name}(...)"
        )
    watch = watching.get()
    if watch is not None and watch.forbidden:
        raise ImplicitCommunicationError(
            f"{name} has no distributed implementation, and host_fallback would gather its arguments, inside "
            f"no_implicit_communication(): run it outside the block"
        )
    plain, named = gathered(args), gathered(kwargs)
    if name not in _warned:
        _warned.add(name)
        warnings.warn(
            f"{name} has no distributed implementation: {nbytes} bytes were gathered, on every process, for NumPy's own "
            f"(asked for by host_fallback; told once)",
            HostFallbackWarning,
            stacklevel=4,
        )
    return _spread(context, function(*plain, **named))


def _spread(context: Context, result: Any) -> Any:
    if isinstance(result, np.ndarray) and type(result) is np.ndarray and result.dtype.kind in "biufcmM":
        layout = resolve_layout(context, None, result.shape, itemsize=result.dtype.itemsize)
        return place(context, result, layout)
    if type(result) in (list, tuple):
        return type(result)([_spread(context, part) for part in result])
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*[_spread(context, part) for part in result])
    return result
