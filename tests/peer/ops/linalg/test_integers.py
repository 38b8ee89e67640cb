"""Products of integers, beside PyTorch: factors lose their fractions, and bytes stay bytes under vmap."""

import pytest

from ...expressions import check, listed

EXPRESSIONS = listed("""
m = L([[1, 2], [3, 4]]); torch.addmv(L([10, 20]), m, L([1, 1]), beta=1.7, alpha=2.9)
m = L([[1, 2], [3, 4]]); torch.addmv(L([10, 20]), m, L([1, 1]), beta=0.2, alpha=0.6)
m = L([[[1, 2], [3, 4]]]); torch.baddbmm(m, m, m, beta=1.7, alpha=-2.9)
m = L([[1, 2], [3, 4]], dtype=torch.uint8); torch.addmv(L([1, 2], dtype=torch.uint8), m, m[0], beta=1.5, alpha=2)
m = L([[1, 2], [3, 4]], dtype=torch.uint8); torch.vmap(torch.dot)(m, m)
m = L([[1, 2], [3, 4]], dtype=torch.uint8); torch.vmap(torch.vdot, (0, None))(m, m[0])
""")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_factors(expression):
    check(expression)
