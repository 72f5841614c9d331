"""The layout that a user's ``layout=`` means."""

from __future__ import annotations

from distarray.array.aliases import DeviceLike, LayoutLike
from distarray.context import Context, group_ids
from distarray.errors import CoverageError, LayoutError
from distarray.geometry import IndexMap, as_spec
from distarray.geometry.specs import Listed
from distarray.layout import Layout
from distarray.modes import Mode


def resolve_layout(
    context: Context,
    layout: LayoutLike,
    shape: tuple[int, ...],
    *,
    mode: Mode = Mode.REPLICA,
    device: DeviceLike = None,
    itemsize: int = 8,
) -> Layout:
    """The layout that a user's ``layout=`` argument means for an array of this shape.

    Raises
    ------
    CoverageError
        A REPLICA layout leaves an element out; the message names one.
    """
    ids = group_ids(context, device)
    usual = ("usual", shape, ids, itemsize) if layout is None and mode is Mode.REPLICA else None
    if usual is not None and (known := context.layouts.remembered(usual)) is not None:
        return known  # type: ignore[no-any-return]
    if isinstance(layout, Layout):
        mode, layout = layout.mode, layout.index_map
    if layout is None:
        index_map = context.default_map(shape, ids, itemsize)
    elif isinstance(
        spec := as_spec(layout), Listed
    ):  # a dict of the user's: hashing it would cost what reading it does
        index_map = spec.resolve(shape, ids)
    else:
        key = ("resolved", spec, shape, ids)
        found: IndexMap | None = context.layouts.remembered(key)
        index_map = context.layouts.remember(key, spec.resolve(shape, ids)) if found is None else found
    for d in index_map.devices:
        if d not in context.by_id:
            raise LayoutError(
                f"the layout names device {d}, and the context has devices {list(context.group.ids)}: use one of these, "
                f"or make more with distarray.init(devices={d + 1})"
            )
    kept = context.layout(index_map, mode)
    index_map = kept.index_map  # which knows what was asked of it before
    if mode is Mode.REPLICA and not index_map.covers:
        raise CoverageError(
            f"the index map leaves element {index_map.uncovered()} of shape {shape} on no device, and a REPLICA array "
            f"needs every element somewhere: add it to a device's chunks, or use mode 'sum', 'min', 'max' or 'prod'"
        )
    if usual is not None:
        context.layouts.remember(usual, kept)
    return kept
