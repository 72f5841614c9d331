"""Sums of products by labels: ``einsum``, ``einsum_path`` and ``multi_dot``.

An expression is contracted two operands at a time, in the order that opt_einsum finds cheapest, and each pair is one
contraction of ``algorithms``, cut over the devices as the labels lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from distarray.algorithms.contraction import Problem
from distarray.algorithms.product import contract, operands, view
from distarray.array.aliases import ArrayLike, DTypeLike, Out
from distarray.array.functions import implements
from distarray.array.place import as_array
from distarray.array.shapes import memory_order
from distarray.array.state import DistributedArray
from distarray.array.writing import check_out, overwrite
from distarray.context import Context
from distarray.devices.arrays import AnyDType
from distarray.linalg.dots import dot
from distarray.linalg.matrices import Linear
from distarray.ops.diagonals import diagonal

__all__ = ["einsum", "einsum_path", "multi_dot"]


class _Term(NamedTuple):
    """An operand and the label of each of its axes."""

    array: Any
    labels: str


@implements(np.einsum)
def einsum(
    *args: Any,
    out: Out = None,
    dtype: DTypeLike = None,
    order: str = "K",
    casting: str = "safe",
    optimize: bool | str | Sequence[Any] = False,
) -> Any:
    """Einstein's summation, as ``numpy.einsum``.

    Parameters
    ----------
    *args
        Subscripts such as ``"ij,jk->ik"`` and then the operands, one at least a DistributedArray; or operands and lists of
        integer labels in turn.
    out : DistributedArray or ndarray, optional
    dtype : dtype, optional
        Of the computation. Default: that of the operands together.
    order : str
        Accepted for NumPy's sake.
    casting : str
        What casts the dtype may need.
    optimize : bool, str, sequence
        The order of contraction: "greedy", "optimal", another strategy of opt_einsum, or a path of
        :func:`einsum_path`. False and True leave the choice to opt_einsum.

    Returns
    -------
    DistributedArray
        Never a view. In SUM mode where the last sum runs over a split axis.

    Raises
    ------
    ValueError
        Subscripts and shapes do not fit.
    TypeError
        The dtype needs a cast that `casting` forbids.

    Notes
    -----
    Communication: for each pair that of :func:`matmul`. Labels are never brought together by a reshape.

    References
    ----------
    D. G. A. Smith and J. Gray, "opt_einsum", Journal of Open Source Software 3(26), 2018.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.asarray(np.arange(6).reshape(2, 3), layout=da.blocks(0))
    ...     np.einsum("ij,kj->ik", x, x).get().tolist()
    [[5, 14], [14, 50]]
    """
    inputs, output, arrays = _parsed(args)
    if not optimize and _has_no_ellipsis(args):  # NumPy adds up what the ellipsis stands for where it optimizes
        raise ValueError(
            "output has more dimensions than subscripts given in einstein sum, but no '...' ellipsis provided to broadcast "
            "the extra dimensions."
        )
    memory_order(order)
    if out is not None:
        check_out(out)
    context, found = operands(*arrays, out=out)
    dtypes = [a.dtype for a in found] + ([] if out is None or optimize else [out.dtype])
    target = np.result_type(*dtypes) if dtype is None else np.dtype(dtype)
    if len(found) == 1 and out is None and set(inputs[0]) == set(output):
        target = found[0].dtype  # NumPy returns a view here, whatever the dtype asked for
    for array in found:
        if not np.can_cast(array.dtype, target, casting):  # type: ignore[arg-type]
            raise TypeError(
                f"Iterator operand could not be cast from {array.dtype!r} to {target!r} according to the rule {casting!r}: "
                f"pass casting='unsafe', or another dtype"
            )
    if out is not None and out.ndim != len(output):
        raise ValueError(
            f"out parameter does not have the correct number of dimensions, has {out.ndim} but should have {len(output)}"
        )
    if out is not None and not np.can_cast(target, out.dtype, _into_out(inputs, output, casting, optimize)):  # type: ignore[arg-type]
        raise TypeError(
            f"Iterator requested dtype could not be cast from {target!r} to {out.dtype!r}, that of out=, according to the "
            f"rule {casting!r}: pass casting='unsafe', or another out="
        )
    terms = _terms(found, inputs, target)
    sizes = {label: n for term in terms for label, n in zip(term.labels, term.array.shape)}
    missing = sorted(set(output) - set(sizes))
    if missing:
        raise ValueError(
            f"einstein sum subscripts string included output subscript {missing[0]!r} which never appeared"
        )
    for chosen in _path(terms, output, sizes, optimize):
        picked = [terms[i] for i in chosen]
        terms = [term for i, term in enumerate(terms) if i not in chosen]
        term = picked[0]
        for i, other in enumerate(picked[1:], 2):
            later = {*output, *"".join(t.labels for t in [*terms, *picked[i:]])}
            term = _contracted(context, term, other, later, sizes, target)
        terms.append(_summed(term, {*output, *"".join(t.labels for t in terms)}))
    (term,) = terms
    value = term.array
    if term.labels != output:
        value = view(value, transpose=[term.labels.index(label) for label in output])
    if len(found) == 1:
        value = np.copy(value)
    value._detached = not output
    return value if out is None else overwrite(out, value)


def _parsed(args: Sequence[Any]) -> tuple[list[str], str, list[Any]]:
    """The labels of the operands and of the result, and the operands."""
    from opt_einsum.parser import parse_einsum_input

    if len(args) < 2:
        raise ValueError("must provide at least an operand and a subscripts list to einsum")
    if isinstance(args[0], str):
        wrong = [c for c in args[0] if not (c.isalpha() or c in " .,->")]
        if wrong:
            raise ValueError(
                f"invalid subscript {wrong[0]!r} in einstein sum subscripts string, subscripts must be letters"
            )
    else:
        for numbers in [a for i, a in enumerate(args) if not _is_operand(args, i)]:
            _check_numbers(numbers)
    given = [a if isinstance(a, (str, DistributedArray)) or not _is_operand(args, i) else _array(a)
             for i, a in enumerate(args)]  # fmt: skip
    inputs, output, arrays = parse_einsum_input(given)
    labels = inputs.split(",")
    if len(labels) != len(arrays):
        raise ValueError(
            f"more operands provided to einstein sum function than specified in the subscripts string, or fewer: "
            f"{len(arrays)} operands for {inputs!r}"
        )
    return labels, output, list(arrays)


def _into_out(inputs: Sequence[str], output: str, casting: str, optimize: bool | str | Sequence[Any]) -> str:
    """The casts that NumPy allows into ``out=``: of several operands it first makes the product where it optimizes.

    One of matrices is assigned, whatever `casting` says; one of elements follows the default of ufuncs.
    """
    if not optimize or len(inputs) == 1:
        return casting
    if set("".join(inputs)) - set(output):
        return "unsafe"
    return "same_kind" if casting == "safe" else casting


def _has_no_ellipsis(args: Sequence[Any]) -> bool:
    """Whether an output is named without the axes that an ellipsis stands for among the operands."""
    mark: Any = "." if isinstance(args[0], str) else Ellipsis
    if isinstance(args[0], str):
        inputs, arrow, output = args[0].replace(" ", "").replace("...", ".").partition("->")
        given, is_named = list(zip(args[1:], inputs.split(","))), bool(arrow)
    else:
        given, is_named, output = list(zip(args[::2], args[1::2])), len(args) % 2 == 1, args[-1]
    return (
        is_named
        and mark not in output
        and any(mark in labels and len(np.shape(array)) >= len(labels) for array, labels in given)
    )


def _check_numbers(numbers: Sequence[Any]) -> None:
    """Refuse what are no labels; NumPy has as many as letters."""
    for number in numbers:
        if number is not Ellipsis and not hasattr(number, "__index__"):
            raise TypeError(f"each subscript must be either an integer or an ellipsis, got {number!r}")
        if number is not Ellipsis and not 0 <= number < 52:
            raise ValueError(f"subscript is not within the valid range [0, 52), got {number}")


def _is_operand(args: Sequence[Any], i: int) -> bool:
    return isinstance(args[0], str) or (i % 2 == 0 and i < len(args) - len(args) % 2)


def _array(a: ArrayLike) -> Any:
    return a if hasattr(a, "shape") and hasattr(a, "dtype") else np.asarray(a)


def _terms(found: Sequence[Any], inputs: Sequence[str], dtype: AnyDType) -> list[_Term]:
    """The operands with labels that differ within each, and of one length everywhere."""
    sizes: dict[str, int] = {}
    for array, labels in zip(found, inputs):
        if len(labels) != len(array.shape):
            raise ValueError(
                f"einstein sum subscripts string contains {len(labels)} subscripts {labels!r} for an operand of "
                f"{len(array.shape)} axes: name each axis"
            )
        own = dict(zip(labels, array.shape))
        for label, n in zip(labels, array.shape):
            if own[label] != n:
                raise ValueError(
                    f"dimensions in single operand for collapsing index {label!r} don't match ({n} != {own[label]})"
                )
            known = sizes.setdefault(label, n)
            if known != n and 1 not in (known, n):
                raise ValueError(
                    f"operands could not be broadcast together with remapped shapes: label {label!r} has lengths {known} "
                    f"and {n}; give its axes one length"
                )
            sizes[label] = n if known == 1 else known
    terms = []
    for array, labels in zip(found, inputs):
        dropped = [array.shape[i] == 1 and sizes[label] != 1 for i, label in enumerate(labels)]
        if any(dropped):
            array = view(array, index=(*[0 if gone else slice(None) for gone in dropped], ...))
            labels = "".join(label for label, gone in zip(labels, dropped) if not gone)
        for label in dict.fromkeys(labels):
            while labels.count(label) > 1:
                first = labels.index(label)
                second = labels.index(label, first + 1)
                array = diagonal(array, 0, first, second) if isinstance(array, DistributedArray) else np.diagonal(
                    array, 0, first, second)  # fmt: skip
                labels = labels[:first] + labels[first + 1 : second] + labels[second + 1 :] + label
        terms.append(_Term(array if array.dtype == dtype else array.astype(dtype), labels))
    return terms


def _path(
    terms: Sequence[_Term], output: str, sizes: dict[str, int], optimize: bool | str | Sequence[Any]
) -> list[tuple[int, ...]]:
    """Which terms are contracted, step by step; a step's result goes to the end."""
    from opt_einsum import contract_path

    if len(terms) == 1:
        return [(0,)]
    strategy: Any = optimize
    if optimize is True or optimize is False or optimize is None:
        strategy = "auto"
    elif not isinstance(optimize, str) and len(optimize):
        if optimize[0] == "einsum_path":
            strategy = [tuple(step) for step in optimize[1:]]
            _check_path(strategy, len(terms))
        elif isinstance(optimize[0], str):
            strategy = optimize[0]
    text = ",".join(term.labels for term in terms)
    shapes = [tuple(sizes[label] for label in term.labels) for term in terms]
    path, _ = contract_path(f"{text}->{output}", *shapes, shapes=True, optimize=strategy)
    return [tuple(step) for step in path]


