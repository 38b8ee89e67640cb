"""Distances, norms, condition numbers, covariances and products of several matrices: against NumPy and SciPy."""

import math
import warnings

import numpy as np
import pytest
from scipy.spatial import distance

import jitgrad as torch
from jitgrad.autograd import gradcheck, gradgradcheck
from jitgrad.nn import functional

ORDERS = [0.0, 1.0, 1.5, 2.0, 3.0, math.inf]


def draw(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def close(ours, wanted):
    np.testing.assert_allclose(ours.detach().numpy(), wanted, rtol=1e-12, atol=1e-12)


def between(x, y, p):
    size = np.abs(x[..., :, None, :] - y[..., None, :, :])
    return (size != 0).sum(-1) if p == 0 else np.linalg.norm(size, p, axis=-1)


# -- distances -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", ORDERS)
def test_distances_of_every_order(p):
    x, y = draw(2, 5, 3), draw(2, 40, 3, seed=1)
    x[0, 0], x[1, 1, 0] = y[0, 3], y[1, 2, 0]  # rows and elements that are equal
    close(torch.cdist(torch.tensor(x), torch.tensor(y), p), between(x, y, p))
    close(torch.cdist(torch.tensor(x[0]), torch.tensor(y).mT.contiguous().mT, p), between(x[:1], y, p))
    found = functional.pdist(torch.tensor(y[0]), p)
    close(found, between(y[0], y[0], p)[np.triu_indices(40, 1)])
    for a, b in ((x[:, :4], y[:, :3]), (x[:, :4], y)):
        given = [torch.tensor(t).requires_grad_() for t in (a, b)]
        weights = torch.tensor(draw(2, 4, b.shape[1], seed=2))
        fast = torch.autograd.grad((torch.cdist(*given, p) * weights).sum(), given)
        slow = torch.autograd.grad((torch.cdist(*given, p) * weights).sum(), given, create_graph=True)
        for f, s in zip(fast, slow, strict=True):
            close(f, s.detach().numpy())
            assert not f.isnan().any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n", "m", "d"), [(3, 70, 5), (4, 16, 1), (9, 37, 600), (70, 33, 257), (6, 7, 0)])
@pytest.mark.parametrize("threads", [1, 2])
def test_distances_in_tiles(n, m, d, dtype, threads):
    """Sizes that are no multiples of a tile's, and long rows; equal rows are at no distance."""
    x, y = draw(2, n, d).astype(dtype), draw(2, m, d, seed=1).astype(dtype)
    x[1, 2] = y[1, 5]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    found = torch.cdist(torch.tensor(x), torch.tensor(y)).numpy()
    torch.set_num_threads(before)
    assert found[1, 2, 5] == 0
    wanted = between(x.astype(np.float64), y.astype(np.float64), 2)
    np.testing.assert_allclose(found, wanted, rtol=1e-4 if dtype == "float32" else 1e-12)


def test_equal_rows_have_no_gradient():
    x = torch.ones(3, 2, requires_grad=True)
    for p in ORDERS:
        assert torch.autograd.grad(torch.cdist(x, x, p).sum(), x)[0].tolist() == [[0, 0]] * 3
        assert torch.autograd.grad(torch.pdist(x, p).sum(), x)[0].tolist() == [[0, 0]] * 3


def test_distances_of_nothing():
    assert torch.cdist(torch.ones(0, 2), torch.ones(3, 2)).shape == (0, 3)
    assert torch.cdist(torch.ones(2, 0), torch.ones(3, 0)).tolist() == [[0, 0, 0]] * 2
    assert torch.pdist(torch.ones(1, 2)).shape == (0,)
    assert torch.pdist(torch.ones(3, 0)).tolist() == [0, 0, 0]


def test_nan_in_rows_spreads_to_their_distances():
    x = torch.tensor([[math.nan, 0], [1, 0]], dtype=torch.float64)
    for p in (1.0, 2.0, math.inf):
        assert torch.cdist(x, x, p).isnan().tolist() == [[True, True], [True, False]]


def test_distances_under_transforms():
    x, y = torch.tensor(draw(3, 4, 2)), torch.tensor(draw(5, 2, seed=1))
    close(torch.func.vmap(torch.cdist, (0, None))(x, y), between(x.numpy(), y.numpy(), 2))
    close(torch.func.vmap(torch.pdist)(x)[1], distance.pdist(x[1].numpy()))
    close(torch.func.jacfwd(torch.cdist)(x[0], y), torch.func.jacrev(torch.cdist)(x[0], y).numpy())
    compiled = torch.compile(lambda x: torch.cdist(x, y).sum())
    for k in range(3):
        close(compiled(x[k]), between(x[k].numpy(), y.numpy(), 2).sum())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: torch.cdist(torch.ones(2), torch.ones(2, 2)), "at least 2D tensors, X1 got: 1D"),
        (lambda: torch.cdist(torch.ones(2, 3), torch.ones(2, 2)), "same number of columns. X1: 3 X2: 2"),
        (lambda: torch.cdist(torch.ones(2, 2), torch.ones(2, 2), -1), "non-negative p values"),
        (lambda: torch.cdist(torch.ones(2, 2).long(), torch.ones(2, 2)), "X1 got: Long"),
        (lambda: torch.cdist(torch.ones(2, 2).double(), torch.ones(2, 2)), "expected scalar type Double but found"),
        (lambda: torch.pdist(torch.ones(2)), "pdist only supports 2D tensors, got: 1D"),
        (lambda: torch.renorm(torch.ones(2), 1, 0, 1), "needs at least 2 dimensions, got 1"),
        (lambda: torch.renorm(torch.ones(2, 2), -1, 0, 1), "non-positive-norm not supported"),
        (lambda: torch.linalg.matrix_norm(torch.ones(2, 2), 3), "linalg.matrix_norm: Order 3 not supported."),
        (lambda: torch.linalg.norm(torch.ones(2, 2, 2), 2), "the input must be 1D or 2D. Got 3D."),
        (lambda: torch.linalg.vector_norm(torch.ones(2), dtype=torch.complex64), "dtype should be real for real"),
        (lambda: torch.linalg.cond(torch.ones(2, 3), 1), r"linalg.cond\(ord=1\): A must be batches of square"),
        (lambda: torch.linalg.multi_dot([torch.ones(2, 2), torch.ones(3, 2)]), "cannot be multiplied"),
        (lambda: torch.linalg.matrix_power(torch.ones(2, 3), 2), "linalg.matrix_power: A must be batches of square"),
        (lambda: torch.cov(torch.ones(2, 2), aweights=torch.zeros(2)), "weights sum to zero"),
        (lambda: torch.cov(torch.ones(2, 2), fweights=torch.tensor([1, -1])), "fweights cannot be negative"),
        (lambda: torch.addbmm(torch.ones(2, 2), torch.ones(3, 2, 2), torch.ones(2, 2, 2)), "same number of batches"),
        (lambda: torch.addr(torch.ones(2, 2), torch.ones(2, 2), torch.ones(2)), "Expected 1-D argument vec1"),
        (lambda: torch.vander(torch.ones(2, 2)), "x must be a one-dimensional tensor."),
    ],
)
def test_errors(call, words):
    with pytest.raises(RuntimeError, match=words):
        call()


