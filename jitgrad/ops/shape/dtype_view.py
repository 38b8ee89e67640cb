"""The same memory read as another dtype: ``x.view(dtype)``."""

from __future__ import annotations

from typing import Any

from jitgrad.core.dtypes import by_name
from jitgrad.core.errors import scalar_type
from jitgrad.core.layout import intern
from jitgrad.core.tensor import Tensor, address
from jitgrad.dispatch.batch_rules import aligned
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.strides import restrided, storage_of
from jitgrad.dispatch.structured import View
from jitgrad.dispatch.views import view_of
from jitgrad.kernels.lazy_array import LazyArray

__all__ = ["ViewAsDtype", "reread"]


def reread(x: Tensor, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Tensor:
    """A view that reads the memory of ``x`` as ``dtype``, by a shape and by strides in elements of that dtype."""
    new = intern(dtype.numpy, shape, strides, x._layout.device)
    return view_of(x, restrided(x._data, shape, strides, 0, dtype.numpy), new)


class ViewAsDtype(View, public="function"):
    """The bits of ``x`` read as ``dtype``; the last dim shrinks or grows with the element size."""

    batch = aligned
    samples = cases(lambda: (draw(2, 3), by_name("int64")))

    def forward(x, dtype):
        dtype = by_name("float64") if dtype is float else dtype  # Python's float is a double
        layout, old = x._layout, x._layout.dtype
        if type(x._data) is LazyArray:
            kind = "conjugate view tensors" if x._data.conjugate else "tensors with negative bit set"
            raise RuntimeError(f"torch.Tensor.view is not supported for {kind} when converting to a different dtype.")
        if dtype.itemsize == old.itemsize:
            return reread(x, dtype, layout.shape, layout.strides)
        if not layout.ndim:
            raise RuntimeError(
                f"self.dim() cannot be 0 to view {scalar_type(old)} as {scalar_type(dtype)} (different element sizes)"
            )
        if layout.strides[-1] != 1:
            raise RuntimeError(
                f"self.stride(-1) must be 1 to view {scalar_type(old)} as {scalar_type(dtype)} (different element "
                f"sizes), but got {layout.strides[-1]}"
            )
        if dtype.itemsize < old.itemsize:
            k = old.itemsize // dtype.itemsize  # strides count elements, of which there are k times as many
            return reread(x, dtype, (*layout.shape[:-1], layout.shape[-1] * k),
                           (*(s * k for s in layout.strides[:-1]), 1))  # fmt: skip
        k = dtype.itemsize // old.itemsize
        start = (address(x) - storage_of(x)[0]) // old.itemsize if layout.numel and layout.device == "cpu" else 0
        counted = [("size(-1)", layout.shape[-1]), ("storage_offset()", start)]
        counted += [(f"stride({d})", s) for d, s in enumerate(layout.strides[:-1])]
        for name, number in counted:
            if number % k:
                raise RuntimeError(
                    f"self.{name} must be divisible by {k} to view {scalar_type(old)} as {scalar_type(dtype)} "
                    f"(different element sizes), but got {number}"
                )
        return reread(x, dtype, (*layout.shape[:-1], layout.shape[-1] // k),
                       (*(s // k for s in layout.strides[:-1]), 1))  # fmt: skip
