"""Checkpoints beside PyTorch: warnings and errors, tensors of closures."""

import contextlib

import pytest

from .checkpoint_cases import BOTH, Counted, point, same, values


def run(lib, function, *args, use_reentrant=False, **options):
    out = point(lib)(function, *args, use_reentrant=use_reentrant, **options)
    (out[0] if isinstance(out, tuple) else out).sum().backward()
    return out


def changing(first, second):
    """A function that is another one the second time."""
    turns = iter([first, second, second])
    return lambda x: next(turns)(x)


class Twice:
    """A Function whose backward looks at what it saved twice."""

    def __new__(cls, lib):
        class Exp(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                out = x.exp()
                ctx.save_for_backward(out)
                return out

            @staticmethod
            def backward(ctx, g):
                ctx.saved_tensors
                return g * ctx.saved_tensors[0]

        return Exp.apply


CASES = {
    "no option": lambda lib, x: point(lib)(lambda x: x.exp(), x),
    "no option, sequential": lambda lib, x: lib.utils.checkpoint.checkpoint_sequential([lib.nn.Tanh()] * 2, 2, x),
    "sequential, keyword": lambda lib, x: lib.utils.checkpoint.checkpoint_sequential([], 1, x, use_reentrant=True, a=1),
    "sequential, too many": lambda lib, x: lib.utils.checkpoint.checkpoint_sequential([], 2, x, use_reentrant=True),
    "no grad": lambda lib, x: point(lib)(lambda x: x.exp(), x.detach(), use_reentrant=True),
    "no grad, other": lambda lib, x: point(lib)(lambda x: x.exp(), x.detach(), use_reentrant=False),
    "keyword": lambda lib, x: point(lib)(lambda x: x, x, use_reentrant=True, a=1, b=2),
    "context": lambda lib, x: point(lib)(lambda x: x, x, use_reentrant=True, context_fn=lambda: None),
    "debug": lambda lib, x: point(lib)(lambda x: x, x, use_reentrant=True, debug=True),
    "debug and context": lambda lib, x: run(lib, lambda x: x, x, debug=True, context_fn=lambda: None),
    "check": lambda lib, x: run(lib, lambda x: x, x, determinism_check="strict"),
    "grad": lambda lib, x: lib.autograd.grad(point(lib)(lambda x: x.exp(), x, use_reentrant=True).sum(), x),
    "inputs": lambda lib, x: point(lib)(lambda x: x.exp(), x, use_reentrant=True).sum().backward(inputs=[x]),
    "output without grad": lambda lib, x: run(lib, lambda x: x.detach().exp(), x, use_reentrant=True),
    "raising": lambda lib, x: run(lib, lambda x: x.nothing(), x),
    "raising, other": lambda lib, x: run(lib, lambda x: x.nothing(), x, use_reentrant=True),
    "suppressed": lambda lib, x: run(
        lib, lambda x: x.nothing(), x, context_fn=lambda: (contextlib.suppress(Exception), contextlib.nullcontext())
    ),
    "fewer": lambda lib, x: run(lib, changing(lambda x: x.exp().sin(), lambda x: x.exp()), x),
    "more": lambda lib, x: run(lib, changing(lambda x: x.exp(), lambda x: x.exp().sin()), x, early_stop=False),
    "more, unseen": lambda lib, x: run(lib, changing(lambda x: x.exp(), lambda x: x.exp().sin()), x),
    "none": lambda lib, x: run(lib, changing(lambda x: x.exp().sin(), lambda x: x), x),
    "other shape": lambda lib, x: run(lib, changing(lambda x: x.sin(), lambda x: x[:2].sin()), x),
    "other shapes": lambda lib, x: run(lib, changing(lambda x: x.sin().cos(), lambda x: x[:2].sin().cos()), x),
    "other dtype": lambda lib, x: run(lib, changing(lambda x: x.sin(), lambda x: x.double().sin()), x),
    "saved twice": lambda lib, x: run(lib, Twice(lib), x),
    "input changed": lambda lib, x: written(lib, x, False),
    "input changed, other": lambda lib, x: written(lib, x, True),
    "no tuple": lambda lib, x: lib.utils.checkpoint.detach_variable([x]),
    "detached": lambda lib, x: lib.utils.checkpoint.detach_variable((x, 3, x.detach())),
    "a subclass": lambda lib, x: issubclass(lib.utils.checkpoint.CheckpointError, RuntimeError),
    "no-op": lambda lib, x: [type(c).__name__ for c in lib.utils.checkpoint.noop_context_fn()],
    "twice": lambda lib, x: run(lib, lambda x: x.exp(), x).sum().backward(),
    "no grad mode": lambda lib, x: without_grad(lib, x),
    "group": lambda lib, x: grouped(lib, x),
    "hooks": lambda lib, x: with_hooks(lib, x),
}


def written(lib, x, reentrant):
    y = x * 1
    out = point(lib)(lambda x: x.exp(), y, use_reentrant=reentrant)
    y.add_(1)
    out.sum().backward()


def without_grad(lib, x):
    with lib.no_grad():
        return [point(lib)(lambda x: x.exp(), x, use_reentrant=r) for r in (False, True)]


def grouped(lib, x):
    function = Counted(lambda x: (x.exp(), x.sin()))
    a, b = point(lib)(function, x, use_reentrant=False)
    with lib.utils.checkpoint.GraphExecGroup():
        a.sum().backward(retain_graph=True)
        b.sum().backward(retain_graph=True)
        calls = function.calls
        with contextlib.suppress(RuntimeError), lib.utils.checkpoint.GraphExecGroup():
            calls = -1
        return calls, x.grad, b.sum().backward()


def with_hooks(lib, x):
    packed = []
    with lib.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t.shape) or t, lambda t: t):
        out = point(lib)(lambda x: x.exp().sin(), x * 1, use_reentrant=False)
    out.sum().backward()
    return len(packed), x.grad


@pytest.mark.parametrize("name", CASES)
def test_warnings_and_errors(name):
    same(lambda lib: CASES[name](lib, values(lib, 3)))


@BOTH
def test_tensors_of_the_closure(reentrant):
    def case(lib):
        layer, x = lib.nn.Linear(3, 3), values(lib, 2, 3)
        out = point(lib)(lambda x: layer(x).tanh(), x, use_reentrant=reentrant)
        out.sum().backward()
        return out, [p.grad for p in layer.parameters()], x.grad

    same(case)


def test_backward_within_a_checkpoint():
    def case(lib):
        def function(x):
            with lib.enable_grad():
                y = (x.exp() * x).sum()
                (g,) = lib.autograd.grad(y, x, create_graph=True)
            return (g * x).sin()

        x = values(lib, 3)
        out = [point(lib)(function, x, use_reentrant=False, early_stop=stop) for stop in (True, False)]
        sum(o.sum() for o in out).backward()
        return out, x.grad

    same(case)


def test_what_needs_no_gradient_is_saved_itself():
    def case(lib):
        seen = []

        class Keep(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x, y):
                ctx.save_for_backward(x, y)
                return x * 1

            @staticmethod
            def backward(ctx, g):
                seen.extend(ctx.saved_tensors)
                return g, None

        x, y = values(lib, 2), values(lib, 2, grad=False)
        point(lib)(Keep.apply, x, y, use_reentrant=False).sum().backward()
        return seen[1] is y, seen[0] is x, x.grad

    same(case)
