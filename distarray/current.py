"""Which context is current: the one that creation functions use, and how a process makes its first.

An operation uses its operands' context; a creation function that of the ``with`` block it is called in, else the process's
default, which is made at first use.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from distarray.cluster import detect
from distarray.context import Context, ProcessDefault, current_context, join
from distarray.devices import Process, make_devices
from distarray.errors import DeviceError
from distarray.launch import form_group, is_child

__all__ = ["current", "init", "process_count", "process_index", "scoped"]


def init(
    devices: int | None = None,
    kind: str | None = None,
    *,
    memory_limit: int | None = None,
    eager: bool | None = None,
    minimum_chunk: int | None = None,
) -> Context:
    """Choose the devices that new arrays live on, and make them the process's default.

    Parameters
    ----------
    devices : int, optional
        How many devices; under a launcher of several processes, how many this process owns (default one, or the GPU of its
        local rank). Default: the environment variable ``DISTARRAY_NUM_DEVICES``, else all GPUs, else one host
        device for each CPU core. More ``"cuda"`` devices than GPUs share the GPUs.
    kind : {"host", "cuda"}, optional
        Default: ``DISTARRAY_KIND``, else ``"cuda"`` where CuPy finds a GPU, else ``"host"``.
    memory_limit : int, optional
        Bytes that each device may hold at once; more raises :class:`distarray.DeviceMemoryError`, a ``MemoryError``.
    eager : bool, optional
        Evaluate every element-wise operation at its call instead of recording it. Default: ``DISTARRAY_EAGER``.
    minimum_chunk : int, optional
        Where no layout is named, arrays are cut only into parts of at least so many elements. Smaller arrays stay whole:
        each process holds one copy, and computes on it as NumPy does, without messages. 1 spreads every array of more
        than 2,048 bytes, and copies others to every device. Default: ``DISTARRAY_MINIMUM_CHUNK``, else 65,536 on the
        host and 262,144 on GPUs.

    Returns
    -------
    Context
        Also usable in a ``with`` statement, which makes it current in the block only.

    Raises
    ------
    DeviceError
        An unknown kind, a count below one, or no GPU where ``"cuda"`` was asked for.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=3, kind="host"):
    ...     da.zeros(7).layout
    Layout(REPLICA, {0: [0:7]; 1: ; 2: })
    """
    context = _make(devices, kind, memory_limit, eager, minimum_chunk)
    context._replaced, ProcessDefault.context = ProcessDefault.context, context
    return context


def _make(
    devices: int | None, kind: str | None, memory_limit: int | None, eager: bool | None, minimum_chunk: int | None
) -> Context:
    if kind is None:
        kind = os.environ.get("DISTARRAY_KIND") or None
    if devices is None and (text := os.environ.get("DISTARRAY_NUM_DEVICES")):
        try:
            devices = int(text)
        except ValueError:
            raise DeviceError(f"DISTARRAY_NUM_DEVICES={text!r} is not a number: set it to a count, such as 4") from None
    if eager is None:
        eager = os.environ.get("DISTARRAY_EAGER", "0") not in ("", "0")
    launch = detect()
    if launch.size > 1 and not is_child(launch):
        formed = form_group(launch, kind, devices)
        return join(
            formed.communicator,
            formed.devices,
            formed.kind,
            ordinals=formed.ordinals,
            memory_limit=memory_limit,
            eager=eager,
            minimum_chunk=minimum_chunk,
        )
    return Context(make_devices(kind, devices, memory_limit), eager=eager, minimum_chunk=minimum_chunk)


def current() -> Context:
    """The context that creation functions use now."""
    context = current_context.get()
    if context is None:
        context = ProcessDefault.context
        if context is None or context.pid != Process.id:
            with ProcessDefault.lock:
                context = ProcessDefault.context
                if context is None or context.pid != Process.id:
                    context = ProcessDefault.context = _make(None, None, None, None, None)
    context.check()
    return context


def process_index() -> int:
    """This process's number in the group of the current context, which forms at first use; 0 in a single process.

    Returns
    -------
    int

    Notes
    -----
    Communication: none, but where the group forms.
    """
    return current().process


def process_count() -> int:
    """How many processes share the current context; 1 in a single process.

    Returns
    -------
    int

    Notes
    -----
    Communication: none, but where the group forms.
    """
    return current().process_count


@contextmanager
def scoped(context: Context) -> Iterator[Context]:
    """Make `context` current in a block."""
    token = current_context.set(context)
    try:
        yield context
    finally:
        current_context.reset(token)
