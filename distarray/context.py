"""A context owns everything an array needs besides its values: devices, worker threads, caches and settings.

There is no module-level state besides which context is current, in a block or in the process; :mod:`distarray.current`
says it and makes it.
"""

from __future__ import annotations

import json
import math
import operator
import os
import socket
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar
from zlib import crc32

from distarray.comm.base import Communicator, Signature
from distarray.devices import Device, Process, Quiet, RemoteDevice, Workers, as_int, cpu_set, error_states, make_devices
from distarray.errors import CommunicationError, DeviceError, ForkError
from distarray.failures import alike, told
from distarray.geometry import IndexMap, Region, blocks, replicated
from distarray.layout import Layout, LayoutTable
from distarray.modes import Mode

if TYPE_CHECKING:
    from typing import Self

__all__ = ["RAISING", "Context", "Group", "join"]


_NOTHING: AbstractContextManager[None] = nullcontext()

RAISING = frozenset({"raise", "call", "log"})
"""The error states of NumPy in which a condition raises, or calls a function or an object of the user's, which may."""


class Group:
    """The ordered devices of one kind that an array lives on: what the array API calls ``device``.

    It knows no shape: every creation function takes it for any shape. Groups compare equal when they name the same
    devices of the same context, in whatever order, and equal to these devices' ids: an int or a list of them.

    Parameters
    ----------
    context : Context
        What the devices belong to.
    ids : tuple of int
        The devices' ids, in the order that layouts use them.
    """

    __slots__ = ("context", "ids")

    def __init__(self, context: Context, ids: tuple[int, ...]) -> None:
        self.context = context
        self.ids = ids

    @property
    def kind(self) -> str:
        """``"host"`` or ``"cuda"``."""
        return self.context.kind

    def __len__(self) -> int:
        return len(self.ids)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Group):
            return self.context is other.context and set(self.ids) == set(other.ids)
        if isinstance(other, int):
            return self.ids == (other,)
        if isinstance(other, (list, tuple)):
            return set(self.ids) == set(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.ids[0] if len(self.ids) == 1 else tuple(sorted(self.ids)))

    def __repr__(self) -> str:
        ids = str(list(self.ids)) if len(self.ids) <= 8 else f"[{self.ids[0]}, …, {self.ids[-1]}]"
        return f"Group({self.kind!r}, {ids})"


class _Reporting:
    """A block around local work, whose failure reaches the other processes. One object serves all calls, which enter several."""

    __slots__ = ("communicator",)

    def __init__(self, communicator: Communicator) -> None:
        self.communicator = communicator

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            self.communicator.report(error)


class _Agreeing:
    """A block around local work that data can make fail (a negative integer power, ``np.errstate("raise")``, a user's function):
    where it fails on one process it fails on all, with one type of error, and they go on. One small round."""

    __slots__ = ("communicator", "operation")

    def __init__(self, communicator: Communicator, operation: str) -> None:
        self.communicator = communicator
        self.operation = operation

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, (CommunicationError, MemoryError)):
            self.communicator.report(error)
            return
        if error is not None and not isinstance(error, Exception):
            return  # an interrupt, or the end of the program
        mine = "" if error is None else told(error)
        answers = [answer.decode() for answer in self.communicator.all_gather(mine.encode(), Signature(self.operation))]
        if error is None:
            for answer in filter(None, answers):
                raise alike(answer)