def _check_path(path: Sequence[tuple[int, ...]], left: int) -> None:
    for step in path:
        if max(step, default=-1) >= left:
            raise IndexError(f"pop index out of range: the step {step} of the path, of {left} operands")
        left -= len(step) - 1
    if left != 1:
        raise RuntimeError(f"Invalid einsum_path is specified: {left - 1} more operands has to be contracted.")


def _summed(term: _Term, later: set[str]) -> _Term:
    """The term without the labels that nothing needs any more."""
    axes = tuple(i for i, label in enumerate(term.labels) if label not in later)
    if not axes:
        return term
    total = np.sum(term.array, axis=axes, dtype=term.array.dtype)
    return _Term(
        total if isinstance(total, DistributedArray) else np.asarray(total),
        "".join(label for label in term.labels if label in later),
    )


def _contracted(
    context: Context, first: _Term, second: _Term, later: set[str], sizes: dict[str, int], dtype: AnyDType
) -> _Term:
    """The sum of products of two terms over the labels that nothing needs later."""
    a, b = _summed(first, later | {*second.labels}), _summed(second, later | {*first.labels})
    both = [label for label in a.labels if label in b.labels]
    batch = [label for label in both if label in later]
    m = [label for label in a.labels if label not in both]
    k = [label for label in both if label not in later]
    n = [label for label in b.labels if label not in both]
    number = {label: i for i, label in enumerate([*batch, *m, *k, *n])}
    problem = Problem(
        tuple(sizes[label] for label in number),
        (len(batch), len(m), len(k), len(n)),
        tuple(number[label] for label in a.labels),
        tuple(number[label] for label in b.labels),
    )
    left, right = a.array, b.array
    if not isinstance(left, DistributedArray) and not isinstance(right, DistributedArray):
        left = as_array(context, left)
    return _Term(contract(context, "einsum", problem, left, right, dtype), "".join([*batch, *m, *n]))


