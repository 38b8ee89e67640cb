"""Functions with loops as differentiable ops: values, gradients of any order, transforms, refusals."""

import copy
import math
import pickle

import numba
import numpy as np
import pytest

import jitgrad
import jitgrad.extend
from jitgrad.autograd import forward_ad, gradcheck, gradgradcheck

from .small_loops import X, early, powers, variable, wave


def wave_in_ops(x, a):
    return (jitgrad.sin(x * a) * x).sum()


def several(x, n):
    y = x.copy()
    for _ in range(n):
        y = np.sin(y) + y * x
    return y, y.sum(), n + 1


def root_of(x, tolerance):
    r = x
    while abs(r * r - x) > tolerance:
        r = 0.5 * (r + x / r)
    return r


def overwriting(x, n):
    y = x.copy()
    for _ in range(n):
        for i in range(y.shape[0]):
            y[i] = y[i] * y[i - 1] * 0.1 + 0.9 * math.sin(y[i])
    return y.sum()


def read_only(x, indices):
    total = 0.0
    for i in range(indices.shape[0]):
        total += x[indices[i]] * (i + 1)
    return total


def carried(x):
    total = 0.0
    for i in range(x.shape[0]):
        if i > 0:
            total += before * x[i]  # noqa: F821, in another iteration it is defined
        before = x[i] * total + x[i]
    return total


CASES = [
    (carried, (X,)),
    (wave, (X, 0.7)), (early, (X, 2)), (early, (X, 0)), (early, (X[:2], 0)), (root_of, (2.0, 1e-9)),
    (powers, (X, 0.7)), (overwriting, (X, 3)),
]  # fmt: skip


@pytest.mark.parametrize("function, args", CASES)
def test_gradients_of_both_orders(function, args):
    op = jitgrad.differentiable(function)
    constant = [isinstance(a, int) or (function is root_of and k == 1) for k, a in enumerate(args)]
    given = [a if known else variable(a) for a, known in zip(args, constant, strict=True)]
    assert gradcheck(op, given)
    assert gradgradcheck(op, given)


def test_values_are_those_of_the_function():
    op = jitgrad.differentiable(wave)
    assert op(X, 0.7) == pytest.approx(wave(X, 0.7), rel=1e-14)
    assert isinstance(op(X, 0.7), float)
    assert op(jitgrad.tensor(X), 0.7).item() == pytest.approx(wave(X, 0.7), rel=1e-14)
    assert op(a=0.7, x=X) == op(X, 0.7)


def test_several_results_of_which_one_counts():
    op = jitgrad.differentiable(several)
    x = variable(X)
    y, total, count = op(x, 2)
    assert count.item() == 3 and not count.requires_grad and count.dtype is jitgrad.int64
    (from_total,) = jitgrad.autograd.grad(total, x, retain_graph=True)
    (from_all,) = jitgrad.autograd.grad(y.sum(), x)
    np.testing.assert_allclose(from_total.numpy(), from_all.numpy(), rtol=1e-13)


def counted(x):
    return int(x[0])


def counts(x):
    found = np.zeros(x.size, np.int64)
    for i in range(x.size):
        found[i] = int(x[i])
    return found


@pytest.mark.parametrize("function", [counted, counts])
def test_whole_numbers_have_no_gradient(function):
    op, x = jitgrad.differentiable(function), variable([1.5, 2.5])
    found = op(x)
    assert not found.requires_grad and found.grad_fn is None
    assert found.tolist() == (1 if function is counted else [1, 2])
    value, tangent = jitgrad.func.jvp(op, (x.detach(),), (x.detach(),))
    assert tangent.dtype == value.dtype and not tangent.any()
    assert jitgrad.compile(op)(x).tolist() == found.tolist()


def test_the_graph_is_that_of_an_op():
    op = jitgrad.differentiable(wave)
    x = variable(X)
    y = op(x, 0.7)
    assert repr(y.grad_fn).startswith("<WaveBackward")
    y.backward()
    assert x.grad is not None
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()
    kept = op(x, 0.7)
    kept.backward(retain_graph=True)
    x.grad = None
    kept.backward()
    np.testing.assert_allclose(x.grad.numpy(), jitgrad.numba_grad(wave)(X, 0.7), rtol=1e-13)


def test_an_input_that_changed_is_an_error():
    op = jitgrad.differentiable(wave)
    x = variable(X)
    inner = x * 1
    y = op(inner, 0.7)
    with jitgrad.no_grad():
        inner.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_an_array_of_numpys_may_change_before_backward():
    op = jitgrad.differentiable(weighted)
    weights = np.array([1.0, 2.0, 3.0])
    x = variable(X)
    y = op(x, weights)
    _, pullback = jitgrad.func.vjp(lambda v: op(v, weights), x.detach())
    weights[:] = 0.0
    y.backward()
    assert x.grad.tolist() == pullback(jitgrad.tensor(1.0, dtype=jitgrad.float64))[0].tolist() == [1.0, 2.0, 3.0]


def weighted(x, weights):
    total = 0.0
    for i in range(x.size):
        total += x[i] * weights[i]
    return total


