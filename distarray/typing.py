"""The names of ``numpy.typing``, for programs that annotate arrays: ``NDArray[np.float64]`` is a ``DistributedArray``."""

from numpy.typing import ArrayLike, DTypeLike

from distarray.distributed_array import DistributedArray as NDArray

__all__ = ["ArrayLike", "DTypeLike", "NDArray"]
