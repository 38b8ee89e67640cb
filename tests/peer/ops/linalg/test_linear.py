"""``linear`` and others that write into ``out``, beside PyTorch."""

import pytest

from ...expressions import check, listed

EXPRESSIONS = listed("""
torch.nn.functional.linear(r.detach(), torch.ones(4, 3), out=torch.zeros(2, 4))
torch.nn.functional.linear(r.detach(), torch.ones(4, 3), torch.ones(4), out=torch.empty(0))
torch.nn.functional.linear(x, torch.ones(5, 4), torch.ones(5), out=torch.zeros(2, 3, 5))
torch.nn.functional.linear(x[0, 0], torch.ones(5, 4), out=torch.zeros(5))
out = torch.zeros(2, 4); torch.nn.functional.linear(r.detach(), torch.ones(4, 3), out=out) is out, out
torch.nn.functional.linear(r.detach(), torch.ones(4, 3), out=torch.zeros(2, 4, dtype=torch.float64))
torch.nn.functional.linear(r.detach(), torch.ones(4, 3), out=torch.zeros(2, 4, dtype=torch.int64))
torch.nn.functional.linear(r, torch.ones(4, 3), out=torch.zeros(2, 4))
torch.nn.functional.linear(r, torch.ones(4, 3), out=None)
torch.nn.functional.linear(torch.ones(3), torch.ones(4, 3), torch.ones(8)[::2])._is_view()
torch.nn.functional.linear(torch.ones(3), torch.ones(4, 3), torch.ones(4))._is_view()
torch.inner(torch.tensor(2.), torch.ones(2, 2), out=torch.zeros(2, 2, dtype=torch.float64))
torch.inner(torch.ones(3), torch.ones(3), out=torch.zeros(()))
torch.inner(torch.ones(3), torch.ones(3), out=torch.zeros((), dtype=torch.float64))
torch.div(torch.ones(3).half() * 7, torch.tensor(2.).half(), rounding_mode="trunc", out=torch.zeros(3).double())
torch.hash_tensor(torch.ones(3), out=torch.zeros((), dtype=torch.uint64))
torch.hash_tensor(torch.ones(3), out=torch.zeros((), dtype=torch.int64))
torch.hash_tensor(torch.ones(3), out=torch.zeros((), dtype=torch.bool))
""")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expression(expression):
    check(expression)
