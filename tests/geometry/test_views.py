"""View maps against NumPy: what views show, assembled chunk by chunk, and the errors."""

from __future__ import annotations

import re
from math import prod

import numpy as np
import pytest
from geometry_strategies import covering_maps, elements, index_maps, regions, shapes
from hypothesis import given, settings
from hypothesis import strategies as st

from distarray.errors import DistArrayError, LayoutError
from distarray.geometry import AxisMap, Range, Region, ViewMap


@st.composite
def keys(draw, shape):
    """A basic index that fits `shape`."""
    items = []
    for n in shape[: draw(st.integers(0, len(shape)))]:
        kind = draw(st.integers(0, 3))
        if kind == 0 and n:
            items.append(draw(st.sampled_from([int, np.int64, np.intp]))(draw(st.integers(-n, n - 1))))
        else:
            bound = st.none() | st.integers(-n - 2, n + 2)
            items.append(slice(draw(bound), draw(bound), draw(st.none() | st.integers(-3, 3).filter(bool))))
    if draw(st.booleans()):
        at = draw(st.integers(0, len(items)))
        if at == len(items) or len(items) == len(shape):  # what follows an Ellipsis indexes the last axes instead
            items.insert(at, Ellipsis)
    for _ in range(draw(st.integers(0, 1))):
        items.insert(draw(st.integers(0, len(items))), None)
    return items[0] if len(items) == 1 and draw(st.booleans()) else tuple(items)


@st.composite
def steps(draw, array):
    """One view operation: ``(view map -> view map, array -> array)``."""
    shape = array.shape
    kind = draw(st.sampled_from(["index", "index", "transpose", "broadcast", "expand", "squeeze", "flip"]))
    if kind == "index":
        key = draw(keys(shape))
        return lambda v: v.index(key), lambda a: a[(*key, ...) if isinstance(key, tuple) and ... not in key else key]
    if kind == "transpose":
        perm = draw(st.permutations(range(len(shape))))
        perm = tuple([axis - len(shape) if draw(st.booleans()) else axis for axis in perm])
        return lambda v: v.transpose(perm), lambda a: a.transpose(perm)
    if kind == "broadcast":
        new = [draw(st.integers(0, 3)) if n == 1 else n for n in shape]
        if len(shape) < 4:
            new = draw(st.lists(st.integers(0, 2), max_size=1)) + new
        return lambda v: v.broadcast_to(new), lambda a: np.broadcast_to(a, new)
    if kind == "expand" and len(shape) < 4:
        axis = draw(st.integers(-len(shape) - 1, len(shape)))
        return lambda v: v.expand_dims(axis), lambda a: np.expand_dims(a, axis)
    if kind == "squeeze":
        ones = [axis for axis, n in enumerate(shape) if n == 1]
        axes = draw(st.none() | st.just(tuple(ones[:1])))
        return lambda v: v.squeeze(axes), lambda a: np.squeeze(a, axes)
    axes = draw(st.none() | st.just(tuple(range(0, len(shape), 2))))
    return lambda v: v.flip(axes), lambda a: np.flip(a, axes)


@st.composite
def views(draw, shape):
    """A random view of an array of `shape`: the view map, and NumPy's view of an arange."""
    view, array = ViewMap.identity(shape), np.arange(prod(shape)).reshape(shape)
    for _ in range(draw(st.integers(0, 4))):
        on_map, on_array = draw(steps(array))
        view, array = on_map(view), on_array(array)
        assert view.shape == array.shape
    return view, array


SHAPES = shapes(max_ndim=3, max_side=5)


@settings(max_examples=150)
@given(SHAPES, st.data())
def test_pulled_chunks_assemble_to_numpys_view(shape, data):
    view, expected = data.draw(views(shape))
    m = data.draw(covering_maps(shape))
    base = np.arange(prod(shape)).reshape(shape)
    got = np.full(expected.shape, -1)
    times = np.zeros(expected.shape, int)
    for _, region in m.chunks:
        chunk = base[(*region.slices, ...)].copy()
        pull = view.pull(region)
        if pull is None:
            assert not set(expected.ravel().tolist()) & set(chunk.ravel().tolist())
            continue
        part = pull.apply(chunk, np)
        assert isinstance(part, np.ndarray)
        assert part.shape == pull.region.shape == pull.shape
        assert np.shares_memory(part, chunk)
        assert pull.region.size
        got[pull.region.slices] = part
        times[pull.region.slices] += 1
        # all that the view shows of the chunk, not less
        shown = np.isin(expected, chunk)
        assert np.count_nonzero(shown) == pull.region.size
        assert shown[pull.region.slices].all()
    np.testing.assert_array_equal(got, expected)
    assert (times > 0).all()


