"""``autograd.Function`` under PyTorch and here: inputs and views as outputs."""

import pytest

import jitgrad

from .function_cases import Cases, doubling, error_of, leaf, run, saving, scale

torch = pytest.importorskip("torch")
case = Cases()


@case
def input_returned(torch):
    x = leaf(torch)
    f = scale(torch, forward=lambda ctx, x: x)
    out = f.apply(x)
    facts = [out is x, out._is_view(), out._base is x, out.data_ptr() == x.data_ptr(), out, out._version]
    out.sum().backward()
    with torch.no_grad():
        unrecorded = f.apply(x)
    return [facts, x.grad, error_of(out.mul_, 2), unrecorded, unrecorded is x, unrecorded._base is x]


@case
def input_returned_without_grad(torch):
    x = torch.ones(3)
    out = scale(torch, forward=lambda ctx, x: x).apply(x)
    return [out is x, out, out._is_view()]


@case
def input_returned_twice(torch):
    x = leaf(torch)
    a, b = scale(torch, forward=lambda ctx, x: (x, x), backward=lambda ctx, g, h: g + 10 * h).apply(x)
    found = torch.autograd.grad((a.sum() + b.sum()), x)
    return [a is b, a, a.output_nr, b.output_nr, found, error_of(a.mul_, 2)]


@case
def output_returned_twice(torch):
    x = leaf(torch)

    def forward(ctx, x):
        y = x * 2
        return y, y

    a, b = scale(torch, forward=forward, backward=lambda ctx, g, h: g + 10 * h).apply(x)
    return [a is b, a, a.output_nr, b.output_nr, torch.autograd.grad(a.sum(), x)]


@case
def input_returned_and_saved(torch):
    class Setup(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    f = scale(torch, forward=lambda ctx, x: ctx.save_for_backward(x) or x)
    x = leaf(torch)
    return [error_of(Setup.apply, x), f.apply(x), f.apply(x).grad_fn.saved_tensors[0] is x]


@case
def view_returned(torch):
    x = leaf(torch)
    f = scale(torch, forward=lambda ctx, x: x[1:], backward=lambda ctx, g: g.sum().expand(3))
    out = f.apply(x)
    facts = [out, out._is_view(), out._base is x]
    out.sum().backward()
    return [facts, x.grad, error_of(out.mul_, 2), error_of(lambda: f.apply(x.clone()).mul_(2))]


@case
def view_returned_without_grad(torch):
    x = torch.ones(3)
    out = scale(torch, forward=lambda ctx, x: x[1:]).apply(x)
    facts = [out, out._is_view(), out._base is x]
    out.mul_(2)
    return [facts, x, error_of(out.mul_, leaf(torch, 1.0)), out]


@case
def views_returned(torch):
    x = leaf(torch).clone()
    f = scale(torch, forward=lambda ctx, x: (x[1:], x[:1], x * 2), backward=lambda ctx, g, h, i: i)
    outs = f.apply(x)
    return [outs, [o._is_view() for o in outs], error_of(outs[0].mul_, 2), error_of(outs[2].mul_, 2)]


@case
def base_of_a_view_is_written(torch):
    base = leaf(torch).clone()
    view = scale(torch, forward=lambda ctx, x: x.view(3), backward=lambda ctx, g: g * 7).apply(base)
    base.mul_(2)
    return [error_of(lambda: view.grad_fn), error_of(lambda: view * 2), base]


@case
def view_of_intermediate(torch):
    f = scale(torch, forward=lambda ctx, x: (x * 2)[1:], backward=lambda ctx, g: g.sum().expand(3))
    out = f.apply(leaf(torch))
    return [out, out._is_view(), error_of(out.mul_, 2)]


@case
def views_of_intermediate_several(torch):
    f = scale(torch, forward=lambda ctx, x: (x * 2).split([1, 2]))
    outs = f.apply(leaf(torch))
    return [outs, [o._is_view() for o in outs], error_of(outs[0].mul_, 2)]


@case
def non_differentiable(torch):
    def forward(ctx, x):
        out, index = x.sort(descending=True)
        ctx.mark_non_differentiable(index)
        return out, index

    x = leaf(torch)
    outs = scale(torch, forward=forward, backward=lambda ctx, g, h: g + h).apply(x)
    outs[0].sum().backward()
    return [outs, x.grad]


@case
def non_differentiable_input(torch):
    x = leaf(torch)

    def forward(ctx, x):
        ctx.mark_non_differentiable(x)
        return x

    out = scale(torch, forward=forward).apply(x)
    y = torch.ones(3)
    return [out, out is x, x, scale(torch, forward=forward).apply(y) is y]


@case
def non_differentiable_dirty(torch):
    def forward(ctx, x):
        ctx.mark_non_differentiable(x)
        ctx.mark_dirty(x)
        return x.mul_(2)

    x = leaf(torch).clone()
    out = scale(torch, forward=forward).apply(x)
    return [out, out is x, x]


@case
def non_differentiable_wrong(torch):
    f = scale(torch, forward=lambda ctx, x: ctx.mark_non_differentiable(3) or x * 2)
    g = scale(torch, forward=lambda ctx, x: ctx.mark_non_differentiable(torch.ones(1)) or x * 2)
    return [str(error_of(f.apply, leaf(torch)))[:62], g.apply(leaf(torch))]


@case
def integers(torch):
    f = scale(torch, forward=lambda ctx, x, i: (x[i], i * 2, i), backward=lambda ctx, g, h, i: (g.repeat(3)[:3], None))
    x = leaf(torch)
    outs = f.apply(x, torch.tensor([0, 2]))
    outs[0].sum().backward()
    return [outs, x.grad]


def viewing(torch, kind, inplace):
    """Functions whose outputs are views: of the input, two of them, or of something made inside."""
    called = []

    class Viewing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, view):
            ctx.shape = x.shape
            if kind == "temporary":
                out = x.clone().narrow(0, 0, 2) if view else x.clone()
                if inplace:
                    out += 2
                return out
            out = x.narrow(0, 0, 2) if view else x
            if inplace:
                out += 2
                ctx.mark_dirty(x if not view else out)
            return (out, x * 3) if kind == "two" else out

        @staticmethod
        def backward(ctx, *grads):
            called.append(len(grads))
            found = torch.zeros(ctx.shape, dtype=grads[0].dtype)
            found[: len(grads[0])] += grads[0]
            return found * 10, None

    return Viewing.apply, called


