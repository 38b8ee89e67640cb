"""A few of the largest or smallest eigenvalues of a symmetric matrix, which is only multiplied with."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

from jitgrad.core.dtypes import float32, float64
from jitgrad.core.errors import LinAlgError
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.registry import public, published
from jitgrad.ops.linalg.decompositions import is_recorded
from jitgrad.ops.linalg.eigen import linalg_eigh
from jitgrad.ops.linalg.matmul import matmul
from jitgrad.ops.shape.join import cat, stack

__all__: list[str] = []

_EPSILON = {float32: 1.2e-07, float64: 2.23e-16}


def _times(a: Tensor | None, x: Tensor) -> Tensor:
    """a x, where None is the identity."""
    return x if a is None else matmul(a, x)


class LOBPCG:
    """The state of an iteration, which a ``tracker`` gets.

    After Knyazev (2001): in each step the best vectors are taken (Rayleigh and Ritz) of what three blocks span: the
    last ones X, their preconditioned residuals W and the last directions P. That S = [X, W, P] has columns that are
    B-orthonormal, of which those are left out that depend on others (Stathopoulos and Wu, 2002).
    """

    def __init__(self, A: Tensor, B: Tensor | None, iK: Tensor | None, X: Tensor, iparams: dict[str, int],
                 fparams: dict[str, float], bparams: dict[str, bool], method: str, tracker: Any):  # fmt: skip
        self.A, self.B, self.iK, self.X = A, B, iK, X
        self.iparams, self.fparams, self.bparams = dict(iparams), dict(fparams), dict(bparams)
        self.method, self.tracker = method, tracker
        self.ivars = {"istep": 0, "iterations_left": iparams["niter"], "converged_count": 0}
        self.fvars: dict[str, float] = {}
        self.bvars: dict[str, bool] = {}
        self.tvars: dict[str, Tensor] = {}
        self.E, self.R, self.P = X.new_zeros((X._layout.shape[-1],)), X, X[:, :0]
        self.S = X

    def run(self) -> None:
        """Iterate until as many pairs as wanted have converged, or there are no steps left."""
        norm = float(self.X.norm())
        self.fvars |= {"X_norm": norm, "A_norm": float(matmul(self.A, self.X).norm()) / norm,
                       "B_norm": float(_times(self.B, self.X).norm()) / norm}  # fmt: skip
        self.S = self._orthonormal(self.X, self.X[:, :0])
        if self.S._layout.shape[-1] < self.X._layout.shape[-1]:
            raise LinAlgError("lobpcg: the columns of X are linearly dependent")
        self._best(self.X._layout.shape[-1])
        while not self._has_ended():
            self._step()

    def _has_ended(self) -> bool:
        """Note how far the pairs are, tell the tracker, and whether that was enough."""
        scale = self.X.norm(dim=0) * (self.fvars["A_norm"] + self.E.abs() * self.fvars["B_norm"])
        errors = self.tvars["rerr"] = self.R.norm(dim=0) / scale
        small = itertools.takewhile(lambda error: error < self.fparams["tol"], errors.tolist())
        self.ivars["converged_count"] = len(list(small))
        self.bvars["force_stop"] = False
        if self.tracker is not None and self.ivars["istep"]:
            self.tracker(self)
        enough = self.ivars["converged_count"] >= self.iparams["k"]
        return self.bvars["force_stop"] or enough or self.ivars["iterations_left"] == 0

    def _step(self) -> None:
        done = self.ivars["converged_count"]
        residuals = _times(self.iK, self.R[:, done:])
        known = cat([self.X, self._orthonormal(residuals, self.X)], -1)
        self.S = cat([known, self._orthonormal(self.P, known)], -1)
        self._best(self.X._layout.shape[-1])
        self.ivars["istep"] += 1
        self.ivars["iterations_left"] -= 1

    def _best(self, n: int) -> None:
        """Take the ``n`` extreme pairs within the span of S; P is what they have besides X, for the open pairs."""
        values, vectors = linalg_eigh(matmul(self.S.mT, matmul(self.A, self.S)))
        if self.bparams["largest"]:
            values, vectors = values.flip(-1), vectors.flip(-1)
        self.E, vectors = values[:n], vectors[:, :n]
        self.X = matmul(self.S, vectors)
        self.P = matmul(self.S[:, n:], vectors[n:, self.ivars["converged_count"]:])
        self.R = matmul(self.A, self.X) - _times(self.B, self.X) * self.E

    def _orthonormal(self, u: Tensor, v: Tensor) -> Tensor:
        """B-orthonormal columns that span what ``u`` does beside ``v``, whose columns are B-orthonormal."""
        for _ in range(self.iparams["ortho_i_max"]):
            u = _of_length_one(u - matmul(v, matmul(v.mT, _times(self.B, u))))
            for _ in range(self.iparams["ortho_j_max"]):
                if not u._layout.shape[-1]:
                    return u
                values, vectors = linalg_eigh(matmul(u.mT, _times(self.B, u)))
                kept = values > values[-1].clamp(min=0) * (u._layout.shape[0] * self.fparams["ortho_tol_drop"] ** 2)
                u = matmul(u, vectors[:, kept]) / values[kept].sqrt()
                if float(values[0]) > 0.5 and float(values[-1]) < 2:
                    break
            if not float(matmul(v.mT, _times(self.B, u)).norm()) > self.fparams["ortho_tol"] ** 1.5:
                break
        return u


def _of_length_one(u: Tensor) -> Tensor:
    """Columns of length 1 but for those that are 0, which are left out."""
    lengths = u.norm(dim=0)
    kept = lengths > 0
    return u[:, kept] / lengths[kept]


def _polished(A: Tensor, B: Tensor | None, E: Tensor, X: Tensor) -> tuple[Tensor, Tensor]:
    """(E, X) after a step of Newton's on A x = e B x, x^T B x = 1, recorded: so derivatives come to them.

    The derivatives of order 1 are exact after the first step, those of order 2 and 3 after the second.
    """
    x, e = X.mT, E.unsqueeze(-1).unsqueeze(-1)
    shifted = A.unsqueeze(-3) - e * (_identity(A) if B is None else B.unsqueeze(-3))
    bx = _times(B, X).mT
    edge = -bx.unsqueeze(-1)
    corner = X.new_zeros((*E._layout.shape, 1, 1))
    system = cat([cat([shifted, edge], -1), cat([edge.mT, corner], -1)], -2)
    wrong = cat([matmul(shifted, x.unsqueeze(-1)).squeeze(-1), 0.5 - 0.5 * (x * bx).sum(-1, True)], -1)
    solve: Any = published("linalg.solve")
    change = solve(system, -wrong)
    return E + change[..., -1], X + change[..., :-1].mT


def _identity(A: Tensor) -> Tensor:
    return A.new_ones((A._layout.shape[-1],)).diag_embed()


def _check(A: Tensor, B: Tensor | None, X: Tensor | None, n: int) -> None:
    shape = A._layout.shape
    assert shape[-2] == shape[-1], f"A must be square, got shape {A.shape}"
    assert B is None or B.shape == A.shape, (
        f"A and B must have same shape, got {A.shape} vs {B.shape if B is not None else None}"
    )
    if shape[-1] < 3 * n:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={shape[-1]}) is smaller than 3 x the "
            f"number of requested eigenpairs (={n})"
        )
    wanted = (*shape[:-1], n)
    assert X is None or X._layout.shape == wanted, f"X shape mismatch: got {X.shape if X is not None else None}, " \
        f"expected {wanted}"  # fmt: skip


@partial(public, method_too=False)
def lobpcg(
    A: Tensor, k: int | None = None, B: Tensor | None = None, X: Tensor | None = None, n: int | None = None,
    iK: Tensor | None = None, niter: int | None = None, tol: float | None = None, largest: bool | None = None,
    method: str | None = None, tracker: Callable[[Any], None] | None = None,
    ortho_iparams: dict[str, int] | None = None, ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(E, X): ``k`` of the largest or smallest eigenvalues of symmetric A, or of A x = e B x, and their vectors.

    A is (*, m, m), dense or sparse, B the like, positive definite; E is (*, k), X (*, m, k) with X^T B X = I. The
    iteration starts at X (*, m, n) or at random columns, n = k unless told; iK (*, m, m) is about the inverse of A. It
    ends when residuals are below ``tol`` of the norms of what they are of (the root of the dtype's rounding unless
    told), or after ``niter`` steps (1000; -1: never). ``tracker`` is called after each step with the state, an LOBPCG,
    and may set ``bvars["force_stop"]``. Both of PyTorch's methods, "basic" and "ortho", are the latter one here.

    Gradients are those of the eigenvalue problem, whatever the iteration did; A is made symmetric for them, and has to
    have distinct values. ValueError if m < 3 n, AssertionError for shapes that do not fit, LinAlgError
    if columns of X depend on each other.
    """
    k = (1 if X is None else X._layout.shape[-1]) if k is None else k
    n = (k if n is None else n) if X is None else X._layout.shape[-1]
    _check(A, B, X, n)
    recorded = is_recorded(A) or (B is not None and is_recorded(B))
    if recorded:
        A = A.to_dense()
        A = (A + A.mT) * 0.5
    epsilon = _EPSILON[A.dtype if A.dtype in _EPSILON else float32] ** 0.5
    tol = epsilon if tol is None else tol
    integers = {"m": A._layout.shape[-1], "n": n, "k": k, "niter": 1000 if niter is None else niter,
                "ortho_i_max": 3, "ortho_j_max": 3} | (ortho_iparams or {})  # fmt: skip
    floats = {"tol": tol, "ortho_tol": epsilon, "ortho_tol_drop": epsilon, "ortho_tol_replace": epsilon}
    flags = {"largest": largest is not False, "ortho_use_drop": False} | (ortho_bparams or {})
    settings = integers, floats | (ortho_fparams or {}), flags, method or "ortho", tracker
    with no_grad():
        found = _iterated(A.detach(), B, iK, X, settings)
    for _ in range(2 * recorded):
        found = _polished(A, B, *found)
    return found[0][..., :k], found[1][..., :k]


def _iterated(A: Tensor, B: Tensor | None, iK: Tensor | None, X: Tensor | None, settings: Any) -> tuple[Tensor, Tensor]:
    """The pairs of each matrix of a batch."""
    shape, n = A._layout.shape, settings[0]["n"]
    dtype = A.dtype if A.dtype in _EPSILON else float32
    randn: Any = published("randn")
    pairs = []
    given: Any = (A, B, iK, X)
    for place in itertools.product(*map(range, shape[:-2])):
        a, b, inverse, start = (t[place] if place and t is not None else t for t in given)
        if start is None:
            start = randn(shape[-1], n, dtype=dtype, device=A.device)
        state = LOBPCG(a, b, inverse, start, *settings)
        state.run()
        pairs.append((state.E, state.X))
    if len(shape) == 2:
        return pairs[0]
    values, vectors = (stack(found).reshape(*shape[:-2], *found[0]._layout.shape) for found in zip(*pairs, strict=True))
    return values, vectors
