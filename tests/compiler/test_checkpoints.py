"""Compiled functions that use checkpoint, states of the random generator, and callables given to transforms."""

import warnings

import numpy as np
import pytest

import jitgrad as torch
from jitgrad import nn
from jitgrad.nn.attention import SDPBackend, sdpa_kernel
from jitgrad.utils.checkpoint import checkpoint, checkpoint_sequential
from tests.compiler.alike import check, normal, parts

CALLS = []


def net(rate=0.3):
    return nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Dropout(rate), nn.Linear(6, 6))


def training(apply):
    """A step of a net with dropout, whose middle ``apply(net, x)`` runs."""

    def make():
        model, x = net(), normal(4, 6).requires_grad_()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

        def step():
            optimizer.zero_grad()
            y = apply(model, x)
            loss = (y * y).mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, lambda k: (), lambda: [*model.parameters(), *(p.grad for p in model.parameters()), x.grad]

    return make


WAYS = {
    "plain": lambda m, x: checkpoint(m, x, use_reentrant=False),
    "reentrant": lambda m, x: checkpoint(m, x, use_reentrant=True),
    "other random numbers": lambda m, x: checkpoint(m, x, use_reentrant=False, preserve_rng_state=False),
    "to the end": lambda m, x: checkpoint(m, x, use_reentrant=False, early_stop=False),
    "unchecked": lambda m, x: checkpoint(m, x, use_reentrant=False, determinism_check="none"),
    "in a row": lambda m, x: checkpoint_sequential(m, 2, x, use_reentrant=False),
    "in a row, reentrant": lambda m, x: checkpoint_sequential(m, 2, x, use_reentrant=True),
    "a method": lambda m, x: checkpoint(m.forward, x, use_reentrant=False),
    "keywords": lambda m, x: checkpoint(lambda t, by: m(t) * by, x, by=2.0, use_reentrant=False),
    "nested": lambda m, x: checkpoint(lambda t: checkpoint(m, t, use_reentrant=False), x, use_reentrant=False),
}


@pytest.mark.parametrize("way", WAYS)
def test_steps_with_checkpoints_are_recorded(way):
    compiled = check(training(WAYS[way]))
    assert ("unpack_state" in str(compiled.explain())) == (way != "other random numbers")


def test_what_a_checkpointed_function_reads_is_guarded():
    def make():
        factors, model = [2.0], net(0)

        def step(x):
            x = x.clone().requires_grad_()
            checkpoint(lambda t: model(t) * factors[0], x, use_reentrant=False).sum().backward()
            return x.grad

        def arguments(k):
            factors[0] = float(k // 2)
            model.train(k != 4)
            return (normal(3, 6, seed=k),)

        return step, arguments, lambda: []

    check(make, recordings=None)


def test_effects_happen_in_both_runs_of_a_function():
    def noting(t):
        CALLS.append(1)
        return t.tanh()

    def step(x):
        x = x.clone().requires_grad_()
        checkpoint(noting, x, use_reentrant=False).sum().backward()
        return x.grad

    compiled = torch.compile(step)
    CALLS.clear()
    for _ in range(4):
        compiled(normal(3))
    assert len(CALLS) == 8 and len(compiled._variants) == 1


@pytest.mark.parametrize("hooks", [False, True])
def test_backward_outside_leaves_the_statement_out(hooks):
    model, packs = net(), []

    def unpack(index):
        CALLS.append(index)
        return packs[index]

    def pack(t):
        packs.append(t)
        return len(packs) - 1

    def function(x):
        y = x * 2
        if hooks:
            with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
                z = model(y)
        else:
            z = checkpoint(model, y, use_reentrant=False)
        return (z * z).sum()

    compiled = torch.compile(function)
    for k in range(4):
        found = []
        for f in (function, compiled):
            torch.manual_seed(k)
            model.zero_grad()
            CALLS.clear()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", torch.compiler.CompileWarning)
                f(normal(3, 6, seed=k)).backward()
            found.append(([p.grad for p in model.parameters()], torch.get_rng_state(), len(CALLS)))
        torch.testing.assert_close(*[f[:2] for f in found])
        assert found[0][2] == found[1][2]
    assert hooks or len(parts(compiled)) == 2


def test_states_of_the_generator_are_read_and_set():
    def make():
        other = torch.Generator().manual_seed(3)

        def function(x):
            before = torch.get_rng_state()
            a = torch.rand(3)
            torch.set_rng_state(before)
            b = torch.rand(3) * x
            kept = other.get_state()
            c = torch.randn(20, generator=other)
            other.set_state(kept)
            with torch.random.fork_rng():
                d = torch.rand(2)
            return a, b, c, d, torch.randn(5), torch.randn(20, generator=other)

        return function, lambda k: (normal(3, seed=k),), lambda: [other.get_state()]

    check(make)


def test_bytes_that_are_no_state_raise_in_replays_too():
    @torch.compile
    def function(state, x):
        torch.set_rng_state(state)
        return x * 2 + torch.rand(3)

    good = torch.get_rng_state()
    first = function(good, torch.ones(3))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="Invalid mt19937 state"):
            function(torch.zeros_like(good), torch.ones(3))
        torch.testing.assert_close(function(good, torch.ones(3)), first)


@pytest.mark.parametrize("backend", [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION])
def test_attention_with_a_chosen_backend(backend):
    def make():
        def function(q):
            with sdpa_kernel(backend):
                return nn.functional.scaled_dot_product_attention(q, q, q)

        return function, lambda k: (normal(1, 2, 4, 8, seed=k),), lambda: []

    check(make)


TRANSFORMS = {
    "jacrev": lambda m, x: torch.func.jacrev(m)(x),
    "jacfwd": lambda m, x: torch.func.jacfwd(m)(x),
    "vmap": lambda m, x: torch.vmap(m)(x.expand(2, 6)),
    "vjp": lambda m, x: torch.func.vjp(m, x)[1](x),
    "jvp": lambda m, x: torch.func.jvp(m, (x,), (x,)),
    "jacobian": lambda m, x: torch.autograd.functional.jacobian(m, x),
    "functional vjp": lambda m, x: torch.autograd.functional.vjp(m, x, torch.ones(6)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_modules_given_to_transforms(name):
    def make():
        model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6)).eval()
        return lambda x: TRANSFORMS[name](model, x), lambda k: (normal(6, seed=k),), lambda: []

    check(make)


def test_objects_given_to_transforms_are_followed():
    class Scale:
        def __init__(self):
            self.factor = 2.0

        def __call__(self, x):
            return (x * x * self.factor).sum()

    scale = Scale()
    compiled = torch.compile(lambda x: torch.func.grad(scale)(x))
    for factor in (2.0, 2.0, 3.0, 3.0):
        scale.factor = factor
        np.testing.assert_allclose(compiled(torch.ones(3)), np.full(3, 2 * factor))
