"""Memory shared with other libraries by DLPack: objects that have ``__dlpack__``, and the capsules that it returns.

NumPy reads and writes capsules, but knows no bfloat16: such memory passes it as int16, and the dtype's code is
exchanged in the capsule. Layout and codes: https://dmlc.github.io/dlpack/latest/c_api.html
"""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Iterable
from typing import Any

import numpy as np

from jitgrad.core.dtypes import bfloat16
from jitgrad.core.sparse import SparseLayout
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.registry import method, public
from jitgrad.ops.creation.conversion import host_array
from jitgrad.ops.creation.from_data import from_numpy, writable
from jitgrad.ops.shape.lazy_view import is_conj, without_bits

__all__ = ["DLDeviceType", "from_dlpack", "is_capsule", "to_dlpack"]


class DLDeviceType(enum.IntEnum):
    """DLPack's numbers of devices."""

    kDLCPU, kDLCUDA, kDLCUDAHost, kDLOpenCL = 1, 2, 3, 4
    kDLVulkan, kDLMetal, kDLVPI, kDLROCM = 7, 8, 9, 10


_INT, _BFLOAT = 0, 4  # DLPack's codes of kinds of numbers
# A capsule's name -> where its DLTensor begins: a version, two pointers and flags stand before it since DLPack 1.0.
_STARTS = {b"dltensor": 0, b"dltensor_versioned": 32}
_DEVICE, _CODE, _BITS = 8, 20, 21  # offsets in a DLTensor, in bytes

_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes, _is_valid.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_int
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes, _pointer.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p


def is_capsule(obj: Any) -> bool:
    """Whether an object is a capsule, of DLPack or another."""
    return type(obj).__name__ == "PyCapsule"


def _exchange_code(capsule: Any, code: int, by: int) -> bool:
    """Exchange the code of numbers of 16 bits, if it is ``code``; whether it was."""
    start = _start(capsule)
    numbers = (ctypes.c_uint8 * 2).from_address(start + _CODE)
    if tuple(numbers) != (code, 16):
        return False
    numbers[0] = by
    return True


def _start(capsule: Any) -> int:
    """The address of a capsule's DLTensor; RuntimeError if it is used up, or no capsule of DLPack."""
    for name, start in _STARTS.items():
        if _is_valid(capsule, name):
            return int(_pointer(capsule, name)) + start
    raise _invalid_capsule()


def _invalid_capsule() -> RuntimeError:
    return RuntimeError(
        "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once, so you might "
        "have already constructed a tensor from it once."
    )


class _Import:
    """A capsule, or an object that makes one, as NumPy takes it."""

    def __init__(self, source: Any):
        self.source, self.is_bfloat16 = source, False

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self.source if is_capsule(self.source) else self.source.__dlpack__(**options)
        self.is_bfloat16 = _exchange_code(capsule, _BFLOAT, _INT)
        return capsule

    def __dlpack_device__(self) -> Iterable[int]:
        if is_capsule(self.source):
            return tuple((ctypes.c_int32 * 2).from_address(_start(self.source) + _DEVICE))
        return tuple(self.source.__dlpack_device__())


@method
def __dlpack__(self: Tensor, *, stream: Any = None, **options: Any) -> Any:
    if isinstance(self._layout, SparseLayout):
        raise BufferError("Can't export tensors with layout other than torch.strided")
    if self._requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if is_conj(self):
        raise BufferError("Can't export tensors with the conjugate bit set")
    array = host_array(without_bits(self))
    if self._layout.dtype is not bfloat16:
        return array.__dlpack__(**options)
    capsule = array.view(np.int16).__dlpack__(**options)
    _exchange_code(capsule, _INT, _BFLOAT)
    return capsule


@method
def __dlpack_device__(self: Tensor) -> tuple[int, int]:
    kind, number = without_bits(self)._data.__dlpack_device__()
    return DLDeviceType(kind), number


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule of a tensor's memory, for libraries that take one; it can be used once."""
    return tensor.detach().__dlpack__()


def from_dlpack(ext_tensor: Any) -> Tensor:
    """A tensor on the memory of any object that has ``__dlpack__``, or of a capsule that this returns.

    RuntimeError for a capsule that is used up.
    """
    if not (is_capsule(ext_tensor) or hasattr(ext_tensor, "__dlpack__")):
        raise _invalid_capsule()
    source = _Import(ext_tensor)
    # NumPy marks it read-only, as DLPack before 1.0 cannot say; PyTorch writes all the same.
    result = from_numpy(writable(np.from_dlpack(source)))
    return result.view(bfloat16) if source.is_bfloat16 else result


public(to_dlpack, method_too=False)
public(from_dlpack, method_too=False)
