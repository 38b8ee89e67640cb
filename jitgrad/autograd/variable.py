"""Variable: the name under which early code makes and recognises tensors."""

from __future__ import annotations

import warnings
from typing import Any

from jitgrad.core.tensor import Tensor
from jitgrad.engine import engine
from jitgrad.ops.creation.constants import empty

__all__ = ["Variable"]


class _AnyTensor(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_AnyTensor):
    """``Variable(data, requires_grad=False)`` is ``data`` outside the graph; every tensor is an instance.

    Early PyTorch wrapped tensors in it to record them. Now write ``data.detach().requires_grad_()``.
    """

    _execution_engine = engine  # for ``queue_callback``

    def __new__(cls, data: Any = None, requires_grad: bool = False, volatile: Any = None) -> Any:
        if volatile is not None:
            warnings.warn("volatile was removed and now has no effect. Use `with torch.no_grad():` instead.",
                          UserWarning, stacklevel=2)  # fmt: skip
        if data is None:
            return empty(0)
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        if requires_grad and data._layout.dtype.category < 2:
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        return data.detach().requires_grad_(requires_grad)
