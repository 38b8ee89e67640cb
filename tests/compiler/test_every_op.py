"""Every op, recorded and replayed on other values, gives what it gives uncompiled, gradients included."""

import warnings

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.compiler.compiled import Compiled
from jitgrad.dispatch.registry import OPS
from jitgrad.testing import op_samples


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in tensors_in(v)]
    return []


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


def refill(tensors, seed):
    """Write other values of the same kind, in place and outside of any op."""
    rng = np.random.default_rng(seed)
    for t in tensors:
        order = rng.permutation(t._data.size)
        t._data[...] = t._data.ravel()[order].reshape(t._data.shape)
        if t.dtype.is_floating_point or t.dtype.is_complex:
            t._data[...] = t._data * (1 + 0.05 * rng.random(t._data.shape))


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
            assert len(found) == len(expected)
            for e, f in zip(expected, found, strict=True):
                np.testing.assert_allclose(f.numpy(force=True), e, rtol=2e-6, atol=1e-12)
