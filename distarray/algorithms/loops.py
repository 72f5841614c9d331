"""Functions of whole subarrays called in loops over the other axes: what generalised ufuncs that NumPy's users bring
(``numba.guvectorize``) and ``vectorize`` with a signature are made of. Each device goes over its part of the loop axes and has
the core axes of all operands whole there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from distarray.algorithms.local import aligned, mapped
from distarray.array.layouts import resolve_layout
from distarray.array.shapes import broadcast_shape
from distarray.array.state import DistributedArray
from distarray.context import Context
from distarray.devices.arrays import Library
from distarray.geometry import IndexMap, Range, Region
from distarray.layout import Layout

__all__ = ["CoreSignature", "loop_over"]

_DIMENSION = r"[^\W\d]\w*|\d+"
_ARGUMENT = rf"\(\s*(?:(?:{_DIMENSION})\s*(?:,\s*(?:{_DIMENSION})\s*)*)?\)"
_LIST = rf"\s*{_ARGUMENT}\s*(?:,\s*{_ARGUMENT}\s*)*"


class CoreSignature(NamedTuple):
    """The names of the core axes of each operand and of each result."""

    inputs: tuple[tuple[str, ...], ...]
    outputs: tuple[tuple[str, ...], ...]

    @staticmethod
    def of(text: str) -> CoreSignature:
        """Of the form ``"(m,n),(n)->(m)"``, without axes that may be missing.

        Raises
        ------
        ValueError
            The text has another form.
        """
        if not re.fullmatch(f"{_LIST}->{_LIST}", text):
            raise ValueError(f"Not a valid gufunc signature: {text}")
        inputs, outputs = (
            tuple([tuple(re.findall(_DIMENSION, part)) for part in re.findall(_ARGUMENT, side)])
            for side in text.split("->")
        )
        return CoreSignature(inputs, outputs)

    def sizes(self, shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
        """The lengths of the core axes, last in the operands' shapes.

        Raises
        ------
        ValueError
            An operand has too few axes, or two axes of one name differ in length.
        """
        found: dict[str, int] = {}
        for shape, names in zip(shapes, self.inputs, strict=True):
            if len(shape) < len(names):
                raise ValueError(
                    f"{len(shape)}-dimensional argument does not have enough dimensions for all core dimensions {names!r}"
                )
            for name, n in zip(names, shape[len(shape) - len(names) :], strict=True):
                if found.setdefault(name, n) != n:
                    raise ValueError(f"inconsistent size for core dimension {name!r}: {n} vs {found[name]}")
        return found


def loop_over(
    context: Context,
    function: Callable[..., Any],
    operands: Sequence[DistributedArray],
    counts: Sequence[int],
    results: Sequence[tuple[tuple[int, ...], np.dtype[Any]]],
    name: str,
) -> list[DistributedArray]:
    """The results of ``function(loops, *parts)``, which gets the shape of a part's loops and the operands' parts on the host,
    and returns one array for each result.

    `counts` has the number of core axes of each operand, which come last; `results` the core shape and dtype of each result.
    """
    cores = [x.shape[x.ndim - n :] for x, n in zip(operands, counts, strict=True)]
    loops = broadcast_shape(*[x.shape[: x.ndim - n] for x, n in zip(operands, counts, strict=True)])
    with context.lock:
        layout = _loops_layout(context, operands, counts, loops)
        places = [layout, *[_with(context, layout, core) for core in cores]]
        parts: list[list[Any]] = []
        for x, core, place in zip(operands, cores, places[1:], strict=True):
            found = dict(zip(place.chunks, aligned(x, place), strict=True))
            parts.append([found[d, _whole(region, core)] for d, region in layout.chunks])
        made = []
        values: dict[int, Sequence[Any]] = {}  # of each part: the function is called once for all results
        for number, (core, dtype) in enumerate(results):
            target = _with(context, layout, core)
            order = {chunk: i for i, chunk in enumerate(target.chunks)}
            sources: list[list[Any]] = [[None] * len(target.chunks) for _ in range(len(parts) + 2)]
            for i, (d, region) in enumerate(layout.chunks):
                at = order[d, _whole(region, core)]
                sources[0][at], sources[1][at] = i, region.shape
                for source, part in zip(sources[2:], parts, strict=True):
                    source[at] = part[i]

            def local(lib: Library, i: int, shape: tuple[int, ...], *arrays: Any, number: int = number) -> Any:
                if i not in values:
                    values[i] = function(shape, *[a if lib is np else a.get() for a in arrays])
                return lib.asarray(values[i][number])

            made.append(mapped(context, sources, target, dtype, local, name, fallible=True))
    return made


def _loops_layout(
    context: Context, operands: Sequence[DistributedArray], counts: Sequence[int], loops: tuple[int, ...]
) -> Layout:
    """Where the largest operand lies, if it spans all loops and its core axes are whole there; else the default."""
    lead, core = max(zip(operands, counts, strict=True), key=lambda pair: pair[0].size)
    n = lead.ndim - core
    if loops and lead.size and lead.shape[:n] == loops:
        layout = lead._operand("loops").layout
        chunks = [(d, region) for d, region in layout.chunks if region.size]
        if all(region[n:] == Region.full(lead.shape[n:]) for _, region in chunks):
            mapping: dict[int, list[Region]] = {d: [] for d in layout.devices}
            for d, region in chunks:
                mapping[d].append(Region(region[:n]))
            return context.layout(IndexMap(loops, mapping))
    return resolve_layout(context, None, loops)


def _whole(region: Region, core: Sequence[int]) -> Region:
    return Region((*region, *[Range.full(n) for n in core]))


def _with(context: Context, layout: Layout, core: Sequence[int]) -> Layout:
    """A layout of loop axes with whole core axes behind them."""
    mapping = {d: [_whole(r, core) for r in layout.index_map.regions(d)] for d in layout.devices}
    return context.layout(IndexMap((*layout.shape, *core), mapping))
