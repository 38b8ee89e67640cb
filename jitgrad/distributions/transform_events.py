"""Transforms of vectors and matrices, and those that treat the pieces of a tensor each in its own way."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import Any

import jitgrad
from jitgrad.core.tensor import Tensor
from jitgrad.distributions import constraints
from jitgrad.distributions.transform_base import Transform, Unparametrised, remade, require_dims
from jitgrad.distributions.utils import (
    _sum_rightmost,
    clipped_sigmoid,
    lazy_property,
    tril_matrix_to_vec,
    vec_to_tril_matrix,
)  # fmt: skip

__all__ = [
    "CatTransform", "CorrCholeskyTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform", "SoftmaxTransform",
    "StackTransform", "StickBreakingTransform",
]  # fmt: skip


def _after_one(x: Tensor) -> Tensor:
    """A row of ``x`` without its last element, after a 1."""
    return jitgrad.constant_pad_nd(x[..., :-1], [1, 0], 1)


class CorrCholeskyTransform(Transform):
    """Vectors of n (n - 1) / 2 numbers to Cholesky factors of n x n correlation matrices.

    The numbers' tanh are partial correlations: each takes its share of what is left of the row's length, 1.
    """

    domain: Any = constraints.real_vector
    codomain: Any = constraints.corr_cholesky
    bijective = True

    def _call(self, x):
        eps = jitgrad.finfo(x.dtype).eps
        r = vec_to_tril_matrix(jitgrad.tanh(x).clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - r**2).sqrt().cumprod(-1)
        return (r + jitgrad.eye(r.shape[-1], dtype=r.dtype, device=r.device)) * _after_one(left)

    def _inverse(self, y):
        left = _after_one(1 - jitgrad.cumsum(y * y, dim=-1))
        t = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (t.log1p() - t.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x, y, intermediates=None):
        left = tril_matrix_to_vec(1 - (y * y).cumsum(dim=-1), diag=-2)
        of_tanh = x + jitgrad.nn.functional.softplus(-2 * x) - math.log(2.0)
        return 0.5 * left.log().sum(-1) - 2 * of_tanh.sum(dim=-1)

    def forward_shape(self, shape):
        require_dims(shape, 1)
        n = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != shape[-1]:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return shape[:-1] + (n, n)

    def inverse_shape(self, shape):
        require_dims(shape, 2)
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return shape[:-2] + (shape[-1] * (shape[-1] - 1) // 2,)


class SoftmaxTransform(Unparametrised):
    """y = exp(x) / sum(exp(x)), of which x = log(y) is an inverse; not bijective."""

    domain: Any = constraints.real_vector
    codomain: Any = constraints.simplex

    def _call(self, x):
        probs = (x - x.max(-1, True)[0]).exp()
        return probs / probs.sum(-1, True)

    def _inverse(self, y):
        return y.log()

    def forward_shape(self, shape):
        require_dims(shape, 1)
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(Unparametrised):
    """Vectors to points of the simplex with one more element: each takes a share of what is left of 1."""

    domain: Any = constraints.real_vector
    codomain: Any = constraints.simplex
    bijective = True

    @staticmethod
    def _log_offset(x: Tensor, n: int) -> Tensor:
        """log of n, n - 1, ..., 1: with it x = 0 maps to equal elements."""
        return (n + 1 - x.new_ones(n).cumsum(-1)).log()

    def _call(self, x):
        z = clipped_sigmoid(x - self._log_offset(x, x.shape[-1]))
        left = (1 - z).cumprod(-1)
        return jitgrad.constant_pad_nd(z, [0, 1], 1) * jitgrad.constant_pad_nd(left, [1, 0], 1)

    def _inverse(self, y):
        first = y[..., :-1]
        left = (1 - first.cumsum(-1)).clamp(min=jitgrad.finfo(y.dtype).tiny)
        return first.log() - left.log() + self._log_offset(y, first.shape[-1])

    def log_abs_det_jacobian(self, x, y):
        x = x - self._log_offset(x, x.shape[-1])
        return (-x + jitgrad.nn.functional.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape):
        require_dims(shape, 1)
        return shape[:-1] + (shape[-1] + 1,)

    def inverse_shape(self, shape):
        require_dims(shape, 1)
        return shape[:-1] + (shape[-1] - 1,)


class LowerCholeskyTransform(Unparametrised):
    """Square matrices to lower triangular ones with a positive diagonal, its exponential."""

    domain: Any = constraints.independent(constraints.real, 2)
    codomain: Any = constraints.lower_cholesky

    def _call(self, x):
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y):
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Unparametrised):
    """Square matrices to positive definite ones, whose Cholesky factors ``LowerCholeskyTransform`` makes."""

    domain: Any = constraints.independent(constraints.real, 2)
    codomain: Any = constraints.positive_definite

    def _call(self, x):
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y):
        return LowerCholeskyTransform().inv(jitgrad.linalg.cholesky(y))


class _Pieces(Transform):
    """Transforms of the pieces of a tensor along ``dim``. AssertionError where the tensor has no such pieces."""

    transforms: list[Transform]
    dim: int

    def _set(self, tseq: Any, dim: int, cache_size: int) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        Transform.__init__(self, cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    def _check_pieces(self, x: Tensor, name: str, size: int, text: str) -> None:
        if not -x.dim() <= self.dim < x.dim():
            raise AssertionError(f"dim {self.dim} out of range for {name} with {x.dim()} dimensions")
        if x.size(self.dim) != size:
            label = name if name in "xy" else "x"
            raise AssertionError(f"{label}.size({self.dim}) = {x.size(self.dim)} must equal {text} {size}")

    def _pieces(self, x: Tensor, name: str = "tensor") -> list[Tensor]:
        raise NotImplementedError

    @property
    def bijective(self):
        """Whether all are."""
        return all(t.bijective for t in self.transforms)


class CatTransform(_Pieces):
    """One transform for each part of a tensor, the parts of sizes ``lengths`` (ones by default) along ``dim``."""

    with_cache = remade("transforms", "dim", "lengths")

    def __init__(self, tseq: Any, dim: int = 0, lengths: Any = None, cache_size: int = 0):
        self._set(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})")

    @lazy_property
    def event_dim(self):
        return max(t.event_dim for t in self.transforms)

    @lazy_property
    def length(self):
        return sum(self.lengths)

    def _pieces(self, x, name="tensor"):
        self._check_pieces(x, name, self.length, "length")
        starts = accumulate([0, *self.lengths[:-1]])
        return [x.narrow(self.dim, start, length) for start, length in zip(starts, self.lengths)]

    def _call(self, x):
        return jitgrad.cat([t(piece) for t, piece in zip(self.transforms, self._pieces(x))], dim=self.dim)

    def _inverse(self, y):
        return jitgrad.cat([t.inv(piece) for t, piece in zip(self.transforms, self._pieces(y))], dim=self.dim)

    def log_abs_det_jacobian(self, x, y):
        terms = [
            _sum_rightmost(t.log_abs_det_jacobian(*pieces), self.event_dim - t.event_dim)
            for t, *pieces in zip(self.transforms, self._pieces(x, "x"), self._pieces(y, "y"))
        ]
        # Parts that lie along a batch dim stay beside each other; those within an event are summed.
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + self.event_dim
        return jitgrad.cat(terms, dim=dim) if dim < 0 else sum(terms)

    @constraints.dependent_property
    def domain(self):
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self):
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_Pieces):
    """One transform for each slice of a tensor along ``dim``."""

    with_cache = remade("transforms", "dim")

    def __init__(self, tseq: Any, dim: int = 0, cache_size: int = 0):
        self._set(tseq, dim, cache_size)

    def _pieces(self, x, name="tensor"):
        self._check_pieces(x, name, len(self.transforms), "len(transforms)")
        return [x.select(self.dim, i) for i in range(x.size(self.dim))]

    def _call(self, x):
        return jitgrad.stack([t(piece) for t, piece in zip(self.transforms, self._pieces(x))], dim=self.dim)

    def _inverse(self, y):
        return jitgrad.stack([t.inv(piece) for t, piece in zip(self.transforms, self._pieces(y))], dim=self.dim)

    def log_abs_det_jacobian(self, x, y):
        pieces = zip(self.transforms, self._pieces(x, "x"), self._pieces(y, "y"))
        return jitgrad.stack([t.log_abs_det_jacobian(*pair) for t, *pair in pieces], dim=self.dim)

    @constraints.dependent_property
    def domain(self):
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self):
        return constraints.stack([t.codomain for t in self.transforms], self.dim)
