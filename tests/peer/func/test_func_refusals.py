"""What functions under jitgrad.func may not do, in torch.func's words, and what their tensors print."""

import numpy as np
import pytest

import jitgrad

from ..beside import Raised, outcome, same

torch = pytest.importorskip("torch")

VALUES = np.random.default_rng(3).standard_normal((2, 3))


def total(x):
    return x.sum()


def captured(write):
    """grad of a function that writes to a tensor of somebody else's."""

    def run(m, x):
        buffer = m.zeros(2, 3, dtype=m.float64)

        def f(y):
            write(buffer, y)
            return (y * buffer).sum()

        return m.func.grad(f)(x)

    return run


def set_row(buffer, y):
    buffer[0] = y[1]


def calls(method):
    def run(m, x):
        return m.func.grad(lambda y: (getattr(y * 1, method)(), y.sum())[1])(x)

    return run


def hooked(m):
    return m.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)


def under_hooks(m, x):
    with hooked(m):
        return m.func.vjp(total, x)


def hooks_inside(m, x):
    def f(y):
        with hooked(m):
            return y.sum()

    return m.func.grad(f)(x)


def nested_dual(m, x):
    fw = m.autograd.forward_ad
    with fw.dual_level():
        return m.func.jvp(m.sin, (x,), (x,))


def level_inside(m, x):
    def f(y):
        with m.autograd.forward_ad.dual_level():
            return y.sin()

    return m.func.jvp(f, (x,), (x,))


def dual_of_samples(m, x):
    def f(y):
        fw = m.autograd.forward_ad
        with fw.dual_level():
            return fw.unpack_dual(fw.make_dual(y, y)).tangent

    return m.func.vmap(f)(x)


