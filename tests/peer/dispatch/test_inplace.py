"""Programs of writes in place: ops on tensors with history, on leaves and flags; of complex and integer tensors."""

import pytest

from .inplace_programs import check, listed

torch = pytest.importorskip("torch")


# Ops in place on tensors with history, leaves, and their flags.
WRITES = listed("""
n.add_(1)
n.add_(w)
n.mul_(w)
n.mul_(n)
n.div_(w)
n.sub_(1, alpha=2)
n.pow_(2)
n.pow_(w)
n.exp_()
n.tanh_().mul_(2)
n.sigmoid_()
n.relu_()
n.clamp_(0, 1)
n.clamp_(min=0)
n.clamp_(w, w + 1)
n.clamp_min_(0)
n.clamp_max_(0)
n.abs_()
n.neg_()
n.sqrt_()
n.reciprocal_()
n.round_()
n.floor_()
n.sign_()
n.lerp_(p, 0.5)
n.lerp_(p, p)
n.addcmul_(p, p)
n.addcdiv_(p, p + 1)
n.atan2_(p)
n.fmod_(2)
n.remainder_(2)
n.copy_(p)
n.copy_(w)
n.copy_(1)
p.copy_(w)
p.copy_(m)
p.copy_(c)
n.fill_(1)
n.fill_(w[0])
n.zero_()
p.fill_(w.sum())
n.fill_(w)
n.fill_('a')
n[0] = 1
n[0] = w; n
n[0, 1] = w[0]; n
n[:, 1:] = w[:2]; n
n[[1, 0]] = w; n
n[k[1:]] = w; n
n[n.detach() > 0] = 5; n
n[n.detach() > 0] = w[0]; n
n[:, k] = w[0] * 2; n
n[None] = w; n
n[...] = w; n
n[0][1] = 3; n
n[..., 0] += w[:2]; n
n[0] *= w; n
p[0] = w; p
p[0, 0] = w[0]; p
p[[0]] = w; p
n.index_add_(1, k, p[:, :2])
n.index_add_(0, torch.tensor([0]), w[None])
n.index_add_(0, torch.tensor([0]), w[None], alpha=2)
n.index_copy_(1, k, p[:, :2])
n.index_copy_(0, torch.tensor([1]), w[None])
n.index_fill_(1, k, 2.5)
n.index_fill_(1, k, w[0])
n.index_put_((k[1:],), w)
n.index_put_((k[1:],), w, accumulate=True)
n.masked_fill_(p > 2, 1)
n.masked_fill_(p > 2, w[0])
n.masked_scatter_(p > 2, w)
n.masked_scatter_(p > 2, q)
n.scatter_(1, k[None], 1.5)
n.squeeze_()
n.unsqueeze_(0)
n.t_()
n.transpose_(0, 1)
n.swapaxes_(0, 1)
n.swapdims_(0, 1)
n.squeeze_(0)
n.unsqueeze_(0).squeeze_(0).t_().mul_(2)
m.t_()
m.unsqueeze_(0)
m.squeeze_()
p.t_()
p.unsqueeze_(0)
v = n[0]; v.unsqueeze_(0)
v = n[0]; v.unsqueeze_(0); v.mul_(2); n
v = n.view(6); n.t_(); v
v = n.view(6); n.t_(); n.mul_(2); v
n.as_strided_((2, 2), (1, 2))
n.resize_(3)
p.resize_(3)
p.resize_(2, 2)
p.resize_(1, 2); p.sum()
w.resize_(2)
w.detach_()
n.detach_()
n[0].detach_()
v = n[0]; v.detach_()
v = p[0]; v.detach_()
v = m.unbind(0)[0]; v.detach_()
n.requires_grad_()
n.requires_grad_(False)
n[0].requires_grad_(False)
v = m[0]; v.requires_grad_(False)
p.requires_grad_()
v = p[0]; p.requires_grad_(); v
v = p[0]; v.requires_grad_(); p
v = p[0]; v.requires_grad_(); v.mul_(2)
v = p[0]; v.requires_grad_(); p.mul_(2)
v = p[0]; v.requires_grad_(); p.mul_(w)
k.requires_grad_()
k.requires_grad = True
k.requires_grad = False
n.requires_grad = False
n.requires_grad = True
w.requires_grad = None
w.requires_grad = 1
w.requires_grad_(None)
w.requires_grad_(1)
m.add_(1)
m[0].add_(1)
m[0] = 1
m.t().add_(1)
m[[0]] = 1
m.zero_()
m.fill_(1)
m.copy_(p)
m.view(6)[2:].mul_(2)
m.unbind()[0].mul_(2)
m.detach().mul_(2); m
m.data.mul_(2); m
m.data[0] = 2; m
w.index_add_(0, k, q[:2])
w.masked_fill_(q > 0, 1)
""")


