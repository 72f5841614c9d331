"""Forms: what recorded expressions of one kind share, found by a look-up for each call that is recorded.

A form says what is called, of which dtypes, on chunks of which layouts seen through which views, and which places numbers
take; versions and numbers themselves stand in the recorded calls. A call's form is found in that of its first
operand, so that a loop which records the same calls again and again walks a path of look-ups, and its end knows the kernel
and how it is launched (``fusion/kernels/direct.py``). An expression is taken for a tree here: what it uses twice stands
there twice, up to a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from distarray.devices.arrays import AnyDType
from distarray.geometry import ViewMap

if TYPE_CHECKING:
    from distarray.context import Context
    from distarray.layout import Layout
    from distarray.storage import Version

__all__ = [
    "OPERANDS",
    "Base",
    "Form",
    "FormStep",
    "base_form",
    "grown",
    "kind_of_number",
    "remembered",
    "view_of",
    "whole_form",
]

FORMS = 4096
"""So many a context knows; then it begins anew."""

VIEWS = 4096
"""So many views, likewise."""

OPERANDS = 16
STEPS = 24
"""The form of an expression of more says nothing of its operands and steps."""


class Base(NamedTuple):
    """An operand: storages of a layout and a dtype, seen through a view."""

    layout: Layout
    view: ViewMap | None
    dtype: Any


class FormStep(NamedTuple):
    """A call. `args` are ("leaf" | "step" | "number", position)."""

    ufunc: Any
    args: tuple[tuple[str, int], ...]
    kwargs: dict[str, Any]
    dtype: Any
    masked: bool


class Form:
    """What expressions of one kind share.

    Attributes
    ----------
    bases : tuple of Base
        The operands, in the order in which the calls name them; none of an expression that is too large to be taken for a tree.
    numbers : int
        How many scalars are among the arguments.
    steps : tuple of FormStep
    dtype : dtype
        Of the value.
    inexact : bool
        Whether that is a floating or complex dtype.
    grown : dict
        Forms of the calls that take a value of this form: by ufunc, position and the other arguments.
    recipes : dict
        How it is computed: filled by ``fusion/kernels/direct.py``.
    once : bool
        Whether each call stands there once, the program holds none of them but the last, and reciprocals are told from other
        quotients: see ``fusion/kernels/shared.py``.
    """

    __slots__ = ("bases", "dtype", "grown", "inexact", "numbers", "once", "recipes", "steps")

    def __init__(
        self, bases: tuple[Base, ...], numbers: int, steps: tuple[FormStep, ...], dtype: AnyDType, once: bool = False
    ) -> None:
        self.bases = bases
        self.once = once
        self.numbers = numbers
        self.steps = steps
        self.dtype = dtype
        self.inexact = dtype.kind in "fc"
        self.grown: dict[Any, Form] = {}
        self.recipes: dict[Any, Any] = {}


def base_form(context: Context, layout: Layout, view: ViewMap | None, dtype: AnyDType) -> Form | None:
    """The form of an operand by itself; None where there is none."""
    key = (id(layout), id(view), dtype)
    found: Form | None = context.forms.get(key)
    if found is None:
        if layout.is_partial or not (view is None or id(view) in context.interned):
            return None
        _make_room(context)
        found = context.forms[key] = Form((Base(layout, view, dtype),), 0, (), dtype)  # which holds what the key names
    return found


def whole_form(context: Context, version: Version) -> Form | None:
    """The form of all that a version holds, which keeps it; None where there is none."""
    form: Form | None = version.form
    if form is None or form.bases[0].layout is not version.layout:  # partial values have been resolved since
        form = version.form = base_form(context, version.layout, None, version.dtype)
    return form


def _make_room(context: Context) -> None:
    context.formed += 1
    if context.formed > FORMS:
        context.forms.clear()
        context.formed = 1


def remembered(context: Context, key: Hashable, make: Callable[[], Form]) -> Form:
    """The form of an expression that a key describes, in which base forms stand for operands."""
    found: Form | None = context.forms.get(key)
    if found is None:
        _make_room(context)
        found = context.forms[key] = make()
    return found


def kind_of_number(value: object) -> Any:
    """What a scalar is to promotion: int, float or complex, or its dtype. None for what is no number."""
    kind = type(value)
    if kind is int or kind is float or kind is complex:
        return kind
    if kind is bool:
        return np.dtype(bool)
    return value.dtype if isinstance(value, np.generic) else None


def grown(
    context: Context, ufunc: Callable[..., Any], kinds: list[Any], kwargs: dict[str, Any], dtype: AnyDType, masked: bool
) -> Form | None:
    """The form of a call. `kinds` are its arguments' forms, and the kinds of numbers among them."""
    place = next((i for i, kind in enumerate(kinds) if type(kind) is Form), None)
    if place is None:
        return None
    owner: Form = kinds[place]
    key = (ufunc, place, *kinds[:place], *kinds[place + 1 :])
    if masked or kwargs:
        key = (*key, masked, kwargs.get("dtype"))
    try:
        return owner.grown[key]
    except KeyError:
        _make_room(context)
        found = owner.grown[key] = _joined(ufunc, kinds, kwargs, dtype, masked)
        return found


def _joined(ufunc: Any, kinds: list[Any], kwargs: dict[str, Any], dtype: AnyDType, masked: bool) -> Form:
    """A form of several; of what is too large for one, a form without operands, by which calls are recorded all the same."""
    bases: tuple[Base, ...] = ()
    steps: tuple[FormStep, ...] = ()
    numbers = 0
    args: list[tuple[str, int]] = []
    for kind in kinds:
        if type(kind) is not Form:
            args.append(("number", numbers))
            numbers += 1
            continue
        moved = {"leaf": len(bases), "step": len(steps), "number": numbers}
        for step in kind.steps:
            steps += (step._replace(args=tuple([(what, n + moved[what]) for what, n in step.args])),)
        bases += kind.bases
        numbers += kind.numbers
        args.append(("step", len(steps) - 1) if kind.steps else ("leaf", len(bases) - 1))
        if not kind.bases:
            bases, steps = (), ()
            break
    if len(bases) > OPERANDS or len(steps) >= STEPS or not bases:
        return Form((), 0, (), dtype)
    return Form(bases, numbers, (*steps, FormStep(ufunc, tuple(args), kwargs, dtype, masked)), dtype)


def view_of(context: Context, outer: ViewMap | None, shape: tuple[int, ...], key: Hashable) -> ViewMap:
    """What a key of Python's own integers and slices shows of a view, or of an array of a shape: the same object for the same of
    both.

    Raises
    ------
    IndexError
        As NumPy's.
    """
    place: Any = (shape if outer is None else outer, key)
    try:
        found: ViewMap | None = context.views.get(place)
    except TypeError:  # slices are hashable from Python 3.12 on
        parts = key if type(key) is tuple else (key,)
        bounds = tuple([(p.start, p.stop, p.step, slice) if type(p) is slice else p for p in parts])
        place = (place[0], type(key), bounds)
        found = context.views.get(place)
    if found is None:
        found = (ViewMap.identity(shape) if outer is None else outer).index(key)
        if len(context.views) >= VIEWS:
            context.views.clear()
            context.interned.clear()
            context.forms.clear()
        context.views[place] = found
        context.interned[id(found)] = found
    return found
