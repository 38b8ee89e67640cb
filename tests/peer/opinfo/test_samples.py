"""Every op of PyTorch's list that jitgrad has, called with PyTorch's samples under both libraries.

Results, dtypes, strides, gradients and, in double precision, the gradients of gradients must agree, for the function,
the method, the operator and the forms in place. A few samples an op are compared by default; with the environment
variable ``JITGRAD_ALL_SAMPLES=1`` all of them, which takes half an hour where no kernel is compiled yet.
"""

import os

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

from .comparison import differences
from .known_differences import is_known
from .variants import has, variants

ALL = bool(os.environ.get("JITGRAD_ALL_SAMPLES"))
EVERY = ("float64", "float32", "complex128", "int64", "bool", "float16", "bfloat16")
DTYPES = EVERY if ALL else ("float64",)
ENTRIES = [op for op in op_db if has(op)]


def samples(op, dtype, requires_grad):
    """Pairs of a contiguous and a strided sample; by default the first and the last, which mostly has the most options.

    One of the two is None where it is left out.
    """
    torch.manual_seed(0)
    first, *others = every = list(op.sample_inputs("cpu", dtype, requires_grad=requires_grad))
    if isinstance(first.input, torch.Tensor) and first.input.layout is not torch.strided:
        return [(sample, None) for sample in every]
    if ALL:
        return [(sample, sample.noncontiguous()) for sample in every]
    return [(first, None), *((last, last.noncontiguous()) for last in others[-1:])]


def cases(op):
    """(dtype, sample, highest order of gradients) of all comparisons."""
    for name in DTYPES:
        dtype = getattr(torch, name)
        if dtype not in op.supported_dtypes("cpu"):
            continue
        differentiable = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
        twice = differentiable and op.supports_gradgrad and name in ("float64", "complex128")
        for pair in samples(op, dtype, differentiable):
            for sample in pair:
                if sample is not None:
                    yield name, sample, differentiable + twice


@pytest.mark.parametrize("op", ENTRIES, ids=[op.formatted_name for op in ENTRIES])
def test_samples_agree(op):
    found = []
    for dtype, sample, order in cases(op):
        for variant in variants(op):
            if variant.inplace and sample.broadcasts_input:
                continue
            # Methods and operators mostly are the function by another name: its gradients are theirs.
            highest = order if ALL or variant.name in ("function", "in place") else 0
            for text in differences(variant, sample, highest, without_values="empty" in op.name):
                if not is_known(op.formatted_name, variant.name, text):
                    found.append(f"{dtype} {variant.name}, {sample.summary()}:\n    {text}")
    assert not found, f"{len(found)} differences\n" + "\n".join(found[:10])
