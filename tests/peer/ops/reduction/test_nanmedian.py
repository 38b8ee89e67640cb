"""Medians among NaNs, beside PyTorch."""

import pytest

from ...expressions import check, listed

EXPRESSIONS = listed("""
torch.nanmedian(torch.tensor([1., float("nan"), 3., 0.])), torch.nanmedian(r), torch.nanmedian(r, 1)
r.nanmedian(0, True)
torch.nanmedian(x[:0]), x[:0].nanmedian(1).values.shape, torch.nanmedian(torch.tensor(float("nan")))
x[:0].nanmedian(0)
torch.nanmedian(torch.tensor([[float("nan")] * 2, [2., float("nan")]]), 1), torch.nanmedian(i), s.nanmedian()
""")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_nanmedian(expression):
    check(expression)
