"""Hooks on saved tensors beside PyTorch: values, order, errors, modes left and entered during backward."""

import pytest
import torch

import jitgrad

from .function_cases import Cases
from .graph_cases import leaf, outcome, plain

case = Cases()


# -- hooks on saved tensors -------------------------------------------------------------------------

EXPRESSIONS = """
x * w | u * w | x.exp() | u.exp() | x * 2 | x / w | x.sum() | (x * x).exp() | e.where(x > 0, x, w) | x ** 2 | x.tanh()
x.sigmoid().log() | x @ w | x.softmax(0) | x[0] * w | e.maximum(x, w) | e.cat([x, w]) * u | x.prod() | x.cumsum(0)
""".replace("\n", "|").strip("|").split("|")


@pytest.mark.parametrize("expression", [e.strip() for e in EXPRESSIONS])
def test_what_pack_and_unpack_see(expression):
    def run(e):
        log = []

        def pack(t):
            name = t.grad_fn.name() if t.grad_fn is not None else None
            log.append([t.requires_grad, t.is_leaf, name, list(t.shape), e.is_grad_enabled()])
            return t

        def unpack(t):
            log.append("unpacked")
            return t

        x, w = leaf(e, 1.0, 2.0), leaf(e, 3.0, 4.0)
        u = x * 1
        with e.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = eval(expression, {"e": e, "x": x, "w": w, "u": u})
        log.append("backward")
        y.sum().backward()
        return log, x.grad, w.grad

    assert outcome(run, jitgrad) == outcome(run, torch)


def doubled(e):
    return e.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2)


@case
def nested(e):
    log, x = [], leaf(e, 1.0)
    outer = e.autograd.graph.saved_tensors_hooks(lambda t: (log.append("p1"), t)[1], lambda t: (log.append("u1"), t)[1])
    inner = e.autograd.graph.saved_tensors_hooks(lambda t: (log.append("p2"), t)[1], lambda t: (log.append("u2"), t)[1])
    with outer:
        with inner:
            y = x * x
        z = y * y
    z.backward()
    return log, x.grad


@case
def second_order_through_packed(e):
    x = leaf(e, 1.0, 2.0)
    with doubled(e):
        y = (x.exp() * x).sum()
        (g,) = e.autograd.grad(y, x, create_graph=True)
        (h,) = e.autograd.grad(g.sum(), x)
    return g, h


@case
def a_function_of_the_users(e):
    class Square(e.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * x
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return 2 * g * x + 0 * y

    x, log = leaf(e, 3.0), []
    with e.autograd.graph.saved_tensors_hooks(lambda t: (log.append(plain(t)), t * 2)[1], lambda t: t / 2):
        y = Square.apply(x)
    y.backward()
    return x.grad, log


@case
def packed_and_freed(e):
    x = leaf(e, 1.0)
    with doubled(e):
        y = x.exp()
    y.backward()
    y.backward()


@case
def packed_then_written(e):
    x = leaf(e, 1.0)
    u = x * 1
    with doubled(e):
        y = u * u
    u.mul_(3)
    y.backward()
    return x.grad


def of(value):
    def returned(e):
        x = leaf(e, 1.0)
        with e.autograd.graph.saved_tensors_hooks(lambda t: value, lambda t: t):
            y = x * x
        y.backward()

    return returned


case += [of(3), of(None), of("a")]


@case
def pack_raises(e):
    with e.autograd.graph.saved_tensors_hooks(lambda t: 1 / 0, lambda t: t):
        leaf(e, 1.0).exp()


@case
def unpack_raises(e):
    with e.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: 1 / 0):
        y = leaf(e, 1.0).exp()
    y.backward()


@case
def pack_writes(e):
    with e.autograd.graph.saved_tensors_hooks(lambda t: t.add_(1), lambda t: t):
        leaf(e, 1.0).exp()


@case
def hooks_that_are_none(e):
    with e.autograd.graph.saved_tensors_hooks(1, 2):
        pass


@case
def disabled(e):
    with e.autograd.graph.disable_saved_tensors_hooks("not now"), doubled(e):
        pass


@case
def disabled_inside(e):
    with doubled(e), e.autograd.graph.disable_saved_tensors_hooks("not now"):
        pass


@case
def on_cpu(e):
    x = leaf(e, 2.0)
    with e.autograd.graph.save_on_cpu():
        y = (x * x).exp()
    y.backward()
    return x.grad


@case
def mutation(e):
    with e.autograd.graph.allow_mutation_on_saved_tensors():
        x = leaf(e, 1.0, 2.0)
        y = x.clone()
        out = (y**2).sum()
        y.sin_()
        out.backward()
    return x.grad


@case
def mutation_outside(e):
    with e.autograd.graph.allow_mutation_on_saved_tensors():
        y = (leaf(e, 1.0) ** 2).sum()
    y.backward()


@case
def mutation_nested(e):
    allow = e.autograd.graph.allow_mutation_on_saved_tensors
    with allow(), allow():
        pass


# -- entered and left during backward -----------------------------------------------------------------


@case
def hooks_left_during_backward(e):
    hooks = e.autograd.graph.saved_tensors_hooks
    inner, notes = hooks(lambda x: x, lambda x: (inner.__exit__(), x)[1]), []
    outer = hooks(lambda x: (notes.append("pack"), x)[1], lambda x: x)
    with outer:
        inner.__enter__()
        x = leaf(e, 1.0)
        x.sin().backward()
        inner.__exit__()
        x.cos()
    x.cos()
    return notes, x.grad


@case
def hooks_entered_during_backward(e):
    hooks = e.autograd.graph.saved_tensors_hooks
    extra, notes = hooks(lambda x: (notes.append("pack"), x)[1], lambda x: x), []
    x = leaf(e, 1.0)
    with hooks(lambda x: x, lambda x: (extra.__enter__(), x)[1]):
        y = x.sin()
    y.backward()
    x.cos()
    return notes, x.grad


@case
def hooks_reach_runs_deep_within_runs(e):
    class Again(e.autograd.Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x * 1

        @staticmethod
        def backward(ctx, g):
            with e.enable_grad():
                inner = leaf(e, 2.0)
                inner.exp()
                if ctx.depth:
                    Again.apply(inner, ctx.depth - 1).backward()
            return g, None

    packed = []
    with e.autograd.graph.saved_tensors_hooks(lambda x: (packed.append(1), x)[1], lambda x: x):
        Again.apply(leaf(e, 1.0), 60).backward()
    return len(packed)


@pytest.mark.parametrize("function", case, ids=lambda f: f.__name__)
def test_case(function):
    assert outcome(function, jitgrad) == outcome(function, torch)
