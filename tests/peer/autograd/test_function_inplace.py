"""``autograd.Function`` under PyTorch and here: functions that write to their inputs."""

import pytest

import jitgrad

from .function_cases import Cases, doubling, error_of, leaf, run

torch = pytest.importorskip("torch")
case = Cases()


@case
def in_place(torch):
    x = leaf(torch)
    y = x.clone()
    out = doubling(torch).apply(y)
    out.sum().backward()
    return [out is y, y, y._version, x.grad]


@case
def in_place_history_before(torch):
    x = leaf(torch)
    y = x * x
    doubling(torch).apply(y)
    doubling(torch).apply(y)
    (y * y).sum().backward()
    return [y, x.grad]


@case
def in_place_on_saved(torch):
    x = leaf(torch).exp()
    y = x * x
    doubling(torch).apply(x)
    return error_of(y.sum().backward)


@case
def in_place_on_leaf(torch):
    x = leaf(torch)
    return [error_of(doubling(torch).apply, x), x]


@case
def in_place_no_grad_leaf(torch):
    x, y = torch.ones(3), leaf(torch)

    class Add(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.mark_dirty(x)
            return x.add_(y)

        @staticmethod
        def backward(ctx, g):
            return g, g * 3

    out = Add.apply(x, y)
    out.sum().backward()
    return [x, out is x, y.grad, Add.apply(torch.ones(3), torch.ones(3))]


@case
def in_place_under_no_grad(torch):
    x = leaf(torch)
    with torch.no_grad():
        out = doubling(torch).apply(x)
    return [out is x, x, x.is_leaf, x._version]


@case
def in_place_on_view(torch):
    x = leaf(torch)
    base = x.clone()
    view = base[1:]
    out = doubling(torch).apply(view)
    (base * base).sum().backward()
    return [out is view, base.detach(), type(base.grad_fn).__name__, view.grad_fn is not None, x.grad]


@case
def in_place_on_view_second_argument(torch):
    class Write(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value, x):
            ctx.mark_dirty(x)
            return x.copy_(value * 3)

        @staticmethod
        def backward(ctx, g):
            return g * 3, g * 0

    x, y = leaf(torch), leaf(torch, 1.0, 2.0)
    base = x.clone()
    Write.apply(y, base[1:])
    return [base.detach(), error_of((base * base).sum().backward)]


@case
def in_place_on_view_several_outputs(torch):
    base = leaf(torch).clone()
    return error_of(doubling(torch, result=lambda x: (x, x * 2)).apply, base[1:])


@case
def in_place_on_view_of_leaf(torch):
    x = leaf(torch)
    return error_of(doubling(torch).apply, x[1:])


@case
def in_place_on_one_of_several_views(torch):
    a, b = leaf(torch).clone().split([1, 2])
    return error_of(doubling(torch).apply, a)


@case
def in_place_not_returned(torch):
    x = leaf(torch).clone()
    return error_of(doubling(torch, result=lambda x: x * 2).apply, x)


@case
def in_place_not_an_input(torch):
    y = leaf(torch).clone()
    out = doubling(torch, dirty=lambda x, out: (out,), result=lambda x: x * 2).apply(y)
    out.sum().backward()
    return out


@case
def in_place_marks_a_number(torch):
    x = leaf(torch).clone()
    return str(error_of(doubling(torch, dirty=lambda x, out: (x, 3)).apply, x))[:49]


@case
def in_place_saved_output(torch):
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.exp_()
            ctx.mark_dirty(x)
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    x = leaf(torch, 0.0, 1.0)
    y = x * 2
    out = Exp.apply(y)
    first = torch.autograd.grad(out.sum(), x, create_graph=True)[0]
    second = torch.autograd.grad(first.sum(), x)
    return [first.detach(), second]


@case
def in_place_and_more(torch):
    x = leaf(torch).clone()
    out = doubling(torch, result=lambda x: (x, x * 3)).apply(x)
    return [out[0] is x, out, [o.output_nr for o in out]]


@case
def in_place_unmarked(torch):
    x = leaf(torch).clone()
    out = doubling(torch, dirty=lambda x, out: ()).apply(x)
    return [out is x, out, x, out._version]


@case
def in_place_of_two(torch):
    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.mark_dirty(x, y)
            x.mul_(2)
            y.mul_(3)
            return y, x

        @staticmethod
        def backward(ctx, gy, gx):
            return gx * 2, gy * 3

    x, y = leaf(torch), leaf(torch)
    a, b = x.clone(), y.clone()
    outs = Both.apply(a, b)
    (a.sum() + 2 * b.sum()).backward()
    return [outs[0] is b, outs[1] is a, a, b, x.grad, y.grad, a.output_nr, b.output_nr]


@pytest.mark.parametrize("function", case, ids=lambda f: f.__name__)
def test_same_as_torch(function):
    assert run(function, jitgrad) == run(function, torch)
