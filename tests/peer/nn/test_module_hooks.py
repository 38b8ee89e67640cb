"""Forward and backward hooks of modules beside PyTorch."""

import copy

import pytest
import torch

import jitgrad

from .module_hook_cases import function, leaf, same, scale

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
