"""``autograd.Function`` under PyTorch and here: gradients that arrive and are returned, and what is saved."""

import pytest

import jitgrad

from .function_cases import Cases, double, error_of, leaf, run, saving, scale

torch = pytest.importorskip("torch")
case = Cases()


# -- gradients that arrive, and that are returned -----------------------------------------------------


@case
def materialized(torch):
    seen = []

    def backward(ctx, *grads):
        seen.append(grads)
        return grads[0]

    x = leaf(torch)
    for flag in (None, True, False):

        def forward(ctx, x, flag=flag):
            if flag is not None:
                ctx.set_materialize_grads(flag)
            index = torch.tensor([1, 0])
            other = x * 5
            ctx.mark_non_differentiable(index, other)
            return x * 2, x.double(), index, other, x.sum()

        outs = scale(torch, forward=forward, backward=backward).apply(x)
        seen.append([o.requires_grad for o in outs])
        error_of((outs[0].sum() + outs[4]).backward)
    return [seen, x.grad]


@case
def materialized_as_it_was(torch):
    seen = []

    def forward(ctx, x):
        return x * 2, x.t(), x[0].double()

    def backward(ctx, *grads):
        seen.append([(g.shape, g.dtype is torch.float64, g.stride()) for g in grads])
        return grads[1].t()

    x = torch.ones(2, 3, requires_grad=True)
    scale(torch, forward=forward, backward=backward).apply(x)[1].sum().backward()
    return [str(seen), x.grad]


@case
def no_gradient_at_all(torch):
    x = leaf(torch)
    f = scale(torch, backward=lambda ctx, g: None)
    out = f.apply(x)
    found = torch.autograd.grad(out.sum(), x, allow_unused=True)
    return found


def returned(name, backward, forward=lambda ctx, x, *others: x * 2, args=()):
    @case
    def check(torch):
        x = leaf(torch)
        f = scale(torch, backward=lambda ctx, g: backward(torch, g), forward=forward)
        out = f.apply(x, *[leaf(torch, 1.0) if a is torch else a for a in args])
        return [error_of(out.sum().backward), x.grad]

    check.__name__ = f"returned_{name}"


returned("too_many", lambda torch, g: (g, g))


returned("too_many_none", lambda torch, g: (g, None, None))


returned("too_few", lambda torch, g: g, args=(3,))


returned("empty", lambda torch, g: ())


returned("for_a_number", lambda torch, g: (g, g), args=(3,))


returned("for_no_tensor", lambda torch, g: (g, 3), args=(None,))


returned("a_list", lambda torch, g: [g, None], args=(3,))


returned("a_list_of_one", lambda torch, g: [g])


returned("a_number", lambda torch, g: 3)


returned("a_float", lambda torch, g: 2.5)


returned("a_string", lambda torch, g: "a")


returned("a_wrong_shape", lambda torch, g: g[:2])


returned("a_broader_shape", lambda torch, g: g.expand(4, 3))


returned("more_dims", lambda torch, g: g.expand(2, 1, 3) * 2)


returned("a_scalar", lambda torch, g: g.sum())


returned("one_element", lambda torch, g: g[:1])


returned("a_double", lambda torch, g: g.double())


returned("an_integer", lambda torch, g: g.long())


returned("a_boolean", lambda torch, g: g > 0)


returned("the_same", lambda torch, g: g)


@case
def returned_for_what_wants_none(torch):
    f = scale(torch, forward=lambda ctx, x, y: x * y, backward=lambda ctx, g: (g, g[:2]))
    x = leaf(torch)
    f.apply(x, torch.ones(3)).sum().backward()
    return x.grad


@case
def returned_second_is_wrong(torch):
    f = scale(torch, forward=lambda ctx, x, y: x * y, backward=lambda ctx, g: (None, g[:2]))
    return error_of(f.apply(leaf(torch), leaf(torch)).sum().backward)


@case
def real_gradient_of_complex(torch):
    x = torch.tensor([1 + 2j, 3j], requires_grad=True)
    f = scale(torch, backward=lambda ctx, g: g.real)
    return [error_of(f.apply(x).abs().sum().backward), x.grad]


