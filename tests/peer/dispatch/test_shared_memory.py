"""Programs of tensors that share memory: ``no_grad``, ``detach``, ``data``, saved tensors, copies, ``grad``."""

import pytest

from .inplace_programs import check, listed

torch = pytest.importorskip("torch")


# no_grad, detach, data, saved tensors; grad, deepcopy, pickle, NumPy; the other in-place methods.
SHARING = listed("""
with torch.no_grad(): v = n[0]
with torch.no_grad(): v, u = n.unbind(0)
with torch.no_grad(): v = p[0]
with torch.no_grad(): n.mul_(2)
with torch.no_grad(): m.mul_(2)
with torch.no_grad(): m[0] = 5
v = n[0]; torch.set_grad_enabled(False); n.mul_(2); torch.set_grad_enabled(True); v.mul_(2)
torch.set_grad_enabled(False); v = n[0]; torch.set_grad_enabled(True); v
torch.set_grad_enabled(False); v = n[0]; torch.set_grad_enabled(True); v.mul_(2)
torch.set_grad_enabled(False); v = n[0]; torch.set_grad_enabled(True); n.mul_(2); v
torch.set_grad_enabled(False); v = n[0]; torch.set_grad_enabled(True); n.mul_(2); v * 2
torch.set_grad_enabled(False); v = n[0]; torch.set_grad_enabled(True); n.mul_(2); v.grad_fn
torch.set_grad_enabled(False); v = m[0]; torch.set_grad_enabled(True); v.mul_(2)
torch.set_grad_enabled(False); v = p[0]; torch.set_grad_enabled(True); v.mul_(2)
torch.set_grad_enabled(False); v = p[0]; torch.set_grad_enabled(True); v.mul_(w)
torch.set_grad_enabled(False); v = p[0]; torch.set_grad_enabled(True); p.mul_(w); v
torch.set_grad_enabled(False); v = p[0]; torch.set_grad_enabled(True); v.requires_grad_()
torch.set_grad_enabled(False); v = p[0]; torch.set_grad_enabled(True); p.requires_grad_(); v
torch.set_grad_enabled(False); v = p[0]; p.requires_grad_(); torch.set_grad_enabled(True); v.mul_(2)
torch.set_grad_enabled(False); v = n[0]; torch.set_grad_enabled(True); v.detach_()
torch.set_grad_enabled(False); v, u = n.unbind(); torch.set_grad_enabled(True); v.mul_(2)
torch.set_grad_enabled(False); v, u = n.unbind(); torch.set_grad_enabled(True); n.mul_(2); v
d = n.detach(); d.mul_(2); n
d = n.detach(); n.mul_(2); d
d = n.detach(); d.mul_(w); n
d = n.detach(); d[0] = 1; d._version
d = n.data; d.mul_(2); n
d = n.data; d.mul_(w); n._version
d = n.detach().requires_grad_(); d * w
d = m.detach(); d.zero_(); (m * 2)
y = n * n; n.detach().mul_(2); y.sum().backward()
y = n * n; n.data.mul_(2); y.sum().backward(); m.grad
y = n.exp(); y.detach().mul_(2); y.sum().backward()
y = n.exp(); y.data.mul_(2); y.sum().backward(); m.grad
y = n.exp(); y.mul_(2); y.sum().backward()
y = n.sigmoid(); y[0] = 0; y.sum().backward()
y = n * w; w.data.mul_(2); y.sum().backward(); m.grad
y = n * w; w.detach().mul_(2); y.sum().backward()
y = n @ n.t(); n.add_(1); y.sum().backward()
y = torch.cat([n, n]); n.add_(1); y.sum().backward()
y = n.max(1).values; n.add_(1); y.sum().backward()
y = n.sum(); n.add_(1); y.backward()
y = n.relu(); n.add_(1); y.sum().backward()
y = n.pow(2); n[0, 0] = 1; y.sum().backward()
y = n[0] * n[1]; n[0, 0] = 1; y.sum().backward()
y = n.std(); n.add_(1); y.backward()
y = torch.where(n > 0, n, w); n.add_(1); y.sum().backward()
y = n.sort(1).values; n.add_(1); y.sum().backward()
y = n.index_select(1, k); k.add_(0); y.sum().backward()
y = n.gather(1, k[None]); k.add_(0); y.sum().backward()
n.data = p; n
m.data = p; m
m.data = p.double()
m.data = k
k.data = p
p.data = k
m.data = 1
n.data = c
m.data = m; m
m.data = n; m
v = m[0]; m.data = p; v
v = n[0]; n.data = p; v
v = n[0]; v.data = torch.ones(3); n
v = n[0]; v.data = torch.ones(3); v
del m.data
p.data = p; p.add_(1); p
q.data = p[0]; q.add_(1); p
m.grad = p; m.grad
m.grad = torch.zeros(3)
m.grad = 1
m.grad = m
m.grad = p.double()
m.grad = None
m.grad = m * 2; m.grad
p.grad = p.clone(); p.grad
k.grad = k.clone()
n.grad = p; n.grad
n.retain_grad(); n.grad
n.retain_grad(); n.mul_(2)
n.retain_grad(); n[0].mul_(2)
n.retain_grad(); n.mul_(2); n.sum().backward(); n.grad
n.retain_grad(); n[0].mul_(2); n.sum().backward(); n.grad
v = n[0]; v.retain_grad(); v.mul_(2); n.sum().backward(); v.grad
v = n[0]; v.retain_grad(); n.mul_(2); v.sum().backward(); v.grad
p.retain_grad()
m.retain_grad(); m.retains_grad
m.grad = p; m.grad.mul_(2); p
del m.grad; m.grad
(n * 2).sum().backward(); m.grad
(n * 2).sum().backward(); m.grad.zero_()
(n * 2).sum().backward(); g = m.grad; (m * 3).sum().backward(); g
copy.deepcopy(n)
copy.deepcopy(n[0])
m.numpy()
n.numpy()
np.asarray(m)
m.detach().numpy()
m.numpy(force=True)
m.__array__()
m.tolist()
float(m[0, 0])
m[0, 0].item()
int(n[0, 0])
bool(m[0, 0])
m.data.requires_grad
m.is_leaf, n.is_leaf, p.is_leaf, m.detach().is_leaf
m[0]._base is m, n[0][1]._base is n, n.detach()._base, n.data._base
m[0]._is_view(), n.clone()._is_view(), n.contiguous()._is_view(), n.reshape(6)._is_view(), n.t().reshape(6)._is_view()
m.output_nr, n.unbind()[1].output_nr, n.max(1)[1].output_nr
p.grad_fn, m.grad_fn
m.resize_(2)
m.resize_as_(p)
p.resize_as_(q)
p.set_(q); p
p.set_(); p
m.set_(q)
n.set_(p)
v = p[0]; v.resize_(2); p
v = p[0]; p.resize_(1); v
n.zero_(); n.sum().backward()
n.detach_(); n.add_(1)
n.detach_().requires_grad_()
x = p.requires_grad_(); x is p
n.cumsum_(1)
n.cumprod_(1)
n.addmm_(p, torch.eye(3))
n.addmm_(p, torch.eye(3), beta=2, alpha=3)
w.detach().addmv_(torch.eye(3), q)
n.t()[0].addmv_(p, q)
n.unsqueeze(0).baddbmm_(p[None], torch.eye(3)[None])
n.float_power_(2)
n.double().float_power_(2)
n.tril_()
n.triu_()
n.fill_diagonal_(1)
n.fill_diagonal_(1, wrap=True)
n.put_(k, q[:2])
n.put_(k, q[:2], accumulate=True)
n.eq_(p)
n.logical_not_()
n.bitwise_and_(1)
n.nan_to_num_()
n.erfinv_()
n.lgamma_()
n.digamma_()
n.frac_()
n.trunc_()
n.hypot_(p)
n.logit_()
n.sinc_()
n.square_()
n.xlogy_(p)
n.floor_divide_(2)
n.dropout_(0.0)
torch.relu_(n)
torch.nn.functional.relu(n, inplace=True)
torch.nn.functional.dropout(n, 0.0, inplace=True)
torch.nn.functional.hardtanh(n, inplace=True)
torch.nn.functional.silu(n, inplace=True)
torch.exp_(n)
torch.zero_(n)
torch.clamp_(n, 0, 1)
torch.abs_(m)
""")


