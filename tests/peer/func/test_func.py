"""jitgrad.func beside torch.func: values of every transform and of their compositions, errors and their words."""

import numpy as np
import pytest

import jitgrad

from ..beside import Raised, outcome, same

torch = pytest.importorskip("torch")

VALUES = np.random.default_rng(0).standard_normal((3, 4))


def write(m, a):
    b = a.clone()
    b[0] = 5.0
    b[1:3] = a[:2]
    b[[3]] = a[0]
    return b


def per_sample(m, x):
    """Gradients of a small network's loss for each sample, parameters shared."""
    f = m.nn.functional
    weights = {"w": x.t() @ x, "b": x[0]}

    def loss(p, a, t):
        return f.cross_entropy((a @ p["w"] + p["b"]).tanh()[None], t[None])

    return m.func.vmap(m.func.grad(loss), in_dims=(None, 0, 0))(weights, x, m.tensor([1, 0, 3]))


PROGRAMS = {
    "vmap": lambda m, x: m.func.vmap(m.sin)(x),
    "vmap of a sum": lambda m, x: m.func.vmap(lambda a: a.sum())(x),
    "in_dims and out_dims": lambda m, x: m.func.vmap(lambda a: a.softmax(0), in_dims=1, out_dims=1)(x),
    "several outputs": lambda m, x: m.func.vmap(lambda a: (a.sum(), {"k": a}), out_dims=(0, {"k": 1}))(x),
    "matmul": lambda m, x: m.func.vmap(lambda a: a @ x.t())(x),
    "nested vmap": lambda m, x: m.func.vmap(lambda a: m.func.vmap(lambda b: (a * b).sum())(x))(x),
    "nested in_dims": lambda m, x: m.func.vmap(m.func.vmap(m.mul, in_dims=(None, 0)), in_dims=(0, None))(x, x),
    "nest of inputs": lambda m, x: m.func.vmap(lambda d, k: d["a"] * d["b"][0] + k, in_dims=({"a": 0, "b": [1]}, None))(
        {"a": x, "b": [x.t()]}, 2.0),
    "keyword": lambda m, x: m.func.vmap(lambda a, b: a + b)(x, b=x),
    "not mapped": lambda m, x: m.func.vmap(lambda a: (a, x[0]), out_dims=(0, None))(x),
    "negative dims": lambda m, x: m.func.vmap(lambda a: a * 2, in_dims=-1, out_dims=-1)(x),
    "chunks": lambda m, x: m.func.vmap(lambda a: a.sum() * a, chunk_size=2)(x),
    "promotion": lambda m, x: m.func.vmap(lambda a: a.sum() * m.ones(2))(x.float()),
    "grad": lambda m, x: m.func.grad(lambda a: (a**3).sum())(x),
    "grad of grad": lambda m, x: m.func.grad(lambda a: m.func.grad(lambda b: (b**3 * a).sum())(a).sum())(x),
    "third derivative": lambda m, x: m.func.grad(m.func.grad(m.func.grad(lambda a: a**5)))(x[0, 0]),
    "closure": lambda m, x: m.func.grad(lambda a: m.func.grad(lambda b: a * b)(x[0, 0]) * a)(x[0, 1]),
    "argnums": lambda m, x: m.func.grad(lambda a, b: (a * b * b).sum(), argnums=(0, 1))(x[0], x[1]),
    "negative argnums": lambda m, x: m.func.grad(lambda a, b: (a * b * b).sum(), argnums=-1)(x[0], x[1]),
    "aux": lambda m, x: m.func.grad(lambda a: (a.sum(), a * 2), has_aux=True)(x),
    "grad_and_value": lambda m, x: m.func.grad_and_value(lambda a: ((a * a).sum(), a), has_aux=True)(x),
    "nest of parameters": lambda m, x: m.func.grad(lambda d: (d["w"] * d["b"][0]).sum())({"w": x, "b": [x + 1]}),
    "unused": lambda m, x: m.func.grad(lambda a, b: a.sum(), argnums=(0, 1))(x, x),
    "within no_grad": lambda m, x: within_no_grad(m, x),
    "no_grad within": lambda m, x: m.func.grad(lambda a: no_grad_within(m, a))(x),
    "detach": lambda m, x: m.func.grad(lambda a: (a * a.detach()).sum())(x),
    "vjp": lambda m, x: m.func.vjp(lambda a: (a.sin(), {"k": a.sum()}), x)[1]((x, {"k": x[0, 0]})),
    "vjp value": lambda m, x: m.func.vjp(lambda a: a.sin(), x)[0],
    "vjp of several": lambda m, x: m.func.vjp(lambda a, b: a * b, x, x + 1)[1](x),
    "vjp aux": lambda m, x: (lambda r: (r[0], r[1](x), r[2]))(m.func.vjp(lambda a: (a * 3, a), x, has_aux=True)),
    "jvp": lambda m, x: m.func.jvp(lambda a: a.sin().sum(0), (x,), (x * 2,)),
    "jvp aux": lambda m, x: m.func.jvp(lambda a: (a.sin(), a), (x,), (x * 2,), has_aux=True),
    "jvp of jvp": lambda m, x: m.func.jvp(
        lambda y: m.func.jvp(lambda a: (a**3 * y).sum(0), (x,), (x * 2,))[1], (x,), (x,)),
    "jvp, nothing confused": lambda m, x: m.func.jvp(
        lambda y: m.func.jvp(lambda a: y, (x,), (x,))[1] * y, (x,), (x,)),
    "linearize": lambda m, x: (lambda r: (r[0], r[1](x)))(m.func.linearize(lambda a: a.exp().sum(0), x)),
    "jacrev": lambda m, x: m.func.jacrev(lambda a: (a**2).sum(0))(x),
    "jacfwd": lambda m, x: m.func.jacfwd(lambda a: (a**2).sum(0))(x),
    "jacrev argnums": lambda m, x: m.func.jacrev(lambda a, b: a * b, argnums=(0, 1))(x[0], x[1]),
    "jacfwd argnums": lambda m, x: m.func.jacfwd(lambda a, b: a * b, argnums=(0, 1))(x[0], x[1]),
    "jacrev, outputs": lambda m, x: m.func.jacrev(lambda a: {"s": a.sum(), "p": (a, a * 2)})(x[0]),
    "jacfwd, outputs": lambda m, x: m.func.jacfwd(lambda a: {"s": a.sum(), "p": (a, a * 2)})(x[0]),
    "jacrev, inputs": lambda m, x: m.func.jacrev(lambda d: d["a"] * d["b"])({"a": x[0], "b": x[1]}),
    "jacrev aux": lambda m, x: m.func.jacrev(lambda a: (a.sum(0), a * 2), has_aux=True)(x),
    "jacfwd aux": lambda m, x: m.func.jacfwd(lambda a: (a.sum(0), a * 2), has_aux=True)(x),
    "jacrev chunks": lambda m, x: m.func.jacrev(lambda a: a.sin(), chunk_size=5)(x),
    "hessian": lambda m, x: m.func.hessian(lambda a: (a.sin() * a.sum()).sum())(x),
    "forward twice": lambda m, x: m.func.jacfwd(m.func.jacfwd(lambda a: (a.sin() * a.sum()).sum()))(x),
    "reverse twice": lambda m, x: m.func.jacrev(m.func.jacrev(lambda a: (a.sin() * a.sum()).sum()))(x),
    "reverse over forward": lambda m, x: m.func.jacrev(m.func.jacfwd(lambda a: (a.sin() * a.sum()).sum()))(x),
    "forward over reverse, matrices": lambda m, x: m.func.jacfwd(
        m.func.jacrev(lambda a: (a @ a.t()).tanh().logsumexp(0).sum()))(x),
    "reverse over forward, matrices": lambda m, x: m.func.jacrev(
        m.func.jacfwd(lambda a: (a @ a.t()).tanh().logsumexp(0).sum()))(x),
    "three levels": lambda m, x: m.func.jacfwd(m.func.jacrev(m.func.grad(lambda a: (a**4).prod())))(x[0, :2]),
    "vmap of grad": lambda m, x: m.func.vmap(m.func.grad(lambda a: (a.sin() * a).sum()))(x),
    "per sample": per_sample,
    "vmap of hessian": lambda m, x: m.func.vmap(m.func.hessian(lambda a: (a.sin() * a.sum()).prod()))(x),
    "vmap of jvp": lambda m, x: m.func.vmap(lambda a, t: m.func.jvp(lambda z: z.softmax(0), (a,), (t,)))(x, x + 1),
    "vmap of vjp": lambda m, x: m.func.vmap(lambda a, c: m.func.vjp(lambda z: z.cumsum(0), a)[1](c)[0])(x, x),
    "vmap of jacrev of a shared input": lambda m, x: m.func.vmap(
        m.func.jacrev(lambda w, a: w * a.sum(), argnums=0), in_dims=(None, 0))(x[0], x),
    "jvp of vmap": lambda m, x: m.func.jvp(m.func.vmap(lambda z: z.softmax(0)), (x,), (x,)),
    "grad of vmap": lambda m, x: m.func.grad(lambda y: m.func.vmap(lambda z: z.softmax(0)[0])(y).sum())(x),
    "basic indexing": lambda m, x: m.func.vmap(lambda a: (a[0], a[1:], a[[2, 0]], a[None, ::2], a[..., -1]))(x),
    "an index per sample": lambda m, x: m.func.vmap(lambda a, i: a[i])(x, m.tensor([0, 1, 2])),
    "index tensors per sample": lambda m, x: m.func.vmap(lambda i: (x[i], x[:, i], x[i, 1:3]))(
        m.tensor([[0, 2], [1, 1], [2, 0]])),
    "writes": lambda m, x: m.func.vmap(lambda a: write(m, a))(x),
    "indexed writes": lambda m, x: m.func.vmap(lambda a, i: a.clone().index_put_((i,), a[:2]))(
        x, m.tensor([[0, 2], [1, 3], [2, 0]])),
    "in place": lambda m, x: m.func.vmap(lambda a: a.clone().mul_(2).add_(a))(x),
    "where": lambda m, x: m.func.vmap(lambda a: m.where(a > 0, a, a.mean()))(x),
    "linear": lambda m, x: m.func.vmap(lambda a: m.nn.functional.linear(a, x, x[:, 0]))(x),
    "loss": lambda m, x: m.func.vmap(m.func.grad(lambda a, b: m.nn.functional.mse_loss(a, b)))(x, x + 1),
    "gather": lambda m, x: m.func.vmap(lambda a, i: a.gather(0, i))(x, m.tensor([[0, 1], [1, 2], [3, 3]])),
    "order": lambda m, x: m.func.vmap(lambda a: (a.sort()[0], a.max(), a.max(0).values, a.argmax(), a.topk(2)[1]))(x),
    "joining": lambda m, x: m.func.vmap(lambda a: (m.cat([a, x[0]]), m.stack([a, x[0]], -1), a.unbind(0)[1]))(x),
    "shapes": lambda m, x: m.func.vmap(lambda a: (a.reshape(2, -1).t(), a.sum().expand(3), a.view(2, 2).flip(0)))(x),
    "moments": lambda m, x: m.func.vmap(lambda a: (a.std(), a.var(0), a.norm(), a.mean(-1)))(x),
    "einsum": lambda m, x: m.func.vmap(lambda a: m.einsum("i,ij->j", a, x.t()))(x),
    "created inside": lambda m, x: m.func.vmap(lambda a: m.zeros_like(a).add_(a) + a.new_ones(4) + m.arange(4))(x),
    "prints": lambda m, x: (shown := [], m.func.vmap(lambda a: shown.append(repr(a)) or a)(x), shown)[2],
    "dual inside": lambda m, x: (
        seen := [], m.func.jvp(lambda a: seen.append(a.shape) or a, (x,), (x,)), seen)[2],
}  # fmt: skip