# Complex and integer tensors, views of every kind, refusals, gradients through it all.
MORE = listed("""
b = q * m; q.copy_(w); e = q * 3
b = p * w; b.copy_(w); e = b.sin(); b.add_(1); e.sum().backward()
n.copy_(w); n.grad_fn.name()
m.requires_grad_(False); n.sum().backward()
z = c * 1; z.real.mul_(2)
z = c * 1; z.imag.zero_()
z = c * 1; z.real = 3
z = c * 1; z.imag = w[:2]
z = c * 1; torch.view_as_real(z)[0, 1] = 5; z
z = c * 1; z.mul_(2j)
z = c * 1; z.add_(w[:2])
z = p[:, :2] * 1; z.add_(c)
n.T.mul_(2); n
n.mT[0].mul_(w[:2]); n
n.swapaxes(0, 1).add_(1); n
n.unfold(1, 2, 2).mul_(2); n
n.unfold(1, 2, 1).mul_(2); n
n.as_strided((2,), (3,)).mul_(2); n
n.narrow(1, 1, 2).mul_(w[:2]); n
n.movedim(0, 1).sub_(1); n
n.diagonal().mul_(w[:2]); n
n.diagonal(1).zero_(); n
n.unflatten(1, (3, 1)).mul_(2); n
n.flatten().mul_(2); n
n.ravel().mul_(2); n
n.view_as(p).mul_(2); n
n.expand_as(p).mul_(2); n
n.expand(2, 3).mul_(2); n
n.hsplit(3)[0].detach().mul_(2); n
n[:, ::2].mul_(2); n
n[1:, 1:][:, :1].add_(w[:1]); n
n.select(0, 1).select(0, 2).mul_(2); n
n.t().t().mul_(2); n
n.unsqueeze(0).squeeze(0).mul_(2); n
n.contiguous().mul_(2); n
n.t().contiguous().mul_(2); n
n.to(torch.float32).mul_(2); n
n.to(torch.float64).mul_(2); n
n.float().mul_(2); n
n.reshape(3, 2).mul_(2); n
n.t().reshape(6).mul_(2); n
n.add_(k[0])
n.add_(k)
k.add_(1.5)
k.div_(2)
k.mul_(p[0, :2])
p.mul_(w.double())
p.mul_(w.detach().double())
q.add_(p)
q.add_(p[0, 0])
q[0].add_(p[0])
k += 1
k //= 2
k *= 1.5
k /= 2
k **= 2
k &= 1
(p > 2).logical_not_()
(p > 2).add_(1)
(p > 2).mul_(p)
n.masked_fill_(p, 1)
n.masked_fill_(p > 2, c[0])
n.masked_fill_(p > 2, w)
n.masked_fill_((p > 2)[0], 1)
n.masked_scatter_(p > 2, w.double())
n.index_add_(0, k, p)
n.index_add_(0, k.float(), p)
n.index_add_(2, k, p)
n.index_add_(1, torch.tensor([5, 0]), p[:, :2])
n.index_copy_(0, k, p)
n.index_copy_(1, k, p)
n.index_copy_(1, k, p[:, :2].double())
n.index_fill_(1, torch.tensor([7]), 1)
n.index_fill_(0, k.float(), 1)
n.index_fill_(0, k[1:], w)
n.index_put_((k,), w)
n.index_put_((torch.tensor([0, 0]),), p, accumulate=True)
n.index_put_((torch.tensor([0, 1]),), w.double())
n.scatter_(1, k, 1.0)
n.scatter_add_(0, torch.tensor([[0, 1, 0]]), w[None])
n.scatter_add_(0, torch.tensor([[0, 1, 0]]), w.double()[None])
n.scatter_(0, torch.tensor([[0, 1, 0]]), w[None])
n.squeeze_(5)
n.unsqueeze_(4)
n.transpose_(0, 2)
n.t_().add_(1)
n.as_strided_((2, 2), (1, 1)).mul_(2)
n.resize_as_(p)
p.resize_as_(n)
n.data.resize_(1); n
n.requires_grad_().add_(1)
n.clamp_()
n.add_('a')
n.add_(None)
n.mul_(1, 2)
n.fill_(None)
n.copy_('a')
n.copy_(torch.ones(4))
n.addcmul_(p, w)
n.addcdiv_(p + 1, w, value=2)
n.addcmul_(p, p, value=3)
n.relu_().sum().backward(); m.grad
n.sigmoid_().sum().backward(); m.grad
n.tanh_().sum().backward(); m.grad
n.exp_().mul_(2).sum().backward(); m.grad
n.sqrt_().sum().backward(); m.grad
n.abs_().add_(1).log_().sum().backward(); m.grad
n.cumsum_(0).sum().backward(); m.grad
n.clamp_(0, 1).mul_(w).sum().backward(); (m.grad, w.grad)
n[0].exp_(); n[1].sin_(); n.mul_(n.detach()); n.sum().backward(); m.grad
v = n[0]; u = n[1]; v.mul_(u); u.mul_(v); n.sum().backward(); m.grad
v = n[0]; w2 = w * 1; w2.mul_(v); v.add_(w2); n.sum().backward(); (m.grad, w.grad)
z = torch.zeros(2, 3); z[0] = w; z.mul_(m); z.sum().backward(); (w.grad, m.grad)
z = torch.zeros(2, 3); v = z[0]; v.copy_(w); v.mul_(2); z.sum().backward(); w.grad
z = torch.empty(2, 3).fill_(1).mul_(m).sum(); z.backward(); m.grad
g = torch.autograd.grad(n.mul_(n.detach()).sum(), m)
g = torch.autograd.grad(n.sum(), n); n.add_(1)
y = n * 1; n.add_(1); g = torch.autograd.grad(y.sum(), n)
y = n * 1; t = n; n.add_(1); g = torch.autograd.grad(n.sum(), [m])
h = []; n.register_hook(lambda g: h.append(g.tolist())); n.mul_(3); n.sum().backward(); h
h = []; n.register_hook(lambda g: h.append(g.tolist())); n[0].mul_(3); n.sum().backward(); h
h = []; v = n[0]; v.register_hook(lambda g: h.append(g.tolist())); v.mul_(3); n.sum().backward(); h
h = []; v = n[0]; v.mul_(3); v.register_hook(lambda g: h.append(g.tolist())); n.sum().backward(); h
h = []; v = n[0]; v.mul_(3); v.register_hook(lambda g: h.append(g.tolist())); v.sum().backward(); h
n.mul_(2); n.retain_grad(); n.sum().backward(); n.grad
""")


# Ops without a derivative write as they would without a graph, to leaves as well.
LOGICAL = listed("""
p.logical_and_(m); p
p.logical_or_(m)
p.logical_xor_(n)
(p > 1).logical_and_(m)
torch.arange(6).reshape(2, 3).logical_or_(m)
n.logical_and_(m)
n.logical_not_()
m.logical_not_()
m.logical_and_(p)
v = n * n; n.logical_not_(); v
""")


@pytest.mark.parametrize("program", [*WRITES, *MORE, *LOGICAL])
def test_programs(program):
    check(program)
