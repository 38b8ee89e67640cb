"""What Numba's simulator of CUDA is put right about. ``test_cuda.py`` runs this in the simulator."""

import sys
import threading

import numpy as np
import pytest

from jitgrad.kernels.cuda import provider
from jitgrad.kernels.cuda.driver import SIMULATED

pytestmark = pytest.mark.skipif(not SIMULATED, reason="not in the simulator")


@pytest.fixture
def hasty():
    """Threads switch at every chance: without a lock one block in five gets two arrays."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def arrays_of_a_block(threads, dtype):
    """What each of the threads of one block is given as its shared array."""
    shared = provider.provider().simulator.kernelapi.FakeCUDAShared(0)
    start, given = threading.Barrier(threads), []

    def kernel():
        start.wait()
        given.append(shared.array(4, dtype))

    running = [threading.Thread(target=kernel) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return given


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_threads_share_one_array(hasty, dtype):
    for _ in range(60):
        given = arrays_of_a_block(8, dtype)
        assert len({id(a) for a in given}) == 1
        assert given[0].dtype == dtype
        assert given[0].shape == (4,)


def test_two_places_have_two_arrays():
    shared = provider.provider().simulator.kernelapi.FakeCUDAShared(0)
    first, second = shared.array(4, np.float32), shared.array(4, np.float32)
    assert first is not second
