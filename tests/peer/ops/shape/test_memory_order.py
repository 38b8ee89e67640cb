"""In what order of dims results lie in memory, shown by their strides, beside PyTorch."""

import pytest

from ...expressions import check, listed

EXPRESSIONS = listed("""
torch.rsub(r, torch.ones(3, 2).t())
torch.rsub(torch.ones(3, 2).t(), r)
torch.rsub(torch.ones(3, 2).t(), r, alpha=2)
torch.rsub(r, torch.ones(4))
torch.nn.functional.glu(torch.ones(4, 2).t(), 1)
torch.nn.functional.glu(torch.ones(4, 2).t(), 0)
torch.nn.functional.glu(x.permute(2, 0, 1), 0)
torch.nn.functional.glu(x.permute(2, 0, 1), 1)
torch.nn.functional.glu(torch.arange(48.).view(6, 8)[:, ::2], 1)
torch.nn.functional.glu(torch.arange(12.).view(2, 2, 3, 1).permute(3, 0, 2, 1), 3)
torch.nn.functional.glu(torch.arange(6.).view(3, 1, 2).permute(2, 0, 1).expand(2, 3, 4), 2)
r.t().rot90(0)
r.t().rot90(-4)
r.t().rot90(8, (1, 0))
r.t().rot90(-3)
torch.ones(1, 4, 2, 2).permute(0, 3, 1, 2)[:, :, :2].neg()
torch.empty(1, 2, 0).narrow(1, 0, 1).neg()
torch.empty(2, 0).t().mul(torch.ones(1, 2))
torch.ones(1, 3).t()[None, :1].clone()
torch.ones(3, 1, 1).permute(2, 1, 0).clone()
torch.ones(3, 1, 1).permute(2, 1, 0)[:1]
torch.ones(3, 1, 1).permute(2, 1, 0)[None]
torch.ones(3, 1).t().view(1, 3, 1)
torch.ones(2, 1, 1).permute(1, 0, 2).view(1, 2, 1)
torch.empty(2, 3, 0).permute(2, 1, 0).view(0, 3, 2)
torch.empty(2, 3, 0).permute(2, 1, 0).clone()
torch.ones(3, 1, 2).permute(2, 1, 0).mul(torch.empty(2, 0, 3))
torch.kron(torch.ones(2, 3).t(), torch.ones(4, 2).t())
""")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expression(expression):
    check(expression)
