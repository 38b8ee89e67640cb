"""First and second gradients where formulas divide by zero or change over, beside PyTorch."""

import math

import numpy as np
import pytest

import jitgrad

from .comparison import OURS, THEIRS, array

torch = pytest.importorskip("torch")

EDGES = [0.0, 1.0, -1.0, 0.5, -0.5, 2.0, math.nan]  # for losses with bounds of 1 and 1 / 2
CHANCES = [0.0, 1.0, 0.0, 1.0, 0.5, 0.5, 1e-30, 0.3]
ENDS = [0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.5, 0.7]


def loss(name, **options):
    return lambda lib, x, y: getattr(lib.t.nn.functional, name)(x, y, reduction="none", **options)


def spread(name, *dim, **options):
    def call(lib, x):
        result = getattr(lib.t, name)(x, *dim, **options)
        return result[0] if name.endswith("mean") else result

    return call


CASES = {
    **{f"smooth_l1 beta {b}": (loss("smooth_l1_loss", beta=b), EDGES, [0.0] * 7) for b in (1.0, 0.5)},
    **{f"huber delta {b}": (loss("huber_loss", delta=b), EDGES, [0.0] * 7) for b in (1.0, 0.5)},
    "binary_cross_entropy": (loss("binary_cross_entropy"), CHANCES, ENDS),
    **{f"elu alpha {a}": (lambda lib, x, a=a: lib.f.elu(x, a), EDGES[:-1] + [-2.0]) for a in (-1.0, 2.0)},
    **{f"celu alpha {a}": (lambda lib, x, a=a: lib.f.celu(x, a), EDGES[:-1] + [-2.0]) for a in (-1.0, -0.5, 2.0)},
    **{
        f"{name} {dim} correction {k} of {x}": (spread(name, *dim, correction=k), x)
        for name in ("var", "std", "var_mean", "std_mean")
        for dim in ((), (0,))
        for k in (1, 3, 4)
        for x in ([1.0, 2.0, 4.0], [0.0, 2.0, 1.0])
    },
    "cumprod of one": (lambda lib, x: lib.t.cumprod(x, 0), [3.0]),
    "softmax, denormal results": (lambda lib, x: lib.t.softmax(x, 0), [0.0, -87.5, -100.0, -103.0, -104.5, -700.0]),
    "softmax by columns": (
        lambda lib, x: lib.t.softmax(x.reshape(3, 2), 0), [0.0, 0.0, -87.5, -90.0, -103.0, -104.5]
    ),
}  # fmt: skip


def derivatives(lib, function, dtype, *inputs):
    """The value, its gradients, and those of their weighted sum; None where nothing depends on the inputs."""
    leaves = [lib.tensor(x, dtype).requires_grad_() for x in inputs]
    value = function(lib, *leaves)
    grads = lib.t.autograd.grad(value.sum(), leaves, create_graph=True)
    total = sum([(g * (k + 1.5)).sum() for k, g in enumerate(grads) if g.requires_grad])
    second = lib.t.autograd.grad(total, leaves, allow_unused=True) if isinstance(total, lib.t.Tensor) else [None]
    return [value, *grads, *second]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ("float64", "float32"))
@pytest.mark.parametrize("name", CASES)
def test_special_points(name, dtype):
    ours, theirs = (derivatives(lib, CASES[name][0], dtype, *CASES[name][1:]) for lib in (OURS, THEIRS))
    assert len(ours) == len(theirs)
    rtol = 1e-9 if dtype == "float64" else 1e-5
    for a, b in zip(ours, theirs, strict=True):
        assert (a is None) == (b is None), name
        if a is not None:
            np.testing.assert_allclose(array(a), array(b), rtol=rtol, atol=1e-16 if rtol == 1e-9 else 1e-45)


def test_backward_without_a_graph_diverges_alike():
    results = []
    for lib in (OURS, THEIRS):
        x = lib.tensor([[1.0, 2.0], [2.5, 4.5]], "float64").requires_grad_()
        with pytest.warns(UserWarning, match="degrees of freedom"):
            x.var(correction=4).backward()
        results.append(array(x.grad))
    np.testing.assert_array_equal(*results)


def test_infinite_gradients_of_complex_variances():
    results = []
    for lib in (jitgrad, torch):
        x = lib.tensor([[1.0 + 2j, 2.0], [2.5 - 1j, 4.5j]], dtype=lib.complex128, requires_grad=True)
        with pytest.warns(UserWarning, match="degrees of freedom"):
            spread = x.var(-1, correction=2)
        (spread * spread).sum().backward()
        results.append(x.grad.numpy())
    np.testing.assert_array_equal(*results)
