"""The generator: NumPy's distributions, with ``layout=`` and ``device=``.

NumPy's own method draws each block (``streams.py``) of a distribution (``draws.py``), and its signature is NumPy's.
What rearranges an array (permutations, choices without replacement) sorts random keys.
"""

from __future__ import annotations

import math
import operator
import secrets
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from distarray.array.agreement import gathered
from distarray.array.aliases import AnyArray, ArrayLike, DeviceLike, DTypeLike, LayoutLike, Out, ShapeLike
from distarray.array.layouts import resolve_layout
from distarray.array.place import host_values
from distarray.array.state import DistributedArray, from_chunks, same_context
from distarray.array.writing import check_out, deliver
from distarray.context import Context
from distarray.current import current
from distarray.devices.arrays import DeviceArray
from distarray.layout import Layout
from distarray.ops.convert import asarray
from distarray.ops.manipulation import broadcast_to
from distarray.ops.reshaping import reshape
from distarray.ops.taking import take, take_along_axis
from distarray.random.draws import Draws, draws
from distarray.random.streams import CountedPhilox, Seed, aligned, fill, flat_intervals

__all__ = ["Generator", "default_rng"]

_WHOLE = {
    "dirichlet": ("alpha",),
    "multinomial": ("n", "pvals"),
    "multivariate_hypergeometric": ("colors", "nsample"),
    "multivariate_normal": ("mean", "cov"),
}
"""Parameters that belong to a row of values as a whole."""
_FILLED: dict[str, tuple[str, Callable[..., tuple[Any, Any]]]] = {
    "random": ("random", lambda: (0, 1)),
    "standard_normal": ("standard_normal", lambda: (0, 1)),
    "standard_exponential": ("standard_exponential", lambda: (0, 1)),
    "normal": ("standard_normal", lambda loc, scale: (loc, scale)),
    "uniform": ("random", lambda low, high: (low, high - low)),
    "exponential": ("standard_exponential", lambda scale: (0, scale)),
}
"""The method that fills an array with the standard form of a distribution, and from numbers as parameters what is added to its
values after they were multiplied: NumPy's own formulas, which give its bits."""

_SETTINGS = ("size", "dtype", "out", "method", "endpoint", "check_valid", "tol")