def test_a_result_that_is_written_to_leaves_the_gradient():
    op = jitgrad.differentiable(powers)
    x = variable(X)
    (expected,) = jitgrad.autograd.grad(op(x, 0.7).sum(), x)
    out = op(x, 0.7)
    with jitgrad.no_grad():
        out.zero_()
    (found,) = jitgrad.autograd.grad(out.sum(), x)
    assert jitgrad.equal(found, expected)


def recurrence(x):
    y = np.empty(x.shape[0])
    y[0] = x[0]
    for i in range(1, x.shape[0]):
        y[i] = math.sin(y[i - 1]) * x[i]
    return y


def in_rows(x):
    y = np.empty(x.shape[0])
    for i in numba.prange(x.shape[0]):
        y[i] = math.sin(x[i])
        y[i] *= y[i]
    return y


@pytest.mark.parametrize("function", [recurrence, in_rows])
def test_an_array_that_is_returned_may_be_written_to(function):
    op = jitgrad.differentiable(function)
    x = variable(X)
    (expected,) = jitgrad.autograd.grad(op(x).sum(), x)
    out = op(x)
    with jitgrad.no_grad():
        out.fill_(7.0)
    (found,) = jitgrad.autograd.grad(out.sum(), x)
    assert jitgrad.equal(found, expected)


def test_a_written_parameter_in_a_compiled_function():
    op = jitgrad.differentiable(powers)

    def step(x):
        out = op(x, 0.7)
        (g,) = jitgrad.autograd.grad((out * out).sum(), x)
        return out.detach(), g

    compiled = jitgrad.compile(step, fullgraph=True)
    for scale in (1.0, 0.5, 0.25):
        x = variable(X * scale)
        for found, wanted in zip(compiled(x), step(x), strict=True):
            assert jitgrad.allclose(found, wanted)


def test_transforms_agree_with_those_of_ops():
    op = jitgrad.differentiable(wave)
    x, a = jitgrad.tensor(X), jitgrad.tensor(0.7, dtype=jitgrad.float64)
    directions = jitgrad.ones_like(x), jitgrad.ones_like(a)
    for found, wanted in zip(jitgrad.func.jvp(op, (x, a), directions),
                             jitgrad.func.jvp(wave_in_ops, (x, a), directions), strict=True):  # fmt: skip
        assert jitgrad.allclose(found, wanted)
    batch = jitgrad.stack([x, x * 2, x - 1])
    for transform in (lambda f: f, jitgrad.func.grad, lambda f: jitgrad.func.hessian(f)):
        found, wanted = (jitgrad.func.vmap(transform(f), (0, None))(batch, a) for f in (op, wave_in_ops))
        assert jitgrad.allclose(found, wanted)
    for found, wanted in zip(jitgrad.func.hessian(op, (0, 1))(x, a), jitgrad.func.hessian(wave_in_ops, (0, 1))(x, a),
                             strict=True):  # fmt: skip
        assert all(jitgrad.allclose(f, w) for f, w in zip(found, wanted, strict=True))


def test_forward_mode_through_a_written_parameter():
    op = jitgrad.differentiable(powers)
    x = jitgrad.tensor(X)
    with forward_ad.dual_level():
        out = op(forward_ad.make_dual(x, jitgrad.ones_like(x)), 0.7)
        tangent = forward_ad.unpack_dual(out).tangent
    step = 1e-6
    differences = (op(X + step, 0.7) - op(X - step, 0.7)) / (2 * step)
    np.testing.assert_allclose(tangent.numpy(), differences, rtol=1e-7)


def test_third_derivative():
    op = jitgrad.differentiable(wave)
    x = jitgrad.tensor(X)

    def third(f):
        return jitgrad.func.grad(jitgrad.func.grad(jitgrad.func.grad(lambda a: f(x, a))))

    a = jitgrad.tensor(0.7, dtype=jitgrad.float64)
    assert jitgrad.allclose(third(op)(a), third(wave_in_ops)(a))


def test_in_a_compiled_function():
    op = jitgrad.differentiable(overwriting)

    def step(x):
        y = op(x * 2, 2)
        (g,) = jitgrad.autograd.grad(y, x)
        return y.detach(), g

    compiled = jitgrad.compile(step, fullgraph=True)
    for scale in (1.0, 0.5, 0.25):
        x = variable(X * scale)
        for found, wanted in zip(compiled(x), step(x), strict=True):
            assert jitgrad.allclose(found, wanted)


def test_dtypes_and_strides():
    op = jitgrad.differentiable(overwriting)
    single = jitgrad.tensor(X, dtype=jitgrad.float32, requires_grad=True)
    y = op(single, 2)
    y.backward()
    assert y.dtype is jitgrad.float32 and single.grad.dtype is jitgrad.float32
    wide = jitgrad.tensor(np.stack([X, X], 1), requires_grad=True)
    op(wide[:, 0], 2).backward()
    np.testing.assert_allclose(wide.grad.numpy()[:, 0], single.grad.numpy(), rtol=1e-5)
    assert not wide.grad.numpy()[:, 1].any()
    indices = jitgrad.tensor([2, 0, 2])
    x = variable(X)
    jitgrad.differentiable(read_only)(x, indices).backward()
    assert x.grad.tolist() == [2.0, 0.0, 4.0]
    assert op(np.stack([X, X], 1)[:, 0], 2) == pytest.approx(op(X, 2))


