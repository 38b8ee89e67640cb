"""Hooks of state, and the hooks that modules keep, copy and pickle, beside PyTorch."""

import copy
from collections import namedtuple

import pytest

from .module_hook_cases import function, leaf, same, scale

# -- state --------------------------------------------------------------------------------------------

STATE = {
    "pre": lambda lib, m, s: m.register_state_dict_pre_hook(lambda *a: s.append(a[1:])),
    "post": lambda lib, m, s: m.register_state_dict_post_hook(lambda m, d, p, l: d.update({p + "more": 1})),
    "post returns": lambda lib, m, s: m.register_state_dict_post_hook(lambda m, d, p, l: {}),
    "older": lambda lib, m, s: m._register_state_dict_hook(lambda m, d, p, l: s.append((list(d), p, l))),
    "older returns": lambda lib, m, s: m._register_state_dict_hook(lambda m, d, p, l: {"other": lib.ones(1)}),
    "load pre": lambda lib, m, s: m.register_load_state_dict_pre_hook(lambda m, d, *a: s.append((d, len(a)))),
    "load pre, older": lambda lib, m, s: m._register_load_state_dict_pre_hook(lambda d, *a: s.append((d, len(a)))),
    "load pre changes": lambda lib, m, s: m.register_load_state_dict_pre_hook(lambda m, d, p, *a: d.pop(p + "weight")),
    "load pre complains": lambda lib, m, s: m.register_load_state_dict_pre_hook(lambda *a: a[-1].append("no")),
    "load post": lambda lib, m, s: m.register_load_state_dict_post_hook(lambda m, keys: s.append(keys.missing_keys)),
    "load post changes": lambda lib, m, s: m.register_load_state_dict_post_hook(lambda m, k: k[1].append("x")),
    "load post returns": lambda lib, m, s: m.register_load_state_dict_post_hook(lambda m, k: k),
}


@pytest.mark.parametrize("name", STATE)
@pytest.mark.parametrize("inner", [False, True])
def test_hooks_of_state(name, inner):
    def case(lib):
        said, net = [], lib.nn.Sequential(scale(lib))
        state = net.state_dict()
        STATE[name](lib, net[0] if inner else net, said)
        saved = net.state_dict()
        loaded = net.load_state_dict(state)
        return dict(saved), said, loaded.missing_keys, loaded.unexpected_keys

    same(case)


# -- what modules keep --------------------------------------------------------------------------------


def kept(net):
    """How many hooks lie in each dictionary of a module."""
    return {name: len(hooks) for name, hooks in vars(net).items() if "hook" in name and hasattr(hooks, "keys")}


def test_dictionaries_of_hooks():
    def case(lib):
        net, seen = scale(lib), []
        handles = [
            net.register_forward_pre_hook(lambda m, a: seen.append("pre")),
            net.register_forward_pre_hook(lambda m, a, k: seen.append("pre, kwargs"), with_kwargs=True),
            net.register_forward_hook(lambda m, a, k, out: seen.append("kwargs"), with_kwargs=True),
            net.register_forward_hook(lambda m, a, out: seen.append("always"), always_call=True),
        ]
        before = {k: n for k, n in kept(net).items() if "forward" in k}
        twin = copy.deepcopy(net)
        twin(leaf(lib))
        for hook in net._forward_pre_hooks.values():
            hook(*(net, (), {})[: hook.__code__.co_argcount])
        for handle in handles:
            handle.remove()
        net(leaf(lib))
        return before, seen, {k: n for k, n in kept(net).items() if "forward" in k}

    same(case)


@pytest.mark.parametrize("name", ["_load_state_dict_post_hooks", "_state_dict_pre_hooks", "_forward_hooks_with_kwargs"])
def test_modules_that_were_copied_before_they_had_hooks(name):
    def case(lib):
        net, said = scale(lib), []
        delattr(net, name)
        net = copy.deepcopy(net)
        net.register_load_state_dict_post_hook(lambda m, keys: said.append("loaded"))
        net.register_state_dict_pre_hook(lambda *a: said.append("saved"))
        net.register_forward_hook(lambda m, a, out: said.append("called"))
        net.load_state_dict(net.state_dict())
        return net(leaf(lib)), said

    same(case)


def test_named_tuples_stay_what_they_are():
    def case(lib):
        both = namedtuple("both", "left right")
        net = function(lib, lambda x: both(x * 2, x + 1))
        net.register_full_backward_hook(lambda m, gi, go: None)
        out = net(leaf(lib))
        return type(out).__name__, type(out)._fields, out.left

    same(case)
