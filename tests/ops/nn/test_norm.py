"""Layer and group norm of equal elements, whose mean may be off by a rounding."""

import numpy as np

import jitgrad
import jitgrad.nn.functional as F


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
