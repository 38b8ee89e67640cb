"""jitgrad.multiprocessing: tensors that processes share, and processes that are started together."""

import gc
import multiprocessing
import os
import pickle
import signal

import numpy as np
import pytest

import jitgrad
from jitgrad import multiprocessing as mp
from jitgrad.core.shared_memory import SharedMemory

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="functions are local: processes are forked")
FORK = multiprocessing.get_context("fork") if hasattr(os, "fork") else None


def run(function, *args):
    """Call a function in a process of its own, which must not fail."""
    process = FORK.Process(target=function, args=args)
    process.start()
    process.join(60)
    assert process.exitcode == 0


# -- shared memory ------------------------------------------------------------------------------------


def test_everything_of_pythons_package():
    for name in multiprocessing.__all__:
        assert getattr(mp, name) is getattr(multiprocessing, name)
    assert jitgrad.multiprocessing is mp and set(multiprocessing.__all__) < set(mp.__all__)


@pytest.mark.parametrize("make", [
    lambda: jitgrad.arange(6.0), lambda: jitgrad.tensor(3), lambda: jitgrad.ones(2, 3).to(jitgrad.bfloat16),
    lambda: jitgrad.ones(3, dtype=jitgrad.bool), lambda: jitgrad.arange(6).reshape(2, 3).t(),
    lambda: jitgrad.ones(3, dtype=jitgrad.complex64).mul(2j).conj(), lambda: jitgrad.empty(0, 2),
    lambda: jitgrad.nn.Parameter(jitgrad.ones(2)),
])  # fmt: skip
def test_share_memory_keeps_all_else(make):
    shared, plain = make(), make()
    assert not shared.is_shared()
    assert shared.share_memory_() is shared and shared.is_shared() and shared.share_memory_().is_shared()
    assert shared.equal(plain) and shared.stride() == plain.stride() and type(shared) is type(plain)
    assert shared.is_conj() == plain.is_conj() and shared.requires_grad == plain.requires_grad
    assert shared._version == plain._version


def test_a_forked_process_writes_to_shared_memory():
    x = jitgrad.zeros(3).share_memory_()
    run(lambda: x.add_(2))
    assert x.tolist() == [2, 2, 2]


def test_base_and_views_move_together():
    x = jitgrad.arange(6.0)
    first, rows = x[1:3], x.view(2, 3)
    column = rows[:, 1].share_memory_()
    assert all(t.is_shared() for t in (x, first, rows))
    first.zero_()
    x[4] = 9
    assert column.tolist() == [0, 9] and rows.tolist() == [[0, 0, 0], [3, 9, 5]]


def test_memory_that_is_shared_by_two_tensors():
    x = jitgrad.arange(3.0)
    y = x.detach()
    x.share_memory_()
    y.share_memory_().add_(1)
    assert x.tolist() == [1, 2, 3]
    z = jitgrad.arange(3.0)
    y = z.detach()
    z.share_memory_()
    y.add_(1)  # a write that the moved tensor does not see
    y.share_memory_()
    assert (y.tolist(), z.tolist()) == ([1, 2, 3], [0, 1, 2])


def test_gradients_of_shared_parameters():
    p = jitgrad.nn.Parameter(jitgrad.ones(2))
    loss = (p * 3).sum()
    p.share_memory_()
    loss.backward()
    with jitgrad.no_grad():
        p -= p.grad
    assert p.tolist() == [-2, -2]


def test_memory_and_files_are_freed():
    folder = "/proc/self/fd"
    if not os.path.isdir(folder):
        pytest.skip("no way to count open files")
    gc.collect()
    before = len(os.listdir(folder))
    kept = [jitgrad.ones(4).share_memory_() for _ in range(5)]
    assert len(os.listdir(folder)) == before + 5
    view = kept[0][1:]
    del kept
    gc.collect()
    assert len(os.listdir(folder)) == before + 1 and view.tolist() == [1, 1, 1]
    del view
    gc.collect()
    assert len(os.listdir(folder)) == before


def test_memory_that_there_is_not():
    with pytest.raises((RuntimeError, OSError)):
        SharedMemory(1 << 62)
    memory = SharedMemory(0)
    assert memory.array().shape == (0,)


# -- what is sent -------------------------------------------------------------------------------------


