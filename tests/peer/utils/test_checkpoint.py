"""Checkpointing against PyTorch: values, gradients, how often functions run, warnings, errors."""

import contextlib
import warnings

import pytest
import torch
import torch.utils.checkpoint

import jitgrad

LIBRARIES = (jitgrad, torch)
BOTH = pytest.mark.parametrize("reentrant", [False, True])


def plain(value):
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        flat = value.detach().reshape(-1).tolist()
        return [round(float(v), 5) for v in flat], tuple(value.shape), value.requires_grad
    return value


def same(call, *args):
    """Both libraries give the same, or raise the same, with the same warnings."""
    results = []
    for lib in LIBRARIES:
        lib.manual_seed(5)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                result = plain(call(lib, *args))
            except Exception as error:
                text = str(error).replace("jitgrad.", "torch.")
                result = type(error).__name__, " ".join(text.partition("\n\nTip:")[0].split())
        results.append((result, [(w.category.__name__, str(w.message)) for w in caught]))
    assert results[0] == results[1]
    return results[0]


def point(lib):
    return lib.utils.checkpoint.checkpoint


def values(lib, *shape, grad=True):
    return (lib.arange(float(torch.Size(shape).numel())).reshape(shape) / 7).requires_grad_(grad)


class Counted:
    """A function, and how often it was called and got to its end."""

    def __init__(self, function):
        self.function, self.calls, self.ends = function, 0, 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        result = self.function(*args, **kwargs)
        self.ends += 1
        return result


FUNCTIONS = {
    "chain": lambda lib, x, w: (x @ w).tanh().sin().exp(),
    "nothing saved": lambda lib, x, w: x + w,
    "last saves nothing": lambda lib, x, w: (x * w).exp() + 1,
    "one input unused": lambda lib, x, w: (x * x).sum(),
    "in place": lambda lib, x, w: (x * w).clone().mul_(x).add_(1),
    "views": lambda lib, x, w: (x * w)[0:2].t().reshape(-1)[1:] * 2,
    "dropout": lambda lib, x, w: lib.nn.functional.dropout(x @ w, 0.5) * x,
    "random": lambda lib, x, w: (x * lib.rand(3, 3)) @ w,
    "detached": lambda lib, x, w: x.detach() * w + (x * w).detach() * x,
    "no_grad inside": lambda lib, x, w: unrecorded(lib, x) * w,
    "softmax": lambda lib, x, w: lib.nn.functional.softmax(x @ w, 1).log().sum(),
    "norm": lambda lib, x, w: ((x - x.mean(0)) / x.std(0)) @ w,
    "index": lambda lib, x, w: x[lib.tensor([0, 2])] @ w[:, 1:],
    "cat": lambda lib, x, w: lib.cat([x * w, w.exp()]).sum(1) ** 2,
}


def unrecorded(lib, x):
    with lib.no_grad():
        return x.exp()


@BOTH
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name, reentrant):
    def case(lib):
        x, w = values(lib, 3, 3), values(lib, 3, 3)
        out = point(lib)(lambda x, w: FUNCTIONS[name](lib, x, w), x * 1, w, use_reentrant=reentrant)
        (out.sum() * 2).backward()
        return out, x.grad, w.grad, lib.rand(2)

    same(case)


@BOTH
def test_how_often_functions_run(reentrant):
    def case(lib):
        function = Counted(lambda x: Counted.inner(x.exp()) + 1)
        Counted.inner = Counted(lambda x: x.sin() * 2)
        x = values(lib, 3)
        out = point(lib)(function, x, use_reentrant=reentrant).sum()
        counts = [(function.calls, function.ends)]
        for retain in (True, False):
            out.backward(retain_graph=retain)
            counts.append((function.calls, function.ends, Counted.inner.calls, Counted.inner.ends))
        return counts, x.grad, out.backward()

    same(case)


@pytest.mark.parametrize("stop", [None, False, True])
@pytest.mark.parametrize("everywhere", [None, False, True])
def test_early_stop(stop, everywhere):
    def case(lib):
        function = Counted(lambda x: x.exp().sin() + 1)
        options = {} if stop is None else {"early_stop": stop}
        with lib.utils.checkpoint.set_checkpoint_early_stop(everywhere):
            out = point(lib)(function, values(lib, 3), use_reentrant=False, **options)
        out.sum().backward()
        return function.calls, function.ends

    same(case)


@BOTH
def test_nested(reentrant):
    def case(lib):
        inner = Counted(lambda x: x.exp().sin())
        middle = Counted(lambda x: point(lib)(inner, x * 2, use_reentrant=reentrant).cos() * x)
        outer = Counted(lambda x: point(lib)(middle, x.sin(), use_reentrant=reentrant).exp())
        x = values(lib, 3)
        out = point(lib)(outer, x, use_reentrant=reentrant)
        out.sum().backward()
        return out, x.grad, [(f.calls, f.ends) for f in (inner, middle, outer)]

    same(case)


def test_grad_and_second_order():
    def case(lib):
        x = values(lib, 3)
        out = point(lib)(lambda x: x.exp().sin(), x, use_reentrant=False)
        (first,) = lib.autograd.grad(out.sum(), x, create_graph=True)
        (second,) = lib.autograd.grad(first.sum(), x)
        return first, second

    same(case)


