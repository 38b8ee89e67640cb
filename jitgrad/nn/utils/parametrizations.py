"""Ready-made parametrisations: orthogonal matrices, weight and spectral normalisation."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

import jitgrad
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.missing_names import explain_missing_names
from jitgrad.core.tensor import Tensor
from jitgrad.nn import functional as F
from jitgrad.nn.modules.module import Module
from jitgrad.nn.utils import parametrize
from jitgrad.nn.utils.spectral_norm import output_dim
from jitgrad.ops.nn.weight_norm import norm_except_dim
from jitgrad.ops.nn.weight_norm import weight_norm as of_length

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

explain_missing_names(__name__)


def _is_orthogonal(Q: Tensor) -> bool:
    """Whether the columns of matrices are orthonormal, but for rounding."""
    n, k = Q.size(-2), Q.size(-1)
    identity = jitgrad.eye(k, dtype=Q.dtype, device=Q.device)
    return jitgrad.allclose(Q.mH @ Q, identity, atol=10.0 * n * jitgrad.finfo(Q.dtype).eps)


def _make_orthogonal(A: Tensor) -> Tensor:
    """Orthonormal columns that span those of ``A``, with signs that make the factor R of A = Q R positive."""
    X, tau = jitgrad.geqrf(A)
    Q = jitgrad.linalg.householder_product(X, tau)
    return Q * X.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _OrthMaps(Enum):
    matrix_exp = auto()
    cayley = auto()
    householder = auto()


class _Orthogonal(Module):
    """Orthogonal matrices of any ones.

    The lower triangle gives a skew-Hermitian A, and that exp(A) or Cayley's (1 - A/2)^-1 (1 + A/2), or else it holds
    Householder's reflections. With ``base`` the result is base @ Q: that is what is assigned, and Q starts from 1.
    """

    base: Tensor

    def __init__(self, weight: Tensor, orthogonal_map: _OrthMaps, *, use_trivialization: bool = True):
        super().__init__()
        # Householder's reflections of complex numbers would need other formulas than LAPACK's.
        if weight.is_complex() and orthogonal_map is _OrthMaps.householder:
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        """A matrix with orthonormal columns, or rows if it is wide."""
        wide = X.size(-2) < X.size(-1)
        X = X.mT if wide else X
        Q = self._reflected(X) if self.orthogonal_map is _OrthMaps.householder else self._of_skew(X)
        if hasattr(self, "base"):
            Q = self.base @ Q
        return Q.mT if wide else Q

    def _of_skew(self, X: Tensor) -> Tensor:
        n, k = X.size(-2), X.size(-1)
        X = X.tril()
        if n != k:
            X = jitgrad.cat([X, X.new_zeros(n, n - k).expand(*X.shape[:-2], -1, -1)], dim=-1)
        A = X - X.mH
        if self.orthogonal_map is _OrthMaps.matrix_exp:
            Q = jitgrad.matrix_exp(A)
        else:
            identity = jitgrad.eye(n, dtype=A.dtype, device=A.device)
            left, right = (jitgrad.add(identity, A, alpha=alpha) for alpha in (-0.5, 0.5))
            Q = jitgrad.linalg.solve(left, right)
        return Q[..., :k] if n != k else Q

    def _reflected(self, X: Tensor) -> Tensor:
        A = X.tril(diagonal=-1)
        tau = 2.0 / (1.0 + (A * A).sum(dim=-2))
        Q = jitgrad.linalg.householder_product(A, tau)
        # The diagonal holds signs, 1 or -1, which have no gradient.
        return Q * X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        """What gives ``Q`` back; with ``base`` any matrix may be given, and the nearest in its span becomes it."""
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}."
            )
        wide = Q.size(-2) < Q.size(-1)
        tall = Q.mT if wide else Q
        if not hasattr(self, "base"):
            if self.orthogonal_map is not _OrthMaps.householder:
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                    "use_trivialization=False."
                )
            A, tau = jitgrad.geqrf(tall)
            # Of an orthogonal matrix R's diagonal are signs; where LAPACK reflected nothing (tau = 0) they are turned.
            A.diagonal(dim1=-2, dim2=-1).sign_()
            A.diagonal(dim1=-2, dim2=-1)[tau == 0.0] *= -1
            return A.mT if wide else A
        n, k = tall.size(-2), tall.size(-1)
        if n != k:
            rest = jitgrad.randn(*tall.size()[:-2], n, n - k, dtype=Q.dtype, device=Q.device)
            self.base = _make_orthogonal(jitgrad.cat([tall, rest], dim=-1))
        else:
            self.base = tall.clone() if _is_orthogonal(tall) else _make_orthogonal(tall)
        # -1 on the diagonal is the start of Householder's reflections; the other maps take it for a zero.
        start = jitgrad.zeros_like(Q)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return start


def _tensor_of(module: Any, name: str) -> Tensor:
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return weight


def orthogonal(
    module: Any, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Any:
    """Let a matrix, or each of a batch, have orthonormal columns, or rows if it is wide. Returns the module.

    ``orthogonal_map``: "matrix_exp" (for square and complex ones the default), "cayley" or "householder".
    ValueError for vectors, other maps, and Householder's of complex matrices.
    """
    weight = _tensor_of(module, name)
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    kind = getattr(_OrthMaps, orthogonal_map, None)
    if kind is None:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    made = _Orthogonal(weight, kind, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, made, unsafe=True)


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        """g v / |v|."""
        return of_length(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Lengths and directions."""
        return norm_except_dim(weight, 2, self.dim), weight


