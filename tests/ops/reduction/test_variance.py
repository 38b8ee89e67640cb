"""Variances and standard deviations of equal values."""

import numpy as np
import pytest

import jitgrad


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("dim", [0, 1])
def test_equal_values_have_no_spread(dtype, dim):
    """Their mean may be off by a rounding, by which the deviation would have a gradient as large as any other."""
    values = np.linspace(0.1, 1.3359624301615525, 50)[None] * np.ones((3, 1))
    x = jitgrad.tensor(np.ascontiguousarray(values if dim == 0 else values.T).astype(dtype), requires_grad=True)
    deviations = x.std(dim)
    assert (deviations == 0).all() and (x.var(dim) == 0).all()
    (gradient,) = jitgrad.autograd.grad(deviations.sum(), x)
    assert (gradient == 0).all()


def test_infinities_have_none_either():
    assert jitgrad.tensor([np.inf, np.inf]).var().isnan() and jitgrad.tensor([[np.inf]] * 3).std(0).isnan().all()
