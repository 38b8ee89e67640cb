"""Questions about dtypes, layouts and sizes: can_cast, result_type, memory formats."""

from __future__ import annotations

from typing import Any

from jitgrad.core import dtypes
from jitgrad.core.errors import invalid_combination, must_be, must_be_tensor
from jitgrad.core.inference import is_inference as made_in_inference
from jitgrad.core.sparse import SparseLayout
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.operand_checks import NUMBERS
from jitgrad.dispatch.registry import FUNCTIONS, public

__all__ = ["can_cast", "promote_types", "result_type"]

def can_cast(from_: Any, to: Any) -> bool:
    """Whether a dtype's category allows an implicit cast: never to a lower one (complex, float, int, bool)."""
    source, target = (_dtype("can_cast", n, k, v) for k, (n, v) in enumerate((("from_", from_), ("to", to)), 1))
    return bool(source.category <= target.category)


def promote_types(type1: Any, type2: Any) -> dtypes.dtype:
    """The smallest dtype that both can be cast to, by PyTorch's rules."""
    return dtypes.promote_types(
        _dtype("promote_types", "type1", 1, type1), _dtype("promote_types", "type2", 2, type2)
    )


def _dtype(op: str, name: str, position: int, value: Any) -> dtypes.dtype:
    found = dtypes.from_argument(value)
    if found is None:
        raise must_be(op, name, position, "torch.dtype", value)
    return found


def result_type(tensor1: Any, tensor2: Any) -> dtypes.dtype:
    """The dtype of an op on two tensors or numbers."""
    if not (isinstance(tensor1, (Tensor, *NUMBERS)) and isinstance(tensor2, (Tensor, *NUMBERS))):
        raise invalid_combination("result_type", (tensor1, tensor2))
    tensors = [t._layout for t in (tensor1, tensor2) if isinstance(t, Tensor)]
    numbers = [dtypes.category_of(t) for t in (tensor1, tensor2) if not isinstance(t, Tensor)]
    return dtypes.promote([x.dtype for x in tensors if x.ndim], [x.dtype for x in tensors if not x.ndim], numbers)


def is_nonzero(input: Tensor) -> bool:
    """Whether the only element of a tensor is not zero."""
    if input._layout.numel != 1:
        what = "no values" if not input._layout.numel else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {what} is ambiguous")
    return bool(input.item())


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape."""
    return input._layout.shape == other._layout.shape


def is_inference(input: Tensor) -> bool:
    """Whether the tensor was made in inference mode, or shows the memory of one that was."""
    if not isinstance(input, Tensor):
        raise must_be_tensor("is_inference", "input", 1, input)
    return made_in_inference(input)


public(is_nonzero)
public(is_same_size)
public(is_inference)
public(can_cast, method_too=False)
public(promote_types, method_too=False)
public(result_type, method_too=False)


class Format:
    """A name that PyTorch has for how a tensor lies in memory."""

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> Any:
        return _format, (self.name,)


def _format(name: str) -> Any:
    return _FORMATS[name]


_FORMATS = {
    name: Format(name)
    for name in (
        "strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc",
        "contiguous_format", "preserve_format", "channels_last", "channels_last_3d",
    )
}
FUNCTIONS.update(_FORMATS)  # type: ignore[arg-type]  # the one thing published that cannot be called
FUNCTIONS.update(layout=Format, memory_format=Format)
_STRIDED = _FORMATS["strided"]


def _layout_name(self: Tensor) -> Any:
    """How values are stored: strided, or one of the sparse layouts."""
    return _FORMATS[self._layout.kind] if isinstance(self._layout, SparseLayout) else _STRIDED


setattr(Tensor, "layout", property(_layout_name))  # noqa: B010
