"""How overlapping chunks combine, and which operations may run on partial values without folding them first.

The second half is one table of homomorphisms: an operation f may be applied to each partial value, and the fold
postponed, only where f(fold(values)) = fold(f(values)). Intuition is a poor judge of that (wrap-around, identities,
infinities, NaN, -0.0), so no row stands here that ``conformance/test_mode_table.py`` has not proved by brute force.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from distarray.errors import LayoutError, UnsupportedError

__all__ = [
    "CASTS",
    "MAX",
    "MIN",
    "PROD",
    "REPLICA",
    "ROWS",
    "SUM",
    "Cast",
    "Mode",
    "ModeOperand",
    "Row",
    "is_half",
    "preserved",
]


class Mode(enum.StrEnum):
    """How chunks that hold the same element combine into its global value. A mode is equal to its name, a str.

    ``REPLICA``: all copies are equal, and any one is the value. ``MIN``, ``MAX``, ``SUM``, ``PROD``: the copies are
    partial values, and the value is their fold; a device that does not hold the element contributes nothing, and an
    element that no device holds is the identity of the fold, or 0.0 in a SUM of floating-point numbers.

    The order of a fold is not specified. It shows only in the rounding of a SUM or PROD of floating-point numbers,
    and, as in NumPy itself, in the sign of a zero when a MIN or MAX meets zeros of both signs, or in which of several
    NaN a complex MIN or MAX returns.

    Examples
    --------
    >>> from distarray.modes import MAX, Mode
    >>> Mode.of("max") is MAX
    True
    >>> MAX.fold, MAX.idempotent, MAX.identity("int8")
    (<ufunc 'maximum'>, True, np.int8(-128))
    >>> MAX == "max", {"max": "the largest"}[MAX]
    (True, 'the largest')
    """

    REPLICA = "replica"
    MIN = "min"
    MAX = "max"
    SUM = "sum"
    PROD = "prod"

    @classmethod
    def of(cls, obj: Mode | str | None) -> Mode:
        """Return the mode that `obj` names.

        Parameters
        ----------
        obj : Mode, str or None
            A mode, its name in any case, or None for ``REPLICA``.

        Returns
        -------
        Mode

        Raises
        ------
        LayoutError
            `obj` names no mode. A ValueError.

        Examples
        --------
        >>> Mode.of("SUM"), Mode.of(None)
        (SUM, REPLICA)
        """
        if isinstance(obj, Mode):
            return obj
        if obj is None:
            return cls.REPLICA
        found = cls.__members__.get(obj.upper()) if isinstance(obj, str) else None
        if found is None:
            names = ", ".join(repr(mode.value) for mode in cls)
            raise LayoutError(f"{obj!r} is no mode; pass one of {names}, or None for 'replica'.")
        return found

    @property
    def fold(self) -> np.ufunc | None:
        """The NumPy ufunc that combines two partial values; None for ``REPLICA``."""
        return _FOLDS.get(self)

    @property
    def idempotent(self) -> bool:
        """Whether equal copies are already valid partial values, so that relabelling a ``REPLICA`` moves nothing."""
        return self not in _COUNTED

    def identity(self, dtype: np.dtype[Any]) -> np.generic:
        """Return the value that leaves every other unchanged in the fold.

        Bit for bit, for -0.0, infinities, subnormal numbers and NaN (but its payload) too, except in a complex
        ``PROD``: see `exact_identity`.

        Parameters
        ----------
        dtype : dtype_like
            Boolean, integer, real or complex floating-point, or bfloat16.

        Returns
        -------
        numpy.generic
            A scalar of type `dtype`. The SUM of floating-point numbers starts at -0.0, since 0.0 + -0.0 is 0.0.

        Raises
        ------
        LayoutError
            ``REPLICA`` folds nothing. A ValueError.
        UnsupportedError
            Values of `dtype` have no such fold. A TypeError.

        Examples
        --------
        >>> SUM.identity("float32"), PROD.identity("int64"), MIN.identity("complex128")
        (np.float32(-0.0), np.int64(1), np.complex128(inf+infj))
        """
        self._needs_fold("identity")
        return _identity(self, np.dtype(dtype))

    def unheld(self, dtype: np.dtype[Any]) -> np.generic:
        """Return the value of an element that no device holds: the identity, but 0.0 in a SUM of floating-point numbers.

        Parameters
        ----------
        dtype : dtype_like
            As for `identity`, with the same errors.

        Returns
        -------
        numpy.generic
            A scalar of type `dtype`.

        Examples
        --------
        >>> SUM.unheld("float64"), SUM.identity("float64"), MAX.unheld("int8")
        (np.float64(0.0), np.float64(-0.0), np.int8(-128))
        """
        identity = self.identity(dtype)
        return type(identity)(0) if self is Mode.SUM else identity

    def exact_identity(self, dtype: np.dtype[Any]) -> bool:
        """Whether folding `identity` into any value whatever returns that value, bit for bit.

        False only for a complex ``PROD``, which has no exact identity at all: the imaginary part of
        (a + bj) * (inf + 0j) is a * 0 + b * inf, which is NaN for b = 0 and infinite for any other b. There
        (1 + 0j) * x is x for finite x, but for the signs of zeros; fold real contributions only.

        Parameters
        ----------
        dtype : dtype_like
            As for `identity`, with the same errors.

        Returns
        -------
        bool

        Examples
        --------
        >>> PROD.exact_identity("float64"), PROD.exact_identity("complex128")
        (True, False)
        """
        self._needs_fold("exact identity")
        return not (_checked_kind(np.dtype(dtype)) == "c" and self is Mode.PROD)

    def _needs_fold(self, what: str) -> None:
        if self is Mode.REPLICA:
            raise LayoutError(f"REPLICA folds nothing, so it has no {what}; ask a mode that folds, as Mode.of('sum').")

    def __repr__(self) -> str:
        return self.name


REPLICA, MIN, MAX, SUM, PROD = Mode.REPLICA, Mode.MIN, Mode.MAX, Mode.SUM, Mode.PROD

_FOLDS: dict[Mode, np.ufunc] = {MIN: np.minimum, MAX: np.maximum, SUM: np.add, PROD: np.multiply}
_COUNTED = frozenset({SUM, PROD})  # a copy folded twice counts twice


def _kind(dtype: np.dtype[Any]) -> str:
    """Return b, i, u, f, c, m or M, or "" for what cannot be folded. bfloat16 says that its kind is V."""
    if dtype.name == "bfloat16":
        return "f"
    return dtype.kind if dtype.kind in "biufcmM" else ""


def is_half(dtype: np.dtype[Any]) -> bool:
    """Whether `dtype` is float16 or bfloat16."""
    return dtype.itemsize == 2 and _kind(dtype) == "f"


def roomy(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which half precisions are folded: one that their sums and products do not leave. Others stay."""
    if not is_half(dtype):
        return dtype
    return np.dtype(np.float32 if dtype == np.float16 else np.float64)  # bfloat16 reaches as far as float32


