"""Hooks of modules against PyTorch: what they see, what they change, in which order, and what is refused."""

import copy
import warnings
from collections import namedtuple

import pytest
import torch

import jitgrad

LIBRARIES = (jitgrad, torch)


def plain(value):
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        return value.tolist(), value.requires_grad, value.grad_fn.name() if value.grad_fn is not None else None
    return value


def same(call, *args):
    """Both libraries give the same, or raise the same, with the same warnings."""
    results = []
    for lib in LIBRARIES:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                result = plain(call(lib, *args))
            except Exception as error:
                text = str(error).replace("jitgrad.", "torch.").replace(".modules.", ".")
                result = type(error).__name__, text
        results.append((result, [(w.category.__name__, str(w.message)) for w in caught]))
    assert results[0] == results[1]
    return results[0]


def scale(lib):
    """A module with one parameter that multiplies."""

    class Scale(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = lib.nn.Parameter(lib.ones(2) * 3)

        def forward(self, x, times=1):
            return x * self.weight * times

    return Scale()


def leaf(lib):
    return lib.ones(2, requires_grad=True)


def function(lib, forward):
    """A module without parameters."""

    class Given(lib.nn.Module):
        pass

    Given.forward = lambda self, *args, **kwargs: forward(*args, **kwargs)
    return Given()


# -- forward ------------------------------------------------------------------------------------------


def test_order_and_options():
    def case(lib):
        net, said = scale(lib), []

        def say(name):
            return lambda *args: said.append((name, [type(a).__name__ for a in args], len(args[1])))

        net.register_forward_hook(say("one"))
        net.register_forward_hook(say("first"), prepend=True)
        net.register_forward_hook(say("named"), with_kwargs=True)
        net.register_forward_pre_hook(say("pre one"))
        net.register_forward_pre_hook(say("pre named"), with_kwargs=True)
        last = net.register_forward_pre_hook(say("pre first"), prepend=True)
        net(leaf(lib), times=2)
        last.remove()
        with net.register_forward_hook(say("for a while")):
            net(leaf(lib))
        net(leaf(lib))
        return [(name, [k.replace("OrderedDict", "dict") for k in kinds], n) for name, kinds, n in said]

    same(case)


FORWARD = {
    "pre tuple": lambda lib, m: m.register_forward_pre_hook(lambda m, a: (a[0] + 1,)),
    "pre value": lambda lib, m: m.register_forward_pre_hook(lambda m, a: a[0] + 1),
    "pre kwargs": lambda lib, m: m.register_forward_pre_hook(lambda m, a, k: (a, {"times": 5}), with_kwargs=True),
    "pre kwargs, bad": lambda lib, m: m.register_forward_pre_hook(lambda m, a, k: a, with_kwargs=True),
    "pre kwargs, triple": lambda lib, m: m.register_forward_pre_hook(lambda m, a, k: (1, 2, 3), with_kwargs=True),
    "output": lambda lib, m: m.register_forward_hook(lambda m, a, out: out * 2),
    "other output": lambda lib, m: m.register_forward_hook(lambda m, a, out: {"out": out}),
    "kwargs": lambda lib, m: m.register_forward_hook(lambda m, a, k, out: out * k["times"], with_kwargs=True),
    "raising": lambda lib, m: m.register_forward_hook(lambda m, a, out: 1 / 0),
    "always raising": lambda lib, m: m.register_forward_hook(lambda m, a, out: 1 / 0, always_call=True),
}


@pytest.mark.parametrize("name", FORWARD)
def test_forward_hooks(name):
    def case(lib):
        net = scale(lib)
        handle = FORWARD[name](lib, net)
        out = net(leaf(lib), times=2)
        handle.remove()
        return out, net(leaf(lib))

    same(case)


def test_hooks_that_are_always_called():
    def case(lib):
        said = []

        def fail():
            raise ValueError("inside")

        net = function(lib, fail)
        net.register_forward_hook(lambda m, a, out: said.append(("always", out)), always_call=True)
        net.register_forward_hook(lambda m, a, out: said.append(("never", out)))
        net.register_forward_hook(lambda m, a, out: 1 / 0, always_call=True)
        net.register_forward_hook(lambda m, a, k, out: said.append((k, out)), always_call=True, with_kwargs=True)
        try:
            net()
        except ValueError as error:
            said.append(str(error))
        return said

    same(case)


# -- backward -----------------------------------------------------------------------------------------

FULL = {
    "sees": lambda lib, m: None, "zeros": lambda lib, m: (lib.zeros(2),), "list": lambda lib, m: [lib.zeros(2)],
    "too many": lambda lib, m: (lib.zeros(2),) * 2, "none": lambda lib, m: (), "a tensor": lambda lib, m: lib.zeros(2),
}  # fmt: skip


@pytest.mark.parametrize("name", FULL)
@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("grad", [False, True])
def test_full_backward_hooks(name, before, grad):
    def case(lib):
        net, x, seen = scale(lib), leaf(lib).requires_grad_(grad), []

        def hook(*args):
            seen.append(args[1:])
            return FULL[name](lib, net)

        (net.register_full_backward_pre_hook if before else net.register_full_backward_hook)(hook)
        out = net(x)
        out.sum().backward()
        return out, seen, x.grad, net.weight.grad

    same(case)


def test_order_of_backward_hooks():
    def case(lib):
        said, net = [], lib.nn.Sequential(scale(lib), scale(lib))
        for k, module in enumerate(net.modules()):
            module.register_full_backward_hook(lambda m, gi, go, k=k: said.append(("one", k)))
            module.register_full_backward_hook(lambda m, gi, go, k=k: said.append(("first", k)), prepend=True)
            module.register_full_backward_pre_hook(lambda m, go, k=k: said.append(("pre", k)))
            module.register_full_backward_pre_hook(lambda m, go, k=k: said.append(("pre first", k)), prepend=True)
        net(leaf(lib)).sum().backward()
        return said

    same(case)


MODULES = {
    "several": lambda lib, x, y: (x * 2, y * 3), "one of them": lambda lib, x, y: x * 2,
    "dict": lambda lib, x, y: {"a": x * y},
    "number": lambda lib, x, y: 3, "itself": lambda lib, x, y: x, "both": lambda lib, x, y: (x, y),
    "integers": lambda lib, x, y: (x * 2, lib.tensor([1])), "list": lambda lib, x, y: [x * y],
    "twice": lambda lib, x, y: (x, x),
    "detached": lambda lib, x, y: x.detach(),
    "in place": lambda lib, x, y: x.add_(y), "view": lambda lib, x, y: x[0] * y,
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("kinds", ["full", "full, pre", "old"])
def test_kinds_of_modules(name, kinds):
    if (name, kinds) in {("number", "old")}:
        return

    def case(lib):
        seen, x, y = [], leaf(lib), leaf(lib)
        net = function(lib, lambda x, y: MODULES[name](lib, x, y))
        if kinds == "old":
            net.register_backward_hook(lambda m, gi, go: seen.append((gi, go)))
        else:
            net.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go)))
        if kinds == "full, pre":
            net.register_full_backward_pre_hook(lambda m, go: seen.append(go))
        out = net(x * 1, y * 1)
        outs = out.values() if isinstance(out, dict) else out if isinstance(out, (tuple, list)) else [out]
        total = sum(o.sum() for o in outs if isinstance(o, (jitgrad.Tensor, torch.Tensor)) and o.requires_grad)
        if not isinstance(total, int):
            total.backward()
        return out, seen, x.grad, y.grad

    same(case)


