"""``python -m distarray``: what the package can tell from the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m distarray", description="One logical NumPy array over many devices."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    info = commands.add_parser(
        "info", help="print the devices, links, libraries, versions and launch environment that are found"
    )
    info.add_argument("--plain", action="store_true", help="plain text, also on a terminal where rich is installed")
    chosen = parser.parse_args(arguments)

    from distarray.info import collect, show

    show(collect(), plain=chosen.plain)
    return 0


if __name__ == "__main__":
    sys.exit(main())
