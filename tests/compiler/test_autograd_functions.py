"""Compiled functions that apply an autograd.Function of the program's: forward and backward are followed."""

import warnings

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.autograd import Function
from jitgrad.autograd.function import once_differentiable

FACTOR, SCALES, CALLS = 3.0, [2.0], []


class Scaled(Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.k, ctx.shape = k, x.shape
        return x * k

    @staticmethod
    def backward(ctx, g):
        return (g * ctx.k).reshape(ctx.shape), None


class Both(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y, x + y

    @staticmethod
    def backward(ctx, a, b):
        x, y = ctx.saved_tensors
        return a * y + b if ctx.needs_input_grad[0] else None, a * x + b if ctx.needs_input_grad[1] else None


class Power(Function):
    @staticmethod
    def forward(x, n):
        return x**n

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.n = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx, g):
        x, out = ctx.saved_tensors
        return g * ctx.n * out / x, None


class Surroundings(Function):
    slope = 1.0

    @staticmethod
    def forward(ctx, x):
        return x * FACTOR

    @staticmethod
    def backward(ctx, g):
        return g * FACTOR * SCALES[0] * Surroundings.slope


class Once(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.exp()


class Doubled(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, g):
        return g * 2


class Sorted(Function):
    @staticmethod
    def forward(ctx, x):
        values, places = x.sort()
        ctx.mark_non_differentiable(places)
        ctx.save_for_backward(places)
        return values, places

    @staticmethod
    def backward(ctx, g, _):
        return torch.zeros_like(g).scatter(0, *ctx.saved_tensors, g)


class Counted(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        CALLS.append(1)
        return g


class Inside(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        with torch.enable_grad():
            x = ctx.saved_tensors[0].detach().requires_grad_()
            (found,) = torch.autograd.grad(x.sin(), x, g)
        return found


class Dropped(Function):
    @staticmethod
    def forward(ctx, x):
        mask = torch.rand_like(x) > 0.5
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


class ByValue(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.positive = bool(x.sum() > 0)
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g * 2 if ctx.positive else g


FUNCTIONS = {
    "attributes": lambda x: Scaled.apply(x, 2.5), "tensors": lambda x: sum(Both.apply(x, x * 2)),
    "setup_context": lambda x: Power.apply(x.abs() + 1, 3), "surroundings": lambda x: Surroundings.apply(x),
    "once": lambda x: Once.apply(x), "in place": lambda x: Doubled.apply(x * 1), "sort": lambda x: Sorted.apply(x)[0],
    "effects": lambda x: Counted.apply(x), "backward within": lambda x: Inside.apply(x),
    "random": lambda x: Dropped.apply(x), "values": lambda x: ByValue.apply(x),
}  # fmt: skip


BACKWARD = Scaled.__dict__["backward"]


def reset():
    globals()["FACTOR"], SCALES[0], Surroundings.slope, Scaled.backward = 3.0, 2.0, 1.0, BACKWARD
    CALLS.clear()


@pytest.fixture(autouse=True)
def _as_before():
    reset()
    yield
    reset()


def changed(k):
    """What a program may change between two calls."""
    if k == 3:
        globals()["FACTOR"] = 5.0
    if k == 5:
        SCALES[0] = 7.0
    if k == 6:
        Surroundings.slope = 0.5
    if k == 8:
        Scaled.backward = staticmethod(lambda ctx, g: (g * 100, None))


def trained(name, compiles):
    """The weights and losses of ten steps, how often a Function has told of itself, and the step."""
    reset()
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    w = torch.tensor(rng.standard_normal(6), requires_grad=True)
    optimizer, function = torch.optim.SGD([w], lr=0.01), FUNCTIONS[name]

    def step(x):
        optimizer.zero_grad()
        loss = function(w * x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    run, found = torch.compile(step) if compiles else step, []
    for k in range(10):
        changed(k)
        found += [run(torch.tensor(rng.standard_normal(6))).item(), *w.tolist()]
    return found, len(CALLS), run


@pytest.mark.parametrize("name", FUNCTIONS)
def test_steps(name):
    expected, calls, _ = trained(name, False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if name == "values" else "error", torch.compiler.CompileWarning)
        found, compiled_calls, step = trained(name, True)
    np.testing.assert_allclose(found, expected, 1e-10)
    assert compiled_calls == calls == (10 if name == "effects" else 0)
    assert bool(step.explain().recordings) == (name != "values")


def test_backward_outside_leaves_the_rest_compiled():
    w = torch.ones(3, requires_grad=True)

    def model(x):
        y = (w * x).sin()
        y = Counted.apply(y)
        return (y.cos() * 2).sum()

    compiled = torch.compile(model)
    for k in range(4):
        x, grads = torch.full((3,), 0.1 * k), []
        for function in (model, compiled):
            w.grad, before = None, len(CALLS)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", torch.compiler.CompileWarning)
                function(x).backward()
            assert len(CALLS) == before + 1
            grads.append(w.grad)
        torch.testing.assert_close(*grads)
    text = str(compiled.explain())
    assert "backward of an autograd.Function, a checkpoint or hooks on saved tensors runs outside of it" in text
    assert text.count("1 recording") == 2


def test_second_derivatives():
    def step(x):
        y = Power.apply(x, 3).sum()
        (first,) = torch.autograd.grad(y, x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        return first.detach(), second

    compiled = torch.compile(step, fullgraph=True)
    for k in range(1, 4):
        x = torch.tensor([1.0, 2.0, float(k)], requires_grad=True)
        for e, f in zip(step(x), compiled(x), strict=True):
            torch.testing.assert_close(e, f)
