"""Rows of a table by their numbers: embeddings."""

from __future__ import annotations

from typing import Any

from jitgrad.core.errors import type_title
from jitgrad.core.layout import Layout, intern, layout_of
from jitgrad.core.storage import count_write
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.batch_rules import BatchedCall, is_batch, one_by_one
from jitgrad.dispatch.copying import fill_array
from jitgrad.dispatch.op_samples import cases, draw, draw_ints
from jitgrad.dispatch.planned import Launches, Read, Written, compiled, planned
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.loops.elements import scatter_fill
from jitgrad.kernels.loops.fill import fill
from jitgrad.ops.creation.constants import filled_like
from jitgrad.ops.creation.ranges import arange
from jitgrad.ops.indexing.index_select import IndexAdd, IndexSelect, selecting, spread_rows
from jitgrad.ops.indexing.places import checking, int64_of
from jitgrad.ops.shape.copy import cast
from jitgrad.ops.shape.slicing import zeros_of
from jitgrad.ops.sparse.rows import rows_at

__all__ = ["Embedding", "one_hot"]


def _check(weight: Layout, indices: Layout) -> None:
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    if indices.dtype.name not in ("int32", "int64"):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"{type_title(indices)} instead (while checking arguments for embedding)"
        )


def _embedding_batched(call: BatchedCall) -> Any:
    """A batch of indices into one table is one tensor of indices; tables of a batch go one after another."""
    return call.run() if call.batched == {"indices"} else one_by_one(call)


class Embedding(Structured, public="function"):
    """The rows of ``weight`` (n, d) that ``indices`` (*) name, as (*, d).

    Row ``padding_idx``, unless negative, gets no gradient. IndexError for an index outside 0 .. n - 1.
    """

    linear, batch = ("weight",), _embedding_batched
    samples = cases(
        lambda: (draw(5, 3), draw_ints(2, 4, below=5)),
        lambda: (draw(4, 2), draw_ints(6, below=4, seed=1), 2),
    )
    reference = lambda weight, indices, padding_idx=-1: weight[indices]

    def plan(weight_layout, indices_layout, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
        _check(weight_layout, indices_layout)
        return selecting(weight_layout, 0, indices_layout, (*indices_layout.shape, weight_layout.shape[1]))

    def grad_weight(g, weight_layout, indices, padding_idx, scale_grad_by_freq, sparse):
        if sparse:
            return _sparse_rows(g, weight_layout, indices, padding_idx, scale_grad_by_freq)
        if scale_grad_by_freq:
            g = g / _counts(weight_layout, indices, g).unsqueeze(-1)
        if padding_idx >= 0:  # zeros where it was looked up, which add nothing to its row; no product: 0 * inf is NaN
            g = table.where(table.ne(indices, padding_idx).unsqueeze(-1), g, 0)
        return IndexAdd.apply(zeros_of(weight_layout), 0, indices.reshape(-1), g.reshape(-1, weight_layout.shape[1]))

    def kernel_weight(g, weight_layout, indices, padding_idx, scale_grad_by_freq, sparse):
        if sparse or scale_grad_by_freq:
            return Embedding.grads["weight"][0](g, weight_layout, indices, padding_idx, scale_grad_by_freq, sparse)
        out = spread_rows(g, weight_layout, 0, indices)
        if padding_idx >= 0:
            row = out._data[padding_idx]
            fill_array(row, layout_of(row, out._layout.device), row.dtype.type(0).item())
        return out


def _counts(weight: Layout, indices: Tensor, like: Tensor) -> Tensor:
    """How often each index is there."""
    index = indices.reshape(-1)
    zeros = zeros_of(intern(like._layout.numpy_dtype, weight.shape[:1]))
    counts = IndexAdd.apply(zeros, 0, index, filled_like(cast(index, like.dtype), 1))
    return IndexSelect.apply(counts, 0, index).reshape(indices.shape)


def _sparse_rows(g: Tensor, weight: Layout, indices: Tensor, padding_idx: int, by_freq: bool) -> Tensor:
    """The gradient as a sparse tensor: the rows that were looked up, as often as they were."""
    if by_freq:
        raise RuntimeError("embedding_backward: scale_grad_by_freq not supported with sparse gradients")
    return rows_at(indices.reshape(-1), g.reshape(indices.numel(), weight.shape[1]), weight.shape, padding_idx)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """A new last dim of ``num_classes`` elements, 1 at the number that stood there and 0 elsewhere: int64.

    Without ``num_classes``: one more than the largest number. RuntimeError where numbers do not fit.
    """
    if tensor.dtype.name != "int64":
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if is_batch(tensor):
        if num_classes <= 0:
            raise RuntimeError(
                "When vmap-ing torch.nn.functional.one_hot, please provide an explicit positive num_classes argument."
            )
    elif tensor._layout.numel:
        if type(num_classes) is not int or num_classes < 1:
            num_classes = _classes(tensor, num_classes)
        try:
            out = _ones_at(tensor, num_classes)
        except RuntimeError:
            _classes(tensor, num_classes)  # which looks for negative numbers first, as PyTorch does
            raise
        for _ in range(2):  # PyTorch fills a tensor with zeros and writes the ones
            count_write(out)
        return out
    elif num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    return (tensor.contiguous().unsqueeze(-1) == arange(num_classes, device=tensor.device)).to(tensor.dtype)


@planned("tensor")
def _ones_at(tensor, classes):
    """Zeros of the shape of a tensor of numbers and ``classes``, with a 1 at each number."""
    m, out = tensor.numel, intern(tensor.numpy_dtype, (*tensor.shape, classes), None, tensor.device)
    places = int64_of(tensor)
    arrays = Read("tensor", (m, 1, 1)), Written(0, (m, classes, 1))
    clear = fill, Written(0, (out.numel,)), 0
    write = compiled(Launches([clear, (scatter_fill, *arrays, 1)], [out]), {"tensor": places})
    check = checking(tensor, classes, _class_error)
    return lambda tensor, classes: write(check(tensor))


def _class_error(value: int) -> Exception:
    which = "non-negative" if value < 0 else "smaller than num_classes"
    return RuntimeError(f"Class values must be {which}.")


def _classes(tensor: Tensor, given: int) -> int:
    """The number of classes: ``given``, or for -1 one more than the largest number of ``tensor``."""
    if int(tensor.min()) < 0:
        raise RuntimeError("Class values must be non-negative.")
    largest = int(tensor.max())
    if given == -1:
        return largest + 1
    if largest >= given:
        raise RuntimeError("Class values must be smaller than num_classes.")
    return given
