"""Random numbers from the same seed, beside PyTorch."""

import pytest

from ...expressions import check, listed

EXPRESSIONS = listed("""
torch.manual_seed(-1).initial_seed()
torch.manual_seed(2**64)
torch.manual_seed('a')
torch.get_rng_state()
g = torch.Generator().manual_seed(7); torch.rand(5, generator=g), torch.randn(3, generator=g), g.initial_seed()
torch.rand(2, 3), torch.randn(20), torch.rand(7, dtype=torch.float64), torch.randn(17, dtype=torch.float64)
torch.rand(3, dtype=torch.cfloat), torch.randn(20, dtype=torch.cfloat)
torch.empty(20, dtype=torch.cfloat).normal_(1.5), torch.empty(3, dtype=torch.cfloat).normal_(-1, 0)
torch.empty(2, dtype=torch.cfloat).normal_(1j)
torch.empty(2).normal_(0, 1j)
torch.rand_like(r), torch.randn_like(x.transpose(0, 2)), torch.randn_like(x[:, :, ::2])
torch.randint(10, (5,)), torch.randint(-3, 3, (2, 3)), torch.randint(0, 5, (3,), dtype=torch.float32)
torch.randint(high=4, size=(3,)), torch.randint_like(x, 5), torch.randint_like(i, 2, 5)
torch.randperm(10), torch.randperm(5, dtype=torch.int32)
torch.bernoulli(torch.full((9,), 0.3)), torch.empty(9).bernoulli_(torch.full((9,), 0.3, dtype=torch.float64))
torch.full((4, 3), 0.5).t().bernoulli(0.5), torch.bernoulli(torch.full((4, 3), 0.5).t())
torch.normal(1., 2., (5,)), torch.normal(torch.arange(5.), 1.), torch.normal(0., torch.ones(5))
torch.normal(torch.arange(20.), torch.ones(20))
torch.multinomial(torch.tensor([1., 2., 3.]), 7, replacement=True)
torch.empty(20).uniform_(-1, 3), torch.empty(20).normal_(1, 2), torch.empty(5, 4).t().normal_(1, 2)
torch.empty(20, dtype=torch.int64).random_(), torch.empty(5).random_(3), torch.empty(5).random_(2, 9)
torch.empty(5).cauchy_(), torch.empty(5).log_normal_(), torch.empty(5).geometric_(0.3)
y = torch.zeros(4, 6); y[:, 1:3].uniform_(); y[::2].normal_(); y
torch.rand(2, dtype=torch.int64)
torch.randn(2, dtype=torch.int64)
torch.rand(-1)
torch.randint(3, 1, (2,))
torch.randint(0, 300, (2,), dtype=torch.uint8)
torch.randint(3, 2)
torch.randperm(-1)
torch.randperm(300, dtype=torch.uint8)
torch.bernoulli(torch.tensor([0.5, 2.]))
torch.bernoulli(i)
torch.bernoulli(torch.ones(2, requires_grad=True))
torch.ones(2).bernoulli_(2.)
torch.normal(0., -1., (2,))
torch.normal(torch.tensor([0.]), torch.tensor([-1.]))
torch.ones(2).uniform_(1, 0)
torch.ones(2, dtype=torch.int64).normal_()
torch.ones(2).random_(5, 2)
torch.ones(2).exponential_(-1)
torch.ones(2).geometric_(2)
torch.ones(2).cauchy_(0, -1)
torch.ones(2).log_normal_(0, -1)
torch.multinomial(torch.tensor([0., 0.]), 1)
torch.multinomial(torch.tensor([1., -1.]), 1)
torch.multinomial(torch.tensor([1., 1.]), 3)
torch.multinomial(torch.tensor(1.), 1)
torch.multinomial(i, 1)
torch.set_rng_state(torch.zeros(3, dtype=torch.uint8))
torch.set_rng_state(torch.zeros(3))
r.uniform_()
(r * 1).uniform_().grad_fn
(r * 1).normal_().grad_fn
(r * 1).bernoulli_().grad_fn
""")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_random(expression):
    check("torch.manual_seed(3); " + expression)