@lru_cache(256)
def _checked_kind(dtype: np.dtype[Any]) -> str:
    kind = _kind(dtype)
    if not kind:
        raise UnsupportedError(
            f"dtype {dtype} cannot be folded: modes need boolean, integer, floating-point or complex values; "
            "convert the array first, for example with x.astype('float64')."
        )
    return kind


@lru_cache(maxsize=256)
def _identity(mode: Mode, dtype: np.dtype[Any]) -> np.generic:
    kind = _checked_kind(dtype)
    value: Any
    if kind in "mM":
        return _identity_of_times(mode, dtype)
    if mode is PROD:
        value = 1
    elif mode is SUM:
        value = {"f": -0.0, "c": complex(-0.0, -0.0)}.get(kind, 0)
    elif kind in "iu":
        limits = np.iinfo(dtype)
        value = limits.max if mode is MIN else limits.min
    elif kind == "b":
        value = mode is MIN
    else:
        top = np.inf if mode is MIN else -np.inf
        value = complex(top, top) if kind == "c" else top
    scalar: np.generic = dtype.type(value)
    return scalar


def _identity_of_times(mode: Mode, dtype: np.dtype[Any]) -> np.generic:
    """The identity among times: NaT, the least integer, is none, for as NaN it is what every fold with it returns."""
    if mode is PROD or (mode is SUM and dtype.kind == "M"):
        raise UnsupportedError(
            f"dtype {dtype} has no {mode.name.lower()}; convert the array first, as with x.astype('int64')."
        )
    limits = np.iinfo(np.int64)
    value = {MIN: limits.max, MAX: limits.min + 1, SUM: 0}[mode]
    scalar: np.generic = np.array([value], np.int64).view(dtype.newbyteorder("="))[0]
    return scalar


