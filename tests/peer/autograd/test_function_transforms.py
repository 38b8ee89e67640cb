"""A Function inside grad, vjp, jvp, vmap and their nests, under PyTorch and here."""

import warnings

import pytest

import jitgrad

torch = pytest.importorskip("torch")
CASES = {}


def plain(value):
    if isinstance(value, (torch.Tensor, jitgrad.Tensor)):
        return str(value.dtype).split(".")[1], tuple(value.shape), value.requires_grad, value.detach().tolist()
    if isinstance(value, Exception):
        text = str(value).replace("jitgrad.", "torch.")
        return type(value).__name__, text.split(" out_dims has structure")[0].split(" For more details")[0]
    return [plain(v) for v in value] if isinstance(value, (tuple, list)) else value


def cube(torch, **body):
    """x**3 and its derivative, as in many a tutorial: backward differentiates both."""

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output[1])
        ctx.save_for_forward(*inputs, output[1])

    def backward(ctx, g, h):
        x, slope = ctx.saved_tensors
        return g * slope + h * 6 * x

    def jvp(ctx, t):
        x, slope = ctx.saved_tensors
        return slope * t, 6 * x * t

    given = {"forward": lambda x: (x**3, 3 * x**2), "setup_context": setup_context, "backward": backward, "jvp": jvp}
    methods = {k: staticmethod(v) if callable(v) else v for k, v in {**given, **body}.items()}
    return type("Cube", (torch.autograd.Function,), {"generate_vmap_rule": True, **methods})


def first(function):
    return lambda x: function.apply(x)[0]


def case(name):
    def note(function):
        CASES[name] = function

    return note


def of_cube(name, compute):
    def call(torch):
        return compute(torch.func, first(cube(torch)), torch.tensor(2.0), torch.tensor([1.0, 2.0, 3.0]))

    CASES[name] = call


of_cube("grad", lambda F, f, s, x: F.grad(f)(s))
of_cube("grad of grad of grad", lambda F, f, s, x: F.grad(F.grad(F.grad(f)))(s))
of_cube("vmap", lambda F, f, s, x: F.vmap(f)(x))
of_cube("vmap of grad", lambda F, f, s, x: F.vmap(F.grad(f))(x))
of_cube("vmap of grad of grad", lambda F, f, s, x: F.vmap(F.grad(F.grad(f)))(x))
of_cube("grad of vmap", lambda F, f, s, x: F.grad(lambda x: F.vmap(f)(x).sum())(x))
of_cube("jvp", lambda F, f, s, x: F.jvp(f, (s,), (s,)))
of_cube("jvp of grad", lambda F, f, s, x: F.jvp(F.grad(f), (s,), (s,)))
of_cube("grad of jvp", lambda F, f, s, x: F.grad(lambda s: F.jvp(f, (s,), (s,))[1])(s))
of_cube("vmap of jvp", lambda F, f, s, x: F.vmap(lambda x: F.jvp(f, (x,), (s,)))(x))
of_cube("vjp", lambda F, f, s, x: F.vjp(f, x)[1](x))
of_cube("jacrev", lambda F, f, s, x: F.jacrev(f)(x))
of_cube("jacfwd", lambda F, f, s, x: F.jacfwd(f)(x))
of_cube("hessian", lambda F, f, s, x: F.hessian(lambda x: f(x).sum())(x))
of_cube("vmap of vmap", lambda F, f, s, x: F.vmap(F.vmap(f))(x.reshape(3, 1)))
of_cube("vmap of vmap of grad", lambda F, f, s, x: F.vmap(F.vmap(F.grad(f)))(x.reshape(3, 1)))
of_cube("vmap of hessian", lambda F, f, s, x: F.vmap(F.hessian(lambda x: f(x).sum()))(x.reshape(3, 1)))
of_cube("vmap of vmap of jvp", lambda F, f, s, x: F.vmap(F.vmap(lambda x: F.jvp(f, (x,), (s,))))(x.reshape(3, 1)))
of_cube("grad of vmap of vmap", lambda F, f, s, x: F.grad(lambda x: F.vmap(F.vmap(f))(x).sum())(x.reshape(3, 1)))


@case("backward from outside")
def _(torch):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    return torch.autograd.grad(torch.func.vmap(first(cube(torch)))(x).sum(), x)