def within_no_grad(m, x):
    with m.no_grad():
        return m.func.grad(lambda a: (a**2).sum())(x)


def no_grad_within(m, a):
    with m.no_grad():
        c = a * 2
    return (a * c).sum()


def outer_gradient(m, x):
    """A transform's result is part of the graph of a captured tensor, and not of its own variable."""
    w = m.ones(4, dtype=m.float64, requires_grad=True)
    value = m.func.grad(lambda a: (a * a * w).sum())(x[0])
    plain = m.func.grad(lambda a: (a * a).sum() + w.sum())(x[0])
    value.sum().backward()
    return w.grad, m.tensor([value.requires_grad, plain.requires_grad])


def of_a_leaf(m, x):
    x = x.requires_grad_()
    value = m.func.grad(lambda a: (a**3).sum())(x)
    value.sum().backward()
    return x.grad


PROGRAMS["gradients of what is captured"] = outer_gradient


def averages(norm, transform):
    """Running averages, which belong to no argument, move under every transform but vmap."""

    def program(m, x):
        x, mean, var = x.reshape(2, 3, 2), m.zeros(3, dtype=m.float64), m.ones(3, dtype=m.float64)
        keywords = {"training": True} if norm == "batch_norm" else {}

        def of(a):
            return getattr(m.nn.functional, norm)(a, mean, var, **keywords)

        made = m.func.jvp(of, (x,), (x.sin(),)) if transform == "jvp" else m.func.grad(lambda a: of(a).sin().sum())(x)
        return made, mean, var

    return program


