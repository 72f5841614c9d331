"""Which GPUs there are, and what to tell a user who asked for one where there is none.

Apart from cuda.py, so that asking costs no more than it must: programs without a GPU ask too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["cupy_available", "from_dlpack", "gpu_count", "gpu_report", "no_gpu"]


def gpu_report() -> tuple[int, str]:
    """How many GPUs CuPy can use, and what is missing where there are none. It never raises and never warns."""
    import importlib.util
    import warnings

    try:
        if importlib.util.find_spec("cupy") is None:
            return 0, "CuPy is not installed"
    except (ImportError, ValueError):
        return 0, "CuPy is not installed"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import cupy

            version = cupy.__version__
        except AttributeError:
            return 0, "CuPy is not installed, and some folder of its name is imported"
        except Exception as error:
            return 0, f"CuPy is installed but cannot be imported ({type(error).__name__}: {error})"
        try:
            count = int(cupy.cuda.runtime.getDeviceCount())
        except Exception as error:
            if getattr(error, "status", None) == 100:  # cudaErrorNoDevice
                return 0, f"CuPy {version} is installed, but the CUDA driver finds no GPU"
            return 0, f"CuPy {version} is installed, but there is no usable CUDA driver ({error})"
    return count, "" if count else f"CuPy {version} is installed, but the CUDA driver finds no GPU"


def gpu_count() -> int:
    """How many GPUs CuPy can use: none without CuPy or without a driver. It never raises and never warns."""
    return gpu_report()[0]


def cupy_available() -> bool:
    """Whether CuPy can be imported; it may still find no GPU."""
    count, reason = gpu_report()
    return count > 0 or not ("not installed" in reason or "cannot be imported" in reason)


def no_gpu(reason: str) -> str:
    """The message for a CUDA device that cannot be had."""
    return (
        f"no CUDA device can be used: {reason}; install CuPy for your CUDA version, as in "
        "pip install 'distarray[cuda12]', on a machine with an NVIDIA GPU and driver, or use kind='host'"
    )


def from_dlpack(
    obj: Any,  # of any library
) -> Any:
    """A NumPy or CuPy array of an object with DLPack, by where its memory is; no copy."""
    kind, _ = obj.__dlpack_device__()
    if int(kind) in (1, 3):
        return np.from_dlpack(obj)
    import cupy

    return cupy.from_dlpack(obj)
