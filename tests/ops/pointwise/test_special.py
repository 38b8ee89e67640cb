"""Special functions as ops: gradients and their absence, dtypes, out=, forms in place, transforms, compiled code."""

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.autograd import forward_ad, gradcheck, gradgradcheck
from jitgrad.func import vmap

DOUBLE = torch.float64


def points(*values):
    return torch.tensor(values, dtype=DOUBLE, requires_grad=True)


GRADIENTS = {
    "i0": points(-9.0, -0.5, 0.7, 3.0, 11.0), "i0e": points(-9.0, -0.5, 0.7, 3.0, 11.0),
    "i1": points(-9.0, -0.5, 0.7, 3.0, 11.0), "i1e": points(-9.0, -0.5, 0.7, 3.0, 11.0),
    "erfcx": points(-1.5, 0.0, 0.7, 4.0, 30.0), "ndtr": points(-3.0, -0.5, 0.0, 2.0, 4.0),
    "log_ndtr": points(-30.0, -3.0, 0.0, 0.7, 3.0), "ndtri": points(0.01, 0.2, 0.5, 0.6, 0.93),
    "entr": points(0.1, 0.3, 0.9, 2.0, 3.0),
}  # fmt: skip


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name):
    function = getattr(torch.special, name)
    assert gradcheck(function, (GRADIENTS[name],)) and gradgradcheck(function, (GRADIENTS[name],))


def test_gradients_of_two_arguments():
    x, y = points(1.5, 3.0, 7.0), points(0.3, 1.0, 4.0)
    constant = x.detach()
    for function in (torch.special.zeta, torch.igamma, torch.igammac):
        assert gradcheck(lambda y, f=function: f(constant, y), (y,))
        assert gradgradcheck(lambda y, f=function: f(constant, y), (y,))
    for call, inputs in (
        (torch.special.xlog1py, (x, y)), (lambda y: torch.special.xlog1py(2.5, y), (y,)),
        (lambda x: torch.special.xlog1py(x, 2.5), (x,)), (torch.ldexp, (x, y)),
        (lambda x: torch.frexp(x)[0], (x,)), (lambda x: torch.mvlgamma(x + 1, 3), (x,)),
    ):  # fmt: skip
        assert gradcheck(call, inputs) and gradgradcheck(call, inputs)


def test_slope_at_zero():
    x = torch.zeros(1, dtype=DOUBLE, requires_grad=True)
    for name, first in (("i1", 0.5), ("i1e", 0.5), ("i0", 0.0), ("i0e", 0.0)):
        (slope,) = torch.autograd.grad(getattr(torch.special, name)(x).sum(), x, create_graph=True)
        assert slope.item() == first
    assert torch.autograd.grad(torch.special.xlog1py(x, -1.0).sum(), x)[0].item() == 0


@pytest.mark.parametrize(
    ("call", "words"),
    [(lambda x, y: torch.special.zeta(x, y), "'zeta'"), (lambda x, y: torch.special.zeta(x, 2.5), "'zeta'"),
     (lambda x, y: torch.igamma(x, y), "'igamma: input'"), (lambda x, y: torch.igammac(x, y), "'igammac: input'")],
)  # fmt: skip
def test_refused_gradients(call, words):
    x, y = points(2.0, 3.0), points(1.0, 2.0)
    with pytest.raises(NotImplementedError, match=f"the derivative for {words} is not implemented"):
        call(x, y).sum().backward()


def test_without_gradients():
    x = points(0.5, 2.0)
    for name in ("bessel_j0", "modified_bessel_k1", "airy_ai", "spherical_bessel_j0"):
        assert not getattr(torch.special, name)(x).requires_grad
    assert not torch.special.chebyshev_polynomial_t(x, x).requires_grad
    with pytest.raises(RuntimeError, match="derivative for aten::heaviside is not implemented"):
        torch.heaviside(x, x).sum().backward()
    assert torch.autograd.grad(torch.nextafter(x, points(0.5, 3.0)).sum(), x)[0].tolist() == [0, 1]


def test_neighbours_of_16_bit_floats():
    """Of every float16, and of what begins and ends bfloat16's: steps of float32 round back to where they began."""
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        for other in (np.float16("inf"), np.float16("-inf"), np.float16(1), np.float16(-1)):
            got = torch.nextafter(torch.from_numpy(every), torch.tensor(other)).numpy()
            want = np.nextafter(every, other)
            assert np.array_equal(got, want, equal_nan=True)
            assert np.array_equal(np.signbit(got) | np.isnan(got), np.signbit(want) | np.isnan(want))
    inf, largest, least = float("inf"), (2 - 2.0**-7) * 2.0**127, 2.0**-133
    x = torch.tensor([0.0, -0.0, 1.0, 1.0, largest, inf, -inf, least, -least], dtype=torch.bfloat16)
    y = torch.tensor([inf, -inf, inf, -inf, inf, 0.0, 0.0, -1.0, 1.0], dtype=torch.bfloat16)
    want = [least, -least, 1 + 2.0**-7, 1 - 2.0**-8, inf, largest, -largest, 0.0, -0.0]
    assert torch.nextafter(x, y).tolist() == want


