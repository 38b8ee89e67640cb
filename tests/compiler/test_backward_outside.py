"""Compiled functions with a program's autograd.Functions, whose backward runs outside of them."""

import warnings

import numpy as np
import pytest

import jitgrad as torch
from jitgrad import nn
from jitgrad.autograd import Function
from jitgrad.autograd.function import once_differentiable
from tests.compiler.alike import normal, parts

SCALE, TOTAL, SEEN, COUNTS = [2.0], torch.zeros(3), [], {"backward": 0}
FACTOR = 3.0
WEIGHT = torch.full((3,), 0.5, requires_grad=True)


def function(name, forward, backward, decorate=lambda f: f, **more):
    """A Function of these methods."""
    body = {"forward": staticmethod(forward), "backward": staticmethod(decorate(backward)), **more}
    return type(Function)(name, (Function,), body)


def saving(ctx, x):
    ctx.save_for_backward(x)
    return x * x


def _saved_square(ctx, g):
    (x,) = ctx.saved_tensors
    return 2 * x * g


class Split(Function):
    @staticmethod
    def forward(x):
        return x.sin(), x.cos(), (x > 0).float()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output[1])
        ctx.mark_non_differentiable(output[2])

    @staticmethod
    def backward(ctx, a, b, _):
        x, cos = ctx.saved_tensors
        return a * cos - b * x.sin()


class Doubled(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, g):
        return g * 2


