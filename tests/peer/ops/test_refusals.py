"""What PyTorch refuses, and forms of calls that it takes: the same error, or the same result."""

import pytest

import jitgrad

from ..expressions import check, evaluate, listed, plain, torch

REFUSED = listed("""
torch.meshgrid(t, i)
torch.meshgrid(t, None)
torch.isin(b, b)
torch.isin(i, b)
torch.isin(True, i)
torch.isin(1j * t, t)
torch.roll(t[0], 1, 0)
torch.roll(t[0], 1)
b.kthvalue(1)
b.nanmean()
i.nanmean()
b.clamp_min(False)
b.clamp_max(True)
torch.dropout(1j * t, 0.5, True)
(1j * t).abs_()
torch.abs_(1j * t)
torch.optim.Adam([t], foreach=True, fused=True)
torch.optim.SGD([t], foreach=True, fused=True)
torch.optim.AdamW([t], foreach=True, fused=True)
torch.optim.Adagrad([t], foreach=True, fused=True)
torch.nn.functional.cross_entropy(m, i, label_smoothing=1.5)
torch.tensordot(m, m, dims=0.5)
torch.rot90(t[0], 1, (1, 2))
torch.broadcast_shapes(2.5)
torch.broadcast_shapes(t[0], ())
torch.broadcast_tensors(t, [None])
torch.atleast_1d(1.5)
torch.stack([t, 1])
m.view(2, 3.0)
m.view_as(1)
m.reshape_as(None)
m.expand_as([])
torch.split_with_sizes(m, 9)
torch.nn.Linear(3, 2)(m)
torch.nn.Linear(3, 2)(i)
torch.nn.Linear(3, 2)(m.numpy())
torch.nn.functional.linear(t, None)
torch.nn.LayerNorm(3)('a')
torch.nn.Tanh()(m.numpy())
torch.nn.ReLU()(None)
torch.reshape(None, 2)
torch.flatten('a')
torch.ravel(())
torch.isclose(t, [])
torch.argwhere(2)
torch.fill_(1, t)
torch.tril_indices(2, 2.0)
t.clone().requires_grad_()[0].movedim(0, 0)
torch.flip(m, dims=(0,))
m.permute(dims=(1, 0))
torch.reshape(m, shape=(9,))
t.expand(size=(2, 3))
t.repeat(repeats=(2,))
torch.tile(t, dims=(2,))
m.view(size=(9,))
m.view(dtype=torch.int32)
t.clone().resize_(size=(2,))
""")
METHODS = ("isnan_", "isinf_", "isfinite_", "isposinf_", "isneginf_", "signbit_", "maximum_", "fmin_", "logaddexp_")
SETUP = """
t = torch.tensor([1.0, 2.0, 3.0]); i = torch.tensor([1, 2, 2])
b = torch.tensor([True, False, True]); m = torch.arange(9.0).double().view(3, 3)
"""


@pytest.mark.parametrize("expression", REFUSED)
def test_refusal(expression):
    ours, theirs = (plain(evaluate(library, expression, SETUP)) for library in (jitgrad, torch))
    if "invalid combination" in theirs[1]:  # the list of overloads, which only PyTorch's parser knows
        assert ours[0] == theirs[0]
    else:
        check(expression, SETUP)


@pytest.mark.parametrize("method", METHODS)
def test_no_method(method):
    check(f"hasattr(t, {method!r})", SETUP)
