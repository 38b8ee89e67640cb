"""Programs of writes through views, into overlapping memory and into ``out=``."""

import pytest

from .inplace_programs import check, listed

torch = pytest.importorskip("torch")


# Writes to parts, through views of views, into memory that overlaps; out=; functions that return several views.
VIEWS = listed("""
n[0] = 1
n[0][1] = 3
n[...] = 3
n[:] = 3
n[0] = w
n[0] = q
n[:, 1] = 7
n[0, 0] = w[1]
n[0, 0] = p[0, 1]
n[0] = p[0, 0]
n[k[1:]] = 3
n[[0, 1]] = 3
n[p > 2] = w[0]
n[p > 2] = p[0, 1]
n[p > 2] = 1.5
n[p > 2] = w
n[None, 0] = w
n[0:0] = 3
n[..., None] = 2
n[True] = 1
n[False] = 1
n[0] = [1.0, 2.0, 3.0]
n[0] = np.ones(3)
n['a'] = 1
n[5] = 1
n[0, 0, 0] = 1
n[0] = torch.ones(2)
n[0] += 1
n[0] *= w
n[:, 0] -= w[:2]
n += 1
n *= w
n -= w
n /= 2
n **= 2
n @= w
n //= 2
n %= 2
m += 1
m[0] += 1
p += w
p[0] += w
p[0] = w; p[0, 1] = 5
p[0, 1] = 5; p[0] = w
v = n[0]; v.mul_(2)
v = n[0]; u = v[1:]; u.mul_(w[1:])
v = n[0]; u = v[1:]; v.add_(w); u.mul_(2)
v = n.t(); u = v[0]; u.mul_(v[1]); n
v = n.view(6); v[2:4].zero_(); n
v = n.view(6); n[0].zero_(); v
v = n.view(6); n.mul_(w); v
v = n.view(6); n.mul_(w); v.mul_(3); n
v = n.unsqueeze(0).expand(2, 2, 3); v.mul_(2)
v = n.unsqueeze(0).expand(2, 2, 3); v[0].mul_(2); n
v = n.unsqueeze(0).expand(2, 2, 3); n.mul_(2); v
v = n.unsqueeze(0).expand(2, 2, 3); v.copy_(p)
v = n.unsqueeze(0).expand(2, 2, 3); v[0] = 1
v = p.expand(2, 2, 3); v.add_(1)
v = p.expand(2, 2, 3); v.copy_(p)
v = p.expand(2, 2, 3); v.index_add_(0, torch.tensor([0]), torch.ones(1, 2, 3))
v = p.expand(2, 2, 3); v.index_copy_(0, torch.tensor([0]), torch.ones(1, 2, 3))
v = p.expand(2, 2, 3); v.scatter_(0, torch.zeros(1, 2, 3, dtype=torch.int64), 1.0)
v = p.expand(2, 2, 3); v.scatter_add_(0, torch.zeros(1, 2, 3, dtype=torch.int64), torch.ones(1, 2, 3))
v = p.expand(2, 2, 3); v.masked_scatter_(v > 2, torch.ones(12))
v = p.expand(2, 2, 3); v.exp_()
v = p.expand(2, 2, 3); v.clamp_(0, 1)
v = p.expand(2, 2, 3); v.relu_()
v = p.expand(2, 2, 3); v.tril_()
v = p.expand(2, 2, 3); v.lerp_(v, 0.5)
v = p.expand(2, 2, 3); v.t_()
v = p.expand(2, 2, 3); v.transpose_(0, 1)
v = torch.zeros(1).expand(3); v[0] = 1; v
v = p.as_strided((2, 2), (1, 1)); v.mul_(2)
v = p.as_strided((2, 2), (1, 1)); v.fill_(2)
v = p.view(6).unfold(0, 2, 1); v.mul_(2)
v = p.view(6).unfold(0, 2, 2); v.mul_(2)
p[1:].add_(p[:1]); p
p.view(6)[1:].add_(p.view(6)[:-1])
p.view(6)[1:].copy_(p.view(6)[:-1])
p.t().add_(p.t())
p.mul_(p)
torch.add(p, 1, out=p)
torch.exp(p, out=q)
torch.add(m, 1, out=p)
torch.add(p, 1, out=m)
torch.mul(p, p, out=torch.empty(0))
torch.mul(p, p, out=torch.empty(2, 3, dtype=torch.float64))
torch.mul(p, p, out=torch.empty(2, 3, dtype=torch.int64))
torch.mul(p, p, out=torch.empty(5))
torch.cat([p, p], out=torch.empty(4, 3))
torch.cat([m, p], out=torch.empty(4, 3))
torch.stack([p, p], out=torch.empty(0))
v, u = n.unbind(0); v.add_(1)
v, u = n.unbind(0); n.add_(1); v
v, u = n.unbind(0); n.add_(1); v * 2
v, u = n.unbind(0); n.add_(1); v.requires_grad
v, u = n.split(1); v.add_(1)
v, u = n.split(1); v[0].add_(1)
v, u = n.split(1); v[0][0] = 1
v, u = n.chunk(2); v.mul_(2)
v, u = n.hsplit([1]); v.mul_(2)
v, u = n.vsplit(2); v.mul_(2)
v, u = n.tensor_split(2); v.mul_(2)
v, u = n.split([1, 1]); v.mul_(2)
v, u = n; v.mul_(2)
v, u = p.unbind(0); v.add_(1)
v, u = p.unbind(0); v.mul_(w)
v, u = p.unbind(0); v.mul_(w); p
v, u = p.unbind(0); p.mul_(w); v
v, u = p.unbind(0); p.mul_(2); v
v, u = p.unbind(0); p.requires_grad_(); v.mul_(2)
v, u = m.unbind(0); v.add_(1)
v, u = m.detach().unbind(0); v.add_(1); m
with torch.no_grad(): v, u = n.unbind(0)
with torch.no_grad(): v = n[0]
""")


