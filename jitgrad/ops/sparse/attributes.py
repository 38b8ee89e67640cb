"""What sparse tensors say of themselves: their layout, indices and values."""

from __future__ import annotations

from typing import Any

from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.sparse import SparseOperand, SparseTensor
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.registry import method
from jitgrad.ops.sparse.parts import coalesced, values_of

__all__ = ["TITLES", "kind_of", "title"]

TITLES = {"strided": "Strided", "sparse_coo": "Sparse", "sparse_csr": "SparseCsr", "sparse_csc": "SparseCsc",
          "sparse_bsr": "SparseBsr", "sparse_bsc": "SparseBsc"}  # fmt: skip


def kind_of(x: Any) -> str:
    """The name of a tensor's layout."""
    return x._pattern.kind if isinstance(x, SparseTensor) else "strided"


def title(x: Tensor) -> str:
    """A tensor's layout as errors call it."""
    return TITLES[kind_of(x)]


def _coo_only(x: Tensor, op: str) -> None:
    if kind_of(x) != "sparse_coo":
        raise RuntimeError(f"{op} expected sparse coordinate tensor layout but got {title(x)}")


@method
def coalesce(self: Tensor) -> Tensor:
    """The same tensor with its indices sorted and none twice: itself if it is known to be coalesced."""
    _coo_only(self, "coalesce")
    return coalesced(self)


@method
def is_coalesced(self: Tensor) -> bool:
    """Whether the indices are known to be sorted, with none twice."""
    _coo_only(self, "is_coalesced")
    return bool(self._pattern.coalesced)  # type: ignore[attr-defined]


def _coalesced_(self: Tensor, coalesced: bool) -> Tensor:
    """Set, in place and without a check, whether the tensor counts as coalesced."""
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
    """The values, (nnz, *dense dims): a view; gradients flow through."""
    if not isinstance(self, SparseTensor):
        raise RuntimeError(f"values expected sparse tensor layout but got {title(self)}")
    if self._pattern.kind == "sparse_coo" and not self._pattern.coalesced:
        raise RuntimeError("Cannot get values on an uncoalesced tensor, please call .coalesce() first")
    found = values_of(self)
    found._base = self if self._base is None else self._base
    if not grad_state.enabled:
        found._view_kind = "no_grad"
    return found


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