for kind in ("one", "two", "temporary"):
    for view in (False, True):
        for inplace in (False, True):

            def check(torch, kind=kind, view=view, inplace=inplace):
                function, called = viewing(torch, kind, inplace)
                x = torch.ones(4, requires_grad=True)
                base = x.clone()
                out = error_of(function, base, view)
                if isinstance(out, Exception):
                    return out
                first = out[0] if isinstance(out, tuple) else out
                written = error_of(first.add_, 5)
                of_view = error_of(lambda: first.view(-1).add_(7))
                failed = error_of(first.sum().backward)
                return [first is base, written, of_view, failed, called, x.grad, base.detach(), base._version]

            check.__name__ = f"views_{kind}{'_view' if view else ''}{'_written' if inplace else ''}"
            case(check)


@case
def views_of_custom_views(torch):
    x = leaf(torch).clone()
    view = scale(torch, forward=lambda ctx, x: x[1:]).apply(x)
    multi = x.split(2)[0]
    return [error_of(lambda: view.view(-1).mul_(2)), error_of(lambda: view[0].mul_(2)),
            error_of(lambda: multi.view(-1).mul_(2))]  # fmt: skip


@case
def returned_twice_in_place(torch):
    f = doubling(torch, result=lambda x: (x, x))
    x = leaf(torch)
    y = x.clone()
    outs = error_of(f.apply, y)
    return [error_of(f.apply, x), error_of(f.apply, leaf(torch).clone()[1:]), outs, [o is y for o in outs]]


@case
def returned_with_more(torch):
    class Identity(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a, a + b

        @staticmethod
        def backward(ctx, g, h):
            return g + h, h

    x, y, seen = leaf(torch), leaf(torch), []
    q, p = Identity.apply(x, y)
    q.register_hook(lambda g: seen.append(g.clone()))
    x.register_hook(lambda g: seen.append(g.clone()))
    (q + p + x).sum().backward()
    return [seen, x.grad, y.grad]


@case
def undefined_all_the_way(torch):
    seen = []

    def backward(ctx, g):
        seen.append(g)
        return g * 2

    x = leaf(torch)
    inner = scale(torch, backward=backward).apply(x * 1)
    scale(torch, backward=lambda ctx, g: None).apply(inner).sum().backward()
    return [seen, x.grad]


@case
def stashed_for_later(torch):
    kept = []
    x = leaf(torch)
    f = saving(torch)
    out = f.apply(x)
    f.backward, original = staticmethod(lambda ctx, g: kept.append(ctx) or original(ctx, g)), f.backward
    out.sum().backward(retain_graph=True)
    first = kept[0].saved_tensors
    out.sum().backward()
    return [first, error_of(lambda: kept[0].saved_tensors), x.grad]


@case
def saved_view_that_was_written(torch):
    class Save(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(3)
            ctx.mark_dirty(x)
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * x

    x = leaf(torch)
    base = x.clone()
    out = Save.apply(base[1:])
    found = torch.autograd.grad(out.sum(), x, create_graph=True)[0]
    return [out, found.detach(), torch.autograd.grad(found.sum(), x)]


@pytest.mark.parametrize("function", case, ids=lambda f: f.__name__)
def test_same_as_torch(function):
    assert run(function, jitgrad) == run(function, torch)