class ModeOperand(NamedTuple):
    """An operand of an operation, as the table sees it.

    An array is ``ModeOperand(mode, dtype)``. A scalar is ``ModeOperand(None, scalar=value)``: a Python number, a NumPy scalar
    or a 0-d NumPy array, since these promote differently.
    """

    mode: Mode | None
    dtype: np.dtype[Any] | None = None
    scalar: Any = None


class Row(NamedTuple):
    """Operations that keep partial values partial.

    Attributes
    ----------
    names : tuple of str
        Names of ufuncs.
    takes : tuple of str
        Operands, in order: x for an array, s for a scalar.
    modes : tuple of (Mode, Mode)
        Mode of every array operand, mode of the result.
    kinds : str
        Kinds of the dtype that all array operands share and that the computation has.
    scalar : str
        What every scalar must be, once converted to that dtype: a key of ``_SCALARS``.
    cover : bool
        Whether each element needs a holder: an element without one is the identity, and f(identity) is not.
    differs : str
        What may differ from folding first, "" if nothing: "rounding" (and overflow of a partial sum), or
        "sign of zero", where a MIN or MAX meets zeros of both signs.
    wide : bool
        Whether half precisions are folded first: their partial values overflow easily, where the whole does not.
    """

    names: tuple[str, ...]
    takes: tuple[str, ...]
    modes: tuple[tuple[Mode, Mode], ...]
    kinds: str
    scalar: str = "any"
    cover: bool = False
    differs: str = ""
    wide: bool = False

    def allows(self, dtype: np.dtype[Any]) -> bool:
        """Whether the row speaks of operands of `dtype`."""
        return _kind(dtype) in self.kinds and not (self.wide and is_half(dtype))


class Cast(NamedTuple):
    """Conversions that keep partial values partial: from `source` kinds to `target` kinds where `sizes` holds.

    `sizes` is a key of ``_SIZES``; `cover` and `differs` are those of `Row`.
    """

    modes: tuple[Mode, ...]
    source: str
    target: str
    sizes: str
    cover: bool = False
    differs: str = ""


_KEEP = ((MIN, MIN), (MAX, MAX))
_FLIP = ((MIN, MAX), (MAX, MIN))
_SAME = (*_KEEP, (SUM, SUM), (PROD, PROD))
_SUM, _PROD = ((SUM, SUM),), ((PROD, PROD),)
_ANY_ORDER = ("xs", "sx")

