"""Two ranks on two hosts: they compute together, wait until their cable is cut, and say what the next operation told them.

    mpiexec -n 2 python hosts_program.py FOLDER

Each writes ``met.RANK`` in the folder, waits for ``go`` there, and writes ``end.RANK``: they share no working network then.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import distarray as da

FOLDER = Path(sys.argv[1])


def say(what: str, **facts: Any) -> None:
    made = FOLDER / f"{what}.{da.process_index()}.part"
    made.write_text(json.dumps(facts))
    made.rename(made.with_suffix(""))


def main() -> None:
    plain = np.arange(600_000.0).reshape(600, 1000)
    x = da.asarray(plain, layout=da.blocks(0))
    columns = x.reshard(da.blocks(1)) * 2
    right = bool(np.array_equal(np.asarray(columns), plain * 2)) and float(x.sum()) == float(plain.sum())
    say("met", right=right)
    while not (FOLDER / "go").exists():
        time.sleep(0.01)
    began = time.monotonic()
    try:
        x.reshard(da.blocks(1)).evaluate()
        told = "nothing", ""
    except Exception as error:
        told = type(error).__name__, str(error)
    took = time.monotonic() - began
    readable = [bool(np.array_equal(chunk.data, plain[chunk.index])) for chunk in da.local_chunks(x)]
    say("end", error=told[0], text=told[1], took=took, readable=readable)


if __name__ == "__main__":
    main()
