"""jitgrad.fft against numpy.fft: values, norms, sizes, strides, gradients, vmap, forward mode, errors."""

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.kernels.loops import fft as kernels

RNG = np.random.default_rng(0)
REAL = RNG.standard_normal((3, 4, 6))
COMPLEX = REAL + 1j * RNG.standard_normal(REAL.shape)
NORMS = (None, "backward", "ortho", "forward")
ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
SEVERAL = ("fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2")


def taken(name):
    """The array that a function is tried with: real where it takes real ones only."""
    return REAL if name.removesuffix("2").removesuffix("n") in ("rfft", "ihfft") else COMPLEX


@pytest.mark.parametrize("name", ONE)
def test_one_dim(name):
    x = torch.from_numpy(taken(name))
    for n, dim, norm in ((None, -1, None), (5, 0, "ortho"), (3, 1, "forward"), (7, -2, "backward"), (1, 2, None)):
        found = getattr(torch.fft, name)(x, n, dim, norm)
        expected = getattr(np.fft, name)(taken(name), n, dim, norm)
        np.testing.assert_allclose(found.resolve_conj().numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", SEVERAL)
def test_several_dims(name):
    x = torch.from_numpy(taken(name))
    calls = [{}, {"norm": "ortho"}, {"s": (5, 3)}, {"dim": (0, 2)}, {"s": (2, 9), "dim": (2, 0), "norm": "forward"}]
    for given in calls:
        there = {("axes" if key == "dim" else key): value for key, value in given.items()}
        if "s" in there and "axes" not in there:
            there["axes"] = (-2, -1)
        expected = getattr(np.fft, name)(taken(name), **there)
        np.testing.assert_allclose(getattr(torch.fft, name)(x, **given).numpy(), expected, rtol=1e-12, atol=1e-12)


def test_hermitian_transforms_of_several_dims_invert_each_other():
    x = torch.from_numpy(REAL)
    for dims in ((0, 2), (2,), (2, 1, 0)):
        for norm in NORMS:
            half = torch.fft.ihfftn(x, dim=dims, norm=norm)
            sizes = [REAL.shape[d] for d in dims]
            torch.testing.assert_close(torch.fft.hfftn(half, sizes, dims, norm), x)
    back = torch.fft.hfft2(torch.fft.ihfft2(x), x.shape[-2:])
    torch.testing.assert_close(back, x)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "float64", "complex64"])
def test_dtypes(dtype):
    x = torch.ones(4, dtype=getattr(torch, dtype))
    wide = torch.complex128 if dtype == "float64" else torch.complex64
    assert torch.fft.fft(x).dtype is torch.fft.fftn(x).dtype is torch.fft.ifft(x).dtype is wide
    assert torch.fft.fft(x).tolist() == [4, 0, 0, 0]
    assert torch.fft.irfft(x).dtype is wide.to_real()
    assert torch.fft.hfft(x, 3).tolist() == pytest.approx([3, 0, 0])
    if not x.is_complex():
        assert torch.fft.rfft(x).tolist() == [4, 0, 0] and torch.fft.ihfft(x).tolist() == [1, 0, 0]


