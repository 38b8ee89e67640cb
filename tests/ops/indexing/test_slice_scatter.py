"""Copies of a tensor in which a part, given by sizes and strides, is replaced."""

import pytest

import jitgrad as torch


def test_a_part_beyond_the_tensor_has_to_be_in_its_memory():
    arguments = torch.ones(2, 2), (2, 2), (9, 1), 20
    found = torch.as_strided_scatter(torch.arange(40.0)[5:10], *arguments)
    assert found.tolist() == [5, 6, 7, 8, 9]
    # The same layouts, so that the plan is the one of the call above, but less memory.
    with pytest.raises(RuntimeError, match="out of bounds for storage"):
        torch.as_strided_scatter(torch.arange(12.0)[5:10], *arguments)
