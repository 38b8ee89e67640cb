"""Memory of large arrays is kept for the next ones, given out once, and never grows the peak."""

import gc
import os
import platform
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.core import block_pool
from jitgrad.core.block_pool import MIN_BYTES, BlockPool, pool
from jitgrad.core.storage import empty_for

N = MIN_BYTES // 4  # elements of the smallest float32 tensors that the pool makes
# Not by MIN_BYTES: where glibc does not take the option these tests are to fail.
_of_glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or "GLIBC_TUNABLES" in os.environ or bool(block_pool._SETTINGS & {*os.environ}),
    reason="another C library, or options of the user's",
)


@pytest.fixture(autouse=True)
def nothing_kept():
    gc.collect()
    torch.cpu.empty_cache()
    assert pool.kept_bytes == 0 and not pool.kept


def kept_blocks(of):
    return sum(len(blocks) for blocks in of.kept.values())


def array_of(own, nbytes):
    return own.array((nbytes,), np.dtype(np.uint8), block_pool.block_size(nbytes))


def test_a_freed_block_is_given_out_again():
    x = torch.empty(N)
    address = x.data_ptr()
    del x
    assert pool.kept_bytes == MIN_BYTES
    y = torch.ones(512, N // 512)
    assert y.data_ptr() == address and pool.kept_bytes == 0


def test_blocks_begin_where_a_cache_line_does():
    assert [torch.empty(N + k * 1000).data_ptr() % 64 for k in range(5)] == [0] * 5


def test_small_tensors_are_no_business_of_the_pool():
    x = torch.empty(N - 1)
    assert x.numpy().base is None
    del x
    assert pool.kept_bytes == 0


@pytest.mark.parametrize("keep", [
    lambda x: x[3:5], lambda x: x.numpy(), lambda x: x.numpy()[::2], lambda x: x.detach(), lambda x: x.view(2, -1)[1],
    lambda x: memoryview(x.numpy()), lambda x: np.asarray(memoryview(x.numpy())), lambda x: torch.from_numpy(x.numpy()),
    lambda x: torch.from_dlpack(x), lambda x: torch.ones(N, requires_grad=True) * x,
])  # fmt: skip
def test_a_block_is_in_use_as_long_as_anything_shows_it(keep):
    x = torch.full((N,), 7.0)
    address, kept = x.data_ptr(), keep(x)
    del x
    gc.collect()
    others = [torch.zeros(N) for _ in range(3)]
    assert all(o.data_ptr() != address for o in others)
    assert np.asarray(torch.as_tensor(kept[1]).detach()) == 7
    del kept
    gc.collect()
    assert torch.empty(N).data_ptr() == address


def test_saved_tensors_and_gradients_survive():
    x = torch.full((N,), 3.0, requires_grad=True)
    y = x * x  # the node holds x; y dies
    z = y * y
    del y
    trash = [torch.zeros(N) for _ in range(4)]
    z.backward(torch.ones(N))
    del z, trash
    noise = [torch.zeros(N) for _ in range(8)]
    assert float(x.grad[5]) == 4 * 27 and float(x.grad.sum() / N) == 4 * 27 and len(noise) == 8


def test_strides_other_than_row_major():
    x = torch.ones(1024, 256).t() + torch.ones(1024, 256).t()
    assert x.stride() == (1, 256)
    address = x.data_ptr()
    del x
    assert pool.kept_bytes >= MIN_BYTES
    assert any(torch.empty(1024 * 256).data_ptr() == address for _ in range(2))


def test_a_miss_frees_as_much_as_is_allocated():
    own = BlockPool(always=0)
    arrays = [array_of(own, MIN_BYTES) for _ in range(8)]
    del arrays
    assert own.kept_bytes == 8 * MIN_BYTES
    large = array_of(own, 4 * MIN_BYTES)
    assert own.kept_bytes == 4 * MIN_BYTES  # kept and used together are what they were
    del large
    assert own.kept_bytes == 8 * MIN_BYTES
    assert array_of(own, 96 * MIN_BYTES).nbytes == 96 * MIN_BYTES
    assert own.kept_bytes == 96 * MIN_BYTES


def test_the_size_that_was_long_not_asked_for_goes_first():
    own = BlockPool(always=0)
    first, second = array_of(own, MIN_BYTES), array_of(own, 2 * MIN_BYTES)
    del first
    del second
    array_of(own, MIN_BYTES)  # taken and given back: now 2 MB is the older size
    third = array_of(own, 3 * MIN_BYTES // 2)
    assert list(own.kept) == [MIN_BYTES] and third.nbytes


def test_no_more_is_kept_than_the_limit(monkeypatch):
    monkeypatch.setattr(block_pool, "KEPT_BYTES", 2 * MIN_BYTES)
    own = BlockPool()
    arrays = [array_of(own, MIN_BYTES) for _ in range(4)]
    del arrays
    assert own.kept_bytes == 2 * MIN_BYTES
    own.clear()
    assert own.kept_bytes == 0 and not own.kept


@pytest.mark.parametrize("nbytes", [MIN_BYTES, MIN_BYTES + 1, 3_000_001, 12_800_000, (1 << 30) - 1])
def test_sizes_are_rounded_by_a_sixteenth_at_most(nbytes):
    size = block_pool.block_size(nbytes)
    assert nbytes <= size <= nbytes * 1.0625 and block_pool.block_size(size) == size


def test_the_array_is_freed_before_its_block_is_given_out():
    own = BlockPool()
    array = array_of(own, MIN_BYTES)
    gone = []
    watch = weakref.ref(array, lambda _: gone.append(kept_blocks(own)))
    del array
    assert gone and watch() is None and kept_blocks(own) == 1


def test_whoever_finds_the_lock_taken_does_without():
    own = BlockPool()
    array = array_of(own, MIN_BYTES)
    with own.lock:
        del array  # its block is freed
        other = array_of(own, MIN_BYTES)
    assert own.kept_bytes == 0 and other.nbytes == MIN_BYTES


def test_arrays_in_cycles_return_their_memory():
    class Holder:
        pass

    holder = Holder()
    holder.self, holder.tensor = holder, torch.empty(N)
    del holder
    gc.collect()
    assert pool.kept_bytes == MIN_BYTES


def test_threads_never_share_a_block():
    errors = []

    def work(number):
        for turn in range(200):
            x = torch.full((N + number % 2,), float(number))
            y = x[: N // 2]
            del x
            if not bool((y == number).all()):
                errors.append((number, turn))

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not errors
    assert pool.kept_bytes == sum(size * len(blocks) for size, blocks in pool.kept.items())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_has_memory_of_its_own():
    x, spare = torch.ones(N), torch.ones(N)
    del spare
    pool.lock.acquire()  # as if another thread were in the pool
    try:
        child = os.fork()
        if not child:
            y = torch.full((N,), 5.0)
            x.fill_(3)
            fine = float(y.sum()) == 5 * N and not pool.lock.locked() and pool.kept_bytes == 0
            os._exit(0 if fine else 1)
    finally:
        pool.lock.release()
    assert os.waitpid(child, 0)[1] == 0
    assert float(x.sum()) == N and float(torch.full((N,), 2.0).sum()) == 2 * N


def test_memory_that_is_not_there():
    spare = torch.ones(N)
    del spare
    with pytest.raises(RuntimeError, match=r"DefaultCPUAllocator: .* you tried to allocate 4611686018427387904 bytes"):
        torch.empty(1 << 60)
    assert pool.kept_bytes == 0  # it was tried once more without


def test_names_of_pytorch():
    assert torch.cpu.is_available() and torch.cpu.is_initialized() and torch.cpu.device_count() == 1
    assert torch.cpu.current_device() == "cpu"
    torch.cpu.set_device("cpu")
    torch.cpu.synchronize()


def test_every_large_result_is_the_pools():
    assert empty_for(torch.empty(N)._layout).base is not None
    x = torch.rand(256, N // 256)
    results = {
        "+": x + x, "softmax": x.softmax(1), "cumsum": x.cumsum(0), "zeros": torch.zeros(N), "clone": x.clone(),
        "t": x.t().contiguous(), "matmul": x @ torch.rand(N // 256, N // 256), "layer_norm":
        torch.nn.functional.layer_norm(x, x.shape[1:]),
    }  # fmt: skip
    assert [name for name, r in results.items() if r._data.base is None] == []


def test_arrays_of_many_sizes_do_not_free_one_another():
    """A step after the first finds all its blocks, although never all of them are in use at a time."""
    own = BlockPool()
    sizes = [MIN_BYTES * k for k in (1, 2, 3, 5, 8)]
    blocks = set()
    for _ in range(3):
        addresses = set()
        for size in sizes:
            array = array_of(own, size)
            addresses.add(array.ctypes.data)
            del array
        blocks.add(frozenset(addresses))
    assert len(blocks) == 1 and own.kept_bytes == sum(sizes)


@_of_glibc
@pytest.mark.parametrize(
    ("settings", "smallest"),
    [
        ({}, 1 << 20), ({"MALLOC_MMAP_THRESHOLD_": "65536"}, 1 << 17),
        ({"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=1000"}, 1 << 17),
    ],
)  # fmt: skip
def test_options_of_malloc_that_a_user_has_set_stay(settings, smallest):
    """The pool then has all arrays that glibc would map anew."""
    program = "from jitgrad.core.block_pool import MIN_BYTES; print(MIN_BYTES)"
    environment = {**os.environ, **settings}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert int(done.stdout) == smallest


@_of_glibc
def test_a_step_of_small_tensors_faults_no_pages():
    """40 MB of tensors that the pool does not make stay with the process when a step frees them."""
    resource = pytest.importorskip("resource")

    def step():
        tensors = [torch.zeros(MIN_BYTES // 8) for _ in range(80)]
        return len(tensors)

    for _ in range(3):
        step()
    faults = []
    for _ in range(3):  # the least: systems that take back idle pages may do so between two steps
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(5):
            step()
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    assert min(faults) < 5 * 40 * 256 // 10  # a page is 4 KB
