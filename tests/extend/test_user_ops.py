"""An op is one block: everything a built-in op has follows from its declaration, here and nowhere else."""

import numpy as np
import pytest

import jitgrad as torch
import jitgrad.autograd.forward_ad as fwAD
from jitgrad.autograd import gradcheck, gradgradcheck
from jitgrad.debug.launch_tape import tape
from jitgrad.kernels.codegen.rules import RuleError
from jitgrad.kernels.codegen.source import SourceError
from jitgrad.kernels.elementwise.declaration import TABLE
from jitgrad.kernels.words import exp, log1p, tanh
from jitgrad.testing import op_samples

# -- elementwise: a declaration -------------------------------------------------------------------


class SoftClip(torch.Elementwise, public=True):
    """x with its magnitude compressed: tanh(x) scaled by ``width``, plus ``slope`` times x."""

    domain = (-3, 3)

    def forward(x, width, slope=0.1):
        return width * tanh(x) + slope * x

    def grad_x(g, x, width, slope=0.1):
        t = tanh(x)
        return g * (width * (1 - t * t) + slope)

    def grad_width(g, x):
        return g * tanh(x)


def reference(x, width, slope=0.1):
    return width * np.tanh(x) + slope * x


@pytest.fixture
def operands():
    rng = np.random.default_rng(0)
    return torch.tensor(rng.standard_normal((3, 4))), torch.tensor(rng.standard_normal((3, 4)))


def test_function_method_and_name(operands):
    x, w = operands
    assert "soft_clip" in TABLE
    np.testing.assert_allclose(torch.soft_clip(x, w).numpy(), reference(x.numpy(), w.numpy()))
    np.testing.assert_allclose(x.soft_clip(w, 0.5).numpy(), reference(x.numpy(), w.numpy(), 0.5))
    np.testing.assert_allclose(torch.soft_clip(x, w, slope=2.0).numpy(), reference(x.numpy(), w.numpy(), 2.0))
    np.testing.assert_allclose(torch.soft_clip(x, 2.0).numpy(), reference(x.numpy(), 2.0))
    y = x.requires_grad_().soft_clip(w)
    assert repr(y.grad_fn).startswith("<SoftClipBackward0 object at 0x")
    assert torch.soft_clip.__doc__ == SoftClip.__doc__
    assert SoftClip.apply is torch.soft_clip  # an op that is not published has only this


def test_in_place_method(operands):
    x, w = operands
    expected = reference(x.numpy(), w.numpy())
    assert x.soft_clip_(w) is x
    np.testing.assert_allclose(x.numpy(), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int64"])
def test_dtypes(dtype):
    x = torch.ones(3, dtype=getattr(torch, dtype))
    y = torch.soft_clip(x, x)
    assert y.dtype is (torch.float32 if dtype == "int64" else x.dtype)
    np.testing.assert_allclose(y.numpy(), reference(x.numpy(), x.numpy()), rtol=1e-6)


def test_strided_and_broadcast(operands):
    x, w = operands
    for a, b in [(x.t(), w.t()), (x[:, ::2], w[:, 1::2]), (x, w[0]), (x[:, :1], w[:1]), (x, w[0, 0])]:
        np.testing.assert_allclose(torch.soft_clip(a, b).numpy(), reference(a.numpy(), b.numpy()))


def test_first_and_second_order(operands):
    x, w = (t.requires_grad_() for t in operands)
    assert gradcheck(lambda a, b: a.soft_clip(b[:1]), (x, w))
    assert gradgradcheck(lambda a, b: a.soft_clip(b), (x, w))


def test_forward_mode(operands):
    x, w = operands
    t = torch.ones(3, 4, dtype=torch.float64)
    with fwAD.dual_level():
        tangent = fwAD.unpack_dual(fwAD.make_dual(x, t).soft_clip(w)).tangent
    step = 1e-6
    expected = (reference(x.numpy() + step, w.numpy()) - reference(x.numpy() - step, w.numpy())) / (2 * step)
    np.testing.assert_allclose(tangent.numpy(), expected, atol=1e-8)


def test_tape_replay(operands):
    x, w = operands
    x.requires_grad_()
    with tape() as recorded:
        y = x.soft_clip(w)
        y.sum().backward()
    assert [e.kernel.name for e in recorded][0] == "soft_clip_forward"
    assert "soft_clip_backward" in [e.kernel.name for e in recorded]
    with torch.no_grad():
        x.mul_(0.5)
    recorded.replay()
    np.testing.assert_allclose(y.detach().numpy(), reference(x.detach().numpy(), w.numpy()))


def test_samples():
    ((function, args, _),) = op_samples("soft_clip")
    assert len(args) == 2 and function(*args).shape == args[0].shape


def test_only_wanted_gradients_are_computed(operands):
    x, w = operands
    node = x.requires_grad_().soft_clip(w).grad_fn
    assert node.backward_plan.names == ["x"] and node.backward_plan.saves == ["x", "width"]


# -- declarations that say too much or too little ---------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "what", "instead"),
    [
        (lambda x: x if x > 0 else -x, "IfExp", "where"),
        (lambda x: max(x, 0), "the call of 'max'", "maximum"),
        (lambda x: x and 1, "BoolOp", "logical_and"),
    ],
)
def test_lambdas_are_no_rules(rule, what, instead):
    with pytest.raises((RuleError, TypeError)):
        type("Bad", (torch.Elementwise,), {"__doc__": "Bad.", "forward": rule})


