"""Dims, sizes and counts that are no ints, or too large, beside PyTorch: the class of the error, or the same result."""

import pytest

import jitgrad

from ...expressions import check, evaluate, listed, plain, torch

REFUSED = listed("""
m.view((3.0, 3))
m.view(3.0, 3)
m.view(3, 3.0)
m.reshape(3.0, 3)
m.permute((0.0, 1))
m.expand(3.0, 3)
m.repeat((2.0, 1))
m.flip((0.0,))
m.unflatten(0, (3.0, 1))
m.sum(True)
m.sum((True,))
m.mean(True)
m.amax(True)
m.amax((0.0,))
m.softmax(True)
m.cumsum(True)
m.cumsum(0.0)
m.max(True)
m.argmax(True)
m.argmax(0.0)
m.var(0.0)
m.all(True)
m.logsumexp(True)
m.prod(True)
m.norm(dim=True)
m.select(True, 0)
m.select(0, True)
m.select(0, 1.0)
m.narrow(0, 0, 1.0)
m.narrow(0, True, 1)
m.transpose(0, 1.0)
m.transpose(0, True)
m.squeeze(0.0)
m.unsqueeze(0.0)
m.unsqueeze(True)
m.size(True)
m.roll(1.0)
m.roll(True)
m.split(1.0)
m.split(True)
m.chunk(1.0)
m.chunk(True)
m.topk(1.0)
m.topk(True)
m.sort(True)
m.kthvalue(True)
m.diagonal(1.0)
m.tril(1.0)
m.triu(True)
m.unbind(True)
m.flatten(0.0)
m.movedim(0.0, 1)
m.index_select(True, i)
m.median(True)
m.unfold(0, 1.0, 1)
torch.stack([m, m], 1.0)
torch.stack([m, m], True)
torch.cat([m, m], False)
torch.eye(3.0)
torch.eye(True)
torch.linspace(0, 1, 2.0)
torch.full((2,), torch.tensor([2.5]))
m.new_full((2.0,), 1)
m.index_put((i,), 1.0)
m.index_put_((m > 0,), 1.0)
""")
HUGE = listed("""
torch.zeros(2**40, 2**40)
torch.empty(2**63)
torch.empty(2**62)
torch.zeros(2**40, 2**40, 0)
m.expand(2**40, 2**40, 3, 3)
m.repeat(2**40, 2**40)
m.new_empty(2**40, 2**40)
torch.arange(2**62)
torch.eye(2**40)
torch.full((2**40, 2**40), 1)
torch.rand(2**40, 2**40)
torch.linspace(0, 1, 2**62)
m.as_strided((2**40, 2**40), (0, 0))
m.resize_(2**40, 2**40)
m.repeat_interleave(2**62)
m.select(0, 2**63)
m.narrow(0, 2**64, 1)
m.tril(2**64)
m.roll(2**64)
m.topk(2**64)
i + 2**64
i.clamp(max=2**70)
i.fill_(2**64)
torch.randperm(2**62)
""")
SETUP = "m = torch.arange(9.0).view(3, 3); i = torch.tensor([1, 0, 2])"


@pytest.mark.parametrize("expression", REFUSED + HUGE)
def test_refused(expression):
    ours, theirs = (plain(evaluate(library, expression, SETUP)) for library in (jitgrad, torch))
    assert ours[0] == theirs[0], (ours, theirs)
    for internal in ("_layout", "interpreted", "iterable", "no len", "slice indices", "numpy"):
        assert internal not in ours[1]


@pytest.mark.parametrize("expression", ["m.any(())", "m.all(())", "m.byte().all(())", "m.any((), True)"])
def test_any_of_no_dims(expression):
    check(expression, SETUP)


def test_memory_that_is_not_there():
    with pytest.raises(RuntimeError, match="can't allocate memory: you tried to allocate 4503599627370496 bytes"):
        jitgrad.empty(2**50)
