"""Second derivatives through ops in place on views, which save their result or the values that they replace."""

import pytest

import jitgrad

torch = pytest.importorskip("torch")
WRITES = [
    "exp_()", "exp2_()", "expm1_()", "tanh_()", "sigmoid_()", "sqrt_()", "rsqrt_()", "reciprocal_()", "tan_()",
    "erfinv_()", "cumprod_(0)", "copysign_(-x[:2])", "sin_()", "pow_(2.5)", "mul_(x[2:])", "div_(x[2:])",
]  # fmt: skip
VIEWS = ["y[:2]", "y[::2]", "y.view(2, 2)[:, 1]", "y[1:][:2]"]
START = [0.3, 0.5, 0.7, 0.9]


def derivatives(library, view, write, hooks=False):
    x = library.tensor(START, dtype=library.float64, requires_grad=True)
    y = x * 1
    part = eval(view, {"y": y})
    eval(f"part.{write}", {"part": part, "x": x})
    (first,) = library.autograd.grad((y * y).sum() + (part**3).sum(), x, create_graph=True)
    (second,) = library.autograd.grad((first * first).sum(), x, create_graph=True)
    (third,) = library.autograd.grad(second.sum(), x)
    return [t.tolist() for t in (first, second, third)]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("view", VIEWS)
def test_derivatives_of_order_three(view, write):
    for ours, theirs in zip(derivatives(jitgrad, view, write), derivatives(torch, view, write), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-9)


def test_copysign_of_zeros_has_a_second_derivative_elsewhere():
    def second(library):
        x = library.tensor([2.0, 0.0, 3.0], dtype=library.float64, requires_grad=True)
        (first,) = library.autograd.grad((library.copysign(x, x).cumprod(0) * x.detach()).sum(), x, create_graph=True)
        return library.autograd.grad((first * first).sum(), x)[0].tolist()

    assert second(jitgrad) == pytest.approx(second(torch), nan_ok=True)


def packed(library, view):
    x = library.tensor(START, dtype=library.float64, requires_grad=True)
    y = x * 1
    with library.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        eval(view, {"y": y}).exp_()
    (first,) = library.autograd.grad((y * y).sum(), x, create_graph=True)
    return library.autograd.grad((first * first).sum(), x)[0].tolist()


@pytest.mark.parametrize("view", VIEWS)
def test_packed_results(view):
    assert packed(jitgrad, view) == pytest.approx(packed(torch, view), rel=1e-9)


def of_complex_base(library):
    c = library.tensor([1 + 2j, 3 - 1j], dtype=library.complex128, requires_grad=True)
    d = c * 1
    library.view_as_real(d)[0].tanh_()
    (first,) = library.autograd.grad((d * d.conj()).real.sum(), c, create_graph=True)
    return library.view_as_real(library.autograd.grad((first * first.conj()).real.sum(), c)[0]).tolist()


def test_real_views_of_a_complex_tensor():
    for ours, theirs in zip(of_complex_base(jitgrad), of_complex_base(torch), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-9)
