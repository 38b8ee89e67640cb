"""Writes to tensors and to views of them: what the others show, beside PyTorch."""

import pytest

from ...expressions import check, listed

EXPRESSIONS = listed("""
y = r * 1; v = y[0]; v.mul_(2); (y, v, y._version)
y = r * 1; v = y[0]; y.mul_(2); (y, v)
y = r * 1; v = y[:, 1:]; w = v[0]; w.mul_(3); (y, v, w)
y = r * 1; a, b = y.unbind(0); a.mul_(2); a
y = r * 1; a = y.split(1)[0]; a.mul_(2); a
y = r * 1; a, b = y.unbind(0); y.mul_(2); a * 2
y = r * 1; v = torch.no_grad()(lambda: y[0])(); v.mul_(2); v
y = r * 1; v = torch.no_grad()(lambda: y[0])(); y.mul_(2); v * 2
y = r.detach() * 1; v = torch.no_grad()(lambda: y[0])(); v.mul_(s); v
torch.no_grad()(lambda: r[0])().requires_grad
r[0].mul_(2)
r.mul_(2)
r.zero_()
r.__setitem__(0, 1)
y = torch.zeros(3, 2); v = y[1]; y[0] = torch.ones(2, requires_grad=True); (y, v)
y = c * 1; v = torch.view_as_real(y); v.mul_(2); (y, v)
y = c * 1; y.real = torch.ones(2); y
(r * 1).zero_()
(r * 1).fill_(2)
(r * 1).fill_(L(2.))
(r * 1).fill_(torch.ones(2))
(r * 1).fill_(1j)
(r * 1).copy_(torch.ones(3))
torch.zeros(3).copy_(torch.ones(4))
torch.zeros(3).copy_(torch.ones(2, 3))
torch.zeros(2, 3, dtype=torch.int64).copy_(r)
torch.zeros(2, 3).copy_(r)
torch.zeros(1).expand(3).add_(1)
torch.zeros(1).expand(3).copy_(torch.ones(3))
torch.zeros(1).expand(3).zero_()
y = r * 1; v = y[0]; v.detach_(); v
y = r * 1; y.retain_grad(); y.mul_(2); y.sum().backward(); y.grad
y = r * 1; y[r > 2] = 9.; y
y = r * 1; y[[0, 1], [1, 2]] = s; y
y = r * 1; y[:, [1, 2]] = torch.ones(2, requires_grad=True); y
y = x.clone(); y[[0, 1], :, [3, 1]] = torch.ones(3); y
y = x.transpose(0, 2).clone(); y[[0, 1], :, 1] = torch.ones(3); y
y = x.clone(); y[0] = torch.ones(5)
y = x.clone(); y.__setitem__(0, torch.ones(5))
y = x.clone(); y.__setitem__(0, torch.ones(2, 3, 4))
y = x.clone(); y.__setitem__(0, torch.ones(1, 1, 1, 4)); y
y = x.clone(); y.__setitem__(5, 1)
y = x.clone(); y.__setitem__([0, 5], 1)
y = x.clone(); y.__setitem__(0, 'a')
y = x.clone(); y.__setitem__(0, [1, 2, 3])
y = x.clone(); y.__setitem__([0, 1], torch.ones(5))
y = x.clone(); y.__setitem__(y > 3, torch.ones(2))
y = x.clone(); y.__setitem__([0], torch.ones(3, 4, dtype=torch.float64))
y = x.clone(); y.__setitem__([0], 1j)
y = i.clone(); y[0] = 2.7; y[[1]] = 3.9; y
y = i.clone(); y[y > 0] = L([2.]); y
y = x.clone(); y[True] = 2; y[..., ::2] = 3; y[1:, L(1)] = 4; y
y = x.clone(); y[y > 30] = 1.; y[[]] = 2; y
x.__delitem__(0)
torch.ones(2, 3).masked_fill_(torch.ones(5, 2, 3, dtype=torch.bool), 2.)
(r * 1).masked_fill_(r > 2, 2.)
(r * 1).scatter_(1, L([[0], [1]]), 5.)
(r * 1).t().scatter_add_(1, L([[0], [1], [1]]), torch.ones(3, 1))
(r * 1).index_add_(1, L([0, 0]), torch.ones(2, 2))
(r * 1).tril_()
(r * 1).fill_diagonal_(2)
torch.zeros(7, 2).fill_diagonal_(2, wrap=True)
torch.zeros(5000, 1).fill_diagonal_(2, wrap=True).sum()
y = r * 1; (y[0] * y[0]).sum().backward() if y.add_(1) is None else None; y.mul_(2).sum().backward(); r.grad
y = r * 1; z = y * y; y.add_(1); z.sum().backward()
y = r * 1; z = y.exp(); z[0] = 2; z.sum().backward()
""")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_writes(expression):
    check(expression)