@given(SHAPES, st.data())
def test_image_is_what_the_view_shows(shape, data):
    view, expected = data.draw(views(shape))
    region = data.draw(regions(expected.shape))
    image = view.image(region)
    base = np.arange(prod(shape)).reshape(shape)
    assert len(image) == len(shape)
    if region.size:
        assert set(base[image.slices].ravel().tolist()) == set(expected[region.slices].ravel().tolist())
        pulled = view.pull(image)
        assert pulled is not None
        assert pulled.region.covers(region)
    elif shape:
        assert image.size == 0


@given(SHAPES, st.data())
def test_equal_views_are_equal_values(shape, data):
    """Hash and equality follow what is shown: `x[::-1][::-1]` is `x`."""
    view, expected = data.draw(views(shape))
    n = len(view.shape)
    for axis in range(n):
        assert view.flip(axis).flip(axis) == view
        assert view.expand_dims(axis).squeeze(axis) == view
    assert view.transpose().transpose() == view
    assert view.index(()) == view.index(...) == view
    assert hash(view.transpose(range(n))) == hash(view)
    same = expected.shape == shape and np.array_equal(expected, np.arange(prod(shape)).reshape(shape))
    if view.is_identity:
        assert same
    elif same and prod(shape) > 1 and not view.new_axes:
        assert 1 in shape  # only axes of length 1 can be exchanged unseen
    assert ViewMap.identity(shape).is_identity


def test_writing_through_a_pull():
    x = np.arange(20).reshape(4, 5)
    chunk = x[1:4, ::2].copy()
    region = Region.from_index((slice(1, 4), slice(None, None, 2)), (4, 5))
    view = ViewMap.identity((4, 5)).index((slice(None, None, -2), None, slice(1, 5))).transpose()
    pull = view.pull(region)
    part = pull.apply(chunk, np)
    part[...] = -part
    assert sorted(-chunk[chunk < 0]) == [7, 9, 17, 19]
    assert part.size == 4


def test_known_pull():
    view = ViewMap.identity((10,)).index(slice(8, None, -3))  # 8 5 2
    assert view.axes == (AxisMap(0, 8, -3),)
    pull = view.pull(Region((Range.of(4, 1, 6),)))
    assert pull.region == Region((Range.of(0, 1, 2),))
    assert pull.apply(np.arange(4, 10), np).tolist() == [8, 5]
    assert view.pull(Region((Range.of(3, 1, 2),))) is None


def test_zero_d_and_zero_size():
    scalar = ViewMap.identity(())
    pull = scalar.pull(Region(()))
    assert pull.region == Region(())
    chunk = np.array(7)
    assert np.shares_memory(pull.apply(chunk, np), chunk)
    pull = ViewMap.identity((3, 4)).index((1, -1)).pull(Region.from_index(slice(1, 3), (3, 4)))
    assert pull.region == Region(())
    assert pull.apply(np.arange(12).reshape(3, 4)[1:3], np).shape == ()
    assert ViewMap.identity((3, 4)).index((1, -1)).pull(Region.from_index(slice(2, 3), (3, 4))) is None
    spread = scalar.broadcast_to((2, 3))
    assert spread.pull(Region(())).apply(chunk, np).tolist() == [[7] * 3] * 2
    assert spread.image(Region.full((2, 3))) == Region(())
    for empty in (ViewMap.identity((0, 3)), scalar.broadcast_to((0,)), ViewMap.identity((4,)).index(slice(2, 2))):
        assert empty.pull(Region.full(empty.base)) is None
    assert ViewMap.identity((4,)).pull(Region.from_index(slice(2, 2), (4,))) is None
    assert ViewMap.identity((4,)).index(slice(3, 3)) == ViewMap.identity((4,)).index(slice(0, 0, -1))


@given(SHAPES, st.data())
def test_errors_are_numpys(shape, data):
    """Any index: the same result, or an error of the same type with NumPy's words in it."""
    item = st.sampled_from([0, -1, 2, -4, 7, None, ..., slice(None), slice(1, 9, 2), slice(None, None, -1)])
    key = tuple(data.draw(st.lists(item, max_size=4)))
    array = np.arange(prod(shape)).reshape(shape)
    try:
        expected = array[key]
    except IndexError as error:
        with pytest.raises(IndexError, match=re.escape(str(error))) as caught:
            ViewMap.identity(shape).index(key)
        assert isinstance(caught.value, DistArrayError)
    else:
        assert ViewMap.identity(shape).index(key).shape == np.shape(expected)