class Context:
    """Devices, worker threads, caches and settings of one group of devices. Made by :func:`distarray.init`.

    Use it as a context manager to make it current within a block::

        with distarray.init(devices=4) as context:
            x = distarray.zeros((100, 100))

    Parameters
    ----------
    devices : sequence of Device
        The devices of all processes, by id.
    eager : bool
        Whether every element-wise operation is evaluated at its call.
    communicator : Communicator, optional
        How this process reaches the others; None in a single process.
    neighbours : int, optional
        How many devices share this process's cores, those of other processes too; by default its own.
    warnings_raise : bool
        Whether a RuntimeWarning is an error in some process, so that all agree on it. GPUs warn of nothing.
    minimum_chunk : int, optional
        The least elements of a part that a default layout cuts an array into; see :func:`distarray.init`.
    """

    SMALL = 2048
    """Arrays that `minimum_chunk` lets be cut are replicated by default where they have at most so many bytes."""

    MINIMUM_CHUNK: ClassVar[dict[str, int]] = {"host": 1 << 16, "cuda": 1 << 18}
    """The least elements of a part that a default layout cuts an array into: what is worth a thread, or a kernel."""

    WHOLE: int | None = None
    """Matrices whose shorter side is at most so long are factorized by one device; None: each algorithm's measured bound.
    Like PANEL the same on all processes."""

    PANEL: int | None = None
    """How many columns a distributed factorization treats at a time; None: each algorithm's own number."""

    def __init__(
        self,
        devices: Sequence[Device],
        *,
        eager: bool = False,
        communicator: Communicator | None = None,
        neighbours: int | None = None,
        warnings_raise: bool = False,
        minimum_chunk: int | None = None,
    ) -> None:
        self.devices = tuple(devices)
        self.by_id = {device.id: device for device in self.devices}
        self.communicator = communicator
        self._reporting: AbstractContextManager[None] = _NOTHING if communicator is None else _Reporting(communicator)
        self.process = 0 if communicator is None else communicator.rank
        self.process_count = 1 if communicator is None else communicator.size
        self.local_devices = tuple(d for d in self.devices if d.process == self.process)
        self.kind = self.devices[0].kind
        self.group = Group(self, tuple(device.id for device in self.devices))
        self.minimum_chunk = _least_chunk(minimum_chunk, self.kind)
        self.small = 2 * self.minimum_chunk - 1
        self.debug = os.environ.get("DISTARRAY_DEBUG", "0") not in ("", "0")
        traced = self.debug and communicator is not None
        computing = self.process if self.kind == "host" and not traced else None
        self.layouts = LayoutTable(self.devices, computing, self.small)
        sharers = len(self.local_devices) if neighbours is None else neighbours
        self.workers = Workers(sharers=sharers, asynchronous=self.kind != "host")
        self.lock = threading.RLock()
        self.eager = eager
        self.trace = 0, ""
        self.quiet = Quiet()
        self.forms: dict[
            Any, Any
        ] = {}  # of recorded expressions, and the views that they know: see ``fusion/forms.py``
        self.formed = 0
        self.views: dict[Any, Any] = {}
        self.interned: dict[int, Any] = {}
        self.hints: dict[tuple[str, int], int] | None = (
            {} if os.environ.get("DISTARRAY_HINTS", "0") not in ("", "0") else None
        )
        self.warnings_raise = warnings_raise and self.kind == "host"  # GPUs warn of nothing
        self.pid = Process.id
        self._tokens: list[Token[Context | None]] = []
        self._replaced: Context | None = None

    def check(self) -> None:
        """Refuse a forked child: the parent's threads and device memory are not there."""
        if Process.id != self.pid:
            raise ForkError(
                f"this context was made in process {self.pid} and is used in its forked child {Process.id}, where its "
                f"threads do not exist: call distarray.init(...) in the child and build the arrays there, or start the "
                f"child with the 'spawn' method"
            )

    def owns(self, device_id: int) -> bool:
        """Whether a device is of this process.

        Parameters
        ----------
        device_id : int

        Returns
        -------
        bool
        """
        return self.by_id[device_id].process == self.process

    def local_regions(self, layout: Layout) -> Iterator[tuple[int, Device, Region]]:
        """The regions of a layout that lie on devices of this process.

        Parameters
        ----------
        layout : Layout

        Yields
        ------
        int
            The number of the region among ``layout.chunks``.
        Device
        Region
        """
        for number, (device_id, region) in enumerate(layout.chunks):
            device = self.by_id[device_id]
            if device.process == self.process:
                yield number, device, region

    def subgroup(self, ids: tuple[int, ...]) -> Group:
        """The group of some of the devices; the context's own where they are all.

        Parameters
        ----------
        ids : tuple of int
            The devices' ids, in order.

        Returns
        -------
        Group
        """
        return self.group if ids == self.group.ids else Group(self, ids)

    def default_map(self, shape: tuple[int, ...], ids: tuple[int, ...], itemsize: int) -> IndexMap:
        """Where the elements of an array lie on the devices `ids` when nobody says it.

        Blocks of rows, each worth a device's work; an array too small for two of them stays whole, on the first device
        of each process, so that every process has a copy of its own.

        Parameters
        ----------
        shape : tuple of int
            Of the array.
        ids : tuple of int
            The devices' ids, in order.
        itemsize : int
            Bytes of an element.

        Returns
        -------
        IndexMap
        """
        size = math.prod(shape)
        parts = size // self.minimum_chunk
        if self.minimum_chunk > 1 and parts < 2:
            homes: dict[int, int] = {}
            for device in ids:
                homes.setdefault(self.by_id[device].process, device)
            everything = Region.full(shape)
            holders = set(homes.values())
            return IndexMap(shape, {device: [everything] if device in holders else [] for device in ids})
        if size * itemsize <= self.SMALL or not shape:
            return replicated().resolve(shape, ids)
        if parts >= len(ids):
            return blocks(0).resolve(shape, ids)
        some = tuple([ids[i * len(ids) // parts] for i in range(parts)])
        cut = blocks(0).resolve(shape, some)
        return IndexMap(shape, {device: cut.regions(device) if device in some else () for device in ids})

    def layout(self, index_map: IndexMap, mode: Mode = Mode.REPLICA) -> Layout:
        """The interned layout of an index map and a mode.

        Parameters
        ----------
        index_map : IndexMap
            Which device holds which regions.
        mode : Mode
            How chunks that hold the same element combine.

        Returns
        -------
        Layout
            The same object for equal arguments, as long as the table keeps it.
        """
        return self.layouts.get(index_map, mode)

    def reporting(self) -> AbstractContextManager[None]:
        """Around local work between two communications: a failure there reaches the other processes as RemoteError.

        Returns
        -------
        context manager
            It does nothing in a single process.
        """
        return self._reporting

    def traced(self, what: str, *values: object) -> None:
        """Remember an operation and the values that it got from Python, in debug mode.

        They must be the same in all processes: the next communication compares what was remembered until then.

        Parameters
        ----------
        what : str
            The operation's name.
        *values : object
            What their ``repr`` says is compared.
        """
        if self.debug and self.communicator is not None:
            text = f"{what}({', '.join(map(repr, values))})"
            self.trace = crc32(text.encode(), self.trace[0]), text[:200]

    def conditions_raise(self) -> bool:
        """Whether a floating-point condition may raise: by NumPy's error state, whose functions are the user's, or a filter.

        Returns
        -------
        bool
            The same on all processes.
        """
        return self.warnings_raise or not RAISING.isdisjoint(error_states().values())

    def guarding(self, operation: str, *, fallible: bool | None = None) -> AbstractContextManager[None]:
        """Around local work on data: where those may make NumPy or a user's function raise, processes agree on the failure.

        It may under ``np.errstate("raise")`` too, and in a context that formed where warnings are errors. Other work is
        only within `reporting`. The choice must be the same on all processes: whatever filters are set later on one of
        them does not change it.

        Parameters
        ----------
        operation : str
            The operation's name, which processes compare.
        fallible : bool, optional
            What is known of the work, its error state included; by default the error state alone decides: the program's,
            so this is called before a block that changes it.

        Returns
        -------
        context manager
            It does nothing in a single process.

        Notes
        -----
        Communication: one small round at the end of the block where processes agree; else none.
        """
        if self.communicator is None:
            return _NOTHING
        if fallible or (self.conditions_raise() if fallible is None else self.warnings_raise):
            return _Agreeing(self.communicator, operation)
        return self.reporting()

    def shrink(self, survivors: Sequence[int]) -> Context:
        """A context of the surviving processes, which all of them call with the same list; new arrays go there.

        Arrays of this context stay readable chunk by chunk, through ``all_chunks``; what the lost processes held is gone.

        Parameters
        ----------
        survivors : sequence of int
            The numbers that these processes have in this context.

        Returns
        -------
        Context
            Its processes are numbered anew, in order.

        Raises
        ------
        PeerLostError
            A process of the list does not come by the deadline.
        DeviceError
            The context has one process.

        Notes
        -----
        Communication: the survivors meet, and compare their settings.
        """
        if self.communicator is None:
            raise DeviceError(
                "this context has one process, and no others to shrink to: make one with distarray.init()"
            )
        ordinals = [ordinal for d in self.local_devices if (ordinal := getattr(d, "ordinal", None)) is not None]
        return join(
            self.communicator.shrink(survivors),
            len(self.local_devices),
            self.kind,
            ordinals=sorted(set(ordinals)) or None,
            memory_limit=self.local_devices[0].memory_limit,
            eager=self.eager,
            minimum_chunk=self.minimum_chunk,
        )

    def run(self, tasks: Sequence[Callable[[], None]], nbytes: int, *, independent: bool = False) -> None:
        """Run tasks: on host devices in threads where that is worth it; on GPUs they only queue work, from this thread.

        Parameters
        ----------
        tasks : sequence of callable
            Called without arguments.
        nbytes : int
            The bytes that they touch in all.
        independent : bool
            Whether they are copies of which none needs what another brings.
        """
        if self.kind == "host":
            self.workers.run(tasks, nbytes)
            return
        with self.local_devices[0].independent() if independent else _NOTHING:
            for task in tasks:
                task()

    def synchronize(self) -> None:
        """Wait until every device has finished its work."""
        for device in self.devices:
            device.synchronize()

    def __enter__(self) -> Self:
        self._tokens.append(current_context.set(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        current_context.reset(self._tokens.pop())
        if ProcessDefault.context is self and not self._tokens:
            ProcessDefault.context = self._replaced

    def __repr__(self) -> str:
        return f"Context({len(self.devices)} {self.kind} devices)"


current_context: ContextVar[Context | None] = ContextVar("distarray_context", default=None)


class ProcessDefault:
    """The process's default context: the one piece of state that belongs to the process and not to a context."""

    context: Context | None = None
    lock = threading.Lock()


def _least_chunk(given: int | None, kind: str) -> int:
    """What ``minimum_chunk=`` means, or where it is not given the environment, or what is best on this kind of device."""
    if given is None:
        text = os.environ.get("DISTARRAY_MINIMUM_CHUNK")
        if not text:
            return Context.MINIMUM_CHUNK[kind]
        try:
            given = int(text)
        except ValueError:
            given = 0
        if given < 1:
            raise DeviceError(f"DISTARRAY_MINIMUM_CHUNK={text!r} is no count of elements: set it to one, such as 65536")
    return as_int(given, "minimum_chunk", 1, "pass a count of elements; 1 spreads all but the smallest arrays")


def join(
    communicator: Communicator,
    devices: int = 1,
    kind: str = "host",
    *,
    ordinals: Sequence[int] | None = None,
    memory_limit: int | None = None,
    eager: bool = False,
    minimum_chunk: int | None = None,
) -> Context:
    """The context of one process of a group: its own devices, and those of the others by id.

    Called by every process of the communicator. Device ids count through the processes in rank order. What plans depend
    on (counts, kind, version, eager, minimum_chunk) is compared, so that processes that would plan differently never start.

    Parameters
    ----------
    communicator : Communicator
        How this process reaches the others.
    devices : int
        How many devices this process owns; processes may own different numbers.
    kind : {"host", "cuda"}
        What the devices are.
    ordinals : sequence of int, optional
        The GPUs of this process.
    memory_limit, eager, minimum_chunk : optional
        As for :func:`distarray.init`.

    Returns
    -------
    Context

    Raises
    ------
    DeviceError
        Processes disagree on the kind of devices or on the settings.
    """
    cores = f"{socket.gethostname()} {cpu_set()}"
    least = _least_chunk(minimum_chunk, kind)
    said = json.dumps({"devices": devices, "kind": kind, "eager": eager, "small": Context.SMALL, "cores": cores,
                       "minimum_chunk": least, "strict": _warnings_raise()})  # fmt: skip
    answers = [json.loads(a) for a in communicator.all_gather(said.encode(), Signature("join"))]
    mine = answers[communicator.rank]
    for rank, answer in enumerate(answers):
        for key in ("kind", "eager", "small", "minimum_chunk"):
            if answer[key] != mine[key]:
                raise DeviceError(
                    f"process {rank} has {key}={answer[key]!r} and process {communicator.rank} has {mine[key]!r}: start "
                    f"all processes with the same settings"
                )
    everyone: list[Device] = []
    for rank, answer in enumerate(answers):
        first = len(everyone)
        if rank == communicator.rank:
            everyone += make_devices(kind, devices, memory_limit, ordinals, first_id=first, process=rank)
        else:
            everyone += [RemoteDevice(first + i, kind, process=rank) for i in range(answer["devices"])]
    neighbours = sum(answer["devices"] for answer in answers if answer["cores"] == cores)
    strict = any(answer["strict"] for answer in answers)
    return Context(everyone, eager=eager, communicator=communicator, neighbours=neighbours, warnings_raise=strict,
                   minimum_chunk=least)  # fmt: skip


def _warnings_raise() -> bool:
    """Whether a filter makes an exception of some RuntimeWarning."""
    for action, message, category, module, line in warnings.filters:  # the first that fits decides
        if issubclass(RuntimeWarning, category):
            if action == "error":
                return True
            if message is None and module is None and not line:
                return False
    return False


def group_ids(context: Context, device: Group | int | Sequence[int] | None) -> tuple[int, ...]:
    """The device ids that a ``device=`` argument names: None, a Group, an int or a sequence of ints."""
    if device is None:
        return context.group.ids
    if isinstance(device, Group):
        if device.context is not context:
            raise DeviceError(f"{device} belongs to another context: use a group of {context}")
        return device.ids
    try:
        ids = tuple(operator.index(d) for d in (device if isinstance(device, (list, tuple)) else (device,)))
    except TypeError:
        raise DeviceError(
            f"device={device!r} is not a device: pass x.device, a device id, or a list of ids from {context.group}"
        ) from None
    for d in ids:
        if d not in context.by_id:
            raise DeviceError(f"device {d} does not exist: the context has devices {list(context.group.ids)}")
    if not ids:
        raise DeviceError(f"device={device!r} names no device: pass at least one id from {context.group}")
    return tuple(dict.fromkeys(ids))
