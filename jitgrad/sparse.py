"""Sparse tensors: ``torch.sparse``. The ops are in ``jitgrad/ops/sparse/``."""

from __future__ import annotations

from typing import Any

from jitgrad.core import dtypes
from jitgrad.core.layout import Size
from jitgrad.core.sparse import SparseTensor
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.registry import module_names
from jitgrad.ops.sparse.construct import sparse_coo_tensor
from jitgrad.ops.sparse.invariants import check_sparse_tensor_invariants as check_sparse_tensor_invariants

__getattr__, __dir__ = module_names("sparse")


def as_sparse_gradcheck(gradcheck: Any) -> Any:
    """``gradcheck`` for functions of sparse tensors, which ours is anyway; ``masked`` as there."""
    return gradcheck


class _LegacyType(type):
    """Metaclass of ``FloatTensor`` and its kin: names of dtypes that can be called with indices and values."""

    dtype: dtypes.dtype

    def __call__(cls, *args: Any) -> Tensor:
        """The sparse tensor of (indices, values, size), or of a size alone."""
        if len(args) < 2 or isinstance(args[0], int):
            size = args[0] if len(args) == 1 and isinstance(args[0], Size) else args
            return sparse_coo_tensor(tuple(size), dtype=cls.dtype)
        return sparse_coo_tensor(*args, dtype=cls.dtype)

    def __instancecheck__(cls, value: Any) -> bool:
        """Whether a value is a COO tensor of this dtype."""
        return isinstance(value, SparseTensor) and value._pattern.kind == "sparse_coo" and value.dtype is cls.dtype


for _name in ("Float", "Double", "Half", "BFloat16", "Byte", "Char", "Short", "Int", "Long"):
    _dtype = next(d for d in dtypes.all_dtypes() if d.title == _name)
    globals()[f"{_name}Tensor"] = _LegacyType(f"{_name}Tensor", (), {"dtype": _dtype, "__module__": __name__})
