"""The channel beside NCCL without MPI: a `Control` made of the rendezvous store.

Identities, unique ids, barriers and failures travel on it from host to host, never arrays.
"""

from __future__ import annotations

from collections.abc import Sequence

from distarray.comm.base import Signature
from distarray.errors import CollectiveMismatchError, PeerLostError, RendezvousError
from distarray.rendezvous.store import Store, connect, serve

__all__ = ["StoreControl", "store_control"]


def store_control(size: int, rank: int, host: str, port: int, deadline: float) -> StoreControl:
    """Rank 0 serves the store, the others connect; RendezvousError by the bootstrap deadline."""
    store = serve(host, port, size=size) if rank == 0 else connect(host, port, rank=rank, size=size)
    return StoreControl(store, range(size), deadline)


class StoreControl:
    """A control channel of some ranks of a store, numbered in their order.

    Parameters
    ----------
    store : Store
    members : sequence of int
        Their ranks in the store, ascending; this process's among them.
    deadline : float
        Seconds that a call waits.
    epoch : int
        How often the group shrank.
    """

    def __init__(self, store: Store, members: Sequence[int], deadline: float, epoch: int = 0) -> None:
        self.store = store
        self.members = list(members)
        self.rank = self.members.index(store.rank)
        self.size = len(self.members)
        self.deadline = deadline
        self.epoch = epoch
        self._calls = 0
        self._sent = [0] * self.size
        self._fetched = [0] * self.size
        self._broken = ""
        self._closed = False

    def all_gather(self, payload: bytes, signature: Signature) -> list[bytes]:
        """Every process's bytes, in rank order."""
        self._usable()
        self._calls += 1
        here = f"{signature.operation} (call {self._calls})"
        try:
            got = self.store.meet(
                f"{self.epoch}/gather", here.encode() + b"\0" + payload, self.deadline, ranks=self.members
            )
        except RendezvousError as error:
            raise self._lost(error, signature.operation) from error
        result = []
        for peer, message in enumerate(got):
            theirs, _, body = message.partition(b"\0")
            if theirs.decode(errors="replace") != here:
                self._broken = f"rank {peer} came to {theirs.decode(errors='replace')!r}, this process to {here!r}"
                raise CollectiveMismatchError(
                    f"{self._broken}; all processes must make the same calls in the same order: look for a branch on the rank"
                )
            result.append(body)
        return result

    def barrier(self, signature: Signature) -> None:
        """Wait until every process has come here."""
        self.all_gather(b"", signature)

    def post(self, peer: int, payload: bytes) -> None:
        """Leave bytes for a process."""
        self._usable()
        self._sent[peer] += 1
        self.store.set(f"{self.epoch}/mail/{self.rank}/{peer}/{self._sent[peer]}", payload)

    def fetch(self, peer: int) -> bytes:
        """The next bytes that a process left for this one."""
        self._usable()
        self._fetched[peer] += 1
        key = f"{self.epoch}/mail/{peer}/{self.rank}/{self._fetched[peer]}"
        try:
            payload = self.store.get(key, self.deadline, source=self.members[peer])
            self.store.set(key, b"")  # the store's room is bounded
        except RendezvousError as error:
            raise self._lost(error, f"message from rank {peer}") from error
        return payload

    def report(self, error: BaseException) -> None:
        """Tell the others that this process failed: their waits raise with its type and text. Never raises."""
        self.store.fail(error)

    def abort(self, reason: str) -> None:
        """Give the channel up."""
        self._broken = self._broken or reason

    def shrink(self, survivors: Sequence[int]) -> StoreControl:
        """The channel of the surviving ranks, which all of them call."""
        wanted = [self.members[rank] for rank in survivors]
        agreed = self.store.agree_survivors(self.epoch + 1, self.deadline)
        if agreed != wanted:
            raise PeerLostError(
                f"shrink to store ranks {wanted}, but those that live agreed on {agreed}; shrink to these"
            )
        return StoreControl(self.store, wanted, self.deadline, self.epoch + 1)

    def close(self) -> None:
        """Leave the store, when all have come; at once after a failure."""
        if self._closed:
            return
        try:
            if not self._broken:
                self.barrier(Signature("stop"))
        except (PeerLostError, CollectiveMismatchError):
            pass  # someone has left without it
        finally:
            self._closed = True
            self.store.close()

    def _usable(self) -> None:
        if self._closed:
            raise PeerLostError("this process group was stopped; make a new one with init_process_group")
        if self._broken:
            raise PeerLostError(f"this process group was given up: {self._broken}")

    def _lost(self, error: RendezvousError, operation: str) -> PeerLostError:
        self._broken = str(error)
        return PeerLostError(f"{operation!r} failed: {error}")
