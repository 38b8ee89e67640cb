"""Random numbers and generator states equal PyTorch's, in mixed sequences."""

import numpy as np
import pytest

from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import random

torch = pytest.importorskip("torch")

SIZES = (1, 2, 5, 15, 16, 17, 31, 300, 624, 1000, 10007)
SEEDS = (0, 3, -1, 2**32 + 3, 2**63, 2**64 - 1, -(2**63))
FUSED = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")


def mkl_draws_bernoulli():
    """Whether PyTorch takes one word here, for MKL's own generator, and not two an element."""
    torch.manual_seed(0)
    torch.empty(4).bernoulli_(0.5)
    return torch.get_rng_state()[16].item() != 8


def packed_state(state):
    packed = np.empty(random.PACKED_BYTES, np.uint8)
    launch(random.pack_state, state, packed)
    return packed


class Pair:
    """The two generators, and what a draw of each gave."""

    def __init__(self, seed):
        torch.manual_seed(seed)
        self.state = np.zeros(random.STATE_WORDS, np.uint32)
        launch(random.seed, self.state, (seed + 2**63) % 2**64 - 2**63)

    def same(self, kernel, expected, *scalars, inputs=()):
        out = np.empty(tuple(expected.shape), expected.numpy().dtype)
        launch(kernel, *inputs, out, self.state, *scalars)
        exact = FUSED or out.dtype.kind != "f"
        np.testing.assert_allclose(
            out, expected.numpy(), rtol=0 if exact else 1e-5, atol=0 if exact else 1e-5
        )
        np.testing.assert_array_equal(packed_state(self.state), torch.get_rng_state().numpy())


def normal(n, dtype):
    if n < 16:
        return random.normal_few
    return random.normal32 if dtype == torch.float32 else random.normal64


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_uniforms_and_normals(seed, dtype):
    pair = Pair(seed)
    uniform = random.uniform32 if dtype == torch.float32 else random.uniform64
    for n in SIZES:
        pair.same(uniform, torch.rand(n, dtype=dtype), 0.0, 1.0)
        pair.same(normal(n, dtype), torch.randn(n, dtype=dtype), 0.0, 1.0)
        pair.same(uniform, torch.empty(n, dtype=dtype).uniform_(-0.3, 9.1), -0.3, 9.1)
        pair.same(normal(n, dtype), torch.empty(n, dtype=dtype).normal_(1.7, 0.3), 1.7, 0.3)
        pair.same(random.log_normal, torch.empty(n, dtype=dtype).log_normal_(0.2, 0.7), 0.2, 0.7)
        pair.same(random.cauchy, torch.empty(n, dtype=dtype).cauchy_(1.0, 2.0), 1.0, 2.0)
        pair.same(random.geometric, torch.empty(n, dtype=dtype).geometric_(0.3), 0.3)


