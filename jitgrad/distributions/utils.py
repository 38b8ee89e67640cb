"""What distributions share: broadcasting of parameters, probabilities and log-odds, properties computed once."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import update_wrapper
from typing import Any

import jitgrad
from jitgrad.core.grad_mode import enable_grad
from jitgrad.core.tensor import Tensor

__all__ = [
    "broadcast_all", "clamp_probs", "euler_constant", "lazy_property", "logits_to_probs", "probs_to_logits",
    "tril_matrix_to_vec", "vec_to_tril_matrix",
]  # fmt: skip

euler_constant = 0.57721566490153286060


def _is_tensor_like(value: Any) -> bool:
    return isinstance(value, Tensor) or hasattr(type(value), "__torch_function__")


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Tensors and numbers as tensors of one shape; numbers get the dtype of the first tensor, or the default one.

    ValueError for anything else.
    """
    if not all(_is_tensor_like(v) or isinstance(v, (bool, int, float)) for v in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__."
        )
    first = next((v for v in values if isinstance(v, Tensor)), None)
    options: dict[str, Any] = {"dtype": jitgrad.get_default_dtype()}
    if first is not None:
        options = {"dtype": first.dtype, "device": first.device}
    made = [v if _is_tensor_like(v) else jitgrad.tensor(v, **options) for v in values]
    return tuple(jitgrad.broadcast_tensors(*made))


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    return jitgrad.empty(shape, dtype=dtype, device=device).normal_()


def _sum_rightmost(value: Any, dim: int) -> Any:
    """The sum over the last ``dim`` dims."""
    return value if dim == 0 else value.reshape(value.shape[:-dim] + (-1,)).sum(-1)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of log-odds (``is_binary``), or of log-probabilities up to a constant along the last dim."""
    return jitgrad.sigmoid(logits) if is_binary else jitgrad.softmax(logits, -1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities at least the dtype's epsilon away from 0 and 1."""
    eps = jitgrad.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Log-odds (``is_binary``), or logarithms, of probabilities, which are clamped to keep them finite."""
    clamped = clamp_probs(probs)
    logarithm = jitgrad.log(clamped)
    return logarithm - jitgrad.log1p(-clamped) if is_binary else logarithm


def clipped_sigmoid(x: Tensor) -> Tensor:
    """The sigmoid, at least the smallest normal number and the dtype's epsilon away from 0 and 1."""
    finfo = jitgrad.finfo(x.dtype)
    return jitgrad.sigmoid(x).clamp(min=finfo.tiny, max=1.0 - finfo.eps)


class lazy_property:
    """A property computed when it is first read, with gradients recorded, and then kept as an attribute."""

    def __init__(self, wrapped: Callable[[Any], Any]):
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, obj_type: Any = None) -> Any:
        if instance is None:
            return _lazy_property_and_property(self.wrapped)
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class _lazy_property_and_property(lazy_property, property):
    """What a class shows for a ``lazy_property``: it is a property to tools that look for these."""

    def __init__(self, wrapped: Callable[[Any], Any]):
        property.__init__(self, wrapped)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The entries of matrices (..., n, n) on and below a diagonal, row by row, as vectors.

    ValueError for a diagonal outside of the matrix.
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = jitgrad.tril_indices(n, n, diag, device=mat.device)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """The inverse of ``tril_matrix_to_vec``: zeros above the diagonal. ValueError for a size that no matrix gives."""
    # A matrix of n has (n^2 + (1 + 2 diag) n - |diag| (diag + 1)) / 2 entries there.
    odd = 1 + 2 * diag
    size = (math.sqrt(odd**2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1)) - odd) / 2
    n = round(size)
    if n - size > jitgrad.finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {vec.shape[-1]} which cannot be expressed as the lower triangular part of "
            "a square D x D matrix."
        )
    mat = vec.new_zeros((*vec.shape[:-1], n, n))
    rows, columns = jitgrad.tril_indices(n, n, diag, device=vec.device)
    mat[..., rows, columns] = vec
    return mat