def without_setup_context(transform):
    def run(m, x):
        class Sine(m.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x.sin()

            @staticmethod
            def backward(ctx, g):
                return g * ctx.saved_tensors[0].cos()

        return transform(m, lambda y: Sine.apply(y).sum())(x)

    return run


def functional(name, **options):
    def run(m, x):
        return m.func.grad(lambda y: getattr(m.autograd.functional, name)(total, y, **options)[0].sum())(x)

    return run


ERRORS = {
    "copy_ to a captured tensor": captured(lambda b, y: b.copy_(y)),
    "zero_": captured(lambda b, y: b.zero_()),
    "add_ a number": captured(lambda b, y: b.add_(1)),
    "mul_": captured(lambda b, y: b.mul_(y)),
    "exp_": captured(lambda b, y: b.exp_()),
    "a view of it": captured(lambda b, y: b[0].zero_()),
    "its rows": captured(set_row),
    "t_": captured(lambda b, y: b.t_()),
    "vjp": lambda m, x: m.func.vjp(x.clone().add_, x),
    "jvp": lambda m, x: m.func.jvp(x.clone().add_, (x,), (x,)),
    "vmap of grad": lambda m, x: m.func.vmap(m.func.grad(lambda y: x[0].copy_(y).sum()))(x),
    "of an outer grad": lambda m, x: m.func.grad(lambda y: (
        lambda z: m.func.grad(lambda v: z.mul_(v).sum())(y).sum())(y.clone()))(x),
    "requires_grad_": calls("requires_grad_"),
    "retain_grad": calls("retain_grad"),
    "backward": lambda m, x: m.func.grad(lambda y: y.sum().backward())(x),
    "requires_grad_ in jvp": lambda m, x: m.func.jvp(lambda y: y.requires_grad_(), (x,), (x,)),
    "jacobian": functional("jacobian"),
    "hessian": functional("hessian"),
    "functional.vjp": functional("vjp"),
    "functional.jvp": lambda m, x: m.func.vmap(lambda y: m.autograd.functional.jvp(total, y, y)[1])(x),
    "forward-mode jacobian of samples": lambda m, x: m.func.vmap(lambda y: m.autograd.functional.jacobian(
        m.sin, y, strategy="forward-mode", vectorize=True))(x),
    "hooks around": under_hooks,
    "hooks inside": hooks_inside,
    "jvp in a dual level": nested_dual,
    "a dual level in jvp": level_inside,
    "make_dual in vmap": dual_of_samples,
    "grad of a Function": without_setup_context(lambda m, f: m.func.grad(f)),
    "jacfwd of a Function": without_setup_context(lambda m, f: m.func.jacfwd(f)),
    "vmap of a Function": without_setup_context(lambda m, f: m.func.vmap(f)),
    "aux of grad": lambda m, x: m.func.grad(lambda y: (y.sum(), 1), has_aux=True)(x),
    "aux of vjp": lambda m, x: m.func.vjp(lambda y: (y, {"k": [y, "a"]}), x, has_aux=True),
    "aux of jvp": lambda m, x: m.func.jvp(lambda y: (y, None), (x,), (x,), has_aux=True),
    "aux of jacrev": lambda m, x: m.func.jacrev(lambda y: (y, 2.0), has_aux=True)(x),
    "nothing from vjp": lambda m, x: m.func.vjp(lambda y: None, x),
    "an empty tuple from jvp": lambda m, x: m.func.jvp(lambda y: (), (x,), (x,)),
    "an empty tuple from jacrev": lambda m, x: m.func.jacrev(lambda y: ())(x),
    "nothing from jacfwd": lambda m, x: m.func.jacfwd(lambda y: [None])(x),
    "None beside a tensor": lambda m, x: m.func.vjp(lambda y: (y, None), x),
    "complex into jacrev": lambda m, x: m.func.jacrev(lambda y: y.abs())(x + 1j),
    "complex into jacfwd": lambda m, x: m.func.jacfwd(lambda a, y: y.abs())(x, x + 1j),
    "complex out of jacrev": lambda m, x: m.func.jacrev(lambda y: (y, y * 1j))(x),
    "complex out of jacfwd": lambda m, x: m.func.jacfwd(lambda y: y * 1j)(x),
    "grad of a complex number": lambda m, x: m.func.grad(total)(x + 1j),
    "a cotangent that is a number": lambda m, x: m.func.vjp(m.sin, x)[1](1.0),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    theirs = outcome(ERRORS[name], torch, VALUES)
    assert isinstance(theirs, Raised)
    assert outcome(ERRORS[name], jitgrad, VALUES) == theirs


def in_place_on_arguments(m, x):
    y = m.zeros(3, dtype=m.float64)
    found = m.func.jacrev(lambda a, b: b.copy_(a))(x[0], y)
    return found, y, m.tensor([y.requires_grad])


def switched(recorded, products_recorded):
    def run(m, x):
        x = x.requires_grad_()
        with m.set_grad_enabled(recorded):
            out, products = m.func.vjp(lambda y: y**2, x)
        with m.set_grad_enabled(products_recorded):
            (found,) = products(m.ones_like(x))
        return m.tensor([out.requires_grad, found.requires_grad]), out, found

    return run


def leaf_inside(m, x):
    """A leaf made inside is of no concern to anybody outside."""
    leaf = []

    def f(y):
        leaf.append(m.ones(3, dtype=m.float64, requires_grad=True))
        return (y * leaf[0]).sum()

    return str(m.func.grad(f)(x).requires_grad)


def rows_one_by_one(m, x):
    """With chunk_size=1 nothing is batched, so backward may read values."""

    class Clip(m.autograd.Function):
        @staticmethod
        def forward(x):
            return x.clone()

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g * g.nonzero().shape[0]

    return m.func.jacrev(Clip.apply, chunk_size=1)(x)


def shapes_in_place(m, x):
    def loss(w, y):
        y = y @ w
        y.squeeze_(0)
        return (y.unsqueeze_(-1).sin()).sum()

    return m.func.vmap(m.func.grad(loss), in_dims=(None, 0))(x.t() @ x, x[:, None])


def prints(wrap):
    """What tensors print inside: the argument, a result, something new and something captured."""

    def run(m, x):
        shown, outside = [], m.ones(2, requires_grad=True)

        def f(y):
            shown.extend(map(repr, (y, y.detach(), m.zeros(2), outside, outside * 2, m.arange(2))))
            shown.append(str(y.sum() * 2))
            return y.sin().sum()

        wrap(m, f)(x)
        return shown

    return run


PROGRAMS = {
    "in place on arguments": in_place_on_arguments,
    "recorded": switched(True, True),
    "outputs alone recorded": switched(True, False),
    "products alone recorded": switched(False, True),
    "nothing recorded": switched(False, False),
    "a leaf inside": leaf_inside,
    "rows one by one": rows_one_by_one,
    "shapes in place": shapes_in_place,
    "aux of forward over reverse": lambda m, x: m.func.vmap(m.func.jacfwd(
        m.func.jacrev(lambda y: (y.sin().sum(), y * 2), has_aux=True), has_aux=True))(x),
    "a buffer": lambda m, x: m.func.grad(lambda y: m.zeros(2, 3, dtype=m.float64).copy_(y).pow(2).sum())(x),
    "a copy of a captured tensor": lambda m, x: m.func.grad(lambda y: (x.clone().mul_(y)).sum())(x),
    "a result of an inner grad": lambda m, x: m.func.grad(
        lambda y: m.func.grad(lambda z: (z**3).sum())(y).mul_(2).sum())(x),
    "cotangents of another dtype": lambda m, x: m.func.vjp(m.sin, x)[1](x.float()),
    "grad prints": prints(lambda m, f: m.func.grad(f)),
    "grad of what requires grad prints": prints(lambda m, f: lambda x: m.func.grad(f)(x.requires_grad_())),
    "grad of a result prints": prints(lambda m, f: lambda x: m.func.grad(f)(x.requires_grad_() * 2)),
    "grad of grad prints": prints(lambda m, f: m.func.grad(lambda y: m.func.grad(f)(y).sum())),
    "vmap of grad prints": prints(lambda m, f: m.func.vmap(m.func.grad(f))),
    "grad of vmap prints": prints(lambda m, f: m.func.grad(lambda y: m.func.vmap(f)(y).sum())),
    "jvp prints": prints(lambda m, f: lambda x: m.func.jvp(f, (x,), (x,))),
    "vmap of jvp prints": prints(lambda m, f: m.func.vmap(lambda y: m.func.jvp(f, (y,), (y,)))),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name):
    same(outcome(PROGRAMS[name], jitgrad, VALUES), outcome(PROGRAMS[name], torch, VALUES))


def test_a_refused_write_has_written_nothing():
    buffer = jitgrad.zeros(3)
    with pytest.raises(RuntimeError, match="mutate a captured Tensor"):
        jitgrad.func.grad(lambda y: buffer.copy_(y).sum())(jitgrad.ones(3))
    assert buffer.tolist() == [0.0, 0.0, 0.0]
    assert not buffer.requires_grad
    assert buffer.add_(1).tolist() == [1.0, 1.0, 1.0]
