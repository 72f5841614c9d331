"""Runs the tests that are installed with NumPy on distributed arrays, and as they are, and compares.

    python conformance/numpy_tests.py                                # all modules, arrays cut in four and as they lie by default
    python conformance/numpy_tests.py lib.test_arraypad linalg.test_linalg --devices 7 --setups spread
    python conformance/numpy_tests.py _core.test_umath --part 0/4 --said    # every fourth test; what failures say

What fails here and passes for NumPy must stand in ``conformance/numpy_failures.toml``, with its reason, and what stands there must
fail: else the exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
TABLE = Path(__file__).with_name("numpy_failures.toml")

MODULES = [
    *(f"lib.test_{name}" for name in (
        "shape_base", "arraysetops", "twodim_base", "index_tricks", "polynomial", "type_check", "stride_tricks", "histograms",
        "arraypad", "nanfunctions", "function_base",
    )),
    "fft.test_helper", "fft.test_pocketfft", "linalg.test_linalg",
    *(f"_core.test_{name}" for name in ("shape_base", "einsum", "item_selection", "ufunc", "numeric", "umath")),
]  # fmt: skip


SETUPS = ("spread", "whole")
"""Arrays cut into rows, and as they lie by default: small ones whole, one copy a process."""


class Known(NamedTuple):
    """A row of the table of what fails."""

    pattern: str
    setups: tuple[str, ...]

    def matches(self, test: str, setup: str) -> bool:
        """Whether the row means a test; a bracket is one of the test's name."""
        return setup in self.setups and fnmatchcase(test, self.pattern.replace("[", "[[]"))


def table() -> list[Known]:
    """What is known to fail; every group of tests has its reason."""
    groups = tomllib.loads(TABLE.read_text())["known"]
    assert all(group["reason"] for group in groups)
    return [Known(pattern, tuple(group.get("setups", SETUPS))) for group in groups for pattern in group["tests"]]


def outcomes(module: str, setup: str | None, given: argparse.Namespace, rest: list[str]) -> dict[str, list[str]]:
    """What became of each test of a module, and what a failure said; `setup` is None for NumPy itself."""
    package, _, name = module.rpartition(".")
    path = Path(np.__file__).parent / package.replace(".", "/") / "tests" / f"{name}.py"
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
    env |= {
        "NUMPY_TESTS_DEVICES": str(given.devices) if setup else "",
        "NUMPY_TESTS_SETUP": setup or "",
        "NUMPY_TESTS_PART": given.part,
    }
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "outcomes.json"
        env["NUMPY_TESTS_OUTCOMES"] = str(found)
        command = [sys.executable, "-m", "pytest", str(path), "-q", "-p", "no:cacheprovider", "-p", "conformance.numpy_plugin",
                   "-c", os.devnull, "--rootdir=/", "--tb=line", *([] if given.slow else ["-m", "not slow"]), *rest]  # fmt: skip
        said = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
        if not found.exists():
            sys.exit(f"the tests of {module} did not come to their end:\n{said.stdout[-3000:]}{said.stderr[-1000:]}")
        return json.loads(found.read_text())  # type: ignore[no-any-return]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", default=MODULES, metavar="MODULE")
    parser.add_argument("--devices", type=int, default=4)
    parser.add_argument("--setups", nargs="+", choices=SETUPS, default=list(SETUPS))
    parser.add_argument("--part", default="0/1", metavar="I/N", help="every N-th test, from the I-th on")
    parser.add_argument("--slow", action="store_true", help="also the tests that NumPy marks as slow")
    parser.add_argument("--said", action="store_true", help="print what each failure said")
    given, rest = parser.parse_known_args()
    known_to_fail, total, wrong = table(), Counter[str](), 0
    for module in given.modules:
        theirs = outcomes(module, None, given, rest)
        passing = [test for test, (how, _) in theirs.items() if how == "passed"]
        for setup in given.setups:
            ours = outcomes(module, setup, given, rest)
            listed = {test for test in passing if any(row.matches(test, setup) for row in known_to_fail)}
            failing = [test for test in passing if ours.get(test, ["missing", ""])[0] != "passed"]
            new, mended = [test for test in failing if test not in listed], sorted(listed.difference(failing))
            here, wrong = len(passing) - len(failing), wrong + len(new) + len(mended)
            total += Counter({"NumPy": len(passing), f"{setup}": here, f"known {setup}": len(failing) - len(new)})
            print(
                f"{module:24} {setup:6}  NumPy {len(passing):5}  here {here:5}  known {len(failing) - len(new):4}  "
                f"new {len(new)}  listed but passing {len(mended)}",
                flush=True,
            )
            for test in failing if given.said else new:
                print(f"    {test}: {' '.join(ours.get(test, ['', ''])[1].split())[:160]}")
            for test in mended:
                print(f"    {test} passes: take it out of {TABLE.name}")
    passed = total["NumPy"] // len(given.setups)
    print(
        "; ".join(
            f"{setup}: {total[setup]} of {passed} pass, {total[f'known {setup}']} are known to fail"
            for setup in given.setups
        )
    )
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
