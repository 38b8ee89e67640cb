"""Random tensors: reproducible, of the right kind and distribution; states, and errors."""

import itertools
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import jitgrad as torch

DRAWS = [
    lambda: torch.rand(5),
    lambda: torch.randn(3, 7),
    lambda: torch.randn(20, dtype=torch.float64),
    lambda: torch.randint(0, 100, (9,)),
    lambda: torch.randperm(30),
    lambda: torch.bernoulli(torch.full((20,), 0.5)),
    lambda: torch.zeros(4, 6).t()[1:].normal_(),
    lambda: torch.multinomial(torch.ones(10), 4),
]


@pytest.mark.parametrize("draw", DRAWS)
def test_seeds_and_states_reproduce(draw):
    torch.manual_seed(7)
    first = draw()
    state = torch.get_rng_state()
    second = draw()
    torch.set_rng_state(state)
    assert (draw() == second).all()
    torch.manual_seed(7)
    assert (draw() == first).all()


def test_known_numbers():
    torch.manual_seed(0)
    np.testing.assert_array_equal(
        torch.rand(3).numpy(), np.float32([0.4962565898895264, 0.7682217955589294, 0.08847743272781372])
    )
    torch.manual_seed(0)
    np.testing.assert_allclose(torch.randn(2).tolist(), [1.5409960746765137, -0.293428897857666], rtol=1e-6)


def test_generators_are_independent():
    a, b = torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
    before = torch.get_rng_state()
    assert (torch.rand(4, generator=a) == torch.rand(4, generator=b)).all()
    assert (torch.get_rng_state() == before).all()
    c = pickle.loads(pickle.dumps(a))
    assert (torch.randn(4, generator=a) == torch.randn(4, generator=c)).all()
    assert a.initial_seed() == 1
    assert a.seed() == a.initial_seed() != 1


def test_a_process_that_sets_no_seed_has_numbers_of_its_own():
    code = "import jitgrad; print(jitgrad.initial_seed(), jitgrad.Generator().initial_seed())"
    (a, first), (b, same) = (
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
        for _ in range(2)
    )
    assert a != b and first == same == "67280421310721"


def test_fork_rng_puts_the_state_back():
    before = torch.get_rng_state()
    with torch.random.fork_rng():
        torch.rand(10)
        assert not (torch.get_rng_state() == before).all()
    assert (torch.get_rng_state() == before).all()


def test_distributions():
    torch.manual_seed(3)
    n = 200_000
    uniform, normal = torch.empty(n).uniform_(2, 4).numpy(), torch.empty(n).normal_(1, 3).numpy()
    assert 2 <= uniform.min() < uniform.max() < 4
    np.testing.assert_allclose([uniform.mean(), normal.mean(), normal.std()], [3, 1, 3], atol=0.03)
    np.testing.assert_allclose(torch.empty(n).exponential_(2.0).numpy().mean(), 0.5, atol=0.01)
    np.testing.assert_allclose(torch.empty(n).bernoulli_(0.3).numpy().mean(), 0.3, atol=0.01)
    np.testing.assert_allclose(torch.empty(n).geometric_(0.25).numpy().mean(), 4, atol=0.1)
    counts = np.bincount(torch.randint(0, 4, (n,)).numpy()) / n
    np.testing.assert_allclose(counts, 0.25, atol=0.01)
    assert sorted(torch.randperm(1000).tolist()) == list(range(1000))
    drawn = torch.multinomial(torch.tensor([[1.0, 0.0, 3.0]]), n, replacement=True).numpy()
    np.testing.assert_allclose((drawn == 2).mean(), 0.75, atol=0.01)
    assert not (drawn == 1).any()
    assert sorted(torch.multinomial(torch.tensor([1.0, 2.0, 3.0]), 3).tolist()) == [0, 1, 2]


