"""Changes of shape in place: the tensor itself gets another layout on its memory, or other memory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.core.errors import cpp_type
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.inference import check_write, is_inference
from jitgrad.core.layout import Layout, contiguous_strides, intern
from jitgrad.core.node import Node, node_of, renew_leaf
from jitgrad.core.storage import count_write, empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.core.transform_guards import check_capture, scopes
from jitgrad.core.wrapped import Wrapped, turn_into
from jitgrad.dispatch.copying import copy_into
from jitgrad.dispatch.memory_formats import layout_in_format, strides_of_result
from jitgrad.dispatch.operand_checks import check_inplace_target
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import size_argument
from jitgrad.dispatch.strides import check_bounds, dense_layout, extent, restrided
from jitgrad.dispatch.underived import underived
from jitgrad.kernels.lazy_array import memory_of, with_bits_of
from jitgrad.ops.shape.as_strided import as_strided
from jitgrad.ops.shape.expand import Unsqueeze, squeeze
from jitgrad.ops.shape.permute import T, Transpose

__all__: list[str] = []


# PyTorch numbers the in-place variant of an op after its others: ``squeeze`` has 0 to 2, ``squeeze_`` 3 to 5.
_IN_PLACE = {
    "AsStridedBackward0": "AsStridedBackward1", "SqueezeBackward0": "SqueezeBackward3",
    "SqueezeBackward1": "SqueezeBackward4", "SqueezeBackward2": "SqueezeBackward5", "TBackward0": "TBackward1",
    "TransposeBackward0": "TransposeBackward1", "UnsqueezeBackward0": "UnsqueezeBackward1",
}  # fmt: skip


@functools.cache
def _in_place_type(kind: Any) -> type[Node]:
    return type(_IN_PLACE[kind.__name__], (kind,), {"__doc__": kind.__doc__})


def _take_view(x: Tensor, view: Tensor) -> Tensor:
    """Give ``x`` the layout of a view of it, and the view's history."""
    edge, view._base = view._edge, None  # ``view`` itself is dropped: it needs no new history
    x._data, x._layout = view._data, view._layout
    count_write(x)
    if edge is not None:
        node: Any = node_of(edge)
        node.__class__ = _in_place_type(node.__class__)
        if x._base is None:
            x._rebase(edge)
        else:  # x is a view: the values of its base are as before, so the base's history stays
            x._edge, x._requires_grad = edge, True
            x._rebase(None)
    return x


