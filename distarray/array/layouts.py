"""The layout that a user's ``layout=`` means."""

from __future__ import annotations

from typing import Any

from distarray.context import Context, group_ids
from distarray.errors import CoverageError, LayoutError
from distarray.geometry import as_spec
from distarray.layout import Layout
from distarray.modes import Mode


def resolve_layout(
    context: Context,
    layout: Any,
    shape: tuple[int, ...],
    *,
    mode: Mode = Mode.REPLICA,
    device: Any = None,
    itemsize: int = 8,
) -> Layout:
    """The layout that a user's ``layout=`` argument means for an array of this shape.

    Raises
    ------
    CoverageError
        A REPLICA layout leaves an element out; the message names one.
    """
    ids = group_ids(context, device)
    if isinstance(layout, Layout):
        mode, layout = layout.mode, layout.index_map
    if layout is None:
        index_map = context.default_map(shape, ids, itemsize)
    else:
        index_map = as_spec(layout).resolve(shape, ids)
    for d in index_map.devices:
        if d not in context.by_id:
            raise LayoutError(
                f"the layout names device {d}, and the context has devices {list(context.group.ids)}: use one of these, "
                f"or make more with distarray.init(devices={d + 1})"
            )
    if mode is Mode.REPLICA and not index_map.covers:
        raise CoverageError(
            f"the index map leaves element {index_map.uncovered()} of shape {shape} on no device, and a REPLICA array "
            f"needs every element somewhere: add it to a device's chunks, or use mode 'sum', 'min', 'max' or 'prod'"
        )
    return context.layout(index_map, mode)
