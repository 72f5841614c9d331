"""Contexts: which one is current, what init refuses, forked children, and threads that share an array."""

import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import distarray as da


def run(code, **env):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        capture_output=True, text=True, timeout=120, env={**os.environ, **env},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_init_in_a_with_block_is_scoped():
    with da.init(devices=2, kind="host") as outer:
        assert len(da.zeros(3).device) == 2
        with da.init(devices=3, kind="host"):
            assert len(da.zeros(3).device) == 3
        assert da.zeros(3).device == outer.group


def test_environment_chooses_the_default():
    code = "import distarray as da; d = da.zeros(3).device; print(d.kind, len(d))"
    assert run(code, DISTARRAY_NUM_DEVICES="5", DISTARRAY_KIND="host") == "host 5"


def test_eager_environment():
    code = "import distarray as da; x = da.zeros(3) + 1; print(x._node is None)"
    assert run(code, DISTARRAY_EAGER="1", DISTARRAY_KIND="host") == "True"
    assert run(code, DISTARRAY_EAGER="0", DISTARRAY_KIND="host") == "False"


@pytest.mark.parametrize(
    ("kwargs", "words"), [({"devices": 0}, "at least 1"), ({"kind": "tpu"}, "tpu"), ({"devices": 2.5}, "2.5")]
)
def test_init_refuses(kwargs, words):
    with pytest.raises(da.DeviceError, match=words):
        da.init(**{"kind": "host", **kwargs})


def test_a_bad_environment_is_named():
    code = """
        import distarray as da
        try:
            da.zeros(3)
        except da.DeviceError as error:
            print(error)
    """
    assert "DISTARRAY_NUM_DEVICES" in run(code, DISTARRAY_NUM_DEVICES="many", DISTARRAY_KIND="host")


def test_arrays_of_two_contexts_do_not_mix():
    with da.init(devices=2, kind="host"):
        x = da.ones(3)
    with da.init(devices=2, kind="host"):
        y = da.ones(3)
    with pytest.raises(da.DeviceError, match=r"different contexts.*asarray"):
        x + y


def test_a_forked_child_is_told_what_to_do():
    code = """
        import os, distarray as da
        x = da.init(devices=2, kind="host") and da.ones(4)
        child = os.fork()
        if child == 0:
            try:
                x + 1
            except da.ForkError as error:
                os._exit(0 if "da.init" in str(error) or "distarray.init" in str(error) else 2)
            os._exit(1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert run(code) == "0"


def test_a_forked_child_makes_its_own_default():
    code = """
        import os, distarray as da
        da.ones(4)
        child = os.fork()
        if child == 0:
            os._exit(0 if float(da.ones(4)[0]) == 1 else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert run(code, DISTARRAY_KIND="host") == "0"


def test_threads_share_an_array(four):
    h = np.arange(4000.0)
    x = da.asarray(h, layout=da.blocks(0))
    e = x * 2
    failures = []

    def work(k):
        try:
            for _ in range(50):
                np.testing.assert_array_equal((e + k).get(), h * 2 + k)
                x[k] += 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures[0]
    np.testing.assert_array_equal(x.get()[:4], h[:4] + 50)


def test_memory_limit_stops_a_gather():
    with da.init(devices=4, kind="host", memory_limit=3_000_000):
        x = da.zeros((1000, 1000), layout=da.blocks(0))
        with pytest.raises(MemoryError, match=r"device \d.*limit"):
            x.reshard(da.replicated())
        np.testing.assert_array_equal(x.get(), 0)
        del x
        y = da.ones((500, 1000), layout=da.blocks(0))
        assert float((y.reshard(da.blocks(1)) + 1).get().sum()) == 1e6


def test_groups_compare_and_place():
    with da.init(devices=3, kind="host") as context:
        x = da.zeros((4, 4), device=[0, 2], layout=da.blocks(0))
        assert x.devices == (0, 2)
        assert da.ones(2, device=x.device).device == x.device == [0, 2] != context.group
        with pytest.raises(da.DeviceError, match="device 7 does not exist"):
            da.zeros(3, device=7)
