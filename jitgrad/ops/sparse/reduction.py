"""Sums and softmaxes of sparse tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core.layout import normalize_dim, normalize_dims
from jitgrad.core.sparse import SparseOperand, SparseTensor
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.registry import public, published
from jitgrad.dispatch.sparse_calls import sparse_form
from jitgrad.dispatch.structured import Structured
from jitgrad.ops.indexing.index_select import IndexAdd, IndexSelect
from jitgrad.ops.indexing.unique import unique
from jitgrad.ops.reduction.sums import FULL
from jitgrad.ops.shape.copy import cast, cast_gradient
from jitgrad.ops.sparse.attributes import title
from jitgrad.ops.sparse.convert import to_coo
from jitgrad.ops.sparse.parts import coalesced, from_grid, grid, named, settled, values_of, with_values
from jitgrad.ops.sparse.places import coo_pattern, keys_of, plain

__all__: list[str] = []


def _total(x: Any, dtype: Any) -> Tensor:
    return values_of(settled(x)).sum(dtype=dtype)


def sparse_sum(input: Any, dim: Any = None, dtype: Any = None) -> Tensor:
    """The sum over all dims, or some: of all sparse dims a dense tensor, else a sparse one."""
    if not isinstance(input, SparseTensor) or input._pattern.kind != "sparse_coo":
        raise RuntimeError(f"coalesce expected sparse coordinate tensor layout but got {title(input)}")
    if dim is None:
        return _total(input, dtype)
    return _summed(input, dim, False, dtype)


public(sparse_sum, "sparse_sum", module="sparse")


def _summed(x: Any, dim: Any, keepdim: bool, dtype: Any) -> Tensor:
    x = settled(x)
    pattern, values = x._pattern, values_of(x)
    if isinstance(dim, (tuple, list)) and not len(dim):
        return x
    dims = normalize_dims(dim, x.ndim)
    ours, rest = [d for d in dims if d < pattern.sparse_dim], [d for d in dims if d >= pattern.sparse_dim]
    if dtype is not None:
        values = values.to(dtype)
    elif values.dtype.category < 2:
        values = cast(values, values.new_zeros(1).sum().dtype)
    if rest:
        values = values.sum(tuple([d - pattern.sparse_dim + 1 for d in rest]))
    kept = [d for d in range(x.ndim) if d not in dims]
    if len(ours) == pattern.sparse_dim:
        out = values.sum(0)
    else:
        shape = [x.shape[d] for d in kept]
        index = pattern.indices[0]
        if ours:
            keys_of(pattern)
            index = IndexSelect.forward(index, 0, plain(np.array([d for d in kept if d < pattern.sparse_dim])))
        out = with_values(values, coo_pattern(index, shape, pattern.coalesced and not ours))
        out = named(coalesced(out), "SparseSumBackward0")
    for d in dims if keepdim else ():
        out = out.unsqueeze(d)
    return out


class Total(Structured, listed=False):
    """The sum of all elements, whose gradient is dense."""

    name, grad_name, linear, half, sparse = "_sparse_total", "SumBackward0", ("x",), True, True

    def forward(x, dtype):
        return x._stored.detach().sum(dtype=dtype)

    def grad_x(g, x_layout):
        return cast_gradient(g, x_layout.dtype).expand(x_layout.shape)


@sparse_form("sum")
def sum_(input: Any, dim: Any = FULL, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum as ``sum`` has it; over all dims its gradient is dense."""
    if dim is FULL or dim is None:
        return Total.apply(input, dtype)
    if input._pattern.kind != "sparse_coo":
        return _summed_csr(input, dim, keepdim, dtype)
    return _summed(input, dim, keepdim, dtype)


def _summed_csr(x: Any, dim: Any, keepdim: bool, dtype: Any) -> Tensor:
    """Sums of a CSR matrix, as one."""
    if x._pattern.kind != "sparse_csr":
        raise RuntimeError(
            "Currently the only compressed sparse format supported for sum.dim_IntList is CSR, but got layout "
            f"{title(x)}"
        )
    if not keepdim:
        raise RuntimeError("reduction operations on CSR tensors with keepdim=False is unsupported")
    found = to_coo(_summed(grid(x), dim, True, dtype))
    return from_grid(found, x._pattern.like(shape=tuple(found.shape)), x._pattern.indices[0].dtype)


@sparse_form("any")
def any_(input: Any, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether an element is not zero."""
    if dim is not None:
        raise SparseOperand("any.dim")
    return values_of(input).any()


@sparse_form("norm")
def norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """The 2-norm of all elements."""
    if keepdim:
        raise RuntimeError("norm_sparse currently does not support keepdim=True")
    if dtype is not None:
        if p == "fro":
            raise ValueError("dtype argument is not supported in frobenius norm")
        raise RuntimeError("norm_sparse currently does not support 'dtype' argument")
    if dim not in (None, (), []):
        raise RuntimeError(
            "norm_sparse currently only supports full reductions, so 'dim' must either be empty or contain all "
            "dimensions of the input"
        )
    return values_of(coalesced(input)).norm(p)


# -- softmax -----------------------------------------------------------------------------------------------


def _softmax(x: Any, dim: int, dtype: Any, log: bool) -> Tensor:
    """Over the stored elements: the others count as minus infinity."""
    name = "log_softmax" if log else "softmax"
    if not isinstance(x, SparseTensor):
        raise SparseOperand(f"_sparse_{name}", "CPU")
    x = coalesced(to_coo(x))
    pattern, values = x._pattern, values_of(x)
    if dtype is not None:
        values = values.to(dtype)
    if not values.dtype.is_floating_point:
        raise NotImplementedError(f"\"{name}\" not implemented for '{values.dtype.title}'")
    d = normalize_dim(dim, x.ndim)
    if d >= pattern.sparse_dim:
        found = published(name)(values, d - pattern.sparse_dim + 1)  # type: ignore[misc]
    elif not pattern.nnz:
        found = values
    else:
        found = _over_groups(values, *_groups(x, d), log)
    title_ = "SparseLogSoftmaxBackward0" if log else "SparseSoftmaxBackward0"
    return named(with_values(found, pattern), title_)


def _groups(x: Any, d: int) -> tuple[Tensor, int]:
    """(the number of each place's group: those alike but for dim ``d``; how many groups there are)."""
    pattern = x._pattern
    others = [k for k in range(pattern.sparse_dim) if k != d]
    index = IndexSelect.forward(pattern.indices[0], 0, plain(np.array(others, np.int64)))
    keys = keys_of(coo_pattern(index, [x.shape[k] for k in others]))
    distinct, inverse = unique(keys, return_inverse=True)
    return inverse, distinct.shape[0]


def _over_groups(values: Tensor, group: Tensor, count: int, log: bool) -> Tensor:
    fixed = values.detach()
    top = fixed.new_full((count, *fixed.shape[1:]), -float("inf")).index_reduce(0, group, fixed, "amax")
    shifted = values - IndexSelect.apply(top, 0, group)
    powers = shifted.exp()
    total = IndexAdd.apply(powers.new_zeros((count, *powers.shape[1:])), 0, group, powers)
    if log:
        return shifted - IndexSelect.apply(total.log(), 0, group)
    return powers / IndexSelect.apply(total, 0, group)


def softmax(input: Any, dim: int, *, dtype: Any = None) -> Tensor:
    """Softmax along ``dim`` over the stored elements alone."""
    return _softmax(input, dim, dtype, False)


def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Tensor:
    """The logarithm of ``softmax``."""
    return _softmax(input, dim, dtype, True)


public(softmax, module="sparse")
public(log_softmax, module="sparse")