def test_random_fills_stop_gradients():
    x = torch.ones(3, requires_grad=True)
    y = x * 1
    y[:2].uniform_()
    y.sum().backward()
    assert x.grad.tolist() == [0, 0, 1]


def test_likes_and_dtypes():
    x = torch.zeros(2, 3, dtype=torch.float64).t()
    assert torch.rand_like(x).stride() == x.stride()
    assert torch.randn_like(x, dtype=torch.float32).dtype is torch.float32
    assert torch.randint(5, (2,), dtype=torch.uint8).dtype is torch.uint8
    assert torch.randn(4, dtype=torch.complex64).dtype is torch.complex64
    assert torch.rand(2, requires_grad=True).is_leaf
    assert torch.normal(torch.zeros(3, 1), torch.ones(4)).shape == (3, 4)


def test_threads_share_a_generator():
    generator, found = torch.Generator().manual_seed(0), []
    threads = [threading.Thread(target=lambda: found.append(torch.rand(10_000, generator=generator))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    together = np.sort(np.concatenate([f.numpy() for f in found]))
    alone = np.sort(torch.rand(40_000, generator=torch.Generator().manual_seed(0)).numpy())
    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: torch.rand(-1), RuntimeError, "Trying to create tensor with negative dimension -1: [-1]"),
        (
            lambda: torch.rand(2, dtype=torch.int64),
            NotImplementedError,
            "\"check_uniform_bounds\" not implemented for 'Long'",
        ),
        (lambda: torch.rand(2, generator=3), TypeError, "rand() received an invalid combination of arguments"),
        (
            lambda: torch.randint(3, 1, (2,)),
            RuntimeError,
            "random_ expects 'from' to be less than 'to', but got from=3 >= to=1",
        ),
        (lambda: torch.bernoulli(torch.tensor([2.0])), RuntimeError, "Expected p_in >= 0 && p_in <= 1 to be true"),
        (lambda: torch.ones(2).normal_(0, -1), RuntimeError, "normal expects std >= 0.0, but found std -1"),
        (lambda: torch.ones(2).uniform_(1, 0), RuntimeError, "uniform_ expects to return a [from, to) range"),
        (
            lambda: torch.multinomial(torch.ones(2), 3),
            RuntimeError,
            "cannot sample n_sample > prob_dist.size(-1) samples",
        ),
        (lambda: torch.manual_seed(2**64), ValueError, "Overflow when unpacking long long"),
        (lambda: torch.set_rng_state(torch.zeros(3)), TypeError, "RNG state must be a torch.ByteTensor"),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)


def test_what_is_drawn_was_not_written_to():
    drawn = [torch.rand(2), torch.randn(2), torch.randint(3, (2,)), torch.randperm(3), torch.rand_like(torch.ones(2))]
    assert [x._version for x in drawn] == [0] * 5 and torch.rand(2).mul_(2)._version == 1


def test_uniforms_end_before_the_upper_bound():
    """A number that float32 rounds up to the bound becomes the lower one, as in PyTorch."""
    torch.manual_seed(193806074593)
    torch.nn.functional.alpha_dropout(torch.ones(5, 5), 0.5)
    x = torch.empty(40, 17).uniform_(17, 18)
    assert x.max() < 18 and x[26, 7] == 17


FILLS = [
    *itertools.product(["uniform_", "normal_", "exponential_"], ["float16", "bfloat16", "float32", "float64"]),
    *itertools.product(["random_", "bernoulli_"], ["float16", "bfloat16", "float32", "float64", "int64"]),
]


@pytest.mark.parametrize(("fill", "dtype"), FILLS)
def test_a_matrix_gets_the_numbers_of_a_vector(fill, dtype):
    found = []
    for shape in ((12,), (3, 4), (4, 1, 3)):
        torch.manual_seed(3)
        found.append(getattr(torch.empty(shape, dtype=getattr(torch, dtype)), fill)().flatten().tolist())
    assert found[0] == found[1] == found[2] and len(set(found[0])) > 1
