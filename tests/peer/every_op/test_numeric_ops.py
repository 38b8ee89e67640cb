"""Reductions, softmax, sorting, products and losses beside PyTorch.

Each line is evaluated in both libraries: values, dtypes, shapes, strides, nodes of the graph two deep,
gradients of all leaves, or else the class and the words of the error, and of warnings.
"""

# ruff: noqa: E501  (errors are quoted in full)

import math
import re
import warnings

import numpy as np
import pytest
import torch

import jitgrad

SETUP = """
F = torch.nn.functional
inf, nan = float("inf"), float("nan")
def leaf(*shape, seed=0, low=-2, high=2):
    made = torch.tensor(np.random.default_rng((seed, *shape)).uniform(low, high, shape))
    return made.requires_grad_()
def const(*shape, seed=0, low=-2, high=2):
    return leaf(*shape, seed=seed, low=low, high=high).detach()
x, y, z = leaf(3, 4), leaf(2, 3, 4), leaf(2, 4, 3, seed=1)
u, v, w = leaf(4), leaf(4, seed=1), leaf(4, 5)
p, q = leaf(3, 4, low=0.1, high=0.9, seed=2), leaf(3, 4, low=0.1, high=0.9, seed=3)
s, e = leaf(), leaf(0, 3)
f = const(3, 4).float().requires_grad_()
i, b = torch.tensor([[1, 5, 2], [3, 0, 5]]), torch.tensor([[True, False], [True, True]])
t, k = torch.tensor([0, 2, 1]), torch.tensor([1.0, nan, 3.0])
d = torch.tensor([[0.0, 1.0, 1.0], [2.0, 2.0, 0.0]]).requires_grad_()
m = torch.tensor([1 + 2j, 3 - 1j, 0.5j])
"""
LEAVES = ("x", "y", "z", "u", "v", "w", "p", "q", "s", "e", "f", "d")