# -- norms -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf])
def test_norms_and_condition_numbers(order):
    x = draw(2, 3, 4)
    for dims in ((-2, -1), (0, 2), (2, 1)):
        wanted = np.linalg.norm(x, order, dims)
        close(torch.linalg.matrix_norm(torch.tensor(x), order, dims), wanted)
        close(torch.linalg.norm(torch.tensor(x), order, dims, keepdim=True), np.linalg.norm(x, order, dims, True))
    close(torch.linalg.norm(torch.tensor(x[0]), order), np.linalg.norm(x[0], order))
    if order in ("fro", "nuc"):
        close(torch.norm(torch.tensor(x[0]), order), np.linalg.norm(x[0], order))
    close(torch.linalg.cond(torch.tensor(x[..., :3]), order), np.linalg.cond(x[..., :3], order))
    given = torch.tensor(draw(3, 3)).requires_grad_()
    assert gradcheck(lambda x: torch.linalg.matrix_norm(x, order), (given,))
    assert gradcheck(lambda x: torch.linalg.cond(x, order), (given,))


def test_condition_of_the_singular_is_infinite():
    x = torch.stack([torch.eye(2), torch.ones(2, 2)])
    for order in (1, "fro", "nuc"):
        assert torch.linalg.cond(x, order).isinf().tolist() == [False, True]
    for order in (1, -1, "fro", math.inf):
        assert torch.linalg.cond(torch.zeros(3, 3), order).isinf()
    assert torch.linalg.cond(torch.ones(2, 0, 0)).tolist() == [0, 0]


