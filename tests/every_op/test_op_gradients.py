"""Every structured op on its samples: backward kernels equal the rules, and these equal differences."""

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.autograd import gradcheck, gradgradcheck
from jitgrad.dispatch.elementwise import ElementwiseOp
from jitgrad.dispatch.registry import OPS
from jitgrad.testing import op_samples

STRUCTURED = sorted(name for name, op in OPS.items() if not isinstance(op, ElementwiseOp))


def differentiable(value):
    return isinstance(value, torch.Tensor) and (value.dtype.is_floating_point or value.dtype.is_complex)


def cases(name):
    """(function of the differentiable tensors, these tensors) for each sample of an op."""
    op = OPS[name]
    for function, args, kwargs in op_samples(name):
        places = [k for k, a in enumerate(args) if differentiable(a) and op.parameters[k] in op.grads]
        constants = {op.results.index(name) for name in op.constants}

        def call(*tensors, function=function, args=args, kwargs=kwargs, places=places, constants=constants):
            given = list(args)
            for k, t in zip(places, tensors, strict=True):
                given[k] = t
            torch.manual_seed(0)  # an op that draws numbers draws the same at every step of a difference
            outs = function(*given, **kwargs)
            outs = outs if isinstance(outs, (tuple, list)) else [outs]
            return tuple(o for k, o in enumerate(outs) if differentiable(o) and k not in constants)

        inputs = tuple(args[k].detach().requires_grad_() for k in places)
        if inputs and any(o.requires_grad for o in call(*inputs)):
            yield call, inputs


@pytest.mark.parametrize("name", STRUCTURED)
def test_kernels_compute_what_rules_say(name):
    for call, inputs in cases(name):
        rng = np.random.default_rng(0)
        outs = call(*inputs)
        seeds = [torch.tensor(rng.standard_normal(o.shape)).to(o.dtype) for o in outs]
        fast = torch.autograd.grad(outs, inputs, seeds, allow_unused=True)
        outs = call(*inputs)
        slow = torch.autograd.grad(outs, inputs, seeds, create_graph=True, allow_unused=True)
        for f, s in zip(fast, slow, strict=True):
            assert (f is None) == (s is None)
            if f is not None:
                assert f.shape == s.shape
                np.testing.assert_allclose(f.numpy(force=True), s.numpy(force=True), rtol=1e-10, atol=1e-12)


# What has another gradient than differences by intent: why.
OTHERWISE = {
    "embedding": "the gradient leaves the padding row out",
    "_ctc_loss": "the gradient leaves out the term that log_softmax adds",
    "cholesky": "the gradient is that of symmetric matrices, of which one triangle is read",
    "linalg_cholesky_ex": "the same",
    "cholesky_inverse": "as PyTorch's, the gradient has both triangles, of which one is read",
    "cholesky_solve": "the same",
    "standard_gamma_of": "the gradient is that at a fixed quantile, not at fixed words of the generator",
}


@pytest.mark.parametrize("name", [n for n in STRUCTURED if n not in OTHERWISE])
def test_gradients_of_both_orders_equal_differences(name):
    for call, inputs in cases(name):
        assert gradcheck(call, inputs)
        assert gradgradcheck(call, inputs)
