"""Python functions of scalars applied to arrays, chunk by chunk: what ``numpy.frompyfunc`` makes, and ``vectorize``."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from distarray.algorithms.local import arrays_in, everywhere, mapped, replaced, whole_along
from distarray.algorithms.loops import CoreSignature, loop_over
from distarray.algorithms.reduction import normalized, small
from distarray.array.agreement import gathered
from distarray.array.aliases import ArrayLike, Axis
from distarray.array.dtypes import dtype_name, dtype_named
from distarray.array.functions import NOTHING
from distarray.array.place import is_cupy
from distarray.array.shapes import PYTHON_SCALARS, broadcast_shape
from distarray.array.state import DistributedArray, same_context
from distarray.context import current_context
from distarray.errors import UnsupportedError
from distarray.ops.chunks import over_chunks
from distarray.ops.convert import asarray
from distarray.ops.manipulation import moveaxis

__all__ = ["vectorize"]


def is_python(ufunc: np.ufunc) -> bool:
    """Whether a ufunc calls a Python function: its one loop takes and returns objects."""
    return bool(ufunc.ntypes == 1 and ufunc.types[0].strip("O") == "->")


def _on_host(chunk: Any) -> Any:
    return chunk.get() if is_cupy(chunk) else chunk


def _numbers(values: Any, name: str) -> Any:
    """An array of objects as one of numbers."""
    if isinstance(values, np.ndarray) and not values.size:
        return np.empty(values.shape)
    found = np.array(values.tolist()) if isinstance(values, np.ndarray) else np.asarray(values)
    if found.dtype.kind not in "biufc" or found.shape != np.shape(values):
        raise UnsupportedError(
            f"{name} returned objects that are no numbers, and distributed arrays hold numbers: call it on x.get()"
        )
    return found


def _over_chunks(function: Callable[..., Any], args: tuple[Any, ...], dtypes: list[Any]) -> list[Any]:
    """The results of a function of chunks, broadcast against each other: one array for each dtype, None where it is found."""
    arrays = [a for a in args if isinstance(a, DistributedArray)]
    context = same_context(arrays)
    token = current_context.set(context)
    try:
        plain = (*PYTHON_SCALARS, np.generic)
        given: list[Any] = [a if isinstance(a, (DistributedArray, *plain)) else asarray(a) for a in args]
        arrays = [a for a in given if isinstance(a, DistributedArray)]
        shape = broadcast_shape(*[a.shape for a in arrays])
        lead = max(range(len(given)), key=lambda i: given[i].size if isinstance(given[i], DistributedArray) else -1)
        first = given[lead]
        if first.shape != shape:
            first = first._viewed(first._view_map().broadcast_to(shape))
        others = given[:lead] + given[lead + 1 :]

        def called(chunk: Any, *rest: Any) -> Sequence[Any]:
            values = [_on_host(c) for c in rest]
            values.insert(lead, _on_host(chunk))
            return function(*values)  # type: ignore[no-any-return]

        results = over_chunks(called, first, others, dtypes)
        for result in results:
            result._detached = not shape
        return results
    finally:
        current_context.reset(token)


def call_python(
    ufunc: np.ufunc, inputs: tuple[Any, ...], out: tuple[Any, ...] | None, where: ArrayLike, kwargs: dict[str, Any]
) -> Any:
    """A call of what ``numpy.frompyfunc`` made. The results have the dtype of the numbers that the function returns."""
    if out is not None or where is not True or kwargs:
        raise UnsupportedError(
            f"{ufunc.__name__} calls a Python function, and takes no out=, where= or dtype= with distributed arrays: assign "
            f"x[...] = f(x), or use distarray.vectorize(f, otypes=[...])"
        )

    def function(*chunks: Any) -> list[Any]:
        found = ufunc(*chunks)
        return [_numbers(part, ufunc.__name__) for part in (found if ufunc.nout > 1 else (found,))]

    results = _over_chunks(function, inputs, [None] * ufunc.nout)
    return tuple(results) if ufunc.nout > 1 else results[0]


def fold_python(
    method: str,
    ufunc: np.ufunc,
    array: DistributedArray,
    axis: Axis,
    *indices: Any,
    refused: Sequence[bool],
    keepdims: bool = False,
    **kwargs: Any,
) -> DistributedArray:
    """``reduce``, ``accumulate`` or ``reduceat`` of what ``numpy.frompyfunc`` made, in NumPy's order, line by line on the host.

    The results have the dtype of the numbers that the function returns. `kwargs` may have ``initial``, `refused` says which
    other arguments were given. Communication: none where the lines are whole; else each element once, and the dtype.
    """
    if any(refused):
        raise UnsupportedError(
            f"{ufunc.__name__} calls a Python function, and its {method} takes no out=, where= or dtype= with distributed "
            f"arrays: convert or assign its result"
        )
    if array.size or not kwargs:  # NumPy checks the call, by lines of one element, for which it calls no function
        getattr(ufunc, method)(small(array.shape, array.dtype), *[i[:0] for i in indices], axis=axis)
    context, name = array._context, f"{ufunc.__name__}.{method}"
    axes = normalized(axis, array.ndim)
    kept = [a for a in range(array.ndim) if a not in axes]
    lengths = [array.shape[a] for a in kept]
    lines = array.transpose(*kept, *axes).reshape(*lengths, math.prod(array.shape[a] for a in axes))
    inner = {"reduce": (), "accumulate": lines.shape[-1:], "reduceat": np.shape(indices[0]) if indices else ()}[method]
    last = lines.ndim - 1
    with context.lock:
        source = lines._operand(name)
        layout = whole_along(context, source.layout, (last,))
        if not lines.size:  # chunks need not cover lines without elements, whose results have elements
            layout = everywhere(context, lines.shape, source.layout.devices)
        target, order = replaced(context, layout, last, inner)
        arrays = arrays_in(context, source, layout, name)
        values: list[Any] = []
        with context.guarding(name, fallible=True):
            for number in order:
                chunk = arrays[number]
                found = (
                    None if chunk is None else getattr(ufunc, method)(_on_host(chunk), *indices, axis=last, **kwargs)
                )
                values.append(None if chunk is None else _numbers(found, ufunc.__name__))
        said = gathered(context, sorted({dtype_name(v.dtype) for v in values if v is not None}), name)
        names = sorted({kind for part in said for kind in part})
        dtype = np.result_type(*map(dtype_named, names)) if names else array.dtype
        result = mapped(context, [values], target, dtype, lambda lib, part: lib.asarray(part), name)
    if method != "reduce":
        return moveaxis(result, -1, axes[0])
    if keepdims:
        return result.reshape(*[1 if a in axes else n for a, n in enumerate(array.shape)])
    result._detached = not result.ndim
    return result


class vectorize:
    """A function of arrays from a Python function of scalars, which is called for each element.

    Parameters
    ----------
    pyfunc : callable, optional
        Without it, the object is a decorator.
    otypes : str or list of dtype, optional
        The dtypes of the results. Default: what the function returns for the first elements.
    doc : str, optional
    excluded : set of str or int, optional
        Arguments that are passed as they are.
    cache : bool
        Accepted for NumPy's sake: the first call is repeated.
    signature : str, optional
        The core axes, such as ``"(m,n),(n)->(m)"``: the function gets and returns whole subarrays, NumPy's. Each device calls
        it for its part of the other axes.

    Raises
    ------
    ValueError
        At a call: the arrays are empty, and no `otypes` are given; shapes do not fit the `signature`.
    TypeError
        At a call: the results are no numbers, or the operands not as many as the `signature` has.

    Notes
    -----
    Communication: what aligns the operands; without `otypes` the first elements, to every process. Each device calls the
    function for its own elements, and once more for each result after the first.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.vectorize(lambda a, b: a if a > b else b)(da.arange(4.0), 2.0)
    DistributedArray([2., 2., 2., 3.])
    """

    def __init__(
        self,
        pyfunc: Callable[..., Any] = NOTHING,
        otypes: str | Sequence[str | type | np.dtype[Any]] | None = None,
        doc: str | None = None,
        excluded: Collection[int | str] | None = None,
        cache: bool = False,
        signature: str | None = None,
    ) -> None:
        self.pyfunc, self.otypes, self.excluded, self.cache, self.signature = pyfunc, otypes, excluded, cache, signature
        self.__doc__ = doc if doc is not None or pyfunc is NOTHING else pyfunc.__doc__
        if pyfunc is not NOTHING:
            np.vectorize(pyfunc, otypes, doc, excluded, cache, signature)  # NumPy checks the arguments
            self.__name__ = getattr(pyfunc, "__name__", "vectorize")
            self.__wrapped__ = pyfunc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.pyfunc is NOTHING:
            return vectorize(args[0], self.otypes, self.__doc__, self.excluded, self.cache, self.signature)
        left_out = self.excluded or ()
        keys: list[Any] = [i for i in range(len(args)) if i not in left_out] + [k for k in kwargs if k not in left_out]
        values = [args[key] if isinstance(key, int) else kwargs[key] for key in keys]
        if not keys:
            return self.pyfunc(*args, **kwargs)
        values = [v if isinstance(v, DistributedArray) else asarray(v) for v in values]

        def scalars(*elements: Any) -> Any:
            positional, named = list(args), dict(kwargs)
            for key, element in zip(keys, elements, strict=True):
                if isinstance(key, int):
                    positional[key] = element
                else:
                    named[key] = element
            return self.pyfunc(*positional, **named)

        if self.signature is not None:
            return self._over_subarrays(self.signature, scalars, values)
        dtypes = self._dtypes(scalars, values)
        over = np.vectorize(scalars, otypes=dtypes)

        def function(*chunks: Any) -> Any:
            found = over(*chunks)
            return found if isinstance(found, tuple) else (found,)

        results = _over_chunks(function, tuple(values), dtypes)
        return tuple(results) if len(results) > 1 else results[0]

    def _over_subarrays(self, text: str, function: Callable[..., Any], values: list[DistributedArray]) -> Any:
        """A call with a signature: the shapes of the results are those of the first one's."""
        inputs, outputs = signature = CoreSignature.of(text)
        if len(values) != len(inputs):
            raise TypeError(f"wrong number of positional arguments: expected {len(inputs)}, got {len(values)}")
        signature.sizes([v.shape for v in values])
        counts = [len(names) for names in inputs]
        loops = broadcast_shape(*[v.shape[: v.ndim - n] for v, n in zip(values, counts, strict=True)])
        if not math.prod(loops):
            raise ValueError("cannot call `vectorize` with a signature on size 0 inputs: its results have no shape")
        found = function(*[v[(0,) * (v.ndim - n)].get() for v, n in zip(values, counts, strict=True)])
        parts = [np.asarray(part) for part in (found if len(outputs) > 1 else (found,))]
        for part, names in zip(parts, outputs, strict=True):
            if part.ndim != len(names):
                raise ValueError(f"{part.ndim}-dimensional argument does not have the core dimensions {names!r}")
        dtypes = self._numeric(
            [p.dtype for p in parts] if self.otypes is None else [np.dtype(kind) for kind in self.otypes]
        )
        over = np.vectorize(function, otypes=dtypes, signature=text)

        def called(loops: tuple[int, ...], *chunks: Any) -> Any:
            if not math.prod(loops):
                return [np.empty((*loops, *part.shape), dtype) for part, dtype in zip(parts, dtypes, strict=True)]
            made = over(*chunks)
            return made if isinstance(made, tuple) else (made,)

        context = same_context(values)
        results = loop_over(
            context, called, values, counts, [(p.shape, d) for p, d in zip(parts, dtypes, strict=True)], "vectorize"
        )
        for result in results:
            result._detached = not result.ndim
        return tuple(results) if len(results) > 1 else results[0]

    def _dtypes(self, scalars: Callable[..., Any], values: list[DistributedArray]) -> list[Any]:
        """The dtypes of the results: those given, or those of the function of the first elements."""
        if self.otypes is not None:
            found = [np.dtype(kind) for kind in self.otypes]
        else:
            if not all(v.size for v in values):
                raise ValueError("cannot call `vectorize` on size 0 inputs unless `otypes` is set")
            first = scalars(*[v[(0,) * v.ndim].get()[()] for v in values])
            found = [np.asarray(part).dtype for part in (first if isinstance(first, tuple) else (first,))]
        return self._numeric(found)

    @staticmethod
    def _numeric(found: list[Any]) -> list[Any]:
        """Dtypes of results, if they are numbers."""
        for kind in found:
            if kind.kind not in "biufc":
                raise UnsupportedError(
                    f"vectorize got results of dtype {kind}, and distributed arrays hold numbers: pass otypes=, or call it on "
                    f"x.get()"
                )
        return found
