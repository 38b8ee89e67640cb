"""Every structured op on operands whose conjugate or negative bit is set, and on such gradients: as on plain ones."""

import numpy as np
import pytest

import jitgrad as torch
from tests.every_op.test_op_gradients import STRUCTURED, cases

# It shows memory, and refuses one that holds other numbers.
NAMES = [name for name in STRUCTURED if name != "view_as_real"]


def unresolved(x):
    """The same values, of which the memory holds the conjugates or negatives."""
    other = x.detach().conj_physical() if x.is_complex() else x.detach().neg()
    return other.conj() if x.is_complex() else torch._neg_view(other)


def second_order(first, inputs, change):
    """Gradients of the gradients; none where these are constants, or an op has none of that order."""
    kept = [g for g in first if g is not None and g.requires_grad]
    try:
        return torch.autograd.grad(kept, inputs, [change(g.detach()) for g in kept], allow_unused=True) if kept else ()
    except (RuntimeError, NotImplementedError) as error:
        assert "is not implemented" in str(error)
        return ()


def of_both_orders(call, inputs, change):
    """Results, gradients without and with a graph, and those of the second order; ``change`` copies what is given."""
    inputs, rng = [change(x).requires_grad_() for x in inputs], np.random.default_rng(0)
    outs = call(*inputs)
    seeds = [change(torch.tensor(rng.standard_normal(o.shape)).to(o.dtype)) for o in outs]
    plain = torch.autograd.grad(outs, inputs, seeds, allow_unused=True, retain_graph=True)
    first = torch.autograd.grad(outs, inputs, seeds, allow_unused=True, create_graph=True)
    every = (*outs, *plain, *first, *second_order(first, inputs, change))
    return [None if t is None else t.detach().resolve_conj().resolve_neg().numpy() for t in every]


@pytest.mark.parametrize("name", NAMES)
def test_as_of_plain_operands(name):
    for call, inputs in cases(name):
        expected = of_both_orders(call, inputs, lambda x: x.detach().clone())
        for found, wanted in zip(of_both_orders(call, inputs, unresolved), expected, strict=True):
            assert (found is None) == (wanted is None)
            if found is not None:
                np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)
