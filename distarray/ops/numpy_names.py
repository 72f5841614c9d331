"""NumPy's own objects under this namespace, and NumPy's names that a distributed namespace does not have, each with its reason.

With them ``import distarray as np`` runs a program written for ``import numpy as np``. The objects in the table know nothing of
arrays (types, constants, error states, printing), or dispatch to the functions of this package.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from distarray.array.aliases import ArrayLike, DeviceLike, DTypeLike
from distarray.array.documented import described_as
from distarray.array.state import DistributedArray
from distarray.ops import reductions
from distarray.ops.convert import asarray
from distarray.ops.joining import vstack

NUMPYS = """
ScalarType byte cdouble character clongdouble complexfloating csingle datetime64 double dtype dtypes flexible floating generic
half inexact int_ intc integer intp long longdouble longlong number object_ sctypeDict short signedinteger single str_
timedelta64 typecodes ubyte uint uintc uintp ulong ulonglong unsignedinteger ushort void bool_ bytes_
False_ True_ euler_gamma little_endian
common_type datetime_data iscomplexobj
isfortran isrealobj isscalar issubdtype iterable min_scalar_type mintypecode ndim promote_types shape
size typename
errstate getbufsize geterr geterrcall setbufsize seterr seterrcall
array2string array_repr array_str base_repr binary_repr format_float_positional format_float_scientific get_printoptions
printoptions set_printoptions
exceptions index_exp ndindex poly1d s_
""".split()

ELSEWHERE: dict[str, str] = {
    **dict.fromkeys(
        ["get_include", "info", "show_config", "show_runtime", "test", "core", "ctypeslib", "f2py"],
        "it is about NumPy itself",
    ),
    **dict.fromkeys(
        ["char", "rec", "recarray", "record", "strings", "fromregex"],
        "it is about text and fields, and arrays here hold numbers",
    ),
    **dict.fromkeys(
        [
            "busday_count",
            "busday_offset",
            "busdaycalendar",
            "datetime_as_string",
            "is_busday",
        ],
        "it is about calendars and their text",
    ),
    **dict.fromkeys(
        ["asmatrix", "bmat", "matrix"], "a matrix is a class of host arrays: use arrays of two axes, and @"
    ),
    **dict.fromkeys(
        ["flatiter", "nditer", "nested_iters"],
        "it walks through one host's memory: use x.flat, ndenumerate, or distarray.local_chunks(x)",
    ),
    "ma": "masked arrays are a class of host arrays: pass m.filled(value)",
    "memmap": "it maps a file into one host's memory: distarray.load reads each device's own part of one",
    **dict.fromkeys(["complex256", "float128"], "distributed arrays hold no extended precision"),
}
"""NumPy's name → why it is not here."""

__all__ = [
    *NUMPYS, "asanyarray", "asarray_chkfinite", "ascontiguousarray", "asfortranarray", "ndarray", "require", "row_stack",
]  # fmt: skip

globals().update({name: getattr(np, name) for name in NUMPYS})

MODULES = ["dtypes", "exceptions"]
MODULES += [f"polynomial.{name}" for name in "chebyshev hermite hermite_e laguerre legendre polyutils".split()]
"""NumPy's modules under the same names here, which programs also import from: ``from distarray.exceptions import AxisError``."""

sys.modules.update({f"distarray.{name}": import_module(f"numpy.{name}") for name in MODULES})

ndarray = DistributedArray
row_stack = vstack


@described_as(asarray)
def asanyarray(
    a: ArrayLike,
    dtype: DTypeLike = None,
    order: str | None = None,
    *,
    device: DeviceLike = None,
    copy: bool | None = None,
) -> DistributedArray:
    """The same as :func:`asarray`: there are no subclasses.

    Parameters
    ----------
    a : array_like

    Notes
    -----
    Communication: none.
    """
    return asarray(a, dtype, order, device=device, copy=copy)


def ascontiguousarray(a: ArrayLike, dtype: DTypeLike = None) -> DistributedArray:
    """The same as :func:`asarray`, with at least one axis; a view with gaps is copied.

    Parameters
    ----------
    a : array_like
    dtype : dtype, optional
        Default: as NumPy infers it.

    Returns
    -------
    DistributedArray

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.ascontiguousarray(5).shape
    (1,)
    """
    x = asarray(a, dtype, "C")
    return x if x.ndim else x.reshape(1)


@described_as(ascontiguousarray)
def asfortranarray(a: ArrayLike, dtype: DTypeLike = None) -> DistributedArray:
    """The same as :func:`asarray`, and a copy of what NumPy would copy into Fortran order; chunks stay in C order.

    Notes
    -----
    Communication: none.
    """
    x = asarray(a, dtype, "F")
    return x if x.ndim else x.reshape(1)


@described_as(ascontiguousarray)
def asarray_chkfinite(a: ArrayLike, dtype: DTypeLike = None, order: str | None = None) -> DistributedArray:
    """The same as :func:`asarray`, refused where an element is infinite or NaN.

    Parameters
    ----------
    order : str, optional
        Accepted for NumPy's sake: chunks are C-contiguous.

    Raises
    ------
    ValueError
        An element is infinite or NaN.

    Notes
    -----
    Communication: one number from each device.
    """
    x = asarray(a, dtype, order)
    if x.dtype.kind in "fc" and not bool(reductions.all(np.isfinite(x))):
        raise ValueError("array must not contain infs or NaNs")
    return x


_FORTRAN = {"F", "F_CONTIGUOUS", "FORTRAN"}
"""NumPy's names of Fortran order."""


def require(a: ArrayLike, dtype: DTypeLike = None, requirements: str | Sequence[str] | None = None) -> DistributedArray:
    """The same as :func:`asarray`, or a copy where requirements ask for one.

    Parameters
    ----------
    a : array_like
    dtype : dtype, optional
        Default: as NumPy infers it.
    requirements : str or list of str, optional
        Of NumPy's: a copy is made where the array must own its memory or be writable, and does not or is not.

    Returns
    -------
    DistributedArray

    Raises
    ------
    ValueError
        An unknown requirement, or C and Fortran order at once.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.arange(4)
    ...     da.require(x[1:], requirements="O").base is None
    True
    """
    listed: Any = [requirements] if isinstance(requirements, str) else list(requirements or ())
    np.require(0, None, listed)  # NumPy checks them
    wanted = {str(r).upper() for r in listed}
    x = asarray(a, dtype, "C" if wanted & {"C", "C_CONTIGUOUS", "CONTIGUOUS"} else "F" if wanted & _FORTRAN else None)
    owned = bool(wanted & {"O", "OWNDATA"}) and x._view is not None
    written = bool(wanted & {"W", "WRITEABLE"}) and not x._writable
    return x.copy() if owned or written else x
