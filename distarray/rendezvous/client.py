"""One process's hold on the rendezvous store: what `store.serve` and `store.connect` return.

It makes one request at a time, over an authenticated channel, and waits for the answer. Every wait has a deadline, and every way
in which the store can be gone becomes an error that says so.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import struct
import sys
import threading
import time
import weakref
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, NoReturn

from distarray.comm.deadlines import seconds
from distarray.errors import ForkError, RendezvousError
from distarray.rendezvous.frames import MAX_KEY, MAX_VALUE, Closed, Late, Op, SealedChannel, WireError, pack
from distarray.rendezvous.server import Server

__all__ = ["Store", "where"]

_LINGER = 5.0  # seconds that a failed rank 0 stays to tell those who have yet to connect


class Store:
    """One process's hold on the store of its group. Made by `serve` and `connect`; close it, or use it in ``with``.

    A ``with`` block left by an exception tells the others of it, as `fail` does. Safe to call from several threads; a
    forked child cannot use its parent's store and connects with its own rank.

    Attributes
    ----------
    rank, size : int
        This process's number, and how many there are.
    host : str
        Rank 0's address.
    port : int
        Rank 0's port, also where 0 was asked for.
    """

    def __init__(
        self,
        channel: SealedChannel,
        rank: int,
        size: int,
        address: tuple[str, int],
        deadline: float,
        server: Server | None = None,
    ) -> None:
        self.rank = rank
        self.size = size
        self.host, self.port = address
        self._deadline = deadline
        self._channel = channel
        self._server = server
        self._pid = os.getpid()
        self._one_request = threading.Lock()
        self._one_send = threading.Lock()
        self._requests = 0
        self._failure = ""
        self._closed = False
        _open.add(self)

    def __repr__(self) -> str:
        return f"<Store rank {self.rank} of {self.size} at {where(self.host, self.port)}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Store belongs to the process that made it; pass its host and port to the other process and call "
            "distarray.rendezvous.store.connect(host, port, rank=..., size=...) there"
        )

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self.fail(error)
        self.close()

    def __del__(self) -> None:
        channel = getattr(self, "_channel", None)
        if channel is not None:
            channel.forget()  # rank 0's server ends with it

    @property
    def connections(self) -> Mapping[str, int]:
        """On rank 0, how many connections came, were authenticated, and were turned away for which reason."""
        return {} if self._server is None else dict(self._server.counts)

    # -- values ----------------------------------------------------------------------------------------------------------

    def set(self, key: str, value: bytes | bytearray | memoryview | BaseException) -> None:
        """Store a value under a key, in place of an older one.

        Parameters
        ----------
        key : str
            At most 512 bytes of UTF-8.
        value : bytes-like or exception
            At most 1 MiB. An exception makes every `get` of the key raise RendezvousError with its type and text, so that
            a rank that fails to make a value does not leave the others waiting for it.
        """
        if isinstance(value, BaseException):
            kind, data = b"e", _described(value)
        elif isinstance(value, (bytes, bytearray, memoryview)):
            kind, data = b"v", bytes(value)
        else:
            raise TypeError(
                f"the value of {key!r} is {type(value).__name__}, but bytes or an exception are needed; encode it"
            )
        if len(data) > MAX_VALUE:
            raise RendezvousError(
                f"the value of {key!r} has {len(data)} bytes, but the store takes {MAX_VALUE}; "
                "send arrays through a communicator, or cut it over several keys"
            )
        self._ask(Op.SET, None, _key(key), kind, data, what=f"set({key!r})")

    def get(self, key: str, deadline: float | None = None, *, source: int | None = None) -> bytes:
        """The value of a key, waiting until it is set.

        Parameters
        ----------
        key : str
        deadline : float, optional
            Seconds to wait; by default what the store was made with.
        source : int, optional
            The rank that will set it, if known: when that is lost the wait ends at once.

        Raises
        ------
        RendezvousError
            At the deadline, naming the key and the ranks that are missing; when a rank has failed or set an error; when
            rank 0 is gone.
        """
        origin = -1 if source is None else source
        return _first(self._ask(Op.GET, deadline, _key(key), what=f"get({key!r})", numbers=("q", origin)))

    def wait_ranks(self, deadline: float | None = None) -> None:
        """Wait until every rank has connected; at the deadline RendezvousError names those that have not."""
        self._ask(Op.WAIT, deadline, what="waiting for all ranks")

    def barrier(self, name: str = "", deadline: float | None = None, *, ranks: Iterable[int] | None = None) -> None:
        """Wait until every rank has come to the barrier of this name. It can be used any number of times.

        Parameters
        ----------
        name : str
            Barriers of different names are apart.
        deadline : float, optional
            Seconds to wait; by default what the store was made with.
        ranks : iterable of int, optional
            Who takes part, the same on all of them; by default all, and after `agree_survivors` the survivors.

        Raises
        ------
        RendezvousError
            At the deadline, naming the ranks that did not come; at once when one of them is lost or has failed.
        """
        self.meet(name, b"", deadline, ranks=ranks)

    def meet(
        self, name: str, value: bytes, deadline: float | None = None, *, ranks: Iterable[int] | None = None
    ) -> list[bytes]:
        """A `barrier` to which each rank brings bytes, and from which each takes those of all, in rank order.

        All are in one answer: a rank that leaves next, rank 0 with the store too, takes nothing from the others.

        Parameters
        ----------
        name, deadline, ranks
            As for `barrier`.
        value : bytes
            At most 1 MiB, and 64 MiB with those of the others.

        Raises
        ------
        RendezvousError
            As for `barrier`; for larger values.
        """
        if len(value) > MAX_VALUE:
            raise RendezvousError(
                f"the value for {name!r} has {len(value)} bytes, but the store takes {MAX_VALUE}; "
                "send arrays through a communicator"
            )
        members = () if ranks is None else tuple(sorted(set(ranks)))
        if ranks is not None and (not members or members[0] < 0 or members[-1] >= self.size):
            raise RendezvousError(
                f"barrier({name!r}) of ranks {list(members)}, but ranks are 0 to {self.size - 1}; name at least this one"
            )
        packed = struct.pack(f"!{len(members)}I", *members)
        return list(self._ask(Op.MEET, deadline, _key(name), packed, value, what=f"barrier({name!r})"))

    # -- failures --------------------------------------------------------------------------------------------------------

    def fail(self, error: BaseException) -> None:
        """Tell all ranks that this one has failed: their waits raise RendezvousError with its type and text. Never raises.

        The failure holds until `agree_survivors`. Values that are set can still be read.
        """
        with contextlib.suppress(Exception):
            if self._pid == os.getpid() and not self._closed:
                self._say(Op.FAIL, 0, _described(error), due=time.monotonic() + 2.0)

    def agree_survivors(self, epoch: int, deadline: float) -> list[int]:
        """Agree on which ranks live, after a failure: each that does calls this, and all get the same list.

        Parameters
        ----------
        epoch : int
            Which agreement this is, the same on all ranks: 1 after the first failure, and so on.
        deadline : float
            Seconds, from the first call of any rank, after which those that have called are the survivors. It ends sooner
            when no other rank is connected. It must outlast the time by which ranks notice the failure.

        Returns
        -------
        list of int
            Ranks in order, numbered as before. A rank that calls too late gets the same list, without itself.

        Raises
        ------
        RendezvousError
            When rank 0, which holds the store, is the one that is gone.
        """
        data = _first(self._ask(Op.AGREE, deadline, what=f"agree_survivors({epoch})", numbers=("q", epoch)))
        self._failure = ""
        return list(struct.unpack(f"!{len(data) // 4}I", data))

    # -- end -------------------------------------------------------------------------------------------------------------

    def close(self, linger: float = _LINGER) -> None:
        """Take leave. On rank 0 this ends the store: first have all ranks meet at a `barrier`.

        Parameters
        ----------
        linger : float
            On rank 0, after a failure: seconds to stay for ranks that have not connected yet, so that they hear of it.
        """
        if self._closed or self._pid != os.getpid():
            self._closed = True
            return
        self._closed = True
        with contextlib.suppress(Exception):
            self._say(Op.LEAVE, 0, struct.pack("!d", linger), due=time.monotonic() + 1.0)
        if self._server is not None:
            self._server.thread.join(linger + 2.0)
        with contextlib.suppress(OSError):
            self._channel.sock.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits
        if self._one_request.acquire(timeout=1.0):  # and it must see that before the socket is gone
            self._one_request.release()
        self._channel.forget()

    stop = close

    # -- requests --------------------------------------------------------------------------------------------------------

    def _join(self, wait: float) -> None:
        """The first request: say who this is."""
        self._ask(Op.JOIN, wait, f"{socket.gethostname()}, pid {os.getpid()}".encode(), what="joining")

    def _ask(
        self, op: Op, deadline: float | None, *fields: bytes, what: str, numbers: tuple[str, Any] | None = None
    ) -> tuple[bytes, ...]:
        """Send a request and wait for its answer, which comes a little before the deadline when it is an error that names
        the ranks."""
        if self._pid != os.getpid():
            raise ForkError(
                f"{what} on the store of process {self._pid} in its forked child {os.getpid()}; "
                "call distarray.rendezvous.store.connect(...) with the child's own rank"
            )
        if self._closed:
            raise RendezvousError(f"{what} on a closed store; make a new one with serve or connect")
        wait = self._deadline if deadline is None else seconds(deadline)
        due = time.monotonic() + wait
        if op is Op.AGREE:
            assert numbers is not None
            fields = (struct.pack("!qd", numbers[1], wait), *fields)
        elif op is not Op.SET and op is not Op.JOIN:
            layout, number = ("", ()) if numbers is None else (numbers[0], (numbers[1],))
            fields = (struct.pack("!d" + layout, wait, *number), *fields)
        if not self._one_request.acquire(timeout=wait):
            raise RendezvousError(
                f"{what}: another thread's request was still waiting after {wait:g} s; raise the deadline"
            )
        try:
            self._requests = request = self._requests % 0xFFFFFFFE + 1
            broken: Exception | None = None
            try:
                self._say(op, request, *fields, due=due)
            except Closed as error:
                broken = error  # a failure that rank 0 told before it ended may still be there to read
            while True:
                answer = self._channel.receive(due)
                if answer.op is Op.FAILURE and answer.fields:
                    self._failure = answer.fields[0].decode("utf-8", "replace")
                elif answer.request == request:
                    break
        except Late as error:
            raise RendezvousError(
                f"{what}: the store of rank 0 at {where(self.host, self.port)} did not answer within {wait:g} s; "
                f"rank 0 is stopped, or the network between is cut{self._also()}"
            ) from error
        except (Closed, WireError) as error:
            raise RendezvousError(
                self._failure
                or f"{what}: the store at {where(self.host, self.port)} is gone ({broken or error}): rank 0, which held "
                "it, has ended or closed it; see its output, and restart the job"
            ) from error
        finally:
            self._one_request.release()
        if answer.op is Op.ERROR:
            raise RendezvousError(answer.fields[0].decode("utf-8", "replace") if answer.fields else f"{what} failed")
        return answer.fields

    def _also(self) -> str:
        return f" (before that: {self._failure})" if self._failure else ""

    def _say(self, op: Op, request: int, *fields: bytes, due: float) -> None:
        with self._one_send:  # frames are numbered in the order in which they are sent
            self._channel.send(pack(op, request, *fields), due)


_open: weakref.WeakSet[Store] = weakref.WeakSet()


@atexit.register
def _at_exit() -> None:
    """Take leave of what is still open, within seconds; a program that ends by an exception tells the others of it."""
    error = None if hasattr(sys, "ps1") else getattr(sys, "last_value", None)
    for store in list(_open):
        if error is not None:
            store.fail(error)
        store.close(linger=2.0)


def where(host: str, port: int) -> str:
    """An address as text."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _first(fields: tuple[bytes, ...]) -> bytes:
    return fields[0] if fields else b""


def _described(error: BaseException) -> bytes:
    return f"{type(error).__name__}: {error}".encode(errors="replace")[:4000]


def _key(key: str) -> bytes:
    if not isinstance(key, str):
        raise TypeError(f"key {key!r} is {type(key).__name__}, but str is needed; pass such as 'nccl/0'")
    try:
        data = key.encode()
    except UnicodeEncodeError as error:
        raise RendezvousError(f"key {key!r} cannot be encoded as UTF-8 ({error.reason}); pass ordinary text") from error
    if len(data) > MAX_KEY:
        raise RendezvousError(f"a key of {len(data)} bytes, but at most {MAX_KEY} are taken; shorten {key[:40]!r}...")
    return data