def test_vector_norms_have_all_arguments():
    x = torch.tensor(draw(3, 4))
    close(torch.linalg.vector_norm(x, 3, (0, 1)), (np.abs(x.numpy()) ** 3).sum() ** (1 / 3))
    close(torch.linalg.vector_norm(x, dim=0, keepdim=True), np.linalg.norm(x.numpy(), axis=0, keepdims=True))
    assert torch.linalg.vector_norm(x.float(), dtype=torch.float64).dtype is torch.float64
    out = torch.empty(0, dtype=torch.float64)
    assert torch.linalg.vector_norm(x, math.inf, out=out) is out
    close(out, np.abs(x.numpy()).max())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        close(torch.frobenius_norm(x, 0), np.linalg.norm(x.numpy(), axis=0))
        close(torch.nuclear_norm(x), np.linalg.norm(x.numpy(), "nuc"))
    assert [w.category for w in caught] == [UserWarning, UserWarning]


def test_renorm_scales_what_is_longer():
    x = torch.tensor(draw(2, 3, 4)).requires_grad_()
    for p in (1, 2, 2.5, math.inf):
        found = torch.renorm(x, p, 1, 2.0)
        norms = torch.linalg.vector_norm(x, p, (0, 2), keepdim=True)
        close(found, (x * torch.where(norms > 2, 2 / (norms + 1e-7), 1)).detach().numpy())
        assert gradcheck(lambda x, p=p: torch.renorm(x, p, 1, 2.0), (x,))
    y = x.detach().clone()
    assert y.renorm_(2, 1, 2.0) is y
    close(torch.func.vmap(lambda x: torch.renorm(x, 2, 0, 1.0))(y)[1], torch.renorm(y[1], 2, 0, 1.0).numpy())


def test_dist_is_the_norm_of_the_difference():
    x, y = draw(3, 4), draw(4, seed=1)
    for p in (0, 1, 2, 3.5, math.inf):
        close(torch.dist(torch.tensor(x), torch.tensor(y), p), np.linalg.norm((x - y).ravel(), p))


# -- statistics ------------------------------------------------------------------------------------------


def test_covariances_with_weights():
    x, often, much = draw(3, 5), np.array([1, 2, 3, 1, 2]), np.array([0.1, 0.2, 1, 0.5, 2])
    ours = [torch.tensor(a) for a in (x, often, much)]
    close(torch.cov(ours[0]), np.cov(x))
    for correction in (0, 1, 2):
        found = torch.cov(ours[0], correction=correction, fweights=ours[1], aweights=ours[2])
        close(found, np.cov(x, ddof=correction, fweights=often, aweights=much))
    close(torch.corrcoef(ours[0]), np.corrcoef(x))
    close(torch.cov(ours[0][0]), np.cov(x[0]))
    assert torch.corrcoef(ours[0][0]).item() == 1
    with pytest.warns(UserWarning, match="degrees of freedom is <= 0"):
        assert torch.cov(torch.ones(2, 1)).isnan().all()
    assert gradgradcheck(torch.corrcoef, (ours[0].requires_grad_(),))


# -- products --------------------------------------------------------------------------------------------


