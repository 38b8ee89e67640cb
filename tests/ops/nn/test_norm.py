"""Layer and group norm of equal elements, whose mean may be off by a rounding."""

import numpy as np
import pytest

import jitgrad
import jitgrad.nn.functional as F
from jitgrad import nn


def test_equal_elements_give_the_bias():
    """A rounding times 1 / sqrt(eps) would decide on which side of 0 a ReLU finds them."""
    rows = np.broadcast_to(np.linspace(-1, 1.3359624301615525, 20)[:, None], (20, 7)).copy()
    x = jitgrad.tensor(rows)
    assert (F.layer_norm(x, (7,)) == 0).all()
    assert (F.layer_norm(x, (7,), bias=jitgrad.full((7,), 0.25, dtype=jitgrad.float64)) == 0.25).all()
    assert (F.group_norm(x[:, None], 1) == 0).all()


def test_one_element_has_no_gradient():
    x = jitgrad.tensor([[0.3], [-2.7]], requires_grad=True)
    weight = jitgrad.tensor([1.1], requires_grad=True)
    F.layer_norm(x, (1,), weight).mul(jitgrad.tensor([[0.7], [1.3]])).sum().backward()
    assert (x.grad == 0).all() and (weight.grad == 0).all()


@pytest.mark.parametrize("norm", [nn.functional.layer_norm, nn.functional.group_norm])
def test_integers_with_parameters_are_a_mixture(norm):
    x, size = jitgrad.ones(2, 4, dtype=jitgrad.int64), (4,) if norm is nn.functional.layer_norm else 2
    with pytest.raises(RuntimeError, match="mixed dtype .CPU.: all inputs must share same datatype."):
        norm(x, size, jitgrad.ones(4))
    with pytest.raises(NotImplementedError, match="NormKernelImpl. not implemented for 'Long'"):
        norm(x, size)


@pytest.mark.parametrize("shape", [(2, 0, 3), (0, 4, 3), (0, 3), (2, 4, 0)])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_of_nothing(shape, training):
    layer, x = nn.BatchNorm1d(4).train(training), jitgrad.ones(shape, requires_grad=True)
    out = nn.functional.batch_norm(x, layer.running_mean, layer.running_var, layer.weight, layer.bias, training)
    out.sum().backward()
    assert out.shape == x.grad.shape == shape
    assert layer.weight.grad.tolist() == layer.bias.grad.tolist() == [0.0] * 4
    assert layer.running_mean.tolist() == [0.0] * 4 and layer.running_var.tolist() == [1.0] * 4


def test_batch_norm_without_channels_has_no_first_weight():
    with pytest.raises(IndexError, match="index 0 out of range"):
        nn.BatchNorm1d(0)(jitgrad.ones(2, 0, 3))
    assert nn.BatchNorm1d(0, affine=False)(jitgrad.ones(2, 0, 3)).shape == (2, 0, 3)


@pytest.mark.parametrize("dtype", [jitgrad.float16, jitgrad.bfloat16])
def test_per_sample_gradients_of_halves_are_as_exact_as_those_of_kernels(dtype):
    jitgrad.manual_seed(0)
    x, weight, bias = jitgrad.randn(3, 5, 8).to(dtype), jitgrad.randn(8).to(dtype), jitgrad.randn(8).to(dtype)

    def loss(x):
        return F.layer_norm(x, (8,), weight, bias).square().sum()

    found = jitgrad.func.vmap(jitgrad.func.grad(loss))(x)
    x.requires_grad_()
    loss(x).backward()
    jitgrad.testing.assert_close(found, x.grad, rtol=2 * jitgrad.finfo(dtype).eps, atol=jitgrad.finfo(dtype).eps)
