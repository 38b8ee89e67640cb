"""Checkpoints beside PyTorch: gradients, how often functions run, random state, contexts, sequences."""

import contextlib

import pytest

from .checkpoint_cases import BOTH, Counted, point, same, values

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
