"""Views without elements have the strides by which they were taken."""

import pytest
import torch

import jitgrad

VIEWS = {
    "slice": lambda x: x[:, 1:1],
    "slice of a slice": lambda x: x[:, :, 1][:, 1:1, :],
    "rows": lambda x: x[:0],
    "narrow": lambda x: x.narrow(1, 0, 0),
    "transposed": lambda x: x[:, :, 1].permute(2, 0, 1)[1:1],
    "both": lambda x: x[1:1, 2:2],
    "then transposed": lambda x: x[:, 1:1].transpose(1, 2),
}


@pytest.mark.parametrize("view", VIEWS)
def test_strides(view):
    found = []
    for lib in (jitgrad, torch):
        shown = VIEWS[view](lib.zeros(2, 3, 4, 5))
        found.append((tuple(shown.shape), shown.stride(), shown.is_contiguous()))
    assert found[0] == found[1]
    assert (VIEWS[view](jitgrad.zeros(2, 3, 4, 5)) + 1).numel() == 0
