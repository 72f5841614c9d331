"""The layer imports without CuPy, and imports nothing that it does not need."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys, warnings
warnings.simplefilter("error")
{before}
import distarray.devices as devices
assert not any(name.split(".")[0] == "cupyx" for name in sys.modules)
assert sys.modules.get("cupy") is None
assert "threadpoolctl" not in sys.modules
assert "array_api_compat" not in sys.modules
import threading
assert threading.active_count() == 1
{after}
"""

ABSENT = "sys.modules['cupy'] = None"

BROKEN = """
import importlib.abc, importlib.machinery
class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name == "cupy" else None
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        warnings.warn("CUDA path could not be detected")
        raise OSError("libcudart.so is missing")
sys.meta_path.insert(0, Finder())
"""

NO_GPU = """
assert devices.gpu_count() == 0
assert not devices.cupy_available()
assert {d.kind for d in devices.make_devices()} == {"host"}
try:
    devices.make_devices("cuda")
except devices.DeviceError as error:
    assert REASON in str(error), error
else:
    raise AssertionError
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        (ABSENT, NO_GPU.replace("REASON", "'CuPy is not installed'")),
        (BROKEN, NO_GPU.replace("REASON", "'cannot be imported (OSError: libcudart.so is missing)'")),
    ],
    ids=["plain", "cupy absent", "cupy broken"],
)
def test_import(before, after):
    program = PROGRAM.format(before=before, after=after)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
