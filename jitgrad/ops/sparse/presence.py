"""What Python and PyTorch ask of any tensor, of sparse ones: properties, text, pickles, copies; what they refuse."""

from __future__ import annotations

import copy
from typing import Any, NoReturn

from jitgrad.core import dtypes, formatting
from jitgrad.core.sparse import SparseTensor
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.registry import FUNCTIONS
from jitgrad.dispatch.sparse_calls import sparse_form
from jitgrad.ops.creation.conversion import on_host
from jitgrad.ops.memory.pickled import check_copied, saving
from jitgrad.ops.sparse.construct import sparse_compressed_tensor, sparse_coo_tensor
from jitgrad.ops.sparse.parts import values_of

__all__: list[str] = []


# -- properties ------------------------------------------------------------------------------------------------


def _property(name: str, read: Any) -> None:
    setattr(SparseTensor, name, property(read))


_property("is_sparse", lambda self: self._pattern.kind == "sparse_coo")
_property("is_sparse_csr", lambda self: self._pattern.kind == "sparse_csr")


def _type(self: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    if dtype is not None:
        return Tensor.type(self, dtype)
    if self._pattern.kind != "sparse_coo":
        raise RuntimeError("Unimplemented backend SparseCsrCPU")
    return f"torch.sparse.{self.dtype.title}Tensor"


def _nbytes(self: Any) -> NoReturn:
    raise RuntimeError(
        "nbytes is not defined for sparse tensors.  If you want the size of the constituent tensors, add the nbytes of "
        "the indices and values.  If you want the size of the  equivalent dense tensor, multiply numel() by "
        "element_size()"
    )


_property("nbytes", _nbytes)


def _refusing(kind: type[Exception], text: str) -> Any:
    def refuse(self: Any, *args: Any, **options: Any) -> NoReturn:
        raise kind(text)

    return refuse


def _no_storage(self: Any) -> NoReturn:
    kind = "SparseTensorImpl" if self._pattern.kind == "sparse_coo" else "SparseCsrTensorImpl"
    raise NotImplementedError(f"Cannot access storage of {kind}")


def _check_coo(self: Any, what: str) -> None:
    """RuntimeError for a compressed matrix."""
    if self._pattern.kind != "sparse_coo":
        raise RuntimeError(f"Sparse {self._pattern.kind[-3:].upper()} tensors do not have {what}")


def _is_contiguous(self: Any, memory_format: Any = None) -> bool:
    _check_coo(self, "is_contiguous")
    return False


_NO_POINTER = "Cannot access data pointer of Tensor that doesn't have storage"
_NO_SHAPE = "reshape is not implemented for sparse tensors"
_NO_EXPAND = "expand is unsupported for Sparse tensors"
_METHODS = {
    "data_ptr": _refusing(RuntimeError, _NO_POINTER), "tolist": _refusing(RuntimeError, _NO_POINTER),
    "storage": _no_storage, "untyped_storage": _no_storage,
    "numpy": _refusing(TypeError, "can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first."),
    "__array__": _refusing(TypeError, "can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first."),
    "reshape": _refusing(RuntimeError, _NO_SHAPE), "flatten": _refusing(RuntimeError, _NO_SHAPE),
    "expand": _refusing(RuntimeError, _NO_EXPAND), "repeat": _refusing(RuntimeError, _NO_EXPAND),
    "expand_as": _refusing(RuntimeError, _NO_EXPAND),
    "is_contiguous": _is_contiguous,
    "type": _type,
}  # fmt: skip
for _name, _function in _METHODS.items():
    setattr(SparseTensor, _name, _function)
for _name in ("reshape", "flatten"):
    sparse_form(_name, method=False)(_METHODS[_name])


def _stride(self: Any, dim: Any = None) -> Any:
    _check_coo(self, "strides")
    return (0,) * self.ndim if dim is None else 0


SparseTensor.stride = _stride  # type: ignore[method-assign]


def _item(self: Any) -> Any:
    if self.numel() != 1:
        raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
    return values_of(self).sum().item()


SparseTensor.item = _item  # type: ignore[method-assign]


def _to(self: Any, *args: Any, **options: Any) -> Any:
    """As ``Tensor.to``; a copy that is asked for has indices of its own."""
    places = [a for a in args if not isinstance(a, (bool, dtypes.dtype, Tensor))]
    device = options.get("device", places[0] if places else None)
    if device is not None and str(device).partition(":")[0] != "cpu":
        raise NotImplementedError(f"sparse tensors are on the CPU only, not on {device}")
    found = Tensor.to(self, *args, **options)
    return found


SparseTensor.to = _to  # type: ignore[method-assign]


@sparse_form("is_same_size")
def _same_size(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape."""
    return tuple(input.shape) == tuple(other.shape)


# -- text -------------------------------------------------------------------------------------------------------

_INDEX_NAMES = {"sparse_csr": ("crow_", "col_"), "sparse_bsr": ("crow_", "col_"), "sparse_csc": ("ccol_", "row_"),
                "sparse_bsc": ("ccol_", "row_"), "sparse_coo": ("",)}  # fmt: skip


def _repr(self: Any, *, tensor_contents: Any = None) -> str:
    pattern, indent = self._pattern, len("tensor(")
    parts = [*zip([f"{n}indices" for n in _INDEX_NAMES[pattern.kind]], pattern.indices, strict=True),
             ("values", self._stored)]  # fmt: skip
    lines = []
    for name, part in parts:
        prefix = f"{name}=tensor("
        text = formatting.format_array(_printed(part), indent=indent + len(prefix))
        empty = f", size={tuple(part.shape)}" if not part.numel() else ""
        lines.append(f"{prefix}{text}{empty})")
    suffixes = [f"size={tuple(self.shape)}", f"nnz={pattern.nnz if pattern.kind == 'sparse_coo' else self._nnz()}"]
    usual = {dtypes.get_default_dtype().name, "int64", "bool"}
    usual.add("complex128" if dtypes.get_default_dtype().name == "float64" else "complex64")
    if self.dtype.name not in usual:
        suffixes.append(f"dtype={self.dtype}")
    suffixes.append(f"layout=torch.{pattern.kind}")
    if self._edge is not None:
        suffixes.append(f"grad_fn=<{type(self.grad_fn).__name__}>")
    elif self._requires_grad:
        suffixes.append("requires_grad=True")
    kind = "Parameter containing:\n" * self.__dict__.get("_is_param", False)
    text = f"{kind}tensor(" + (",\n" + " " * indent).join(lines)
    return formatting.with_suffixes(text, suffixes, indent, pattern.kind == "sparse_coo") + ")"


def _printed(part: Tensor) -> Any:
    part = part.detach()
    return on_host(part.float() if part.dtype is dtypes.bfloat16 else part)


SparseTensor.__repr__ = _repr  # type: ignore[method-assign]


# -- pickles and copies ------------------------------------------------------------------------------------------


def _rebuild_sparse(kind: str, indices: Any, values: Tensor, shape: Any, coalesced: bool, requires_grad: bool) -> Any:
    """The tensor of a pickle."""
    made: Any
    if kind == "sparse_coo":
        made = sparse_coo_tensor(indices[0], values, shape, check_invariants=True, is_coalesced=coalesced)
    else:
        first, second = indices
        layout = FUNCTIONS[kind]
        made = sparse_compressed_tensor(first, second, values, shape, layout=layout, check_invariants=True)
    made._requires_grad = requires_grad
    return made


def _reduce(self: Any, protocol: Any) -> Any:
    if saving.active:
        from jitgrad.ops.sparse.files import call_of  # which no other program needs

        return call_of(self)
    p = self._pattern
    args = p.kind, tuple([i.detach() for i in p.indices]), self._stored.detach(), tuple(p.shape), p.coalesced
    return _rebuild_sparse, (*args, self._requires_grad)


SparseTensor.__reduce_ex__ = _reduce  # type: ignore[method-assign]


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    check_copied(self)
    if id(self) not in memo:
        made = memo[id(self)] = self.detach().clone()
        made._requires_grad = self._requires_grad
        if self._grad is not None:
            made._grad = copy.deepcopy(self._grad, memo)
    return memo[id(self)]


SparseTensor.__deepcopy__ = _deepcopy  # type: ignore[method-assign]