REDUCTIONS = """
x.sum() | x.sum(None) | x.sum(()) | x.sum(1) | y.sum((0, 2), True) | x.t().sum(0) | y.permute(2, 0, 1).sum(1) | b.sum()
i.sum(0) | i.sum(dtype=torch.uint8) | f.sum(dtype=torch.float64) | x.sum(dtype=torch.int64) | m.sum() | e.sum() | e.sum(0)
s.sum(0) | s.sum(1) | x.sum(5) | x.sum((0, 0)) | x.sum("a") | x.sum(1.5) | x.sum(keepdim=True) | torch.sum(3) | torch.sum([1])
x.mean() | x.mean(1, True) | y.mean((0, 1)) | i.mean() | i.mean(0) | x.mean(dtype=torch.int64) | i.mean(dtype=torch.float32)
e.mean() | f.mean(dtype=torch.float64) | m.mean() | x.nansum() | k.nansum() | k.nanmean() | x.prod() | x.prod(1) | y.prod(1, True)
i.prod() | b.prod(0) | x.prod((0, 1)) | d.prod(1) | d.prod() | e.prod() | f.prod(0, dtype=torch.float64) | m.prod()
x.max() | x.max(0) | y.max(1, True) | x.max(dim=1).indices | i.max() | i.max(0) | b.max() | e.max() | e.max(0) | e.max(1)
k.max() | k.max(0) | s.max(0) | m.max() | torch.max(x, p) | d.max() | d.max(1) | x.max("a") | x.min() | x.min(1) | d.min(0)
x.amax() | x.amax(1) | y.amin((0, 2), True) | d.amax(1) | d.amin() | e.amax() | e.amax(0) | i.amax(0) | b.amin(1) | k.amin()
x.argmax() | x.argmin(1) | y.argmax(1, True) | x.argmax(keepdim=True) | x.t().argmax() | e.argmax() | e.argmax(0) | e.argmax(1)
b.argmax() | m.argmax() | x.argmax(3) | d.argmax(1) | k.argmin() | x.aminmax() | y.aminmax(dim=1, keepdim=True) | e.aminmax()
x.var() | x.var(0) | x.var(0, False) | x.var(False) | y.var((0, 2), keepdim=True) | x.var(1, correction=0) | i.var() | i.std(0)
x.std() | x.std(1, True, True) | torch.ones(1).var() | torch.ones(2, 0).std(1) | m.var() | torch.var_mean(x, 1)
torch.std_mean(y, (0, 1), correction=2) | torch.var(x) | x.logsumexp(0) | y.logsumexp((0, 2), True) | i.logsumexp(1) | e.logsumexp(0)
x.norm() | x.norm(1) | x.norm(2, 0) | x.norm(inf, 1) | y.norm(3, (0, 1), True) | x.norm("fro") | i.norm() | m.norm() | x.norm(0)
torch.norm(x, dim=1) | f.norm(dtype=torch.float64) | x.all() | x.any(0) | b.all(1, True) | i.to(torch.uint8).all() | e.all()
e.any() | x.count_nonzero() | i.count_nonzero(0) | i.count_nonzero((0, 1)) | k.any() | m.all()
torch.allclose(x, x) | torch.allclose(x, i) | torch.isclose(k, k) | torch.isclose(k, k, equal_nan=True) | torch.equal(x, x)
torch.isclose(x, x + 1e-9) | torch.isclose(i, i + 1, atol=1.5) | torch.isclose(x, x, rtol=-1) | torch.equal(x, y) | torch.equal(k, k)
x.cumsum(0) | y.cumsum(1) | i.cumsum(1) | b.cumsum(0) | x.cumsum() | x.cumsum(5) | s.cumsum(0) | f.cumsum(0, dtype=torch.float64)
x.cumprod(1) | d.cumprod(1) | i.cumprod(0) | s.cumprod(0) | e.cumsum(0)
"""
SOFTMAX = """
x.softmax(0) | x.softmax(1) | y.softmax(1) | x.t().softmax(0) | s.softmax(0) | e.softmax(0) | i.softmax(0) | i.softmax(1) | x.softmax()
x.softmax(5) | x.softmax(None) | i.softmax(0, dtype=torch.float32) | f.softmax(1, dtype=torch.float64) | m.softmax(0)
x.log_softmax(0) | x.log_softmax(-1) | y.log_softmax(1) | i.log_softmax(1) | f.log_softmax(0) | k.softmax(0) | F.softmin(x, 1)
torch.tensor([-inf, -inf]).softmax(0) | torch.tensor([inf, 0.]).log_softmax(0) | torch.tensor([[inf, 0.], [-inf, -inf]]).logsumexp(1)
"""
SORTING = """
x.sort() | x.sort(0, True) | x.sort(descending=True, stable=True) | x.argsort() | x.argsort(0, True) | i.sort(1) | b.sort(1) | k.sort()
k.sort(descending=True) | s.sort() | m.sort() | x.sort(2) | torch.msort(x) | x.topk(2) | x.topk(2, 0) | x.topk(5)
x.topk(2, sorted=False, largest=False) | x.topk(0) | b.topk(1) | m.topk(1) | x.kthvalue(2) | x.kthvalue(3, 0, True) | x.kthvalue(9)
x.median() | x.median(1) | x.median(0, True) | i.median() | k.median() | k.median(0) | b.median() | e.median() | e.median(0)
"""
PRODUCTS = """
u @ v | x @ u | u @ w | x @ w | y @ w | y @ u | u @ z.transpose(1, 2).transpose(1, 2) | y @ z | x @ z | y[:1] @ z | y @ z[:1]
y.unsqueeze(1) @ z | x @ w.detach() | y @ w.detach() | x.detach() @ z | x.t() @ x | x[:, ::2] @ x[:, ::2].t() | x @ v.expand(6, 4).t()
torch.mm(x, w) | torch.mv(x, u) | torch.dot(u, v) | torch.bmm(y, z) | torch.mm(x, x) | torch.mm(u, w) | torch.mm(x, u) | torch.mv(x, x)
torch.mv(x, w[0]) | torch.dot(u, x[0, :2]) | torch.dot(x, u) | torch.bmm(y, y) | torch.bmm(x, y) | torch.bmm(y, x) | torch.mm(x, f.t())
torch.mv(x, f[0]) | torch.dot(u, f[0]) | torch.bmm(y, z.float()) | s @ u | u @ s | y @ y | x @ 3 | i @ i.t() | b @ b | torch.matmul(x, [1])
torch.dot(b[0], b[1]) | i[0] @ i[1] | torch.addmm(w[0], x, w) | torch.addmm(u, x, w) | torch.addmm(x[:, :1], x, w, beta=0.5, alpha=2)
torch.addmm(y, x, w) | torch.addmm(w[0].float(), x, w) | torch.addmv(x[:, 0], x, u, beta=2) | torch.baddbmm(x[:, :3], y, z)
torch.outer(u, v) | torch.ger(u, v) | torch.outer(x, u) | torch.vdot(m, m) | torch.inner(x, x) | torch.inner(u, v) | torch.inner(x, i)
torch.einsum("ij->ji", x) | torch.einsum("ij,jk->ik", x, w) | torch.einsum("bij,bjk", y, z) | torch.einsum("ij->i", x)
torch.einsum("i,j->ij", u, v) | torch.einsum("ij,ij->", x, p) | torch.einsum("ij", y) | torch.einsum("ij->k", x) | torch.einsum("ij,jk", x, x)
torch.tensordot(y, z, ([1, 2], [2, 1])) | torch.tensordot(x, w, 1) | torch.tensordot(x, w, 2) | e @ x[:3] | e.t() @ e
F.linear(x, w.t()) | F.linear(x, w.t(), w[0]) | F.linear(y, w.t(), w[0]) | F.linear(y, w.t()) | F.linear(u, w.t(), w[0]) | F.linear(x, u)
F.linear(x, w) | F.linear(x, w, u) | F.linear(x, w.t(), u) | F.linear(x, w.float(), w[0]) | F.linear(x, u, u)
"""
LOSSES = """
F.mse_loss(x, p) | F.mse_loss(x, p, reduction="none") | F.mse_loss(x, p, reduction="sum") | F.mse_loss(x, u) | F.mse_loss(x, w) | F.mse_loss(t, t)
F.mse_loss(x, p, reduction="bad") | F.mse_loss(e, e) | F.mse_loss(x, p, weight=q.detach()) | F.l1_loss(x, p) | F.l1_loss(x, u, reduction="sum")
F.l1_loss(t, t) | F.smooth_l1_loss(x, p, beta=0.5) | F.smooth_l1_loss(x, p, beta=0) | F.smooth_l1_loss(x, p, beta=-1) | F.huber_loss(x, p, delta=0.5)
F.huber_loss(x, p, delta=0) | F.binary_cross_entropy(p, q) | F.binary_cross_entropy(p, q, reduction="none") | F.binary_cross_entropy(x, q)
F.binary_cross_entropy(p, x) | F.binary_cross_entropy(p, q, weight=u.detach()) | F.binary_cross_entropy(p, u) | F.binary_cross_entropy(p, q.long())
F.binary_cross_entropy_with_logits(x, p) | F.binary_cross_entropy_with_logits(x, p, pos_weight=v.detach(), reduction="sum")
F.binary_cross_entropy_with_logits(x, p, weight=q.detach()) | F.binary_cross_entropy_with_logits(x, u)
F.binary_cross_entropy_with_logits(x[:, 0], t) | F.nll_loss(x, t) | F.nll_loss(u, t[0]) | F.nll_loss(z, i % 4) | F.nll_loss(z.unsqueeze(3), i.unsqueeze(2) % 4)
F.nll_loss(z[..., None, None], i[..., None, None] % 4) | F.nll_loss(x, t, reduction="none") | F.nll_loss(x, t, weight=u.detach())
F.nll_loss(x, t, weight=u[:3].detach()) | F.nll_loss(x, t.double()) | F.nll_loss(x, t.int()) | F.nll_loss(x, t + 3) | F.nll_loss(x, t - 1)
F.nll_loss(x, t, ignore_index=2) | F.nll_loss(x, t[:2]) | F.nll_loss(x, t.unsqueeze(0)) | F.nll_loss(z, i[:, :2]) | F.nll_loss(s, t)
F.nll_loss(z.unsqueeze(3), i.unsqueeze(1)) | F.nll_loss(f, t, weight=u.detach()) | F.nll_loss(x * 0, t * 0, ignore_index=0)
F.cross_entropy(x, t) | F.cross_entropy(u, t[0]) | F.cross_entropy(z, i % 4) | F.cross_entropy(x, t, reduction="none", weight=u.detach())
F.cross_entropy(x, t, label_smoothing=0.1) | F.cross_entropy(x, t, label_smoothing=0.1, weight=p[0].detach()) | F.cross_entropy(x, t, label_smoothing=2)
F.cross_entropy(z, i % 4, label_smoothing=0.1, reduction="none") | F.cross_entropy(x, t, label_smoothing=0.1, ignore_index=2, reduction="sum")
F.cross_entropy(x, p) | F.cross_entropy(x, p, weight=p[0].detach(), label_smoothing=0.1) | F.cross_entropy(y, y.softmax(1), reduction="none")
F.cross_entropy(u, v.softmax(0)) | F.cross_entropy(x, w) | F.cross_entropy(x, t.double()) | F.cross_entropy(x, x.long()) | F.cross_entropy(s, t)
F.cross_entropy(x, p, ignore_index=1) | F.cross_entropy(x, t, weight=w[0].detach()) | F.kl_div(x, p) | F.kl_div(x, p, reduction="batchmean")
F.kl_div(x, q, reduction="sum", log_target=True) | F.kl_div(x, p, reduction="none") | F.mse_loss(f, x) | F.mse_loss(f, p)
"""
LINES = [
    line.strip()
    for text in (REDUCTIONS, SOFTMAX, SORTING, PRODUCTS, LOSSES)
    for line in text.replace("\n", " | ").split(" | ")
    if line.strip()
]