def test_single_precision_is_computed_as_such_and_on_threads():
    a = RNG.standard_normal((64, 512)).astype(np.float32)
    for dim in (0, 1):
        x = torch.from_numpy(a)
        torch.testing.assert_close(torch.fft.fft(x, dim=dim).numpy(), np.fft.fft(a, axis=dim))
        torch.testing.assert_close(torch.fft.irfft(torch.fft.rfft(x, dim=dim), dim=dim), x)
    torch.testing.assert_close(torch.fft.fft2(x).numpy(), np.fft.fft2(a), rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(torch.fft.fft(x[:1]).numpy(), np.fft.fft(a[:1]))


def test_transformed_dims_lie_innermost():
    x = torch.zeros(3, 4, 5)
    assert torch.fft.fft(x, dim=0).stride() == (1, 15, 3)
    assert torch.fft.fft(x.transpose(0, 2), dim=0).stride() == (1, 5, 20)
    assert torch.fft.rfft(x, dim=1).stride() == (15, 1, 3)
    assert torch.fft.fftn(x, dim=(2, 0)).stride() == (5, 15, 1)
    assert torch.fft.irfftn(x, dim=(2, 0)).stride() == (1, 20, 4)


def test_conjugates_are_views_and_conjugated_inputs_are_read():
    assert torch.fft.ihfft(torch.ones(4)).is_conj()
    assert not torch.fft.ihfftn(torch.ones(4, 4)).is_conj()
    x = torch.from_numpy(COMPLEX)
    torch.testing.assert_close(torch.fft.fft(x.conj()), torch.fft.fft(x.conj().resolve_conj()))


def test_empty_and_zero_dim():
    assert torch.fft.fft(torch.zeros(0, 4)).shape == (0, 4)
    assert torch.fft.rfftn(torch.zeros(4, 0, 6), dim=(0, 2)).shape == (4, 0, 4)
    assert torch.fft.fftn(torch.tensor(2.0)).item() == 2
    x = torch.from_numpy(REAL)
    found = torch.fft.fftn(x, dim=())
    assert found.dtype is torch.complex128 and (found.real == x).all()


def test_out():
    x, out = torch.ones(4), torch.empty(0, dtype=torch.complex64)
    assert torch.fft.fft(x, out=out) is out and out.tolist() == [4, 0, 0, 0]
    with pytest.raises(RuntimeError, match="fft expects a complex output tensor, but got Float"):
        torch.fft.fft(x, out=torch.empty(4))
    with pytest.raises(RuntimeError, match="irfft expects a floating point output tensor, but got ComplexFloat"):
        torch.fft.irfft(x, out=out)


GRADIENTS = [
    ("fft", REAL[0], {"n": 5}), ("fft", COMPLEX[0], {"dim": 0, "norm": "ortho"}), ("ifft", REAL[0], {}),
    ("rfft", REAL[0], {"dim": 0}), ("rfft", REAL[0], {"n": 5}), ("irfft", COMPLEX[0], {}),
    ("irfft", COMPLEX[0], {"n": 7, "norm": "forward"}), ("hfft", COMPLEX[0], {"n": 3}), ("ihfft", REAL[0], {}),
    ("fft2", COMPLEX[0], {"s": (3, -1)}), ("rfftn", REAL[0], {"dim": (1, 0), "s": (5, 4)}), ("hfft2", COMPLEX[0], {}),
    ("irfftn", COMPLEX[0], {"dim": (1, 0)}), ("ihfftn", REAL[0], {"norm": "forward"}), ("fftshift", REAL[0], {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "a", "given"), GRADIENTS)
def test_gradients_forward_mode_and_vmap(name, a, given):
    def function(x):
        return getattr(torch.fft, name)(x, **given)

    x = torch.from_numpy(a[:, :4].copy()).requires_grad_()
    torch.autograd.gradcheck(function, x, check_forward_ad=True, check_batched_grad=True)
    torch.autograd.gradgradcheck(function, x)
    batch = torch.from_numpy(np.stack([a, 2 * a, a - 1], 1))
    found = torch.vmap(function, 1)(batch)
    torch.testing.assert_close(found, torch.stack([function(batch[:, k]) for k in range(3)]))


def test_the_gradient_of_a_real_transform_knows_what_counts_twice():
    for n in (1, 2, 5, 6):
        x = torch.randn(n, dtype=torch.float64, requires_grad=True)
        weights = torch.randn(n // 2 + 1, dtype=torch.complex128)
        (found,) = torch.autograd.grad(torch.fft.rfft(x), x, weights)
        full = torch.cat([weights, weights.new_zeros(n - n // 2 - 1)])
        torch.testing.assert_close(found, (torch.fft.ifft(full) * n).real.contiguous())


def test_frequencies_and_shifts():
    for n in (1, 4, 5):
        np.testing.assert_allclose(torch.fft.fftfreq(n, 0.5).numpy(), np.fft.fftfreq(n, 0.5), rtol=1e-6)
        np.testing.assert_allclose(torch.fft.rfftfreq(n).numpy(), np.fft.rfftfreq(n), rtol=1e-6)
    assert torch.fft.fftfreq(0).shape == (0,) and torch.fft.fftfreq(3, dtype=torch.float64).dtype is torch.float64
    x = torch.from_numpy(REAL)
    for dim in (None, 1, (0, 2)):
        np.testing.assert_array_equal(torch.fft.fftshift(x, dim).numpy(), np.fft.fftshift(REAL, dim))
        np.testing.assert_array_equal(torch.fft.ifftshift(x, dim).numpy(), np.fft.ifftshift(REAL, dim))


def test_compiled():
    @torch.compile
    def smoothed(x):
        return torch.fft.irfft(torch.fft.rfft(x) * 0.5, x.shape[-1])

    for _ in range(3):
        x = torch.randn(4, 6)
        torch.testing.assert_close(smoothed(x), x * 0.5)


ERRORS = [
    (lambda: torch.fft.fft(torch.tensor(1.0)), IndexError, "Dimension specified as -1 but tensor has no dimensions"),
    (lambda: torch.fft.fft(torch.ones(3), 0), RuntimeError, r"Invalid number of data points \(0\) specified"),
    (lambda: torch.fft.irfft(torch.ones(1)), RuntimeError, r"Invalid number of data points \(0\) specified"),
    (lambda: torch.fft.fft(torch.ones(3), norm="x"), RuntimeError, 'Invalid normalization mode: "x"'),
    (lambda: torch.fft.rfft(torch.ones(3) + 0j), RuntimeError, "rfft expects a real input tensor, but got ComplexFl"),
    (lambda: torch.fft.rfft2(torch.ones(3, 3) * 1j), RuntimeError, "rfftn expects a real-valued input tensor, but got"),
    (lambda: torch.fft.ihfft2(torch.ones(3, 3) * 1j), RuntimeError, "Only supports floating-point dtypes, but found"),
    (lambda: torch.fft.fftn(torch.ones(3), dim=(0, 0)), RuntimeError, "FFT dims must be unique"),
    (lambda: torch.fft.fftn(torch.ones(3), (1, 2), (0,)), RuntimeError, "dim and shape arguments must have the same"),
    (lambda: torch.fft.fftn(torch.ones(3), (1, 2)), RuntimeError, "Got shape with 2 values but input tensor only has"),
    (lambda: torch.fft.irfftn(torch.ones(3), dim=()), RuntimeError, "irfftn must transform at least one axis"),
    (lambda: torch.fft.fft(torch.ones(3), n=2.5), TypeError, r"fft_fft\(\): argument 'n' must be int, not float"),
    (lambda: torch.fft.fftfreq(3, dtype=torch.int64), RuntimeError, "fftfreq requires a floating point or complex"),
    (lambda: torch.fft.fftfreq(-3), RuntimeError, "Trying to create tensor with negative dimension -3"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "words"), ERRORS)
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_without_numpys_ufuncs():
    # Another NumPy may have them elsewhere; its public functions do the same.
    for name, a, n in (("fft", COMPLEX, 6), ("ifft", COMPLEX, 6), ("rfft", REAL, 4), ("irfft", COMPLEX, 7)):
        shape = (3, 4, n)
        out = np.empty(shape, float if name == "irfft" else complex)
        kernels._by_numpy(name)(a, np.float64(0.5), out, [(2,), (), (2,)])
        norm = "forward" if name[0] == "i" else "backward"
        np.testing.assert_allclose(out, 0.5 * getattr(np.fft, name)(a, n if name == "irfft" else None, norm=norm))


def test_integers_are_transformed_in_the_default_dtype_of_the_moment():
    calls = (
        lambda: torch.fft.fft(torch.arange(4)), lambda: torch.fft.irfft(torch.arange(4)),
        lambda: torch.fft.fft2(torch.ones(2, 2, dtype=torch.int64)), lambda: torch.fft.rfftn(torch.ones(2, 2) > 0),
    )  # fmt: skip
    single = [call().dtype for call in calls]
    torch.set_default_dtype(torch.float64)
    try:
        double = [call().dtype for call in calls]
    finally:
        torch.set_default_dtype(torch.float32)
    assert single == [torch.complex64, torch.float32, torch.complex64, torch.complex64]
    assert double == [torch.complex128, torch.float64, torch.complex128, torch.complex128]
    assert [call().dtype for call in calls] == single
