"""Sums and means of rows with gaps between them, which are read where they are."""

import numpy as np
import pytest

import jitgrad as torch

RNG = np.random.default_rng(0)
SHAPES = (5, 7), (60, 70), (3, 5, 40), (90, 600), (2, 3, 4, 50), (1, 9, 1, 44)
VIEWS = {
    "[..., 1:]": lambda x: x[..., 1:],
    "[..., :-3]": lambda x: x[..., :-3],
    "[:, 1:-1]": lambda x: x[:, 1:-1],
    "transposed": lambda x: x[..., 1:].swapaxes(0, -1),
    "one column": lambda x: x[..., 3:4],
    "inserted": lambda x: x[..., 2:][:, None],
    "every other": lambda x: x[..., ::2],
    "none": lambda x: x[..., 0:0],
}
DTYPES = "bool", "uint8", "int32", "int64", "float16", "float32", "float64", "complex64"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("threads", [1, 2])
def test_sums_and_means(view, dtype, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for shape in SHAPES:
            a = RNG.integers(0, 2, shape).astype(dtype)
            x, wide = VIEWS[view](torch.from_numpy(a)), VIEWS[view](a).astype(complex)
            for dims in (None, *range(wide.ndim), (0, wide.ndim - 1), tuple(range(1, wide.ndim))):
                for keepdim in (False, True):
                    expected = wide.sum(axis=dims, keepdims=keepdim)
                    found = x.sum(dims, keepdim)
                    assert found.is_contiguous()
                    assert found.dtype == (x.dtype if dtype[0] in "fc" else torch.int64)
                    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-3 if dtype == "float16" else 1e-6)
                if dtype in ("float32", "float64") and wide.size:
                    np.testing.assert_allclose(x.mean(dims).numpy(), wide.mean(axis=dims), rtol=1e-5)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("dim, kernels", [
    (None, ["sum_rows_apart", "sum_rows"]), (1, ["sum_rows_apart"]), (0, ["sum_columns_apart"]),
])  # fmt: skip
def test_nothing_is_copied(dim, kernels):
    x = torch.ones(50, 80)[:, 1:]
    with torch.debug.tape() as tape:
        x.sum(dim)
    assert [e.kernel.name for e in tape] == kernels


def test_long_rows_lose_no_digits():
    a = RNG.uniform(0, 1, (3, 1 << 20)).astype(np.float32)
    x = torch.from_numpy(a)[:, 1:]
    expected = a[:, 1:].sum(1, dtype=np.float64)
    np.testing.assert_allclose(x.sum(1).numpy(), expected, rtol=1e-7)
    np.testing.assert_allclose(x.sum().numpy(), expected.sum(), rtol=2e-7)


def test_compiled_calls_with_other_slices():
    @torch.compile
    def step(x):
        return (x[:, 1:].sum(0), x[:, :-2].sum(), x[2:, 3:].mean(1))

    for k in range(4):
        a = RNG.standard_normal((20 + k // 3, 60)).astype(np.float32)
        found = step(torch.from_numpy(a))
        for f, e in zip(found, (a[:, 1:].sum(0), a[:, :-2].sum(), a[2:, 3:].mean(1)), strict=True):
            np.testing.assert_allclose(f.numpy(), e, rtol=1e-4, atol=1e-5)


def test_gradients():
    x = torch.from_numpy(RNG.standard_normal((4, 6))).requires_grad_()
    for f in (lambda x: x[:, 1:].sum(0), lambda x: x[:, 1:].sum(1), lambda x: x[1:, :-1].mean()):
        assert torch.autograd.gradcheck(f, x)
        assert torch.autograd.gradgradcheck(lambda x, f=f: f(x * x), x)