def test_forbidden_constructs_name_op_and_line():
    message = r"BadBranch\.forward: 'IfExp' at .*test_user_ops\.py:\d+ .*use where"
    with pytest.raises(RuleError, match=message) as caught:

        class BadBranch(torch.Elementwise):
            """A branch."""

            def forward(x):
                return x if x > 0 else -x

    assert "bad_branch" not in TABLE and "maximum" in str(caught.value)


def test_unknown_parameters_and_missing_docstring():
    with pytest.raises(RuleError, match=r"BadName\.grad_x: unknown parameters \{'z'\}"):

        class BadName(torch.Elementwise):
            """A gradient that names nothing."""

            def forward(x):
                return exp(x)

            def grad_x(g, z):
                return g * z

    with pytest.raises(RuleError, match="needs a docstring"):

        class Undocumented(torch.Elementwise):
            def forward(x):
                return log1p(x)


# -- loops: a kernel pair -----------------------------------------------------------------------------

FACTOR = 2.0


def halved(v):
    return v * 0.5


@torch.kernel_pair
def average(x, alpha, out):
    """Exponential moving average along a vector."""
    state = 0.0
    for i in range(x.size):
        state = alpha * x[i] + (1.0 - alpha) * state
        out[i] = state


@average.backward
def average_backward(g, alpha, grad_x):
    state = 0.0
    for i in range(g.size - 1, -1, -1):
        state = g[i] + (1.0 - alpha) * state
        grad_x[i] = alpha * state


def rule_of_average(g, alpha):
    n = g.shape[0]
    powers = torch.tensor([[(1 - alpha) ** (j - i) if j >= i else 0.0 for j in range(n)] for i in range(n)])
    return alpha * (powers.to(g.dtype) @ g)


def test_pair_forward_and_backward():
    x = torch.tensor([1.0, 2.0, 4.0], requires_grad=True)
    y = average(x, 0.5)
    assert y.tolist() == [0.5, 1.25, 2.625]
    assert repr(y.grad_fn).startswith("<AverageBackward object at")
    y.sum().backward()
    assert x.grad.tolist() == [0.875, 0.75, 0.5]
    assert average.__doc__.startswith("Exponential moving average")


def test_pair_gradcheck_and_other_dtypes():
    x = torch.tensor(np.linspace(-1, 1, 5), requires_grad=True)
    assert gradcheck(lambda t: average(t, 0.3), x)
    assert average(x.detach().float(), 0.3).dtype is torch.float32
    assert gradcheck(lambda t: average(t[::2], 0.3), x)


def test_pair_without_rule_cannot_be_differentiated_twice():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (g,) = torch.autograd.grad(average(x * x, 0.5).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="trying to differentiate twice .*'average'.*rule="):
        g.sum().backward()