# -- what is saved ------------------------------------------------------------------------------------


@case
def saved_types(torch):
    def saving(*values):
        f = scale(torch, forward=lambda ctx, x: ctx.save_for_backward(*values) or x * 2)
        return [error_of(f.apply, leaf(torch)), error_of(f.apply, torch.ones(3))]

    return [saving(3), saving(torch.ones(1), "a"), saving(None), saving([torch.ones(1)]), saving()]


@case
def saved_none(torch):
    f = scale(torch, forward=lambda ctx, x: ctx.save_for_backward(None, x, None) or x * 2)
    return f.apply(leaf(torch)).grad_fn.saved_tensors


@case
def saved_twice(torch):
    def forward(ctx, x):
        ctx.save_for_backward(x, x)
        ctx.save_for_backward(x)
        return x * 2, ctx.saved_tensors

    out, inside = scale(torch, forward=forward).apply(leaf(torch))
    return [len(out.grad_fn.saved_tensors), inside]


@case
def saved_not_a_tuple(torch):
    def forward(ctx, x):
        ctx.to_save = x
        return x * 2

    return type(error_of(scale(torch, forward=forward).apply, leaf(torch))).__name__


@case
def freed(torch):
    x = leaf(torch)
    out = saving(torch).apply(x)
    node = out.grad_fn
    out.sum().backward(retain_graph=True)
    out.sum().backward()
    return [x.grad, error_of(out.sum().backward), error_of(lambda: node.saved_tensors), scale(torch).apply(x)]


@case
def freed_without_saving(torch):
    x = leaf(torch)
    out = scale(torch).apply(x)
    out.backward(torch.ones(3))
    return [error_of(out.backward, torch.ones(3)), x.grad]


@case
def modified_input(torch):
    x = leaf(torch).clone()
    y = torch.ones(3)
    out = saving(torch).apply(x)
    x.add_(y)
    return [error_of(out.sum().backward), error_of(lambda: out.grad_fn.saved_tensors)]


@case
def modified_leaf(torch):
    x = leaf(torch)
    out = saving(torch).apply(x)
    with torch.no_grad():
        x.add_(1)
    return error_of(out.sum().backward)


@case
def modified_output(torch):
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            out = x.exp()
            ctx.save_for_backward(out)
            return out

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    out = Exp.apply(leaf(torch))
    out.mul_(2)
    return error_of(out.sum().backward)


@case
def modified_inside(torch):
    def forward(ctx, x):
        y = x * 2
        ctx.save_for_backward(y)
        y += 1
        return y

    out = scale(torch, forward=forward, backward=lambda ctx, g: g * ctx.saved_tensors[0]).apply(leaf(torch))
    x = leaf(torch)
    return [out, error_of(out.sum().backward)]


@case
def intermediate(torch):
    class Middle(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            middle = x * 3
            ctx.save_for_backward(middle)
            return middle * x

        @staticmethod
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0]

    return double(torch, Middle.apply, leaf(torch))


@case
def raw_saved(torch):
    x = leaf(torch)
    out = saving(torch).apply(x)
    (raw,) = out.grad_fn._raw_saved_tensors
    raw.register_hooks(lambda t: t.detach() * 2, lambda packed: packed * 10)
    out.sum().backward()
    return [x.grad, error_of(lambda: out.grad_fn._raw_saved_tensors)]


@case
def packed(torch):
    log, x = [], leaf(torch)

    def pack(t):
        log.append((tuple(t.shape), t.requires_grad, t.is_leaf))
        return t.detach() * 2

    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            out = x.exp()
            ctx.save_for_backward(out, x, None)
            return out

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed / 2):
        out = Exp.apply(x)
    first = torch.autograd.grad(out.sum(), x, create_graph=True)[0]
    return [log, first.detach(), torch.autograd.grad(first.sum(), x)]


@pytest.mark.parametrize("function", case, ids=lambda f: f.__name__)
def test_same_as_torch(function):
    assert run(function, jitgrad) == run(function, torch)
