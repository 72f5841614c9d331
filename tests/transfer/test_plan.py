"""Plans are checked against brute force: every element of every target chunk is produced exactly once, from all and only
the partial values it needs, for every pair of modes; and one device's own part is its part of the whole."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distarray.geometry import IndexMap, Region, blocks, cyclic, replicated
from distarray.layout import Layout
from distarray.modes import Mode
from distarray.transfer.plan import Plan, plan, split, waypoint

MODES = list(Mode)


@st.composite
def slices(draw, n):
    start = draw(st.integers(0, n - 1))
    stop = draw(st.integers(start + 1, n))
    return slice(start, stop, draw(st.integers(1, 3)))


@st.composite
def index_maps(draw, shape, covering):
    mapping = {}
    devices = draw(st.lists(st.integers(0, 6), min_size=1, max_size=4, unique=True))
    for device in devices:
        count = draw(st.integers(0, 3))
        mapping[device] = [Region.from_index(tuple(draw(slices(n)) for n in shape), shape) for _ in range(count)]
    if covering:
        mapping[devices[0]].append(Region.full(shape))
    return IndexMap(shape, mapping)


def run(moves: Plan, chunks):
    """A plan on NumPy arrays, written apart from the executor: folds in float64, which is exact on small integers."""
    target = moves.target
    out = []
    for i, (_, region) in enumerate(target.chunks):
        fresh = np.full(region.shape, np.nan)
        if moves.fill is not None:
            fresh[...] = moves.fill.identity(np.dtype(float))
        if i in moves.alias:
            fresh[...] = chunks[moves.alias[i]]
        out.append(fresh)
    fold = moves.source.mode.fold
    for step in moves.steps:
        place = out[step.target][step.key]
        values = [chunks[c][key] for c, key in step.sources]
        if step.accumulate:
            values.insert(0, place.copy())
        result = values[0]
        for value in values[1:]:
            result = fold(result, value)
        place[...] = result
    for move in moves.forwards:
        out[move.target][move.key] = out[move.origin][move.origin_key]
    return out


def value_of(layout, chunks):
    """The array that chunks stand for."""
    if layout.mode is Mode.REPLICA:
        value = np.full(layout.shape, np.nan)
        for (_, region), chunk in zip(layout.chunks, chunks):
            value[region.key] = chunk
        for (_, region), chunk in zip(layout.chunks, chunks):
            np.testing.assert_array_equal(value[region.key], chunk)
        return value
    value = np.full(layout.shape, layout.mode.identity(np.dtype(float)))
    for (_, region), chunk in zip(layout.chunks, chunks):
        part = value[region.key]
        part[...] = layout.mode.fold(part, chunk)
    return value


@settings(max_examples=300, deadline=None)
@given(data=st.data(), a=st.sampled_from(MODES), b=st.sampled_from(MODES))
def test_every_pair_of_modes_against_brute_force(data, a, b):
    shape = data.draw(st.sampled_from([(7,), (4, 5), (3, 2, 3)]))
    source = Layout(data.draw(index_maps(shape, a is Mode.REPLICA)), a)
    target = Layout(data.draw(index_maps(shape, True)), b)
    if a is not b and a is not Mode.REPLICA and b is not Mode.REPLICA and not source.index_map.covers:
        return  # the executor goes through REPLICA here; see tests/transfer/test_execute.py
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    if a is Mode.REPLICA:
        value = rng.integers(1, 4, shape).astype(float)
        chunks = [value[region.key] for _, region in source.chunks]
    else:
        chunks = [rng.integers(1, 4, region.shape).astype(float) for _, region in source.chunks]
    expected = value_of(source, chunks)
    got = run(plan(source, target), chunks)
    assert not any(np.isnan(c).any() for c in got)
    np.testing.assert_array_equal(value_of(target, got), expected)


@settings(max_examples=150, deadline=None)
@given(data=st.data(), a=st.sampled_from(MODES), b=st.sampled_from([Mode.REPLICA, Mode.SUM, Mode.MAX]))
def test_a_devices_own_part_is_its_part_of_the_whole(data, a, b):
    shape = data.draw(st.sampled_from([(7,), (4, 5)]))
    source = Layout(data.draw(index_maps(shape, a is Mode.REPLICA)), a)
    target = Layout(data.draw(index_maps(shape, True)), b)
    device = data.draw(st.integers(0, 6))
    whole, own = plan(source, target), plan(source, target, [device])
    for full, mine in zip(whole.messages(1), own.messages(1)):
        pairs = {pair: n for pair, n in full.items() if device in pair}
        assert {pair: n for pair, n in mine.items() if device in pair} == pairs


def walk(moves: Plan, process_of, pair):
    """What one process has for another, piece by piece, as both must walk it; for each of the two rounds."""
    src, dst = moves.source.chunks, moves.target.chunks
    first = [
        (step.target, str(step.key), chunk, str(key))
        for step in moves.steps
        for chunk, key in step.sources
        if (process_of(src[chunk][0]), process_of(dst[step.target][0])) == pair
    ]
    second = [
        (move.target, str(move.key), move.origin, str(move.origin_key))
        for move in moves.forwards
        if (process_of(dst[move.origin][0]), process_of(dst[move.target][0])) == pair
    ]
    assert not first or moves.moving
    assert not second or moves.forwarding
    return first, second


@settings(max_examples=300, deadline=None)
@given(data=st.data(), a=st.sampled_from(MODES), b=st.sampled_from(MODES))
def test_processes_that_plan_their_own_parts_walk_them_alike(data, a, b):
    shape = data.draw(st.sampled_from([(7,), (4, 5), (3, 2, 3)]))
    source = Layout(data.draw(index_maps(shape, a is Mode.REPLICA)), a)
    target = Layout(data.draw(index_maps(shape, True)), b)
    count = data.draw(st.integers(2, 4))
    owner = [data.draw(st.integers(0, count - 1)) for _ in range(7)]
    whole = plan(source, target)
    parts = [plan(source, target, [d for d in range(7) if owner[d] == process]) for process in range(count)]
    for part in parts:
        assert (part.moving, part.forwarding, part.fill) == (whole.moving, whole.forwarding, whole.fill)
    for sender in range(count):
        for receiver in range(count):
            expected = walk(whole, owner.__getitem__, (sender, receiver))
            for process in {sender, receiver}:
                assert walk(parts[process], owner.__getitem__, (sender, receiver)) == expected
    for process, part in enumerate(parts):
        mine = {chunk: held for chunk, held in whole.alias.items() if owner[target.chunks[chunk][0]] == process}
        assert {chunk: held for chunk, held in part.alias.items() if owner[target.chunks[chunk][0]] == process} == mine


def test_all_to_all_moves_each_element_once():
    shape = (64, 64)
    devices = range(8)
    source, target = (Layout(blocks(axis).resolve(shape, devices), Mode.REPLICA) for axis in (0, 1))
    moves = plan(source, target)
    assert len(moves.messages(1)[0]) == 8 * 7
    assert moves.bytes_moved(4) == 64 * 64 * 4 * 7 // 8
    assert moves.rounds == 1


@pytest.mark.parametrize("mode", [Mode.MIN, Mode.MAX])
def test_relabelling_replica_moves_nothing(mode):
    index_map = cyclic(0).resolve((10,), range(3))
    moves = plan(Layout(index_map, Mode.REPLICA), Layout(index_map, mode))
    assert moves.bytes_moved(8) == 0
    assert not moves.steps


@pytest.mark.parametrize("n", [2, 3, 7])
def test_a_sum_resolves_like_reduce_scatter_and_all_gather(n):
    shape = (4096 * n,)
    index_map = replicated().resolve(shape, range(n))
    moves = plan(Layout(index_map, Mode.SUM), Layout(index_map, Mode.REPLICA))
    up, down = moves.messages(8)
    result = shape[0] * 8
    assert sum(up.values()) == (n - 1) * result
    assert sum(down.values()) == (n - 1) * result
    received = [sum(v for (_, to), v in up.items() if to == d) for d in range(n)]
    assert max(received) <= (n - 1) * (result // n) + 8 * n


def test_split_is_even_and_complete():
    region = Region.full((3, 10))
    pieces = split(region, 4)
    assert sorted(p.size for p in pieces) == [6, 6, 9, 9]
    assert sum(p.size for p in pieces) == region.size
    assert len(split(Region.full((2,)), 5)) == 2


@pytest.mark.parametrize(("first", "second"), [(63, 100), (127, 126), (33, 1000)])
def test_unlike_block_cyclic_maps_go_by_way_of_blocks(first, second):
    shape, devices = (2, 300_007), range(4)
    source, target = cyclic(1, first).resolve(shape, devices), cyclic(1, second).resolve(shape, devices)
    middle = waypoint(source, target)
    assert middle == blocks(1).resolve(shape, devices)
    made = 0
    for a, b in ((source, middle), (middle, target)):
        assert waypoint(a, b) is None
        made += len(plan(Layout(a, Mode.REPLICA), Layout(b, Mode.REPLICA)).steps)
    assert made <= 4 * (len(source.chunks) + len(target.chunks))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (cyclic(0, 3), cyclic(0, 5)),
        (cyclic(0, 3), blocks(0)),
        (cyclic(0, 700), cyclic(0, 701)),
        (cyclic(0, 64), cyclic(0, 128)),
        (replicated(), cyclic(0, 64)),
    ],
    ids=str,
)
def test_other_moves_go_straight(source, target):
    assert waypoint(source.resolve((200_000,), range(4)), target.resolve((200_000,), range(4))) is None
    everyone = range(1000)  # one region a device: no process counts the pairs of all
    assert waypoint(blocks(0).resolve((10**6,), everyone), cyclic(0).resolve((10**6,), everyone)) is None


@pytest.mark.parametrize(("shape", "rounds"), [((), 1), ((8,), 1), ((9,), 2)])
def test_little_is_folded_by_all_who_take_it_in_one_round(shape, rounds):
    full = {device: [Region.full(shape)] for device in range(4)}
    source, target = (Layout(IndexMap(shape, full), mode) for mode in (Mode.SUM, Mode.REPLICA))
    moves = plan(source, target)
    assert moves.rounds == rounds
    assert moves.forwarding == (rounds == 2)
    assert [len(step.sources) for step in moves.steps] == [4] * (4 if rounds == 1 else 1)
    for device in range(4):
        part = plan(source, target, [device])
        assert part.forwarding == moves.forwarding
        assert all(step in moves.steps for step in part.steps)
