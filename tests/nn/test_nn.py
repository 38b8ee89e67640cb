"""Modules by themselves: registration, traversal, state, hooks, containers, initial values, bad input."""

import copy
import math
import pickle
from collections import OrderedDict

import numpy as np
import pytest

import jitgrad as torch
from jitgrad import nn
from jitgrad.nn import functional as F
from jitgrad.nn import init
from jitgrad.nn.utils import clip_grad_norm_, clip_grad_value_, parameters_to_vector, vector_to_parameters


class Net(nn.Module):
    """A module with one of everything."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("cache", torch.zeros(2), persistent=False)
        self.nothing = None

    def forward(self, x):
        return self.body(x) * self.scale


NAMES = ["scale", "body.0.weight", "body.0.bias"]


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
        (lambda m: m.register_parameter("a.b", None), KeyError, 'parameter name can.*t contain'),
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


# -- state --------------------------------------------------------------------------------------------


def test_state_round_trip():
    one, two = Net(), Net()
    assert repr(two.load_state_dict(one.state_dict())) == "<All keys matched successfully>"
    assert all((a == b).all() for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert not any(v.requires_grad for v in one.state_dict().values())
    assert one.state_dict(keep_vars=True)["scale"] is one.scale
    one.state_dict()["scale"].fill_(7)
    assert one.scale.sum().item() == 28  # the same memory


def test_missing_unexpected_and_mismatched_keys():
    net = Net()
    state = net.state_dict()
    del state["scale"]
    state["extra"] = torch.ones(1)
    state["body.0.bias"] = torch.ones(7)
    with pytest.raises(RuntimeError) as error:
        net.load_state_dict(state)
    assert str(error.value) == (
        'Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: "scale". \n\t'
        'Unexpected key(s) in state_dict: "extra". \n\tsize mismatch for body.0.bias: copying a param with shape '
        "torch.Size([7]) from checkpoint, the shape in current model is torch.Size([4])."
    )
    state["body.0.bias"] = torch.ones(4)
    keys = net.load_state_dict(state, strict=False)
    assert keys.missing_keys == ["scale"] and keys.unexpected_keys == ["extra"]
    assert net.body[0].bias.sum().item() == 4
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like"):
        net.load_state_dict([1])


def test_assign_takes_the_tensors_themselves():
    net = Net()
    new = torch.ones(4, dtype=torch.float64)
    net.load_state_dict({**net.state_dict(), "scale": new}, assign=True)
    assert isinstance(net.scale, nn.Parameter) and net.scale.dtype is torch.float64 and net.scale.requires_grad


def test_extra_state_and_hooks():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.steps = 0

        def get_extra_state(self):
            return {"steps": self.steps}

        def set_extra_state(self, state):
            self.steps = state["steps"]

    one, two, seen = Counting(), Counting(), []
    one.steps = 5
    state = nn.Sequential(one).state_dict()
    assert list(state) == ["0._extra_state"]
    two.register_load_state_dict_post_hook(lambda module, keys: seen.append(keys))
    nn.Sequential(two).load_state_dict(state)
    assert two.steps == 5 and len(seen) == 1


@pytest.mark.parametrize("again", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
def test_copies_are_independent(again):
    net = Net()
    twin = again(net)
    assert [n for n, _ in twin.named_parameters()] == NAMES
    assert type(twin.scale) is nn.Parameter and twin.scale is not net.scale
    with torch.no_grad():
        twin.scale.fill_(3)
    assert net.scale.sum().item() == 4
    twin(torch.ones(1, 3)).sum().backward()
    assert twin.scale.grad is not None and net.scale.grad is None


def test_save_and_load(tmp_path):
    net, path = Net(), tmp_path / "net.pt"
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, path)
    loaded = torch.load(path)
    other = Net()
    other.load_state_dict(loaded["net"])
    again = torch.optim.Adam(other.parameters())
    again.load_state_dict(loaded["optimizer"])
    assert loaded["epoch"] == 3 and (other.scale == net.scale).all()
    assert again.state[other.scale]["step"].item() == 1 and again.param_groups[0]["betas"] == (0.9, 0.999)


def test_load_runs_no_code_unless_told_to(tmp_path):
    path = tmp_path / "net.pt"
    torch.save({"net": nn.Linear(2, 1)}, path)
    with pytest.raises(pickle.UnpicklingError, match="weights_only=False"):
        torch.load(path)
    assert isinstance(torch.load(path, weights_only=False)["net"], nn.Linear)
    path.write_bytes(b"no zip")
    with pytest.raises(RuntimeError, match=r"was not written by jitgrad\.save"):
        torch.load(path)
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "nowhere")


def test_saved_values_come_back_alike(tmp_path):
    weight = nn.Parameter(torch.arange(3.0))
    value = {
        "a": [1, 2.5, True, None, "text", b"bytes", 1 + 2j, float("inf")], 3: (torch.float32, slice(1, None)),
        "od": OrderedDict(x=torch.ones(2, dtype=torch.int64)), "size": torch.ones(2, 3).shape, "tied": [weight, weight],
        "leaf": torch.ones(1, requires_grad=True), "set": {1, 2}, "empty": torch.ones(0, 2),
        "device": torch.ones(1).device,
    }  # fmt: skip
    torch.save(value, tmp_path / "v")
    again = torch.load(tmp_path / "v")
    assert again["a"] == value["a"] and again[3] == value[3] and again["size"] == value["size"]
    assert again["set"] == {1, 2} and again["device"] == value["device"]
    assert type(again["od"]) is OrderedDict and again["od"]["x"].dtype is torch.int64
    assert again["leaf"].requires_grad and again["empty"].shape == (0, 2)
    first, second = again["tied"]
    assert type(first) is nn.Parameter
    with torch.no_grad():
        first.fill_(9)
    assert second.sum().item() == 27


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


# -- containers ---------------------------------------------------------------------------------------


def test_sequential_is_a_list():
    a, b, c = nn.ReLU(), nn.Tanh(), nn.Sigmoid()
    net = nn.Sequential(a, b)
    net.append(c)
    assert net[-1] is c and len(net) == 3 and list(net[1:]) == [b, c]
    net.insert(0, c)
    assert list(net) == [c, a, b, c]
    assert net.pop(0) is c and [n for n, _ in net.named_children()] == ["0", "1", "2"]
    net[0] = b
    del net[1]
    assert list(net) == [b, c]
    assert len(net + net) == 4 and len(net * 2) == 4
    net += nn.Sequential(a)
    assert len(net) == 3
    named = nn.Sequential(OrderedDict(first=a, second=b))
    assert named.first is a and list(named[:1]._modules) == ["first"]
    for call in (lambda: net[5], lambda: net.insert(9, a)):
        with pytest.raises(IndexError):
            call()
    with pytest.raises(ValueError, match="add operator supports only objects of Sequential class"):
        net + [a]
    with pytest.raises(ValueError, match="Non-positive multiplication factor 0"):
        net * 0


def test_module_list_and_dict():
    layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
    layers.extend([nn.ReLU()])
    layers += [nn.Tanh()]
    layers.insert(1, nn.Sigmoid())
    assert [type(m).__name__ for m in layers] == ["Linear", "Sigmoid", "Linear", "Linear", "ReLU", "Tanh"]
    assert len(list(layers.parameters())) == 6 and len(layers[1:3]) == 2
    with pytest.raises(TypeError, match="iterable, but got int"):
        layers.extend(3)
    named = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
    named["c"] = nn.Linear(1, 1)
    assert list(named) == list(named.keys()) == ["a", "b", "c"] and "b" in named and len(named) == 3
    assert isinstance(named.pop("a"), nn.ReLU)
    with pytest.raises(ValueError, match="element #0 has length 3; 2 is required"):
        named.update([("a", 1, 2)])


def test_parameter_list_and_dict():
    params = nn.ParameterList([torch.ones(2), nn.Parameter(torch.ones(3))])
    params.append(torch.ones(4))
    assert [p.numel() for p in params] == [2, 3, 4] and len(list(params.parameters())) == 3
    assert isinstance(params[0], nn.Parameter) and len(params[1:]) == 2
    named = nn.ParameterDict({"a": torch.ones(2)})
    named["b"] = torch.ones(3)
    assert [n for n, _ in named.named_parameters()] == ["a", "b"] and named.pop("a").numel() == 2
    with pytest.raises(RuntimeError, match="should not be called"):
        params(1)


# -- parameters and initial values --------------------------------------------------------------------


def test_parameter_shares_memory_and_is_a_leaf():
    data = torch.ones(2, 2)
    p = nn.Parameter(data)
    assert p.requires_grad and p.is_leaf and isinstance(p, torch.Tensor) and p._data is data._data
    assert repr(p).startswith("Parameter containing:\ntensor([[1., 1.],\n")
    with torch.no_grad():
        assert nn.Parameter(data).requires_grad
    assert type(p + 1) is torch.Tensor and type(p.detach()) is torch.Tensor
    assert not nn.Parameter(torch.arange(3), requires_grad=False).requires_grad
    with pytest.raises(RuntimeError, match="can require gradients"):
        nn.Parameter(torch.arange(3))


def test_gains_and_fans():
    assert init.calculate_gain("relu") == math.sqrt(2) and init.calculate_gain("tanh") == 5 / 3
    assert init.calculate_gain("leaky_relu", 1) == 1 and init.calculate_gain("linear") == 1
    assert init._calculate_fan_in_and_fan_out(torch.ones(6, 4, 3, 3)) == (36, 54)
    for call in (lambda: init.calculate_gain("x"), lambda: init.calculate_gain("leaky_relu", True)):
        with pytest.raises(ValueError):
            call()
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        init.xavier_uniform_(torch.ones(3))
    with pytest.raises(ValueError, match="Mode fan not supported"):
        init.kaiming_uniform_(torch.ones(3, 2), mode="fan")


@pytest.mark.parametrize("fill", ["xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_"])
def test_variance_of_initial_values(fill):
    torch.manual_seed(0)
    weight = nn.Parameter(torch.empty(200, 300))
    assert getattr(init, fill)(weight) is weight and weight.requires_grad and weight.is_leaf
    expected = 2 / 500 if "xavier" in fill else 2 / 300
    assert float(np.var(weight.detach().numpy())) == pytest.approx(expected, rel=0.05)


def test_constants():
    assert init.constant_(torch.empty(2, 2), 3.5).tolist() == [[3.5, 3.5], [3.5, 3.5]]
    assert init.ones_(torch.empty(2)).tolist() == [1, 1] and init.zeros_(torch.empty(2)).tolist() == [0, 0]
    assert init.eye_(torch.empty(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]


# -- layers and losses --------------------------------------------------------------------------------


def test_linear_by_hand():
    layer = nn.Linear(2, 3)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
        layer.bias.copy_(torch.tensor([0.5, 0.0, -0.5]))
    assert layer(torch.tensor([[1.0, 1.0], [1.0, 0.0]])).tolist() == [[3.5, 7, 10.5], [1.5, 3, 4.5]]
    assert layer(torch.tensor([1.0, 1.0])).tolist() == [3.5, 7, 10.5]
    assert layer(torch.ones(2, 3, 2)).shape == (2, 3, 3)
    assert nn.Linear(2, 3, bias=False).bias is None
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        layer(torch.ones(1, 3))


def test_dropout():
    torch.manual_seed(0)
    layer, x = nn.Dropout(0.25), torch.ones(1000, requires_grad=True)
    y = layer(x)
    kept = y.detach().numpy() != 0
    assert set(np.unique(y.detach().numpy()).tolist()) == {0.0, np.float32(1 / 0.75).item()}
    assert 0.7 < kept.mean() < 0.8
    y.sum().backward()
    assert (x.grad.numpy() == y.detach().numpy()).all()
    assert layer.eval()(x) is x and F.dropout(x, 0.0) is x
    assert F.dropout(x, 1.0).sum().item() == 0
    z = torch.ones(10)
    assert F.dropout(z, 0.5, inplace=True) is z
    for bad in (-0.1, 1.5):
        with pytest.raises(ValueError, match=f"has to be between 0 and 1, but got {bad}"):
            nn.Dropout(bad)
        with pytest.raises(ValueError, match="has to be between 0 and 1"):
            F.dropout(x, bad)


@pytest.mark.parametrize("inplace", [False, True])
def test_activations_in_place(inplace):
    x = torch.tensor([-1.0, 2.0])
    for layer in (nn.ReLU(inplace), nn.LeakyReLU(0.1, inplace), nn.ELU(inplace=inplace)):
        y = x.clone()
        assert (layer(y) is y) is inplace


def test_losses_by_hand():
    x, y = torch.tensor([1.0, 3.0]), torch.tensor([2.0, 1.0])
    assert nn.MSELoss()(x, y).item() == 2.5 and nn.MSELoss(reduction="sum")(x, y).item() == 5
    assert nn.L1Loss(reduction="none")(x, y).tolist() == [1, 2]
    assert nn.SmoothL1Loss()(x, y).item() == pytest.approx((0.5 + 1.5) / 2)
    logits, classes = torch.tensor([[0.0, 0.0], [math.log(3), 0.0]]), torch.tensor([0, 0])
    expected = (math.log(2) - math.log(0.75)) / 2
    assert nn.CrossEntropyLoss()(logits, classes).item() == pytest.approx(expected)
    assert nn.NLLLoss()(F.log_softmax(logits, 1), classes).item() == pytest.approx(expected)
    assert nn.BCEWithLogitsLoss()(torch.tensor([0.0]), torch.tensor([1.0])).item() == pytest.approx(math.log(2))
    with pytest.warns(UserWarning, match="please use reduction='sum' instead"):
        assert nn.MSELoss(size_average=False).reduction == "sum"


def test_training_learns_xor():
    torch.manual_seed(1)
    x = torch.tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    y = torch.tensor([[0.0], [1], [1], [0]])
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    for _ in range(200):
        optimizer.zero_grad()
        loss = nn.BCEWithLogitsLoss()(net(x), y)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05


# -- nn.utils -----------------------------------------------------------------------------------------


def test_clipping():
    params = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(3))]
    params[0].grad, params[1].grad = torch.tensor([3.0, 0.0]), torch.tensor([4.0])
    assert clip_grad_norm_(params, 1.0).item() == pytest.approx(5)
    assert params[1].grad.item() == pytest.approx(0.8, rel=1e-5)
    assert clip_grad_norm_(params, 10.0, float("inf")).item() == pytest.approx(0.8, rel=1e-5)
    clip_grad_value_(params, 0.5)
    assert params[0].grad.tolist() == [0.5, 0.0] and params[1].grad.item() == 0.5
    params[0].grad = torch.tensor([float("nan"), 0.0])
    with pytest.raises(RuntimeError, match="is non-finite, so it cannot be clipped"):
        clip_grad_norm_(params, 1.0, error_if_nonfinite=True)
    assert clip_grad_norm_([], 1.0).item() == 0


def test_parameters_as_one_vector():
    params = [nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.zeros(3))]
    vector = parameters_to_vector(params)
    assert vector.tolist() == [1, 1, 1, 1, 0, 0, 0] and vector.requires_grad
    vector_to_parameters(torch.arange(7.0), params)
    assert params[0].tolist() == [[0, 1], [2, 3]] and params[1].tolist() == [4, 5, 6]
