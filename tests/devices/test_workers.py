"""The workers: what runs where, what travels with it, and how it ends."""

from __future__ import annotations

import contextvars
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
import weakref

import numpy as np
import pytest

from distarray.devices import Workers, cpu_count
from distarray.devices.workers import INLINE_BYTES


def test_every_task_runs_once_on_two_threads(workers):
    barrier = threading.Barrier(2)
    seen = []

    def meet():
        barrier.wait(30)  # passes only if two threads are here at once
        seen.append(threading.get_ident())

    workers.run([meet] * 2, 1)
    assert len(set(seen)) == 2
    assert threading.get_ident() in seen
    for count in (0, 1, 2, 3, 100):
        ran = []
        workers.run([lambda i=i, ran=ran: ran.append(i) for i in range(count)], 1)
        assert sorted(ran) == list(range(count))


@pytest.mark.parametrize(("cores", "tasks", "nbytes"), [(4, 4, INLINE_BYTES - 1), (4, 1, 1 << 40), (1, 4, 1 << 40)])
def test_inline(cores, tasks, nbytes):
    workers = Workers(cores)
    seen = []
    workers.run([lambda: seen.append(threading.get_ident())] * tasks, nbytes)
    assert seen == [threading.get_ident()] * tasks
    assert workers.threads_for(tasks, nbytes) == 1
    assert workers._threads == []


def test_threads_are_no_more_than_tasks_or_cores():
    workers = Workers(3)
    assert [workers.threads_for(n, INLINE_BYTES) for n in (0, 1, 2, 3, 9)] == [1, 1, 2, 3, 3]


@pytest.mark.parametrize("inline_bytes", [0, 1 << 40])
def test_the_first_error_in_order_is_raised_after_all_have_ended(inline_bytes):
    workers = Workers(2, inline_bytes)
    running = threading.Event()
    ended = []

    def slow_failure():
        if not inline_bytes:
            running.wait(30)
            time.sleep(0.05)
        ended.append(0)
        raise ValueError("first")

    def fast_failure():
        running.set()
        ended.append(1)
        raise KeyError("second")

    with pytest.raises(ValueError, match="first"):
        workers.run([slow_failure, fast_failure] + [lambda: ended.append(2)] * 50, 1)
    assert 0 in ended
    assert 2 not in ended
    workers.run([lambda: ended.append(3)] * 2, 1)  # and the threads live on
    assert ended.count(3) == 2


def test_a_helper_still_running_is_waited_for(workers):
    started = threading.Event()
    ended = []

    def helper():
        started.set()
        time.sleep(0.1)
        ended.append(True)

    def fail():
        started.wait(30)
        raise ValueError

    for _ in range(3):
        started.clear()
        with pytest.raises(ValueError):
            workers.run([fail, helper], 1)
    assert len(ended) == 3


def test_an_error_leaves_no_cycle_behind(workers):
    class Data:
        pass

    data = Data()
    reference = weakref.ref(data)

    def fail(data=data):
        raise ValueError

    gc.disable()
    try:
        with pytest.raises(ValueError):
            workers.run([fail, fail], 1)
        del data, fail
        # pytest's own exception info is gone too; a helper that wakes late holds the job, without its tasks
        assert reference() is None or gc.collect() >= 0
    finally:
        gc.enable()
    assert reference() is None


def test_tasks_are_not_held_after_the_call(workers):
    barrier = threading.Barrier(2)
    array = np.zeros(4)

    def meet(array=array):
        barrier.wait(30)

    workers.run([meet, meet], 1)
    count = sys.getrefcount(array)
    del meet
    assert sys.getrefcount(array) == count - 1