def test_lengths_and_angles_that_are_written_to_before_backward():
    x, y = points(0.5, 0.0, -1.3), points(0.5, -2.0, 1.3)
    want = torch.autograd.grad(torch.polar(x, y).real.sum(), (x, y))
    length, turn = x * 1, y * 1
    result = torch.polar(length, turn)
    length.zero_()
    turn.mul_(3.0)
    found = torch.autograd.grad(result.real.sum(), (x, y))
    assert [g.tolist() for g in found] == [g.tolist() for g in want]
    assert gradcheck(torch.polar, (x, y)) and gradgradcheck(torch.polar, (x, y))


def test_dtypes():
    whole = torch.tensor([1, 2])
    assert torch.i0(whole).dtype is torch.float32 and torch.special.zeta(whole, 2).dtype is torch.float32
    assert torch.special.bessel_j0(whole > 1).dtype is torch.float32
    wide = torch.special.laguerre_polynomial_l(torch.tensor([0.5]), torch.tensor([2], dtype=DOUBLE))
    assert wide.dtype is DOUBLE and torch.special.legendre_polynomial_p(torch.tensor([0.5]), 2).dtype is torch.float32
    assert torch.gcd(whole, whole.to(torch.int8)).dtype is torch.int64
    for call, words in (
        (lambda: torch.i0(whole + 1j), "\"i0_vml_cpu\" not implemented for 'ComplexFloat'"),
        (lambda: torch.igamma(whole, whole), "\"igamma_cpu\" not implemented for 'Long'"),
        (lambda: torch.gcd(whole > 1, whole > 1), "\"gcd_cpu\" not implemented for 'Bool'"),
        (lambda: torch.nextafter(whole, whole), "\"nextafter_cpu\" not implemented for 'Long'"),
    ):
        with pytest.raises(NotImplementedError, match=words):
            call()
    for call, words in (
        (lambda: torch.frexp(whole), "only supports floating-point dtypes"),
        (lambda: torch.heaviside(whole, whole > 1), "tensors with different dtypes"),
        (lambda: torch.heaviside(whole + 1j, whole + 1j), "complex tensors"),
        (lambda: torch.mvlgamma(whole, 0), "p has to be greater than or equal to 1"),
    ):
        with pytest.raises(RuntimeError, match=words):
            call()
    for call in (
        lambda: torch.gcd(whole, 2), lambda: torch.igamma(whole, 2.0), lambda: torch.heaviside(whole, 1),
        lambda: torch.ldexp(whole, 2), lambda: torch.special.zeta(2, 3), lambda: torch.frexp(1.0),
        lambda: torch.special.xlog1py(2, 3), lambda: torch.fill(2, 3), lambda: torch.mvlgamma(whole, 1.5),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            call()


def test_names_and_keywords():
    x = torch.tensor([1.5, 2.5], dtype=DOUBLE)
    assert torch.equal(torch.special.i0(x), torch.i0(x)) and torch.equal(x.i0(), torch.i0(x))
    assert torch.equal(torch.special.gammainc(x, x), x.igamma(x))
    assert torch.equal(torch.special.gammaincc(x, x), torch.igammac(x, x))
    assert torch.equal(torch.special.multigammaln(x, p=2), x.mvlgamma(2))
    assert torch.equal(torch.special.zeta(input=x, other=x), torch.special.zeta(x, x))
    named = torch.special.hermite_polynomial_h(x=x, n=torch.tensor([2, 3]))
    np.testing.assert_allclose(named.numpy(), [7, 95])
    np.testing.assert_allclose(torch.special.hermite_polynomial_he(2.0, torch.tensor([2, 3])).numpy(), [3, 2])
    assert torch.equal(torch.heaviside(x - 1.5, values=x), torch.tensor([1.5, 1.0], dtype=DOUBLE))
    assert x.__rdiv__(3).tolist() == (3 / x).tolist() and torch.is_signed(x)


def test_written_in_place_and_into_out():
    x = torch.tensor([1.5, 2.5], dtype=DOUBLE)
    assert torch.equal(torch.i0_(x.clone()), torch.i0(x)) and torch.equal(x.clone().igammac_(x), torch.igammac(x, x))
    assert torch.equal(x.clone().mvlgamma_(2), torch.mvlgamma(x, 2))
    assert torch.equal(x.clone().ldexp_(torch.tensor([1, 2])), torch.ldexp(x, torch.tensor([1, 2])))
    assert torch.equal(x.clone().heaviside_(x), torch.ones(2, dtype=DOUBLE))
    assert torch.equal(x.clone().nextafter_(-x), torch.nextafter(x, -x))
    assert torch.tensor([4, 6]).gcd_(torch.tensor([6])).tolist() == [2, 6]
    assert torch.lcm_(torch.tensor([4, 6]), torch.tensor([6])).tolist() == [12, 6]
    for call in (
        lambda out: torch.special.bessel_y0(x, out=out), lambda out: torch.special.zeta(x, 2.0, out=out),
        lambda out: torch.special.chebyshev_polynomial_u(x, 2, out=out), lambda out: torch.igamma(x, x, out=out),
        lambda out: torch.mvlgamma(x, 2, out=out), lambda out: torch.special.xlog1py(x, 2, out=out),
    ):  # fmt: skip
        out = torch.empty(2, dtype=DOUBLE)
        assert call(out) is out and torch.equal(out, call(None))
        with pytest.raises(RuntimeError, match="can't be cast to the desired output type Long"):
            call(torch.zeros(2, dtype=torch.int64))
    mantissa, exponent = torch.empty(2, dtype=DOUBLE), torch.empty(2, dtype=torch.int32)
    torch.frexp(x, out=(mantissa, exponent))
    assert torch.equal(torch.ldexp(mantissa, exponent), x)


def test_shapes():
    x, y = torch.rand(3, 1, dtype=DOUBLE) + 1, torch.rand(4, dtype=DOUBLE)
    for function in (torch.special.zeta, torch.igamma, torch.special.chebyshev_polynomial_t, torch.special.xlog1py):
        wide = function(x.expand(3, 4), y.expand(3, 4))
        assert torch.equal(function(x, y), wide) and torch.equal(function(x.expand(3, 4).t(), y[:, None]), wide.t())
        assert function(x[:0], y).shape == (0, 4) and function(x[0, 0], y[0]).shape == ()
    strided = torch.rand(6, dtype=DOUBLE)[::2]
    assert torch.equal(torch.i0(strided), torch.i0(strided.contiguous()))


def test_fill():
    x = points(1.0, 2.0)
    value = torch.tensor(3.0, dtype=DOUBLE, requires_grad=True)
    y = torch.fill(x, value)
    assert y.tolist() == [3, 3] and x.tolist() == [1, 2]
    gradients = torch.autograd.grad(y.sum(), (x, value))
    assert gradients[0].tolist() == [0, 0] and gradients[1].item() == 2
    assert torch.fill(x, 4).requires_grad and torch.fill(torch.tensor([[1, 2]]).t(), 2.7).tolist() == [[2], [2]]
    with pytest.raises(RuntimeError, match="only supports 0-dimension value tensor"):
        torch.fill(x, x)


def test_transforms():
    x, y = torch.rand(3, 4, dtype=DOUBLE) + 1, torch.rand(3, 4, dtype=DOUBLE)
    for function in (torch.special.zeta, torch.igamma, torch.ldexp, torch.special.hermite_polynomial_he):
        np.testing.assert_allclose(vmap(function)(x, y).numpy(), function(x, y).numpy(), 1e-14)
    mantissa, exponent = vmap(torch.frexp)(x)
    assert torch.equal(torch.ldexp(mantissa, exponent), x)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        tangent = forward_ad.unpack_dual(torch.special.i0(dual)).tangent
    np.testing.assert_allclose(tangent.numpy(), torch.special.i1(x).numpy(), 1e-14)


def test_compiled():
    def function(x, y):
        z = torch.special.ndtr(x) * torch.i0(y) + torch.igamma(y.detach(), x)
        return (z + torch.special.bessel_j0(x)).sum()

    compiled = torch.compile(function)
    for seed in range(3):
        torch.manual_seed(seed)
        x, y = (torch.rand(50) + 0.5).requires_grad_(), (torch.rand(50) + 0.5).requires_grad_()
        values = [(f(x, y), torch.autograd.grad(f(x, y), (x, y))) for f in (function, compiled)]
        np.testing.assert_allclose(values[1][0].item(), values[0][0].item(), 1e-6)
        for a, b in zip(values[0][1], values[1][1], strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-5)


def test_python_functions_of_elements():
    x = torch.arange(6.0).view(2, 3)
    assert x.apply_(lambda v: v * 2) is x and x.tolist() == [[0, 2, 4], [6, 8, 10]]
    assert x.map_(torch.ones(3), lambda a, b: a + b).tolist() == [[1, 3, 5], [7, 9, 11]]
    assert x.t().map2_(torch.zeros(3, 2), torch.ones(2), lambda a, b, c: a * b - c).tolist() == [[-1, -1]] * 3
    assert x.tolist() == [[-1, -1, -1]] * 2 and torch.ones(0, 3).apply_(abs).shape == (0, 3)
    with pytest.raises(TypeError, match="expected torch.FloatTensor for 'other' .got torch.LongTensor."):
        x.map_(torch.ones(3, dtype=torch.int64), max)
    with pytest.raises(RuntimeError, match="Can't call apply_.. on Variable that requires grad"):
        points(1.0).apply_(abs)
    with pytest.raises(TypeError, match="'int' object is not callable"):
        x.apply_(3)