class Inner(Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return torch.tanh(x * w)

    @staticmethod
    def backward(ctx, g):
        with torch.enable_grad():
            x, w = [t.detach().requires_grad_() for t in ctx.saved_tensors]
            y = torch.tanh(x * w)
        return torch.autograd.grad(y, (x, w), g)


def _by_globals(ctx, g):
    return g * FACTOR * SCALE[0] + WEIGHT.detach()


Square = function("Square", saving, _saved_square)
Once = function("Once", saving, _saved_square, once_differentiable)
Round = function("Round", lambda ctx, x: x.round(), lambda ctx, g: g)
Reverse = function("Reverse", lambda ctx, x: x.view_as(x), lambda ctx, g: -g)
Globals = function("Globals", lambda ctx, x: x * 1.0, _by_globals)

RECORDED = {
    "square": Square.apply,
    "once differentiable": Once.apply,
    "straight through": Round.apply,
    "reversed": Reverse.apply,
    "globals": Globals.apply,
    "several": lambda x: sum(Split.apply(x)),
    "one of several": lambda x: Split.apply(x)[1] * Split.apply(x)[2],
    "in place": lambda x: Doubled.apply(x * 1.5),
    "graph inside": lambda x: Inner.apply(x, WEIGHT),
    "twice": lambda x: Square.apply(Round.apply(x * 3) + Square.apply(x)),
}


def ran(f, calls, loss=lambda y: (y * y).sum(), before=lambda k: None):
    """Gradients and numbers of several calls, and what the program's lists held afterwards."""
    x, found = normal(3, seed=9).requires_grad_(), []
    SEEN.clear()
    TOTAL.zero_()
    COUNTS["backward"] = 0
    for k in range(calls):
        torch.manual_seed(k)
        x.grad = WEIGHT.grad = None
        before(k)
        y = f(x, normal(3, seed=k))
        loss(y).backward()
        found.append((y.detach(), x.grad, WEIGHT.grad, torch.rand(2)))
    return found, (list(SEEN), TOTAL.clone(), dict(COUNTS))


def compared(apply, calls=4, **options):
    """Whether a function round ``apply`` did the same compiled; the compiled function."""

    def f(x, c):
        return apply(x * c) + WEIGHT * x

    compiled = torch.compile(f)
    expected = ran(f, calls, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        found = ran(compiled, calls, **options)
    torch.testing.assert_close(found, expected)
    return compiled


@pytest.mark.parametrize("name", RECORDED)
def test_functions_without_effects_are_recorded(name):
    assert len(compared(RECORDED[name])._variants) == 1


def counting(ctx, g):
    COUNTS["backward"] += 1
    return g


def noting(ctx, g):
    SEEN.append(1)
    return g


def adding(ctx, g):
    TOTAL.add_(g)
    return g


def printing(ctx, g):
    print("backward")
    return g


def drawing(ctx, g):
    return g * torch.rand(3)


def marking(ctx, g):
    ctx.runs = getattr(ctx, "runs", 0) + 1
    return g * ctx.runs


def filling(ctx, g):
    ctx.found.append(1)
    return g * len(ctx.found)


def filling_deeply(ctx, g):
    ctx.deep["lists"][0].append(1)
    return g * len(ctx.deep["lists"][0])


def deciding(ctx, g):
    return g if g.sum() > 0 else g * 2


def catching(ctx, g):
    try:
        SEEN.append(1)
    except Exception:
        return g * 0
    return g


def accumulating(ctx, g):
    with torch.enable_grad():
        (WEIGHT * g).sum().backward()
    return g


def identity(ctx, x):
    ctx.found, ctx.deep = [], {"lists": ([],)}
    return x * 1.0


LEFT_OUT = (
    counting,
    noting,
    adding,
    printing,
    drawing,
    marking,
    filling,
    filling_deeply,
    deciding,
    catching,
    accumulating,
)


@pytest.mark.parametrize("backward", LEFT_OUT, ids=lambda f: f.__name__)
def test_what_could_be_noticed_is_left_out(backward, capsys):
    apply = function("Noticed", identity, backward).apply
    compiled = compared(lambda x: apply(x))
    # Once for each call of either function.
    assert capsys.readouterr().out.count("backward") == (8 if backward is printing else 0)
    assert not compiled._variants
    assert "runs outside of it" in str(compiled.explain())


def test_missing_gradients_are_told_from_zeros():
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    def backward(ctx, a, b):
        return (a if b is None else a + b) * (2 if b is None else 3)

    pair = function("Pair", forward, backward)
    compared(lambda x: pair.apply(x)[0])
    compared(lambda x: sum(pair.apply(x)))


def test_errors_are_raised_where_backward_runs():
    def backward(ctx, g):
        raise ValueError("no gradient here")

    apply = function("Failing", identity, backward).apply
    compiled = torch.compile(lambda x: apply(x * 2) + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        for _ in range(3):
            y = compiled(normal(3).requires_grad_())
            with pytest.raises(ValueError, match="no gradient here"):
                y.sum().backward()


def test_changes_between_forward_and_backward():
    def step(f, change):
        x = normal(3).requires_grad_()
        SCALE[0] = 2.0
        y = f(x)
        if change:
            SCALE[0] = 5.0
        y.sum().backward()
        return x.grad

    def f(x):
        return Globals.apply(x * 2)

    compiled = torch.compile(f)
    for _ in range(3):
        torch.testing.assert_close(step(compiled, False), step(f, False))
    with pytest.raises(RuntimeError, match="has changed since the compiled function was called"):
        step(compiled, True)
    torch.testing.assert_close(step(compiled, False), step(f, False))
    SCALE[0] = 4.0  # ahead of both: another recording
    try:
        for g in (f, compiled):
            x = normal(3).requires_grad_()
            g(x).sum().backward()
            np.testing.assert_allclose(x.grad, (4 * 3 + 0.5) * 2, rtol=1e-6)
    finally:
        SCALE[0] = 2.0


def test_calls_whose_backward_runs_later_in_another_order():
    def f(x):
        return Square.apply(x * WEIGHT.detach())

    compiled = torch.compile(f)
    compiled(normal(3).requires_grad_()).sum().backward()
    xs = [normal(3, seed=k).requires_grad_() for k in range(3)]
    ys = [compiled(x) for x in xs]
    for k in (2, 0, 1):
        ys[k].sum().backward(retain_graph=True)
        ys[k].sum().backward()
        torch.testing.assert_close(xs[k].grad, 2 * (2 * xs[k] * 0.25).detach())
        with pytest.raises(RuntimeError, match="a second time"):
            ys[k].sum().backward()
    assert len(compiled._variants) == 1


def test_saved_tensors_are_watched_for_writes():
    compiled = torch.compile(lambda x: Square.apply(x))
    for _ in range(3):
        x = normal(3).requires_grad_()
        y = compiled(x)
        with torch.no_grad():
            x.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_models_trained_by_compiled_modules():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last, self.bits = nn.Linear(4, 8), nn.Linear(8, 3), 8.0

        def forward(self, x):
            hidden = Round.apply(self.first(x) * self.bits) / self.bits
            return self.last(Square.apply(hidden).relu())

    losses = []
    for compiles in (False, True):
        torch.manual_seed(0)
        model = Layer()
        run = torch.compile(model) if compiles else model
        optimizer, data = torch.optim.Adam(model.parameters(), 0.01), normal(6, 4)
        losses.append([])
        for k in range(8):
            model.bits = 8.0 if k < 5 else 2.0
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(run(data), torch.tensor([0, 1, 2, 0, 1, 2]))
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    np.testing.assert_allclose(*losses, rtol=1e-5)


def test_parts_stay_where_a_function_is_left_out():
    apply = function("Noting", identity, noting).apply

    def f(x):
        y = (x * 2).tanh()
        z = apply(y)
        return (z * z).sum()

    compiled = torch.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        for _ in range(3):
            compiled(normal(3).requires_grad_()).backward()
    assert len(parts(compiled)) == 2
