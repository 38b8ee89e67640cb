"""Modules: what they own, their modes, conversions and hooks."""

import pytest

import jitgrad as torch
from jitgrad import nn

from .net import NAMES, Net

# -- what a module owns -------------------------------------------------------------------------------


def test_names_come_in_order():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == NAMES
    assert [n for n, _ in net.named_parameters("net", recurse=False)] == ["net.scale"]
    assert [n for n, _ in net.named_buffers()] == ["count", "cache"]
    assert [n for n, _ in net.named_children()] == ["body"]
    assert [n for n, _ in net.named_modules()] == ["", "body", "body.0", "body.1"]
    assert list(net.state_dict()) == ["scale", "count", "body.0.weight", "body.0.bias"]
    assert len(list(net.modules())) == 4 and len(list(net.parameters())) == 3


def test_shared_members_are_listed_once():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    net.append(net[0])
    assert len(list(net.parameters())) == 3
    assert len(list(net.named_parameters(remove_duplicate=False))) == 6
    assert len(list(net.modules())) == 3
    assert net.state_dict()["0.weight"]._data is net.state_dict()["1.weight"]._data


def test_assignment_decides_where_a_name_lives():
    net = nn.Module()
    net.x = torch.ones(2)
    assert "x" in net.__dict__
    net.x = nn.Parameter(torch.ones(2))
    assert list(net._parameters) == ["x"] and "x" not in net.__dict__
    with pytest.raises(TypeError, match="cannot assign 'torch.FloatTensor' as parameter 'x'"):
        net.x = torch.ones(2)
    net.x = None
    assert net.x is None and list(net.parameters()) == []
    net.y = nn.ReLU()
    with pytest.raises(TypeError, match="cannot assign 'int' as child module 'y'"):
        net.y = 3
    net.b = nn.Buffer(torch.ones(1), persistent=False)
    net.b = torch.zeros(1)
    assert list(net._buffers) == ["b"] and list(net.state_dict()) == []
    del net.b, net.y, net.x
    assert not hasattr(net, "b") and "y" not in dir(net)
    with pytest.raises(AttributeError, match="'Module' object has no attribute 'z'"):
        net.z


def test_before_init_nothing_can_be_assigned():
    class Forgetful(nn.Module):
        def __init__(self):
            self.weight = nn.Parameter(torch.ones(1))

    with pytest.raises(AttributeError, match=r"cannot assign parameters before Module.__init__\(\) call"):
        Forgetful()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda m: m.register_parameter("a.b", None), KeyError, "parameter name can.*t contain"),
        (lambda m: m.register_parameter("", None), KeyError, "empty string"),
        (lambda m: m.register_parameter("forward", None), KeyError, "attribute 'forward' already exists"),
        (lambda m: m.register_parameter("p", torch.ones(1)), TypeError, "torch.nn.Parameter or None required"),
        (lambda m: m.register_buffer("b", 3), TypeError, "cannot assign 'int' object to buffer 'b'"),
        (lambda m: m.add_module("m", torch.ones(1)), TypeError, "torch.FloatTensor is not a Module subclass"),
        (lambda m: m.add_module("a.b", nn.ReLU()), KeyError, "module name can.*t contain"),
        (lambda m: m(1), NotImplementedError, r'Module \[Module\] is missing the required "forward" function'),
        (lambda m: m.get_parameter("q"), AttributeError, "Module has no attribute `q`"),
        (lambda m: m.get_submodule("q.r"), AttributeError, "Module has no attribute `q`"),
        (lambda m: m.train("yes"), ValueError, "training mode is expected to be boolean"),
        (lambda m: m.to(torch.int64), TypeError, "only accepts floating point or complex dtypes"),
    ],
)
def test_bad_calls(call, error, text):
    with pytest.raises(error, match=text):
        call(nn.Module())


def test_lookup_by_dotted_name():
    net = Net()
    assert net.get_parameter("body.0.weight") is net.body[0].weight
    assert net.get_submodule("body.1") is net.body[1] and net.get_submodule("") is net
    assert net.get_buffer("count") is net.count


# -- modes and conversions ----------------------------------------------------------------------------