def test_pair_with_rule_to_second_order():
    def forward(x, alpha, out):
        state = 0.0
        for i in range(x.size):
            state = alpha * x[i] + (1.0 - alpha) * state
            out[i] = state

    def backward(g, alpha, grad_x):
        state = 0.0
        for i in range(g.size - 1, -1, -1):
            state = g[i] + (1.0 - alpha) * state
            grad_x[i] = alpha * state

    smooth = torch.kernel_pair(forward, backward, rule=rule_of_average, name="smooth")
    x = torch.tensor(np.linspace(-1, 1, 4), requires_grad=True)
    assert gradgradcheck(lambda t: smooth(t * t, 0.3), x)


def test_pair_with_several_outputs_and_shapes():
    def forward(x, y, out_sum, out_dot):
        for i in range(x.size):
            out_sum[i] = x[i] + y[i]
            out_dot[0] += x[i] * y[i]

    def backward(g_sum, g_dot, x, y, grad_x, grad_y):
        for i in range(x.size):
            grad_x[i] = g_sum[i] + g_dot[0] * y[i]
            grad_y[i] = g_sum[i] + g_dot[0] * x[i]

    pair = torch.kernel_pair(forward, backward, shape=lambda x, y: [x, (1,)], name="sum_and_dot")
    x, y = (torch.tensor(v, requires_grad=True) for v in (np.arange(3.0), np.arange(3.0) + 1))
    total, dot = pair(x, y)
    assert total.tolist() == [1.0, 3.0, 5.0] and dot.tolist() == [8.0]
    assert gradcheck(pair, (x, y))
    pair(x, y)[1].backward()
    assert x.grad.tolist() == [1.0, 2.0, 3.0]


def test_pair_names_constants_functions_and_words():
    def forward(x, out):
        for i in range(x.size):
            out[i] = FACTOR * halved(exp(x[i]))

    pair = torch.kernel_pair(forward, name="named")
    x = torch.tensor([0.0, 1.0])
    np.testing.assert_allclose(pair(x).numpy(), np.exp(x.numpy()), rtol=1e-6)


def test_pair_replays_from_a_tape():
    x = torch.tensor([1.0, 2.0, 4.0], requires_grad=True)
    with tape() as recorded:
        y = average(x, 0.5)
        y.sum().backward()
    with torch.no_grad():
        x.mul_(2.0)
    recorded.replay()
    assert y.tolist() == [1.0, 2.5, 5.25]


def scale_loop(x, alpha, out):
    for i in range(x.size):
        out[i] = alpha * x[i]


def test_pair_errors():
    def writes_nothing(x):
        pass

    def unknown_parameter(h, grad_x):
        grad_x[0] = h[0]

    with pytest.raises(TypeError, match=r"nothing: no output parameter"):
        torch.kernel_pair(writes_nothing, name="nothing")
    with pytest.raises(SourceError, match="a loop must be a function defined by def"):
        torch.kernel_pair(lambda x, out: None)
    with pytest.raises(TypeError, match="average: backward's parameter 'h' is unknown"):
        torch.kernel_pair(scale_loop, unknown_parameter, name="average")
    with pytest.raises(TypeError, match="expected at least one Tensor argument"):
        average(1.0, 0.5)
    with pytest.raises(TypeError, match="takes tensors and numbers, but got str"):
        average(torch.ones(2), "half")


def test_unknown_names_in_loops_are_reported_with_their_line():
    def forward(x, out):
        for i in range(x.size):
            out[i] = undefined_function(x[i])  # noqa: F821

    message = r"forward: the name 'undefined_function' at .*test_user_ops.py:\d+ is not defined"
    with pytest.raises(SourceError, match=message):
        torch.kernel_pair(forward)


def test_typing_errors_name_the_kernel():
    def forward(x, out):
        for i in range(x.size):
            out[i] = x[i].no_such_attribute

    pair = torch.kernel_pair(forward, name="broken")
    with pytest.raises(TypeError, match="forward: cannot compile for .*no_such_attribute"):
        pair(torch.ones(2))