@pytest.mark.parametrize("dtype", [jitgrad.float16, jitgrad.bfloat16])
def test_gradients_of_16_bit_floats(dtype):
    x = jitgrad.tensor(X, dtype=dtype, requires_grad=True)
    wide = x.detach().float().requires_grad_()
    op = jitgrad.differentiable(wave)
    (found,), (wanted,) = (jitgrad.autograd.grad(op(v, 0.5), v) for v in (x, wide))
    assert found.dtype is dtype and jitgrad.equal(found, wanted.to(dtype))


def test_empty_arrays_and_nan():
    op = jitgrad.differentiable(early)
    x = jitgrad.zeros(0, dtype=jitgrad.float64, requires_grad=True)
    op(x, 0).sum().backward()
    assert x.grad.shape == (0,)
    x = variable(np.array([1.0, math.nan]))
    jitgrad.differentiable(wave)(x, 1.0).backward()
    assert math.isnan(x.grad[1].item()) and not math.isnan(x.grad[0].item())


def test_checkpoints_change_nothing_but_memory():
    plain, in_stretches = (jitgrad.differentiable(overwriting, checkpoint=c) for c in (False, True))
    x = variable(X)
    for n in (0, 1, 2, 7, 16, 17):
        (a,), (b,) = (jitgrad.autograd.grad(f(x, n), x) for f in (plain, in_stretches))
        assert jitgrad.equal(a, b), n
    few = jitgrad.differentiable(overwriting, checkpoint=3)
    assert jitgrad.equal(jitgrad.autograd.grad(few(x, 10), x)[0], jitgrad.autograd.grad(plain(x, 10), x)[0])
    assert gradgradcheck(in_stretches, (x, 5))
    with pytest.raises(ValueError, match="checkpoint must be True, False or a number of states from 1, but got 0"):
        jitgrad.differentiable(overwriting, checkpoint=0)


def stepped(x, n):
    y = x.copy()
    for _ in range(n):
        if y[0] < -1e6:
            raise ValueError("diverged")
        y = 0.5 * np.sin(y) + x * y[: x.shape[0]]
    return y.sum()


def test_checkpoints_around_errors():
    plain, in_stretches = (jitgrad.differentiable(stepped, checkpoint=c) for c in (False, True))
    x = variable(X)
    a, b = (jitgrad.autograd.grad(f(x, 9), x)[0] for f in (plain, in_stretches))
    assert jitgrad.equal(a, b)
    with pytest.raises(ValueError, match="diverged"):
        in_stretches(variable([-1e7, 0.0]), 9)


module_level = jitgrad.differentiable(read_only)


@jitgrad.differentiable
def doubled(x):
    return x * 2.0


def test_copies_are_itself():
    class Layer(jitgrad.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = jitgrad.nn.Parameter(jitgrad.ones(3))
            self.function = module_level

        def forward(self, indices):
            return self.function(self.weight, indices)

    layer = Layer()
    other = copy.deepcopy(layer)
    assert other.function is module_level
    assert other(jitgrad.tensor([0, 1])).item() == 3.0
    assert pickle.loads(pickle.dumps(doubled)) is doubled


def test_the_text_is_that_of_the_declaration(tmp_path):
    text = "def f(x):\n    return x * x\n"
    file = tmp_path / "edited.py"
    file.write_text(text)
    scope = {}
    exec(compile(text, str(file), "exec"), scope)
    op = jitgrad.differentiable(scope["f"])
    file.write_text("def f(x):\n    return x * x * x\n")
    x = variable(3.0)
    op(x).backward()
    assert x.grad.item() == 6.0


def kept_bytes(op, *args):
    return sum(getattr(v, "nbytes", 0) for v in op(*args).grad_fn.kept.values)


def test_what_is_kept_is_what_is_overwritten():
    """One number for each element and step, and the array itself; in stretches the states and one stretch."""
    x, n = variable(np.linspace(0.1, 0.9, 50)), 100
    array = x.numel() * 8
    assert kept_bytes(jitgrad.differentiable(overwriting), x, n) == (n + 1) * array
    assert kept_bytes(jitgrad.differentiable(overwriting, checkpoint=True), x, n) < 20 * array
    assert kept_bytes(jitgrad.differentiable(wave), x, 0.7) <= array  # read-only inputs are kept by the node


def test_constants_by_declaration():
    op = jitgrad.differentiable(wave, nondifferentiable=("a",))
    a = variable(0.7)
    x = variable(X)
    op(x, a).backward()
    assert a.grad is None and x.grad is not None


def test_source_is_readable():
    text = jitgrad.differentiable(wave).adjoint_source(X, 0.7)
    assert "def wave_gradient(x, a" in text
    assert "total += math.sin(x[i] * a) * x[i]" in text  # the user's line, ahead of its reverse
    compile(text, "text", "exec")
