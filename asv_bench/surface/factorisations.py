"""Cases: factorisations of matrices and what is solved by them; of a million elements as a thousand by a thousand."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Case

__all__ = ["CASES"]


def _matrix(rng: np.random.Generator, n: int) -> list[Any]:
    """A square matrix, well away from singular."""
    side = max(int(n**0.5), 2)
    return [(rng.standard_normal((side, side)) + 3 * np.eye(side) * side**0.5).astype(np.float32)]


def _batch(rng: np.random.Generator, n: int) -> list[Any]:
    """As many matrices of 4 x 4."""
    count = max(n // 16, 1)
    return [(rng.standard_normal((count, 4, 4)) + 6 * np.eye(4)).astype(np.float32)]


def _definite(rng: np.random.Generator, n: int) -> list[Any]:
    (x,) = _matrix(rng, n)
    return [(x @ x.T + np.eye(len(x))).astype(np.float32)]


def _system(rng: np.random.Generator, n: int) -> list[Any]:
    (x,) = _matrix(rng, n)
    return [x, rng.standard_normal((len(x), max(len(x) // 4, 1))).astype(np.float32)]


def _tall(rng: np.random.Generator, n: int) -> list[Any]:
    side = max(int((n / 4) ** 0.5), 1)
    return [rng.standard_normal((4 * side, side)).astype(np.float32)]


def _tall_system(rng: np.random.Generator, n: int) -> list[Any]:
    (x,) = _tall(rng, n)
    return [x, rng.standard_normal((len(x), 2)).astype(np.float32)]


CASES = {
    "linalg.cholesky": Case(_definite, lambda lib, a: lib.linalg.cholesky(a)),
    "linalg.cholesky of 4 x 4": Case(
        lambda rng, n: [x @ x.swapaxes(-1, -2) for x in _batch(rng, n)], lambda lib, a: lib.linalg.cholesky(a)
    ),
    "cholesky_solve": Case(_system, lambda lib, a, b: lib.cholesky_solve(b, a)),
    "cholesky_inverse": Case(_matrix, lambda lib, a: lib.cholesky_inverse(a)),
    "linalg.inv": Case(_matrix, lambda lib, a: lib.linalg.inv(a)),
    "linalg.inv of 4 x 4": Case(_batch, lambda lib, a: lib.linalg.inv(a)),
    "linalg.det": Case(lambda rng, n: [x / 1e2 for x in _matrix(rng, n)], lambda lib, a: lib.linalg.det(a)),
    "linalg.det of 4 x 4": Case(_batch, lambda lib, a: lib.linalg.det(a)),
    "linalg.slogdet": Case(_matrix, lambda lib, a: lib.linalg.slogdet(a)),
    "logdet": Case(_definite, lambda lib, a: lib.logdet(a)),
    "linalg.solve": Case(_system, lambda lib, a, b: lib.linalg.solve(a, b)),
    "linalg.solve of 4 x 4": Case(
        lambda rng, n: [*_batch(rng, n), rng.standard_normal((max(n // 16, 1), 4)).astype(np.float32)],
        lambda lib, a, b: lib.linalg.solve(a, b),
    ),
    "linalg.solve_triangular": Case(_system, lambda lib, a, b: lib.linalg.solve_triangular(a, b, upper=True)),
    "linalg.lu_factor": Case(_matrix, lambda lib, a: lib.linalg.lu_factor(a)),
    "linalg.lu": Case(_matrix, lambda lib, a: lib.linalg.lu(a)),
    "linalg.lu_solve": Case(_system, lambda lib, a, b: lib.linalg.lu_solve(*lib.linalg.lu_factor(a), b)),
    "linalg.ldl_factor": Case(_definite, lambda lib, a: lib.linalg.ldl_factor(a), backward=False),
    "linalg.qr": Case(_tall, lambda lib, a: lib.linalg.qr(a)),
    "geqrf": Case(_tall, lambda lib, a: lib.geqrf(a), backward=False),
    "linalg.householder_product": Case(
        lambda rng, n: [*(x / 9 for x in _tall(rng, n)), np.full(_tall(rng, n)[0].shape[1], 0.1, np.float32)],
        lambda lib, a, tau: lib.linalg.householder_product(a, tau), most=100_000,
    ),
    "linalg.lstsq": Case(_tall_system, lambda lib, a, b: lib.linalg.lstsq(a, b).solution),
    "linalg.lstsq, gelsd": Case(
        _tall_system, lambda lib, a, b: lib.linalg.lstsq(a, b, driver="gelsd").solution, backward=False
    ),
}  # fmt: skip