# What differs, and why. The values agree all the same.
NODES_DIFFER = {
    "x.nansum()": "one op without and with dims",
    'F.mse_loss(f, x)': "operands are cast by a recorded op",
    "F.mse_loss(f, p)": "operands are cast by a recorded op",
    "u @ z.transpose(1, 2).transpose(1, 2)": "two views that cancel",
    "torch.inner(x, x)": "composed otherwise",
    "torch.inner(u, v)": "composed otherwise",
    "torch.tensordot(y, z, ([1, 2], [2, 1]))": "composed otherwise",
    "torch.tensordot(x, w, 1)": "composed otherwise",
    "F.cross_entropy(x, p)": "PyTorch divides by a C++ number",
    "F.cross_entropy(u, v.softmax(0))": "PyTorch divides by a C++ number",
    "F.cross_entropy(x, p, weight=p[0].detach(), label_smoothing=0.1)": "PyTorch divides by a C++ number",
    'F.kl_div(x, p, reduction="batchmean")': "a Python number is an operand of PyTorch's node",
}
RENAMED = re.compile(r"Backward\d$")


def evaluate(library, line):
    """(result or error, warnings, gradients of leaves by name)."""
    scope = {"torch": library, "np": np}
    exec(SETUP, scope)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = eval(line, scope)
        except Exception as error:
            result = error
    texts = sorted({re.sub(r" \(Triggered.*", "", str(w.message), flags=re.S) for w in caught})
    return result, texts, gradients(library, result, scope)


