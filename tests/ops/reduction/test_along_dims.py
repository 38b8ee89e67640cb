"""Declarations of reductions: what one of all elements takes over from the op over dims, and what it must name."""

import pytest

import jitgrad as torch
from jitgrad.ops.reduction.along_dims import ReductionOfAll
from jitgrad.ops.reduction.scan import Cumsum
from jitgrad.ops.reduction.sums import Sum, SumDim


def test_of_all_is_the_op_along_dims_with_none_given():
    assert Sum.parameters == ("x", "dtype")
    assert Sum.grads["x"][1] == ("g", "x_layout")
    assert Sum.linear == SumDim.linear
    x = torch.ones(2, 3, requires_grad=True)
    assert repr(x.sum().grad_fn) != repr(x.sum(None).grad_fn)
    assert x.sum().item() == x.sum(None).item() == 6


@pytest.mark.parametrize("along", [None, Cumsum])
def test_of_all_needs_an_op_over_dims(along):
    with pytest.raises(TypeError, match=r"Nothing \(.*\): a reduction of all .* needs the op over dims.*along=SumDim"):

        class Nothing(ReductionOfAll, along=along):
            """Declared badly."""


def test_elements_are_cast_before_they_are_added():
    x = torch.tensor([[1, -1], [2, 3]])
    assert x.sum(1, dtype=torch.bool).tolist() == [True, True]
    assert (x * 0.6).sum(1, dtype=torch.int64).tolist() == [0, 2]
    with pytest.raises(NotImplementedError, match="cumsum_out_cpu\" not implemented for 'Bool'"):
        x.cumsum(1, dtype=torch.bool)
