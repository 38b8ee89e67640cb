"""The same ``autograd.Function`` under PyTorch and here: values, graphs, warnings, errors and their words."""

import re
import warnings

import pytest

import jitgrad

torch = pytest.importorskip("torch")
CASES = []


def case(function):
    CASES.append(function)
    return function


def plain(value):
    """A comparable form of a result."""
    if isinstance(value, (torch.Tensor, jitgrad.Tensor)):
        node = value.grad_fn
        return (str(value.dtype).split(".")[1], tuple(value.shape), node and type(node).__name__, value.requires_grad,
                value.detach().cpu().tolist())  # fmt: skip
    if isinstance(value, Exception):
        text = re.sub(r" \(Triggered internally.*| at 0x\w+", "", str(value), flags=re.S)
        return type(value).__name__, text.replace("jitgrad.", "torch.").strip()
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value if isinstance(value, (int, float, str, bool, type(None))) else re.sub(r" at 0x\w+", "", repr(value))


def run(function, library):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = function(library)
        except Exception as error:
            result = error
    told = sorted((w.category.__name__, plain(w.message)) for w in caught if "jit" not in str(w.message))
    return plain(result), told, library.is_grad_enabled()


def error_of(call, *args, **kwargs):
    try:
        return call(*args, **kwargs)
    except Exception as error:
        return error


def double(torch, function, *args):
    """Gradients and gradients of gradients of the sum of cubes of what a function returns."""
    wanted = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
    out = function(*args)
    total = sum((o**3).sum() for o in (out if isinstance(out, tuple) else (out,)))
    first = torch.autograd.grad(total, wanted, create_graph=True)
    second = torch.autograd.grad(sum((f**2).sum() for f in first), wanted, allow_unused=True)
    return [out, [f.detach() for f in first], second]


def leaf(torch, *values, dtype=None):
    return torch.tensor(values or (1.0, 2.0, 3.0), dtype=dtype, requires_grad=True)


def scale(torch, **overrides):
    """A Function that doubles, with parts replaced."""

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    return type("Scale", (Scale,), {k: staticmethod(v) for k, v in overrides.items()})


# -- values and graphs --------------------------------------------------------------------------------


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


def saving(torch):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 * x

    return Square


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


# -- in place -----------------------------------------------------------------------------------------


def doubling(torch, dirty=lambda x, out: (x,), result=lambda x: x, save=lambda x: ()):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, *others):
            x.mul_(2)
            out = result(x)
            ctx.mark_dirty(*dirty(x, out))
            ctx.save_for_backward(*save(x))
            return out

        @staticmethod
        def backward(ctx, g, *others):
            return (g * 2, *[None] * (len(ctx.needs_input_grad) - 1))

    return Twice


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


# -- inputs and views as outputs ----------------------------------------------------------------------


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


# -- twice, errors, hooks -----------------------------------------------------------------------------


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


# -- forward mode -------------------------------------------------------------------------------------


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
    (primal, tangent), = forward_mode(torch, Both.apply, (x, t))
    found = [torch.autograd.grad(primal.sum(), x), torch.autograd.grad(tangent.sum(), x)]
    return [primal.detach(), tangent.detach(), found]


@case
def jvp_non_differentiable(torch):
    def forward(ctx, x, y):
        index = torch.tensor([1, 0])
        ctx.mark_non_differentiable(index)
        return x * 2, index

    x, t = torch.tensor([1.0, 2.0]), torch.tensor([0.5, 1.0])
    return [forward_mode(torch, tangents(torch, lambda ctx, dx, dy: (dx * 2, None), forward).apply, (x, t), 3),
            error_of(forward_mode, torch, tangents(torch, lambda ctx, dx, dy: (dx * 2, dx), forward).apply, (x, t), 3)]


@case
def jvp_and_levels_inside(torch):
    seen = []

    def forward(ctx, x, y):
        seen.append(torch.autograd.forward_ad.unpack_dual(x)[1])
        return x * 2

    x, t = torch.tensor([1.0, 2.0]), torch.tensor([0.5, 1.0])
    return [forward_mode(torch, tangents(torch, lambda ctx, dx, dy: dx * 2, forward).apply, (x, t), 3), seen]


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


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_same_as_torch(function):
    ours, theirs = run(function, jitgrad), run(function, torch)
    assert ours == theirs
