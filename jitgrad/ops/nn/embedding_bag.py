"""Sums, means and maxima of bags of a table's rows; and rows that are kept to a largest norm."""

from __future__ import annotations

import functools
import warnings
from typing import Any, NoReturn

import numpy as np

from jitgrad.core.dtypes import int64
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.layout import intern
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.core.user_frame import user_level
from jitgrad.dispatch import table
from jitgrad.dispatch.inplace_ops import InplaceOp, through_rows
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_flag, float_argument, int_argument
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import check, launch
from jitgrad.kernels.loops import embedding_bag as kernels
from jitgrad.ops.creation.ranges import arange
from jitgrad.ops.indexing.index_select import IndexAdd, IndexSelect
from jitgrad.ops.indexing.places import checked_index, places_for_samples
from jitgrad.ops.nn.margin_losses import functional
from jitgrad.ops.shape.copy import cast, contiguous
from jitgrad.ops.shape.slicing import zeros_of
from jitgrad.ops.sparse.rows import rows_at

__all__ = ["EmbeddingBag", "EmbeddingRenorm"]

SUM, MEAN, MAX = MODES = range(3)


def _new(dtype: Any, *shape: int) -> Tensor:
    layout = intern(np.dtype(dtype), shape)
    return wrap(empty_for(layout), layout)


def _array(x: Tensor | None, like: Tensor) -> Any:
    """The values in row-major order, or an empty array for None."""
    return np.empty(0, like._layout.numpy_dtype) if x is None else contiguous(x.detach())._data


def _reference(
    weight: Any, index: Any, offsets: Any, factors: Any = None, mode: int = SUM, padding_idx: int = -1,
    bags: int | None = None, by_count: bool = False,
) -> Any:  # fmt: skip
    bags = len(offsets) if bags is None else bags
    ends = [*offsets[1:], len(index)][:bags]
    bag_of, counted = np.full(len(index), -1), index != padding_idx
    out, largest = np.zeros((bags, weight.shape[1])), np.zeros((bags, weight.shape[1]), int)
    sizes = []
    for b, (first, last) in enumerate(zip(offsets, ends)):
        bag_of[first:last] = b
        own = np.arange(first, last)[counted[first:last]]
        rows = weight[index[own]] * (1 if factors is None else factors[own][:, None])
        sizes.append(len(own))
        if len(own):
            out[b] = rows.max(0) if mode == MAX else rows.mean(0) if mode == MEAN else rows.sum(0)
            largest[b] = index[own][rows.argmax(0)]
    return out, bag_of, np.array(sizes), largest if mode == MAX else np.zeros((0, 0), int)


