"""In-place ops on expanded tensors, several elements of which have one place in memory."""

import warnings

import pytest

import jitgrad
from tests.peer.beside import outcome, same

torch = pytest.importorskip("torch")

PROGRAMS = [
    "x.tril_()", "x.tril_(1)", "x.tril_(-1)", "x.triu_()", "x.triu_(1)", "x.triu_(-2)", "x.expand(2, 4, 3).triu_()",
    "x.masked_fill_(mask, 9.0)", "x.masked_fill_(mask, torch.tensor(9.0))", "x.masked_fill_(x[0] > 1, 9.0)",
    "x.index_fill_(1, index, 9.0)", "x.index_fill_(0, index, 9.0)", "x.index_fill_(0, index[:0], 9.0)",
    "x.index_fill_(1, index, torch.tensor(9.0))", "x.index_put_((index,), torch.tensor(7.0))",
    "x.index_put_((index, index), torch.ones(2), accumulate=True)",
    "x.index_put_((index,), torch.tensor(7.0), accumulate=True)", "x.__setitem__(index, torch.tensor([[5.0], [6.0]]))",
    "x.__setitem__((slice(None), index), torch.tensor([5.0, 6.0]))", "x.__setitem__(mask, torch.tensor([5.0, 6.0]))",
    "x.fill_(2)", "x.zero_()", "x.copy_(torch.ones(4, 3))", "x.exp_()",
    "torch.nn.functional.threshold(x, 1.5, 9.0, inplace=True)", "torch.threshold_(x, 1.5, 9.0)", "x.conj_physical_()",
    "torch.nn.init.eye_(x)", "torch.eye(4, 3, out=x)", "x.copy_(x)", "x.copy_(x[:])", "x.copy_(x.detach())",
    "x.copy_(x.flip(0))", "x.copy_(x[:1])", "torch.zeros(4, 3, out=x)", "torch.ones(4, 3, out=x)",
    "torch.full((4, 3), 2.0, out=x)",
    "torch.exp(torch.ones(3), out=x)", "torch.exp(x, out=x)", "torch.outer(torch.ones(4), torch.ones(3), out=x)",
    "torch.outer(torch.ones(2), torch.ones(3), out=x)", "torch.masked_select(torch.ones(3), torch.ones(3) > 0, out=x)",
    "torch.add(torch.ones(3), 1, out=x)", "torch.where(torch.ones(3) > 0, torch.ones(3), torch.ones(3), out=x)",
    "x.add_(torch.ones(2))", "x.eq_(torch.ones(5))", "x.lerp_(torch.ones(2), 0.5)",
]  # fmt: skip


def after(program, expand):
    def run(library, values):
        x = expand(values)
        index, mask = library.tensor([0, 2]), library.zeros(4, 3, dtype=library.bool)
        mask[0, 0] = mask[3, 1] = True
        eval(program, {"torch": library, "x": x, "index": index, "mask": mask})
        return values, x

    return run


@pytest.mark.parametrize("program", PROGRAMS)
def test_same_values_or_error_as_pytorch(program):
    for values, expand in (
        ([1.0, 2.0, 3.0], lambda x: x.expand(4, 3)),
        ([[1.0], [2.0], [3.0], [4.0]], lambda x: x.expand(4, 3)),
        ([1.0], lambda x: x.expand(4, 3)),
    ):
        run = after(program, expand)
        same(outcome(run, jitgrad, values), outcome(run, torch, values))


@pytest.mark.parametrize("program", ["x.masked_fill_(mask, 9.0)", "x.index_fill_(0, index, 9.0)", "x[index] = 5.0"])
def test_warning(program):
    texts = []
    for library in (jitgrad, torch):
        x = library.ones(3).expand(2, 3)
        names = {"x": x, "mask": x > 0, "index": library.tensor([0])}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            exec(program, names)
        texts.append([str(w.message).split(" (Triggered")[0] for w in caught])
        if library is jitgrad and caught:
            assert caught[0].filename == "<string>"
    if texts[1]:  # PyTorch warns once in a process
        assert texts[0] == texts[1]


@pytest.mark.filterwarnings("ignore:Use of masked_fill_")
@pytest.mark.parametrize("program", ["x.zero_()", "x.tril_()", "x.masked_fill_(x > 2, 9.0)"])
def test_gradient_is_refused(program):
    for library in (jitgrad, torch):
        leaf = library.ones(3, requires_grad=True)
        x = (leaf * 1).expand(4, 3)
        eval(program, {"x": x})
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            x.sum().backward()
