"""gradcheck and gradgradcheck: what they find, what they let pass, and what they leave behind."""

import pytest

import jitgrad as torch
from jitgrad.autograd import gradcheck, gradgradcheck
from jitgrad.autograd.gradcheck import GradcheckError


def leaf(*values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype, requires_grad=True)


class Scaled(torch.autograd.Function):
    """x ** 2 with a gradient that is wrong by a factor."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 2 * ctx.factor * g * ctx.saved_tensors[0], None


class Restless(torch.autograd.Function):
    """The identity, whose gradient grows a little with each run."""

    runs = 0

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        Restless.runs += 1
        return g * (1 + 1e-8 * Restless.runs)


class Constant(torch.autograd.Function):
    """The identity, with a gradient of ones whatever arrives: right where ones arrive."""

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return torch.ones_like(g)


@pytest.mark.parametrize("options", [{}, {"fast_mode": True}, {"check_forward_ad": True}, {"check_batched_grad": True}])
def test_right_functions_pass(options):
    x, y, z = leaf(0.5, -1.0), leaf(2.0, 3.0), leaf(1 + 2j, -0.5j, dtype=torch.complex128)
    assert gradcheck(lambda x, y: (x * y.exp(), x.sum()), (x, y), **options)
    assert gradcheck(lambda z, x: z.conj() * z + x.mean() * z, (z, x), **options)
    assert gradgradcheck(lambda x, y: x * y.exp(), (x, y))


def test_inputs_stay_what_they_were():
    x = leaf(0.1, 0.2)
    before, version = x.tolist(), x._version
    assert gradcheck(lambda x: x.exp(), x)
    with pytest.raises(ZeroDivisionError):
        gradcheck(lambda x: x * (1 / (0 if x.detach()[1].item() != 0.2 else 1)), x)
    assert x.tolist() == before and x._version == version and x.grad is None


@pytest.mark.parametrize("fast", [False, True])
def test_wrong_gradients_are_found(fast):
    x = leaf(0.5, -1.0)
    function = lambda x: Scaled.apply(x, 1.5)
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0,\nnumerical:"):
        gradcheck(function, x, fast_mode=fast)
    assert not gradcheck(function, x, fast_mode=fast, raise_exception=False)
    assert gradcheck(lambda x: Scaled.apply(x, 1.0), x, fast_mode=fast)


def test_the_part_of_a_complex_output_is_named():
    z = leaf(1 + 2j, dtype=torch.complex128)
    with pytest.raises(GradcheckError, match="While considering the imaginary part of complex outputs only, Jacobian"):
        gradcheck(lambda z: Scaled.apply(z, 1.5), z)


def test_what_changes_from_run_to_run_is_found():
    with pytest.raises(GradcheckError, match="Backward is not reentrant, i.e., running backward with same input and"):
        gradcheck(Restless.apply, leaf(1.0, 2.0))
    assert gradcheck(Restless.apply, leaf(1.0, 2.0), nondet_tol=1e-5)


def test_gradients_that_ignore_what_arrives_are_found():
    with pytest.raises(GradcheckError, match="backward not multiplied by grad_output"):
        gradcheck(Constant.apply, leaf(1.0))


def test_a_function_of_nothing():
    x = leaf(1.0, 2.0)
    assert gradcheck(lambda x: torch.zeros(2, dtype=torch.float64), x)
    with pytest.raises(GradcheckError, match="Numerical gradient for function expected to be zero"):
        gradcheck(lambda x: x.detach() * 2, x)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: gradcheck(torch.sin, torch.ones(2)), ValueError, "at least one input tensor to require gradient"),
        (
            lambda: gradcheck(torch.sin, leaf(1.0).expand(2)), RuntimeError,
            "The 0th input has a dimension with stride 0. gradcheck only supports inputs that are non-overlapping",
        ),
        (lambda: gradcheck(torch.sin, leaf(1.0), check_backward_ad=False), AssertionError, "Expected at least one of"),
        (
            lambda: gradcheck(torch.sin, leaf(1.0), check_batched_forward_grad=True), AssertionError,
            "Setting check_batched_forward_grad=True requires check_forward_ad to be True",
        ),
        (
            lambda: gradgradcheck(torch.sin, leaf(1.0), check_rev_over_rev=False), AssertionError,
            "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True",
        ),
        (
            lambda: gradcheck(lambda x: x[x > 0.9999999], leaf(3.0, 0.9999999)), AssertionError,
            "Expected `func` to return outputs with the same shape when inputs are perturbed on index (1,) by 1e-06",
        ),
    ],
)  # fmt: skip
def test_refusals(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)


def test_single_precision_is_warned_of():
    with pytest.warns(UserWarning, match="Input #0 requires gradient and is not a double precision"):
        gradcheck(torch.sin, leaf(1.0, dtype=torch.float32), raise_exception=False)