def gradients(library, result, scope):
    outs = [o for o in flat(library, result) if o.requires_grad]
    if not outs:
        return {}
    rng = np.random.default_rng(7)
    seeds = [library.tensor(rng.standard_normal(tuple(o.shape))).to(o.dtype) for o in outs]
    library.autograd.backward(outs, seeds)
    return {n: scope[n].grad.numpy() for n in LEAVES if scope[n].grad is not None}


def flat(library, result):
    if isinstance(result, library.Tensor):
        return [result]
    return [t for r in result for t in flat(library, r)] if isinstance(result, tuple) else []


def nodes(tensor):
    """Names of the node and of those behind it; 0 and 1 at their ends are PyTorch's overloads."""
    node = tensor.grad_fn
    if node is None:
        return None
    behind = [n.name().rpartition("::")[2] if n is not None else None for n, _ in node.next_functions]
    return node.name(), [RENAMED.sub("", n) if n else n for n in behind]


@pytest.mark.parametrize("line", LINES)
def test_same(line):
    ours, our_warnings, our_gradients = evaluate(jitgrad, line)
    theirs, their_warnings, their_gradients = evaluate(torch, line)
    if isinstance(theirs, Exception) or isinstance(ours, Exception):
        assert (type(ours).__name__, str(ours)) == (type(theirs).__name__, str(theirs))
        return
    assert our_warnings == their_warnings
    if isinstance(theirs, bool):
        assert ours is theirs
        return
    assert type(ours).__name__ == type(theirs).__name__
    for a, b in zip(flat(jitgrad, ours), flat(torch, theirs), strict=True):
        assert (str(a.dtype), tuple(a.shape), a.stride()) == (str(b.dtype), tuple(b.shape), b.stride())
        tolerance = 1e-5 if b.dtype in (torch.float32, torch.complex64) else 1e-10
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=tolerance, atol=tolerance)
        if line not in NODES_DIFFER:
            assert nodes(a) == nodes(b)
    assert our_gradients.keys() == their_gradients.keys()
    for name, g in our_gradients.items():
        tolerance = 1e-5 if g.dtype == np.float32 else 1e-10
        np.testing.assert_allclose(g, their_gradients[name], rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("g", [0.0, 1.0])
def test_xlogy_at_zero(g):
    def run(lib):
        x, y = (lib.tensor(v, requires_grad=True) for v in ([0.0, 0.0, 1.0, 2.0, 1.0, 1.0], [0.0, 2.0, 0.0, 3.0, -1.0, math.inf]))
        return [t.tolist() for t in lib.autograd.grad(lib.xlogy(x, y), (x, y), lib.full((6,), g))]

    np.testing.assert_allclose(run(jitgrad), run(torch), rtol=1e-6)