@pytest.mark.parametrize("bad", [1.0, "a", True, np.True_, [0], (0, 1.5), np.array([0, 1]), np.array(True), 1j])
def test_not_a_basic_index(bad):
    words = re.escape("only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean")
    with pytest.raises(IndexError, match=words):
        ViewMap.identity((4, 4)).index(bad)


def test_slices_raise_what_numpy_raises():
    for bad in (slice(None, None, 0), slice(1.5, None), slice("a")):
        with pytest.raises((ValueError, TypeError)) as theirs:
            np.arange(4)[bad]
        with pytest.raises(type(theirs.value), match=str(theirs.value)):
            ViewMap.identity((4,)).index(bad)


def test_other_errors():
    view = ViewMap.identity((2, 1, 3))
    for bad in ((0, 1), (0, 0, 1), (0, 1, 3)):
        with pytest.raises(ValueError):
            np.zeros((2, 1, 3)).transpose(bad)
        with pytest.raises(LayoutError, match=r"axes don't match array|repeated axis 0|axis 3 is out of bounds"):
            view.transpose(bad)
    for bad in ((2, 3), (2, 4, 4), (3, 1, 3), (2, -1, 3)):
        with pytest.raises(LayoutError, match="cannot broadcast an array of shape"):
            view.broadcast_to(bad)
    with pytest.raises(LayoutError, match="size not equal to one"):
        view.squeeze(0)
    for call in (view.squeeze, view.flip):
        with pytest.raises(IndexError, match="axis 3 is out of bounds for array of dimension 3"):
            call(3)
    with pytest.raises(IndexError, match="axis 4 is out of bounds for array of dimension 4"):
        view.expand_dims(4)
    with pytest.raises(LayoutError, match="must be an integer or a tuple"):
        view.flip(1.0)
    with pytest.raises(LayoutError, match="an axis must be an integer"):
        view.flip((True,))
    with pytest.raises(LayoutError, match="has 1 axes"):
        view.pull(Region.full((2,)))
    with pytest.raises(LayoutError, match="has 1 axes"):
        view.image(Region.full((2,)))


@given(SHAPES.flatmap(lambda shape: st.tuples(st.just(shape), index_maps(shape), st.data())))
def test_pull_of_a_view_partitions_with_the_map(args):
    """Disjoint chunks show disjoint parts, so a view of a disjoint map is disjoint."""
    shape, m, data = args
    view, _ = data.draw(views(shape))
    pulls = [(elements(region), view.pull(region)) for _, region in m.chunks]
    for i, (a, p) in enumerate(pulls):
        for b, q in pulls[:i]:
            if p is not None and q is not None and not a & b:
                assert p.region.intersect(q.region) is None


def factorings(draw, size):
    """A shape with this many elements."""
    found = []
    while size > 1 and len(found) < 3:
        factor = draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0]))
        found.append(factor)
        size //= factor
    return (*found, size) if size > 1 or draw(st.booleans()) else tuple(found)


@given(shapes(max_ndim=3, max_side=4, min_side=1), st.data())
def test_reshape_is_a_view_where_numpys_is(shape, data):
    """The strides are NumPy's, and None stands where NumPy copies: reshapes of views of reshapes, too."""
    view, array = ViewMap.identity(shape), np.arange(prod(shape)).reshape(shape)
    base = array
    for _ in range(data.draw(st.integers(1, 4))):
        on_map, on_array = data.draw(steps(array))
        moved = on_array(array)
        if isinstance(moved, np.ndarray) and moved.size:  # np.flip of no dimensions gives a scalar
            view, array = on_map(view), moved
        new = factorings(data.draw, array.size)
        reshaped, expected = view.reshape(new), array.reshape(new)
        assert (reshaped is not None) == np.shares_memory(expected, base)
        if reshaped is None:
            return
        view, array = reshaped, expected
        assert view.shape == array.shape
        for axis, n in enumerate(array.shape):
            if n > 1:
                assert view.strides[axis] * array.itemsize == array.strides[axis]


def test_reshape_goes_back():
    view = ViewMap.identity((4, 6)).index(slice(1, 3))
    deep = view.reshape((3, 4))
    assert deep.depth == 1
    assert deep.reshape((2, 6)) == view
    assert deep.reshape((12,)).depth == 1
    with pytest.raises(LayoutError, match="cannot reshape array of size 12"):
        deep.reshape((5,))