ROWS: tuple[Row, ...] = (
    # f(x) = x
    Row(("positive",), ("x",), _SAME, "iufc"),
    Row(("conjugate",), ("x",), _SAME, "iuf"),
    # integers are a ring, wrap-around included: what distributes over + and * there is exact
    Row(("add", "subtract"), ("xx",), _SUM, "iu"),
    Row(("negative",), ("x",), _SUM, "iu"),
    Row(("multiply",), _ANY_ORDER, _SUM, "iu"),
    Row(("left_shift",), ("xs",), _SUM, "iu", scalar=">= 0"),
    Row(("multiply",), ("xx",), _PROD, "iu"),
    Row(("square",), ("x",), _PROD, "iu"),
    Row(("power",), ("xs",), _PROD, "iu", scalar=">= 0"),
    # floats: the difference of two SUMs is absent, as its identity is +0.0; so is every scale but 1, which overflow,
    # underflow or -0.0 break
    Row(("add",), ("xx",), _SUM, "fc", differs="rounding", wide=True),
    Row(("absolute",), ("x",), _PROD, "f"),
    # lattice operations
    Row(("maximum",), ("xx",), ((MAX, MAX),), "biuf", differs="sign of zero"),
    Row(("minimum",), ("xx",), ((MIN, MIN),), "biuf", differs="sign of zero"),
    Row(("maximum", "minimum"), _ANY_ORDER, _KEEP, "biuf", cover=True, differs="sign of zero"),
    Row(("clip",), ("xss",), _KEEP, "iuf", cover=True, differs="sign of zero"),
    Row(("logical_or", "bitwise_or"), ("xx",), ((MAX, MAX),), "b"),
    Row(("logical_and", "bitwise_and"), ("xx",), ((MIN, MIN),), "b"),
    Row(("logical_or", "logical_and", "bitwise_or", "bitwise_and"), _ANY_ORDER, _KEEP, "b", cover=True),
    # order-reversing bijections; -x is none on integers, whose least value is its own negative
    Row(("invert",), ("x",), _FLIP, "biu"),
    Row(("logical_not",), ("x",), _FLIP, "b"),
    Row(("negative",), ("x",), _FLIP, "f"),
    # monotone, infinities fixed, and no two signs of zero from values of one: floor, ceil, trunc, rint and scales that
    # underflow are absent for that
    Row(("add",), _ANY_ORDER, _KEEP, "f", scalar="finite"),
    Row(("subtract",), ("xs",), _KEEP, "f", scalar="finite"),
    Row(("subtract",), ("sx",), _FLIP, "f", scalar="finite"),
    Row(("multiply",), _ANY_ORDER, _KEEP, "f", scalar=">= 1, finite"),
    Row(("multiply",), _ANY_ORDER, _FLIP, "f", scalar="<= -1, finite"),
    Row(("divide",), ("xs",), _KEEP, "f", scalar="> 0, <= 1"),
    Row(("divide",), ("xs",), _FLIP, "f", scalar="< 0, >= -1"),
    Row(("sqrt",), ("x",), ((MIN, MIN),), "f"),
    # monotone on integers
    Row(("floor_divide",), ("xs",), _KEEP, "iu", scalar="> 0", cover=True),
    Row(("right_shift",), ("xs",), _KEEP, "iu", scalar=">= 0", cover=True),
    Row(("sign",), ("x",), _KEEP, "iuf", cover=True),
    # any and all; a NaN hides what a "some value is" asks, and agrees with "every value is"
    Row(("isnan",), ("x",), ((MIN, MAX), (MAX, MAX)), "fc"),
    Row(("less", "less_equal"), ("xs",), ((MAX, MIN), (MIN, MAX)), "biu", cover=True),
    Row(("greater", "greater_equal"), ("xs",), ((MAX, MAX), (MIN, MIN)), "biu", cover=True),
    Row(("greater", "greater_equal"), ("sx",), ((MAX, MIN), (MIN, MAX)), "biu", cover=True),
    Row(("less", "less_equal"), ("sx",), ((MAX, MAX), (MIN, MIN)), "biu", cover=True),
    Row(("less", "less_equal"), ("xs",), ((MAX, MIN),), "f", cover=True),
    Row(("greater", "greater_equal"), ("xs",), ((MIN, MIN),), "f", cover=True),
    Row(("greater", "greater_equal"), ("sx",), ((MAX, MIN),), "f", cover=True),
    Row(("less", "less_equal"), ("sx",), ((MIN, MIN),), "f", cover=True),
)

CASTS: tuple[Cast, ...] = (
    Cast((MIN, MAX, SUM, PROD), "biufc", "biufc", "same"),
    Cast((SUM, PROD), "iu", "iu", "not wider"),
    # of 0.0 and -0.0, NumPy's maximum returns the first as float16 and the second as float32
    Cast((MIN, MAX), "f", "f", "holds all", differs="sign of zero"),
    Cast((MIN, MAX), "biu", "iu", "holds all", cover=True),
    Cast((MIN, MAX), "biu", "f", "any", cover=True),
)

_SCALARS: dict[str, Callable[[Any], bool]] = {
    "any": lambda s: True,
    "finite": lambda s: bool(-np.inf < s < np.inf),
    ">= 0": lambda s: bool(s >= 0),
    "> 0": lambda s: bool(s > 0),
    ">= 1, finite": lambda s: bool(1 <= s < np.inf),
    "<= -1, finite": lambda s: bool(-np.inf < s <= -1),
    "> 0, <= 1": lambda s: bool(0 < s <= 1),
    "< 0, >= -1": lambda s: bool(-1 <= s < 0),
}

_SIZES: dict[str, Callable[[np.dtype[Any], np.dtype[Any]], bool]] = {
    "any": lambda source, target: True,
    "same": lambda source, target: source == target,
    "not wider": lambda source, target: target.itemsize <= source.itemsize,
    "holds all": lambda source, target: np.can_cast(source, target, "safe"),
}

_INDEX: dict[tuple[str, str, Mode], list[tuple[Row, Mode]]] = {}
for _row in ROWS:
    for _name in _row.names:
        for _takes in _row.takes:
            for _mode, _result in _row.modes:
                _INDEX.setdefault((_name, _takes, _mode), []).append((_row, _result))


