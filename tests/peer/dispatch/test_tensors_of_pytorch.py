"""PyTorch's own tensors, passed to jitgrad by mistake, are objects like others: a clear error, or an array's memory."""

import numpy as np
import pytest

import jitgrad
from jitgrad import nn

torch = pytest.importorskip("torch")

CALLS = {
    "function": lambda x: jitgrad.exp(x),
    "two operands": lambda x: jitgrad.add(jitgrad.ones(2), x),
    "module": lambda x: nn.Linear(2, 2)(x),
    "list": lambda x: jitgrad.stack([jitgrad.ones(2), x]),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", ["Tensor", "Parameter"])
def test_they_are_refused(name, kind):
    x = torch.ones(2) if kind == "Tensor" else torch.nn.Parameter(torch.ones(2))
    with pytest.raises(TypeError, match=r"torch\.Tensor of PyTorch" if kind == "Tensor" else "Parameter"):
        CALLS[name](x)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: x + y, lambda x, y: y * x, lambda x, y: torch.add(x, y), lambda x, y: torch.exp(y),
        lambda x, y: torch.nn.functional.relu(y), lambda x, y: x.copy_(y), lambda x, y: torch.nn.Linear(2, 2)(y),
    ],
)  # fmt: skip
def test_its_functions_refuse_tensors_of_jitgrad(call):
    with pytest.raises(TypeError, match="(?i)multiple dispatch failed|no implementation found|unsupported operand"):
        call(torch.ones(2), jitgrad.ones(2))


def test_their_memory_is_taken_where_an_array_is():
    x = torch.ones(2, dtype=torch.bfloat16)
    y = jitgrad.from_dlpack(x)
    y[0] = 5
    assert x.tolist() == [5, 1] and y.dtype is jitgrad.bfloat16
    assert torch.from_dlpack(y).dtype is torch.bfloat16
    assert jitgrad.from_dlpack(torch.utils.dlpack.to_dlpack(x)).tolist() == [5, 1]
    assert torch.from_dlpack(jitgrad.to_dlpack(jitgrad.arange(3))).tolist() == [0, 1, 2]
    np.testing.assert_array_equal(jitgrad.tensor(torch.ones(3).numpy()).numpy(), np.ones(3))
