"""Reductions against NumPy: values, dtypes, dims, layouts, accuracy, NaN, nothing at all, errors."""

# ruff: noqa: E501  (errors are quoted in full)

import itertools
import warnings

import numpy as np
import pytest

import jitgrad as torch

RNG = np.random.default_rng(0)
DTYPES = ["bool", "uint8", "int32", "int64", "float32", "float64", "complex64", "complex128"]
VIEWS = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.transpose(0, 2),
    "permuted": lambda t: t.permute(1, 2, 0),
    "strided": lambda t: t[:, ::2, 1:],
    "expanded": lambda t: t[:1].expand(4, -1, -1),
    "no memory": lambda t: t[:, :, :1].squeeze(2).unsqueeze(0),
}


def array(dtype, shape=(3, 4, 5)):
    values = RNG.uniform(-3, 3, shape)
    if dtype.startswith("complex"):
        values = values + 1j * RNG.uniform(-3, 3, shape)
    return values.astype(dtype)


def close(actual, expected, dtype="float64"):
    tolerance = 1e-5 if dtype in ("float32", "complex64") else 1e-12
    assert actual.shape == np.shape(expected)
    np.testing.assert_allclose(actual.detach().numpy(), expected, rtol=tolerance, atol=tolerance)


# -- values over dims and layouts -------------------------------------------------------------------

