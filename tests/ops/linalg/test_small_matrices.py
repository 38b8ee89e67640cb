"""Factorisations of real matrices on both sides of the size up to which loops take LAPACK's place."""

import math

import numpy as np
import pytest

import jitgrad as torch

SIZES = [1, 2, 5, 31, 32, 33]
BATCHES = [(), (3,), (2, 2)]


def _made(batch, *sizes, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).standard_normal((*batch, *sizes)).astype(dtype)


def _close(found, expected, dtype=np.float64):
    found = found.numpy()
    scale = max(np.abs(expected).max(), 1)
    assert found.shape == expected.shape and np.abs(found - expected).max() / scale < (
        2e-4 if dtype is np.float32 else 1e-11
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("n", SIZES)
def test_cholesky(n, batch, dtype):
    a = _made(batch, n, n)
    definite = (a @ a.swapaxes(-1, -2) + n * np.eye(n)).astype(dtype)
    lower = np.linalg.cholesky(definite.astype(np.float64))
    for upper in (False, True):
        one = np.triu(definite) if upper else np.tril(definite)  # of the other triangle nothing is read
        found = torch.linalg.cholesky(torch.from_numpy(one), upper=upper)
        _close(found, lower.swapaxes(-1, -2) if upper else lower, dtype)
    _close(torch.linalg.cholesky(torch.from_numpy(definite).mT.contiguous().mT), lower, dtype)


@pytest.mark.parametrize("bad", [-1.0, 0.0, math.nan])
@pytest.mark.parametrize("n", [3, 33])
def test_the_first_minor_that_is_not_definite(n, bad):
    for place in (0, n // 2, n - 1):
        a = np.stack([np.eye(n), np.eye(n)])
        a[1, place, place] = bad
        assert torch.linalg.cholesky_ex(torch.from_numpy(a)).info.tolist() == [0, place + 1]
        with pytest.raises(torch.linalg.LinAlgError, match=rf"Batch element 1.*order {place + 1} "):
            torch.linalg.cholesky(torch.from_numpy(a))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize(("m", "n"), [(1, 1), (4, 4), (2, 5), (5, 2), (32, 32), (33, 33), (200, 5), (3, 400)])
def test_lu(m, n, batch, dtype):
    a = _made(batch, m, n, dtype=dtype)
    for t in (torch.from_numpy(a), torch.from_numpy(np.ascontiguousarray(a.swapaxes(-1, -2))).mT):
        p, lower, u = torch.linalg.lu(t)
        _close(p @ lower @ u, a, dtype)
        assert (lower.abs() <= 1).all() and torch.linalg.lu_factor_ex(t).info.count_nonzero().item() == 0


@pytest.mark.parametrize("n", [2, 40])
def test_singular_matrices(n):
    a = torch.eye(n, dtype=torch.float64)
    a[1, 1] = 0
    assert torch.linalg.lu_factor_ex(a).info.item() == torch.linalg.inv_ex(a).info.item() == 2
    assert torch.linalg.det(a).item() == 0
    for function in (torch.linalg.inv, torch.linalg.lu_factor, lambda x: torch.linalg.solve(x, x)):
        with pytest.raises(RuntimeError):
            function(a)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("n", SIZES)
def test_solutions_and_inverses(n, batch, dtype):
    a, b = _made(batch, n, n, dtype=dtype) + 2 * n * np.eye(n, dtype=dtype), _made(batch, n, 3, dtype=dtype, seed=1)
    exact, x, y = a.astype(np.float64), torch.from_numpy(a), torch.from_numpy(b)
    _close(torch.linalg.inv(x), np.linalg.inv(exact), dtype)
    _close(torch.linalg.solve(x, y), np.linalg.solve(exact, b), dtype)
    _close(torch.linalg.solve(x, y[..., 0]), np.linalg.solve(exact, b)[..., 0], dtype)
    turned = np.linalg.solve(exact.swapaxes(-1, -2), b).swapaxes(-1, -2)
    _close(torch.linalg.solve(x, y.mT, left=False), turned, dtype)
    _close(torch.linalg.lu_solve(*torch.linalg.lu_factor(x), y, adjoint=True), turned.swapaxes(-1, -2), dtype)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("n", SIZES)
def test_triangular_systems(n, left, upper, unit):
    for batch in BATCHES:
        a, b = _made(batch, n, n) / n + 2 * np.eye(n), _made(batch, *((n, 3) if left else (3, n)), seed=1)
        triangle = np.triu(a, int(unit)) if upper else np.tril(a, -int(unit))
        triangle = triangle + np.eye(n) * unit
        expected = np.linalg.inv(triangle) @ b if left else b @ np.linalg.inv(triangle)
        for t in (torch.from_numpy(a), torch.from_numpy(np.ascontiguousarray(a.swapaxes(-1, -2))).mT):
            found = torch.linalg.solve_triangular(
                t, torch.from_numpy(b), upper=upper, left=left, unitriangular=unit
            )
            _close(found, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize(("m", "n"), [(1, 1), (4, 4), (2, 5), (5, 2), (32, 32), (33, 33), (200, 5), (3, 400)])
def test_qr(m, n, batch, dtype):
    a = _made(batch, m, n, dtype=dtype)
    for mode in ("reduced", "complete"):
        q, r = torch.linalg.qr(torch.from_numpy(a), mode)
        _close(q @ r, a, dtype)
        _close(q.mT @ q, np.broadcast_to(np.eye(q.shape[-1]), (*batch, *[q.shape[-1]] * 2)), dtype)
        assert r.equal(r.triu())
    _close(r, np.linalg.qr(a.astype(np.float64), mode)[1], dtype)  # with LAPACK's signs


def test_reflectors_of_extreme_and_special_numbers():
    for size in (1e300, 1e-300):
        q, r = torch.linalg.qr(torch.tensor([[3.0, 1.0], [4.0, 2.0]], dtype=torch.float64) * size)
        assert math.isclose(r[0, 0].item(), -5 * size, rel_tol=1e-12)
        assert torch.allclose(q.mT @ q, torch.eye(2, dtype=torch.float64))
    _, tau = torch.geqrf(torch.tensor([[-2.0, 1.0], [0.0, 3.0]]))
    assert tau.tolist() == [0, 0]  # nothing to reflect: signs stay
    assert torch.linalg.qr(torch.zeros(3, 2)).R.tolist() == [[0, 0], [0, 0]]
    assert torch.linalg.qr(torch.tensor([[1.0, 2.0], [math.nan, 3.0]])).R.isnan().any()
