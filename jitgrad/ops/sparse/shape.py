"""Sparse tensors with other dims, parts of them, and several joined: indices are rewritten, values picked."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from jitgrad.core.dtypes import int64
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import normalize_dim
from jitgrad.core.sparse import Pattern, SparseOperand, SparseTensor
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.operand_checks import check_history
from jitgrad.dispatch.sparse_calls import sparse_form
from jitgrad.ops.creation.ranges import arange
from jitgrad.ops.indexing.index_select import IndexSelect
from jitgrad.ops.indexing.nonzero import nonzero
from jitgrad.ops.indexing.search import searchsorted
from jitgrad.ops.reduction.sort import sort
from jitgrad.ops.shape.copy import cast
from jitgrad.ops.shape.join import cat
from jitgrad.ops.shape.rearrange import repeat_interleave
from jitgrad.ops.sparse.convert import to_coo
from jitgrad.ops.sparse.parts import coalesced, linearly, named, settled, values_of, with_values
from jitgrad.ops.sparse.places import coo_pattern, keys_of, plain

__all__: list[str] = []


def _coo(x: Any) -> Any:
    return settled(to_coo(x))


def _index(x: Any) -> Tensor:
    """The indices of a COO tensor, which are checked."""
    keys_of(x._pattern)
    return x._pattern.indices[0]


def _dims(index: Tensor, dims: Any) -> Tensor:
    """Some rows of indices."""
    return IndexSelect.forward(index, 0, plain(np.array(dims, np.int64)))


# -- dims ----------------------------------------------------------------------------------------------------

_TURNED = {"sparse_csr": "sparse_csc", "sparse_csc": "sparse_csr", "sparse_bsr": "sparse_bsc",
           "sparse_bsc": "sparse_bsr"}  # fmt: skip


def _permuted(
    x: Any, order: list[int], name: str, ordered: bool | None = None, exchanged: tuple[int, ...] = ()
) -> Tensor:
    """The dims in another order. exchanged: the two dims that errors name, as they were given."""
    if x._pattern.kind != "sparse_coo":
        return _turned(x, order, name, exchanged)
    back = [order.index(k) for k in range(len(order))]
    return linearly(x, lambda y: _reordered(y, order, name, ordered), lambda g: g.permute(*back), name)


def _reordered(x: Any, order: list[int], name: str, ordered: bool | None) -> Tensor:
    pattern = x._pattern
    d = pattern.sparse_dim
    if sorted(order[:d]) != list(range(d)):
        raise RuntimeError(
            "permute(sparse): transpositions between sparse and dense dimensions are not allowed.Got\n"
            f"        {order} with sparse_dim={d} and dense_dim={x.ndim - d}" if name == "PermuteBackward0" else
            "sparse transpose: transpositions between sparse and dense dimensions are not allowed"
        )  # fmt: skip
    # A permuted tensor shares its values, a transposed one has a copy of them, as in PyTorch.
    values = values_of(x) if name == "PermuteBackward0" else values_of(x).clone()
    index = pattern.indices[0]
    if order[:d] != list(range(d)):
        index = _dims(index, order[:d])
    if order[d:] != list(range(d, x.ndim)):
        values = values.permute(0, *[k - d + 1 for k in order[d:]])
    keeps = (order[:d] == list(range(d)) or not pattern.nnz) if ordered is None else ordered
    made = coo_pattern(index, [x.shape[k] for k in order], pattern.coalesced and keeps)
    return with_values(values, made)


def _turned(x: Any, order: list[int], name: str, exchanged: tuple[int, ...]) -> Tensor:
    """Compressed matrices with two dims exchanged: rows become columns, or the batch is another. They are views."""
    pattern = x._pattern
    d, values = pattern.sparse_dim - 2, values_of(x)
    if x.ndim > d + 2:
        raise RuntimeError("transpose(): hybrid sparse compressed tensors with dense dimensions are not supported")
    moved = [k for k in range(x.ndim) if order[k] != k]
    if len(moved) > 2:
        raise SparseOperand("as_strided", x._layout.backend)
    if moved and moved[0] < d <= moved[1]:
        first, second = [f"{k}({'Batch' if k < d else 'Sparse'})" for k in exchanged or moved]
        raise RuntimeError(
            "transpose(): can only transpose dimensions of the same type (Batch, Sparse, Dense), got "
            f"{first} and {second}"
        )
    made = pattern
    if moved and moved[0] >= d:
        values = values.transpose(d + 1, d + 2) if pattern.block else values
        shape = (*pattern.shape[:d], *pattern.shape[: d - 1 if d else None : -1])
        made = pattern.like(kind=_TURNED[pattern.kind], shape=shape, block=pattern.block[::-1])
    elif moved:
        values = values.transpose(*moved)
        index = tuple([i.transpose(*moved) for i in pattern.indices])
        made = pattern.like(indices=index, shape=tuple([x.shape[k] for k in order]))
    result = named(with_values(values, made), name)
    result._base = x if x._base is None else x._base
    return result


@sparse_form("transpose", "swapaxes", "swapdims")
def transpose(input: Any, dim0: Any, dim1: Any) -> Tensor:
    """Two dims, both sparse or both dense, exchanged."""
    a, b = normalize_dim(dim0, input.ndim), normalize_dim(dim1, input.ndim)
    order = list(range(input.ndim))
    if order:
        order[a], order[b] = order[b], order[a]
    return _permuted(input, order, "TransposeBackward0", exchanged=(a, b))


@sparse_form("t")
def t(input: Any) -> Tensor:
    """The matrix transposed."""
    if isinstance(input, SparseTensor) and input._pattern.kind == "sparse_coo":
        sparse = input._pattern.sparse_dim
        if sparse > 2 or sparse < input.ndim:
            raise RuntimeError(
                f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {sparse} sparse and "
                f"{input.ndim - sparse} dense dimensions"
            )
    elif input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return _permuted(input, list(range(input.ndim))[::-1], "TBackward0")


@sparse_form("permute")
def permute(input: Any, *each: Any, dims: Any = None) -> Tensor:
    """Dims in another order; sparse ones stay before dense ones."""
    each = (dims,) if dims is not None else each
    order = list(each[0] if len(each) == 1 and isinstance(each[0], (tuple, list)) else each)
    if len(order) != input.ndim:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {input.ndim} is not equal to len(dims) = {len(order)}"
        )
    given, order = order, [normalize_dim(d, input.ndim) for d in order]
    if len(set(order)) < len(order):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    # PyTorch's result says that it is coalesced where its first dim was given as 0, and not as -n.
    return _permuted(input, order, "PermuteBackward0", not given or given[0] == 0)


for _name, _function in {
    "T": lambda self: permute(self, *range(self.ndim)[::-1]), "mT": lambda self: transpose(self, -2, -1),
    "H": lambda self: transpose(self.conj() if self.dtype.is_complex else self, 0, 1),
    "mH": lambda self: transpose(self.conj() if self.dtype.is_complex else self, -2, -1),
}.items():  # fmt: skip
    setattr(SparseTensor, _name, property(_function))


@sparse_form("unsqueeze")
def unsqueeze(input: Any, dim: Any) -> Tensor:
    """A dim of size 1 more: a sparse one up to the last sparse dim, else a dense one."""
    x = settled(input)
    x.stride()  # which those have not that can't get a dim
    pattern, d = x._pattern, normalize_dim(dim, x.ndim + 1)
    shape = [*x.shape[:d], 1, *x.shape[d:]]
    if d > pattern.sparse_dim:
        made = Pattern("sparse_coo", pattern.indices, tuple(shape), pattern.sparse_dim, pattern.coalesced)
        return named(with_values(values_of(x).unsqueeze(d - pattern.sparse_dim + 1), made), "UnsqueezeBackward0")
    index = _index(x)
    parts = _dims(index, range(d)), index.new_zeros((1, pattern.nnz)), _dims(index, range(d, pattern.sparse_dim))
    made = coo_pattern(cat(parts), shape)
    return named(with_values(values_of(x), made), "UnsqueezeBackward0")


def _writing(name: str, form: Any) -> None:
    def in_place(self: Any, *args: Any) -> Any:
        recorded = grad_state.enabled and self._requires_grad
        check_history(self, recorded)
        result = form(self, *args)
        self.become(result)
        if recorded:
            self._edge = result._edge
        return self

    setattr(SparseTensor, name, in_place)


def _as_strided(self: Any, *args: Any, **options: Any) -> Any:
    self.stride()
    raise SparseOperand("as_strided", self._layout.backend)


for _name, _function in {  # type: ignore[assignment]
    "transpose_": transpose, "swapaxes_": transpose, "swapdims_": transpose, "t_": t, "unsqueeze_": unsqueeze,
}.items():  # fmt: skip
    _writing(_name, _function)
for _name in ("squeeze", "squeeze_", "as_strided", "as_strided_", "set_", "view", "unfold", "diagonal"):
    setattr(SparseTensor, _name, _as_strided)


# -- parts ---------------------------------------------------------------------------------------------------


def _kept(x: Any, there: Tensor, index: Tensor, shape: Any, coalesced: bool) -> Tensor:
    """The places where ``there`` is true, with these indices."""
    places = nonzero(there).reshape(-1)
    values = IndexSelect.apply(values_of(x), 0, places)
    return with_values(values, coo_pattern(IndexSelect.forward(index, 1, places), shape, coalesced))


def _selected(x: Any, d: int, k: int) -> Tensor:
    """Of a batch of compressed matrices that of one index, or of their values those of one index."""
    pattern, shape = x._pattern, tuple([m for e, m in enumerate(x.shape) if e != d])
    if d < pattern.sparse_dim - 2:
        values, index = values_of(x).select(d, k), tuple([i.select(d, k) for i in pattern.indices])
        made = pattern.like(indices=index, shape=shape, sparse_dim=pattern.sparse_dim - 1)
    else:
        values, made = values_of(x).select(d - 1 + len(pattern.block), k), pattern.like(shape=shape)
    return named(with_values(values, made), "SelectBackward0")


@sparse_form("select")
def select(input: Any, dim: Any, index: Any) -> Tensor:
    """The slice of one index: dense, if no sparse dim is left."""
    d = normalize_dim(dim, input.ndim)
    n, k = input.shape[d], int(index)
    if not -n <= k < n:
        raise IndexError(f"select(): index {k} out of range for tensor of size {list(input.shape)} at dimension {d}")
    k %= n
    if input._pattern.kind != "sparse_coo" and not input._pattern.sparse_dim > d >= input._pattern.sparse_dim - 2:
        return _selected(input, d, k)
    if input._pattern.sparse_dim > 2 and input._pattern.kind != "sparse_coo":
        raise RuntimeError(
            "select(): selecting sparse dimensions is not supported for batched sparse compressed tensors."
        )
    x = coalesced(_coo(input)) if input._pattern.kind != "sparse_coo" else settled(input)
    pattern = x._pattern
    if d >= pattern.sparse_dim:
        shape = tuple([m for e, m in enumerate(x.shape) if e != d])
        made = Pattern("sparse_coo", pattern.indices, shape, pattern.sparse_dim, pattern.coalesced)
        return named(with_values(values_of(x).select(d - pattern.sparse_dim + 1, k), made), "SelectBackward0")
    rows = _index(x)
    there = rows.select(0, d) == k
    if pattern.sparse_dim == 1:
        return IndexSelect.apply(values_of(x), 0, nonzero(there).reshape(-1)).sum(0, dtype=x.dtype)
    index = _dims(rows, [e for e in range(pattern.sparse_dim) if e != d])
    shape = [m for e, m in enumerate(x.shape) if e != d]  # type: ignore[assignment]
    return named(_kept(x, there, index, shape, pattern.coalesced), "SelectBackward0")


@sparse_form("index_select")
def index_select(input: Any, dim: Any, index: Tensor) -> Tensor:
    """The slices that ``index`` names."""
    if isinstance(index, SparseTensor) or index.ndim > 1:
        raise IndexError("index_select() argument index must be 1-D long-tensor.")
    d = normalize_dim(dim, input.ndim)
    x = _coo(input)
    pattern, wanted = x._pattern, cast(index.reshape(-1), int64)
    shape = [*x.shape[:d], wanted.shape[0], *x.shape[d + 1 :]]
    if d >= pattern.sparse_dim:
        values = IndexSelect.apply(values_of(x), d - pattern.sparse_dim + 1, wanted)
        made = Pattern("sparse_coo", pattern.indices, tuple(shape), pattern.sparse_dim, pattern.coalesced)
        return named(with_values(values, made), "IndexSelectBackward0")
    n = x.shape[d]
    for place in ("amin", "amax") if wanted.numel() else ():
        if not -n <= (k := int(getattr(wanted, place)())) < n:
            raise IndexError(
                f"index_select(): index contains {k} that is out of range for tensor of size {n} at dimension {d}"
            )
    wanted = wanted % n if wanted.numel() else wanted
    rows = _index(x)
    ordered, order = sort(rows.select(0, d), stable=True)
    first, last = (searchsorted(ordered, wanted, right=right) for right in (False, True))
    counts = last - first
    ends = counts.cumsum(0)
    total = int(ends[-1]) if wanted.numel() else 0
    places = IndexSelect.forward(order, 0, repeat_interleave(first - ends + counts, counts) + arange(total))
    made = IndexSelect.forward(rows, 1, places)
    made.select(0, d).copy_(repeat_interleave(arange(wanted.shape[0]), counts))
    values = IndexSelect.apply(values_of(x), 0, places)
    return named(with_values(values, coo_pattern(made, shape, total < 2)), "IndexSelectBackward0")


@sparse_form("narrow_copy")
def narrow_copy(input: Any, dim: Any, start: Any, length: Any) -> Tensor:
    """The slices from ``start`` on, ``length`` of them."""
    if not 0 <= dim < input.ndim:
        raise RuntimeError(f"Invalid dimension: {dim} of a tensor of {input.ndim} dimensions")
    d = int(dim)
    n = input.shape[d]
    start = int(start) + (n if int(start) < 0 else 0)
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if not 0 <= start <= n or start + length > n:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({n}).")
    x = _coo(input)
    pattern = x._pattern
    shape = [*x.shape[:d], length, *x.shape[d + 1 :]]
    if d >= pattern.sparse_dim:
        values = values_of(x).narrow(d - pattern.sparse_dim + 1, start, length)
        made = Pattern("sparse_coo", pattern.indices, tuple(shape), pattern.sparse_dim, pattern.coalesced)
        return with_values(values.clone(), made)
    rows = _index(x)
    row = rows.select(0, d)
    there = (row >= start) & (row < start + length)
    return named(_kept(x, there, _moved(rows, d, -start), shape, pattern.coalesced), "NarrowCopyBackward0")


def _moved(index: Tensor, d: int, start: int) -> Tensor:
    """Indices of which those along a dim begin elsewhere."""
    shift = np.zeros((index.shape[0], 1), np.int64)
    shift[d] = start
    return index + plain(shift)


@sparse_form("unbind")
def unbind(input: Any, dim: Any = 0) -> Any:
    """All slices along a dim."""
    d = normalize_dim(dim, input.ndim)
    return tuple([named(select(input, d, k), "UnbindBackward0") for k in range(input.shape[d])])


def _get(self: Any, key: Any) -> Any:
    """x[2], x[2, 3]: slices of one index, dim by dim."""
    keys = key if isinstance(key, tuple) else (key,)
    result, d = self, 0
    for k in keys:
        if k is None:
            result, d = result.unsqueeze(d), d + 1
        elif k is Ellipsis:
            d = result.ndim - (len(keys) - keys.index(k) - 1)
        elif isinstance(k, slice) and k == slice(None):
            d += 1
        elif isinstance(k, slice):
            _as_strided(self)
        elif isinstance(k, Tensor) and k.ndim:
            if len(keys) > 1 or k.ndim > 1 or k.dtype.category != 1:
                raise SparseOperand("index.Tensor", self._layout.backend)
            result = result.index_select(d, k)
        else:
            result = result.select(d, int(k))
    return result


SparseTensor.__getitem__ = _get  # type: ignore[method-assign]


def _set(self: Any, key: Any, value: Any) -> None:
    raise TypeError("Cannot assign to a sparse tensor")


SparseTensor.__setitem__ = _set  # type: ignore[method-assign]


# -- several ---------------------------------------------------------------------------------------------------


@sparse_form("cat", "concat", "concatenate")
def joined(tensors: Any, dim: Any = 0) -> Tensor:
    """Tensors one after another."""
    for position, one in enumerate(tensors):
        if not isinstance(one, SparseTensor):
            raise RuntimeError(
                f"Concatenating sparse tensors, but a dense tensor was found at position {position}."
            )
        if one._pattern.kind != "sparse_coo":
            raise SparseOperand("cat", one._layout.backend)
    first, d = tensors[0], normalize_dim(dim, tensors[0].ndim)
    for position, one in enumerate(tensors):
        if one._pattern.sparse_dim != first._pattern.sparse_dim or one.ndim != first.ndim:
            dims = [(t._pattern.sparse_dim, t.ndim - t._pattern.sparse_dim) for t in (first, one)]
            raise RuntimeError(
                f"All tensors must have the same number of sparse and dense dims: {dims[0][0]}, {dims[0][1]}, but "
                f"tensor at position {position} has {dims[1][0]}, {dims[1][1]}."
            )
        if [n for k, n in enumerate(one.shape) if k != d] != [n for k, n in enumerate(first.shape) if k != d]:
            raise RuntimeError(
                f"All tensors must have the same shape: {list(first.shape)} (sparse_dim: {first._pattern.sparse_dim}) "
                f"at position 0, {list(one.shape)} (sparse_dim: {one._pattern.sparse_dim}) at position {position}"
            )
    parts = [settled(one) for one in tensors]
    s = first._pattern.sparse_dim
    shape = [*first.shape[:d], sum([p.shape[d] for p in parts]), *first.shape[d + 1 :]]
    rows = [_index(p) for p in parts]
    if d < s:
        starts = itertools.accumulate([p.shape[d] for p in parts], initial=0)
        index = cat([_moved(r, d, start) for r, start in zip(rows, starts, strict=False)], 1)
        values = cat([values_of(p) for p in parts], 0)
        return named(with_values(values, coo_pattern(index, shape)), "CatBackward0")
    values, at = [], 0
    for p in parts:
        v = values_of(p)
        before, after = at, shape[d] - at - p.shape[d]
        lead, tail = v.shape[: d - s + 1], v.shape[d - s + 2 :]
        values.append(cat([v.new_zeros((*lead, before, *tail)), v, v.new_zeros((*lead, after, *tail))], d - s + 1))
        at += p.shape[d]
    return named(with_values(cat(values, 0), coo_pattern(cat(rows, 1), shape)), "CatBackward0")


@sparse_form("stack")
def stack(tensors: Any, dim: Any = 0) -> Tensor:
    """Tensors side by side along a new dim."""
    d = normalize_dim(dim, tensors[0].ndim + 1)
    return named(joined([one.unsqueeze(d) for one in tensors], d), "StackBackward0")
