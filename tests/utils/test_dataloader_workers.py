"""DataLoader's worker processes: what they read, what becomes of their errors, and that none is left."""

import errno
import gc
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

import jitgrad
from jitgrad.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="these data sets are local: workers are forked")
FORK = multiprocessing.get_context("fork") if hasattr(os, "fork") else None
BYTES = (1 << 18) + 16  # of samples that go through shared memory


def loader(dataset, **options):
    options = {"num_workers": 2, "multiprocessing_context": FORK, "timeout": 60} | options
    return DataLoader(dataset, **options)


class Calls(Dataset):
    """``function(k)`` for each k."""

    def __init__(self, function, length=8):
        self.function, self.length = function, length

    def __getitem__(self, k):
        return self.function(k)

    def __len__(self):
        return self.length


class Shard(IterableDataset):
    """0 to ``stop``, each worker a part."""

    def __init__(self, stop):
        self.stop = stop

    def __iter__(self):
        info = get_worker_info()
        return iter(range(info.id, self.stop, info.num_workers))


def gone(processes):
    """All have ended, and were waited for."""
    return all(p.exitcode is not None for p in processes)


# -- what is read -----------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [
    {}, {"batch_size": 3}, {"batch_size": 3, "drop_last": True}, {"batch_size": None}, {"shuffle": True},
    {"batch_sampler": [[0, 5], [1], [7, 2, 3]]}, {"sampler": [3, 1, 2], "batch_size": 2}, {"prefetch_factor": 1},
    {"persistent_workers": True}, {"num_workers": 1, "prefetch_factor": 5}, {"in_order": False},
])  # fmt: skip
def test_the_same_batches_as_without_workers(options):
    plain = {k: v for k, v in options.items() if k not in ("num_workers", "prefetch_factor", "persistent_workers")}
    dataset = Calls(lambda k: {"x": k, "t": (jitgrad.tensor([k, -k]), str(k))})
    generators = [jitgrad.Generator().manual_seed(3) for _ in range(2)]
    there = loader(dataset, generator=generators[0], **options)
    here = DataLoader(dataset, generator=generators[1], **plain)
    for _ in range(2):
        found, wanted = [str(b) for b in there], [str(b) for b in here]
        assert found == wanted if options.get("in_order", True) else sorted(found) == sorted(wanted)


def test_iterable():
    assert [b.tolist() for b in loader(Shard(9), batch_size=2)] == [[0, 2], [1, 3], [4, 6], [5, 7], [8]]
    assert list(loader(Shard(3), batch_size=None, num_workers=1)) == [0, 1, 2]
    kept = loader(Shard(6), batch_size=2, persistent_workers=True)
    passes = [[b.tolist() for b in kept] for _ in range(3)]
    assert passes == [[[0, 2], [1, 3], [4], [5]]] * 3


def test_iterable_that_gives_more_than_its_length():
    class Short(Shard):
        def __len__(self):
            return 2

    data = loader(Short(4), batch_size=None)
    assert len(data) == 2
    with pytest.warns(UserWarning, match=r"was reported to be 2.*samples have been fetched.*IterableDataset") as caught:
        assert len(list(data)) == 4
    assert ["but 3 samples" in str(w.message) for w in caught] == [True, False]


def test_worker_info_and_seeds():
    assert get_worker_info() is None
    seen = []

    def sample(k):
        info = get_worker_info()
        assert info.dataset.length == 8 and seen == [info.id] and jitgrad.get_num_threads() == 1
        return info.id, info.num_workers, info.seed, jitgrad.initial_seed(), random.random(), np.random.rand()

    given = loader(Calls(sample), batch_size=None, worker_init_fn=seen.append, generator=jitgrad.Generator())
    first, second = list(given)[:2]
    assert (first[:2], second[:2]) == ([0, 2], [1, 2]) and second[2] == first[2] + 1
    assert first[2] == first[3] and first[4:] != second[4:] and not seen
    drawn = random.Random(first[2]).random()
    assert first[4] == drawn


def test_persistent_workers_stay():
    data = loader(Calls(lambda k: os.getpid()), batch_size=None, persistent_workers=True)
    first = iter(data)
    assert next(first) == first._workers[0].pid  # the rest of this pass is dropped
    assert set(data) == {w.pid for w in first._workers}
    assert iter(data) is first
    del first, data
    gc.collect()