# out=, and views that random programs found.
OUT = listed("""
torch.matmul(p, p.t(), out=torch.empty(2, 2))
torch.matmul(m, p.t(), out=torch.empty(2, 2))
torch.sum(p, 0, out=torch.empty(3))
torch.sum(p, dim=0, keepdim=True, out=torch.empty(0))
torch.sum(m, 0, out=torch.empty(3))
torch.mean(p, 0, out=torch.empty(3))
torch.amax(p, 0, out=torch.empty(3))
torch.amax(m, 0, out=torch.empty(3))
torch.cumsum(p, 0, out=torch.empty(2, 3))
torch.mm(p, p.t(), out=torch.empty(2, 2))
torch.mm(p, p.t(), out=torch.empty(3))
torch.mm(p, p.t(), out=m)
torch.max(p, 1, out=(torch.empty(2), torch.empty(2, dtype=torch.int64)))
torch.sort(p, 1, out=(torch.empty(2, 3), torch.empty(2, 3, dtype=torch.int64)))
torch.topk(p, 2, out=(torch.empty(2, 2), torch.empty(2, 2, dtype=torch.int64)))
torch.gather(p, 1, k[None], out=torch.empty(1, 2))
torch.index_select(p, 1, k, out=torch.empty(2, 2))
torch.masked_select(p, p > 2, out=torch.empty(0))
torch.where(p > 1, p, p, out=torch.empty(2, 3))
torch.outer(q, q, out=torch.empty(3, 3))
torch.dot(q, q, out=torch.empty(()))
torch.norm(p, out=torch.empty(()))
torch.std(p, 0, out=torch.empty(3))
torch.tril(p, out=torch.empty(2, 3))
torch.clamp(p, 0, 1, out=torch.empty(2, 3))
torch.pow(p, 2, out=torch.empty(2, 3))
torch.logsumexp(p, 1, out=torch.empty(2))
torch.argmax(p, 1, out=torch.empty(2, dtype=torch.int64))
torch.all(p > 0, 1, out=torch.empty(2, dtype=torch.bool))
torch.addmm(p, p, torch.eye(3), out=torch.empty(2, 3))
torch.exp(p, out=torch.empty(2, 3))
torch.exp(p, out=p)
torch.add(p, p, out=p)
torch.exp(p, out=1)
torch.arange(3, out=torch.empty(3))
with torch.no_grad(): torch.exp(m, out=p)
with torch.no_grad(): torch.exp(p, out=m)
torch.exp(p, out=n)
torch.exp(n, out=p)
v = p[0]; torch.exp(q, out=v); p
torch.diag(q, out=torch.empty(3, 3))
torch.take_along_dim(p, k[None], 1, out=torch.empty(1, 2))
n.reshape(3, 2); n.t().reshape(6); n[:, :2].reshape(2, 2, 1)
n.t()[1:].flatten(0, 1), n.diagonal().reshape(-1)
a = q[1]; q[q > 1] = a
""")


@pytest.mark.parametrize("program", [*VIEWS, *OUT])
def test_programs(program):
    check(program)
