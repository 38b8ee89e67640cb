"""``autograd.Function`` under PyTorch and here: values, graphs, what ``forward`` may be given and return."""

import pytest

import jitgrad

from .function_cases import Cases, double, error_of, leaf, run, scale

torch = pytest.importorskip("torch")
case = Cases()


@case
def saved_input_and_output(torch):
    class Power(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            out = x * x * y
            ctx.save_for_backward(x, y, out)
            return out

        @staticmethod
        def backward(ctx, g):
            x, y, out = ctx.saved_tensors
            return g * 2 * out / x, g * out / y

    x, y = leaf(torch), leaf(torch, 2.0, -1.0, 0.5)
    out = Power.apply(x, y)
    node = out.grad_fn
    names = [type(n).__name__ for n, _ in node.next_functions]
    facts = [node.name(), names, [n for _, n in node.next_functions], node.metadata, node.saved_tensors[0] is x]
    facts += [node.saved_tensors[2].grad_fn is node, node.needs_input_grad]
    return [facts, double(torch, Power.apply, x, y)]


@case
def setup_context(torch):
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(x, y, power=2):
            return (x * y) ** power

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, y, ctx.power = inputs
            ctx.save_for_backward(x, y)

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            g = g * ctx.power * (x * y) ** (ctx.power - 1)
            return g * y, g * x, None

    x, y = leaf(torch), leaf(torch, 2.0, -1.0, 0.5)
    out = Product.apply(x, y, 3)
    return [out, out.grad_fn.power, double(torch, Product.apply, x, y, 3), Product.apply(x, y),
            Product.apply(x, y=y), Product.apply(x, power=4, y=y), error_of(Product.apply, x),
            error_of(Product.apply, x, y, z=3), Product.apply(x, y, 1).grad_fn.needs_input_grad]  # fmt: skip


@case
def keywords_without_setup_context(torch):
    out = scale(torch, forward=lambda ctx, x, y: x * y).apply(leaf(torch), y=leaf(torch))
    return [scale(torch).apply(x=leaf(torch)), type(error_of(scale(torch).apply, leaf(torch), k=2)).__name__, out,
            out.grad_fn.needs_input_grad, len(out.grad_fn.next_functions), error_of(out.sum().backward)]  # fmt: skip


@case
def vjp_is_backward(torch):
    class V(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def vjp(ctx, g):
            return g * 3

    return double(torch, V.apply, leaf(torch))


@case
def vjp_and_backward(torch):
    function = scale(torch, vjp=lambda ctx, g: g)
    return function.apply(leaf(torch)).sum().backward()


@case
def nothing_implemented(torch):
    class Empty(torch.autograd.Function):
        pass

    class Forward(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    out = Forward.apply(leaf(torch))
    return [error_of(Empty.apply, leaf(torch)), out, error_of(out.sum().backward),
            error_of(torch.autograd.Function.apply, leaf(torch)), error_of(torch.autograd.Function.backward, None),
            error_of(torch.autograd.Function.jvp, None), error_of(torch.autograd.Function.vmap, None, None),
            error_of(torch.autograd.Function.setup_context, None, (), None)]  # fmt: skip


@case
def instances(torch):
    class F(torch.autograd.Function):
        def forward(self, x):
            return x

    f = error_of(scale(torch))
    return [str(type(f).__name__), error_of(f, leaf(torch)), error_of(lambda: F()(leaf(torch))),
            torch.autograd.Function.__name__, issubclass(F, torch.autograd.function.FunctionCtx)]  # fmt: skip


@case
def attributes_on_ctx(torch):
    seen = {}

    def forward(ctx, x, k):
        seen["before"] = (ctx.needs_input_grad, type(ctx).__name__)
        ctx.k, ctx.saved, ctx.name, ctx.edges, ctx.special, ctx.owned = k, 5, "n", [1], 6, 7
        ctx.n_outputs, ctx.retained, ctx.vjp = 9, 8, 10
        return x * k

    def backward(ctx, g):
        seen["after"] = (ctx.k, ctx.saved, ctx.name, ctx.edges, ctx.special, ctx.owned, ctx.n_outputs, ctx.retained)
        ctx.found = 5
        return g * ctx.k, None

    x = leaf(torch)
    out = scale(torch, forward=forward, backward=backward).apply(x, 3)
    node = out.grad_fn
    node.note = "later"
    out.sum().backward()
    return [out, x.grad, seen, node.k, node.note, node.found]


@case
def grad_fn_is_ctx(torch):
    kept = []
    out = scale(torch, forward=lambda ctx, x: kept.append(ctx) or x * 2).apply(leaf(torch))
    return [kept[0] is out.grad_fn, type(kept[0]).__name__, type(kept[0]).__mro__[1].__name__]


@case
def without_grad(torch):
    seen = []

    def forward(ctx, x, y):
        seen.append((torch.is_grad_enabled(), ctx.needs_input_grad))
        ctx.save_for_backward(x, y)
        return x * y

    f = scale(torch, forward=forward)
    x = leaf(torch)
    with torch.no_grad():
        first = f.apply(x, x)
    return [first, f.apply(x.detach(), x.detach()), f.apply(x, x.detach()), seen]


@case
def non_tensors(torch):
    seen = []

    def forward(ctx, x, a, b, c):
        return x * 2, a, None, [b], "text", c

    def backward(ctx, *grads):
        seen.extend(grads)
        return grads[0], None, None, None

    x = leaf(torch)
    f = scale(torch, forward=forward, backward=backward)
    outs = f.apply(x, 1, {"b": 2}, None)
    outs[0].sum().backward()
    return [outs, x.grad, seen, type(outs).__name__, outs[0].output_nr, f.apply(1, 2, 3, 4) if False else None]


@case
def no_tensor_at_all(torch):
    f = scale(torch, forward=lambda ctx, a: a)
    return [f.apply(3), f.apply(None), f.apply([1]), f.apply((1, 2)), scale(torch, forward=lambda ctx: 5).apply()]


@case
def output_number_skips_nothing(torch):
    seen = []

    def backward(ctx, *grads):
        seen.append(grads)
        return grads[2]

    x = leaf(torch)
    f = scale(torch, forward=lambda ctx, x: (None, 3, x * 2, x.long(), x * 4), backward=backward)
    outs = f.apply(x)
    facts = [(o.output_nr, o.requires_grad) for o in outs if isinstance(o, torch.Tensor)]
    outs[2].sum().backward()
    return [outs, facts, seen, x.grad]


@case
def list_is_an_output(torch):
    f = scale(torch, forward=lambda ctx, x: [x * 2, x * 3])
    outs = f.apply(leaf(torch))
    return [type(outs).__name__, outs]


@case
def one_tuple(torch):
    outs = scale(torch, forward=lambda ctx, x: (x * 2,)).apply(leaf(torch))
    return [type(outs).__name__, outs]


@case
def many_inputs(torch):
    class Sum(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *tensors):
            ctx.save_for_backward(*tensors)
            return sum(tensors)

        @staticmethod
        def backward(ctx, g):
            return tuple(g * t for t in ctx.saved_tensors)

    xs = [leaf(torch, float(k)) for k in range(300)]
    out = Sum.apply(*xs)
    out.sum().backward()
    return [out, sum(x.grad.item() * k for k, x in enumerate(xs)), len(out.grad_fn.next_functions)]


@case
def shared_input(torch):
    f = scale(torch, forward=lambda ctx, x, y: x * y, backward=lambda ctx, g: (g, g * 10))
    x = leaf(torch)
    out = f.apply(x, x)
    out.sum().backward()
    return [out, x.grad]


@case
def nested_functions(torch):
    inner = scale(torch)

    class Outer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            out = inner.apply(x)
            ctx.inner = out.requires_grad
            return out * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return inner.apply(g) * x * 2

    out = Outer.apply(leaf(torch))
    return [out, out.grad_fn.inner, double(torch, Outer.apply, leaf(torch))]


@case
def graph_inside_forward(torch):
    class Inside(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                out = (x**3).sum()
            ctx.x, ctx.out = x, out
            return out.detach()

        @staticmethod
        def backward(ctx, g):
            with torch.enable_grad():
                (found,) = torch.autograd.grad(ctx.out, ctx.x)
            return found * g

    x = leaf(torch)
    Inside.apply(x).backward()
    return x.grad


@case
def output_with_history(torch):
    def forward(ctx, x):
        with torch.enable_grad():
            return torch.ones(3, requires_grad=True) * 3

    x = leaf(torch)
    out = scale(torch, forward=forward).apply(x)
    out.sum().backward()
    detached = scale(torch, forward=forward).apply(x.detach())
    return [out, x.grad, detached, detached.is_leaf]


@case
def reentrant(torch):
    class Reentrant(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                ctx.x = x.detach().requires_grad_()
                ctx.x = ctx.x - 1
            return ctx.x.detach()

        @staticmethod
        def backward(ctx, g):
            if ctx.x.sum() < 0:
                return g
            with torch.enable_grad():
                Reentrant.apply(ctx.x).sum().backward()
            return g

    x = leaf(torch, 8.0)
    Reentrant.apply(x).sum().backward()
    return x.grad


@pytest.mark.parametrize("function", case, ids=lambda f: f.__name__)
def test_same_as_torch(function):
    assert run(function, jitgrad) == run(function, torch)
