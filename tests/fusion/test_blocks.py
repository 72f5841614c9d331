"""One pass in blocks is equal, to the bit, to the steps one after the other; its memory is bounded."""

import gc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import distarray as da
from distarray.fusion import blocks
from distarray.fusion.evaluate import _run
from distarray.fusion.expr import ASTYPE
from distarray.fusion.notes import Notes
from distarray.fusion.program import Instruction, Program

QUIET = {"divide": "ignore", "over": "ignore", "under": "ignore", "invalid": "ignore"}
DTYPES = ["?", "i1", "i4", "u8", "f2", "f4", "f8", "c8", "c16"]
UFUNCS = [
    np.add,
    np.subtract,
    np.multiply,
    np.maximum,
    np.greater,
    np.exp,
    np.negative,
    np.square,
    np.isfinite,
    np.divide,
]


@st.composite
def programs(draw):
    """A program of random steps over operands that broadcast, are strided or turned, and the array that it writes."""
    shape = tuple(draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    leaves = []
    for _ in range(draw(st.integers(1, 3))):
        own = tuple(1 if draw(st.integers(0, 4)) == 0 else n for n in shape)[
            draw(st.integers(0, 1)) * (len(shape) > 1) :
        ]
        array = (rng.random([2 * n for n in own]) * 9 - 4).astype(draw(st.sampled_from(DTYPES)))
        array = np.asarray(array, order=draw(st.sampled_from("CF")))
        array = array[tuple(slice(None, None, 2) if draw(st.booleans()) else slice(n) for n in own)]
        leaves.append(array[tuple(slice(None, None, draw(st.sampled_from([1, -1]))) for _ in own)])
    model = leaves
    steps: list[Instruction] = []

    def pick():
        kind = draw(st.sampled_from(["leaf", "step", "step", "const"] if steps else ["leaf"]))
        if kind == "leaf":
            i = draw(st.integers(0, len(leaves) - 1))
            return (kind, i), model[i]
        if kind == "step":
            i = draw(st.integers(0, len(steps) - 1))
            return (kind, i), done[i]
        value = draw(st.sampled_from([2, 0.5, True, np.float32(3)]))
        return (kind, value), value

    done = []
    while len(steps) < draw(st.integers(2, 9)):
        turn = draw(st.sampled_from(["ufunc", "ufunc", "ufunc", "cast", "where"]))
        first, a = pick()
        with np.errstate(all="ignore"):
            if turn == "cast":
                dtype = np.dtype(draw(st.sampled_from(DTYPES)))
                step = Instruction(ASTYPE, (first,), {"dtype": dtype}, dtype, QUIET, ("", 0, {}), False, False)
                result = np.empty(np.shape(a), dtype)
            elif turn == "where":
                second, b = pick()
                (kind, at), mask = pick()
                dtype = np.result_type(a, b)
                if kind == "const" or mask.dtype != bool:
                    continue
                args = (first, (kind, at), second)
                step = Instruction(ASTYPE, args, {"dtype": dtype}, dtype, QUIET, ("", 0, {}), True, False)
                result = np.empty(np.broadcast_shapes(np.shape(a), np.shape(b), mask.shape), dtype)
            else:
                ufunc = draw(st.sampled_from(UFUNCS))
                args, given = [first], [a]
                if ufunc.nin == 2:
                    second, b = pick()
                    args.append(second)
                    given.append(b)
                try:
                    dtype = ufunc(*[np.empty(0, g.dtype) if isinstance(g, np.ndarray) else g for g in given]).dtype
                except TypeError:
                    continue
                step = Instruction(ufunc, tuple(args), {}, dtype, QUIET, ("", 0, {}), False, False)
                result = np.empty(np.broadcast_shapes(*[np.shape(g) for g in given]), dtype)
        steps.append(step)
        done.append(result)
    dtype = steps[-1].dtype if draw(st.booleans()) else np.dtype(draw(st.sampled_from(DTYPES)))
    return Program(tuple(steps), ("step", len(steps) - 1), dtype, shape, "test"), leaves, draw(st.sampled_from("CF"))


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@settings(max_examples=150, deadline=None)
@given(programs(), st.integers(16, 200), st.booleans())
def test_blocks_are_equal_to_the_steps(case, nbytes, strict):
    program, leaves, order = case
    expected, found = (np.zeros(program.shape, program.dtype, order) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(blocks, "REGISTER_BYTES", nbytes)
        patch.setattr(blocks, "REGISTERS", blocks._Registers())
        _run(np, program, leaves, expected, strict, Notes())
        plan = blocks.schedule(program, len(leaves), found.dtype)
        blocks.run_blocks(plan, leaves, found, strict, Notes())
        assert sum(map(len, blocks.REGISTERS.free)) <= blocks.KEPT * nbytes
    assert expected.tobytes() == found.tobytes()


def test_a_chain_needs_as_many_registers_as_values_live():
    """A chain of any length lives in one register; what is read late keeps its own."""

    def link(i):
        return Instruction(np.add, (("step", i), ("leaf", 0)), {}, np.dtype("f8"), QUIET, ("", 0, {}), False, False)

    first = Instruction(np.add, (("leaf", 0), ("leaf", 0)), {}, np.dtype("f8"), QUIET, ("", 0, {}), False, False)
    steps = (first, *[link(i) for i in range(30)])
    assert blocks.schedule(Program(steps, ("step", 30), np.dtype("f8"), (9,), "add"), 1, np.dtype("f8")).needed == 1
    late = steps[-1]._replace(args=(("step", 29), ("step", 0)))
    program = Program((*steps[:-1], late), ("step", 30), np.dtype("f8"), (9,), "add")
    assert blocks.schedule(program, 1, np.dtype("f8")).needed == 2


CHAINS = {
    "contiguous": lambda x, z: x * x + 1,
    "strided": lambda x, z: z.real * z.real + z.imag,
    "broadcast": lambda x, z: x * x[0] + x[:, :1],
    "masked": lambda x, z: np.where(x > 0.5, x, -x),
    "cast": lambda x, z: (x * 3 + 1).astype(np.int32),
    "shifted": lambda x, z: x[:-2] * 2 + x[2:],
}


@pytest.mark.parametrize("chain", CHAINS.values(), ids=list(CHAINS))
def test_memory_of_a_result_is_used_again_without_the_garbage_collector(chain):
    """Nothing in a pass refers to itself: a cycle would keep the result's memory, and each new result pay page faults."""
    with da.init(devices=2, kind="host", minimum_chunk=1):
        x = da.asarray(np.random.default_rng(0).random((512, 512)))
        z = x + 1j * x
        z.evaluate()
        pool = x._context.local_devices[0].pool
        gc.disable()
        try:
            for _ in range(2):
                chain(x, z).evaluate()
            hits, idle = pool.hits, pool.idle
            chain(x, z).evaluate()
        finally:
            gc.enable()
        assert pool.hits >= hits + 2 and pool.idle == idle