def test_queues_share_what_is_put_into_them():
    there, back = FORK.Queue(), FORK.Queue()

    def serve():
        x, p = there.get()
        x.mul_(2)
        with jitgrad.no_grad():
            p.zero_()
        back.put((x, x[1:], jitgrad.ones(2)))
        there.get()  # what was sent has arrived

    process = FORK.Process(target=serve, daemon=True)
    process.start()
    x, p = jitgrad.arange(4.0), jitgrad.nn.Parameter(jitgrad.ones(2))
    x.tag = "x"
    there.put((x, p))
    same, part, other = back.get(timeout=60)
    assert x.is_shared() and x.tolist() == [0, 2, 4, 6] and p.tolist() == [0, 0] and other.tolist() == [1, 1]
    same[3] = -1
    assert part.tolist() == [2, 4, -1] and x[3].item() == -1 and same.tag == "x"
    there.put(None)
    process.join(60)
    assert process.exitcode == 0


def test_results_of_recorded_ops_are_not_sent():
    x = jitgrad.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor which requires_grad"):
        multiprocessing.reduction.ForkingPickler.dumps(x)
    assert pickle.loads(pickle.dumps(x)).tolist() == [2, 2]  # a copy, as ever


def test_pool():
    with FORK.Pool(2) as pool:
        assert [t.tolist() for t in pool.map(jitgrad.neg, [jitgrad.ones(2), jitgrad.arange(2)])] == [[-1, -1], [0, -1]]


def test_strategies():
    known = mp.get_all_sharing_strategies()
    assert "file_system" in known and mp.get_sharing_strategy() in known
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy("file_system")
    assert mp.get_sharing_strategy() == "file_system"
    mp.set_sharing_strategy(before)
    with pytest.raises(AssertionError, match="invalid sharing strategy 'none', expected one of"):
        mp.set_sharing_strategy("none")


# -- processes ----------------------------------------------------------------------------------------


def start(function, *args, count=2, join=True):
    return mp.start_processes(function, args, nprocs=count, join=join, start_method="fork")


def test_processes_that_are_started_together():
    seen = jitgrad.zeros(3).share_memory_()
    assert start(lambda i, x: x[i].fill_(i + 1), seen, count=3) is None
    assert seen.tolist() == [1, 2, 3]
    context = start(lambda i: None, join=False)
    assert context.pids() == [p.pid for p in context.processes]
    while not context.join():
        pass
    assert context.join() and [p.exitcode for p in context.processes] == [0, 0]


def wait_in(kind):
    """A function that ends in some way in process 1; the other waits for ever."""

    def work(i):
        if i == 1:
            kind()
        signal.pause()

    return work


def fail():
    raise ValueError("failed here")


@pytest.mark.parametrize(("kind", "error", "text", "code"), [
    (fail, mp.ProcessRaisedException, "\n\n-- Process 1 terminated with the following error:\nTraceback", None),
    (lambda: os._exit(5), mp.ProcessExitedException, "process 1 terminated with exit code 5", 5),
    (lambda: os.kill(os.getpid(), 9), mp.ProcessExitedException, "process 1 terminated with signal SIGKILL", -9),
])  # fmt: skip
def test_one_process_fails(kind, error, text, code):
    context = start(wait_in(kind), join=False)
    with pytest.raises(error) as caught:
        while not context.join():
            pass
    assert str(caught.value).startswith(text) and caught.value.error_index == 1
    assert caught.value.error_pid == context.pids()[1] and getattr(caught.value, "exit_code", None) == code
    assert ("ValueError: failed here" in str(caught.value)) == (kind is fail)
    assert all(p.exitcode is not None for p in context.processes)
    assert not any(os.path.exists(f) for f in context.error_files)
    copied = pickle.loads(pickle.dumps(caught.value))
    assert vars(copied) == vars(caught.value) and type(copied) is error


def test_former_names():
    with pytest.warns(UserWarning, match="SpawnContext is renamed to ProcessContext") as caught:
        mp.SpawnContext([], [])
    assert caught[0].filename == __file__
    with pytest.warns(FutureWarning, match="only supports start_method=spawn .got: fork."):
        mp.spawn(fail, nprocs=0, start_method="fork")


def test_arrays_are_sent_as_ever():
    queue = FORK.SimpleQueue()
    queue.put(np.arange(3))
    assert queue.get().tolist() == [0, 1, 2]