class EmbeddingBag(Structured):
    """(the sum, mean or max of each bag of rows, the bag of each index, sizes of bags, which rows max took).

    bags: how many there are, if one fewer than offsets. An index behind the last offset is then in none, bag -1.
    """

    name, multiple_results, reference = "_embedding_bag", True, _reference
    samples = cases(
        lambda: (draw(5, 3), places_for_samples(0, 3, 4, 4, 1), places_for_samples(0, 2, 2)),
        lambda: (draw(5, 3), places_for_samples(0, 3, 4, 4, 1), places_for_samples(0, 2, 2), draw(5, seed=1), SUM, 3),
        lambda: (draw(5, 3), places_for_samples(0, 3, 4, 4, 1), places_for_samples(0, 1, 4, 5), None, MEAN, 1, 3),
        lambda: (draw(5, 3), places_for_samples(0, 3, 4, 4, 1), places_for_samples(0, 2, 2), None, MAX),
        lambda: (draw(5, 3), places_for_samples(0, 3, 4, 1), places_for_samples(0, 1, 3), draw(4, seed=1), SUM, 3, 2),
    )

    def forward(
        weight, index, offsets, factors=None, mode=SUM, padding_idx=-1, bags=None, by_count=False, sparse=False
    ):
        count, width = offsets._layout.numel if bags is None else bags, weight.shape[1]
        out = _new(weight._layout.numpy_dtype, count, width)
        bag_of, sizes = _new(np.int64, index._layout.numel), _new(np.int64, count)
        largest = _new(np.int64, *((count, width) if mode == MAX else (0, 0)))
        results = out, bag_of, sizes, largest
        arrays = [_array(t, weight) for t in (weight, index, offsets, factors)]
        launch(kernels.bags, *arrays, *(t._data for t in results), mode, padding_idx)
        return results

    def grad_weight(g, out, weight_layout, index, factors, mode, padding_idx, by_count, sparse):
        above, (_, bag_of, sizes, largest) = g[0], out
        zeros = zeros_of(weight_layout)
        if mode == MAX:
            return zeros.scatter_add(0, largest, above * cast(sizes > 0, above.dtype).unsqueeze(1))
        share = cast(_counted(index, bag_of, padding_idx), above.dtype)
        bag_of = bag_of.clamp(min=0)
        if mode == MEAN:
            share = share / IndexSelect.apply(cast(sizes, above.dtype).clamp(min=1), 0, bag_of)
        if by_count:
            counts = IndexAdd.apply(zeros.new_zeros(weight_layout.shape[0]), 0, index, zeros.new_ones(index.shape))
            share = share / IndexSelect.apply(counts, 0, index)
        if factors is not None:
            share = share * factors
        rows = IndexSelect.apply(above, 0, bag_of) * share.unsqueeze(1)
        if sparse:
            return rows_at(index, rows, weight_layout.shape, padding_idx)
        return IndexAdd.apply(zeros, 0, index, rows)

    def grad_factors(g, out, weight, index, padding_idx):
        products = IndexSelect.apply(g[0], 0, out[1].clamp(min=0)) * IndexSelect.apply(weight, 0, index)
        return table.where(_counted(index, out[1], padding_idx), products.sum(1), 0)

    def kernel_weight(g, out, weight_layout, index, factors, mode, padding_idx, by_count, sparse):
        if sparse:
            rule = EmbeddingBag.grads["weight"][0]
            return rule(g, out, weight_layout, index, factors, mode, padding_idx, by_count, sparse)
        above, (_, bag_of, sizes, largest) = contiguous(g[0]), out
        found = _new(weight_layout.numpy_dtype, *weight_layout.shape)
        if mode == MAX:
            launch(kernels.max_gradient, above._data, sizes._data, largest._data, found._data)
            return found
        launch(kernels.bag_gradient, above._data, index._data, bag_of._data, sizes._data, _array(factors, above),
               found._data, mode, padding_idx, by_count)  # fmt: skip
        return found

    def kernel_factors(g, out, weight, index, factors_layout, padding_idx):
        found = _new(factors_layout.numpy_dtype, *factors_layout.shape)
        launch(kernels.factor_gradient, contiguous(g[0])._data, _array(weight, weight), index._data, out[1]._data,
               found._data, padding_idx)  # fmt: skip
        return found


def _counted(index: Tensor, bag_of: Tensor, padding_idx: int) -> Tensor:
    """Which indices count in a bag."""
    return (index != padding_idx) & (bag_of >= 0)


# -- arguments --------------------------------------------------------------------------------------------


def _check_type(name: str, x: Tensor, wanted: str, *dtypes: str) -> None:
    if x._layout.dtype.name not in dtypes:
        raise RuntimeError(
            f"Expected tensor for argument #1 '{name}' to have one of the following scalar types: {wanted}; but got "
            f"{x.type()} instead (while checking arguments for embedding_bag)"
        )


def _refuse(found: np.ndarray, rows: int, n: int, one_by_one: bool) -> NoReturn:
    code, place, value = found.tolist()
    if code == kernels.BAD_INDEX and one_by_one:  # PyTorch has a loop for each case, with words of its own
        raise RuntimeError(
            f"embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {value}"
        )
    if code == kernels.BAD_INDEX:
        raise RuntimeError(f"Index {place} of input takes value {value} which is not in the valid range [0, {rows})")
    if code == kernels.BAD_START:
        raise RuntimeError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, "
            f"got {value}"
        )
    if code == kernels.BAD_END:
        raise RuntimeError(
            f"offsets[-1] can not be greater than input's length {n} but got offsets[-1] of {value}"
        )
    raise RuntimeError("embedding_bag: offsets must not decrease")


