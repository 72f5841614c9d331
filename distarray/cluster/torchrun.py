"""``torchrun`` (``python -m torch.distributed.run``), and anything that sets its five variables."""

from __future__ import annotations

from distarray.cluster.base import Launcher, derived_port

__all__ = ["Torchrun"]


class Torchrun(Launcher):
    """RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT.

    The names are common, so that only RANK and WORLD_SIZE together count as a sign.

    MASTER_PORT itself is taken: torchrun's agent listens there, or rank 0 does once the program calls
    ``torch.distributed.init_process_group``. The ports beside it are often those of other jobs on the machine, and where
    torchrun chose MASTER_PORT they are ephemeral ones. So the rendezvous is at a port computed from it, which no job with
    a MASTER_PORT near it computes too.
    """

    name = "torchrun"
    needs = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")

    def is_present(self) -> bool:
        return bool(self.environ.get("RANK") and self.environ.get("WORLD_SIZE"))

    def rank(self) -> int:
        return self.integer("RANK")

    def size(self) -> int:
        return self.integer("WORLD_SIZE", 1)

    def local_rank(self) -> int | None:
        return self.first_of("LOCAL_RANK")

    def address(self) -> tuple[str | None, int | None]:
        master = self.integer("MASTER_PORT", 1, 65535)
        return self.environ["MASTER_ADDR"], derived_port(master + 2048)  # never MASTER_PORT, also where that is as high
