"""Reads and writes at an index: every combination of small shapes gives PyTorch's values, or its error's words."""

import itertools

import pytest

import jitgrad

from ...expressions import evaluate, plain, same, torch

SHAPES = ("()", "(1,)", "(2,)", "(0,)", "(2, 3)", "(2, 1)", "(0, 3)", "(3, 0)")
INDICES = ("torch.tensor(0)", "torch.tensor([0])", "torch.tensor([0, 1])", "torch.tensor([0, 0])",
           "torch.tensor([], dtype=torch.int64)", "torch.tensor([[0, 1]])")  # fmt: skip
READS = ("index_select(D, I)", "gather(D, I)", "index_fill(D, I, 2.0)", "scatter(D, I, 2.0)", "take(I)")
WRITES = ("index_add(D, I, S)", "index_copy(D, I, S)", "scatter(D, I, S)", "scatter_add(D, I, S)", "put(I, S)")
# PyTorch's accidents, in whose place jitgrad says what is wrong: memory that it does not have, a dim of the source.
ACCIDENTS = ("setStorage: sizes", "Dimension out of range")


def check(expression):
    ours, theirs = (plain(evaluate(library, expression)) for library in (jitgrad, torch))
    if len(theirs) == 2 and theirs[1].startswith(ACCIDENTS):
        assert ours[0].endswith("Error")
        return
    try:
        same(ours, theirs)
    except AssertionError:
        pytest.fail(f"{expression}\n  jitgrad: {ours}\n  PyTorch: {theirs}", pytrace=False)


@pytest.mark.parametrize("shape", SHAPES)
def test_reads(shape):
    for call, index, dim in itertools.product(READS, INDICES, "01"):
        check(f"torch.ones({shape}).{call}".replace("D", dim).replace("I", index))


@pytest.mark.parametrize("shape", SHAPES)
def test_writes(shape):
    for call, index, dim, source in itertools.product(WRITES, INDICES, "01", SHAPES):
        values = f"torch.full({source}, 2.0)"
        check(f"torch.ones({shape}).{call}".replace("D", dim).replace("I", index).replace("S", values))
