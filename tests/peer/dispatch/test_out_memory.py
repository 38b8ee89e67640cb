"""``out=`` in the memory of an operand, and of another dtype: PyTorch's values or its error."""

import pytest

import jitgrad
from tests.peer.beside import outcome, same

torch = pytest.importorskip("torch")

PROGRAMS = [
    "torch.neg(x[0], out=x)", "torch.neg(x, out=x)", "torch.neg(x[0], out=x[0])", "torch.neg(x[0], out=x[1])",
    "torch.neg(x[:2], out=x[1:])", "torch.add(x[0], x, out=x)", "torch.add(x[0], x[1], out=x)",
    "torch.add(x, x, out=x)", "torch.mul(x, other=x[0], out=x)", "torch.where(x > 2, x, x[0], out=x)",
    "torch.outer(x[0], x[1], out=x)", "torch.outer(x[0], torch.ones(3), out=x)",
    "torch.masked_select(x, x > 2, out=x[0])", "torch.masked_select(x, x > 2, out=torch.ones(2))",
    "torch.masked_select(x, x > 2, out=torch.ones(2, dtype=torch.float64))",
    "torch.masked_select(x, x > 2, out=torch.ones(2, dtype=torch.int64))",
    "torch.outer(x[0], x[1], out=torch.ones(2, dtype=torch.float64))",
    "torch.nonzero(x, out=torch.ones(1, dtype=torch.int64).expand(5))",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("program", PROGRAMS)
def test_same_values_or_error_as_pytorch(program):
    def run(library, values):
        x = library.tensor(values.tolist())
        return eval(program, {"torch": library, "x": x}), x

    values = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]
    same(outcome(run, jitgrad, values), outcome(run, torch, values))