# Bases and leaves that change their minds; .grad; parts that are no views; nodes that are called.
LAST = listed("""
x = m * 1; v = x.narrow(0, 1, 1); x.detach_(); x.requires_grad, v.requires_grad, v.grad_fn is None, v._base is x
x = p * 1; x[:, 1:].add_(m[:, 1:]); x.requires_grad, x.grad_fn, x.sum().backward(), m.grad
x = torch.ones(4, 4, requires_grad=True) * 1; v = x.narrow(0, 1, 2); x.detach_(); v.add_(1)
x = m.clone(); a, b = x.unbind(); s = a.sum(); s.backward(); m.grad
a, b = n.unsafe_split(1); a.mul_(2); (a, b, n)
a, b = n.unsafe_chunk(2); a.mul_(2); n._version
a, b = torch.unsafe_split(n, 1); b.exp_(); a
a, b = n.split_with_sizes([1, 1]); a
a, b = n.unsafe_split_with_sizes([1, 1]); a.mul_(2)
n.grad_fn(p)
n.grad_fn.next_functions[0][0].variable is m
n.retain_grad(); n.retain_grad(); n.sum().backward(); n.grad
n.retain_grad(); v = n[0]; v.retain_grad(); v.mul_(2); n.sum().backward(); (n.grad, v.grad)
n.retain_grad(); a = n * 2; n.add_(1); a.sum().backward(); n.grad
x = w.clone(); x.retain_grad(); x.exp_(); x.retain_grad(); x.sum().backward(); x.grad
x = w.clone(); y = x.view(3); y.retain_grad(); x.mul_(2); (x.sum() + y.sum()).backward(); y.grad
x = w.clone(); x.requires_grad_(False)
x = w.detach(); x.requires_grad_(); x.mul_(2)
x = torch.zeros(3); x.requires_grad_(); x is x.requires_grad_()
x = w.data.requires_grad_(); (x * 2).sum().backward(); w.grad, x.grad
w.grad = torch.ones(3); w.grad.requires_grad_(); (w * 2).sum().backward(); w.grad
w.grad = torch.ones(3); g = w.grad; (w * 2).sum().backward(); g is w.grad, g
(w * 2).sum().backward(); g = w.grad; (w * 2).sum().backward(); g is w.grad, g._version
w.grad = w * 2; (w * 3).sum().backward(); w.grad
w.grad = torch.ones(3).expand(3); (w * 3).sum().backward(); w.grad
w.grad = torch.ones(1).expand(3); (w * 3).sum().backward(); w.grad
w.grad = p[0]; (w * 3).sum().backward(); p
w.grad = q.t(); (w * 3).sum().backward(); q
w.data.add_(1); w._version
w.detach().add_(1); w._version
x = w[1:]; w.data.add_(1); x
x = w.view(3); x.data.add_(1); w
x = torch.nn.Parameter(q); x.add_(1)
x = torch.nn.Parameter(q); x.data.add_(1); q
x = torch.nn.Parameter(q); x.detach().add_(1); q
x = torch.nn.Parameter(q); torch.nn.init.zeros_(x); q
n.index_add_(1, k, p[:, :2].requires_grad_())
x = torch.zeros(3, 3); x.diagonal().copy_(w); x.sum().backward(); w.grad
x = torch.zeros(3, 3); x.fill_diagonal_(2.0); x
x = m * 1; x.fill_diagonal_(2.0); x.sum().backward(); m.grad
x = m * 1; x.put_(k, w[:2]); x.sum().backward(); m.grad, w.grad
x = m * 1; torch.nn.functional.relu(x, inplace=True); x.sum().backward(); m.grad
x = m * 1; torch.nn.functional.dropout(x, 0.5, training=False, inplace=True) is x
x = m * 1; x.clamp_(min=0).add_(1).sqrt_(); x.sum().backward(); m.grad
x = m * 1; y = x; x += 1; x is y
x = m * 1; y = x; x = x + 1; x is y
x = m * 1; x[0] += 1; x[1] -= w; x.sum().backward(); w.grad
x = m * 1; x[:, 0] *= x[:, 1]; x.sum().backward(); m.grad
x = m * 1; x[:, 0] *= x[:, 1].clone(); x.sum().backward(); m.grad
x = m * 1; x[x > 0] *= 2; x.sum().backward(); m.grad
x = m * 1; x[x > 0] = x[x > 0] * 2; x.sum().backward(); m.grad
x = m * 1; x[[0, 0]] += 1; x
x = m * 1; x.t()[0] = w[:2]; x.sum().backward(); m.grad, w.grad
x = m * 1; x.view(-1)[::2] = w; x.sum().backward(); m.grad, w.grad
x = m * 1; x.view(3, 2)[1:].mul_(x.view(3, 2)[1:].detach()); x.sum().backward(); m.grad
x = torch.zeros(2, 3, dtype=torch.float64); x[0] = w; x.sum().backward(); w.grad
x = torch.zeros(2, 3, dtype=torch.float64); x.copy_(m); x.sum().backward(); m.grad
x = torch.zeros(2, 3, dtype=torch.int64); x.copy_(m); x.requires_grad
x = torch.zeros(2, 3, dtype=torch.int64); x[0] = w; x
x = torch.zeros(2, 3); x.copy_(w.view(1, 3)); x.sum().backward(); w.grad
x = torch.zeros(2); x.copy_(w)
n.grad_fn(p)[0]
n.sum().grad_fn(torch.ones(()))
torch.where(p > 1, 2.0, m).grad_fn(p)
(2 * m).grad_fn(p)
n.grad_fn()
n.grad_fn(1)
n.grad_fn(p, p)
n.grad_fn(None)
n.unbind()[0].grad_fn(q, None)
""")


@pytest.mark.parametrize("program", [*SHARING, *LAST])
def test_programs(program):
    check(program)