@pytest.mark.skipif(mkl_draws_bernoulli(), reason="this PyTorch draws them from MKL's generator")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_exponential_and_scalar_bernoulli(dtype):
    pair = Pair(11)
    for n in SIZES:
        pair.same(random.exponential, torch.empty(n, dtype=dtype).exponential_(1.7), 1.7)
        pair.same(random.bernoulli, torch.empty(n, dtype=dtype).bernoulli_(0.3), 0.3)
        pair.same(
            random.dropout_mask, torch.nn.functional.dropout(torch.ones(n, dtype=dtype), 0.3), 0.7
        )
    pair.same(random.bernoulli, torch.empty(100, dtype=torch.bool).bernoulli_(0.3), 0.3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_bernoulli_of_probabilities(dtype):
    kernel = random.bernoulli_each32 if dtype == torch.float32 else random.bernoulli_each64
    pair = Pair(12)
    for n in SIZES:
        p = torch.from_numpy(np.random.RandomState(n).rand(n)).to(dtype)
        pair.same(kernel, torch.bernoulli(p), np.zeros(1, np.int64), inputs=(p.numpy(),))
        pair.same(kernel, torch.empty(n, dtype=torch.bool).bernoulli_(p), np.zeros(1, np.int64), inputs=(p.numpy(),))


BOUNDS = [
    (0, 1),
    (0, 10),
    (-5, 1000003),
    (0, 2**28 - 1),
    (0, 2**28),
    (3, 2**40),
    (-(2**63), 2**63 - 1),
]


def same_integers(pair, expected, *bounds):
    first, span, wide = random.integer_range(*bounds)
    pair.same(random.wide_integers if wide else random.integers, expected, first, span)


def test_whole_numbers():
    pair = Pair(13)
    for low, high in BOUNDS:
        expected = torch.randint(low, high, (1000,))
        same_integers(pair, expected, "int64", low, high)
    for name in ("bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64"):
        expected = torch.empty(1000, dtype=getattr(torch, name)).random_()
        same_integers(pair, expected, name)
    for name, low in (("int64", -5), ("int64", -(2**63)), ("int32", -(2**31)), ("float32", -7)):
        expected = torch.empty(1000, dtype=getattr(torch, name)).random_(low, None)
        same_integers(pair, expected, name, low)


@pytest.mark.filterwarnings("ignore:.*out of bounds")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ranges_beyond_a_floats_precision(dtype):
    pair, digits = Pair(14), {"float32": 24, "float64": 53}[dtype]
    for shift in (0, 1, 3, 5):
        edge = 1 << (digits + shift)
        for low, high in (
            (0, edge + 1),
            (-edge - 3, 5),
            (-edge + 1, edge - 1),
            (edge - 9, edge + 40),
        ):
            expected = torch.empty(100, dtype=getattr(torch, dtype)).random_(low, high)
            same_integers(pair, expected, dtype, low, high)


def test_permutations_and_multinomials():
    pair = Pair(15)
    for n in SIZES:
        pair.same(random.permutation, torch.randperm(n))
        pair.same(random.permutation, torch.randperm(n, dtype=torch.int32))
        weights = torch.from_numpy(np.random.RandomState(n).rand(3, n)) + 1e-3
        for w in (weights, weights.float()):
            pair.same(
                random.multinomial, torch.multinomial(w, 20, replacement=True), inputs=(w.numpy(),)
            )


def test_states_are_exchanged():
    pair = Pair(16)
    torch.randn(5), torch.rand(700)
    launch(random.unpack_state, torch.get_rng_state().numpy(), pair.state)
    pair.same(random.normal_few, torch.randn(4), 0.0, 1.0)
    launch(random.uniform32, np.empty(99, np.float32), pair.state, 0.0, 1.0)
    torch.set_rng_state(torch.from_numpy(packed_state(pair.state)))
    pair.same(random.normal32, torch.randn(40), 0.0, 1.0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_normals_of_half_precision_redraw_the_last_block_alone(dtype):
    pair = Pair(17)
    for n in (16, 20, 33, 500):
        expected = torch.empty(n, dtype=dtype).normal_(0.3, 1.7)
        out = np.empty(n, np.float32)
        launch(random.normal32, out[: n - n % 16], pair.state, 0.3, 1.7)
        if n % 16:
            launch(random.normal32, out[n - 16 :], pair.state, 0.3, 1.7)
        assert torch.allclose(torch.from_numpy(out).to(dtype), expected, rtol=0 if FUSED else 1e-2)
        np.testing.assert_array_equal(packed_state(pair.state), torch.get_rng_state().numpy())


def test_complex_normals_and_tensors_that_are_not_contiguous():
    pair = Pair(18)
    for n in (3, 9, 20):
        parts = torch.view_as_real(torch.randn(n, dtype=torch.complex64)).reshape(-1)
        pair.same(normal(2 * n, torch.float32), parts, 0.0, 1 / 2**0.5)
    strided = torch.empty(5, 24).t()
    pair.same(random.normal_few, strided.normal_(1.7, 0.3).t().reshape(-1), 1.7, 0.3)
    pair.same(random.uniform32, strided.uniform_().t().reshape(-1), 0.0, 1.0)
