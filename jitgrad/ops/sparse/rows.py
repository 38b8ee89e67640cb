"""Gradients of tables of which some rows were read: sparse tensors of rows."""

from __future__ import annotations

from typing import Any

from jitgrad.core.dtypes import int64
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.ops.indexing.index_select import IndexSelect
from jitgrad.ops.indexing.nonzero import nonzero
from jitgrad.ops.shape.copy import cast
from jitgrad.ops.sparse.parts import with_values
from jitgrad.ops.sparse.places import coo_pattern

__all__ = ["rows_at"]


def rows_at(index: Tensor, rows: Tensor, shape: Any, skipped: int = -1) -> Tensor:
    """The sparse tensor that has ``rows`` at the places of an index vector, but for those at row ``skipped``."""
    # A copy, since the index may be written to while the gradient is kept.
    index = cast(index, int64).detach().clone()
    if skipped >= 0:
        kept = nonzero(table.ne(index, skipped)).reshape(-1)
        index, rows = IndexSelect.apply(index, 0, kept), IndexSelect.apply(rows, 0, kept)
    return with_values(rows, coo_pattern(index.detach().unsqueeze(0), shape, index._layout.numel < 2))
