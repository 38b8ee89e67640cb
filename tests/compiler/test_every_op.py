"""Every op, recorded and replayed on other values, gives what it gives uncompiled, gradients included."""

import warnings

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.compiler.compiled import NOT_BUILT, Compiled
from jitgrad.dispatch.registry import OPS
from jitgrad.testing import op_samples
from tests.every_op.other_values import refill, tensors_in


def with_gradients(function, args, kwargs, wanted):
    """A function without arguments: forward and backward, results and gradients."""

    def step():
        for t in wanted:
            t.grad = None
        outs = tensors_in(function(*args, **kwargs))
        differentiable = [o for o in outs if o.requires_grad]
        if differentiable:
            torch.autograd.backward(differentiable, [torch.ones_like(o) for o in differentiable])
        return [o.detach() for o in outs] + [t.grad for t in wanted if t.grad is not None]

    return step


@pytest.mark.parametrize("name", sorted(OPS))
def test_replayed_on_other_values(name):
    for function, args, kwargs in op_samples(name):
        every = tensors_in(list(args)) + tensors_in(list(kwargs.values()))
        wanted = [t for t in every if t.dtype.is_floating_point or t.dtype.is_complex]
        for t in wanted:
            t.requires_grad_()
        step = with_gradients(function, args, kwargs, wanted)
        compiled = Compiled(step, fullgraph=False)
        for seed in range(4):
            refill(wanted, seed)
            torch.manual_seed(seed)
            expected = [t.numpy(force=True).copy() for t in step()]
            torch.manual_seed(seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", torch.compiler.CompileWarning)
                found = compiled()
            assert not any(NOT_BUILT in reason for reason, _ in compiled._failures)
            assert len(found) == len(expected)
            for e, f in zip(expected, found, strict=True):
                np.testing.assert_allclose(f.numpy(force=True), e, rtol=2e-6, atol=1e-12)
