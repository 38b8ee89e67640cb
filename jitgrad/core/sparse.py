"""Sparse tensors: a pattern of places and a dense tensor of the values there.

A sparse tensor is of a subclass of Tensor (whose name is Tensor's, too) and has a layout of its own kind, of which no
op has a plan. So the fast paths of dense tensors test for nothing: a sparse operand misses every plan and reaches the
slow path, which asks dispatch/sparse_calls.py for the op's sparse form. There is no array either: whatever asks for
strides or memory all the same gets a SparseOperand, the error that says which op is not there for sparse tensors.

The graph is recorded on sparse tensors as on others. ops/sparse/ has the ops.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.host_reads import announce_read, read_observers
from jitgrad.core.layout import Layout, Size, cache, halves
from jitgrad.core.override_off import DISABLED
from jitgrad.core.storage import counter_of
from jitgrad.core.tensor import Tensor
from jitgrad.core.tensor_observers import announce_tensor, tensor_observers

__all__ = ["Pattern", "SparseLayout", "SparseOperand", "SparseTensor", "sparse_tensor"]

_BACKENDS = {"sparse_coo": "SparseCPU"}


class SparseOperand(NotImplementedError):
    """An op that is not there for sparse tensors has got one."""

    def __init__(self, op: str = "", backend: str = "SparseCPU"):
        self.op, self.backend = op, backend

    def __str__(self) -> str:
        return (
            f"Could not run 'aten::{self.op or 'as_strided'}' with arguments from the '{self.backend}' backend. The op "
            "doesn't exist for sparse tensors: x.to_dense() is the dense tensor of one"
        )

    def __reduce__(self) -> Any:
        return SparseOperand, (self.op, self.backend)


# Users see it as what it is a kind of.
SparseOperand.__name__, SparseOperand.__module__ = NotImplementedError.__name__, NotImplementedError.__module__


class SparseLayout(Layout):
    """dtype, shape and device of a sparse tensor. ``kind`` is the name of its layout: ``sparse_coo``, ..."""

    __slots__ = ("kind",)

    def __init__(self, kind: str, numpy_dtype: np.dtype[Any], shape: tuple[int, ...]):
        self.kind, self.numpy_dtype, self.shape, self.device = kind, numpy_dtype, shape, "cpu"
        self.dtype = dtypes.from_numpy_dtype(numpy_dtype)
        self.size, self.ndim = Size(shape), len(shape)
        self.numel = 1
        for n in shape:
            self.numel *= n
        self.contiguous = self.plain = False
        self.special = True
        self.array_shape = shape
        if not halves:
            halves.append(True)

    @property
    def backend(self) -> str:
        """What PyTorch calls the place of the ops on such tensors."""
        return _BACKENDS.get(self.kind, "SparseCsrCPU")

    @property
    def strides(self) -> Any:
        """None: SparseOperand."""
        raise SparseOperand(backend=self.backend)

    dense = strides


_layouts: dict[Any, SparseLayout] = cache()


def _layout_for(kind: str, numpy_dtype: np.dtype[Any], shape: tuple[int, ...]) -> SparseLayout:
    found = _layouts.get((kind, numpy_dtype, shape))
    if found is None:
        found = _layouts[kind, numpy_dtype, shape] = SparseLayout(kind, numpy_dtype, shape)
    return found


class _NoArray:
    """In the place of a sparse tensor's array: SparseOperand for whatever is asked of it."""

    __slots__ = ()

    def __getattr__(self, name: str) -> NoReturn:
        raise SparseOperand

    def __getitem__(self, index: Any) -> NoReturn:
        raise SparseOperand

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise SparseOperand

    def __len__(self) -> NoReturn:
        raise SparseOperand

    __array__ = __iter__ = __bool__ = property(lambda self: self.__getattr__(""))


_NO_ARRAY = _NoArray()


class Pattern:
    """The places of a sparse tensor's values: tensors of indices, and what was worked out from them.

    kind: the layout's name. indices: (indices,) of COO, (compressed, plain) of others. shape: that of the sparse
    tensor. sparse_dim: how many dims the indices name; the others are those of a value. coalesced: whether places are
    in order and none is there twice. block: the size of a value's block, where a place is one of blocks.
    """

    __slots__ = ("_known", "_versions", "block", "coalesced", "indices", "kind", "shape", "sparse_dim")

    def __init__(
        self, kind: str, indices: tuple[Tensor, ...], shape: tuple[int, ...], sparse_dim: int, coalesced: bool = False,
        block: tuple[int, ...] = (),
    ):  # fmt: skip
        self.kind, self.indices, self.shape = kind, indices, shape
        self.sparse_dim, self.coalesced, self.block = sparse_dim, coalesced, block
        self._known: dict[str, Any] = {}
        self._versions = ()

    @property
    def nnz(self) -> int:
        """How many places there are."""
        return self.indices[-1]._layout.shape[-1]

    def known(self) -> dict[str, Any]:
        """What was worked out from the indices; empty once they were written to."""
        versions = tuple([i._counter[0] for i in self.indices])
        if versions != self._versions:
            self._known, self._versions = {}, versions
        return self._known

    def like(self, **changed: Any) -> Pattern:
        """A pattern with other properties; what is known is forgotten."""
        mine = {"kind": self.kind, "indices": self.indices, "shape": self.shape, "sparse_dim": self.sparse_dim,
                "coalesced": self.coalesced, "block": self.block}  # fmt: skip
        return Pattern(**{**mine, **changed})


class SparseTensor(Tensor):
    """A tensor of which only some elements are stored; the others are zero."""

    __module__, __torch_function__ = "jitgrad", DISABLED

    _layout: Any
    _pattern: Pattern
    _stored: Tensor  # the values, outside the graph: (nnz, *dims of a value)

    def detach(self) -> Tensor:
        """The same places and values outside the graph."""
        result = sparse_tensor(self._pattern, self._stored)
        result._counter = counter_of(self)
        return result

    @property
    def data(self) -> Tensor:
        """The same places and values outside the graph."""
        return sparse_tensor(self._pattern, self._stored.data)

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, SparseTensor):
            raise RuntimeError(
                "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor "
                "type."
            )
        self._layout, self._pattern, self._stored = value._layout, value._pattern, value._stored

    def detach_(self) -> Tensor:
        """Take this tensor out of the graph: it becomes a leaf that requires no grad."""
        self._edge, self._requires_grad, self._leaf_edge = None, False, None
        return self

    def become(self, other: Any) -> None:
        """Take over the places and values of ``other``, as a write to this tensor; the history is left as it is."""
        counter = counter_of(self)
        counter[0] += 1
        self._layout, self._pattern, self._stored = other._layout, other._pattern, other._stored


SparseTensor.__name__ = SparseTensor.__qualname__ = "Tensor"


def sparse_tensor(pattern: Pattern, values: Tensor) -> SparseTensor:
    """A sparse tensor of values, outside the graph; their memory is shared."""
    if read_observers:
        announce_read("a sparse tensor")
    result: SparseTensor = object.__new__(SparseTensor)
    result._data, result._layout = _NO_ARRAY, _layout_for(pattern.kind, values._layout.numpy_dtype, pattern.shape)
    result._pattern, result._stored = pattern, values
    result._counter = counter_of(values)
    if tensor_observers:
        announce_tensor(result)
    return result
