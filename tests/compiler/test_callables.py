"""Functions that jitgrad's own functions call, given as partials or objects, and those whose results are kept."""

import functools
import warnings

import pytest

import jitgrad as torch
from jitgrad.utils._pytree import tree_map
from jitgrad.utils.checkpoint import checkpoint
from tests.compiler.alike import CUTS, check_noticed

state = {"scale": 2.0}


def block(x, factor=1.0):
    return x * factor * state["scale"]


class Block:
    def __call__(self, x):
        return x * state["scale"]

    def method(self, x):
        return x * state["scale"]


def _hooked(make):
    def function(x):
        leaf = x.clone().requires_grad_()
        leaf.register_hook(make())
        return torch.autograd.grad((leaf * leaf).sum(), leaf)[0]

    return function


CALLABLES = {
    "function": lambda: block, "partial": lambda: functools.partial(block, factor=1.0), "object": Block,
    "method": lambda: Block().method,
    "partial_of_a_partial": lambda: functools.partial(functools.partial(block, factor=1.0), factor=2.0),
    "partial_of_an_object": lambda: functools.partial(Block()),
}  # fmt: skip
CALLING = {
    "vmap": lambda make: lambda x: torch.vmap(make())(x),
    "jacobian": lambda make: lambda x: torch.func.jacrev(make())(x),
    "tree_map": lambda make: lambda x: tree_map(make(), [x])[0],
    "checkpoint": lambda make: lambda x: checkpoint(make(), x, use_reentrant=False),
    "hook": _hooked,
    "no_grad": lambda make: lambda x: torch.no_grad()(make())(x),
}


@pytest.mark.parametrize("known", [True, False], ids=["known", "new"])
@pytest.mark.parametrize("called", CALLABLES)
@pytest.mark.parametrize("calling", CALLING)
def test_what_a_callable_reads_is_noticed(calling, called, known):
    state["scale"] = 2.0
    made = CALLABLES[called]()
    function = CALLING[calling]((lambda: made) if known else CALLABLES[called])
    check_noticed(function, lambda: state.update(scale=3.0), CUTS[0])


@pytest.mark.parametrize("called", CALLABLES)
@pytest.mark.parametrize("wrapped", [torch.vmap, torch.no_grad(), torch.func.jacrev], ids=["vmap", "no_grad", "jacrev"])
def test_what_a_wrapped_callable_reads_is_noticed(wrapped, called):
    state["scale"] = 2.0
    made = wrapped(CALLABLES[called]())
    check_noticed(lambda x: made(x), lambda: state.update(scale=3.0), CUTS[0])


@pytest.mark.parametrize(
    "decorate", [torch.no_grad(), torch.autocast("cpu", enabled=False), torch.device("cpu")],
    ids=["no_grad", "autocast", "device"],
)  # fmt: skip
def test_decorated_methods_of_objects_that_are_callable(decorate):
    class Average(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(2))
            self.rate = 0.5

        @decorate
        def update(self, x):
            self.mean.lerp_(x, self.rate)

        def forward(self, x):
            self.update(x)
            return x + self.mean

    average = Average()
    compiled = torch.compile(lambda x: average(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.compiler.CompileWarning)
        assert [compiled(torch.ones(2))[0].item() for _ in range(3)] == [1.5, 1.75, 1.875]
        average.rate = 1.0
        assert compiled(torch.ones(2)).tolist() == [2.0, 2.0]


def test_a_cache_that_is_cleared():
    held = {"scale": 2.0}

    @functools.lru_cache
    def scale(count):
        return count * held["scale"]

    def change():
        held["scale"] = 3.0
        scale.cache_clear()

    for cut in CUTS:
        held["scale"] = 2.0
        scale.cache_clear()
        check_noticed(lambda x: x * scale(1), change, cut)


class Recipe:
    def __init__(self, order):
        self.order = order


def test_kept_results_of_objects_from_outside():
    @functools.lru_cache
    def recipe(order):
        return Recipe(order)

    @functools.lru_cache
    def axes(recipe, count):
        return list(recipe.order[:count])

    held = [Recipe((0, 1))]
    functions = [lambda x: x.permute(axes(recipe((1, 0)), 2)) * 2, lambda x: x.permute(axes(held[0], 2)) * 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.compiler.CompileWarning)
        compiled = [torch.compile(function) for function in functions]
        x = torch.ones(2, 3).cumsum(1)
        for change in (list, lambda: held.insert(0, Recipe((1, 0))), axes.cache_clear, axes(held[0], 2).reverse):
            change()
            for _ in range(3):
                for f, function in zip(compiled, functions, strict=True):
                    assert f(x).tolist() == function(x).tolist()


def test_kept_results_of_tensors_from_outside():
    weight = torch.tensor([1.0, 2.0])

    @functools.lru_cache
    def doubled(tensor):
        return tensor * 2

    compiled = torch.compile(lambda x: x * doubled(weight))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        for _ in range(4):
            assert compiled(torch.ones(2)).tolist() == [2.0, 4.0]
            weight.add_(1)
