"""``torch.Size``: a tuple of ints that stays one."""

import copy
import pickle

import numpy as np
import pytest

import jitgrad as torch
from jitgrad import Size


def test_sizes_are_ints():
    size = Size([torch.tensor(3), True, np.int64(2)])
    assert size == (3, 1, 2) and [type(n) for n in size[:2]] == [int, int]
    assert repr(Size([torch.tensor([4])])) == "torch.Size([4])" and Size() == ()
    assert torch.ones(Size([torch.tensor(2), 3])).shape == (2, 3)


@pytest.mark.parametrize("wrong", [1.5, "a", None, torch.tensor(1.5), torch.tensor([1, 2])])
def test_other_items_are_refused(wrong):
    with pytest.raises(TypeError, match=rf"an iterable of 'int' \(item 1 is '{type(wrong).__name__}'\)"):
        Size([1, wrong])


def test_sums_products_and_slices_are_sizes():
    size = Size((2, 3))
    for made, wanted in [
        (size + (4,), (2, 3, 4)), ((4,) + size, (4, 2, 3)), (size * 2, (2, 3, 2, 3)), (2 * size, (2, 3, 2, 3)),
        (size[1:], (3,)), (size + size, (2, 3, 2, 3)), (copy.deepcopy(size), (2, 3)),
        (pickle.loads(pickle.dumps(size)), (2, 3)),
    ]:  # fmt: skip
        assert type(made) is Size and made == wanted
    for wrong in ([4], 4):
        with pytest.raises(TypeError, match=r"can only concatenate tuple \(not \w+\) to torch.Size"):
            size + wrong
    with pytest.raises(TypeError):
        [4] + size
