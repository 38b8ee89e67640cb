"""Sparse tensors: ``torch.sparse``. The ops are in ``jitgrad/ops/sparse/``."""

from __future__ import annotations

import functools
from typing import Any

from jitgrad.core import dtypes
from jitgrad.core.layout import Size
from jitgrad.core.sparse import SparseTensor
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.registry import module_names
from jitgrad.ops.creation.constants import ones
from jitgrad.ops.sparse.construct import sparse_coo_tensor
from jitgrad.ops.sparse.invariants import check_sparse_tensor_invariants as check_sparse_tensor_invariants

__getattr__, __dir__ = module_names("sparse")


def as_sparse_gradcheck(gradcheck: Any) -> Any:
    """``gradcheck`` for functions of sparse tensors; unless ``masked`` these store all of their elements, zeros too."""

    @functools.wraps(gradcheck)
    def checked(func: Any, inputs: Any, **options: Any) -> Any:
        if not options.get("masked", False):
            inputs = tuple([_filled(x) for x in (inputs if isinstance(inputs, (list, tuple)) else (inputs,))])
        return gradcheck(func, inputs, **options)

    return checked


def _filled(x: Any) -> Any:
    """A sparse tensor that requires grad with all of its elements stored; anything else as it is."""
    if not isinstance(x, SparseTensor) or not x.requires_grad:
        return x
    places = ones(tuple(x.shape), dtype=dtypes.bool_).to_sparse(
        layout=x.layout, blocksize=x._pattern.block or None, dense_dim=x.dense_dim()
    )
    return x.detach().to_dense().sparse_mask(places).requires_grad_()


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