def test_errstate_and_context_variables_travel(workers):
    barrier = threading.Barrier(2)
    variable = contextvars.ContextVar("variable", default=0)
    seen = []

    def divide():
        barrier.wait(30)
        seen.append((variable.get(), np.geterr()["divide"]))
        np.ones(3) / np.zeros(3)

    variable.set(5)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        workers.run([divide] * 2, 1)
    with np.errstate(divide="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        workers.run([divide] * 2, 1)
    assert seen == [(5, "raise")] * 2 + [(5, "ignore")] * 2
    calls = []
    with np.errstate(divide="call", call=lambda *args: calls.append(args)):
        workers.run([divide] * 2, 1)
    assert len(calls) == 2


def test_a_nested_run_is_inline(workers):
    barrier = threading.Barrier(2)
    same = []

    def outer():
        barrier.wait(30)
        me = threading.get_ident()
        workers.run([lambda: same.append(threading.get_ident() == me)] * 3, 1 << 40)
        assert workers.threads_for(9, 1 << 40) == 1

    workers.run([outer] * 2, 1)
    assert same == [True] * 6
    assert workers.threads_for(2, 1) == 2


def test_several_threads_may_call_run(workers):
    totals = []

    def call():
        ran = []
        for _ in range(200):
            workers.run([lambda: ran.append(1)] * 5, 1)
        totals.append(len(ran))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert totals == [1000] * 4


def test_an_interrupt_waits_for_the_helpers_and_is_raised(workers):
    started, ended = threading.Event(), []
    main = threading.current_thread()

    def task():
        if threading.current_thread() is main:
            started.wait(30)
        else:
            started.set()
            time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)
            ended.append(True)

    gc.disable()  # an interrupt that meets a callback of the collector ends there, as anywhere in Python
    try:
        with pytest.raises(KeyboardInterrupt):
            workers.run([task, task], 1)
    finally:
        gc.enable()
    assert ended == [True]
    workers.run([lambda: ended.append(True)] * 2, 1)
    assert len(ended) == 3


def blas_threads():
    from threadpoolctl import threadpool_info

    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_limit_blas_nests_and_restores():
    workers, other = Workers(8), Workers(4)
    found = blas_threads()
    with workers.limit_blas(2):  # 4 each
        assert blas_threads() == [min(n, 4) for n in found]
        with other.limit_blas():  # 1 each
            assert blas_threads() == [1 for _ in found]
        assert blas_threads() == [min(n, 4) for n in found]
    assert blas_threads() == found
    first, second = workers.limit_blas(8), other.limit_blas(4)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)  # the first in is the first out: another context's block goes on
    assert blas_threads() == [1 for _ in found]
    second.__exit__(None, None, None)
    assert blas_threads() == found


def test_limit_blas_does_nothing_inline(workers):
    found = blas_threads()
    with workers.limit_blas(1):
        assert blas_threads() == found
    workers.run([lambda: None], 1 << 40, blas=True)
    seen = []
    workers.run([lambda: seen.append(blas_threads())] * 2, 1, blas=True)
    assert seen == [[1 for _ in found]] * 2
    assert blas_threads() == found


def test_shutdown_joins_and_later_runs_are_inline(workers):
    barrier = threading.Barrier(2)
    workers.run([lambda: barrier.wait(30)] * 2, 1)
    threads = list(workers._threads)
    assert threads
    workers.shutdown()
    workers.shutdown()
    assert not any(thread.is_alive() for thread in threads)
    seen = []
    workers.run([lambda: seen.append(threading.get_ident())] * 4, 1 << 40)
    assert set(seen) == {threading.get_ident()}


def test_threads_end_when_the_workers_are_collected():
    workers = Workers(2, 0)
    barrier = threading.Barrier(2)
    workers.run([lambda: barrier.wait(30)] * 2, 1)
    threads = list(workers._threads)
    assert threads
    del workers
    gc.collect()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_forked_child_is_told_what_to_do():
    program = """
import os
from distarray.devices import HostDevice, Workers
from distarray.errors import ForkError
workers, host = Workers(2, 0), HostDevice(0)
chunk = host.full((1 << 20,), "u1", 4)
workers.run([lambda: None] * 2, 1)
pid = os.fork()
if pid == 0:
    code = 1
    try:
        workers.run([lambda: None] * 2, 1)
    except ForkError as error:
        if str(error).endswith("create a new context in the child with da.init()"):
            del chunk                       # finalisers work in the child
            workers.shutdown()              # and there is nothing to join
            Workers(2, 0).run([lambda: None] * 2, 1)
            code = 0 if host.allocated == 0 else 2
    os._exit(code)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
workers.run([lambda: None] * 2, 1)
print("done")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "done\n", done.stderr


def test_a_busy_thread_does_not_hold_up_the_exit():
    program = """
import threading, time
from distarray.devices import Workers
workers, started = Workers(2, 0), threading.Event()
def task():
    if threading.current_thread().name.startswith("distarray"):
        started.set()
        time.sleep(1000)
    started.wait(30)
threading.Thread(target=lambda: workers.run([task, task], 1), daemon=True).start()
started.wait(30)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_cpu_count():
    assert 1 <= cpu_count() <= (os.cpu_count() or 1)
