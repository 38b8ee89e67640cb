"""Gradients that are constant between kinks: recorded, they depend on the input, with zeros as derivatives."""

import pytest

import jitgrad

torch = pytest.importorskip("torch")
VALUES = [[0.3, -0.5, 0.7], [1.9, -4.4, 0.1]]
CALLS = [
    "x.relu()", "F.relu(x)", "F.relu6(x)", "F.leaky_relu(x)", "F.leaky_relu(x, 0.2)", "F.hardtanh(x)",
    "F.hardshrink(x)", "F.softshrink(x)", "F.threshold(x, 0.1, 0.2)", "F.hardswish(x)", "x.abs()",
    "x.clamp(-1, 1)", "x.clamp(min=0)", "x.clamp(-x, x)", "x.frac()", "x.fmod(0.4)", "x.remainder(0.4)", "x.sign()",
    "x.floor()", "x.maximum(x * 0.5)", "x.max()", "x.amax(1)", "x.sort().values", "torch.where(x > 0, x, -x)",
    "x.masked_fill(x > 0, 1)", "x.norm(1)", "x.nan_to_num()", "F.l1_loss(x, x * 0.5)",
    "F.smooth_l1_loss(x, x * 0.5)", "F.huber_loss(x, x * 0.5)", "F.nll_loss(x, k)",
    "F.nll_loss(x, k, reduction='none')",
    "F.cross_entropy(x, k)", "F.batch_norm(x, zeros, zeros + 1)", "F.batch_norm(x, zeros, zeros + 1, x[0], x[1])",
    "F.instance_norm(x[None], zeros[:2], zeros[:2] + 1, use_input_stats=False)", "x.square()", "x * 2", "x.exp()",
]  # fmt: skip


def derivatives(library, call, weighted):
    """The gradient of a call, whether it requires grad, and the gradients of the sum of its squares."""
    x = library.tensor(VALUES, dtype=library.float64, requires_grad=True)
    names = {"x": x, "torch": library, "F": library.nn.functional, "k": library.tensor([0, 2])}
    y = eval(call, names | {"zeros": library.zeros(3, dtype=library.float64)})
    seed = library.full_like(y.detach(), 0.5).requires_grad_(weighted)
    (first,) = library.autograd.grad(y, x, seed, create_graph=True)
    if not first.requires_grad:
        return first.tolist(), False, []
    wanted = [x, seed] if weighted else [x]
    second = library.autograd.grad((first * first).sum(), wanted, allow_unused=True)
    # PyTorch's zeros may have no memory, and batch norm with running averages has None in their place.
    return first.tolist(), True, [(w * 0 if t is None else t + 0).tolist() for t, w in zip(second, wanted, strict=True)]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("weighted", [False, True])
def test_second_derivatives(call, weighted):
    ours, theirs = derivatives(jitgrad, call, weighted), derivatives(torch, call, weighted)
    assert ours[1] == theirs[1]
    for a, b in zip([ours[0], *ours[2]], [theirs[0], *theirs[2]], strict=True):
        assert torch.allclose(torch.tensor(a), torch.tensor(b))


def test_hardsigmoid_whose_second_derivative_pytorch_lacks():
    x = jitgrad.tensor(VALUES, requires_grad=True)
    (first,) = jitgrad.autograd.grad(jitgrad.nn.functional.hardsigmoid(x).sum(), x, create_graph=True)
    assert jitgrad.autograd.grad(first.sum(), x)[0].tolist() == [[0.0] * 3] * 2