@case("no setup_context")
def _(torch):
    class Old(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    return torch.func.vmap(Old.apply)(torch.ones(2))


@case("no rule")
def _(torch):
    return torch.func.vmap(first(cube(torch, generate_vmap_rule=False)))(torch.ones(2))


@case("two rules")
def _(torch):
    return torch.func.vmap(first(cube(torch, vmap=lambda info, in_dims, x: ((x, x), (0, 0)))))(torch.ones(2))


def by_hand(torch, seen):
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(x, y):
            return x * y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return Product.apply(g, y), Product.apply(g, x)

        @staticmethod
        def vmap(info, in_dims, x, y):
            seen.append((info.batch_size, info.randomness, in_dims))
            x = x.unsqueeze(0) if in_dims[0] is None else x.movedim(in_dims[0], 0)
            y = y.unsqueeze(0) if in_dims[1] is None else y.movedim(in_dims[1], 0)
            return Product.apply(x, y), 0

    return Product


@case("vmap by hand")
def _(torch):
    seen, m, x = [], torch.arange(6.0).reshape(2, 3), torch.tensor([1.0, 2.0, 3.0])
    f = by_hand(torch, seen)
    return [torch.func.vmap(f.apply, (0, None))(m, x), torch.func.vmap(f.apply, (0, 0), randomness="same")(m, m),
            [s[:2] for s in seen]]  # fmt: skip


@case("vmap by hand and gradients")
def _(torch):
    f, m, x = by_hand(torch, []), torch.arange(6.0).reshape(2, 3), torch.tensor([1.0, 2.0, 3.0])
    inside = torch.func.vmap(torch.func.grad(lambda a, b: f.apply(a, b).sum()), (0, None))(m, x)
    return [inside, torch.func.grad(lambda x: (torch.func.vmap(f.apply, (0, None))(m, x) ** 2).sum())(x)]


def rule_returns(name, value):
    body = {"generate_vmap_rule": False, "vmap": lambda info, in_dims, x: value(x)}
    CASES[f"rule returns {name}"] = lambda torch: torch.func.vmap(cube(torch, **body).apply)(torch.ones(3))


rule_returns("a tensor", lambda x: x)
rule_returns("three", lambda x: (x, x, x))
rule_returns("a list", lambda x: [(x, x), (0, 0)])
rule_returns("too few dims", lambda x: ((x, x), (0,)))
rule_returns("one dim for all", lambda x: ((x, x), 0))
rule_returns("no dim", lambda x: ((x * 1, x * 2), (0, None)))


@case("outputs without a gradient")
def _(torch):
    class Mixed(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x * 2, x.long(), x * 5

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_non_differentiable(*output[1:])

        @staticmethod
        def backward(ctx, g, a, b):
            return g * 2

    x = torch.tensor([1.0, 2.0])
    return [torch.func.vmap(Mixed.apply)(x), torch.func.grad(lambda s: Mixed.apply(s)[0] + Mixed.apply(s)[2])(x[1])]


@case("input returned, and written")
def _(torch):
    class Same(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g * 2

    class Dirty(Same):
        @staticmethod
        def forward(x):
            return x.mul_(3)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_dirty(*inputs)

    s, x = torch.tensor(2.0), torch.tensor([1.0, 2.0])
    return [torch.func.grad(Same.apply)(s), torch.func.vmap(torch.func.grad(Same.apply))(x),
            torch.func.grad(lambda s: Dirty.apply(s.clone()))(s)]  # fmt: skip


def kept_places(torch, vmap, forward=lambda x: x.clone()):
    """A Function with this vmap."""
    methods = {"forward": forward, "setup_context": lambda ctx, inputs, output: None, "vmap": vmap}
    return type("Kept", (torch.autograd.Function,), {k: staticmethod(v) for k, v in methods.items()})


@case("batches where they are")
def _(torch):
    seen = []

    def vmap(info, in_dims, x, more):
        seen.append(in_dims)
        return (x + 0, more[0]), (in_dims[0], in_dims[1][0])

    cls = kept_places(torch, vmap, lambda x, more: (x, more[0]))
    x = torch.arange(6.0).reshape(2, 3)
    found = [torch.func.vmap(cls.apply, in_dims=(1, [0, None]))(x, [x.t(), x]), torch.func.vmap(cls.apply)(x, [x, x])]
    return found, [str(s) for s in seen]


@case("a number by keyword")
def _(torch):
    cls = kept_places(torch, lambda info, in_dims, x, *, k: (x * k, in_dims[0]), lambda x, *, k: x * k)
    return torch.func.vmap(lambda x: cls.apply(x, k=3.0))(torch.ones(2, 3))


@case("a tensor by keyword")
def _(torch):
    cls = kept_places(torch, lambda info, in_dims, x, *, k: (x * k, in_dims[0]), lambda x, *, k: x * k)
    return torch.func.vmap(lambda x, y: cls.apply(x, k=y))(torch.ones(2), torch.ones(2))


@case("a list and a tuple of dims")
def _(torch):
    cls = kept_places(torch, lambda info, in_dims, x: ([x], (0,)), lambda x: [x])
    return torch.func.vmap(cls.apply)(torch.ones(2, 3))


@case("name inside")
def _(torch):
    names, cls = [], cube(torch)

    def f(x):
        y = cls.apply(x)[0]
        names.append(type(y.grad_fn).__name__)
        return y

    torch.func.grad(f)(torch.tensor(1.0))
    f(torch.ones((), requires_grad=True))
    return names


def run(function, library):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return plain(function(library))
        except Exception as error:
            return plain(error)


@pytest.mark.parametrize("name", CASES)
def test_same_as_torch(name):
    assert run(CASES[name], jitgrad) == run(CASES[name], torch)


def test_what_is_differentiable_once_says_so_behind_vjp():
    def run(lib):
        class Cube(lib.autograd.Function):
            @staticmethod
            def forward(x):
                return x**3

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(inputs[0])

            @staticmethod
            @lib.autograd.function.once_differentiable
            def backward(ctx, g):
                return 3 * ctx.saved_tensors[0] ** 2 * g

        x = lib.tensor(2.0, requires_grad=True)
        _, vjp = lib.func.vjp(Cube.apply, x)
        (gx,) = vjp(lib.tensor(1.0, requires_grad=True))
        gx.backward()

    for lib in (jitgrad, torch):
        with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
            run(lib)
