"""The pool of threads: kernels in parts by compiled code, Python's functions as jobs, and what happens around them."""

import ctypes
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from jitgrad.kernels import pool_code, split_call, threads
from jitgrad.kernels.compiler import compile_text
from jitgrad.kernels.machine_words import compiled_words
from jitgrad.kernels.split_call import CUT, FIRST, LAST, SplitCall

TEXT = """
def scaled(x, y, factor, limit, out):
    for i in range(out.shape[0]):
        if y[i] > limit:
            raise ValueError("beyond the limit", y[i], i)
        for j in range(out.shape[1]):
            out[i, j] = x[i, j] * factor + y[i]
"""
RANGE = """
def marked(out, whole, first, last):
    for i in range(first, last):
        out[i] += whole
"""


@pytest.fixture(scope="module")
def scaled():
    return SplitCall(compile_text("scaled", TEXT), {0: CUT, 1: CUT, 4: CUT})


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    """Two threads, on a machine of one core as well."""
    before = threads.get_num_threads()
    monkeypatch.setattr(threads, "_most_helpers", lambda: pool_code.MOST_WORKERS)
    threads.set_num_threads(2)
    yield
    threads.set_num_threads(before)


def word(place):
    return ctypes.c_ssize_t.from_address(threads._pool.control + place).value


def arrays(rows, order="C"):
    x = np.asarray(np.random.default_rng(0).standard_normal((rows, 3)), order=order)
    return x, np.arange(float(rows)), np.empty((rows, 3))


@pytest.mark.parametrize("rows", [2, 3, 7, 8, 100, 1001])
def test_parts_make_the_whole(scaled, rows):
    x, y, out = arrays(rows)
    scaled(x, y, 2.0, rows, out)
    np.testing.assert_array_equal(out, x * 2 + y[:, None])
    assert scaled.plans[next(reversed(scaled.plans))] is not None


@pytest.mark.parametrize("change", [lambda a: a[::2], lambda a: a[::-1], np.asfortranarray, np.float32],
                         ids=["strided", "backwards", "column-major", "float32"])  # fmt: skip
def test_layouts_and_dtypes(scaled, change):
    x, y, out = arrays(100)
    x = change(x) if change is not np.float32 else x.astype(change)
    y, out = y[: len(x)], out[: len(x)]
    scaled(x, y, 3, 1000, out)
    np.testing.assert_allclose(out, x * 3 + y[:, None], rtol=1e-5)  # a fused multiply-add rounds once


def test_rows_by_number(monkeypatch):
    marked, out = SplitCall(compile_text("marked", RANGE), {-2: FIRST, -1: LAST}), np.zeros(1000, np.int64)
    marked(out, True, 0, 1000)
    np.testing.assert_array_equal(out, 1)
    # What compiled code cannot read is cut in Python.
    monkeypatch.setattr(split_call, "_Plan", lambda *a: (_ for _ in ()).throw(NotImplementedError))
    marked.plans.clear()
    marked(out, True, 0, 1000)
    np.testing.assert_array_equal(out, 2)


def test_an_exception_in_a_part(scaled):
    x, y, out = arrays(100)
    y[77] = 1000
    with pytest.raises(ValueError) as caught:
        scaled(x, y, 2.0, 999, out)
    assert caught.value.args == ("beyond the limit", 1000.0, caught.value.args[2])
    y[77] = 0
    scaled(x, y, 2.0, 999, out)
    np.testing.assert_array_equal(out, x * 2 + y[:, None])


def test_calls_within_jobs_and_from_many_threads(scaled):
    def job():
        x, y, out = arrays(1000)
        for _ in range(20):
            out.fill(0)
            scaled(x, y, 2.0, 1000, out)
            np.testing.assert_array_equal(out, x * 2 + y[:, None])
        done.append(1)

    def both():
        threads.run_together([(job, ()), (job, ())])

    done = []
    several = [threading.Thread(target=both) for _ in range(4)]
    for thread in several:
        thread.start()
    both()
    for thread in several:
        thread.join()
    assert len(done) == 10
    assert word(pool_code.BUSY) == 0


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("which", [0, 1])
def test_an_error_in_a_job_of_python(kind, which):
    def job(k):
        if k == which:
            raise kind(k)

    with pytest.raises(kind):
        threads.run_together([(job, (0,)), (job, (1,))])
    done = []
    threads.run_together([(done.append, (k,)) for k in range(5)])
    assert sorted(done) == list(range(5))


def test_both_threads_work_at_once():
    meeting = threading.Barrier(2, timeout=60)
    threads.run_together([(meeting.wait, ()), (meeting.wait, ())])


def test_threads_sleep_when_there_is_nothing_to_do(scaled):
    scaled(*arrays(100)[:2], 2.0, 1000, arrays(100)[2])
    wait = threading.Event().wait
    places = [pool_code.WORKERS + pool_code.WORKER_BYTES * k for k in range(len(threads._pool.workers))]
    assert any(all(map(word, places)) or wait(0.001) for _ in range(60_000))


def test_the_number_of_threads_changes(scaled):
    x, y, out = arrays(1000)
    for count in (1, 3, 2, 300, 2):
        threads.set_num_threads(count)
        for _ in range(10):
            out.fill(0)
            scaled(x, y, 2.0, 1000, out)
            np.testing.assert_array_equal(out, x * 2 + y[:, None])


PROGRAM = """
import os, sys, threading
import jitgrad as torch

torch.set_num_threads(2)

def op():
    return (torch.ones(1 << 20) * 2).numpy()

def forever():
    while True:
        op()

def forked():
    child = os.fork()
    if child == 0:
        sys.exit(int(op()[-1]))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2

op()
"""


@pytest.mark.parametrize(
    "end",
    ["", "for _ in range(3): threading.Thread(target=forever, daemon=True).start()\nop()",
     "import atexit; atexit.register(op)", "forked(); op()"],
    ids=["at once", "threads busy", "a call at the exit", "forked"],
)  # fmt: skip
def test_the_process_ends(end):
    if "fork" in end and not hasattr(os, "fork"):
        pytest.skip("no fork on this system")
    done = subprocess.run([sys.executable, "-c", PROGRAM + end], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


LIMIT = 10


def last_even(first, stop):
    """The last even number of a range up to LIMIT that is neither 4 nor 8; -1: there is none."""
    found, k = -1, first
    while k < stop and k < LIMIT:
        if not (k & 1 == 1 or (k == 4 or k == 8)):
            found = k
        k += 1
    return found


def sum_of_last(stop):
    """The sum of ``last_even(0, k)`` for all k below ``stop``, of those before 100 is exceeded."""
    total = 0
    for k in range(stop):
        total = total + last_even(0, k)
        if total > 100:
            break
    return total


def test_functions_on_machine_words():
    addresses = compiled_words("test", [sum_of_last, last_even])
    number = ctypes.c_ssize_t
    compiled = ctypes.CFUNCTYPE(number, number, number)(addresses["last_even"])
    assert [compiled(0, k) for k in range(15)] == [last_even(0, k) for k in range(15)]
    compiled = ctypes.CFUNCTYPE(number, number)(addresses["sum_of_last"])
    assert [compiled(k) for k in range(40)] == [sum_of_last(k) for k in range(40)]
