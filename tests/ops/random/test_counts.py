"""poisson and binomial: numbers of a seed that PyTorch's have too, moments, gradients, vmap, errors."""

import numpy as np
import pytest

import jitgrad as torch

# PyTorch 2.13's numbers.
POISSON = [0, 2, 4, 9, 7, 31, 973, 1000248]
BINOMIAL = [0, 1, 18, 16, 3077, 0, 98, 7]


def test_numbers_of_a_seed():
    # Rates below 10 and above, and both ways to count successes, of either outcome.
    torch.manual_seed(0)
    rates = torch.tensor([0.0, 0.5, 3.0, 9.5, 10.0, 40.0, 1e3, 1e6])
    assert torch.poisson(rates).tolist() == POISSON
    counts = torch.tensor([0.0, 3.0, 20.0, 40.0, 1e4, 50.0, 100.0, 7.0], dtype=torch.float64)
    chances = torch.tensor([0.5, 0.2, 0.9, 0.5, 0.3, 0.0, 0.99, 1.5], dtype=torch.float64)
    assert torch.binomial(counts, chances).tolist() == BINOMIAL
    assert torch.binomial(torch.tensor([3.0]), torch.tensor([float("nan")])).isnan().item()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_moments(dtype):
    generator = torch.Generator().manual_seed(1)
    for rate in (2.0, 30.0):
        drawn = torch.poisson(torch.full((20000,), rate, dtype=dtype), generator)
        assert drawn.dtype is dtype and (drawn == drawn.floor()).all()
        assert abs(drawn.mean().item() - rate) < 0.02 * rate and abs(drawn.var().item() - rate) < 0.05 * rate
    for n, p in ((10.0, 0.3), (200.0, 0.7)):
        drawn = torch.binomial(torch.full((20000,), n, dtype=dtype), torch.tensor(p, dtype=dtype), generator)
        assert abs(drawn.mean().item() - n * p) < 0.02 * n * p
        assert abs(drawn.var().item() - n * p * (1 - p)) < 0.05 * n * p * (1 - p)
        assert ((drawn >= 0) & (drawn <= n)).all()


def test_shapes_and_gradients():
    x = torch.ones(2, 3).t().requires_grad_()
    drawn = torch.poisson(x)
    assert drawn.shape == (3, 2) and drawn.is_contiguous() and drawn.grad_fn.name() == "PoissonBackward0"
    (found,) = torch.autograd.grad(drawn.sum(), x)
    assert (found == 0).all()
    out = torch.binomial(torch.tensor(5.0), torch.tensor([0.5, 0.5], requires_grad=True))
    assert out.shape == (2,)
    with pytest.raises(RuntimeError, match="derivative for aten::binomial is not implemented"):
        out.sum().backward()
    assert torch.poisson(torch.ones(0, 2)).shape == (0, 2)


def test_vmap():
    rates = torch.tensor([[1.0, 20.0], [3.0, 4.0]])
    torch.manual_seed(3)
    found = torch.vmap(torch.poisson, randomness="different")(rates)
    torch.manual_seed(3)
    assert found.equal(torch.poisson(rates))
    alike = torch.vmap(lambda x: x + torch.poisson(torch.ones(2)), randomness="same")(torch.zeros(4, 2))
    assert (alike == alike[0]).all()
    with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
        torch.vmap(torch.poisson)(rates)
    with pytest.raises(RuntimeError, match="same randomness with a batched tensor input"):
        torch.vmap(torch.binomial, randomness="same")(rates, rates / 100)


def test_errors():
    state = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="invalid Poisson rate, expected rate to be non-negative"):
        torch.poisson(torch.tensor([1.0, -1.0]))
    assert torch.get_rng_state().equal(state)
    with pytest.raises(RuntimeError, match="invalid Poisson rate"):
        torch.poisson(torch.tensor([float("nan")]))
    with pytest.raises(NotImplementedError, match="\"poisson_cpu\" not implemented for 'Long'"):
        torch.poisson(torch.tensor([1]))
    with pytest.raises(ValueError, match="binomial only supports floating-point dtypes for count, got: Long"):
        torch.binomial(torch.tensor([1]), torch.tensor([0.5]))
    with pytest.raises(RuntimeError, match="Found dtype Double but expected Float"):
        torch.binomial(torch.tensor([1.0]), torch.tensor([0.5], dtype=torch.float64))


def test_generators_are_apart_and_their_states_go_round():
    one, two = torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
    first = torch.rand(3, generator=one)
    torch.randn(5, generator=two)
    assert not torch.rand(3, generator=one).equal(first)
    copy = one.clone_state()
    assert torch.randn(3, generator=copy).equal(torch.randn(3, generator=one))
    two.set_state(one.get_state())
    assert torch.rand(2, generator=one).equal(torch.rand(2, generator=two))
    for call, error, words in (
        (lambda: one.manual_seed(1.5), RuntimeError, "manual_seed expected a long, but got float"),
        (lambda: one.set_state(3), TypeError, "expected a torch.ByteTensor, but got int"),
        (lambda: one.set_state(torch.zeros(3)), TypeError, "RNG state must be a torch.ByteTensor"),
        (lambda: one.set_state(torch.stack([one.get_state()] * 2, 1)[:, 0]), RuntimeError, "must be contiguous"),
        (lambda: one.get_offset(), RuntimeError, "CPU Generator does not use offset"),
        (lambda: one.graphsafe_get_state(), NotImplementedError, "is not supported in this Generator"),
    ):
        with pytest.raises(error, match=words):
            call()


def test_fork_rng():
    torch.manual_seed(0)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        torch.rand(5)
    after = torch.rand(3)
    torch.manual_seed(0)
    assert torch.rand(3).equal(after)


def test_random_over_all_64_bits():
    # PyTorch takes the bits as they are, for floats too.
    torch.manual_seed(11)
    whole = torch.empty(4, dtype=torch.int64).random_(-(2**63), None)
    torch.manual_seed(11)
    wide = torch.empty(4, dtype=torch.float64).random_(-(2**63), None)
    np.testing.assert_array_equal(whole.numpy().astype(float), wide.numpy())
    with pytest.raises(RuntimeError, match="random_full_64_bits_range_kernel_cpu handles only"):
        torch.empty(4, dtype=torch.uint8).random_(-(2**63), None)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_of_16_bits(dtype):
    # Rounding never gives the end of the interval; counts are not drawn, as in PyTorch.
    drawn = torch.empty(20000, dtype=dtype).uniform_(-1, 3, generator=torch.Generator().manual_seed(1))
    assert drawn.max() < 3 and drawn.min() == -1
    with pytest.raises(NotImplementedError, match="\"binomial_cpu\" not implemented for '.*Half|BFloat16'"):
        torch.binomial(torch.ones(2, dtype=dtype), torch.ones(2, dtype=dtype))
