"""What a process group may be given as an array, and what is checked before anything is sent.

NumPy and CuPy arrays are taken as they are. Anything else that can show its memory is viewed without a copy: DLPack
(PyTorch, JAX), ``__cuda_array_interface__`` (Numba), the buffer protocol (``bytearray``, ``array.array``). A wrong
argument that is found here costs an exception on one process; found later it is a hang, or another array's memory
overwritten.
"""

from __future__ import annotations

import operator
from typing import Any, Literal, NamedTuple, Protocol, SupportsIndex, TypeAlias

import numpy as np

from distarray.devices.arrays import DeviceArray
from distarray.errors import ReadOnlyError, read_only

__all__ = [
    "DTYPES",
    "GroupArray",
    "Stream",
    "OPERATIONS",
    "MemoryOrder",
    "View",
    "as_view",
    "check_count",
    "check_leading",
    "check_operation",
    "check_pair",
    "check_peer",
    "device_array",
    "host_array",
]

MemoryOrder = Literal["C", "F", "both"]


class SharesMemory(Protocol):
    """An array of a library with DLPack: NumPy's, CuPy's, PyTorch's, JAX's."""

    def __dlpack__(self) -> Any: ...


class OnGpu(Protocol):
    """An array of a library that shows its GPU memory: Numba's."""

    @property
    def __cuda_array_interface__(self) -> Any: ...


class SparseMatrix(Protocol):
    """A csr, csc or coo matrix of SciPy or CuPy."""

    @property
    def format(self) -> Any: ...
    @property
    def shape(self) -> Any: ...
    @property
    def data(self) -> Any: ...


GroupArray: TypeAlias = SharesMemory | OnGpu | bytearray | memoryview | SparseMatrix | list[Any] | None
"""What a method of a process group takes: an array, a sparse matrix, a list of them; None where a process has no part in it."""


class CudaStream(Protocol):
    """A stream that says its address to other libraries: cuda.core's."""

    def __cuda_stream__(self) -> tuple[int, int]: ...


class CupyStream(Protocol):
    """CuPy's stream."""

    @property
    def ptr(self) -> int: ...


class TorchStream(Protocol):
    """PyTorch's stream."""

    @property
    def cuda_stream(self) -> int: ...


Stream: TypeAlias = int | CudaStream | CupyStream | TorchStream | None
"""A CUDA stream, or its address; None for the current one."""

OPERATIONS = ("sum", "prod", "min", "max", "avg")
"""The reductions: over processes, element by element."""

DTYPES = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128".split()
)
"""Names of the data types that every method takes."""


class View(NamedTuple):
    """An array of the group's library over the memory that the user gave, with what the checks need to know of it."""

    array: Any
    name: str
    dtype: np.dtype[Any]
    size: int
    shape: tuple[int, ...]
    order: MemoryOrder

    def in_c_order(self) -> View:
        """This array, or a copy of it in C order: elements travel in that order."""
        return self._replace(array=self.array.copy(order="C"), order="C") if self.order == "F" else self

    @property
    def flat(self) -> Any:
        """The elements in memory order, as a 1-d array over the same memory."""
        return (self.array.T if self.order == "F" else self.array).reshape(-1)


# ---- foreign arrays


def host_array(value: object, name: str, *, write: bool) -> np.ndarray[Any, Any]:
    """A NumPy array over the memory of `value`, without a copy.

    Raises
    ------
    TypeError
        Not an array, or one whose memory is not on the host.
    ValueError
        `write` and the memory is read-only.
    """
    if type(value) is np.ndarray:
        array: np.ndarray[Any, Any] = value
    elif isinstance(value, np.ndarray):
        if isinstance(value, np.ma.MaskedArray):
            raise TypeError(f"{name} is a masked array, and its mask would be lost; pass x.filled(value), or x.data")
        array = value.view(np.ndarray)  # a matrix stays two-dimensional whatever is done with it
    else:
        array = _foreign_host(value, name, write)
    if write and (not array.flags.writeable or _is_jax(value)):
        raise _read_only(name, value, "numpy")
    return array


def _foreign_host(value: Any, name: str, write: bool) -> np.ndarray[Any, Any]:
    _refuse_distributed(value, name)
    if isinstance(value, (np.generic, int, float, complex, bool, str, list, tuple)) or value is None:
        raise _not_an_array(value, name)
    if _on_gpu(value):
        raise TypeError(
            f"{name} is a {type(value).__name__} on a GPU, and this group works on host memory; "
            'make the group with init_process_group(..., backend="nccl") or pass a copy on the host'
        )
    if _is_jax(value):
        return np.asarray(value)  # a view on the CPU; brings bfloat16 along
    if hasattr(value, "__dlpack__"):
        integers = _torch_bfloat16(value)
        try:
            if integers is not None:
                return np.from_dlpack(integers).view(_bfloat16())
            return _viewed(value) if write else np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError) as error:
            raise TypeError(
                f"{name} is a {type(value).__name__} that does not share its memory: {error}; "
                "pass a plain array (for PyTorch: tensor.detach())"
            ) from error
    try:
        return np.asarray(memoryview(value))
    except TypeError:
        raise _not_an_array(value, name) from None


