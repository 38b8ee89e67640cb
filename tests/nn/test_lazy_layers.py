"""Layers that take sizes from their first input, and parameters without a shape."""

import copy
import pickle

import pytest

import jitgrad as torch
from jitgrad import nn


def test_a_lazy_linear_becomes_a_linear_at_its_first_call():
    layer = nn.LazyLinear(3)
    assert repr(layer) == "LazyLinear(in_features=0, out_features=3, bias=True)"
    assert repr(layer.weight) == "<UninitializedParameter>"
    assert layer.has_uninitialized_params()
    weight = layer.weight
    assert layer(torch.ones(2, 5)).shape == (2, 3)
    assert type(layer) is nn.Linear
    assert layer.weight is weight and type(weight) is nn.Parameter and weight.shape == (3, 5)  # optimisers hold it
    assert not hasattr(layer, "_initialize_hook") and not layer._forward_pre_hooks


@pytest.mark.parametrize(
    "make, size, kind",
    [
        (lambda: nn.LazyConv1d(4, 3), (2, 6, 5), nn.Conv1d),
        (lambda: nn.LazyConv2d(4, 3, groups=2), (6, 5, 5), nn.Conv2d),
        (lambda: nn.LazyConvTranspose2d(4, 3, stride=2), (2, 6, 5, 5), nn.ConvTranspose2d),
        (lambda: nn.LazyBatchNorm1d(), (4, 6), nn.BatchNorm1d),
        (lambda: nn.LazyInstanceNorm2d(affine=True), (2, 6, 3, 3), nn.InstanceNorm2d),
    ],
)
def test_lazy_layers_are_then_the_usual_ones(make, size, kind):
    layer, x = make(), torch.ones(size)
    out = layer(x)
    assert type(layer) is kind
    other = copy.deepcopy(layer)
    assert other(x).shape == out.shape
    assert 6 in layer.weight.shape or 3 in layer.weight.shape


def test_a_state_with_shapes_gives_a_lazy_layer_its_shapes():
    full, lazy = nn.Linear(5, 3), nn.LazyLinear(3)
    lazy.load_state_dict(full.state_dict())
    assert lazy.weight.tolist() == full.weight.tolist()
    assert lazy(torch.ones(1, 5)).tolist() == full(torch.ones(1, 5)).tolist()
    assert lazy.in_features == 5
    wrong = nn.LazyLinear(3)
    wrong.load_state_dict(full.state_dict())
    with pytest.raises(AssertionError, match="The in_features inferred from input: 4"):
        wrong(torch.ones(1, 4))


def test_a_layer_with_shapes_refuses_a_state_without():
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter"):
        nn.Linear(5, 3).load_state_dict(nn.LazyLinear(3).state_dict())
    lazy = nn.LazyLinear(3)
    lazy.load_state_dict(nn.LazyLinear(3).state_dict())
    assert lazy.has_uninitialized_params()


def test_what_has_no_shape_has_a_dtype_and_nothing_else():
    layer = nn.LazyLinear(3).double()
    assert layer.weight.dtype is torch.float64 and layer.weight.requires_grad
    for use in (lambda: layer.weight * 2, lambda: layer.weight.sum(), lambda: torch.nn.functional.relu(layer.weight)):
        with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
            use()
    with pytest.raises(RuntimeError, match="Can't share memory on an uninitialized parameter"):
        layer.share_memory()
    assert layer(torch.ones(1, 2, dtype=torch.float64)).dtype is torch.float64


def test_lazy_layers_are_copied_and_pickled():
    for made in (copy.deepcopy(nn.LazyConv2d(3, 2)), pickle.loads(pickle.dumps(nn.LazyConv2d(3, 2)))):
        assert made(torch.ones(1, 4, 3, 3)).shape == (1, 3, 2, 2)
        assert type(made) is nn.Conv2d


def test_a_module_that_gives_only_some_shapes_is_refused():
    class Half(nn.modules.lazy.LazyModuleMixin, nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.UninitializedParameter(), nn.UninitializedParameter()

        def initialize_parameters(self, input):
            self.a.materialize(input.shape)

    with pytest.raises(RuntimeError, match="module Half has not been fully initialized"):
        Half()(torch.ones(2))
    with pytest.raises(ValueError, match="in_channels must be divisible by groups"):
        nn.LazyConv2d(3, 2, groups=3)(torch.ones(1, 4, 3, 3))
    with pytest.raises(RuntimeError, match=r"Expected 3D \(unbatched\) or 4D \(batched\) input to LazyConv2d"):
        nn.LazyConv2d(3, 2)(torch.ones(3))


def test_a_subclass_of_tensor_stays_one_as_a_parameter():
    class Mine(torch.Tensor):
        pass

    data = torch.ones(2).as_subclass(Mine)
    param = nn.Parameter(data)
    assert type(param) is Mine and isinstance(param, nn.Parameter) and param.requires_grad
    layer = nn.Module()
    layer.weight = param
    assert list(layer.parameters()) == [param]
    buffer = nn.Buffer(torch.ones(2), persistent=False)
    assert type(buffer) is torch.Tensor and isinstance(buffer, nn.Buffer) and not isinstance(data, nn.Buffer)
    layer.seen = buffer
    assert [name for name, _ in layer.named_buffers()] == ["seen"] and list(layer.state_dict()) == ["weight"]
