"""Functions with arguments already given, where jitgrad or C calls them: what they read is noticed when it changes."""

import functools
from types import SimpleNamespace

import pytest

import jitgrad as torch
from jitgrad.utils._pytree import tree_map
from jitgrad.utils.checkpoint import checkpoint
from tests.compiler.alike import check_noticed, whole


def made():
    """(An object, a partial of a function that reads it)."""
    settings = SimpleNamespace(scale=2.0)

    def scaled(shift, x, more=1.0):
        return x * settings.scale + shift * more

    return settings, functools.partial(scaled, 1.0, more=2.0)


CALLS = {
    "tree_map": lambda partial: lambda x: sum(tree_map(partial, [x, x * 2])),
    "map": lambda partial: lambda x: sum(map(partial, [x, x * 2])),
    "jacobian": lambda partial: lambda x: torch.func.jacrev(partial)(x),
    "checkpoint": lambda partial: lambda x: checkpoint(partial, x, use_reentrant=False),
    "no_grad": lambda partial: torch.no_grad()(partial),
    "vmap": lambda partial: torch.vmap(partial),
    "vmap_inside": lambda partial: lambda x: torch.vmap(partial)(x),
    "vmap_of_a_function": lambda partial: torch.vmap(lambda x: partial(x)),
    "partial": lambda partial: lambda x: tree_map(functools.partial(partial, more=3.0), [x])[0],
}


@pytest.mark.parametrize("name", CALLS)
def test_a_change_is_noticed(name):
    settings, partial = made()
    check_noticed(CALLS[name](partial), lambda: setattr(settings, "scale", 3.0), whole)


def test_a_module_that_is_mapped():
    module = torch.nn.Linear(2, 2)
    mapped = torch.vmap(module)
    check_noticed(lambda x: mapped(x[None]).detach()[0], lambda: setattr(module, "bias", None), whole)


@pytest.mark.parametrize("name", CALLS)
def test_other_keywords_are_noticed(name):
    _, partial = made()
    if name in ("jacobian", "partial"):
        pytest.skip("the keyword counts for nothing")
    check_noticed(CALLS[name](partial), lambda: partial.keywords.update(more=5.0), whole)


class Doubling(functools.partial):
    """A partial that does more than call its function."""

    factor = 2.0

    def __call__(self, *args):
        return super().__call__(*args) * self.factor


@pytest.mark.parametrize("name", ["map", "tree_map", "vmap"])
def test_a_class_of_partials(name, monkeypatch):
    doubling = Doubling(lambda shift, x: x + shift, 1.0)
    check_noticed(CALLS[name](doubling), lambda: monkeypatch.setattr(Doubling, "factor", 3.0), whole)