for _norm in ("batch_norm", "instance_norm"):
    PROGRAMS |= {f"{_norm} in {t}": averages(_norm, t) for t in ("jvp", "grad")}
PROGRAMS["an argument that requires grad"] = of_a_leaf

ERRORS = {
    "number": lambda m, x: m.func.vmap(m.sin)(3.0),
    "no inputs": lambda m, x: m.func.vmap(lambda: x)(),
    "in_dims structure": lambda m, x: m.func.vmap(lambda a: a, in_dims=(0, 0))(x),
    "in_dims kind": lambda m, x: m.func.vmap(lambda a: a, in_dims="a")(x),
    "in_dims list": lambda m, x: m.func.vmap(lambda a, b: a + b, in_dims=[0, None])(x, x[0]),
    "in_dims range": lambda m, x: m.func.vmap(lambda a: a, in_dims=5)(x),
    "in_dims value": lambda m, x: m.func.vmap(lambda a, b: a + b, in_dims=(0, "x"))(x, x[0]),
    "nothing mapped": lambda m, x: m.func.vmap(lambda a, b: a, in_dims=(None, None))(x, x),
    "sizes": lambda m, x: m.func.vmap(lambda a, b: a, in_dims=(0, 0))(x, x.t()),
    "in_dims keys": lambda m, x: m.func.vmap(lambda a, b: a, in_dims=(0, {"k": 0}))(x, {"j": x}),
    "output kind": lambda m, x: m.func.vmap(lambda a: 3.0)(x),
    "output None": lambda m, x: m.func.vmap(lambda a: None)(x),
    "out_dims range": lambda m, x: m.func.vmap(lambda a: a, out_dims=3)(x),
    "out_dims structure": lambda m, x: m.func.vmap(lambda a: a, out_dims=(0, 0))(x),
    "out_dims kind": lambda m, x: m.func.vmap(lambda a: a, out_dims="a")(x),
    "out_dims None": lambda m, x: m.func.vmap(lambda a: a, out_dims=None)(x),
    "item": lambda m, x: m.func.vmap(lambda a: a.sum().item())(x),
    "control flow": lambda m, x: m.func.vmap(lambda a: a if a.sum() > 0 else -a)(x),
    "random": lambda m, x: m.func.vmap(lambda a: a + m.rand(4))(x),
    "random in place": lambda m, x: m.func.vmap(lambda a: x.normal_(), randomness="different")(x),
    "randomness": lambda m, x: m.func.vmap(lambda a: a, randomness="zz")(x),
    "dynamic shape": lambda m, x: m.func.vmap(lambda a: a.nonzero())(x),
    "chunk_size": lambda m, x: m.func.vmap(lambda a: a, chunk_size=0)(x),
    "backward": lambda m, x: m.func.vmap(lambda a: (a * m.ones(4, requires_grad=True)).sum().backward())(x),
    "requires_grad_": lambda m, x: m.func.vmap(lambda a: a.requires_grad_())(x),
    "write to what is shared": lambda m, x: m.func.vmap(lambda a: m.zeros(4).add_(a))(x),
    "escaped": lambda m, x: (kept := [], m.func.vmap(lambda a: kept.append(a) or a)(x), kept[0] + 1),
    "grad of a vector": lambda m, x: m.func.grad(lambda a: a)(x),
    "grad of a number": lambda m, x: m.func.grad(lambda a: 3.0)(x),
    "grad of two": lambda m, x: m.func.grad(lambda a: (a.sum(), a.sum()))(x),
    "grad without aux": lambda m, x: m.func.grad(lambda a: (a.sum(),), has_aux=True)(x),
    "grad at a number": lambda m, x: m.func.grad(lambda a: a.sum())(3.0),
    "grad at whole numbers": lambda m, x: m.func.grad(lambda a: a.sum())(m.ones(3, dtype=m.int64)),
    "argnums range": lambda m, x: m.func.grad(lambda a: a.sum(), argnums=2)(x),
    "argnums twice": lambda m, x: m.func.grad(lambda a: a.sum(), argnums=(0, 0))(x),
    "argnums kind": lambda m, x: m.func.grad(lambda a: a.sum(), argnums="a")(x),
    "vjp shape": lambda m, x: m.func.vjp(m.sin, x)[1](x[0]),
    "vjp structure": lambda m, x: m.func.vjp(lambda a: (a, a), x)[1](x),
    "vjp at a number": lambda m, x: m.func.vjp(m.sin, 3.0),
    "vjp of a number": lambda m, x: m.func.vjp(lambda a: 3.0, x),
    "jvp primals": lambda m, x: m.func.jvp(m.sin, x, x),
    "jvp shape": lambda m, x: m.func.jvp(m.sin, (x,), (x[0],)),
    "jvp structure": lambda m, x: m.func.jvp(m.sin, (x,), (x, x)),
    "jvp at a number": lambda m, x: m.func.jvp(m.sin, (3.0,), (x,)),
    "jvp at nothing": lambda m, x: m.func.jvp(lambda: x, (), ()),
    "jvp of a number": lambda m, x: m.func.jvp(lambda a: 3.0, (x,), (x,)),
    "jacrev of a number": lambda m, x: m.func.jacrev(lambda a: 3.0)(x),
    "jacfwd of a number": lambda m, x: m.func.jacfwd(lambda a: 3.0)(x),
    "jacrev argnums": lambda m, x: m.func.jacrev(lambda a: a.sum(), argnums=1)(x),
    "jacrev chunk_size": lambda m, x: m.func.jacrev(m.sin, chunk_size=0)(x),
    "jacrev at whole numbers": lambda m, x: m.func.jacrev(lambda a: a.sum())(m.ones(3, dtype=m.int64)),
    "jacfwd at whole numbers": lambda m, x: m.func.jacfwd(lambda a: a.sum())(m.ones(3, dtype=m.int64)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name):
    same(outcome(PROGRAMS[name], jitgrad, VALUES), outcome(PROGRAMS[name], torch, VALUES))


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    theirs = outcome(ERRORS[name], torch, VALUES)
    assert isinstance(theirs, Raised)
    assert outcome(ERRORS[name], jitgrad, VALUES) == theirs