def test_structures():
    def case(lib):
        x, y, w = values(lib, 3), values(lib, 3), values(lib, 3)

        def function(pair, named, scale=1, *, shift=None):
            return {"sum": (pair[0] * named["y"] * scale).exp() + shift, "list": [pair[0].sin(), 3, None]}

        out = point(lib)(function, (x, 2), {"y": y}, 3, shift=w, use_reentrant=False)
        (out["sum"].sum() + out["list"][0].sum()).backward()
        return out, x.grad, y.grad, w.grad

    same(case)


@BOTH
def test_several_outputs(reentrant):
    def case(lib):
        x = values(lib, 3)
        out = point(lib)(lambda x: (x.exp(), x.detach(), 3, x.sin()), x, use_reentrant=reentrant)
        (out[0].sum() + out[3].sum()).backward()
        return out, x.grad

    same(case)


@BOTH
@pytest.mark.parametrize("preserve", [True, False])
def test_random_state(reentrant, preserve):
    def case(lib):
        drawn = []

        def function(x):
            drawn.append(lib.rand(2))
            return x.exp() * drawn[-1].sum()

        x = values(lib, 2)
        out = point(lib)(function, x, use_reentrant=reentrant, preserve_rng_state=preserve)
        between = lib.rand(2)
        out.sum().backward()
        return drawn, between, lib.rand(2), x.grad

    same(case)


def test_contexts():
    def case(lib):
        said = []

        @contextlib.contextmanager
        def context(name):
            said.append(("enter", name))
            try:
                yield
            finally:
                said.append(("exit", name))

        x = values(lib, 2)
        options = {"use_reentrant": False, "context_fn": lambda: (context("forward"), context("again"))}
        out = point(lib)(lambda x: said.append("run") or x.exp().sin(), x, **options)
        out.sum().backward()
        with lib.no_grad():
            point(lib)(lambda x: said.append("run") or x.exp(), x, **options)
        return said, x.grad

    same(case)


@BOTH
@pytest.mark.parametrize("segments", [1, 2, 3, 5])
def test_sequential(reentrant, segments):
    def case(lib):
        nn = lib.nn
        net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3), nn.Dropout(), nn.ReLU(), nn.Linear(3, 1))
        x = values(lib, 4, 3)
        run = lib.utils.checkpoint.checkpoint_sequential
        out = run(net, segments, x, use_reentrant=reentrant)
        again = run([*net], segments, x, use_reentrant=reentrant, preserve_rng_state=False)
        (out.sum() + again.sum()).backward()
        return out, x.grad, [p.grad for p in net.parameters()]

    same(case)


# -- warnings and errors ------------------------------------------------------------------------------


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


# -- with some results kept ---------------------------------------------------------------------------


def doubles(lib, *shape):
    return values(lib, *shape, grad=False).double().requires_grad_()


def small_net(lib):
    lib.manual_seed(0)
    nn = lib.nn
    net = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 4, bias=False), nn.BatchNorm1d(4))
    net.double()
    return lambda x: (net(x) @ net[0](x).t() + 1).exp().sum() * 2 - net[0].weight.max()


def test_what_policies_are_shown():
    def case(lib):
        seen = []
        module = lib.utils.checkpoint

        def policy(context, op, *args, **kwargs):
            if op.name() != "aten::empty.memory_format":  # of PyTorch's batch norm
                seen.append((op.name().split(".")[0], context.is_recompute))
            if op in (lib.ops.aten.mm.default, lib.ops.aten.addmm.default):
                return module.CheckpointPolicy.MUST_SAVE
            return op is lib.ops.aten.native_layer_norm.default

        contexts = lambda: module.create_selective_checkpoint_contexts(policy)
        x = doubles(lib, 5, 3)
        out = point(lib)(small_net(lib), x, use_reentrant=False, context_fn=contexts)
        return seen, out, [lib.autograd.grad(out, x)[0]]

    same(case)


@pytest.mark.parametrize("chosen", [
    lambda lib: [lib.ops.aten.mm.default], lambda lib: [], lambda lib: [lib.ops.aten.sin], lambda lib: [2],
    lambda lib: 2, lambda lib: [lib.ops.aten.exp.default, lib.ops.aten.t.default, lib.ops.aten.sum.default],
    lambda lib: lambda *args, **kwargs: lib.utils.checkpoint.CheckpointPolicy.PREFER_SAVE,
])  # fmt: skip
def test_kept_results(chosen):
    def case(lib):
        contexts = lambda: lib.utils.checkpoint.create_selective_checkpoint_contexts(chosen(lib))
        x = doubles(lib, 3, 3)
        part = lambda x: (x @ x.t()).exp().sum(1).sin()
        try:
            out = point(lib)(part, x, use_reentrant=False, context_fn=contexts)
        except (ValueError, TypeError) as error:
            return str(error).split(" of type")[0].replace("jitgrad", "torch")
        first = lib.autograd.grad(out.sum(), x, retain_graph=True)[0]
        try:
            return first, lib.autograd.grad(out.sum(), x)[0]
        except RuntimeError as error:
            return first, str(error).split(". ")[0]

    same(case)


@pytest.mark.parametrize("allowed", [False, True])
def test_kept_results_that_are_written_to(allowed):
    def case(lib):
        module, aten = lib.utils.checkpoint, lib.ops.aten
        contexts = lambda: module.create_selective_checkpoint_contexts([aten.mm.default, aten.sin.default], allowed)
        x = values(lib, 2, 2)
        out = point(lib)(lambda x: (x @ x).mul_(2).sin(), x, use_reentrant=False, context_fn=contexts)
        try:
            out.sum().backward()
        except RuntimeError as error:
            return str(error)
        return "no error"

    same(case)