def test_large_arrays_are_shared_and_writable():
    dataset = Calls(lambda k: (np.full(BYTES, k, np.uint8), jitgrad.full((BYTES // 4,), k)), 4)
    kept = []
    for k, (array, tensor) in enumerate(loader(dataset, batch_size=2)):
        assert array.shape == (2, BYTES) and array[:, -1].tolist() == [2 * k, 2 * k + 1]
        assert tensor.dtype is jitgrad.int64 and tensor[1].unique().item() == 2 * k + 1
        assert tensor.is_shared()
        tensor.add_(1)
        kept.append(tensor)
    assert [t[0, 0].item() for t in kept] == [1, 3]


def test_kinds_of_tensors():
    big = jitgrad.arange(BYTES // 8, dtype=jitgrad.float64).reshape(2, -1)
    kinds = [
        big.t(), big[:, ::2], big.to(jitgrad.bfloat16), big.to(jitgrad.complex128).conj(), big.expand(3, 2, -1),
        jitgrad.empty(0, 3), jitgrad.tensor(4), jitgrad.nn.Parameter(big), big.clone().requires_grad_(),
    ]  # fmt: skip
    found = list(loader(Calls(kinds.__getitem__, len(kinds)), batch_size=None))
    for ours, theirs in zip(found, kinds, strict=True):
        assert type(ours) is type(theirs) and ours.dtype is theirs.dtype and ours.equal(theirs)
        assert ours.requires_grad is theirs.requires_grad


def test_files_of_batches_are_closed():
    folder = "/proc/self/fd"
    if not os.path.isdir(folder):
        pytest.skip("no way to count open files")
    data = loader(Calls(lambda k: np.zeros(BYTES)), batch_size=None, persistent_workers=True)
    kept = list(data)
    before = len(os.listdir(folder))
    kept += list(data)
    assert len(os.listdir(folder)) == before and len(kept) == 16


def test_timeouts_of_new_sockets_do_not_matter():
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(30)
    try:
        assert len(list(loader(Calls(lambda k: np.zeros(BYTES)), batch_size=None))) == 8
    finally:
        socket.setdefaulttimeout(before)


def test_workers_are_not_confused_by_those_of_another_loader():
    first = iter(loader(Calls(lambda k: k), batch_size=None))
    second = iter(loader(Calls(lambda k: -k), batch_size=None))
    assert [next(it) for it in (first, second, first, second)] == [0, 0, 1, -1]
    workers = first._workers
    del first  # the second loader's workers have inherited its pipes
    assert gone(workers) and list(second) == [-2, -3, -4, -5, -6, -7]


# -- errors -----------------------------------------------------------------------------------------


class Unusual(Exception):
    """It can't be made of a text alone."""

    def __init__(self, first, second):
        super().__init__(first, second)


def fails(kind, *args):
    def sample(k):
        if k == 3:
            raise kind(*args)
        return k

    return sample


@pytest.mark.parametrize(("kind", "args", "raised"), [
    (ValueError, ("bad sample",), ValueError), (KeyError, ("key",), KeyError), (StopIteration, (), StopIteration),
    (Unusual, (1, 2), RuntimeError), (type("Local", (Exception,), {}), (), RuntimeError),
])  # fmt: skip
def test_errors_of_a_data_set(kind, args, raised):
    batches = iter(loader(Calls(fails(kind, *args)), batch_size=2))
    assert next(batches).tolist() == [0, 1]
    with pytest.raises(raised) as caught:
        next(batches)
    text = str(caught.value)
    known = "RuntimeError" if kind.__name__ == "Local" else kind.__name__  # its class can't be found from here
    assert f"Caught {known} in DataLoader worker process 1.\nOriginal Traceback" in text
    assert f"{kind.__name__}" in text.splitlines()[-1]
    assert "in sample\n    raise kind(*args)" in text and "\\n" not in text
    assert next(batches).tolist() == [4, 5]  # the other batches come all the same
    workers = batches._workers
    del batches, caught
    gc.collect()
    assert gone(workers)


def test_errors_of_worker_init_fn_collate_fn_and_iter():
    def broken(*_):
        raise OSError(errno.EIO, "broken")

    class Broken(Shard):
        __iter__ = broken

    for data in (loader(Calls(int), worker_init_fn=broken), loader(Calls(int), collate_fn=broken), loader(Broken(3))):
        with pytest.raises(OSError, match=r"Caught OSError in DataLoader worker process 0\.(\n.*)*broken"):
            next(iter(data))


def test_samples_that_cannot_be_sent():
    with pytest.raises((AttributeError, RuntimeError), match="in DataLoader worker process 0"):
        next(iter(loader(Calls(lambda k: lambda: k), collate_fn=list)))


@pytest.mark.parametrize(("end", "why"), [
    (lambda: os.kill(os.getpid(), signal.SIGKILL), r"is killed by signal: Killed"),
    (lambda: os.kill(os.getpid(), signal.SIGTERM), r"is killed by signal: Terminated"),
    (lambda: os._exit(3), r"exited unexpectedly with exit code 3"),
    (lambda: sys.exit(4), r"exited unexpectedly with exit code 4"),
])  # fmt: skip
def test_a_worker_that_ends(end, why):
    batches = iter(loader(Calls(lambda k: end() if k == 2 else k), batch_size=None, timeout=0))
    workers = batches._workers
    with pytest.raises(RuntimeError, match=rf"worker \(pid\(s\) {workers[0].pid}\) exited unexpectedly") as caught:
        list(batches)
    assert caught.match("") is None or caught.value.__cause__.args[0].startswith("DataLoader worker (pid ")
    with pytest.raises(RuntimeError, match=why):
        raise caught.value.__cause__
    del batches, caught
    gc.collect()
    assert gone(workers)


def test_a_worker_that_is_killed_between_batches():
    batches = iter(loader(Calls(lambda k: np.zeros(BYTES), 100), batch_size=None, timeout=0))
    next(batches)
    batches._workers[1].kill()
    batches._workers[1].join()
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        list(batches)


def test_timeout():
    asleep = FORK.Event()
    batches = iter(loader(Calls(lambda k: asleep.wait()), timeout=0.01))
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0.01 seconds"):
        next(batches)
    asleep.set()


def test_workers_that_cannot_be_started():
    data = loader(Calls(lambda k: k), multiprocessing_context="spawn")
    before = multiprocessing.active_children()
    with pytest.warns(UserWarning, match="Got pickle error"), pytest.raises(Exception, match=r"[Cc]an't pickle|local"):
        iter(data)
    assert multiprocessing.active_children() == before


# -- no process is left -------------------------------------------------------------------------------


@pytest.mark.parametrize("taken", [0, 1, 8])
@pytest.mark.parametrize("persistent", [False, True])
def test_an_abandoned_iterator_leaves_no_process(taken, persistent):
    data = loader(Calls(lambda k: k), persistent_workers=persistent, prefetch_factor=4)
    batches = iter(data)
    for _ in range(taken):
        next(batches)
    workers = batches._workers
    del batches, data
    gc.collect()
    assert gone(workers) and not set(workers) & set(multiprocessing.active_children())


def test_indices_that_fill_the_pipe():
    data = loader(Calls(lambda k: k, 200_000), batch_size=40_000, num_workers=1, collate_fn=len)
    batches = iter(data)
    assert next(batches) == 40_000
    workers = batches._workers
    del batches
    gc.collect()
    assert gone(workers)


INTERRUPTED = """
import os, signal, sys
from jitgrad.utils.data import DataLoader

class Endless:
    def __len__(self):
        return 1 << 30
    def __getitem__(self, k):
        return k

batches = iter(DataLoader(Endless(), batch_size=4, num_workers=2))
print(*[w.pid for w in batches._workers], flush=True)
for batch in batches:
    if batch[0] == 400 and sys.argv[1] == "raise":
        raise ValueError
    if batch[0] == 400:
        os.killpg(os.getpgid(0), signal.SIGINT) if sys.argv[1] == "group" else os.kill(os.getpid(), int(sys.argv[1]))
"""


@pytest.mark.parametrize("how", ["group", str(int(signal.SIGINT)), str(int(signal.SIGKILL)), "raise"])
def test_an_interrupted_program_leaves_no_process(how):
    program = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, how], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    output, errors = program.communicate(timeout=120)  # the ends of these pipes are the workers', too
    assert program.returncode != 0 and len(output.split()) == 2
    assert "DataLoader worker" not in errors
    if how in ("group", str(int(signal.SIGINT))):
        assert errors.rstrip().endswith("KeyboardInterrupt")
    for pid in map(int, output.split() if how != str(int(signal.SIGKILL)) else ()):  # orphans are waited for by others
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_workers_while_other_threads_compute():
    end, x = threading.Event(), jitgrad.ones(1 << 18)

    def compute():
        while not end.is_set():
            x.exp().sum()

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        found = list(loader(Calls(lambda k: (x[:4] * k).sum()), batch_size=4))
        assert [t.tolist() for t in found] == [[0, 4, 8, 12], [16, 20, 24, 28]]
    finally:
        end.set()
        thread.join()


SPAWNED = """
import multiprocessing, sys
import jitgrad as torch
from jitgrad.utils.data import DataLoader, TensorDataset, get_worker_info

def number(worker):
    assert get_worker_info().id == worker

if __name__ == "__main__":
    data = TensorDataset(torch.arange(6), torch.eye(6))
    loader = DataLoader(data, 2, num_workers=1, multiprocessing_context=sys.argv[1], worker_init_fn=number)
    print([labels.tolist() for labels, rows in loader], data.tensors[0].is_shared())
"""


@pytest.mark.parametrize("method", [m for m in multiprocessing.get_all_start_methods() if m != "fork"])
def test_other_ways_to_start(method, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(SPAWNED)
    done = subprocess.run([sys.executable, program, method], capture_output=True, text=True, timeout=240)
    assert done.stdout == "[[0, 1], [2, 3], [4, 5]] True\n" and not done.stderr, done.stderr


# -- options ----------------------------------------------------------------------------------------


def test_no_workers_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DataLoader(jitgrad.arange(4), num_workers=0, pin_memory=True)


def test_pin_memory_without_an_accelerator():
    if jitgrad.cuda.is_available():
        pytest.skip("there is one")
    with pytest.warns(UserWarning, match="'pin_memory' argument is set as true but no accelerator is found") as caught:
        assert [b.tolist() for b in DataLoader([1, 2], pin_memory=True)] == [[1], [2]]
    assert caught[0].filename == __file__


def test_more_workers_than_cores():
    with pytest.warns(UserWarning, match="This DataLoader will create 4096 worker processes in total") as caught:
        DataLoader([1], num_workers=4096)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(("options", "message"), [
    ({"num_workers": -1}, "num_workers option should be non-negative; use num_workers=0"),
    ({"timeout": -1}, "timeout option should be non-negative"),
    ({"prefetch_factor": 2}, "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0"),
    ({"num_workers": 1, "prefetch_factor": -1}, "prefetch_factor option should be non-negative"),
    ({"persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
    ({"multiprocessing_context": "fork"}, "multiprocessing_context can only be used with multi-process loading"),
    ({"num_workers": 1, "multiprocessing_context": "x"}, "should specify a valid start method in .*'x'"),
])  # fmt: skip
def test_options_that_need_workers(options, message):
    with pytest.raises(ValueError, match=message):
        DataLoader(jitgrad.arange(4), **options)


def test_wrong_types_of_options():
    with pytest.raises(TypeError, match="should be a valid context object or a string"):
        DataLoader([1], num_workers=1, multiprocessing_context=3)
    with pytest.raises(AssertionError, match="prefetch_factor must be greater than 0"):
        iter(DataLoader([1], num_workers=1, prefetch_factor=0))
    with pytest.raises(NotImplementedError, match="cannot be pickled"):
        iter(DataLoader([1])).__getstate__()


def test_fixed_attributes():
    data = DataLoader(TensorDataset(jitgrad.arange(4)))
    for name in ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"):
        with pytest.raises(ValueError, match=f"{name} attribute should not be set after DataLoader is initialized"):
            setattr(data, name, None)
    data.num_workers = 0