@lru_cache(maxsize=4096)
def _candidates(name: str, takes: str, mode: Mode, dtype: np.dtype[Any], covered: bool) -> tuple[tuple[str, Mode], ...]:
    """Return (what scalars must be, mode of the result) for all rows that may apply."""
    if not _kind(dtype):
        return ()
    if name.startswith("astype:"):
        return _cast_candidates(name.removeprefix("astype:"), takes, mode, dtype, covered)
    rows = _INDEX.get((name, takes, mode), ())
    return tuple((row.scalar, result) for row, result in rows if row.allows(dtype) and (covered or not row.cover))


def _cast_candidates(
    to: str, takes: str, mode: Mode, dtype: np.dtype[Any], covered: bool
) -> tuple[tuple[str, Mode], ...]:
    try:
        target = np.dtype(to)
    except TypeError:  # NumPy finds bfloat16 by name only where ml_dtypes is imported: decline
        return ()
    kinds = _kind(dtype), _kind(target)
    if takes != "x" or not all(kinds):
        return ()
    for cast in CASTS:
        fits = mode in cast.modes and kinds[0] in cast.source and kinds[1] in cast.target
        if fits and (covered or not cast.cover) and _SIZES[cast.sizes](dtype, target):
            return (("any", mode),)
    return ()


def _converted(scalar: object, dtype: np.dtype[Any]) -> Any:
    """Return `scalar` as `dtype`, in which NumPy will compute, or None where it computes in another, or fails."""
    if not isinstance(scalar, bool | int | float | complex | np.generic | np.ndarray) or np.ndim(scalar):
        return None
    try:
        if np.result_type(dtype, scalar) != dtype:
            return None
        with np.errstate(all="ignore"):
            value = dtype.type(scalar)
            return float(value) if dtype.name == "bfloat16" else value  # comparing a bfloat16 NaN warns
    except (TypeError, ValueError, OverflowError):
        return None


def preserved(ufunc_name: str, operands: Sequence[ModeOperand], *, covered: bool = False) -> Mode | None:
    """Return the mode of an operation's result when it is applied to partial values chunk by chunk.

    All array operands are partial and have one index map. The operation runs with NumPy's own promotion: no
    ``where=``, ``dtype=``, ``casting=``, and an ``out=`` of the dtype it has anyway. Where this returns a mode, folding
    the results in that mode gives what folding the operands first would have given, bit for bit, but for what
    `Row.differs` allows. Warnings are not part of that: a partial value may overflow where the whole does not, so
    fold first where ``np.errstate`` raises.

    Parameters
    ----------
    ufunc_name : str
        ``ufunc.__name__``, or ``"astype:<dtype name>"`` for a conversion.
    operands : sequence of ModeOperand
        In the order in which the ufunc takes them.
    covered : bool, optional
        Whether the index map covers the shape. Elements without a holder are identities, which fewer operations
        respect.

    Returns
    -------
    Mode or None
        None: fold first. So it is for REPLICA operands, which need no table, and for operands of different modes or
        dtypes.

    Examples
    --------
    >>> import numpy as np
    >>> total, peak = ModeOperand(SUM, np.dtype("int64")), ModeOperand(MAX, np.dtype("float64"))
    >>> preserved("add", [total, total]), preserved("multiply", [total, ModeOperand(None, scalar=3)])
    (SUM, SUM)
    >>> preserved("negative", [peak]), preserved("sqrt", [peak])
    (MIN, None)
    >>> peak_of_integers = ModeOperand(MAX, np.dtype("int64"))
    >>> preserved("negative", [peak_of_integers]) is None  # -(-2**63) is -2**63
    True
    """
    mode = dtype = None
    takes = ""
    for operand in operands:
        if operand.mode is None:
            takes += "s"
        elif takes.count("x") == 0:
            mode, dtype = operand.mode, operand.dtype
            takes += "x"
        elif operand.mode is mode and operand.dtype == dtype:
            takes += "x"
        else:
            return None
    if mode is None or dtype is None:
        return None
    candidates = _candidates(ufunc_name, takes, mode, dtype, covered)
    if not candidates or "s" not in takes:
        return candidates[0][1] if candidates else None
    # scalars stay out of the cache's key, where 0.0 and -0.0, or 1 and 1.0 and True, are one
    scalars = [_converted(operand.scalar, dtype) for operand in operands if operand.mode is None]
    if any(scalar is None for scalar in scalars):
        return None
    return next((result for need, result in candidates if all(map(_SCALARS[need], scalars))), None)
