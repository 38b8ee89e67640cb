"""Elementwise ops on CUDA: on a GPU where there is one, and in Numba's simulator, in a process of its own.

The simulator starts an operating system's thread for each of CUDA's, so arrays are tiny. Kernels'
machine code is checked where numba-cuda can compile: see ``test_cuda_ptx.py``.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.dispatch.elementwise_publish import OPERATIONS
from jitgrad.kernels.cuda.driver import SIMULATED
from jitgrad.kernels.elementwise.declaration import TABLE
from jitgrad.testing import assert_close, elementwise_sample

on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="neither a GPU nor the simulator is there")
without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, or the simulator")


@pytest.mark.skipif(SIMULATED, reason="this is that process")
def test_in_the_simulator():
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    options = ["-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--import-mode=importlib"]
    files = [str(path) for path in Path(__file__).parents[1].rglob("test_cuda*.py")]
    command = [sys.executable, "-m", "pytest", *options, *files]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


# -- without a GPU --------------------------------------------------------------------------------


@without_gpu
@pytest.mark.parametrize(
    "ask",
    [
        lambda: torch.ones(2).cuda(),
        lambda: torch.ones(2).to("cuda"),
        lambda: torch.ones(2).to("cuda:1"),
        lambda: torch.zeros(2, device="cuda"),
        lambda: torch.tensor([1.0], device=torch.device("cuda")),
        lambda: torch.cuda.current_device(),
        lambda: torch.cuda.synchronize(),
    ],
)
def test_without_a_gpu_pytorchs_error(ask):
    with pytest.raises(AssertionError, match="^Torch not compiled with CUDA enabled$"):
        ask()


@without_gpu
def test_without_a_gpu_the_rest_says_so():
    assert not torch.cuda.is_available()
    assert torch.cuda.device_count() == 0
    assert torch.cuda.memory_allocated() == 0
    torch.cuda.empty_cache()
    with pytest.raises(RuntimeError, match="^Cannot access accelerator device when none is available.$"):
        torch.ones(2).cuda(0)
    assert torch.ones(2).cpu().device == torch.device("cpu")


# -- every elementwise op ---------------------------------------------------------------------------


def run(op, inputs):
    """Result and gradients of an op, as NumPy arrays."""
    wanted = [x for x in inputs if x.dtype.is_floating_point or x.dtype.is_complex]
    for x in wanted:
        x.requires_grad_()
    out = op(*inputs)
    if out.requires_grad:
        out.backward(torch.ones_like(out))
    grads = [x.grad for x in wanted]
    return [out, *grads]


def compare(found, expected, **tolerances):
    for f, e in zip(found, expected, strict=True):
        assert (f is None) == (e is None)
        if f is not None:
            assert f.device == torch.device("cuda", 0)
            assert_close(f.cpu(), e.to(f.dtype), equal_nan=True, **tolerances)


def sample(op, shape):
    kinds = op.op.accepts.split()
    dtype = torch.float64 if "float" in kinds else torch.complex128 if "complex" in kinds else torch.int64
    return elementwise_sample(op, dtype, shape, seed=7)


def interpreted(declaration, inputs):
    """What `run` must return: the declaration's rules called on NumPy arrays."""
    known = {**dict(zip(declaration.inputs, [x.numpy() for x in inputs], strict=True)), **declaration.scalars}
    known["out"] = np.asarray(declaration.rule.function(**known))
    known["g"] = np.ones_like(known["out"])
    results = [known["out"]]
    for name, x in zip(declaration.inputs, inputs, strict=True):
        if x.dtype.is_floating_point or x.dtype.is_complex:
            rule = declaration.grads.get(name)
            grad = rule and rule.function(**{p: known[p] for p in rule.parameters})
            conjugate = grad is not None and x.dtype.is_complex and declaration.holomorphic
            results.append(np.conj(grad) if conjugate else grad)
    shape = known["out"].shape
    return [None if r is None else torch.tensor(np.broadcast_to(r, shape).copy()) for r in results]


def narrowed(x):
    narrow = {torch.float64: torch.float32, torch.complex128: torch.complex64, torch.int64: torch.int32}
    return x.to(narrow.get(x.dtype, x.dtype))


@on_cuda
@pytest.mark.parametrize("name", sorted(TABLE))
def test_op_on_cuda_does_what_its_rules_say(name):
    """Forward and backward: flat in double precision, strided in single precision."""
    op = OPERATIONS[name]
    inputs = sample(op, (2, 3))
    expected = interpreted(TABLE[name], inputs)
    compare(run(op, [x.detach().cuda() for x in inputs]), expected, rtol=1e-6, atol=1e-7)
    apart = [narrowed(x.detach()).t().contiguous().cuda().t() if k == 0 else narrowed(x.detach()).cuda()
             for k, x in enumerate(inputs)]  # fmt: skip
    if len(inputs) == 1:
        apart = [narrowed(inputs[0].detach()).repeat_interleave(2, 1).cuda()[:, ::2]]
    loose = inputs[0].dtype.is_floating_point or inputs[0].dtype.is_complex
    compare(run(op, apart), expected, rtol=1e-3 if loose else 0, atol=1e-4 if loose else 0)


WITHOUT_NUMPY = {n for n, op in TABLE.items() if op.reference is None or n == "logaddexp"}
COMPLEX = sorted(n for n, op in TABLE.items() if "complex" in op.accepts.split() and n not in WITHOUT_NUMPY)


@on_cuda
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_op_on_cuda_equals_numpy(name):
    inputs = elementwise_sample(OPERATIONS[name], torch.complex64, (3,), seed=5)
    if len(inputs) > 2:
        pytest.skip("conditions have tests of their own")
    expected = TABLE[name].reference(*[x.numpy().astype(np.complex128) for x in inputs])
    found = OPERATIONS[name](*[x.cuda() for x in inputs]).cpu().numpy()
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


@on_cuda
@pytest.mark.parametrize("name", ["mul", "div", "exp", "sqrt", "tanh", "log", "sin"])
def test_complex_gradients(name):
    op = OPERATIONS[name]
    inputs = elementwise_sample(op, torch.complex128, (2,), seed=3)
    compare(run(op, [x.detach().cuda() for x in inputs]), interpreted(TABLE[name], inputs))


@on_cuda
def test_special_values():
    values = torch.tensor([float("inf"), -float("inf"), float("nan"), 0.0, -0.0, 1e-45, 3e38])
    for name in ("exp", "log", "sqrt", "tanh", "sigmoid", "round", "trunc", "isinf", "sign", "reciprocal"):
        compare([OPERATIONS[name](values.cuda())], [OPERATIONS[name](values)], rtol=1e-5, atol=1e-7)
