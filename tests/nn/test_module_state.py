"""The state of modules: loading, copies, files."""

import copy
import pickle
from collections import OrderedDict

import pytest

import jitgrad as torch
from jitgrad import nn

from .net import NAMES, Net


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
    with pytest.raises(pickle.UnpicklingError, match=r"weights_only[\s\S]*Unsupported global"):
        torch.load(path)
    assert isinstance(torch.load(path, weights_only=False)["net"], nn.Linear)
    path.write_bytes(b"no zip")
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        torch.load(path)
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "nowhere")


def test_saved_values_come_back_alike(tmp_path):
    weight = nn.Parameter(torch.arange(3.0))
    value = {
        "a": [1, 2.5, True, None, "text", b"bytes", 1 + 2j, float("inf")], 3: (torch.float32, bytearray(b"b")),
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