@implements(np.einsum_path)
def einsum_path(*args: Any, optimize: bool | str | Sequence[Any] = "greedy", einsum_call: bool = False) -> Any:
    """The order in which :func:`einsum` would contract, as ``numpy.einsum_path``: from shapes alone.

    Parameters
    ----------
    *args : object
        As for :func:`einsum`.
    optimize : bool, str, sequence
        The strategy, as for ``numpy.einsum_path``.
    einsum_call : bool
        Return the steps for ``numpy.einsum`` instead, as NumPy does.

    Returns
    -------
    path : list
        "einsum_path", and the operands of each step.
    text : str
        A description.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.ones((4, 4))
    ...     np.einsum_path("ij,jk,kl->il", x, x, x)[0]
    ['einsum_path', (0, 1), (0, 1)]
    """
    zero = np.zeros(())
    shapes: Any = [np.broadcast_to(zero, a.shape) if isinstance(a, DistributedArray) else a for a in args]
    find: Any = np.einsum_path
    return find(*shapes, optimize=optimize, einsum_call=einsum_call)


@implements(np.linalg.multi_dot)
def multi_dot(arrays: Sequence[Any], *, out: Out = None) -> Any:
    """Product of two or more matrices in the cheapest order, as ``numpy.linalg.multi_dot``.

    Parameters
    ----------
    arrays : sequence of array_like
        Of two axes; the first may be a row and the last a column, of one.
    out : DistributedArray or ndarray, optional

    Returns
    -------
    DistributedArray

    Raises
    ------
    ValueError
        Fewer than two arrays, or shapes that are not aligned.
    LinAlgError
        An array has another number of axes.

    Notes
    -----
    Communication: that of the products (:func:`matmul`), in an order chosen by their multiplications.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.ones((3, 3))
    ...     np.linalg.multi_dot([x, x, np.ones(3)]).get().tolist()
    [9.0, 9.0, 9.0]
    """
    if len(arrays) < 2:
        raise ValueError(f"Expecting at least two arrays, and got {len(arrays)}.")
    if len(arrays) == 2:
        return dot(arrays[0], arrays[1], out=out)
    from opt_einsum import get_symbol

    given = [_array(a) for a in arrays]
    labels = []
    for i, array in enumerate(given):
        own = [get_symbol(i), get_symbol(i + 1)]
        ndim = len(array.shape)
        if ndim == 1 and i in (0, len(given) - 1):
            own = own[1:] if i == 0 else own[:1]
        elif ndim != 2:
            raise Linear(f"{ndim}-dimensional array given. Array must be two-dimensional")
        labels.append("".join(own))
    for i in range(len(given) - 1):
        if given[i].shape[-1] != given[i + 1].shape[0]:
            raise ValueError(
                f"shapes {given[i].shape} and {given[i + 1].shape} not aligned: {given[i].shape[-1]} != "
                f"{given[i + 1].shape[0]}"
            )
    dtype = np.result_type(*[a.dtype for a in given])
    if out is not None and out.dtype != dtype:
        raise ValueError(f"output array is not acceptable: it has dtype {out.dtype}, and the product {dtype}")
    ends = (labels[0][:-1] if len(labels[0]) > 1 else "", labels[-1][-1] if len(labels[-1]) > 1 else "")
    return einsum(f"{','.join(labels)}->{''.join(ends)}", *given, out=out, casting="unsafe", optimize="dp")