FUNCTIONS = {
    "sum": (lambda t, *a: t.sum(*a), np.sum),
    "mean": (lambda t, *a: t.mean(*a), np.mean),
    "var": (lambda t, d, k: t.var(d, keepdim=k), lambda a, d, keepdims: np.var(a, d, ddof=1, keepdims=keepdims)),
    "std": (lambda t, d, k: t.std(d, keepdim=k), lambda a, d, keepdims: np.std(a, d, ddof=1, keepdims=keepdims)),
    "amax": (lambda t, *a: t.amax(*a), np.max),
    "amin": (lambda t, *a: t.amin(*a), np.min),
    "any": (lambda t, d, k: (t > 2).any(d, k), lambda a, d, keepdims: np.any(a > 2, d, keepdims=keepdims)),
    "all": (lambda t, d, k: (t > -2).all(d, k), lambda a, d, keepdims: np.all(a > -2, d, keepdims=keepdims)),
    "logsumexp": (
        lambda t, *a: t.logsumexp(*a), lambda a, d, keepdims: np.log(np.sum(np.exp(a), d, keepdims=keepdims)),
    ),
    "norm": (
        lambda t, d, k: t.norm(2, d, k), lambda a, d, keepdims: np.sqrt(np.sum(np.abs(a) ** 2, d, keepdims=keepdims)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_choice_of_dims(name, view):
    function, reference = FUNCTIONS[name]
    a = array("float64")
    t, n = VIEWS[view](torch.tensor(a)), VIEWS[view](torch.tensor(a)).numpy()
    choices = [c for k in (1, 2, 3) for c in itertools.combinations(range(t.ndim), k)]
    for dims, keep in itertools.product(choices, (False, True)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = reference(n, dims, keepdims=keep)
            close(function(t, dims, keep), expected)
            close(function(t, [d - t.ndim for d in dims], keep), expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_and_products_of_every_dtype(dtype):
    a = array(dtype)
    t = torch.tensor(a)
    wide = "int64" if np.dtype(dtype).kind in "bui" else dtype
    for name in ("sum", "prod"):
        for d in (0, 1, 2):
            result = getattr(t, name)(d)
            assert result.dtype.name == wide
            close(result, getattr(np, name)(a, axis=d, dtype=wide), dtype)
        close(getattr(t, name)(), getattr(np, name)(a, dtype=wide), dtype)
    assert t.sum(dtype=torch.float64).dtype is torch.float64
    if wide == "int64":
        assert t.sum(dtype=torch.uint8).item() == a.sum(dtype=np.uint8)


def test_float32_sums_are_as_accurate_as_one_rounding():
    """Blocks of 1024 in the compute dtype, their totals in double: the error does not grow with n."""
    for n in (1000, 100_000, 1_000_003):
        a = RNG.uniform(0, 1, n).astype(np.float32)
        exact = a.sum(dtype=np.float64)
        assert abs(torch.tensor(a).sum().item() - exact) <= 2e-7 * exact
        columns = np.repeat(a[: n // 5 * 5, None], 3, 1)
        got = torch.tensor(columns).sum(0).numpy()
        assert np.all(abs(got - columns.sum(0, dtype=np.float64)) <= 5e-7 * exact)
    assert abs(torch.ones(1 << 25).sum().item() - (1 << 25)) == 0


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_long_reductions_in_chunks(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        a = RNG.standard_normal((1 << 21) + 7)
        t = torch.tensor(a)
        close(t.sum(), a.sum())
        close(t.amax(), a.max())
        close(t.norm(), np.linalg.norm(a))
        assert t.argmin().item() == a.argmin()
        assert t.isfinite().all().item() and not t.isnan().any().item()
        b = RNG.standard_normal((700_003, 3))
        close(torch.tensor(b).sum(0), b.sum(0))
        close(torch.tensor(b).amin(0), b.min(0))
    finally:
        torch.set_num_threads(before)


def test_rows_or_columns_are_read_where_they_lie():
    """A transposed matrix is not copied: its columns are rows of memory."""
    with torch.debug.tape() as tape:
        torch.ones(4, 6).t().sum(0)
        torch.ones(2, 3, 4).sum((0, 1))
    names = [e.kernel.name for e in tape if "fill" not in e.kernel.name and "full" not in e.kernel.name]
    assert [n for n in names if n not in {"sum_rows", "sum_columns"}] == []


# -- extrema ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int32", "int64", "float32", "float64"])
def test_extrema_of_every_dtype(dtype):
    a = array(dtype, (7, 200))
    t = torch.tensor(a)
    for sign in ("max", "min"):
        assert getattr(t, sign)().item() == getattr(a, sign)()
        for d in (0, 1):
            values, indices = getattr(t, sign)(d)
            np.testing.assert_array_equal(values.numpy(), getattr(a, sign)(d))
            np.testing.assert_array_equal(indices.numpy(), getattr(a, f"arg{sign}")(d))  # the first of equal ones
            np.testing.assert_array_equal(getattr(t, f"a{sign}")(d).numpy(), getattr(a, sign)(d))
            assert values.dtype.name == dtype and indices.dtype is torch.int64
            if dtype != "bool":
                np.testing.assert_array_equal(getattr(t, f"arg{sign}")(d).numpy(), getattr(a, f"arg{sign}")(d))


@pytest.mark.parametrize("sign", [1, -1])
def test_nan_of_either_sign_wins(sign):
    nan = np.copysign(np.nan, sign)
    a = np.arange(12.0).reshape(3, 4)
    a[1, 2] = a[2, 0] = nan
    t = torch.tensor(a)
    for name in ("max", "min"):
        assert np.isnan(getattr(t, name)().item())
        for d, wide in ((0, t), (1, t), (1, t.float())):
            values, indices = getattr(wide, name)(d)
            np.testing.assert_array_equal(np.isnan(values.numpy()), np.isnan(a).any(d))
            np.testing.assert_array_equal(indices.numpy(), getattr(np, f"arg{name}")(a, d))
    long = np.ones(1000, np.float32)
    long[777] = nan
    assert torch.tensor(long).argmax().item() == torch.tensor(long).argmin().item() == 777


@pytest.mark.parametrize("value", [5.0, np.nan])
def test_an_extremum_at_every_place_of_a_row(value):
    n = 99  # some steps of places that are passed over together, and a part of one
    rows = np.zeros((n, n), np.float32)
    rows[np.arange(n), np.arange(n)] = value
    rows[:50, 98] = value  # of equal ones the first is found
    values, places = torch.tensor(rows).max(1)
    assert places.tolist() == list(range(n))
    np.testing.assert_array_equal(values.numpy(), value)


def test_infinities_and_zeros_in_extrema():
    inf = float("inf")
    t = torch.tensor([[-inf, 0.0, -0.0], [inf, 1.0, -1.0]])
    assert t.max().item() == inf and t.min().item() == -inf
    assert t.amax(1).tolist() == [0.0, inf] and t.amin(0).tolist() == [-inf, 0.0, -1.0]


def test_places_count_in_order_of_dims_not_of_memory():
    t = torch.tensor([[1.0, 5.0], [5.0, 5.0], [0.0, 0.0]])
    assert t.argmax().item() == 1
    assert t.t().argmax().item() == 1 and t.t().argmin().item() == 2
    assert t.argmax(keepdim=True).tolist() == [[1]]


def test_ties_share_the_full_gradient_and_the_first_takes_that_of_a_dim():
    x = torch.tensor([[1.0, 3.0, 3.0], [3.0, 2.0, 0.0]], requires_grad=True)
    x.max().backward()
    third = 1 / 3
    np.testing.assert_allclose(x.grad.numpy(), [[0, third, third], [third, 0, 0]], rtol=1e-6)
    (g,) = torch.autograd.grad(x.max(1).values.sum(), x)
    assert g.tolist() == [[0, 1, 0], [1, 0, 0]]
    (g,) = torch.autograd.grad(x.amax(1).sum(), x)
    assert g.tolist() == [[0, 0.5, 0.5], [1, 0, 0]]


def test_max_of_two_tensors_is_maximum():
    a, b = torch.tensor([1.0, 4.0]), torch.tensor([3.0, 2.0])
    assert torch.max(a, b).tolist() == a.max(other=b).tolist() == [3, 4]
    assert torch.min(a, b).tolist() == [1, 2]


def test_result_tuples():
    found = torch.tensor([[1.0, 2.0]]).max(1)
    assert found.values.tolist() == found[0].tolist() == [2.0] and found.indices.tolist() == [1]
    assert repr(found) == "torch.return_types.max(\nvalues=tensor([2.]),\nindices=tensor([1]))"
    low, high = torch.tensor([3, 1, 2]).aminmax()
    assert (low.item(), high.item()) == (1, 3)


# -- products ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("zeros", [(), (1,), (1, 3)])
def test_gradient_of_a_product_with_zeros(zeros):
    a = RNG.uniform(1, 2, 5)
    a[list(zeros)] = 0
    expected = [np.prod(np.delete(a, k)) for k in range(5)]
    x = torch.tensor(a, requires_grad=True)
    (g,) = torch.autograd.grad(x.prod(), x)
    np.testing.assert_allclose(g.numpy(), expected)
    (g,) = torch.autograd.grad(x.prod(0), x, create_graph=True)
    np.testing.assert_allclose(g.detach().numpy(), expected)
    (h,) = torch.autograd.grad(g[0], x)
    second = [0 if k == 0 else np.prod(np.delete(a, [0, k])) for k in range(5)]
    np.testing.assert_allclose(h.numpy(), second, atol=1e-14)


# -- nothing, zero dims, one element ----------------------------------------------------------------


def test_reductions_of_nothing():
    e = torch.ones(0, 3)
    assert e.sum().item() == 0 and e.prod().item() == 1 and np.isnan(e.mean().item())
    assert e.sum(0).tolist() == [0, 0, 0] and e.sum(1).tolist() == [] and e.prod(0).tolist() == [1, 1, 1]
    assert e.all().item() and not e.any().item()
    assert e.logsumexp(0).tolist() == [-float("inf")] * 3
    assert e.norm().item() == 0 and e.amax(1).shape == (0,) and e.max(1).indices.shape == (0,)
    assert e.cumsum(0).shape == (0, 3) and e.softmax(0).shape == (0, 3)


def test_a_number_is_a_reduction_of_itself():
    x = torch.tensor(2.0, requires_grad=True)
    for result in (x.sum(), x.sum(0), x.mean(-1), x.prod(0), x.max(), x.max(0).values, x.amax(), x.logsumexp(0), x.norm()):
        assert result.item() == 2 and result.shape == ()
        (g,) = torch.autograd.grad(result, x)
        assert g.item() == 1
    assert x.argmax().item() == x.max(0).indices.item() == 0


def test_too_few_elements_for_a_variance():
    with pytest.warns(UserWarning, match=r"var\(\): degrees of freedom is <= 0"):
        assert np.isnan(torch.ones(1).var().item())
    with pytest.warns(UserWarning, match=r"std\(\): degrees"):
        torch.ones(2, 1).std(1)


def test_names_that_numpy_has_for_dims():
    x = torch.tensor(array("float64", (3, 4)))
    for f in ("sum", "mean", "var", "amax", "logsumexp"):
        close(getattr(x, f)(axis=1, keepdims=True), getattr(x, f)(1, keepdim=True).numpy())
    assert x.argmax(axis=0).tolist() == x.argmax(0).tolist()
    assert torch.softmax(x, axis=0).shape == x.cumsum(axis=0).shape == x.sort(axis=0).values.shape == (3, 4)


def test_ways_to_ask_for_a_variance():
    a = array("float32", (4, 6))
    t = torch.tensor(a)
    close(t.var(False), a.var(), "float32")
    close(t.var(0, False), a.var(0), "float32")
    close(t.var(0, True, True), a.var(0, ddof=1, keepdims=True), "float32")
    close(torch.std(t, dim=1, correction=2), a.std(1, ddof=2), "float32")
    variance, mean = torch.var_mean(t, 0, correction=0)
    close(variance, a.var(0), "float32"), close(mean, a.mean(0), "float32")
    deviation, mean = torch.std_mean(t)
    close(deviation, a.std(ddof=1), "float32"), close(mean, a.mean(), "float32")


def test_variance_of_complex_numbers_is_real():
    a = array("complex128")
    t = torch.tensor(a)
    close(t.var(1), a.var(1, ddof=1))
    close(t.norm(), np.linalg.norm(a))
    assert t.var().dtype is torch.float64


def test_no_gradient_where_a_deviation_or_norm_is_zero():
    x = torch.zeros(2, 3, requires_grad=True)
    for f in (lambda t: t.std(1), lambda t: t.norm(2, 1), lambda t: t.norm(3, 1), lambda t: t.norm(1.5, 1)):
        (g,) = torch.autograd.grad(f(x).sum(), x)
        assert g.abs().max().item() == 0


@pytest.mark.parametrize("p", [0, 1, 1.5, 2, 3, float("inf"), -float("inf")])
def test_norms_of_every_order(p):
    a = array("float64", (4, 5))
    close(torch.tensor(a).norm(p, 1), np.linalg.norm(a, p, 1))
    close(torch.tensor(a).norm(p), np.linalg.norm(a.ravel(), p))


# -- yes or no --------------------------------------------------------------------------------------


def test_any_and_all_see_nan_and_complex_as_true():
    assert torch.tensor([0.0, float("nan")]).any().item()
    assert torch.tensor([0j, 1j]).any().item() and not torch.tensor([0j, 1j]).all().item()
    assert torch.tensor([0, 3], dtype=torch.uint8).any().dtype is torch.uint8
    assert torch.tensor([0, 1, 2]).count_nonzero().item() == 2


def test_close_and_equal():
    a = torch.tensor([1.0, float("nan"), float("inf"), 0.0])
    b = torch.tensor([1.0 + 1e-7, float("nan"), float("inf"), 1e-3])
    assert torch.isclose(a, b).tolist() == [True, False, True, False]
    assert torch.isclose(a, b, equal_nan=True, atol=1e-2).tolist() == [True, True, True, True]
    assert torch.allclose(a[:1], b[:1]) and not torch.allclose(a, b)
    assert torch.equal(a[2:], a[2:]) and not torch.equal(a, a) and not torch.equal(a[:2], a)


# -- running sums and products ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_running_sums_and_products(dtype):
    a = array(dtype)
    wide = "int64" if np.dtype(dtype).kind in "bui" else dtype
    for d in (0, 1, -1):
        for name in ("cumsum", "cumprod"):
            result = getattr(torch.tensor(a), name)(d)
            assert result.dtype.name == wide
            close(result, getattr(np, name)(a, axis=d, dtype=wide), dtype)


@pytest.mark.parametrize("zeros", [(), (0,), (2,), (1, 3)])
def test_gradient_of_running_products_with_zeros(zeros):
    a = RNG.uniform(1, 2, 5)
    a[list(zeros)] = 0
    x = torch.tensor(a, requires_grad=True)
    weights = torch.tensor(RNG.uniform(1, 2, 5))
    expected = [
        sum(weights[j].item() * np.prod(np.delete(a[: j + 1], k)) for j in range(k, 5)) for k in range(5)
    ]  # fmt: skip
    (g,) = torch.autograd.grad(x.cumprod(0), x, weights)
    np.testing.assert_allclose(g.numpy(), expected)
    (g,) = torch.autograd.grad(x.cumprod(0), x, weights, create_graph=True)
    np.testing.assert_allclose(g.detach().numpy(), expected)


# -- errors -----------------------------------------------------------------------------------------

T = torch.ones(2, 3)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: T.sum(2), IndexError, "Dimension out of range (expected to be in range of [-2, 1], but got 2)"),
        (lambda: T.sum((0, -2)), RuntimeError, "dim 0 appears multiple times in the list of dims"),
        (lambda: T.sum("x"), TypeError, "sum() received an invalid combination of arguments - got (str)"),
        (lambda: torch.sum(3), TypeError, "sum(): argument 'input' (position 1) must be Tensor, not int"),
        (lambda: T.long().mean(), RuntimeError, "mean(): could not infer output dtype. Input dtype must be either a "),
        (lambda: T.sum(dtype=torch.int64) and T.requires_grad_().sum(dtype=torch.int64), RuntimeError, "Autograd not support"),
        (lambda: torch.ones(0).max(), RuntimeError, "max(): Expected reduction dim to be specified for input.numel() == 0."),
        (lambda: torch.ones(0, 2).amin(0), IndexError, "amin(): Expected reduction dim 0 to have non-zero size."),
        (lambda: torch.ones(0).argmax(), IndexError, "argmax(): Expected reduction dim to be specified for input.numel() == 0."),
        (lambda: T.bool().argmax(), RuntimeError, "argmax(): does not support bool input"),
        (lambda: T.to(torch.complex64).max(), NotImplementedError, "\"max_all\" not implemented for 'ComplexFloat'"),
        (lambda: T.long().var(), RuntimeError, "std and var only support floating point and complex dtypes"),
        (lambda: T.long().norm(), RuntimeError, "linalg.vector_norm: Expected a floating point or complex tensor as input"),
        (lambda: torch.allclose(T, T.double()), RuntimeError, "Float did not match Double"),
        (lambda: T.cumsum(), TypeError, 'cumsum() missing 1 required positional arguments: "dim"'),
        (lambda: T.prod((0, 1)), TypeError, "prod() received an invalid combination of arguments - got (tuple)"),
    ],
)  # fmt: skip
def test_errors(call, kind, words):
    with pytest.raises(kind) as error:
        call()
    assert words in str(error.value)


def test_saved_results_are_checked():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x.prod()
    with torch.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_count_nonzero_over_dims():
    x = torch.tensor([[[0, 1], [2, 3]], [[0, 0], [0, 4]]])
    assert x.count_nonzero().item() == x.count_nonzero((0, 1, 2)).item() == x.count_nonzero(0, 1, 2).item() == 4
    assert x.count_nonzero(0).tolist() == [[0, 1], [1, 2]]
    assert x.count_nonzero((0, -1)).tolist() == x.count_nonzero(0, -1).tolist() == [1, 3]


@pytest.mark.parametrize("n", [1, 255, 257, 1 << 16])
def test_equal_looks_at_every_element(n):
    x = torch.arange(n)
    for place in {0, n // 2, n - 1}:
        y = x.clone()
        assert torch.equal(x, y)
        y[place] = -1
        assert not torch.equal(x, y)


def test_equal_of_layouts_and_values():
    x = torch.tensor([[1.0, -0.0], [2.0, 3.0]])
    nan = torch.tensor([float("nan")])
    assert torch.equal(x, x.t().contiguous().t()) and torch.equal(x.t(), x.t())
    assert torch.equal(x, torch.tensor([[1.0, 0.0], [2.0, 3.0]]))
    assert not torch.equal(nan, nan) and not torch.equal(x, x[0])
    assert torch.equal(torch.ones(0), torch.ones(0))
    z = torch.tensor([1 + 2j])
    assert torch.equal(z.conj(), z.conj()) and not torch.equal(z.conj(), z)


@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 63, 64, 65, 97])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "int8"])
def test_places_of_extrema_in_rows_of_any_length(n, dtype):
    rng = np.random.default_rng(n)
    x = rng.integers(-9, 9, (1200, n)).astype(dtype)  # many equal ones
    if "float" in dtype:
        x[rng.random(x.shape) < 0.01] = np.nan
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            for name in ("max", "min"):
                values, places = getattr(torch.tensor(x), name)(1)
                np.testing.assert_array_equal(places.numpy(), getattr(np, f"arg{name}")(x, 1))
                np.testing.assert_array_equal(values.numpy(), getattr(np, name)(x, 1))
    finally:
        torch.set_num_threads(before)
