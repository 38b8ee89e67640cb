"""Between dense and sparse tensors and from one sparse layout to another; and what sparse tensors say of themselves."""

from __future__ import annotations

import math
from typing import Any

from jitgrad.core.host_reads import announce_read, read_observers
from jitgrad.core.layout import intern
from jitgrad.core.sparse import Pattern, SparseOperand, SparseTensor
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.registry import FUNCTIONS, method
from jitgrad.dispatch.sizes import int_argument, ints_argument
from jitgrad.dispatch.structured import Structured
from jitgrad.ops.indexing.index_select import IndexAdd
from jitgrad.ops.indexing.nonzero import nonzero
from jitgrad.ops.shape.slicing import zeros_of
from jitgrad.ops.shape.view import UnsafeView, reshape
from jitgrad.ops.sparse.parts import at_places, coalesced, named, ordered_values, settled, values_of, with_values
from jitgrad.ops.sparse.places import as_coo, compressed, keys_of, keys_to_pattern, sizes_of

__all__ = ["dense", "to_coo", "to_dense"]

_TITLES = {"strided": "Strided", "sparse_coo": "Sparse", "sparse_csr": "SparseCsr", "sparse_csc": "SparseCsc",
           "sparse_bsr": "SparseBsr", "sparse_bsc": "SparseBsc"}  # fmt: skip
_COMPRESSED = ("sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")


def kind_of(x: Any) -> str:
    """The name of a tensor's layout."""
    return x._pattern.kind if isinstance(x, SparseTensor) else "strided"


def title(x: Tensor) -> str:
    """A tensor's layout as errors call it."""
    return _TITLES[kind_of(x)]


# -- to dense ----------------------------------------------------------------------------------------------


def dense(x: Any) -> Tensor:
    """The dense tensor of a sparse one; gradients at its places flow back. A dense tensor as it is."""
    if not isinstance(x, SparseTensor):
        return x
    pattern = x._pattern
    if pattern.block:
        return _from_blocks(values_of(x), pattern)
    if pattern.kind != "sparse_coo" and pattern.indices[0].ndim > 1:
        return _from_batch(x)
    x = settled(x)
    pattern, values = x._pattern, values_of(x)
    rest = pattern.shape[pattern.sparse_dim :]
    total = math.prod(sizes_of(pattern))
    keys = keys_of(as_coo(pattern))
    zeros = zeros_of(intern(values._layout.numpy_dtype, (total, *rest)))
    # The sum is a new tensor that nobody else holds: no view of it needs to be tracked.
    return UnsafeView.apply(IndexAdd.apply(zeros, 0, keys, values) if pattern.nnz else zeros, pattern.shape)