def _bags(
    weight: Tensor, indices: Tensor, offsets: Tensor, by_count: bool, mode: int, sparse: bool,
    factors: Tensor | None, include_last_offset: bool, padding_idx: int | None,
) -> tuple[Tensor, ...]:  # fmt: skip
    if indices.ndim not in (1, 2):
        raise RuntimeError(f"input has to be a 1D or 2D Tensor, but got Tensor of dimension {indices.ndim}")
    if indices.ndim == 1 and offsets.ndim != 1:
        raise RuntimeError(f"offsets has to be a 1D Tensor, but got Tensor of dimension {offsets.ndim}")
    if weight.ndim != 2:
        raise RuntimeError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.ndim}")
    indices, offsets = indices.reshape(-1), offsets.reshape(-1)
    _check_type("indices", indices, "Long, Int", "int32", "int64")
    _check_type("indices", offsets, "Long, Int", "int32", "int64")
    _check_type("weight", weight, "Half, BFloat16, Float, Double", "float16", "bfloat16", "float32", "float64")
    rows = weight.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, -{rows} through {rows - 1}, but got {padding_idx}"
        )
    if include_last_offset and not offsets.numel():
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    if factors is not None and factors.dtype is not weight.dtype:
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 "
            f"'per_sample_weights'; but type {weight.type()} does not equal {factors.type()} (while checking arguments "
            "for embedding_bag)"
        )
    index, first = (contiguous(cast(t.detach(), int64)) for t in (indices, offsets))
    found = np.zeros(3, np.int64)
    launch(kernels.check_bags, index._data, first._data, found, rows, include_last_offset)
    check(found, _refuse, rows, index.numel(), mode == MAX or padding_idx is not None)
    padding = -1 if padding_idx is None else padding_idx % rows
    bags = first.numel() - 1 if include_last_offset else None
    if include_last_offset and not (mode == SUM and padding < 0 and weight._layout.dtype.itemsize < 8):
        # Only plain sums of PyTorch's end where the last offset says; other last bags take all that follows.
        first, bags = first[:-1], None
    return EmbeddingBag.apply(weight, index, first, factors, mode, padding, bags, by_count, as_flag(sparse))


