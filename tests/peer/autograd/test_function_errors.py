"""``autograd.Function`` under PyTorch and here: ``once_differentiable``, errors, modes, hooks."""

import pytest

import jitgrad

from .function_cases import Cases, error_of, leaf, run, saving, scale

torch = pytest.importorskip("torch")
case = Cases()


def once(torch):
    decorator = torch.autograd.function.once_differentiable

    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x)
            return x * x * y

        @staticmethod
        @decorator
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0], None

    return Once


@case
def once_differentiable(torch):
    x = leaf(torch)
    once(torch).apply(x, 1).sum().backward()
    found = torch.autograd.grad(once(torch).apply(x, 1).sum(), x, create_graph=True)
    weighted = torch.autograd.grad((once(torch).apply(x, 1) ** 2).sum(), x, create_graph=True)
    name = type(weighted[0].grad_fn).__name__
    return [x.grad, found, name, error_of(weighted[0].sum().backward), weighted[0].requires_grad]


@case
def error_in_forward(torch):
    def forward(ctx, x):
        raise KeyError("mine")

    def strict(ctx, x):
        with torch.enable_grad():
            raise ValueError("yours")

    return [error_of(scale(torch, forward=forward).apply, leaf(torch)),
            error_of(scale(torch, forward=strict).apply, leaf(torch)), torch.is_grad_enabled()]  # fmt: skip


@case
def error_in_backward(torch):
    state = {"fail": True}

    def backward(ctx, g):
        if state["fail"]:
            raise KeyError("mine")
        return g * 2

    x = leaf(torch)
    y = x * 1
    out = scale(torch, backward=backward).apply(y).sum()
    first = error_of(out.backward)
    grad = x.grad
    state["fail"] = False
    second = error_of(out.backward)
    return [first, grad, second, x.grad, torch.is_grad_enabled()]


@case
def grad_mode_in_backward(torch):
    seen = []

    def backward(ctx, g):
        seen.append((torch.is_grad_enabled(), g.requires_grad))
        return g * 2

    f = scale(torch, backward=backward)
    x = leaf(torch)
    f.apply(x).sum().backward()
    torch.autograd.grad((f.apply(x) ** 2).sum(), x, create_graph=True)
    return seen


@case
def hooks(torch):
    seen = []
    x = leaf(torch)
    out = scale(torch).apply(x)
    out.register_hook(lambda g: g * 10)
    out.retain_grad()
    node = out.grad_fn
    node.register_hook(lambda grads, outs: seen.append((grads, outs)))
    node.register_prehook(lambda outs: (outs[0] + 1,))
    out.sum().backward()
    return [seen, x.grad, out.grad]


@case
def call_the_node(torch):
    out = scale(torch).apply(leaf(torch))
    return [error_of(out.grad_fn, torch.ones(3)), error_of(out.grad_fn.apply, torch.ones(3))]


@case
def backward_from_some_inputs(torch):
    seen = []

    def backward(ctx, g):
        seen.append(ctx.needs_input_grad)
        return g * 2, g * 3

    f = scale(torch, forward=lambda ctx, x, y: x * y, backward=backward)
    x, y = leaf(torch), leaf(torch)
    return [torch.autograd.grad(f.apply(x, y).sum(), y), seen, f.apply(x, torch.ones(3)).grad_fn.needs_input_grad]


@case
def gradcheck(torch):
    x = leaf(torch, 0.5, 1.5, dtype=torch.float64)
    wrong = scale(torch, backward=lambda ctx, g: g * 3)
    good = saving(torch)
    return [torch.autograd.gradcheck(good.apply, (x,)), torch.autograd.gradgradcheck(good.apply, (x,)),
            torch.autograd.gradcheck(wrong.apply, (x,), raise_exception=False)]  # fmt: skip


@case
def names_of_the_module(torch):
    function = torch.autograd.function
    names = sorted(n for n in function.__all__)
    return [names, issubclass(function.InplaceFunction, torch.autograd.Function),
            torch.autograd.Function.generate_vmap_rule]  # fmt: skip


@case
def clear_on_access(torch):
    class Clear(torch.autograd.Function):
        clear_saved_tensors_on_access = True

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return [g * 2 * x, error_of(lambda: ctx.saved_tensors)][:1][0]

    x = leaf(torch)
    out = Clear.apply(x)
    out.sum().backward(retain_graph=True)
    return [x.grad, error_of(out.sum().backward), error_of(lambda: out.grad_fn.saved_tensors)]


@case
def boxed(torch):
    seen = []

    class Boxed(torch.autograd.Function):
        boxed_grads_call = True

        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, grads):
            seen.append((type(grads).__name__, len(grads)))
            return grads.pop() * 3

    x = leaf(torch)
    a, b = Boxed.apply(x)
    (a + b).sum().backward()
    return [x.grad, seen]


@pytest.mark.parametrize("function", case, ids=lambda f: f.__name__)
def test_same_as_torch(function):
    assert run(function, jitgrad) == run(function, torch)
