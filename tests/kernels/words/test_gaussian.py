"""The normal distribution's density and mass: accuracy, special values, and what is computed once for both."""

import numpy as np
import pytest
from scipy.special import ndtr

import jitgrad as torch
from jitgrad.dispatch import table

X = np.concatenate([np.linspace(-16, 16, 100_001), [1e30, -1e30, 1e-40, -1e-40, 13.27, -13.27]])


def density(x):
    return np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)


def computed(name, x):
    return getattr(table, name)(torch.tensor(x)).numpy()


@pytest.mark.parametrize(("dtype", "unit"), [("float32", 1.2e-7), ("float64", 4e-16)])
def test_accuracy(dtype, unit):
    x = X.astype(dtype)
    mass, bell = computed("normal_mass", x), computed("normal_density", x)
    assert mass.dtype == bell.dtype == dtype
    np.testing.assert_allclose(mass, ndtr(x.astype(np.float64)), rtol=0, atol=unit)
    np.testing.assert_allclose(bell, density(x.astype(np.float64)), rtol=0, atol=unit / 2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_values(dtype):
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], dtype)
    np.testing.assert_array_equal(computed("normal_mass", x), [1, 0, np.nan, 0.5, 0.5])
    found = computed("normal_density", x)
    np.testing.assert_array_equal(found[:3], [0, 0, np.nan])
    np.testing.assert_allclose(found[3:], density(0.0), rtol=1e-7)


def test_gelu_as_pytorch_defines_it():
    x = torch.tensor(X.astype(np.float32), requires_grad=True)
    y = torch.nn.functional.gelu(x)
    y.sum().backward()
    wide = X.astype(np.float32).astype(np.float64)
    wanted = wide * ndtr(wide)
    # Where x is positive, to three units of the last place.
    above = (wide > 0) & (wide > 1e-30)
    error = np.abs(y.detach().numpy() - wanted)[above]
    assert (error <= 3 * np.spacing(wanted[above].astype(np.float32))).all()
    np.testing.assert_allclose(y.detach().numpy(), wanted, rtol=1e-6, atol=6e-7)
    np.testing.assert_allclose(x.grad.numpy(), ndtr(wide) + wide * density(wide), rtol=1e-6, atol=4e-7)
    limits = torch.tensor([np.inf, -np.inf, np.nan])
    np.testing.assert_array_equal(torch.nn.functional.gelu(limits).numpy(), [np.inf, np.nan, np.nan])


def test_gradients_of_any_order():
    x = torch.linspace(-3, 3, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(torch.nn.functional.gelu, (x,))
    assert torch.autograd.gradgradcheck(torch.nn.functional.gelu, (x,))
