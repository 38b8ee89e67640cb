"""gradcheck and gradgradcheck against PyTorch's: verdicts, messages, arguments."""

import re
import warnings

import pytest

import jitgrad

torch = pytest.importorskip("torch")


def functions(torch):
    """Functions that are right, and some that are wrong in one way each."""

    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0] * 3

    class Constant(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return torch.ones_like(g)

    class Restless(torch.autograd.Function):
        runs = 0

        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            Restless.runs += 1
            return g * (1 + 1e-7 * Restless.runs)

    class NoNone(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, a, b):
            if a is None or b is None:
                raise RuntimeError("wants both")
            return a + 2 * b

    class Complex(torch.autograd.Function):
        @staticmethod
        def forward(ctx, z):
            return z * z.conj() + z

        @staticmethod
        def backward(ctx, g):
            return g

    return {
        "sin": lambda x, *y: x.sin(),
        "mul": lambda x, y: x * y.sum(),
        "two": lambda x, y: (x * y.sum(), x.exp()),
        "wrong": lambda x, *y: Wrong.apply(x),
        "second": lambda x, *y: (x * 2, Wrong.apply(x)),
        "constant": lambda x, *y: Constant.apply(x),
        "restless": lambda x, *y: Restless.apply(x),
        "none": lambda x, *y: NoNone.apply(x),
        "flat": lambda x, *y: x.detach() * 1,
        "jumping": lambda x, *y: x.detach() * 2,
        "ints": lambda x, *y: (x * 2, x.detach().long()),
        "square": lambda x, *y: x * x,
        "modulus": lambda x, *y: x.abs(),
        "conj": lambda x, *y: x.conj() * x,
        "wrong_complex": lambda x, *y: Complex.apply(x),
        "real": lambda x, *y: torch.view_as_real(x),
        "growing": lambda x, *y: x[x > 0] * 2,
        "matrix": lambda x, y: x.reshape(-1, 1) @ y.reshape(1, -1),
        "relu": lambda x, *y: torch.relu(x),
    }


def arguments(torch):
    values = torch.tensor([0.5, -1.25, 2.0], dtype=torch.float64)
    return {
        "x": (values.clone().requires_grad_(),),
        "xy": (values.clone().requires_grad_(), torch.tensor([1.0, 3.0], dtype=torch.float64, requires_grad=True)),
        "x constant": (values.clone().requires_grad_(), torch.tensor([1.0, 3.0], dtype=torch.float64)),
        "plain": (values,),
        "float": (values.float().requires_grad_(),),
        "expanded": (torch.ones(1, dtype=torch.float64).expand(3).requires_grad_(),),
        "complex": (torch.tensor([1 + 2j, 0.5 - 1j], dtype=torch.complex128, requires_grad=True),),
        "edge": (torch.tensor([0.0, 1.0], dtype=torch.float64, requires_grad=True),),
        "scalar": (torch.tensor(1.5, dtype=torch.float64, requires_grad=True),),
        "empty": (torch.zeros(0, dtype=torch.float64, requires_grad=True),),
        "transposed": (torch.arange(6.0, dtype=torch.float64).reshape(2, 3).t().requires_grad_(),),
    }


def verdict(library, check, name, given, options):
    if options.get("seeded"):
        library.manual_seed(0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            options = {k: v for k, v in options.items() if k != "seeded"}
            result = getattr(library.autograd, check)(functions(library)[name], arguments(library)[given], **options)
        except Exception as error:
            text = str(error).replace("jitgrad.", "torch.").replace("-0.0000", " 0.0000")
            # From here on advice to authors of PyTorch's own ops, which we give in words of our own.
            text = re.split(r"\n\nNOTE: If|Please look at|A gradient is None|Pass check|\ngradcheck or", text)[0]
            text = re.sub(r"\d\.\d{10,}", lambda m: f"{float(m.group()):.9f}", text)
            result = type(error).__name__, text.strip()
    told = [str(w.message) for w in caught if "requires gradient" in str(w.message)]
    return result, told


CASES = [
    ("sin", "x", {}), ("sin", "scalar", {}), ("sin", "empty", {}), ("sin", "transposed", {}), ("mul", "xy", {}),
    ("two", "xy", {}), ("mul", "x constant", {}), ("matrix", "xy", {}), ("sin", "plain", {}), ("sin", "float", {}),
    ("sin", "float", {"raise_exception": False}), ("square", "expanded", {}), ("wrong", "x", {}),
    ("wrong", "x", {"raise_exception": False}), ("second", "x", {}), ("second", "xy", {}), ("wrong", "scalar", {}),
    ("constant", "x", {}), ("restless", "x", {}), ("restless", "x", {"nondet_tol": 1.0}), ("none", "x", {}),
    ("none", "x", {"check_undefined_grad": False}), ("flat", "x", {}), ("jumping", "x", {}), ("ints", "x", {}),
    ("square", "complex", {}), ("modulus", "complex", {}), ("conj", "complex", {}), ("wrong_complex", "complex", {}),
    ("real", "complex", {}), ("relu", "edge", {}), ("growing", "edge", {}),
    ("sin", "x", {"check_forward_ad": True}), ("two", "xy", {"check_forward_ad": True}),
    ("conj", "complex", {"check_forward_ad": True}),
    ("sin", "x", {"check_forward_ad": True, "check_backward_ad": False}),
    ("sin", "x", {"check_backward_ad": False}), ("sin", "x", {"check_backward_ad": False, "check_batched_grad": True}),
    ("sin", "x", {"check_batched_forward_grad": True}), ("sin", "x", {"check_batched_grad": True}),
    ("two", "xy", {"check_batched_grad": True, "check_forward_ad": True, "check_batched_forward_grad": True}),
    ("sin", "x", {"fast_mode": True}), ("two", "xy", {"fast_mode": True}), ("wrong", "x", {"fast_mode": True}),
    ("conj", "complex", {"fast_mode": True}), ("wrong_complex", "complex", {"fast_mode": True}),
    ("flat", "x", {"fast_mode": True}), ("restless", "x", {"fast_mode": True}),
    ("sin", "x", {"fast_mode": True, "check_forward_ad": True}),
    ("conj", "complex", {"fast_mode": True, "check_forward_ad": True}),
    ("sin", "x", {"check_grad_dtypes": True}), ("sin", "x", {"masked": True}),
    ("sin", "x", {"eps": 1e-3, "rtol": 1e-9, "atol": 0}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given", "options"), CASES)
def test_gradcheck(name, given, options):
    ours, theirs = (verdict(library, "gradcheck", name, given, options) for library in (jitgrad, torch))
    assert ours == theirs


SECOND = [
    ("sin", "x", {}), ("two", "xy", {}), ("matrix", "xy", {}), ("conj", "complex", {}), ("wrong", "x", {}),
    ("wrong", "x", {"raise_exception": False}), ("sin", "x", {"gen_non_contig_grad_outputs": True}),
    ("sin", "x", {"check_fwd_over_rev": True}), ("sin", "x", {"check_rev_over_rev": False}),
    ("sin", "x", {"check_rev_over_rev": False, "check_fwd_over_rev": True}), ("sin", "plain", {}),
    ("sin", "x", {"check_rev_over_rev": False, "check_fwd_over_rev": True, "check_undefined_grad": False}),
    ("sin", "x", {"check_batched_grad": True}), ("sin", "x", {"fast_mode": True}), ("two", "xy", {"fast_mode": True}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given", "options"), SECOND)
def test_gradgradcheck(name, given, options):
    ours, theirs = (
        verdict(library, "gradgradcheck", name, given, {**options, "seeded": True}) for library in (jitgrad, torch)
    )
    assert ours == theirs


def drawing(library):
    """A function whose derivatives draw."""

    class Drawing(library.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            library.rand(2)
            return g * 2

        @staticmethod
        def jvp(ctx, t):
            library.randn_like(t)
            return t * 2

    return Drawing.apply


def refused(library, how):
    x = library.ones(2, dtype=library.float64, requires_grad=True)
    try:
        if how == "grad":
            seeds = library.ones(3, 2, dtype=library.float64)
            library.autograd.grad(drawing(library)(x), x, seeds, is_grads_batched=True)
        elif how == "backward":
            library.autograd.gradcheck(drawing(library), (x,), check_batched_grad=True)
        else:
            library.autograd.gradcheck(drawing(library), (x,), check_forward_ad=True, check_batched_forward_grad=True)
    except RuntimeError as error:
        return type(error).__name__, str(error).split("\n")[0]


@pytest.mark.parametrize("how", ["grad", "backward", "forward"])
def test_batches_of_gradients_draw_nothing(how):
    assert refused(jitgrad, how) == refused(torch, how)


@pytest.mark.parametrize("options", [{"check_batched_grad": True},
                                     {"check_forward_ad": True, "check_batched_forward_grad": True}])  # fmt: skip
def test_batches_of_gradients_through_functions_that_fill_ctx_in_forward(options):
    def check(library):
        class Scaled(library.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.factor = x.detach() * 2
                return x * x

            @staticmethod
            def backward(ctx, g):
                return g * ctx.factor

            @staticmethod
            def jvp(ctx, t):
                return t * ctx.factor

        x = library.ones(2, dtype=library.float64, requires_grad=True)
        return library.autograd.gradcheck(Scaled.apply, (x,), check_undefined_grad=False, **options)

    assert check(jitgrad) and check(torch)
