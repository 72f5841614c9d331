"""Runs the tests that are installed with NumPy on distributed arrays, and as they are, and compares.

    python conformance/numpy_tests.py                                  # all modules, arrays in four parts
    python conformance/numpy_tests.py lib.test_arraypad linalg.test_linalg --devices 7

What fails here and passes for NumPy must stand in ``conformance/numpy_failures.toml``, with its reason; the exit status is 1
where something else fails.
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


def outcomes(module: str, devices: int | None, rest: list[str]) -> dict[str, list[str]]:
    """What became of each test of a module, and what a failure said; `devices` is None for NumPy itself."""
    package, _, name = module.rpartition(".")
    path = Path(np.__file__).parent / package.replace(".", "/") / "tests" / f"{name}.py"
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
    env |= {"NUMPY_TESTS_DEVICES": "" if devices is None else str(devices)}
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "outcomes.json"
        env["NUMPY_TESTS_OUTCOMES"] = str(found)
        command = [sys.executable, "-m", "pytest", str(path), "-q", "-p", "no:cacheprovider", "-p", "conformance.numpy_plugin",
                   "-c", os.devnull, "--rootdir=/", "-m", "not slow", "--tb=line", *rest]  # fmt: skip
        said = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
        if not found.exists():
            sys.exit(f"the tests of {module} did not come to their end:\n{said.stdout[-3000:]}{said.stderr[-1000:]}")
        return json.loads(found.read_text())  # type: ignore[no-any-return]


def reasons() -> dict[str, str]:
    """Pattern of tests' names → why they fail here."""
    table = tomllib.loads(TABLE.read_text())
    return {pattern: group["reason"] for group in table["known"] for pattern in group["tests"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", default=MODULES, metavar="MODULE")
    parser.add_argument("--devices", type=int, default=4)
    parser.add_argument("--said", action="store_true", help="print what each failure said")
    given, rest = parser.parse_known_args()
    table, total = reasons(), Counter[str]()
    new: list[str] = []
    for module in given.modules:
        theirs, ours = outcomes(module, None, rest), outcomes(module, given.devices, rest)
        passing = [test for test, (how, _) in theirs.items() if how == "passed"]
        failing = [test for test in passing if ours.get(test, ["missing", ""])[0] != "passed"]
        known = [test for test in failing if any(fnmatchcase(test, pattern) for pattern in table)]
        unknown = [test for test in failing if test not in known]
        total += Counter(passed=len(passing), here=len(passing) - len(failing), known=len(known))
        print(
            f"{module:24} NumPy {len(passing):5}  here {len(passing) - len(failing):5}  known {len(known):4}  new {len(unknown)}"
        )
        for test in failing if given.said else unknown:
            print(f"    {test}: {' '.join(ours.get(test, ['', ''])[1].split())[:160]}")
        new += unknown
    print(f"of {total['passed']} that pass for NumPy {total['here']} pass here; {total['known']} are known to fail")
    return bool(new)


if __name__ == "__main__":
    sys.exit(main())