def test_arguments_that_are_no_tensors():
    def case(lib):
        seen, x, y, z = [], leaf(lib), leaf(lib), leaf(lib)
        net = function(lib, lambda x, n, y, z, flag: x * n * z)
        net.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go)))
        net(x, 3, y, z=z, flag=True).sum().backward()
        return seen, x.grad, y.grad, z.grad

    same(case)


@pytest.mark.parametrize("place", ["output", "input", "of a view"])
def test_writes_in_place_round_a_watched_module(place):
    def case(lib):
        net = function(lib, lambda x: x.add_(1)) if place == "input" else scale(lib)
        net.register_full_backward_hook(lambda *args: None)
        out = net(leaf(lib) * 1)
        return out if place == "input" else (out[0] if place == "of a view" else out).add_(1)

    assert "is a view and is being modified inplace" in same(case)[0][1]


def test_hooks_that_fire_for_grad_and_twice():
    def case(lib):
        seen, net, x = [], scale(lib), leaf(lib)
        net.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go)))
        out = net(x).sum()
        lib.autograd.grad(out, x, retain_graph=True)
        out.backward(retain_graph=True)
        lib.autograd.grad(out, net.weight)
        with lib.no_grad():
            net(x)
        return seen, x.grad

    same(case)


def test_the_older_kind():
    def case(lib):
        seen, net, x = [], scale(lib), leaf(lib)
        handle = net.register_backward_hook(lambda m, gi, go: seen.append((gi, go)) or (gi[0] * 2, *gi[1:]))
        net(x).sum().backward()
        handle.remove()
        net(x).sum().backward()
        return seen, x.grad, net.weight.grad

    same(case)


