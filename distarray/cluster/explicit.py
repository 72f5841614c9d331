"""A launch that a person describes: by variables, for any launcher that is not known here, or by arguments."""

from __future__ import annotations

from distarray.cluster.base import Launch, Launcher
from distarray.errors import RendezvousError

__all__ = ["Explicit", "explicit"]


class Explicit(Launcher):
    """DISTARRAY_RANK and DISTARRAY_SIZE; DISTARRAY_LOCAL_RANK, DISTARRAY_HOST and DISTARRAY_PORT where they matter."""

    name = "explicit"
    needs = ("DISTARRAY_RANK", "DISTARRAY_SIZE")

    def rank(self) -> int:
        return self.integer("DISTARRAY_RANK")

    def size(self) -> int:
        return self.integer("DISTARRAY_SIZE", 1)

    def local_rank(self) -> int | None:
        return self.first_of("DISTARRAY_LOCAL_RANK")


def explicit(
    rank: int, size: int, local_rank: int | None = None, host: str | None = None, port: int | None = None
) -> Launch:
    """The launch that arguments describe.

    Raises
    ------
    RendezvousError
        For a rank outside 0 to size - 1, or a port that is none.
    """
    for name, value, least in (("rank", rank, 0), ("size", size, 1), ("local_rank", local_rank, 0), ("port", port, 0)):
        optional = name in ("local_rank", "port")
        if (value is None and optional) or (isinstance(value, int) and not isinstance(value, bool) and value >= least):
            continue
        raise RendezvousError(f"{name}={value!r}, but a whole number from {least} is needed; pass this process's own")
    if rank >= size:
        raise RendezvousError(f"rank={rank} of size={size}, but ranks are 0 to {size - 1}; pass this process's own")
    if port is not None and port > 65535:
        raise RendezvousError(f"port={port}, but ports end at 65535; pass a free one")
    return Launch("explicit", rank, size, local_rank, host, port)
