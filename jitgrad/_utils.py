"""PyTorch's private module: what carries an exception from one process or thread to another, and what files name."""

from __future__ import annotations

import sys
import traceback
from typing import Any, NoReturn

from jitgrad.nn.parameter import _rebuild_parameter, _rebuild_parameter_with_state
from jitgrad.ops.memory.rebuild import (
    _rebuild_device_tensor_from_cpu_tensor,
    _rebuild_device_tensor_from_numpy,
    _rebuild_meta_tensor_no_storage,
    _rebuild_tensor,
    _rebuild_tensor_v2,
    _rebuild_tensor_v3,
    _rebuild_wrapper_subclass,
)  # fmt: skip

__all__ = [
    "ExceptionWrapper", "KeyErrorMessage", "_element_size",
    "_rebuild_device_tensor_from_cpu_tensor", "_rebuild_device_tensor_from_numpy", "_rebuild_meta_tensor_no_storage",
    "_rebuild_parameter", "_rebuild_parameter_with_state", "_rebuild_tensor", "_rebuild_tensor_v2",
    "_rebuild_tensor_v3", "_rebuild_wrapper_subclass",
]  # fmt: skip


def _element_size(dtype: Any) -> int:
    """Bytes of an element of a dtype."""
    size: int = dtype.itemsize
    return size


class KeyErrorMessage(str):
    """A text whose ``repr`` is the text itself, since KeyError shows the ``repr`` of what it is given."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """An exception as its class and the text of its traceback, which can be sent to another process.

    exc_info: what ``sys.exc_info()`` returns, by default of the exception that is being handled. where: who raised it.
    """

    def __init__(self, exc_info: Any = None, where: str = "in background"):
        kind, value, trace = sys.exc_info() if exc_info is None else exc_info
        self.exc_type: Any = kind
        self.exc_msg = "".join(traceback.format_exception(kind, value, trace))
        self.where = where

    def reraise(self) -> NoReturn:
        """Raise an exception of the same class, with the traceback as its text."""
        text: Any = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            text = KeyErrorMessage(text)
        elif getattr(self.exc_type, "message", None):  # it takes other arguments, and has a field for the text
            raise self.exc_type(message=text)
        try:
            error = self.exc_type(text)
        except Exception:  # it can't be made of a text alone
            raise RuntimeError(text) from None
        raise error
