"""Fixtures of the unit tests. The options and profiles are in the root conftest, shared with ``conformance/``."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest


@cache
def _context(n: int) -> Any:
    import distarray as da

    return da.init(devices=n, kind=os.environ.get("DISTARRAY_TEST_KIND", "host"))


@pytest.fixture(scope="session")
def ctx() -> Callable[[int], Any]:
    """``ctx(n)``: the cached context with n devices of the kind under test, for ``with ctx(4):``."""
    return _context


@pytest.fixture
def four() -> Any:
    """The test runs with four devices."""
    with _context(4) as made:
        yield made


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the source tree."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture
def two_hosts() -> Iterator[tuple[str, str]]:
    """Two network namespaces joined by a cable, 10.231.7.1 and 10.231.7.2: names of the two."""
    if shutil.which("ip") is None or not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("network namespaces need root and the ip command")
    a, b = f"da{os.getpid()}a", f"da{os.getpid()}b"

    def ip(*words: str) -> str:
        return subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=20).stdout

    try:
        try:
            for name in (a, b):
                ip("netns", "add", name)
            ip("link", "add", "eth0", "netns", a, "type", "veth", "peer", "name", "eth0", "netns", b)
            for name, address in ((a, "10.231.7.1/24"), (b, "10.231.7.2/24")):
                ip("-n", name, "addr", "add", address, "dev", "eth0")
                for device in ("lo", "eth0"):
                    ip("-n", name, "link", "set", device, "up")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr.strip()}")
        due = time.monotonic() + 10
        while not all('"operstate":"UP"' in ip("-n", name, "-j", "link", "show", "eth0") for name in (a, b)):
            assert time.monotonic() < due, "the cable does not come up"
            time.sleep(0.05)
        yield a, b
    finally:
        for name in (a, b):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
