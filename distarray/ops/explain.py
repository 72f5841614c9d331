"""``explain``: what an operation would move, before it does; and evaluation on request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

from distarray.array.aliases import ArrayLike, LayoutLike
from distarray.array.layouts import resolve_layout
from distarray.array.state import DistributedArray
from distarray.context import Context
from distarray.current import current
from distarray.fusion.compiled import alignment_of, compile_expression, message_itemsizes
from distarray.fusion.demand import demand
from distarray.fusion.meeting import meeting_place
from distarray.layout import Layout
from distarray.ops.convert import asarray
from distarray.transfer.cost import predicted_seconds
from distarray.transfer.execute import halfway
from distarray.transfer.ledger import Ledger, Watch, watching
from distarray.transfer.plan import plan

__all__ = ["Explanation", "explain", "ledger", "no_implicit_communication", "synchronize"]


class Explanation:
    """What would move: print it.

    Parameters
    ----------
    title : str
        What is explained.
    messages : list of dict
        For each round, ``(source, target) → bytes``.
    layout : Layout
        Of the result.
    kind : str
        The kind of devices: ``"host"`` or ``"cuda"``.

    Attributes
    ----------
    title : str
    messages : list of dict
        For each round, ``(source, target) → bytes``.
    layout : Layout
        Of the result.
    seconds : float
        Predicted by the cost model, for the kind of devices at hand.
    """

    def __init__(self, title: str, messages: list[dict[tuple[int, int], int]], layout: Layout, kind: str) -> None:
        self.title = title
        self.messages = [m for m in messages if m]
        self.layout = layout
        self.seconds = predicted_seconds(self.messages, kind)

    @property
    def bytes_moved(self) -> int:
        """Bytes that leave one device for another."""
        return sum(sum(m.values()) for m in self.messages)

    def __repr__(self) -> str:
        lines = [f"{self.title}", f"  result: {self.layout}"]
        if not self.messages:
            lines.append("  moves nothing")
        for number, messages in enumerate(self.messages, 1):
            lines.append(f"  round {number}: {len(messages)} messages, {sum(messages.values())} bytes")
            for (source, target), nbytes in sorted(messages.items())[:12]:
                lines.append(f"    device {source} -> device {target}: {nbytes} bytes")
            if len(messages) > 12:
                lines.append(f"    … and {len(messages) - 12} more")
        if self.messages:
            lines.append(f"  predicted: {self.seconds * 1e6:.0f} µs")
        return "\n".join(lines)


def explain(x: ArrayLike, layout: LayoutLike = None) -> Explanation:
    """What evaluating an array, or bringing it into another layout, would move. Nothing is moved.

    Parameters
    ----------
    x : array_like
        An array; a recorded expression is explained as it would be evaluated.
    layout : specification, dict or Layout, optional
        Explain ``x.reshard(layout)`` instead. A recorded expression is evaluated first.

    Returns
    -------
    Explanation
        Print it; it has the numbers as attributes.

    Notes
    -----
    Communication: none, but with `layout` what a recorded expression needs.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.ones((4, 4), layout=da.blocks(0))
    ...     da.explain(x[:-1] + x[1:]).bytes_moved
    32
    """
    x = asarray(x)
    context = x._context
    if layout is not None:
        source = x._operand("explain", partial_ok=True).layout
        target = resolve_layout(context, layout, x.shape, mode=source.mode)
        rounds = _legs(context, source, target, x.itemsize)
        return Explanation(f"reshard of {x.shape} {x.dtype}", rounds, target, context.kind)
    if x._node is None or x._node.version is not None:
        found = x._operand("explain", partial_ok=True)
        title = f"array of {x.shape} {x.dtype}, evaluated"
        if not found.layout.is_partial:
            return Explanation(title, [], found.layout, context.kind)
        target = context.layout(found.layout.index_map)
        moves = plan(found.layout, target)
        title += f", partial ({found.layout.mode.name}): what resolving it moves"
        return Explanation(title, list(moves.messages(x.itemsize)), target, context.kind)
    return _expression(context, x)


def _legs(context: Context, source: Layout, target: Layout, itemsize: int) -> list[dict[tuple[int, int], int]]:
    """The rounds of messages of a move, by way of another layout where it goes so."""
    legs = [source, target]
    if (middle := halfway(context, source, target)) is not None:
        legs.insert(1, middle)
    return [r for a, b in pairwise(legs) for r in plan(a, b).messages(itemsize)]


def _expression(context: Context, x: DistributedArray) -> Explanation:
    assert x._node is not None
    program, leaves = compile_expression(x._node)
    messages: list[dict[tuple[int, int], int]] = []
    described = []
    for leaf in leaves:
        layout = leaf.version.layout
        if layout.is_partial:
            moves = plan(layout, context.layout(layout.index_map))
            messages.extend(moves.messages(leaf.dtype.itemsize))
        described.append(context.layout(layout.index_map))
    views = [leaf.view for leaf in leaves]
    place, away, stores = meeting_place(context, x.shape, list(zip(described, views, strict=True)), None)
    told = set()
    for k, store in enumerate(stores):
        if store is not None:
            if id(leaves[k].version) not in told:  # the views of one storage are moved with it, once
                told.add(id(leaves[k].version))
                messages.extend(_legs(context, described[k], store, leaves[k].dtype.itemsize))
            described[k] = store
    for k, origin in enumerate(away):
        if origin is not None and place is not None:
            messages.extend(_legs(context, origin, place, leaves[k].dtype.itemsize))
            described[k], views[k] = place, None
    al = alignment_of(context, program, leaves, place, layouts=described, views=views)
    itemsizes = message_itemsizes(leaves)
    sizes: dict[tuple[int, int], int] = {}
    for (source, target, group), count in al.messages.items():
        sizes[source, target] = sizes.get((source, target), 0) + count * itemsizes[group]
    messages.append(sizes)
    steps = ", ".join(step.ufunc.__name__ for step in program.steps)
    return Explanation(f"expression of {x.shape} {x.dtype}: {steps}", messages, al.layout, context.kind)


def synchronize() -> None:
    """Wait until the devices of the current context have finished what was started. Communication: none."""
    current().synchronize()


@contextmanager
def ledger() -> Iterator[Ledger]:
    """Count what moves between devices inside the block, including what was recorded there and not yet evaluated.

    Yields
    ------
    Ledger
        It grows while the block runs.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=4, kind="host"):
    ...     x = da.ones((8, 1000), layout=da.blocks(0))
    ...     with da.ledger() as log:
    ...         y = x[:-1] + x[1:]
    ...     log.messages, log.bytes_moved
    (3, 24000)
    """
    log = Ledger()
    outer = watching.get() or Watch()
    with _watch(Watch((*outer.ledgers, log), outer.forbidden, outer)):
        yield log


@contextmanager
def no_implicit_communication() -> Iterator[None]:
    """Raise where an operation inside the block would move data between devices.

    ``reshard`` and ``change_mode`` are explicit and stay allowed, as does reading values into Python. What was recorded
    inside is evaluated before the block closes.

    Yields
    ------
    None

    Raises
    ------
    ImplicitCommunicationError
        Naming the operation, the bytes and the cure; nothing was moved.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.ones(4, layout=da.blocks(0))
    ...     with da.no_implicit_communication():
    ...         y = x + 1
    ...     y.tolist()
    [2.0, 2.0, 2.0, 2.0]
    """
    outer = watching.get() or Watch()
    with _watch(Watch(outer.ledgers, True, outer)):
        yield


@contextmanager
def _watch(watch: Watch) -> Iterator[None]:
    token = watching.set(watch)
    try:
        yield
        for recorded in tuple(watch.recorded.values()):
            if recorded.version is None:
                demand(recorded)
    finally:
        watching.reset(token)