def _viewed(value: Any) -> np.ndarray[Any, Any]:
    """The memory of `value` itself: an exporter may hand out a copy unless it is asked not to."""
    try:
        return np.from_dlpack(value, copy=False)
    except TypeError:  # it does not know the word, and hands out its memory
        return np.from_dlpack(value)


def _refuse_distributed(value: object, name: str) -> None:
    """Refuses an array of this package. Reading it would gather it unseen, and what is written would land in a copy."""
    if any(each.__module__.partition(".")[0] == "distarray" for each in type(value).__mro__):
        raise TypeError(
            f"{name} is a {type(value).__name__}, and a process group works on the plain arrays of each process; pass "
            "x.get(), which gathers the whole array, or one of distarray.local_chunks(x), or use NumPy's functions on it, "
            "which communicate by themselves"
        )


def device_array(value: object, name: str, device: int, *, write: bool) -> Any:
    """A CuPy array over the memory of `value`, on GPU `device`, without a copy. The GPU and stream must be current.

    Raises
    ------
    TypeError
        Not an array, or one whose memory is not on a GPU.
    ValueError
        The memory is on another GPU, or `write` and it is read-only.
    """
    import cupy

    array = value if isinstance(value, cupy.ndarray) else _foreign_device(value, name, cupy)
    if array is not value and write and _is_read_only(value):
        raise _read_only(name, value, "cupy")
    found = int(array.device.id)
    if found != device:
        raise ValueError(
            f"{name} is on GPU {found}, but this group's communicator is bound to GPU {device}, which was current when "
            f"it was made; copy the array there, or make the group under cupy.cuda.Device({found})"
        )
    if write and _is_jax(value):
        raise ValueError(f"{name} is a JAX array, which may not be written; pass a CuPy array or a torch tensor")
    return array


def _read_only(name: str, value: object, library: str) -> ReadOnlyError:
    cure = f"pass an array that may be written, such as {library}.empty(shape, dtype)"
    return read_only(f"{name}, a {type(value).__name__},", cure, "the result must be written into it")


def _is_read_only(value: object) -> bool:
    """Whether the CUDA array interface says so; CuPy does not ask."""
    interface = getattr(value, "__cuda_array_interface__", None)
    return interface is not None and bool(interface["data"][1])


def _foreign_device(value: Any, name: str, cupy: Any) -> Any:
    _refuse_distributed(value, name)
    if not _on_gpu(value):
        if isinstance(value, np.ndarray) or hasattr(value, "__dlpack__"):
            raise TypeError(
                f'{name} is a {type(value).__name__} in host memory, and backend "nccl" moves GPU memory; '
                'pass cupy.asarray(x), or make the group with backend="mpi"'
            )
        raise _not_an_array(value, name)
    integers = _torch_bfloat16(value)
    try:
        if integers is not None:
            return cupy.from_dlpack(integers).view(_bfloat16())
        if hasattr(value, "__dlpack__"):
            return cupy.from_dlpack(value)
        return cupy.asarray(value)  # __cuda_array_interface__
    except (BufferError, RuntimeError, TypeError) as error:
        raise TypeError(
            f"{name} is a {type(value).__name__} that does not share its memory: {error}; "
            "pass a plain array (for PyTorch: tensor.detach())"
        ) from error


def _not_an_array(value: object, name: str) -> TypeError:
    if isinstance(value, (list, tuple)) and any(hasattr(each, "dtype") for each in value):
        return TypeError(
            f"{name} is a {type(value).__name__} of {len(value)}; an array is needed: call the method for each array in a "
            "loop, or join them first, such as with numpy.stack"
        )
    if isinstance(value, dict) and any(hasattr(each, "dtype") for each in value.values()):
        return TypeError(
            f"{name} is a {type(value).__name__} of {len(value)}; an array is needed: call the method for each of its values in "
            "a loop, in one order on all processes"
        )
    return TypeError(
        f"{name} is a {type(value).__name__}; an array is needed: NumPy, CuPy, PyTorch, JAX, or anything with DLPack, "
        "__cuda_array_interface__ or the buffer protocol, such as numpy.asarray(x)"
    )