def test_chains_are_multiplied_in_any_order():
    sizes = [3, 7, 2, 9, 1, 4]
    factors = [draw(n, m, seed=n) for n, m in zip(sizes, sizes[1:], strict=False)]
    ours = [torch.tensor(f) for f in factors]
    close(torch.linalg.multi_dot(ours), np.linalg.multi_dot(factors))
    ends = [ours[0][0], *ours[1:-1], ours[-1][:, 0]]
    close(torch.linalg.multi_dot(ends), np.linalg.multi_dot(factors)[0, 0])
    with pytest.warns(UserWarning, match="torch.chain_matmul is deprecated"):
        close(torch.chain_matmul(*ours), np.linalg.multi_dot(factors))


def test_powers_of_matrices():
    x = draw(2, 3, 3)
    for n in (-3, -1, 0, 1, 2, 3, 4, 7, 10):
        np.testing.assert_allclose(
            torch.linalg.matrix_power(torch.tensor(x), n).numpy(), np.linalg.matrix_power(x, n), rtol=1e-9, atol=1e-9
        )
        assert gradcheck(lambda x, n=n: torch.matrix_power(x, n), (torch.tensor(x).requires_grad_(),), rtol=1e-2)
    assert torch.matrix_power(torch.ones(2, 2).long(), 3).tolist() == [[4, 4], [4, 4]]


def test_sums_of_products():
    m, x, y = draw(2, 3), draw(4, 2, 5), draw(4, 5, 3, seed=1)
    ours = [torch.tensor(a) for a in (m, x, y)]
    close(torch.addbmm(*ours, beta=0.5, alpha=2), 0.5 * m + 2 * (x @ y).sum(0))
    close(torch.addr(ours[0], ours[1][0, :, 0], ours[2][0, 0], alpha=-1), m - np.outer(x[0, :, 0], y[0, 0]))
    assert torch.addr(torch.full((2, 2), math.nan), torch.ones(2), torch.ones(2), beta=0).tolist() == [[1, 1], [1, 1]]
    assert torch.addr(torch.zeros(2, 2).long(), torch.arange(2), torch.arange(2), alpha=3).tolist() == [[0, 0], [0, 3]]
    truth = torch.tensor([True, False])
    assert torch.addr(torch.zeros(2, 2).bool(), truth, truth).tolist() == [[True, False], [False, False]]
    changed = ours[0].clone()
    assert changed.addbmm_(*ours[1:]) is changed
    close(changed.addr_(ours[1][0, :, 0], ours[2][0, 0]), m + (x @ y).sum(0) + np.outer(x[0, :, 0], y[0, 0]))


def test_kron_vecdot_cross_and_powers_of_elements():
    x, y = draw(2, 3), draw(4, 1, 3, seed=1)
    close(torch.kron(torch.tensor(x), torch.tensor(y)), np.kron(x, y))
    z = torch.tensor(x + 1j * draw(2, 3, seed=2))
    np.testing.assert_allclose(torch.linalg.vecdot(z, z, dim=0).numpy(), (np.abs(z.numpy()) ** 2).sum(0))
    close(torch.linalg.cross(torch.tensor(x)[None], torch.tensor(y)), np.cross(x, y))
    close(torch.linalg.cross(torch.tensor(draw(3, 2)), torch.tensor(draw(3, 2, seed=1)), dim=0),
          np.cross(draw(3, 2), draw(3, 2, seed=1), axis=0))  # fmt: skip
    close(torch.vander(torch.tensor(x[0])), np.vander(x[0]))
    close(torch.vander(torch.tensor(x[0]), 5, increasing=True), np.vander(x[0], 5, increasing=True))
    close(torch.linalg.vander(torch.tensor(x), N=2), np.stack([np.ones((2, 3)), x], -1))
    assert torch.linalg.diagonal(torch.tensor(x), offset=1).tolist() == [x[0, 1], x[1, 2]]
    assert (torch.tensor(x).__rmatmul__(torch.eye(2, dtype=torch.float64))).tolist() == x.tolist()
