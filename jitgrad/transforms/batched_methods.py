"""Methods of batched tensors about memory, which mean something else than those of Tensor or are refused.

A batched tensor looks like one sample; its memory is that of all samples, which the vmapped function must not see.
"""

from __future__ import annotations

from typing import Any, NoReturn

from jitgrad.core.layout import Layout
from jitgrad.core.tensor import Tensor
from jitgrad.core.wrapped import Wrapped
from jitgrad.dispatch.strides import extent
from jitgrad.ops.shape.copy import Clone

__all__ = ["BatchedMethods"]

_FORMATS = {"channels_last": "ChannelsLast", "channels_last_3d": "ChannelsLast3d"}


class BatchedMethods(Wrapped):
    """Base of ``Batched``: the methods of Tensor that read or set memory."""

    _value: Tensor
    _layout: Layout

    @property
    def data(self) -> Tensor:
        """The samples outside the graph, of a variable of ``func.grad``; else a RuntimeError, as in PyTorch."""
        if self._requires_grad:
            return self.detach()
        raise RuntimeError("accessing `data` under vmap transform is not allowed")

    @data.setter
    def data(self, value: Tensor) -> None:
        raise RuntimeError("mutating directly with `.data` under vmap transform is not allowed.")

    def _no_storage(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    numpy = tolist = data_ptr = _no_storage

    def storage_offset(self) -> int:
        """The offset of the first sample in the memory of all."""
        return self._value.storage_offset()

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether a sample's elements lie in row-major order without gaps."""
        if getattr(memory_format, "name", "") in _FORMATS:
            raise RuntimeError(
                "NYI: querying is_contiguous inside of vmap for memory_format other than torch.contiguous_format"
            )
        return self._layout.contiguous

    def clone(self, *, memory_format: Any = None) -> Tensor:
        """Copies of the samples."""
        name = getattr(memory_format, "name", "")
        if name in _FORMATS:
            raise RuntimeError(
                "NYI: Tensor.clone(memory_format) inside vmap is only supported with memory_format "
                f"torch.preserve_format or torch.contiguous_format (got {_FORMATS[name]})"
            )
        return Clone.apply(self, memory_format=memory_format)

    def new_empty_strided(self, size: Any, stride: Any, **options: Any) -> Any:
        """For each sample what ``empty_strided`` makes, one after another in memory."""
        size, stride = tuple(size), tuple(stride)
        room = extent(size, stride)
        below = self._value.new_empty_strided((self._level.size, *size), (room, *stride), **options)
        return self._level.batched(below)

    def is_nonzero(self) -> bool:
        """RuntimeError: it may differ between samples."""
        return bool(self)

    def __contains__(self, element: Any) -> bool:
        return bool((self == element).any().item())