def test_train_eval_apply_and_requires_grad():
    net, seen = Net(), []
    assert net.eval() is net and not net.body[1].training
    assert net.train().body.training
    net.apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Linear", "ReLU", "Sequential", "Net"]
    assert not any(p.requires_grad for p in net.requires_grad_(False).parameters())


def test_parameters_survive_conversion():
    net = Net()
    weight = net.body[0].weight
    net(torch.ones(1, 3)).sum().backward()
    net.double()
    assert net.body[0].weight is weight and weight.dtype is torch.float64 and weight.is_leaf
    assert weight.grad.dtype is torch.float64 and weight.requires_grad
    assert net.count.dtype is torch.float64
    net(torch.ones(1, 3, dtype=torch.float64)).sum().backward()
    net.to(torch.ones(1)).to("cpu").to(dtype=torch.float32)
    assert weight.dtype is torch.float32
    net(torch.ones(1, 3)).sum().backward()


def test_whole_numbers_keep_their_dtype():
    net = nn.Module()
    net.register_buffer("n", torch.tensor(3))
    assert net.double().n.dtype is torch.int64 and net.to(torch.float64).n.dtype is torch.int64


def test_zero_grad():
    net = Net()
    net(torch.ones(1, 3)).sum().backward()
    grad = net.scale.grad
    net.zero_grad(set_to_none=False)
    assert net.scale.grad is grad and grad.sum().item() == 0
    net.zero_grad()
    assert net.scale.grad is None


# -- hooks --------------------------------------------------------------------------------------------


def test_forward_hooks_may_replace():
    layer = nn.Identity()
    before = layer.register_forward_pre_hook(lambda m, args: args[0] + 1)
    after = layer.register_forward_hook(lambda m, args, out: out * 2)
    assert layer(torch.tensor(3.0)).item() == 8
    before.remove()
    assert layer(torch.tensor(3.0)).item() == 6
    after.remove()
    layer.register_forward_pre_hook(lambda m, args, kwargs: ((args[0] * 10,), {}), with_kwargs=True)
    assert layer(torch.tensor(3.0), ignored=1).item() == 30


def test_hook_that_is_always_called():
    class Broken(nn.Module):
        def forward(self, x):
            raise ValueError("broken")

    layer, seen = Broken(), []
    layer.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    layer.register_forward_hook(lambda m, args, out: seen.append("never"))
    with pytest.raises(ValueError, match="broken"):
        layer(1)
    assert seen == [None]


def test_backward_hooks_see_and_change_gradients():
    layer, seen = nn.Linear(2, 1, bias=False), []
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[2.0, 3.0]]))
    layer.register_full_backward_pre_hook(lambda m, grad_output: (grad_output[0] * 10,))
    layer.register_full_backward_hook(lambda m, gi, go: seen.append((gi[0].tolist(), go[0].tolist())))
    layer.register_full_backward_hook(lambda m, gi, go: (gi[0] + 1,))
    x = torch.ones(1, 2, requires_grad=True)
    layer(x).sum().backward()
    assert seen == [([[20.0, 30.0]], [[10.0]])]
    assert x.grad.tolist() == [[21.0, 31.0]] and layer.weight.grad.tolist() == [[10.0, 10.0]]


def test_backward_hook_without_gradient_at_the_input():
    layer, seen = nn.Linear(2, 1), []
    layer.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go[0].tolist())))
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        layer(torch.ones(1, 2)).sum().backward()
    assert seen == [((None,), [[1.0]])]
    with torch.no_grad():
        layer(torch.ones(1, 2))
    assert len(seen) == 1


def test_a_buffer_of_a_parameter_is_a_plain_tensor():
    net = nn.Module()
    net.b = nn.Buffer(nn.Parameter(torch.ones(1)))
    assert type(net.b) is torch.Tensor and isinstance(net.b, nn.Buffer) and net.b.requires_grad
    assert [n for n, _ in net.named_buffers()] == ["b"] and not list(net.parameters())


def test_a_backward_hook_without_inputs_that_require_grad_warns_at_the_users_line():
    layer = nn.Linear(2, 1)
    layer.register_full_backward_hook(lambda module, grad_input, grad_output: None)
    with pytest.warns(UserWarning, match="Full backward hook is firing") as found:
        layer(torch.ones(1, 2)).sum().backward()
    assert found[0].filename == __file__