def _from_blocks(values: Tensor, pattern: Pattern) -> Tensor:
    (h, w), (m, n), rest = pattern.block, pattern.shape[:2], tuple(values.shape[3:])
    if pattern.indices[0].ndim > 1:
        raise NotImplementedError(f"to_dense: batches of {pattern.kind} are not there")
    where = as_coo(pattern.like(shape=(m // h, n // w), block=()))
    zeros = zeros_of(intern(values._layout.numpy_dtype, (m // h * (n // w), h, w, *rest)))
    tiles = IndexAdd.apply(zeros, 0, keys_of(where), values) if pattern.nnz else zeros
    return reshape(reshape(tiles, (m // h, n // w, h, w, *rest)).transpose(1, 2), (m, n, *rest))


def _from_batch(x: Any) -> Tensor:
    """A batch of compressed matrices, one after another."""
    pattern, values = x._pattern, values_of(x)
    lead = pattern.indices[0].ndim - 1
    shape = pattern.shape[:lead]
    rows = reshape(values, (math.prod(shape), *values.shape[lead:]))
    parts = [reshape(i, (math.prod(shape), i.shape[-1])) for i in pattern.indices]
    one = [
        dense(with_values(rows[k], Pattern(pattern.kind, (parts[0][k], parts[1][k]), pattern.shape[lead:], 2)))
        for k in range(math.prod(shape))
    ]
    return reshape(FUNCTIONS["stack"](one), pattern.shape)


@method
def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """The tensor with all its zeros, as a dense one; masked_grad: whether only the stored elements get gradients."""
    if isinstance(self, SparseTensor):
        if dtype is not None:
            raise RuntimeError("dtype argument is not supported by sparse_to_dense")
        if masked_grad is False:
            return DenseUnmasked.apply(self, self._pattern)
        return named(dense(self), "ToDenseBackward0")
    return self if dtype is None else self.to(dtype)


class DenseUnmasked(Structured, listed=False):
    """The dense tensor of a sparse one, whose gradient is dense: elements that are not stored get theirs."""

    name, grad_name, linear, half, sparse = "_to_dense_unmasked", "ToDenseBackward0", ("x",), True, True

    def forward(x, pattern):
        return dense(x.detach())

    def grad_x(g, pattern):
        if pattern.kind == "sparse_coo":
            return to_coo(g, pattern.sparse_dim)
        return to_compressed(g, pattern.kind, g.ndim - pattern.sparse_dim, pattern.block or None)


# -- to sparse ----------------------------------------------------------------------------------------------


def to_coo(x: Any, sparse_dim: int | None = None) -> Any:
    """A tensor as COO: of a dense one what is not zero, as one whose first ``sparse_dim`` dims are sparse."""
    if isinstance(x, SparseTensor):
        if x._pattern.kind == "sparse_coo":
            return x
        if x._pattern.block or x._pattern.indices[0].ndim > 1:
            return to_coo(dense(x))
        return coalesced(with_values(values_of(x), as_coo(x._pattern)))
    ndim = x.ndim
    d = ndim if sparse_dim is None else sparse_dim
    if ndim and d == 0:
        raise RuntimeError("dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0")
    if not 0 <= d <= ndim:
        raise RuntimeError(f"dense_to_sparse: sparse_dim argument must be in [0,{ndim}] range, but {d} is given")
    if read_observers:
        announce_read("to_sparse()")
    shape = tuple(x.shape)
    there = x.detach() != 0
    if d < ndim:
        there = reshape(there, (*shape[:d], -1)).any(-1) if x.numel() else there.new_zeros(shape[:d])
    total = math.prod(shape[:d])
    keys = reshape(nonzero(reshape(there, (total,))), (-1,))._data
    pattern = keys_to_pattern(keys, shape, d, True)
    return with_values(at_places(x, pattern), pattern)


def to_compressed(x: Any, kind: str, dense_dim: int | None = None, block: Any = None, caller: str = "") -> Any:
    """A matrix as CSR or CSC; of blocks as BSR or BSC."""
    if isinstance(x, SparseTensor) and x._pattern.kind == kind and not block:
        return x
    if x.ndim < 2:
        raise RuntimeError(
            f"Only tensors with two or more dimensions can be converted to the {_TITLES[kind]} layout but got "
            f"{x.ndim}D tensor"
        )
    if kind in ("sparse_bsr", "sparse_bsc"):
        return _to_blocks(dense(x), kind, block, caller or _caller(x, kind))
    if not isinstance(x, SparseTensor):
        most = x.ndim - 2
        if dense_dim is not None and not 0 <= dense_dim <= most:
            raise RuntimeError(
                f"dense_to_{kind}: dense_dim argument must be in [0,{most}] range, but {dense_dim} is given"
            )
        if x.ndim - (dense_dim or 0) > 2:
            return _to_batch(x, kind)
        x = to_coo(x, 2)
    elif x._pattern.sparse_dim != 2 and x._pattern.kind == "sparse_coo":
        raise RuntimeError(f"to_{kind}: expected a tensor of two sparse dims, but got {x._pattern.sparse_dim}")
    x = coalesced(to_coo(x))
    pattern, order = compressed(x._pattern, kind)
    return with_values(ordered_values(values_of(x), order), pattern)


def _to_batch(x: Any, kind: str) -> Tensor:
    lead = tuple(x.shape[:-2])
    each = [to_compressed(m, kind) for m in reshape(x, (math.prod(lead), *x.shape[-2:])).unbind(0)]
    if len({m._pattern.nnz for m in each}) > 1:
        raise RuntimeError("Expect the same number of specified elements per batch.")
    stack = FUNCTIONS["stack"]
    index = [reshape(stack([m._pattern.indices[k] for m in each]), (*lead, -1)) for k in (0, 1)]
    values = stack([values_of(m) for m in each])
    pattern = Pattern(kind, tuple(index), tuple(x.shape), len(lead) + 2)
    return with_values(reshape(values, (*lead, *values.shape[1:])), pattern)


def _to_blocks(x: Tensor, kind: str, block: Any, caller: str) -> Any:
    (h, w), (m, n) = block, x.shape[:2]
    if m % h or n % w:
        raise RuntimeError(f"{caller}: tensor sparse size ({m},{n}) must be divisible by given blocksize ({h},{w})")
    rest = tuple(x.shape[2:])
    tiles = reshape(x, (m // h, h, n // w, w, *rest)).transpose(1, 2)
    tiles = reshape(tiles, (m // h, n // w, h * w * math.prod(rest)))
    coo = to_coo(tiles, 2)
    pattern, order = compressed(coo._pattern.like(shape=(m // h, n // w)), kind.replace("bs", "cs"))
    values = reshape(ordered_values(values_of(coo), order), (-1, h, w, *rest))
    return with_values(values, Pattern(kind, pattern.indices, tuple(x.shape), 2, block=(h, w)))


def _checked_block(caller: str, block: Any) -> tuple[int, int]:
    """(height, width) of blocks, from the pair or one number; RuntimeError for others and for sizes below 1."""
    sizes = ints_argument("to_sparse", "blocksize", 2, (block, block) if isinstance(block, int) else block)
    if len(sizes) != 2:
        raise RuntimeError(f"{caller}: blocksize needs to be a tuple of size 2, but got {len(sizes)}")
    if min(sizes) <= 0:
        raise RuntimeError(f"{caller}: blocksize needs to be positive, but got {list(sizes)}")
    return sizes[0], sizes[1]


def _caller(x: Any, kind: str, name: str = "to_sparse") -> str:
    """What PyTorch calls a conversion in its errors."""
    own = kind_of(x)
    coo = "sparse_coo" if name == "to_sparse" else "coo"
    return name if own == kind else {"strided": "dense", "sparse_coo": coo}.get(own, "sparse_compressed") + f"_{name}"


@method
def to_sparse(self: Tensor, sparse_dim: Any = None, *, layout: Any = None, blocksize: Any = None,
              dense_dim: int | None = None) -> Tensor:  # fmt: skip
    """What is not zero as a sparse tensor, COO unless ``layout`` says otherwise."""
    kind = getattr(layout, "name", None)
    if sparse_dim is not None:
        d = int_argument("to_sparse", "sparse_dim", 2, sparse_dim)
        if isinstance(self, SparseTensor) and d != self._pattern.sparse_dim:
            raise RuntimeError(
                f"to_sparse: conversion from {title(self)} to Sparse with sparse_dim argument !=self.sparse_dim() is "
                "not supported"
            )
        return named(to_coo(self, d), "ToSparseBackward0", self)
    if kind == "strided":
        return dense(self)
    wanted = kind or "sparse_coo"
    if blocksize is not None:
        blocksize = _checked_block(_caller(self, wanted), blocksize)
    if (wanted in ("sparse_bsr", "sparse_bsc")) is (blocksize is None):
        raise RuntimeError(
            f"{_caller(self, wanted)}: conversion from {title(self)} to {_TITLES[wanted]} "
            f"{'without' if blocksize is None else 'with'} blocksize argument given is not supported"
        )
    if kind in (None, "sparse_coo"):
        sparse = self.ndim - dense_dim if dense_dim is not None else None
        return named(to_coo(self, sparse), "ToSparseBackward1", self)
    return named(to_compressed(self, kind, dense_dim, blocksize), f"To{_TITLES[kind]}Backward0", self)


@method
def to_sparse_coo(self: Tensor) -> Tensor:
    """What is not zero as COO."""
    return to_sparse(self)


def _converting(name: str) -> None:
    kind = f"sparse_{name}"

    def convert(self: Tensor, dense_dim: int | None = None) -> Tensor:
        return named(to_compressed(self, kind, dense_dim), f"To{_TITLES[kind]}Backward0", self)

    def convert_blocks(self: Tensor, blocksize: Any, dense_dim: int | None = None) -> Tensor:
        caller = _caller(self, kind, f"to_{kind}")
        block = _checked_block(caller, blocksize)
        return named(to_compressed(self, kind, dense_dim, block, caller), f"To{_TITLES[kind]}Backward0", self)

    function = convert_blocks if name[0] == "b" else convert
    function.__name__ = function.__qualname__ = f"to_{kind}"
    function.__doc__ = f"A matrix, or what is not zero of it, in the layout {kind}."
    method(function)


for _name in ("csr", "csc", "bsr", "bsc"):
    _converting(_name)


# -- what a tensor says of itself ---------------------------------------------------------------------------


def _coo_only(x: Tensor, op: str) -> None:
    if kind_of(x) != "sparse_coo":
        raise RuntimeError(f"{op} expected sparse coordinate tensor layout but got {title(x)}")


@method
def coalesce(self: Tensor) -> Tensor:
    """The same tensor with indices in order and none twice: itself if it is so."""
    _coo_only(self, "coalesce")
    return coalesced(self)


@method
def is_coalesced(self: Tensor) -> bool:
    """Whether indices are known to be in order and none there twice."""
    _coo_only(self, "is_coalesced")
    return bool(self._pattern.coalesced)  # type: ignore[attr-defined]


def _coalesced_(self: Tensor, coalesced: bool) -> Tensor:
    """Say whether indices are in order and none there twice."""
    _coo_only(self, "_coalesced_")
    self._pattern = self._pattern.like(coalesced=coalesced)  # type: ignore[attr-defined]
    return self


@method
def indices(self: Tensor) -> Tensor:
    """The indices (sparse dims, nnz) of a coalesced tensor."""
    _coo_only(self, "indices")
    if not self._pattern.coalesced:  # type: ignore[attr-defined]
        raise RuntimeError("Cannot get indices on an uncoalesced tensor, please call .coalesce() first")
    return _indices(self)


@method
def values(self: Tensor) -> Tensor:
    """The values, (nnz, *dense dims), on the same memory; gradients flow through."""
    if not isinstance(self, SparseTensor):
        raise RuntimeError(f"values expected sparse tensor layout but got {title(self)}")
    if self._pattern.kind == "sparse_coo" and not self._pattern.coalesced:
        raise RuntimeError("Cannot get values on an uncoalesced tensor, please call .coalesce() first")
    return values_of(self)


def _indices(self: Tensor) -> Tensor:
    """The indices as they are."""
    if kind_of(self) != "sparse_coo":
        raise SparseOperand("_indices", "CPU" if kind_of(self) == "strided" else "SparseCsrCPU")
    return self._pattern.indices[0].detach()  # type: ignore[attr-defined]


def _values(self: Tensor) -> Tensor:
    """The values as they are, outside the graph."""
    if kind_of(self) != "sparse_coo":
        raise SparseOperand("_values", "CPU" if kind_of(self) == "strided" else "SparseCsrCPU")
    return self._stored.detach()  # type: ignore[attr-defined]


def _nnz(self: Tensor) -> int:
    """How many values are stored."""
    if not isinstance(self, SparseTensor):
        raise SparseOperand("_nnz", "CPU")
    return self._pattern.nnz


for _function in (_coalesced_, _indices, _values, _nnz):
    method(_function)


@method
def sparse_dim(self: Tensor) -> int:
    """How many dims the indices name; 0 of a dense tensor."""
    if not isinstance(self, SparseTensor):
        return 0
    return self._pattern.sparse_dim if self._pattern.kind == "sparse_coo" else 2


@method
def dense_dim(self: Tensor) -> int:
    """How many dims a value has; those of the tensor if it is dense."""
    if not isinstance(self, SparseTensor):
        return self.ndim
    return self.ndim - self._pattern.sparse_dim


def _index_getter(name: str, place: int, kinds: tuple[str, ...]) -> None:
    what = "row" if kinds[0].endswith("r") else "column"

    def index(self: Tensor) -> Tensor:
        if kind_of(self) not in kinds:
            raise RuntimeError(f"{name} expected sparse {what} compressed tensor layout but got {title(self)}")
        return self._pattern.indices[place].detach()  # type: ignore[attr-defined]

    index.__name__ = index.__qualname__ = name
    index.__doc__ = f"The {'compressed' if place == 0 else 'plain'} indices of a matrix that is stored by {what}s."
    method(index)


for _name, _place, _kinds in (
    ("crow_indices", 0, ("sparse_csr", "sparse_bsr")), ("col_indices", 1, ("sparse_csr", "sparse_bsr")),
    ("ccol_indices", 0, ("sparse_csc", "sparse_bsc")), ("row_indices", 1, ("sparse_csc", "sparse_bsc")),
):  # fmt: skip
    _index_getter(_name, _place, _kinds)


# -- masks --------------------------------------------------------------------------------------------------


@method
def sparse_mask(self: Tensor, mask: Any) -> Tensor:
    """The elements at the places of ``mask``, a sparse tensor, as a sparse tensor of its places."""
    if not isinstance(mask, SparseTensor):
        raise SparseOperand("sparse_mask", "CPU")
    if self.shape != mask.shape:
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(self.shape)} but mask has size "
            f"{list(mask.shape)}"
        )
    pattern = mask._pattern
    if isinstance(self, SparseTensor):
        return Masked.apply(self, pattern)
    return named(with_values(at_places(self, pattern), pattern), "SparseMaskBackward0")


class Masked(Structured, listed=False):
    """A sparse tensor at the places of a pattern; the gradient has these, too."""

    name, grad_name, linear, half, sparse = "_sparse_mask", "SparseMaskBackward0", ("x",), True, True

    def forward(x, pattern):
        return with_values(at_places(x.detach(), pattern), pattern)

    def grad_x(g, pattern):
        return with_values(at_places(g, pattern), pattern)
