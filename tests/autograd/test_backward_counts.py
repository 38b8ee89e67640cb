"""How many gradients outputs have to have; named results made by hand."""

import pytest

import jitgrad as torch


def test_gradients_beyond_the_outputs_are_not_looked_at():
    x = torch.ones(2, requires_grad=True)
    assert torch.autograd.grad([x.sum()], [x], [None, None])[0].tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="^got 2 tensors and 1 gradients"):
        torch.autograd.grad([x.sum(), x.sum()], [x], [None])


def test_return_types_are_made_of_a_sequence():
    x = torch.tensor([1.0, 2.0])
    made = torch.return_types.max((x, x))
    assert made.values is x and str(made).startswith("torch.return_types.max(\nvalues=tensor([1., 2.]),\n")
    assert torch.return_types.max(*made)._replace(values=3).values == 3
