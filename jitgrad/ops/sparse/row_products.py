"""The two products that all others with sparse matrices are made of, on values and dense matrices.

The gradients of each are made of the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core.layout import intern
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.batch_rules import BatchedCall, one_by_one
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import sparse as kernels
from jitgrad.ops.linalg.matrix_products import conj
from jitgrad.ops.shape.copy import contiguous
from jitgrad.ops.shape.view import reshape
from jitgrad.ops.sparse.parts import ordered_values
from jitgrad.ops.sparse.places import Rows

__all__ = ["RowsProduct", "SampledProduct", "new_matrix"]


def _sample_rows() -> Rows:
    return Rows(np.array([2, 0, 2, 0]), np.array([1, 3, 0, 0]), (3, 4))


def _as_matrix(values: Any, rows: Rows) -> Any:
    out = np.zeros(rows.shape, values.dtype)
    np.add.at(out, (rows.rows, rows.cols), values)
    return out


def new_matrix(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """A dense tensor that is not filled, of the dtype of another one."""
    layout = intern(like._layout.numpy_dtype, shape)
    return wrap(empty_for(layout), layout)


def _rows_batched(call: BatchedCall) -> Any:
    """Dense matrices of a batch stand beside each other; values of a batch go one by one."""
    if call.batched != {"dense"}:
        return one_by_one(call)
    b, k, n = call["dense"]._layout.shape
    out = call.run(dense=reshape(call["dense"].movedim(0, 1), (k, b * n)))
    return reshape(out, (out._layout.shape[0], b, n)).movedim(1, 0)


class RowsProduct(Structured):
    """The matrix of ``values`` at the places of ``rows`` times a dense one."""

    name, linear, batch = "_sparse_rows_product", ("values", "dense"), _rows_batched
    samples = cases(lambda: (draw(4), draw(4, 2), _sample_rows()), lambda: (draw(4), draw(4, 1), _sample_rows()))
    reference = lambda values, dense, rows: _as_matrix(values, rows) @ dense

    def forward(values, dense, rows):
        out = new_matrix((rows.shape[0], dense._layout.shape[1]), values)
        if out._layout.numel:
            arranged = ordered_values(values.detach(), rows.order)
            launch(kernels.rows_product, contiguous(arranged)._data, rows.crow, rows.ordered_cols,
                   contiguous(dense.detach())._data, out._data)  # fmt: skip
        return out

    def grad_values(g, dense, rows):
        return SampledProduct.apply(g, conj(dense), rows)

    def grad_dense(g, values, rows):
        return RowsProduct.apply(conj(values), g, rows.transposed())


class SampledProduct(Structured):
    """The elements of x y^T at the places of ``rows``: (nnz,)."""

    name, linear = "_sparse_sampled_product", ("x", "y")
    samples = cases(lambda: (draw(3, 2), draw(4, 2, seed=1), _sample_rows()))
    reference = lambda x, y, rows: (x @ y.T)[rows.rows, rows.cols]

    def forward(x, y, rows):
        out = new_matrix((len(rows.rows),), x)
        launch(kernels.sampled_product, contiguous(x.detach())._data, contiguous(y.detach())._data, rows.rows,
               rows.cols, out._data)  # fmt: skip
        return out

    def grad_x(g, y, rows):
        return RowsProduct.apply(g, conj(y), rows)

    def grad_y(g, x, rows):
        return RowsProduct.apply(g, conj(x), rows.transposed())