def _inplace(name: str, function: Callable[..., Tensor], doc: str) -> None:
    def in_place(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if scopes:
            check_capture(self, name[:-1])
        if isinstance(self, Wrapped):
            return turn_into(self, function(self, *args, **kwargs))
        check_inplace_target(self, grad_state.enabled and self._requires_grad, allows_internal_overlap=True)
        # The view's own error would name ``t``.
        if name == "t_" and self._layout.ndim > 2:
            raise RuntimeError(f"t_() expects a tensor with <= 2 dimensions, but self is {self._layout.ndim}D")
        return _take_view(self, function(self, *args, **kwargs))

    in_place.__name__ = in_place.__qualname__ = name
    in_place.__doc__ = doc
    public(in_place, function_too=name == "as_strided_")


for _name, _view in {
    "t": T.apply, "transpose": Transpose.apply, "swapaxes": Transpose.apply, "swapdims": Transpose.apply,
    "squeeze": squeeze, "unsqueeze": Unsqueeze.apply,
}.items():  # fmt: skip
    _inplace(f"{_name}_", _view, f"In-place version of ``{_name}``: the tensor's own layout changes.")
public(Tensor.detach_, method_too=False)
_inplace("as_strided_", as_strided, "In-place version of ``as_strided``: the tensor's own layout changes.")


def resize_(self: Tensor, *each: Any, size: Any = None, memory_format: Any = None) -> Tensor:
    """Change the shape, row-major or in a ``memory_format``; memory that is added is not initialised.

    Elements keep their places in memory. RuntimeError for a tensor that requires grad.
    """
    if self._requires_grad and not grad_state.inference:
        raise RuntimeError("cannot resize variables that require grad")
    check_write(self)
    shape = size_argument("resize_", each, "size", size)
    if any(n < 0 for n in shape):
        raise RuntimeError("numel: integer multiplication overflow")
    if shape == self._layout.shape and memory_format is None:
        return self
    layout = _resized(self._layout, shape, memory_format)
    room = extent(self._layout.shape, self._layout.strides)
    if layout.numel <= room:  # the memory from this tensor's first element to its last is enough
        self._data = restrided(self._data, layout.shape, layout.strides)
    else:
        data = empty_for(dense_layout(layout.numpy_dtype, layout.numel, layout.device))
        if room:
            kept = intern(layout.numpy_dtype, (room,), None, layout.device)
            source = as_strided(self.detach(), (room,), (1,), 0)
            copy_into(with_bits_of(self._data, data)[:room], kept, source)
        self._data = with_bits_of(self._data, restrided(data, layout.shape, layout.strides))
    self._layout = layout
    count_write(self)
    return self


def _resized(layout: Layout, shape: tuple[int, ...], memory_format: Any) -> Layout:
    """The layout of a tensor of ``layout`` that is resized to ``shape``."""
    row_major = intern(layout.numpy_dtype, shape, None, layout.device)
    if memory_format is None:
        return row_major
    name = getattr(memory_format, "name", None)
    if name is None:
        raise TypeError(
            f"resize_(): argument 'memory_format' must be torch.memory_format, not {type(memory_format).__name__}"
        )
    if name == "preserve_format":
        raise RuntimeError("Unsupported memory formatPreserve")
    return layout_in_format(row_major, memory_format)


def resize_as_(self: Tensor, other: Tensor, *, memory_format: Any = None) -> Tensor:
    """Change the shape to that of ``other``, as ``resize_`` does; ``preserve_format`` is that of ``other``."""
    if getattr(memory_format, "name", None) != "preserve_format":
        return resize_(self, other._layout.shape, memory_format=memory_format)
    resize_(self, other._layout.shape)
    strides = strides_of_result([other._layout], self._layout.shape)
    if strides is not None:
        self._data = restrided(self._data, self._layout.shape, strides)
        self._layout = intern(self._layout.numpy_dtype, self._layout.shape, strides, self._layout.device)
    return self


def set_(self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Tensor:
    """Take over the memory and the shape of ``source``; nothing is copied. Without one: no memory, no elements.

    ``source`` may be a storage: then an offset and strides in elements say where in it, by default all of it.
    Not differentiable. RuntimeError for a leaf that requires grad, and for another dtype.
    """
    if source is not None and (not isinstance(source, Tensor) or size is not None):
        source = _placed_in(source, self._layout.numpy_dtype, storage_offset, size, stride)
    recorded = grad_state.enabled and (self._requires_grad or (source is not None and source._requires_grad))
    check_inplace_target(self, recorded, allows_internal_overlap=True)
    if source is None:
        layout = intern(self._layout.numpy_dtype, (0,), None, self._layout.device)
        source = wrap(empty_for(layout), layout)
    if source._layout.dtype is not self._layout.dtype:
        raise RuntimeError(
            f"Could not set tensor of type {cpp_type(source.dtype)} to a tensor of type {cpp_type(self.dtype)}"
        )
    self._data, self._layout = with_bits_of(self._data, memory_of(source._data)), source._layout
    if self._edge is None and self._requires_grad:
        renew_leaf(self)
    if not is_inference(self):  # a counter of its own: writes to the old memory are no writes to this tensor now
        self._counter = [self._counter[0] + 1]
    return underived("set_", self, self, source) if recorded else self


def _placed_in(source: Any, dtype: np.dtype[Any], offset: int, size: Any, stride: Any) -> Tensor:
    """The tensor of a dtype that lies in the memory of a storage, or of a tensor, by these sizes and strides."""
    memory = (source if isinstance(source, Tensor) else source.untyped()._items)._data
    count = memory.nbytes // dtype.itemsize
    shape = (count - offset,) if size is None else tuple(size)
    strides = contiguous_strides(shape) if stride is None else tuple(stride)
    if any(n < 0 for n in (*shape, *strides)):  # such a view would begin before the memory
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(shape)} and strides={list(strides)}")
    check_bounds(shape, strides, offset, dtype.itemsize, memory.nbytes)
    return wrap(restrided(memory, shape, strides, offset, dtype), intern(dtype, shape, strides))


for _function in (resize_, resize_as_, set_):
    public(_function, function_too=_function is resize_as_)  # PyTorch has one of them as a function
