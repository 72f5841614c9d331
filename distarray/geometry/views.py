"""View maps, which say how an array's elements index into the storage behind it. They exist so that basic indexing,
transposes, flips, new axes, broadcasts and reshapes are pure changes of metadata, on any layout that has room for them,
and so that each chunk can be read and written through the view without a copy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from types import ModuleType
from typing import Any, NamedTuple

from distarray.errors import IndexMapError, LayoutError
from distarray.geometry._keys import as_int, expand_key, normalize_axes
from distarray.geometry.ranges import EMPTY, Range
from distarray.geometry.regions import Region
from distarray.geometry.reshape import contiguous_strides, reshape_strides

__all__ = ["AxisMap", "Pull", "ViewMap"]


class AxisMap(NamedTuple):
    """One base axis of a view: base index = ``start + step * view_index[axis]``; with axis -1 it is fixed at `start`."""

    axis: int
    start: int
    step: int


class Pull(NamedTuple):
    """What a view shows of one chunk, and how to reach it: `apply` is ``chunk[key]``, axes permuted, new axes put in."""

    region: Region
    key: tuple[slice | int, ...]
    perm: tuple[int, ...] | None
    shape: tuple[int, ...]
    new_axes: tuple[int, ...] = ()

    def apply(
        self,
        chunk: Any,  # an array of the library `xp`, which geometry doesn't know
        xp: ModuleType,
    ) -> Any:
        """The part of `chunk` that the view shows, as an array view of shape ``region.shape``; nothing is copied.

        Axes that are broadcast to a length other than 1 make the result read-only (NumPy's ``broadcast_to``).
        """
        part = chunk[(*self.key, ...)]  # the Ellipsis keeps a 0-d result an array, and a view
        if self.perm is not None:
            part = part.transpose(self.perm)
        if self.new_axes:
            part = part[tuple([None if axis in self.new_axes else slice(None) for axis in range(len(self.shape))])]
            if part.shape != self.shape:
                part = xp.broadcast_to(part, self.shape)
        return part

    def strides(self, strides: Sequence[int]) -> tuple[int, ...]:
        """The strides of what `apply` gives of a chunk that has these."""
        kept = [s * (k.step or 1) for s, k in zip(strides, self.key, strict=True) if isinstance(k, slice)]
        if self.perm is not None:
            kept = [kept[axis] for axis in self.perm]
        found = iter(kept)
        return tuple([0 if axis in self.new_axes else next(found) for axis in range(len(self.shape))])


class ViewMap(NamedTuple):
    """How a view of `shape` indexes into a base of shape `base`: one `AxisMap` for each base axis.

    View axes that no axis map names are new or broadcast: every index along them shows the same elements. View maps
    without `inner` are canonical, so equal ones compare equal: an axis of length 1 has step 1, one of length 0 also
    start 0.

    The base is the storage, reshaped to the shape `base`; where a view is reshaped that does not show a whole storage,
    it is that view, `inner`, reshaped.

    Examples
    --------
    >>> v = ViewMap.identity((4, 6)).index((slice(None, None, -1), 2))
    >>> v.shape, v.axes
    ((4,), (AxisMap(axis=0, start=3, step=-1), AxisMap(axis=-1, start=2, step=1)))
    >>> print(v.image(Region.from_index(slice(0, 2), (4,))))
    [2:4, 2:3]
    """

    shape: tuple[int, ...]
    base: tuple[int, ...]
    axes: tuple[AxisMap, ...]
    inner: ViewMap | None = None

    @classmethod
    def identity(cls, shape: Sequence[int], inner: ViewMap | None = None) -> ViewMap:
        """The view that shows a storage of `shape`, or the view `inner` reshaped to it, as it is."""
        return _identity(tuple(shape), inner)

    @property
    def ndim(self) -> int:
        """Number of view axes."""
        return len(self.shape)

    @property
    def is_identity(self) -> bool:
        """Whether the view shows a storage of the base's shape as it is."""
        return self.shape == self.base and self.inner is None and self == ViewMap.identity(self.base)

    @property
    def new_axes(self) -> tuple[int, ...]:
        """The view axes that no base axis drives: new or broadcast ones."""
        named = {m.axis for m in self.axes}
        return tuple([axis for axis in range(len(self.shape)) if axis not in named])

    def index(self, key: object) -> ViewMap:  # type: ignore[override]
        """The view of this view under basic indexing: int, slice, Ellipsis, None, or a tuple of them.

        Raises
        ------
        IndexMapError
            An IndexError with NumPy's wording: out of bounds, too many indices, or not a basic index.
        """
        shape: list[int] = []
        moved: list[tuple[int, int, int]] = []  # for each old axis: new axis or -1, start and step along the old one
        for item in expand_key(key, len(self.shape), newaxis=True):
            if item is None:
                shape.append(1)
                continue
            axis = len(moved)
            n = self.shape[axis]
            if isinstance(item, slice):
                start, stop, step = item.indices(n)
                moved.append((len(shape), start, step))
                shape.append(len(range(start, stop, step)))
            else:
                if not -n <= item < n:
                    raise IndexMapError(f"index {item} is out of bounds for axis {axis} with size {n}")
                moved.append((-1, item % n, 1))
        return self._with(tuple(shape), moved)

    def within(self, bounds: Sequence[tuple[int, int, int]]) -> ViewMap:
        """The view of what lies within bounds: for each axis where it begins and ends, and a positive step; with step 0 one
        position, whose axis is dropped. What `index` gives for such a key, which has been checked."""
        shape: list[int] = []
        moved: list[tuple[int, int, int]] = []
        for low, high, step in bounds:
            if step:
                moved.append((len(shape), low, step))
                shape.append((high - low + step - 1) // step)
            else:
                moved.append((-1, low, 1))
        return self._with(tuple(shape), moved)

    def transpose(self, perm: Sequence[int] | None = None) -> ViewMap:
        """The view with its axes permuted: new axis `i` is old axis ``perm[i]``; reversed when None."""
        n = len(self.shape)
        perm = tuple(range(n))[::-1] if perm is None else tuple(perm)
        if len(perm) != n:
            raise LayoutError(f"axes don't match array: got {perm} for {n} axes; pass a permutation of range({n})")
        order = normalize_axes(perm, n)
        moved = [(order.index(axis), 0, 1) for axis in range(n)]
        return self._with(tuple([self.shape[axis] for axis in order]), moved)

    def broadcast_to(self, shape: Sequence[int]) -> ViewMap:
        """The view stretched to `shape` by NumPy's rules: leading axes are added, axes of length 1 repeat."""
        shape = tuple(shape)
        lead = len(shape) - len(self.shape)
        moved = []
        for axis, n in enumerate(self.shape):
            if lead < 0 or (n != shape[lead + axis] and n != 1):
                break
            moved.append((lead + axis if n == shape[lead + axis] else -1, 0, 1))
        if lead < 0 or len(moved) < len(self.shape) or min(shape, default=0) < 0:
            raise LayoutError(
                f"cannot broadcast an array of shape {self.shape} to shape {shape}: axes align from the right, and "
                "each "
                "must have the target's length or length 1; add axes with expand_dims"
            )
        return self._with(shape, moved)

    def expand_dims(self, axes: int | Sequence[int]) -> ViewMap:
        """The view with new axes of length 1 at the positions `axes` of the result."""
        count = 1 if as_int(axes) is not None else len(axes)  # type: ignore[arg-type]
        ndim = len(self.shape) + count
        new = normalize_axes(axes, ndim)
        old = [axis for axis in range(ndim) if axis not in new]
        shape = [1] * ndim
        for axis, n in zip(old, self.shape):
            shape[axis] = n
        return self._with(tuple(shape), [(axis, 0, 1) for axis in old])

    def squeeze(self, axes: int | Sequence[int] | None = None) -> ViewMap:
        """The view without the `axes` (by default all that have length 1), which must have length 1."""
        if axes is None:
            gone = tuple([axis for axis, n in enumerate(self.shape) if n == 1])
        else:
            gone = normalize_axes(axes, len(self.shape))
        for axis in gone:
            if self.shape[axis] != 1:
                raise LayoutError(
                    "cannot select an axis to squeeze out which has size not equal to one: "
                    f"axis {axis} of shape {self.shape} has size {self.shape[axis]}; index it with an int instead"
                )
        kept = [axis for axis in range(len(self.shape)) if axis not in gone]
        moved = [(-1 if axis in gone else kept.index(axis), 0, 1) for axis in range(len(self.shape))]
        return self._with(tuple([self.shape[axis] for axis in kept]), moved)

    def flip(self, axes: int | Sequence[int] | None = None) -> ViewMap:
        """The view with the order reversed along `axes` (by default all)."""
        turned = range(len(self.shape)) if axes is None else normalize_axes(axes, len(self.shape))
        moved = [(axis, n - 1, -1) if axis in turned else (axis, 0, 1) for axis, n in enumerate(self.shape)]
        return self._with(self.shape, moved)

    @property
    def strides(self) -> tuple[int, ...]:
        """The view's strides over a C-contiguous storage, in elements."""
        if self.inner is None:
            steps = contiguous_strides(self.base)
        else:
            reshaped = reshape_strides(self.inner.shape, self.inner.strides, self.base)
            assert reshaped is not None  # `reshape` made it
            steps = reshaped
        found = [0] * len(self.shape)
        for (axis, _, step), stride in zip(self.axes, steps, strict=True):
            if axis >= 0:
                found[axis] = step * stride
        return tuple(found)

    def strides_over(self, shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...] | None:
        """The view's strides over a storage of `shape` that has these; None where that could not be reshaped in place."""
        below, within = shape, strides
        if self.inner is not None:
            found = self.inner.strides_over(shape, strides)
            if found is None:
                return None
            below, within = self.inner.shape, found
        steps = within if tuple(below) == self.base else reshape_strides(below, within, self.base)
        if steps is None:
            return None
        shown = [0] * len(self.shape)
        for (axis, _, step), stride in zip(self.axes, steps, strict=True):
            if axis >= 0:
                shown[axis] = step * stride
        return tuple(shown)

    @property
    def depth(self) -> int:
        """How many views are reshaped within each other."""
        return 0 if self.inner is None else 1 + self.inner.depth

    def reshape(self, shape: Sequence[int]) -> ViewMap | None:
        """The view reshaped in C order; None where no strides reach its elements so, and NumPy would copy.

        Whether chunks have room for it is another question: one of the layout.

        Examples
        --------
        >>> ViewMap.identity((4, 6)).index(slice(1, 3)).reshape((3, 4)).strides
        (4, 1)
        >>> ViewMap.identity((4, 6)).transpose().reshape((24,)) is None
        True
        """
        new = tuple(shape)
        if prod(new) != prod(self.shape):
            raise LayoutError(
                f"cannot reshape array of size {prod(self.shape)} into shape {new}: the view has shape "
                f"{self.shape}; pass a shape with as many elements"
            )
        if new == self.shape:
            return self
        if [n for n in self.shape if n != 1] == [n for n in new if n != 1]:
            lean = self.squeeze() if 1 in self.shape else self
            return lean.expand_dims(tuple([axis for axis, n in enumerate(new) if n == 1]))
        if reshape_strides(self.shape, self.strides, new) is None:
            return None
        inner = self.inner if self == ViewMap.identity(self.base, self.inner) else self
        return inner if inner is not None and inner.shape == new else ViewMap.identity(new, inner)

    def image(self, region: Region) -> Region:
        """The base elements that the view elements of `region` show, as a set; fixed base axes get one index.

        An empty region has an empty image, except that a 0-d base has no empty region: its image is ``Region(())``.
        """
        if len(region) != len(self.shape):
            raise LayoutError(
                f"region {region} has {len(region)} axes, the view has shape {self.shape}: pass one for each"
            )
        if not region.size:
            return Region([EMPTY] * len(self.base))
        out = []
        for axis, start, step in self.axes:
            if axis < 0:
                out.append(Range(start, 1, 1))
            elif step == 1 and start == 0:
                out.append(region[axis])
            else:
                r = region[axis]
                out.append(Range.of(start + step * r.start, step * r.step, r.size))
        return Region(out)

    def pull(self, region: Region) -> Pull | None:
        """What the view shows of the base elements `region` (those of one chunk).

        Returns
        -------
        Pull or None
            None when the view shows none of them; that is always so for a view without elements.
        """
        if len(region) != len(self.base):
            raise LayoutError(
                f"region {region} has {len(region)} axes, the base has shape {self.base}: pass one for each"
            )
        if 0 in self.shape:
            return None
        shown: list[Range | None] = [None] * len(self.shape)
        key: list[slice | int] = []
        order: list[int] = []
        for (axis, start, step), held in zip(self.axes, region):
            if axis < 0:
                if not held.holds(start):
                    return None
                key.append((start - held.start) // held.step)
                continue
            common = Range.of(start, step, self.shape[axis]).intersect(held)
            if not common.size:
                return None
            at = held.locate(common)
            if step > 0:
                key.append(at.as_slice())
                shown[axis] = Range.of((common.start - start) // step, common.step // step, common.size)
            else:
                before = at.start - at.step if at.size > 1 else at.start - 1
                key.append(slice(at.last, before if before >= 0 else None, -at.step))
                shown[axis] = Range.of((start - common.last) // -step, common.step // -step, common.size)
            order.append(axis)
        out = Region([Range.full(n) if r is None else r for r, n in zip(shown, self.shape)])
        perm = tuple(sorted(range(len(order)), key=order.__getitem__))
        new = tuple([axis for axis, r in enumerate(shown) if r is None])
        return Pull(out, tuple(key), None if perm == tuple(range(len(perm))) else perm, out.shape, new)

    def _with(self, shape: tuple[int, ...], moved: Sequence[tuple[int, int, int]]) -> ViewMap:
        """The view of `shape` whose old axis `a` runs as ``start + step * new_index[axis]``,
        ``moved[a] = (axis, start, step)``."""
        axes = []
        for m in self.axes:
            old, first, stride = m
            if old >= 0:
                axis, start, step = moved[old]
                n = 1 if axis < 0 else shape[axis]
                m = AxisMap(axis, first + stride * start if n else 0, stride * step if n > 1 else 1)
            axes.append(m)
        return ViewMap(shape, self.base, tuple(axes), self.inner)


@lru_cache(4096)
def _identity(shape: tuple[int, ...], inner: ViewMap | None) -> ViewMap:
    return ViewMap(shape, shape, tuple([AxisMap(axis, 0, 1) for axis in range(len(shape))]), inner)
