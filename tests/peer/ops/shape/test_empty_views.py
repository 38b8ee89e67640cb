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


def test_larger_dtypes_need_whole_elements():
    """A view as a larger dtype would else read what lies beside its elements."""
    views = (
        lambda x: x[..., 1:5], lambda x: x[..., :3], lambda x: x.as_strided((4, 4, 4), (16, 1, 1)),
        lambda x: x.as_strided((4, 4), (5, 1)), lambda x: x[..., 4:],
    )  # fmt: skip
    for view in views:
        found = []
        for lib in (jitgrad, torch):
            try:
                found.append(tuple(view(lib.zeros(4, 4, 8, dtype=lib.int8)).view(lib.float32).shape))
            except RuntimeError as error:
                found.append(str(error))
        assert found[0] == found[1]


def test_more_dims_than_numpy_has():
    for make in (lambda: jitgrad.ones([1] * 65), lambda: jitgrad.ones(1).expand([1] * 65),
                 lambda: jitgrad.ones(1)[(None,) * 65]):  # fmt: skip
        with pytest.raises(RuntimeError, match="only tensors with up to 64 dims are supported"):
            make()
