"""``torchrun`` (``python -m torch.distributed.run``), and anything that sets its five variables."""

from __future__ import annotations

from .base import Launcher

__all__ = ["Torchrun"]


class Torchrun(Launcher):
    """RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT.

    The names are common, so that only RANK and WORLD_SIZE together count as a sign.

    torchrun's agent listens on MASTER_PORT itself and says so in TORCHELASTIC_USE_AGENT_STORE; then the rendezvous takes
    the next port (the one before, at the end of the range), the same on all ranks.
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
        port = self.integer("MASTER_PORT", 1, 65535)
        if self.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
            port += 1 if port < 65535 else -1
        return self.environ["MASTER_ADDR"], port
