"""Rows of a table by their numbers: embeddings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..tensor import Tensor
from .batching import Lot, one_by_one
from .gather import IndexAdd, IndexSelect
from .part import zeros_of
from .sampling import draw, draw_ints
from .structured import Structured

__all__ = ["Embedding"]


def _rows(weight: Tensor, indices: Tensor) -> Tensor:
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    if indices.dtype.name not in ("int32", "int64"):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"{indices.type()} instead (while checking arguments for embedding)"
        )
    return indices.detach().reshape(-1)


def _embedding_lot(lot: Lot) -> Any:
    return lot.run() if lot.batched == {"indices"} else one_by_one(lot)


class Embedding(Structured):
    """The rows of ``weight`` (n, d) that ``indices`` (*) name, as (*, d).

    Row ``padding_idx``, unless negative, gets no gradient. IndexError for an index outside 0 .. n - 1.
    """

    linear = ("weight",)
    batch = _embedding_lot
    name, method = "embedding", False

    def forward(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
        if scale_grad_by_freq or sparse:
            raise NotImplementedError("embedding: scale_grad_by_freq and sparse are not there; leave them False")
        rows = IndexSelect.forward(weight, 0, _rows(weight, indices))
        return rows.view(*indices.shape, weight.shape[1])

    def grad_weight(g, weight_layout, indices, padding_idx):
        if padding_idx >= 0:
            g = g * (indices != padding_idx).unsqueeze(-1)
        return IndexAdd.apply(zeros_of(weight_layout), 0, indices.reshape(-1), g.reshape(-1, weight_layout.shape[1]))

    @staticmethod
    def samples() -> Iterator[Any]:
        yield (draw(5, 3), draw_ints(2, 4, below=5)), {}
        yield (draw(4, 2), draw_ints(6, below=4, seed=1)), {"padding_idx": 2}
