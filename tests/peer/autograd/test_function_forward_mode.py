"""``autograd.Function`` under PyTorch and here: ``jvp``."""

import pytest

import jitgrad

from .function_cases import Cases, error_of, leaf, run, scale

torch = pytest.importorskip("torch")
case = Cases()


def forward_mode(torch, function, *pairs):
    """Values and tangents of what a function returns for (value, tangent) pairs."""
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level():
        args = [forward_ad.make_dual(*p) if isinstance(p, tuple) else p for p in pairs]
        outs = function(*args)
        outs = outs if isinstance(outs, tuple) else (outs,)
        return [tuple(forward_ad.unpack_dual(o)) if isinstance(o, torch.Tensor) else o for o in outs]


def tangents(torch, jvp, forward=None):
    class Tangents(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *args):
            ctx.save_for_forward(*[a for a in args if isinstance(a, torch.Tensor)])
            return forward(ctx, *args) if forward else args[0] * args[1]

        @staticmethod
        def backward(ctx, g):
            return g, g

    Tangents.jvp = staticmethod(jvp)
    return Tangents


@case
def jvp(torch):
    def product(ctx, dx, dy):
        x, y = ctx.saved_tensors
        return dx * y + x * dy

    f = tangents(torch, product)
    x, y, t = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), torch.tensor([0.5, 1.0])
    return [forward_mode(torch, f.apply, (x, t), (y, t)), forward_mode(torch, f.apply, (x, t), y),
            forward_mode(torch, f.apply, x, y)]  # fmt: skip


@case
def jvp_not_materialized(torch):
    seen = []

    def forward(ctx, x, y, k):
        ctx.set_materialize_grads(False)
        return x * y * k, k

    f = tangents(torch, lambda ctx, dx, dy, dk: seen.append((dx, dy, dk)) or (dx, None), forward)
    x, t = torch.tensor([1.0, 2.0]), torch.tensor([0.5, 1.0])
    return [forward_mode(torch, f.apply, (x, t), x, 3), seen]


@case
def jvp_missing(torch):
    x = torch.ones(3)
    return [forward_mode(torch, scale(torch).apply, (x, x))]


@case
def jvp_wrong(torch):
    x, t = torch.tensor([1.0, 2.0]), torch.tensor([0.5, 1.0])
    wrongs = [lambda ctx, dx, dy: (dx, dy), lambda ctx, dx, dy: 3, lambda ctx, dx, dy: dx[:1],
              lambda ctx, dx, dy: dx.double(), lambda ctx, dx, dy: ()]  # fmt: skip
    return [error_of(forward_mode, torch, tangents(torch, w).apply, (x, t), (x, t)) for w in wrongs]


@case
def jvp_in_place(torch):
    def forward(ctx, x, y):
        ctx.mark_dirty(x)
        return x.mul_(y)

    def product(ctx, dx, dy):
        return dx.mul_(3)

    x, t = torch.tensor([1.0, 2.0]), torch.tensor([0.5, 1.0])
    good = forward_mode(torch, tangents(torch, product, forward).apply, (x, t), 3)
    bad = tangents(torch, lambda ctx, dx, dy: dx * 3, forward)
    return [good, error_of(forward_mode, torch, bad.apply, (x, t), 3)]


@case
def jvp_view(torch):
    def forward(ctx, x, y):
        return x[1:]

    x, t = torch.tensor([1.0, 2.0]), torch.tensor([0.5, 1.0])
    good = forward_mode(torch, tangents(torch, lambda ctx, dx, dy: dx[1:], forward).apply, (x, t), 3)
    bad = tangents(torch, lambda ctx, dx, dy: dx[1:] * 1, forward)
    return [good, error_of(forward_mode, torch, bad.apply, (x, t), 3)]


@case
def jvp_of_nothing_done(torch):
    x, t = torch.tensor([1.0, 2.0]), torch.tensor([0.5, 1.0])

    def dirty(ctx, x, y):
        ctx.mark_dirty(x)
        return x

    found = []
    for forward in (lambda ctx, x, y: x, lambda ctx, x, y: x.view_as(x), lambda ctx, x, y: x.clone(), dirty):
        for result in (lambda t: t, lambda t: t.view_as(t), lambda t: t * 1, lambda t: t.mul_(2)):
            function = tangents(torch, lambda ctx, dx, dy, result=result: result(dx), forward)
            found.append(error_of(forward_mode, torch, function.apply, (x.clone(), t.clone()), 3))
    return found


@case
def jvp_order_of_arguments(torch):
    seen = []

    def forward(ctx, a, x, b, y):
        return x * y

    def product(ctx, *given):
        seen.append(given)
        return given[1]

    x, t = torch.tensor([1.0, 2.0]), torch.tensor([0.5, 1.0])
    return [forward_mode(torch, tangents(torch, product, forward).apply, 3, (x, t), None, x), seen]


@case
def jvp_and_backward(torch):
    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            return g * 3 * ctx.saved_tensors[0] ** 2

        @staticmethod
        def jvp(ctx, t):
            return t * 3 * ctx.saved_tensors[0] ** 2

    x, t = leaf(torch, 1.0, 2.0), torch.tensor([0.5, 1.0])
    ((primal, tangent),) = forward_mode(torch, Both.apply, (x, t))
    found = [torch.autograd.grad(primal.sum(), x), torch.autograd.grad(tangent.sum(), x)]
    return [primal.detach(), tangent.detach(), found]


@case
def jvp_non_differentiable(torch):
    def forward(ctx, x, y):
        index = torch.tensor([1, 0])
        ctx.mark_non_differentiable(index)
        return x * 2, index

    x, t = torch.tensor([1.0, 2.0]), torch.tensor([0.5, 1.0])
    return [
        forward_mode(torch, tangents(torch, lambda ctx, dx, dy: (dx * 2, None), forward).apply, (x, t), 3),
        error_of(forward_mode, torch, tangents(torch, lambda ctx, dx, dy: (dx * 2, dx), forward).apply, (x, t), 3),
    ]


@case
def jvp_and_levels_inside(torch):
    seen = []

    def forward(ctx, x, y):
        seen.append(torch.autograd.forward_ad.unpack_dual(x)[1])
        return x * 2

    x, t = torch.tensor([1.0, 2.0]), torch.tensor([0.5, 1.0])
    return [forward_mode(torch, tangents(torch, lambda ctx, dx, dy: dx * 2, forward).apply, (x, t), 3), seen]


@pytest.mark.parametrize("function", case, ids=lambda f: f.__name__)
def test_same_as_torch(function):
    assert run(function, jitgrad) == run(function, torch)
