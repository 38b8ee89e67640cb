"""Hooks of all modules beside PyTorch, and how hooks are registered."""

import pytest

from .module_hook_cases import function, leaf, same, scale


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