def _on_gpu(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return False
    if hasattr(value, "__dlpack_device__"):
        return int(value.__dlpack_device__()[0]) in (2, 13)  # kDLCUDA, kDLCUDAManaged
    return hasattr(value, "__cuda_array_interface__")


def _is_jax(value: object) -> bool:
    return type(value).__module__.split(".")[0] in ("jax", "jaxlib")


def _torch_bfloat16(value: Any) -> Any:
    """A bfloat16 torch tensor as int16, which every library's DLPack takes; None for anything else."""
    if type(value).__module__.split(".")[0] != "torch" or str(value.dtype) != "torch.bfloat16":
        return None
    import torch

    return value.detach().view(torch.int16)


def _bfloat16() -> np.dtype[Any]:
    import ml_dtypes

    dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return dtype


# ---- checks


def as_view(array: DeviceArray, name: str) -> View:
    """The view of a NumPy or CuPy array, once its data type and contiguity are known to be good.

    Raises
    ------
    TypeError
        A data type that cannot be moved.
    ValueError
        Not contiguous.
    """
    dtype = array.dtype
    if dtype.name not in DTYPES or not dtype.isnative:
        raise TypeError(
            f"{name} has dtype {dtype!r}; needed is a native bool, integer, float, bfloat16 or complex type: "
            "use x.astype(...), or x.view('uint8') to move the bytes as they are"
        )
    flags = array.flags
    in_c, in_f = bool(flags.c_contiguous), bool(flags.f_contiguous)
    if not (in_c or in_f):
        raise ValueError(
            f"{name} of shape {tuple(array.shape)} is neither C- nor F-contiguous (strides {tuple(array.strides)}); "
            "pass a contiguous array: x.copy() to send, a fresh one to receive into"
        )
    order: MemoryOrder = "both" if in_c and in_f else "C" if in_c else "F"
    return View(array, name, dtype, int(array.size), tuple(array.shape), order)


def check_operation(op: object, dtype: np.dtype[Any]) -> None:
    """Refuses a reduction that does not exist, or has no meaning for the data type."""
    if op not in OPERATIONS:
        raise ValueError(f"Unknown op {op!r}; the reductions are {', '.join(map(repr, OPERATIONS))}")
    if dtype.kind == "c" and op not in ("sum", "avg"):
        reason = "complex numbers have no order" if op != "prod" else "NCCL has no complex product"
        raise ValueError(
            f"op {op!r} does not work on {dtype.name}: {reason}; only 'sum' and 'avg' do. "
            "Use all_gather and reduce the gathered array"
        )
    if dtype.kind == "b" and op == "avg":
        raise ValueError("op 'avg' does not work on bool: a mean of truth values is not one; use x.astype('float32')")


def check_pair(src: View, dst: View, *, alike: bool = True) -> None:
    """Refuses an input and an output that do not go together element by element.

    Where they need not be `alike`, only that they have one data type and do not overlap: sizes are the caller's to check.
    """
    if src.dtype != dst.dtype:
        raise ValueError(
            f"{src.name} has dtype {src.dtype.name} and {dst.name} has {dst.dtype.name}; they must be equal: "
            f"use {src.name}.astype({dst.dtype.name!r})"
        )
    if alike:
        if src.size != dst.size:
            raise ValueError(
                f"{src.name} has {src.size} elements (shape {src.shape}) and {dst.name} has {dst.size} (shape "
                f"{dst.shape}); they must be equal"
            )
        if src.shape != dst.shape and "F" in (src.order, dst.order):
            raise ValueError(
                f"{src.name} has shape {src.shape} and {dst.name} {dst.shape}: different shapes need C-contiguous arrays"
            )


def check_leading(view: View, n: int, operation: str) -> View:
    """Refuses an array that has not one part along its first axis for each process."""
    if not view.shape or view.shape[0] != n:
        raise ValueError(
            f"{operation} requires {view.name} to have {n} elements in its first dimension, one for each process; "
            f"found shape {view.shape}"
        )
    return view


def check_count(count: SupportsIndex, **needed: tuple[View, int]) -> int:
    """`count` as an int, once each array holds that many elements times its factor (``in_array=(view, n)``)."""
    try:
        value = operator.index(count)
    except TypeError:
        raise TypeError(f"count must be an integer, not {type(count).__name__}") from None
    if value < 0:
        raise ValueError(f"count must not be negative, but is {value}")
    for view, factor in needed.values():
        if view.size < value * factor:
            times = f" × {factor} processes" if factor != 1 else ""
            raise ValueError(
                f"count = {value}{times} needs {value * factor} elements in {view.name}, which has {view.size} (shape "
                f"{view.shape})"
            )
    return value


def check_peer(value: SupportsIndex, name: str, size: int) -> int:
    """A root's or peer's rank as an int, once it is one."""
    try:
        rank = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}") from None
    if not 0 <= rank < size:
        raise ValueError(f"{name} = {rank} is not a rank of this group of {size}; ranks are 0 to {size - 1}")
    return rank
