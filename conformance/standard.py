"""Runs the public test suite of the array API standard in every set-up, beside NumPy's through array_api_compat.

    git clone --recurse-submodules https://github.com/data-apis/array-api-tests SUITE
    pip install -r SUITE/requirements.txt
    python conformance/standard.py SUITE                      # one device; four; four in scattered layouts; three processes
    python conformance/standard.py SUITE --setups 4 mpi --examples 20 -- -k sort
    python conformance/standard.py SUITE --setups 1 4 scattered --kind cuda

For every set-up it names the tests that fail here and not for NumPy, and those that are skipped here and not there; the
exit status is 1 where there are any.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from conformance.launching import mpiexec, outside  # noqa: E402 - the path has to be set first

SETUPS = {
    "1": "one device",
    "4": "four devices, default layouts",
    "scattered": "four devices, every array in another layout and mode",
    "mpi": "three processes",
}
FAILING = ("failed", "error")


def outcomes(
    suite: Path, setup: str, examples: int, version: str, rest: list[str], kind: str = "host"
) -> dict[str, str]:
    """What became of each test in a set-up; "numpy" for the peer."""
    env = outside() | {"ARRAY_API_TESTS_VERSION": version, "STANDARD_SETUP": setup, "STANDARD_KIND": kind}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), env.get("PYTHONPATH")]))
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [sys.executable, "-m", "pytest", "array_api_tests", "-q", "--no-header", "--tb=short", "-p", "no:cacheprovider",
                   "--disable-deadline", "--derandomize", f"--max-examples={examples}", "--json-report",
                   f"--json-report-file={report.name}", "--json-report-omit=collectors", "-W", "ignore", *rest]  # fmt: skip
        if setup == "numpy":
            env["ARRAY_API_TESTS_MODULE"] = "array_api_compat.numpy"
        else:
            env["ARRAY_API_TESTS_MODULE"] = "conformance.standard_namespace"
            command[3:3] = ["-p", "conformance.standard_plugin"]
        if setup == "mpi":
            command = [*mpiexec(3), *command]
        log = suite / f"standard-{setup}.log"
        with log.open("w") as out:
            subprocess.run(command, cwd=suite, env=env, stdout=out, stderr=subprocess.STDOUT, check=False)
        text = Path(report.name).read_text()
    if not text:
        sys.exit(f"the suite did not come to its end in set-up {setup!r}; see {log}")
    return {test["nodeid"]: test["outcome"] for test in json.loads(text)["tests"]}


def matched(found: dict[str, str], peer: dict[str, str]) -> dict[str, str]:
    """Outcomes by the peer's names of the tests: parameters that are our own dtypes have other names in ours, one for one."""
    places: dict[str, list[str]] = {}
    for test in peer:
        if test not in found:
            places.setdefault(test.partition("[")[0], []).append(test)
    result = {}
    for test, how in found.items():
        others = [] if test in peer else places.get(test.partition("[")[0], [])
        result[others.pop(0) if others else test] = how
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", type=Path)
    parser.add_argument("--setups", nargs="+", choices=SETUPS, default=list(SETUPS))
    parser.add_argument(
        "--kind", choices=["host", "cuda"], default="host", help="of devices; a GPU may serve as several"
    )
    parser.add_argument("--examples", type=int, default=100)
    parser.add_argument("--version", default="2025.12", help="of the standard")
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)  # what is behind it is for pytest
    given, rest = parser.parse_args(sys.argv[1:end]), sys.argv[end + 1 :]
    suite = given.suite.resolve()
    peer = outcomes(suite, "numpy", given.examples, given.version, rest)
    if not peer:
        sys.exit(f"no test of the suite ran; see {suite / 'standard-numpy.log'}")
    print(f"array_api_compat.numpy: {dict(Counter(peer.values()))}", flush=True)
    bad = 0
    for setup in given.setups:
        found = matched(outcomes(suite, setup, given.examples, given.version, rest, given.kind), peer)
        ours = sorted(t for t, how in found.items() if how in FAILING and peer.get(t) not in FAILING)
        skipped = sorted(t for t, how in found.items() if how == "skipped" and peer.get(t) != "skipped")
        missing = sorted(peer.keys() - found.keys())
        for kind, tests in (("fails", ours), ("is skipped", skipped), ("did not run", missing)):
            for test in tests:
                print(f"  {kind}: {test}")
        both = sum(how in FAILING for how in found.values()) - len(ours)
        print(
            f"{SETUPS[setup]}: {dict(Counter(found.values()))}; {len(ours)} fail that pass for NumPy, {both} fail for both, "
            f"{len(skipped)} skipped and {len(missing)} missing that NumPy runs",
            flush=True,
        )
        bad += len(ours) + len(skipped) + len(missing)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
