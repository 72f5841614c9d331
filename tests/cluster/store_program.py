"""Forms a group at the address of its launch environment, as GPU processes without MPI do, and says whom it met.

With "torch's own" as its argument rank 0 first listens at MASTER_PORT, as ``torch.distributed.init_process_group`` does
where torchrun's agent does not.
"""

from __future__ import annotations

import json
import os
import socket
import sys

from distarray.cluster import detect
from distarray.comm.base import Signature
from distarray.launch import _store


def main() -> None:
    launch = detect()
    listener = None
    if sys.argv[1:] == ["torch's own"] and launch.rank == 0:
        listener = socket.create_server(("127.0.0.1", int(os.environ["MASTER_PORT"])))
    control = _store(launch)
    met = control.all_gather(f"{launch.launcher} {launch.rank} {launch.local_rank}".encode(), Signature("meet"))
    control.barrier(Signature("leave"))
    control.close()
    if listener is not None:
        listener.close()
    line = json.dumps({"rank": launch.rank, "size": launch.size, "met": [one.decode() for one in met]})
    os.write(1, f"{line}\n".encode())  # in one piece: launchers mix the lines of their processes


if __name__ == "__main__":
    main()
