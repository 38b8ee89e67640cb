"""What compile makes of a module: a module round it."""

import copy
import pickle
import warnings

import pytest

import jitgrad as torch
from jitgrad import nn
from jitgrad._dynamo import OptimizedModule
from tests.compiler.alike import normal


class Counting(nn.Module):
    """Has what modules of programs have: children, numbers, methods, properties."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.twice(x) if self.training else self.layer(x)

    def twice(self, x):
        return self.layer(x) * 2

    @property
    def width(self):
        return self.layer.out_features


def matrix(k):
    return normal(4, 8, seed=k)


def test_it_is_a_module_round_the_other():
    net = Counting()
    compiled = torch.compile(net)
    assert isinstance(compiled, nn.Module) and type(compiled) is OptimizedModule and compiled._orig_mod is net
    assert repr(compiled).startswith("OptimizedModule(\n  (_orig_mod): Counting(\n")
    assert list(compiled.state_dict()) == ["_orig_mod.layer.weight", "_orig_mod.layer.bias"]
    assert [n for n, _ in compiled.named_modules()] == ["", "_orig_mod", "_orig_mod.layer"]
    assert list(nn.Sequential(compiled).state_dict()) == ["0._orig_mod.layer.weight", "0._orig_mod.layer.bias"]
    assert list(map(id, compiled.parameters())) == list(map(id, net.parameters()))
    assert compiled.get_parameter("layer.weight") is net.layer.weight
    assert type(torch.compile(compiled)._orig_mod) is Counting and torch.compile(net, disable=True) is net
    with pytest.raises(RuntimeError, match="OptimizedModule:\n\tMissing key.*_orig_mod.layer.weight"):
        compiled.load_state_dict(net.state_dict())


def test_attributes_are_those_of_the_other():
    net = Counting()
    compiled = torch.compile(net)
    assert compiled.width == 3 and torch.equal(compiled.twice(matrix(0)), net.twice(matrix(0)))
    for k in range(4):
        assert torch.equal(compiled(matrix(k)), net.twice(matrix(k)))
    assert compiled.calls == net.calls == 4
    compiled.calls, compiled.more = 0, nn.Parameter(torch.ones(1))
    assert net.calls == 0 and "more" in net._parameters and "more" not in vars(compiled)
    del compiled.more
    assert not hasattr(net, "more") and {"layer", "calls", "width", "_orig_mod"} <= set(dir(compiled))
    with pytest.raises(AttributeError, match="'Counting' object has no attribute 'nothing'"):
        _ = compiled.nothing
    compiled.layer = nn.Linear(8, 5)
    assert compiled(matrix(0)).shape == (4, 5)


def test_training_is_that_of_the_other():
    net = nn.Sequential(nn.Linear(8, 3), nn.Dropout(0.5))
    compiled = torch.compile(net)
    for mode in (False, True, False):
        compiled.train(mode)
        assert compiled.training is net.training is net[1].training is mode
        for k in range(3):
            assert bool((compiled(matrix(k)) == 0).any()) is mode
    net.train()
    assert compiled.training
    compiled.training = False
    assert not net.training and net[1].training


def test_its_length():
    assert len(torch.compile(nn.Sequential(nn.ReLU(), nn.ReLU()))) == 2
    with pytest.raises(TypeError, match=r"Linear does not support len\(\)"):
        len(torch.compile(nn.Linear(2, 2)))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))], ids=["copy", "pickle"])
def test_copies_are_compiled_the_same_way(copied):
    net = torch.compile(nn.Linear(8, 3), fullgraph=True, options={"fusion": False})
    for k in range(3):
        net(matrix(k))
    other = copied(net)
    assert type(other) is OptimizedModule and other._orig_mod is not net._orig_mod
    assert other.dynamo_ctx.keywords == net.dynamo_ctx.keywords
    for k in range(3):
        assert torch.equal(other(matrix(k)), net(matrix(k)))
    assert len(other.explain().recordings) == 1
    assert copy.copy(net)._orig_mod is net._orig_mod


def test_hooks_of_both():
    seen = []
    compiled = torch.compile(nn.Linear(8, 3))
    compiled(matrix(0))
    outer = compiled.register_forward_hook(lambda *given: seen.append("outer"))
    inner = compiled._orig_mod.register_forward_hook(lambda *given: seen.append("inner"))
    for k in range(4):
        compiled(matrix(k))
    assert seen == ["inner", "outer"] * 4
    inner.remove()
    outer.remove()
    handle = nn.modules.module.register_module_forward_hook(lambda module, *given: seen.append(type(module).__name__))
    try:
        with pytest.warns(UserWarning, match="when there are global hooks on modules"):
            compiled(matrix(0))
    finally:
        handle.remove()
    assert seen[-2:] == ["Linear", "OptimizedModule"]


def test_inside_of_a_compiled_step():
    net = torch.compile(nn.Linear(8, 3))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    @torch.compile(fullgraph=True)
    def step(x):
        optimizer.zero_grad()
        loss = net(x).square().mean() * (2 if net.training else 1)
        loss.backward()
        optimizer.step()
        return loss.detach()

    losses = [float(step(matrix(0))) for _ in range(6)]
    assert losses == sorted(losses, reverse=True) and step._variants
    net.eval()
    assert float(step(matrix(0))) < losses[-1] * 0.6


@pytest.mark.parametrize("make", [nn.LazyLinear, lambda n: nn.Sequential(nn.LazyLinear(n), nn.ReLU())])
def test_modules_that_get_their_shapes_from_the_first_call(make):
    compiled = torch.compile(make(3))
    expected = [compiled(matrix(1)) for _ in range(4)]
    assert all(torch.equal(e, compiled._orig_mod(matrix(1))) for e in expected) and compiled.explain().recordings


def test_other_options_from_now_on():
    compiled = torch.compile(nn.Linear(8, 3))
    compiled.compile(fullgraph=True)
    assert compiled.dynamo_ctx.keywords["fullgraph"] and compiled(matrix(0)).shape == (4, 3)


class Average(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(2))

    def forward(self, x):
        self.mean = self.mean.lerp_(x, 0.5)
        return x + self.mean


def test_buffers_that_are_assigned_what_they_are():
    average = Average()
    compiled = torch.compile(lambda x: average(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.compiler.CompileWarning)
        for _ in range(2):
            assert [compiled(torch.ones(2))[0].item() for _ in range(3)] == [1.5, 1.75, 1.875]
            average.mean = torch.zeros(2)


def test_hooks_of_buffers_see_each_assignment():
    average, seen = Average(), []
    compiled = torch.compile(lambda x: average(x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        compiled(torch.ones(2)), compiled(torch.ones(2))
        hook = lambda module, name, buffer: seen.append(name)
        with torch.nn.modules.module.register_module_buffer_registration_hook(hook):
            assert [compiled(torch.ones(2))[0].item() for _ in range(3)] == [1.875, 1.9375, 1.96875]
        compiled(torch.ones(2))
    assert seen == ["mean"] * 3


def test_registrations_of_the_program_see_each_assignment():
    seen = []

    class Registering(Average):
        def register_buffer(self, name, tensor, persistent=True):
            seen.append(name)
            super().register_buffer(name, tensor, persistent)

    average = Registering()
    compiled = torch.compile(lambda x: average(x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        assert [compiled(torch.ones(2))[0].item() for _ in range(3)] == [1.5, 1.75, 1.875]
    assert seen == ["mean"] * 4
