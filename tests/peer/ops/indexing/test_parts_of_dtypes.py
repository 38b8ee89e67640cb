"""`slice_scatter` and its kin where the part has another dtype than the tensor: values, dtypes, gradients."""

import pytest
import torch

import jitgrad

WRITES = {
    "slice": lambda lib, x, part: lib.slice_scatter(x, part[:, :2], 1, 0, 4, 2),
    "select": lambda lib, x, part: lib.select_scatter(x, part[0], 1, 0),
    "diagonal": lambda lib, x, part: lib.diagonal_scatter(x.t(), part[0]),
}
PAIRS = (
    ("bfloat16", "float32"), ("float32", "bfloat16"), ("float16", "float16"), ("float16", "bfloat16"),
    ("bfloat16", "float64"), ("float64", "float32"), ("bfloat16", "int64"),
)  # fmt: skip


def shown(lib, write, dtypes):
    x, part = ((lib.arange(16.0).reshape(4, 4) / d).to(getattr(lib, t)) for d, t in zip((7, 3), dtypes, strict=True))
    for leaf in (x, part):
        leaf.requires_grad_(leaf.is_floating_point())
    out = write(lib, x, part)
    (out * out).sum().backward()
    found = [out.detach(), x.grad, part.grad]
    return [(str(t.dtype), t.stride(), t.double().tolist()) if t is not None else None for t in found]


@pytest.mark.parametrize("dtypes", PAIRS)
@pytest.mark.parametrize("name", WRITES)
def test_a_part_of_another_dtype(name, dtypes):
    assert shown(jitgrad, WRITES[name], dtypes) == shown(torch, WRITES[name], dtypes)