@pytest.mark.parametrize("first", ["register_backward_hook", "register_full_backward_hook"])
def test_kinds_do_not_mix(first):
    def case(lib):
        net = scale(lib)
        getattr(net, first)(print)
        (net.register_full_backward_hook if first == "register_backward_hook" else net.register_backward_hook)(print)

    assert same(case)[0][0] == "RuntimeError"


def test_hooks_are_copied_with_their_module():
    def case(lib):
        seen, net = [], scale(lib)
        net.register_forward_hook(lambda m, a, out: seen.append("called"))
        copy.deepcopy(net)(leaf(lib))
        return seen

    same(case)


# -- of all modules -----------------------------------------------------------------------------------


def hooks_of(lib):
    return lib.nn.modules.module


GLOBAL = {
    "forward": ("register_module_forward_hook", lambda said: lambda m, a, out: said.append((a, out)), {}),
    "output": ("register_module_forward_hook", lambda said: lambda m, a, out: out * 2, {}),
    "kwargs": ("register_module_forward_hook", lambda said: lambda m, a, k, out: said.append(k), {"with_kwargs": True}),
    "pre": ("register_module_forward_pre_hook", lambda said: lambda m, a: said.append(a), {}),
    "arguments": ("register_module_forward_pre_hook", lambda said: lambda m, a: a[0] * 2, {}),
    "backward": ("register_module_full_backward_hook", lambda said: lambda m, gi, go: said.append((gi, go)), {}),
    "changed": ("register_module_full_backward_hook", lambda said: lambda m, gi, go: (gi[0] * 2,), {}),
    "pre backward": ("register_module_full_backward_pre_hook", lambda said: lambda m, go: said.append(go), {}),
}


@pytest.mark.parametrize("name", GLOBAL)
def test_hooks_of_all_modules(name):
    def case(lib):
        said, net, x = [], lib.nn.Sequential(scale(lib), scale(lib)), leaf(lib)
        register, make, options = GLOBAL[name]
        net[0].register_forward_hook(lambda m, a, out: said.append("own"))
        net[0].register_full_backward_hook(lambda m, gi, go: said.append("own backward"))
        with getattr(hooks_of(lib), register)(make(said), **options):
            out = net(x)
            out.sum().backward()
        count = len(said)
        net(x).sum().backward()
        return out, said[:count], len(said) - count, x.grad

    same(case)


def test_global_hooks_that_are_always_called():
    def case(lib):
        said = []
        register = hooks_of(lib).register_module_forward_hook
        with register(lambda m, a, out: said.append(out), always_call=True), \
             register(lambda m, a, out: 1 / 0, always_call=True):  # fmt: skip
            try:
                function(lib, lambda: int("x"))()
            except ValueError as error:
                said.append(str(error))
        return said

    same(case)


def test_global_kinds_do_not_mix():
    def case(lib):
        hooks_of(lib).register_module_full_backward_hook(print).remove()
        hooks_of(lib).register_module_backward_hook(print)

    assert same(case)[0][0] == "RuntimeError"


def test_registration():
    def case(lib):
        said, nn, hooks = [], lib.nn, hooks_of(lib)

        def say(m, name, value):
            said.append((type(m).__name__, name, type(value).__name__))

        with hooks.register_module_parameter_registration_hook(say), \
             hooks.register_module_buffer_registration_hook(say), \
             hooks.register_module_module_registration_hook(say):  # fmt: skip
            net = nn.Module()
            net.a, net.c, net.e = nn.Parameter(lib.ones(1)), nn.ReLU(), nn.Parameter(lib.ones(1))
            net.register_buffer("b", lib.ones(1))
            net.register_parameter("d", None)
            net.e = None
            net.b = lib.zeros(1)
            net.add_module("f", nn.ReLU())
            net.c, net.a = nn.Tanh(), nn.Parameter(lib.ones(1))
            net.c = None
            nn.Sequential(nn.ReLU()), nn.Linear(1, 1, bias=False), nn.ModuleList([nn.ReLU()])
            net.register_buffer("n", None)
            net.n = lib.ones(1)
        net.z = nn.Parameter(lib.ones(1))
        return said

    same(case)


def test_registration_may_replace():
    def case(lib):
        nn, hooks, net = lib.nn, hooks_of(lib), lib.nn.Module()
        with hooks.register_module_parameter_registration_hook(lambda m, n, p: nn.Parameter(p * 0)), \
             hooks.register_module_buffer_registration_hook(lambda m, n, b: b * 0), \
             hooks.register_module_module_registration_hook(lambda m, n, c: nn.Tanh()):  # fmt: skip
            net.a = nn.Parameter(lib.ones(1))
            net.register_buffer("b", lib.ones(1))
            net.c = nn.ReLU()
            net.add_module("d", nn.ReLU())
        return dict(net.state_dict()), repr(net)

    same(case)


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
