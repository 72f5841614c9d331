"""``scipy.fft`` hands distributed arrays to this package's transforms, where SciPy asks arrays for their namespace.

SciPy looks at ``SCIPY_ARRAY_API`` when it is imported, so that the calls run in a process of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import numpy as np, scipy.fft, distarray as da
NAMES = "fft ifft hfft fft2 ifft2 fftn ifftn rfft ihfft rfft2 rfftn irfft irfft2 irfftn".split()
rng = np.random.default_rng(0)
real = rng.standard_normal((24, 30))
whole = real + 1j * rng.standard_normal((24, 30))
with da.init(devices=4, kind="host", minimum_chunk=1):
    for name in NAMES:
        a = real if name.startswith(("rfft", "ihfft")) else whole
        for layout in (da.blocks(0), da.blocks(1), da.cyclic(0, 2)):
            for kwargs in ({}, {"norm": "ortho"}):
                x = da.asarray(a, layout=layout)
                with da.ledger() as log:
                    found = getattr(scipy.fft, name)(x, **kwargs)
                assert isinstance(found, da.DistributedArray), (name, type(found))
                np.testing.assert_allclose(found.get(), getattr(scipy.fft, name)(a, **kwargs), rtol=1e-10, atol=1e-10)
    x = da.asarray(real[0], layout=da.blocks(0))
    for name in ("fftshift", "ifftshift"):
        found = getattr(scipy.fft, name)(x)
        assert isinstance(found, da.DistributedArray)
        np.testing.assert_array_equal(found.get(), getattr(scipy.fft, name)(real[0]))
    for name in ("fftfreq", "rfftfreq"):
        found = getattr(scipy.fft, name)(8, d=0.5, xp=da)
        assert isinstance(found, da.DistributedArray)
        np.testing.assert_array_equal(found.get(), getattr(scipy.fft, name)(8, d=0.5))
print("whole")
"""


def test_scipys_transforms_are_ours() -> None:
    env = os.environ | {
        "SCIPY_ARRAY_API": "1",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).resolve().parents[2]), *sys.path]),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.strip() == "whole", done.stderr
