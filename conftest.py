"""Options and hypothesis profiles shared by ``tests/`` and ``conformance/``: each runs alone or with the other."""

from __future__ import annotations

import os
import signal
import tempfile

import pytest
from hypothesis import HealthCheck, Phase, settings

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

PHASES = [Phase.explicit, Phase.reuse, Phase.generate, Phase.target, Phase.shrink]  # explaining a failure is slow

settings.register_profile(
    "ci", max_examples=25, deadline=None, derandomize=True, print_blob=True, database=None, suppress_health_check=SLOW,
    phases=PHASES,
)  # fmt: skip
settings.register_profile("deep", max_examples=600, deadline=None, print_blob=True, suppress_health_check=SLOW)
MPI_EXAMPLES = int(os.environ.get("DISTARRAY_TEST_MPI_EXAMPLES", "6"))  # each runs on every rank, all on a few cores
settings.register_profile("mpi", settings.get_profile("ci"), max_examples=MPI_EXAMPLES)
settings.load_profile("ci")  # hypothesis's own --hypothesis-profile is applied after this


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("distarray")
    group.addoption("--kind", choices=("host", "cuda"), default=os.environ.get("DISTARRAY_TEST_KIND", "host"),
                    help="kind of the devices that the tests use (env DISTARRAY_TEST_KIND; default host)")  # fmt: skip
    group.addoption("--devices", default=os.environ.get("DISTARRAY_TEST_DEVICES", "1,2,3,4,7"),
                    help="numbers of devices to draw from (default 1,2,3,4,7)")  # fmt: skip
    group.addoption("--mpi", action="store_true",
                    help="conformance/ only: run as one of the processes of an mpiexec, all of them the same tests")  # fmt: skip


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job: tests interrupt themselves
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if os.environ.pop(
        "PYTHONDONTWRITEBYTECODE", ""
    ):  # hundreds of processes are started: each would compile the package
        os.environ.setdefault(
            "PYTHONPYCACHEPREFIX", os.path.join(tempfile.gettempdir(), f"distarray-tests-{os.getuid()}")
        )
    if getattr(
        config.option, "numprocesses", None
    ):  # a worker a core: more threads of BLAS would only wait for each other
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Through the environment: the strategies read them lazily, and child processes of a test inherit them.
    os.environ["DISTARRAY_MINIMUM_CHUNK"] = "1"
    os.environ["DISTARRAY_TEST_KIND"] = config.getoption("--kind")
    os.environ["DISTARRAY_TEST_DEVICES"] = config.getoption("--devices")
    if config.getoption("--mpi"):
        _start_mpi(config)


def _start_mpi(config: pytest.Config) -> None:
    if not settings.default.derandomize or settings.default.database is not None:
        raise pytest.UsageError("--mpi needs a derandomized profile without a database: --hypothesis-profile ci or mpi")
    from conformance import mpi

    if mpi.start(config.getoption("--kind")).rank > 0:  # rank 0 speaks for all: they agree on every verdict
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        reporter._tw._file = open(os.devnull, "w")  # noqa: SIM115 - as long as the process lives


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Small arrays are cut too, where a test says nothing else; the examples of the documentation are as users see them."""
    os.environ["DISTARRAY_MINIMUM_CHUNK"] = "" if isinstance(item, pytest.DoctestItem) else "1"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith("tests/processes/"))  # the longest first
    deep = settings.default.max_examples > 200
    skip = pytest.mark.skip(reason="needs --kind=cuda")
    for item in items:
        if item.get_closest_marker("cuda") and config.getoption("--kind") != "cuda":
            item.add_marker(skip)
        if deep:
            item.add_marker(pytest.mark.timeout(7200))
