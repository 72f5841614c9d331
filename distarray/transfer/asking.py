"""Who asks for a whole array on the host: a line of the user's, or code of NumPy or another library behind their back.

NumPy turns any array into its own by ``__array__``, from ``np.asarray(x)`` as from ``np.r_[x, x]``. The calling frame tells
them apart: a library's frame never asks for the user, and in the user's own frame the bytecode says which function is
called. Frames are looked at only where implicit communication is forbidden, and for ``as_strided``.
"""

from __future__ import annotations

import dis
import os
from math import prod
from types import CodeType, FrameType

from distarray.errors import ImplicitCommunicationError, UnsupportedError
from distarray.transfer.ledger import watching

__all__ = ["called_name", "ensure_asked", "ensure_not_fetched", "refuse_host_target", "refuse_strides"]

_ASKING = {
    "__array__", "__dlpack__", "__reduce__", "__reduce_ex__", "array", "asanyarray", "asarray", "dump", "dumps", "from_dlpack",
    "to_numpy",
}  # fmt: skip
"""Functions and methods that say by their name that an array comes to the host, ``pickle.dumps`` among them."""

_FETCHING = {"array", "fromiter", "fsum"}
"""Functions that iterate over an array, and turn each element into a number."""

_LIBRARIES = {"concurrent", "matplotlib", "multiprocessing", "numpy", "pandas", "scipy", "torch"}


_CALLS = ("CALL", "PRECALL")
"""Python 3.11 makes a call in either, once it knows what is called."""


def _is_forbidden() -> bool:
    watch = watching.get()
    return watch is not None and watch.forbidden


def ensure_asked(frame: FrameType, nbytes: int) -> None:
    """Refuse to bring an array to the host inside ``no_implicit_communication()``, unless the user's own line asked.

    Parameters
    ----------
    frame
        Of what called for the host's array.
    nbytes
        Of the array.

    Raises
    ------
    ImplicitCommunicationError
        Before anything moves.
    """
    if not _is_forbidden():
        return
    module = str(frame.f_globals.get("__name__", ""))
    root = module.partition(".")[0]
    if root == "distarray":
        return
    if root in _LIBRARIES or _is_installed(frame.f_code):
        who = f"{module}.{frame.f_code.co_name}"
    else:
        name = called_name(frame)
        if name in _ASKING:
            return
        who = "an operation" if name is None else f"{name}()"
    raise ImplicitCommunicationError(
        f"{who} asks for all {nbytes} bytes of a distributed array on the host, inside no_implicit_communication(). Pass it "
        f"x.get() if that is meant, or run it outside the block."
    )


def ensure_not_fetched(frame: FrameType, nbytes: int) -> None:
    """Refuse an iteration that would bring every element to the host, as ``numpy.fromiter(x, float)`` does, inside
    ``no_implicit_communication()``.

    Parameters
    ----------
    frame
        Of what iterates.
    nbytes
        Of the array.

    Raises
    ------
    ImplicitCommunicationError
        Before anything moves.
    """
    if not _is_forbidden():
        return
    name = called_name(frame)
    if name in _FETCHING:
        raise ImplicitCommunicationError(
            f"{name}() would bring all {nbytes} bytes of a distributed array to the host one by one, inside "
            f"no_implicit_communication(). Pass it x.get() if that is meant, or run it outside the block."
        )


def refuse_host_target(nbytes: int) -> None:
    """Refuse to write to a NumPy array, as ``h += x`` and ``out=h`` do, inside ``no_implicit_communication()``:
    what a distributed array gives goes to the host unasked.

    Parameters
    ----------
    nbytes
        Of the NumPy array.

    Raises
    ------
    ImplicitCommunicationError
        Before anything moves.
    """
    if _is_forbidden():
        raise ImplicitCommunicationError(
            f"a value of {nbytes} bytes would be written to a NumPy array from a distributed one, inside "
            f"no_implicit_communication(). Write to a distributed array, pass x.get() if that is meant, or run it outside the "
            f"block."
        )


def refuse_strides(frame: FrameType, shape: tuple[int, ...], itemsize: int) -> None:
    """Refuse ``numpy.lib.stride_tricks.as_strided`` where it would leave a view's own elements: what lies beside them in NumPy's
    memory is not beside the host's copy of them.

    Parameters
    ----------
    frame
        Of what called for the host's array.
    shape, itemsize
        Of the array, which is copied in C order.

    Raises
    ------
    UnsupportedError
        Before anything moves.
    """
    if frame.f_code.co_name != "as_strided" or frame.f_globals.get("__name__", "").partition(".")[0] != "numpy":
        return
    lengths, strides = frame.f_locals.get("shape"), frame.f_locals.get("strides")
    lengths = shape if lengths is None else tuple(lengths)
    if strides is None or 0 in lengths:
        return
    steps = [(n - 1) * step for n, step in zip(lengths, strides, strict=False)]
    low, high = sum(min(step, 0) for step in steps), sum(max(step, 0) for step in steps)
    if low < 0 or high + itemsize > prod(shape) * itemsize:
        raise UnsupportedError(
            f"as_strided with shape {lengths} and strides {tuple(strides)} reaches beyond the elements of an array of shape "
            f"{shape}, which are copied to the host alone: pass as_strided, or the function that calls it, x.get()"
        )


def called_name(frame: FrameType) -> str | None:
    """The name of the function that a frame is calling, "asarray" for ``np.asarray(x)`` whatever it was imported as; None
    where the frame calls none, but stores or computes.

    The instructions that load the function begin where the call begins in the source, and end before it does.
    """
    code, at = frame.f_code, frame.f_lasti
    known = _LOADED.get((id(code), at))
    if known is None or known[0] is not code:
        if len(_LOADED) >= _MOST:
            _LOADED.clear()
        known = _LOADED[id(code), at] = code, _loaded(code, at)
    loaded = known[1]
    if loaded is None:
        return None
    name = str(loaded.argval)
    if "ATTR" in loaded.opname or "METHOD" in loaded.opname:
        return name
    found = frame.f_locals.get(name, frame.f_globals.get(name))
    return str(getattr(found, "__name__", name))


_MOST = 1024
_LOADED: dict[tuple[int, int], tuple[CodeType, dis.Instruction | None]] = {}
"""What `_loaded` found, by the code's identity and the instruction: loops ask at one place again and again."""


def _loaded(code: CodeType, at: int) -> dis.Instruction | None:
    """The instruction that loads the function which is being called at an instruction; None where none is called."""
    places = list(code.co_positions())
    if at // 2 >= len(places):
        return None
    call = places[at // 2]
    loaded = None
    calls = False
    for instruction in dis.get_instructions(code):
        if instruction.offset > at:
            break
        calls = instruction.opname.startswith(_CALLS)  # of the last one: `at` may lie in the cache that follows it
        place = instruction.positions
        if place is None or not instruction.opname.startswith("LOAD_") or not isinstance(instruction.argval, str):
            continue
        begins = (place.lineno, place.col_offset) == (call[0], call[2])
        if begins and (place.end_lineno, place.end_col_offset) != (call[1], call[3]):
            loaded = instruction
    return loaded if calls else None


def _is_installed(code: CodeType) -> bool:
    """Whether code lies where packages are installed, and so is no line of the user's."""
    parts = code.co_filename.split(os.sep)
    return "site-packages" in parts or "dist-packages" in parts