class _OldNames:
    """Lets a module load the state of one with the older ``nn.utils.weight_norm``."""

    def __init__(self, name: str):
        self.name = name

    def __call__(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        old = [f"{prefix}{self.name}_{part}" for part in ("g", "v")]
        if all(key in state_dict for key in old):
            for k, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{self.name}.original{k}"] = state_dict.pop(key)


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Let a tensor be g v / |v|, with lengths g of its slices along ``dim`` (None: one for all) and directions v.

    They are ``original0`` and ``original1``. Returns the module.
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    module._register_load_state_dict_pre_hook(_OldNames(name))
    return module


class _SpectralNorm(Module):
    """w / sigma, with sigma = u' W v and vectors that the power method improves in training."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12):
        super().__init__()
        ndim = weight.ndim
        if dim >= ndim or dim < -ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim, self.eps = dim if dim >= 0 else dim + ndim, eps
        if ndim > 1:  # a vector needs none of these: its largest singular value is its length
            self.n_power_iterations = n_power_iterations
            matrix = self._reshape_weight_to_matrix(weight)
            height, width = matrix.size()
            u, v = matrix.new_empty(height).normal_(0, 1), matrix.new_empty(width).normal_(0, 1)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            self._power_method(matrix, 15)

    def _reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        if self.dim != 0:
            weight = weight.permute(self.dim, *[d for d in range(weight.dim()) if d != self.dim])
        return weight.flatten(1)

    @no_grad()
    def _power_method(self, matrix: Tensor, n_power_iterations: int) -> None:
        for _ in range(n_power_iterations):  # in place: copies of the module for several devices share the vectors
            self._u = F.normalize(jitgrad.mv(matrix, self._v), dim=0, eps=self.eps, out=self._u)
            self._v = F.normalize(jitgrad.mv(matrix.mH, self._u), dim=0, eps=self.eps, out=self._v)

    def forward(self, weight: Tensor) -> Tensor:
        """The weight over its largest singular value."""
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._reshape_weight_to_matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # Copies: the next forward writes the vectors before the backward of this one may have run.
        u, v = self._u.clone(), self._v.clone()
        return weight / jitgrad.vdot(u, jitgrad.mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        """The value itself, which is taken to be normalised."""
        return value


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """Let a tensor be itself over its largest singular value, as a matrix with a row for each output.

    ``dim``: that of the outputs, by default 0, and 1 for transposed convolutions. Returns the module.
    """
    made = _SpectralNorm(_tensor_of(module, name), n_power_iterations, output_dim(module, dim), eps)
    return parametrize.register_parametrization(module, name, made)