class Generator(Draws):
    """Random arrays; made by :func:`default_rng`.

    It has the methods of ``numpy.random.Generator``, with NumPy's arguments, and ``layout=`` and ``device=`` besides. The
    values are those of NumPy's algorithms over streams that the Philox bit generator begins, a block of elements each (its
    source and that of the streams stand in ``streams.py``), but not those of ``numpy.random.default_rng``:
    they depend on the seed, on how many calls came before, and on the place in the array; not on the layout, the number of
    devices or processes, or the kind of device.

    Parameters
    ----------
    bit_generator : SeedSequence or BitGenerator
        What the values depend on: of a bit generator of NumPy's, its seed.

    Attributes
    ----------
    bit_generator : CountedPhilox
        Where the generator stands. Its ``state`` is a dict of plain values, which can be read, kept and set again.

    Notes
    -----
    Communication: none where every chunk is an interval of the array in C order (block rows, replicated), and parameters
    are numbers or host arrays; else the values move to the layout asked for, once, and distributed parameters to where
    they are used. Devices draw at the same time; GPUs receive what the host draws.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     a = da.random.default_rng(7).normal(size=(4, 3), layout=da.blocks(0))
    ...     b = da.random.default_rng(7).normal(size=(4, 3), layout=da.blocks(1))
    ...     bool((a == b).all())
    True
    """

    def __init__(self, bit_generator: np.random.SeedSequence | np.random.BitGenerator) -> None:
        if not isinstance(bit_generator, (np.random.SeedSequence, np.random.BitGenerator)):
            raise TypeError(
                f"a Generator is made of a SeedSequence or a BitGenerator, not {type(bit_generator).__name__}: "
                "use default_rng(seed)"
            )
        self.bit_generator = CountedPhilox(bit_generator)

    def __repr__(self) -> str:
        return f"Generator({self.bit_generator!r})"

    def spawn(self, n_children: int) -> list[Generator]:
        """New generators, independent of this one and of each other.

        Parameters
        ----------
        n_children : int
            How many.

        Returns
        -------
        list of Generator
            Made of the children of this generator's seed, as NumPy's ``spawn`` does.
        """
        return [Generator(child) for child in self.bit_generator.seed_seq.spawn(n_children)]

    def bytes(self, length: int) -> bytes:
        """Random bytes, the same on all processes.

        Parameters
        ----------
        length : int
            How many.

        Returns
        -------
        bytes
            Python's own.
        """
        return next(self.bit_generator.next().blocks(0, 1)).bytes(length)

    def _draw(self, name: str, given: dict[str, Any], layout: LayoutLike, device: DeviceLike) -> DistributedArray:
        """One call of NumPy's method `name`: the parameters, checked by NumPy, then block after block."""
        whole = _WHOLE.get(name, ())
        settings = {key: value for key, value in given.items() if key in _SETTINGS and key not in ("size", "out")}
        params = {key: value for key, value in given.items() if key not in _SETTINGS}
        size, out = given.get("size"), given.get("out")
        spread = [p for p in params.values() if isinstance(p, DistributedArray)]
        context = same_context(spread) if spread else current()
        for key in whole:
            params[key] = np.asarray(host_values(p) if isinstance(p := params[key], DistributedArray) else p)
        arrays = {k: p if isinstance(p, DistributedArray) else np.asarray(p) for k, p in params.items()
                  if k not in whole and p is not None and np.ndim(p)}  # fmt: skip
        if out is not None:
            check_out(out)
            size = tuple(out.shape) if size is None else size
        shape = _shape(size, [a.shape for a in arrays.values()])
        tail, dtype = _model(name, params, arrays, settings)
        if out is not None and (tuple(out.shape) != shape or out.dtype != dtype):
            raise ValueError(f"out= must have shape {shape} and dtype {dtype}, and has {tuple(out.shape)}, {out.dtype}")
        full = (*shape, *tail)
        target = resolve_layout(context, layout, full, device=device, itemsize=dtype.itemsize)
        result = self._values(context, name, params, arrays, settings, shape, tail, dtype, target)
        delivered: DistributedArray = deliver(result, out)
        return delivered

    def _values(
        self,
        context: Context,
        name: str,
        params: dict[str, Any],
        arrays: dict[str, Any],
        settings: dict[str, Any],
        shape: tuple[int, ...],
        tail: tuple[int, ...],
        dtype: np.dtype[Any],
        target: Any,
    ) -> DistributedArray:
        stream, size = self.bit_generator.next(), math.prod(shape)
        places = flat_intervals(target, shape, tail) if not target.is_partial else None
        spread = {key: a for key, a in arrays.items() if isinstance(a, DistributedArray)}
        layout = target
        if places is None or spread:
            layout = aligned(context, target.devices, size, tail)
            places = [range(r[0].start, r[0].start + r[0].size) if r.size else range(0) for _, r in layout.chunks]
        lines = {key: _PerItem(a, shape, layout) for key, a in arrays.items()}

        filled, place = _FILLED.get(name, (None, None)) if not arrays else (None, None)
        add, times = (0.0, 1.0) if place is None else map(float, place(**params))

        def draw(generator: np.random.Generator, start: int, stop: int, out: Any) -> Any:
            if filled is not None and out is not None:
                getattr(generator, filled)(**settings, out=out)
                if (add, times) != (0, 1):
                    with np.errstate(all="ignore"):
                        np.add(np.multiply(out, times, out=out), add, out=out)
                return out
            own = dict(params)
            for key, line in lines.items():
                own[key] = line.part(start, stop)
            return getattr(generator, name)(**own, **settings, size=stop - start)

        with context.lock, context.guarding(f"random.{name}", fallible=bool(arrays) or None):
            context.check()
            chunks = fill(context, stream, layout, places, tail, dtype, draw)
        result = from_chunks(context, layout, chunks, dtype)
        return result if layout is target else reshape(result, (*shape, *tail)).reshard(target)

    # --- arrangements -------------------------------------------------------------------------------------------------

    @draws("the integers from low to high, high excluded unless ``endpoint=True``")
    def integers(
        self,
        low: ArrayLike,
        high: ArrayLike | None = None,
        size: ShapeLike | None = None,
        dtype: DTypeLike = np.int64,
        endpoint: bool = False,
        *,
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> DistributedArray:
        return self._draw(
            "integers", {"low": low, "high": high, "size": size, "dtype": dtype, "endpoint": endpoint}, layout, device
        )

    @draws("the uniform distribution on [0, 1)")
    def random(
        self,
        size: ShapeLike | None = None,
        dtype: DTypeLike = np.float64,
        out: Out = None,
        *,
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> Any:
        return self._draw("random", {"size": size, "dtype": dtype, "out": out}, layout, device)

    def choice(
        self,
        a: ArrayLike,
        size: ShapeLike | None = None,
        replace: bool = True,
        p: ArrayLike | None = None,
        axis: int = 0,
        shuffle: bool = True,
        *,
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> Any:
        """Elements chosen from an array, or from ``range(a)``.

        Parameters
        ----------
        a : array_like or int
            What is chosen from.
        size : int or tuple of int, optional
            Default: one element.
        replace : bool
            Whether an element may be chosen twice.
        p : array_like, optional
            The elements' probabilities; default: all alike.
        axis : int
            The axis of `a` whose slices are chosen.
        shuffle : bool
            Has no effect: what is chosen without replacement is in random order.
        layout : layout_like, optional
            As for :func:`distarray.zeros`.
        device : device, optional
            As for :func:`distarray.zeros`.

        Returns
        -------
        DistributedArray
            Of shape `size`, or with the slices of `a` in the place of its axis.

        Raises
        ------
        ValueError
            `a` is empty, `p` is no distribution, or more is asked for without replacement than there is.

        Notes
        -----
        Communication: with replacement that of ``take``; without, a sort of random keys besides. `p` is fetched to the
        host. Source of the choice by weights without replacement: P. S. Efraimidis, P. G. Spirakis, Inf. Process. Lett.
        97 (2006), 181-185.
        """
        array = None if isinstance(a, (int, np.integer)) else asarray(a)
        if array is not None and not array.ndim:
            raise ValueError(f"a must be a sequence or an integer, not {type(a)}")
        n = operator.index(cast("int", a)) if array is None else array.shape[axis]
        shape = _shape(size, [])
        weights = None if p is None else np.asarray(p, np.float64)
        np.random.Generator(np.random.Philox(0)).choice(n, min(1, math.prod(shape)), p=weights)  # NumPy's errors
        if replace:
            if weights is None:
                found = self._integers(max(n - 1, 0), shape, np.dtype(np.int64), layout, device)  # 0: nothing is chosen
            else:
                edges = np.cumsum(weights)
                drawn = self._draw("random", {"size": shape, "dtype": np.float64, "out": None}, layout, device)
                found = np.searchsorted(edges / edges[-1], drawn, side="right")
        else:
            count = math.prod(shape)
            if count > n or (weights is not None and count > np.count_nonzero(weights)):
                raise ValueError("Cannot take a larger sample than population when replace is False")
            if weights is None:
                order = self._order((n,))
            else:
                with np.errstate(divide="ignore"):
                    waits = self._draw(
                        "standard_exponential", {"size": n, "dtype": np.float64, "out": None}, None, None
                    )
                    order = cast("DistributedArray", np.argsort(waits / weights, kind="stable"))
            found = reshape(order[:count], shape)
            if layout is not None:
                found = found.reshard(resolve_layout(found._context, layout, shape, device=device))
        chosen = found if array is None else take(array, found, axis)
        return deliver(chosen, None)

    def permutation(self, x: ArrayLike, axis: int = 0) -> DistributedArray:
        """The slices of an array along an axis, or ``range(x)``, in random order.

        Parameters
        ----------
        x : array_like or int
            Of an integer the result is ``range(x)`` in random order.
        axis : int
            The axis whose slices are ordered anew; they stay whole.

        Returns
        -------
        DistributedArray
            A new array of the shape of `x`.

        Raises
        ------
        AxisError
            There is no such axis.

        Notes
        -----
        Communication: a sort of random keys, and the slices that change their device.
        """
        if isinstance(x, (int, np.integer)):
            return self._order((max(operator.index(x), 0),))
        array = asarray(x)
        if not array.ndim:
            raise np.exceptions.AxisError(axis, 0, "x must be an integer or at least 1-dimensional")
        axis = normalize_axis_index(axis, array.ndim)
        return cast("DistributedArray", take(array, self._order((array.shape[axis],)), axis))

    def shuffle(self, x: AnyArray, axis: int = 0) -> None:
        """Bring the slices of an array along an axis into random order, in place; the slices stay whole.

        Parameters
        ----------
        x : DistributedArray or numpy.ndarray
            What is written.
        axis : int
            The axis whose slices change their places.

        Raises
        ------
        TypeError
            `x` is no array, or has no axes.
        AxisError
            There is no such axis.

        Notes
        -----
        Communication: as for :meth:`permutation`.
        """
        if not isinstance(x, (DistributedArray, np.ndarray)):
            raise TypeError(f"shuffle takes a distributed or NumPy array, not {type(x).__name__}: use permutation(x)")
        if not x.ndim:
            raise TypeError("len() of unsized object: shuffle needs an array with axes")
        moved = self.permutation(x, axis)
        x[...] = moved if isinstance(x, DistributedArray) else moved.get()

    def permuted(self, x: ArrayLike, *, axis: int | None = None, out: Out = None) -> Any:
        """An array with the elements of each line along an axis, or of the whole array, in an order of their own.

        Parameters
        ----------
        x : array_like
            Of any layout.
        axis : int, optional
            The axis along which lines are; by default all elements are one line.
        out : DistributedArray or numpy.ndarray, optional
            Where the result goes.

        Returns
        -------
        DistributedArray
            A new array of the shape of `x`, or `out`.

        Raises
        ------
        TypeError
            `x` has no axes, or `out` a dtype that does not hold that of `x`.
        ValueError
            `out` has another shape than `x`.
        AxisError
            There is no such axis.

        Notes
        -----
        Communication: a sort of random keys along the axis, and the elements that change their device.
        """
        array = asarray(x)
        if not array.ndim:
            raise TypeError("len() of unsized object: permuted needs an array with axes")
        if out is not None:
            check_out(out)
            if tuple(out.shape) != array.shape:
                raise ValueError(f"out must have the same shape as x: it has {tuple(out.shape)}, and x {array.shape}")
            if not np.can_cast(array.dtype, out.dtype, "safe"):
                raise TypeError(
                    f"Cannot cast array data from {array.dtype!r} to {out.dtype!r} according to the rule 'safe': pass an "
                    f"out= of dtype {array.dtype}"
                )
        if axis is None:
            return deliver(reshape(take(reshape(array, (-1,)), self._order((array.size,))), array.shape), out)
        order = np.argsort(self._keys(array.shape, array.layout), axis=axis, kind="stable")
        return deliver(cast("DistributedArray", take_along_axis(array, order, axis)), out)

    def _order(self, shape: tuple[int]) -> DistributedArray:
        """The places of an axis in random order."""
        return cast("DistributedArray", np.argsort(self._keys(shape), kind="stable"))

    def _keys(self, shape: tuple[int, ...], layout: LayoutLike = None) -> Any:
        """Random keys to sort by; two are equal once in 2**64 times, and stay in order then."""
        return self._integers(2**64 - 1, shape, np.dtype(np.uint64), layout, None)

    def _integers(
        self, last: int, shape: tuple[int, ...], dtype: np.dtype[Any], layout: LayoutLike, device: DeviceLike
    ) -> Any:
        """Integers from 0 to `last`."""
        given = {"low": 0, "high": last, "size": shape, "dtype": dtype, "endpoint": True}
        return self._draw("integers", given, layout, device)


class _PerItem:
    """A parameter with an element for each item, in flat slices."""

    def __init__(self, array: DeviceArray, shape: tuple[int, ...], layout: Layout) -> None:
        self.whole = None if isinstance(array, DistributedArray) else np.broadcast_to(array, shape)
        self.pieces: list[tuple[int, Any]] = []
        if isinstance(array, DistributedArray):
            context = array._context
            found = reshape(broadcast_to(array, shape), layout.shape).reshard(layout)._operand("random")
            for (device_id, region), chunk in zip(found.layout.chunks, found.arrays, strict=True):
                if chunk is not None and region.size:
                    self.pieces.append((region[0].start, context.by_id[device_id].to_host(chunk)))

    def part(self, start: int, stop: int) -> Any:
        """The elements at the flat places [start, stop), which one device holds."""
        if self.whole is not None:
            return self.whole.flat[start:stop]
        first, values = max((piece for piece in self.pieces if piece[0] <= start), key=operator.itemgetter(0))
        return values[start - first : stop - first]


def _shape(size: ShapeLike | None, others: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that ``size=`` means, or that of the parameters; NumPy's errors."""
    if size is None:
        return np.broadcast_shapes(*others) if others else ()
    shape = (operator.index(size),) if isinstance(size, (int, np.integer)) else tuple(map(operator.index, size))
    if any(n < 0 for n in shape):
        raise ValueError("negative dimensions are not allowed")
    for other in others:
        if np.broadcast_shapes(other, shape) != shape:
            raise ValueError(f"Output size {shape} is not compatible with broadcast dimensions of inputs {other}.")
    return shape


def _model(name: str, params: dict[str, Any], arrays: dict[str, Any], settings: dict[str, Any]) -> tuple[Any, Any]:
    """The shape and dtype of one item, after NumPy has accepted or refused a call like this one."""
    plain = {key: value for key, value in params.items() if key not in arrays}
    for key, value in arrays.items():
        if not np.can_cast(value.dtype, np.float64, "same_kind"):
            raise TypeError(f"{name} takes real numbers for {key}, and got an array of {value.dtype}")
        plain[key] = np.empty(0, value.dtype) if isinstance(value, DistributedArray) else value.reshape(-1)[:1]
    none = any(len(plain[key]) == 0 for key in arrays)
    if name == "integers" and none:
        drawn = np.empty(1, settings.get("dtype", np.int64))
        return (), drawn.dtype
    if none:
        plain.update({key: np.empty(0, value.dtype) for key, value in arrays.items()})
    generator = np.random.Generator(np.random.Philox(0))
    drawn = getattr(generator, name)(**plain, **settings, size=0 if none else 1)
    return drawn.shape[1:], drawn.dtype


def default_rng(seed: Seed | Generator = None) -> Generator:
    """A generator of random arrays.

    Parameters
    ----------
    seed : int, sequence of int, SeedSequence, BitGenerator or Generator, optional
        Default: a fresh seed, which the processes of the current context agree on. A Generator of ours is returned as it is.

    Returns
    -------
    Generator
        Its methods draw distributed arrays.

    Notes
    -----
    Communication: without a seed, in several processes, one small round.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     rng = da.random.default_rng(42)
    ...     rng.integers(0, 10, size=4).shape, rng.normal(2.0, 0.5, size=(3, 2)).shape
    ((4,), (3, 2))
    """
    if isinstance(seed, Generator):
        return seed
    if seed is None:
        seed = gathered(current(), secrets.randbits(128), "default_rng")[0]
    if isinstance(seed, np.random.Generator):
        seed = seed.bit_generator
    kinds = (np.random.SeedSequence, np.random.BitGenerator)
    return Generator(seed if isinstance(seed, kinds) else np.random.SeedSequence(cast("Any", seed)))
