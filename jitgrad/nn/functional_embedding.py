"""Functions of ``nn.functional`` that look rows up in a table."""

from __future__ import annotations

from typing import Any

from jitgrad.core.grad_mode import no_grad
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.registry import published
from jitgrad.ops.nn.embedding import Embedding

__all__ = ["embedding"]


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """The rows of ``weight`` (n, d) that ``input`` (*) names, as (*, d); row ``padding_idx`` gets no gradient.

    ``max_norm``: these rows are scaled to this norm first, in place, where theirs, of order ``norm_type``, is larger.
    """
    if padding_idx is not None and not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise AssertionError("Padding_idx must be within num_embeddings")
    if max_norm is not None:
        input = input.contiguous()
        with no_grad():
            renormalize: Any = published("embedding_renorm_")  # imported now
            renormalize(weight.detach(), input, max_norm, norm_type)
    number = -1 if padding_idx is None else padding_idx % weight.shape[0]
    return Embedding.apply(weight, input, number, scale_grad_by_freq, sparse)
