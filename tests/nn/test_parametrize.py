"""Parametrised, normalised and pruned weights."""

import copy

import pytest

import jitgrad as torch
from jitgrad import nn
from jitgrad.nn.utils import parametrizations, parametrize, prune


class Squared(nn.Module):
    def forward(self, x):
        return x * x

    def right_inverse(self, x):
        return x.sqrt()


def layer(*values):
    made = nn.Linear(len(values), 1, bias=False)
    with torch.no_grad():
        made.weight.copy_(torch.tensor([values]))
    return made


def test_a_value_is_computed_of_another():
    linear = layer(4.0, 9.0)
    weight = linear.weight
    parametrize.register_parametrization(linear, "weight", Squared())
    assert linear.parametrizations.weight.original is weight and weight.tolist() == [[2, 3]]
    assert linear.weight.tolist() == [[4, 9]] and type(linear).__name__ == "ParametrizedLinear"
    linear(torch.ones(1, 2)).sum().backward()
    assert weight.grad.tolist() == [[4, 6]]
    linear.weight = torch.tensor([[1.0, 16.0]])
    assert weight.tolist() == [[1, 4]] and list(linear.state_dict()) == ["parametrizations.weight.original"]
    parametrize.remove_parametrizations(linear, "weight")
    assert linear.weight is weight and weight.tolist() == [[1, 16]] and type(linear) is nn.Linear


def test_a_refused_parametrisation_changes_nothing():
    linear = layer(4.0, 9.0)
    with pytest.raises(ValueError, match="may not change the shape"):
        parametrize.register_parametrization(linear, "weight", nn.Flatten(0))
    assert type(linear) is nn.Linear and linear.weight.tolist() == [[4, 9]]


def test_values_are_kept_within_cached():
    linear = layer(4.0)
    parametrize.register_parametrization(linear, "weight", Squared())
    with parametrize.cached():
        assert linear.weight is linear.weight
    assert linear.weight is not linear.weight


def test_copies_have_values_of_their_own():
    linear = parametrize.register_parametrization(layer(4.0), "weight", Squared())
    twin = copy.deepcopy(linear)
    twin.weight = torch.tensor([[25.0]])
    assert linear.weight.item() == 4 and twin.weight.item() == 25
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        copy.copy(linear)


def test_lengths_and_directions():
    linear = parametrizations.weight_norm(layer(3.0, 4.0))
    originals = linear.parametrizations.weight
    assert originals.original0.tolist() == [[5]] and originals.original1.tolist() == [[3, 4]]
    with torch.no_grad():
        originals.original0.fill_(10.0)
    assert linear.weight.tolist() == [[6, 8]]


def test_the_largest_singular_value_becomes_one():
    linear = nn.Linear(3, 3)
    with torch.no_grad():
        linear.weight.copy_(torch.diag(torch.tensor([4.0, 2.0, 1.0])))
    parametrizations.spectral_norm(linear, n_power_iterations=20)
    assert torch.linalg.svdvals(linear.weight).tolist() == pytest.approx([1, 0.5, 0.25], rel=1e-5)


def test_gradients_of_weight_norm():
    v, g = torch.randn(3, 4, dtype=torch.float64), torch.rand(3, 1, dtype=torch.float64) + 1
    v.requires_grad_(), g.requires_grad_()
    assert torch.autograd.gradcheck(lambda *a: torch._weight_norm(*a, 0), (v, g))
    assert torch.autograd.gradgradcheck(lambda *a: torch._weight_norm(*a, 0), (v, g))
    assert torch.norm_except_dim(torch.ones(2, 3, 4), 2, 1).shape == (1, 3, 1)


def test_pruning_twice_cuts_what_is_left():
    linear = layer(1.0, -2.0, 3.0, -4.0)
    prune.l1_unstructured(linear, "weight", 1)
    assert linear.weight.tolist() == [[0, -2, 3, -4]]
    prune.l1_unstructured(linear, "weight", 1)
    assert linear.weight_mask.tolist() == [[0, 0, 1, 1]] and len(linear._forward_pre_hooks) == 1
    linear(torch.ones(1, 4)).sum().backward()
    assert linear.weight_orig.grad.tolist() == [[0, 0, 1, 1]]
    prune.remove(linear, "weight")
    assert linear.weight.tolist() == [[0, 0, 3, -4]] and list(linear.state_dict()) == ["weight"]


def test_a_refused_pruning_changes_nothing():
    linear = layer(1.0, 2.0)
    with pytest.raises(ValueError, match="should be smaller than the number of parameters"):
        prune.l1_unstructured(linear, "weight", 3)
    assert list(linear.state_dict()) == ["weight"] and not linear._forward_pre_hooks
