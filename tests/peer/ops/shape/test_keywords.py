"""PyTorch's and NumPy's names of the arguments of shape functions, and memory formats of ``resize_``."""

import pytest

import jitgrad
from tests.peer.beside import outcome, same

torch = pytest.importorskip("torch")

PROGRAMS = [
    "x.split(split_size=2)", "x.split(split_size=[1, 2], dim=0)", "torch.split(x, split_size_or_sections=2)",
    "torch.tensor_split(x, sections=2)", "x.tensor_split(indices=[1], dim=1)", "torch.tensor_split(x, indices=(1,))",
    "x.hsplit(sections=2)", "torch.hsplit(x, indices=[1])", "x.vsplit(sections=3)", "x[None].dsplit(indices=[1])",
    "torch.cat([x, x], axis=1)", "torch.concat([x, x], axis=1)", "torch.stack([x, x], axis=1)", "x.unbind(axis=1)",
    "torch.squeeze(x[None], axis=0)", "x.swapaxes(axis0=0, axis1=1)", "torch.swapaxes(input=x, axis0=0, axis1=1)",
    "x.resize_(1, 2, 2, 2, memory_format=torch.channels_last).stride()",
    "x.resize_((1, 2, 3, 2), memory_format=torch.channels_last)",
    "x.resize_(3, 4, memory_format=torch.contiguous_format).stride()",
    "x.resize_(2, 2, memory_format=torch.channels_last)", "x.resize_(2, memory_format=torch.preserve_format)",
    "x.resize_(2, memory_format=3)",
    "x.resize_as_(torch.ones(1, 2, 2, 3), memory_format=torch.channels_last)",
    "x.resize_as_(torch.ones(1, 2, 2, 3).to(memory_format=torch.channels_last), memory_format=torch.preserve_format)",
    "torch.ones(3).resize_((1, 2, 2, 3), memory_format=torch.channels_last).fill_(1)",
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_same_as_pytorch(program):
    def run(library, x):
        return eval(program, {"torch": library, "x": x})

    values = [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [9.0, 10.0, 11.0, 12.0]]
    same(outcome(run, jitgrad, values), outcome(run, torch, values))
