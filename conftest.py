"""Options and hypothesis profiles shared by ``tests/`` and ``conformance/``: each runs alone or with the other."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

PHASES = [Phase.explicit, Phase.reuse, Phase.generate, Phase.target, Phase.shrink]  # explaining a failure is slow

settings.register_profile(
    "ci", max_examples=40, deadline=None, derandomize=True, print_blob=True, database=None, suppress_health_check=SLOW,
    phases=PHASES,
)  # fmt: skip
settings.register_profile("deep", max_examples=1500, deadline=None, print_blob=True, suppress_health_check=SLOW)
settings.load_profile("ci")  # hypothesis's own --hypothesis-profile is applied after this


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("distarray")
    group.addoption("--kind", choices=("host", "cuda"), default=os.environ.get("DISTARRAY_TEST_KIND", "host"),
                    help="kind of the devices that the tests use (env DISTARRAY_TEST_KIND; default host)")  # fmt: skip
    group.addoption("--devices", default=os.environ.get("DISTARRAY_TEST_DEVICES", "1,2,3,4,7"),
                    help="numbers of devices to draw from (default 1,2,3,4,7)")  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    # Through the environment: the strategies read them lazily, and child processes of a test inherit them.
    os.environ["DISTARRAY_TEST_KIND"] = config.getoption("--kind")
    os.environ["DISTARRAY_TEST_DEVICES"] = config.getoption("--devices")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    deep = settings.default.max_examples > 200
    skip = pytest.mark.skip(reason="needs --kind=cuda")
    for item in items:
        if item.get_closest_marker("cuda") and config.getoption("--kind") != "cuda":
            item.add_marker(skip)
        if deep:
            item.add_marker(pytest.mark.timeout(7200))