@functional
def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None, norm_type: float = 2,
    scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
    per_sample_weights: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """The sum, mean or max (``mode``) of bags of rows of ``weight`` (n, d): (bags, d), zeros for empty bags.

    input: a bag of indices in each row of a matrix, or all in one vector, in which ``offsets`` names each bag's first
    (``include_last_offset``: and one more, the end of the last, where sums are taken of float32 or less: others take
    all that follows, as in PyTorch). ``per_sample_weights``: a factor for each index, for sums. ``padding_idx``: an
    index that counts in no bag. ``max_norm``: rows are scaled to this norm first, in place, where theirs is larger.
    ValueError, RuntimeError for shapes, dtypes and indices that do not fit.
    """
    if weight.dtype is int64 and input.dtype.is_floating_point:
        warnings.warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, ...)` is "
            "deprecated, and should now be `embedding_bag(input, weight, ...)`.", stacklevel=user_level(),
        )  # fmt: skip
        weight, input = input, weight
    _check_shapes(input, weight, per_sample_weights)
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                f"sequences. However, found offsets of type {type(offsets)}"
            )
        offsets = arange(0, input.numel(), input.shape[1], dtype=input.dtype, device=input.device)
        include_last_offset, input = False, input.reshape(-1)
        per_sample_weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    elif offsets is None or offsets.dim() != 1:
        raise ValueError("offsets has to be a 1D Tensor but got None" if offsets is None
                         else "offsets has to be a 1D Tensor")  # fmt: skip
    number = _mode(mode, scale_grad_by_freq, sparse)
    if max_norm is not None:
        with no_grad():
            embedding_renorm_(weight.detach(), input, max_norm, norm_type)
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
            f"(got mode='{mode}'). Please open a feature request on GitHub."
        )
    return _bags(weight, input, offsets, scale_grad_by_freq, number, sparse, per_sample_weights, include_last_offset,
                 padding_idx)[0]  # fmt: skip


def _check_shapes(input: Tensor, weight: Tensor, factors: Tensor | None) -> None:
    if factors is not None and input.size() != factors.size():
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({factors.shape}) is not None, then it must have the same shape as "
            f"the input ({input.shape})"
        )
    if weight.dim() != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}")
    if input.dim() not in (1, 2):
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")


def _mode(mode: str, by_count: bool, sparse: bool) -> int:
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and by_count:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    return ("sum", "mean", "max").index(mode)


def _top_bags(
    weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False, mode: int = 0,
    sparse: bool = False, per_sample_weights: Tensor | None = None, include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """``nn.functional.embedding_bag`` of a vector of indices, with the mode as a number: 0 sum, 1 mean, 2 max.

    Returns (result, bag of each index, sizes of bags, indices that max took); of sums the latter are zeros, and of
    means the last two the same, as in PyTorch.
    """
    mode = int_argument("embedding_bag", "mode", 5, mode)
    out, bag_of, sizes, largest = _bags(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
                                        include_last_offset, padding_idx)  # fmt: skip
    if mode == SUM:
        bag_of = bag_of if padding_idx is not None else bag_of[:0]
        return out, bag_of, zeros_of(sizes._layout), zeros_of(sizes._layout)
    return out, bag_of, sizes, largest if mode == MAX else sizes.clone()


public(_top_bags, "embedding_bag", method_too=False)


def _bags_by_number(
    weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False, mode: int = 0,
    sparse: bool = False, per_sample_weights: Tensor | None = None, include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, ...]:  # fmt: skip
    """``embedding_bag`` for which -1 says that no index is padding."""
    return _top_bags(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
                     include_last_offset, None if padding_idx < 0 else padding_idx)  # fmt: skip


for _name in ("_embedding_bag", "_embedding_bag_forward_only"):
    public(_bags_by_number, _name, method_too=False)


# -- norms ------------------------------------------------------------------------------------------------


def _no_row(x: Tensor, value: int) -> Exception:
    return IndexError(f"select(): index {value} out of range for tensor of size {list(x.shape)} at dimension 0")


class EmbeddingRenorm(InplaceOp):
    """Scale the rows that ``index`` names to the norm ``max_norm`` where theirs, of order ``norm_type``, is larger."""

    name = "embedding_renorm"
    samples = cases(lambda: (draw(4, 3).detach(), places_for_samples(3, 0, 3), 0.5, 2.0))

    def reference(x, index, max_norm, norm_type):
        norms = np.linalg.norm(x, norm_type, 1, keepdims=True)
        scaled = np.where(norms > max_norm, x * (max_norm / (norms + 1e-7)), x)
        return np.where(np.isin(np.arange(len(x)), index)[:, None], scaled, x)

    def write(x, index, max_norm, norm_type):
        places = checked_index(index, x.shape[0], functools.partial(_no_row, x))._data.reshape(-1)
        through_rows(x, lambda data: launch(kernels.renormalize, places, data, max_norm, norm_type))


def embedding_renorm_(self: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scale the rows of ``self`` that ``indices`` names to the norm ``max_norm``, of order ``norm_type``, in place.

    Rows with a smaller norm stay. RuntimeError for other than int indices of a matrix, IndexError out of range.
    """
    max_norm = float_argument("embedding_renorm_", "max_norm", 3, max_norm)
    norm_type = float_argument("embedding_renorm_", "norm_type", 4, norm_type)
    if self.ndim != 2:
        raise RuntimeError(f"Expected 2-dimensional tensor, but got {self.ndim}-dimensional tensor for argument #1 "
                           "'self' (while checking arguments for embedding_renorm_)")  # fmt: skip
    if indices.dtype.name not in ("int32", "int64"):
        raise RuntimeError(
            "Expected tensor for argument #2 'indices' to have one of the following scalar types: Long, Int; but got "
            f"{indices.type()} instead (while checking arguments for embedding_renorm_)"
        )
    return EmbeddingRenorm.inplace(self, indices, max_norm, norm_type)


public(embedding_renorm_, method_too=False)
