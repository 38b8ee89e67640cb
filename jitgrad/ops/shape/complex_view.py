"""Complex tensors as real ones and back, as views: view_as_real, view_as_complex, real, imag."""

from __future__ import annotations

from typing import Any

from jitgrad.core.dtypes import complex64, complex128
from jitgrad.core.errors import scalar_type
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.batch_rules import BatchedCall, aligned
from jitgrad.dispatch.op_samples import cases, draw, draw_complex
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.structured import View
from jitgrad.kernels.lazy_array import Unresolved
from jitgrad.ops.shape.copy import contiguous
from jitgrad.ops.shape.dtype_view import reread
from jitgrad.ops.shape.lazy_view import Conj, NegView, is_conj, resolve_conj
from jitgrad.ops.shape.slicing import Select

__all__ = ["ViewAsComplex", "ViewAsReal", "imag", "real"]


class ViewAsReal(View, public=True):
    """A complex tensor as a real one whose last dim holds the real and the imaginary part."""

    batch = aligned
    samples = cases(lambda: (draw_complex(2, 3),))

    def forward(x):
        layout = x._layout
        if not layout.dtype.is_complex:
            raise RuntimeError("view_as_real is only supported for complex tensors")
        try:
            return reread(x, layout.dtype.to_real(), (*layout.shape, 2), (*(2 * s for s in layout.strides), 1))
        except Unresolved:
            raise RuntimeError(
                "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor so you "
                "can view it as real, use self.resolve_conj(); however, be warned that the resulting tensor will NOT "
                "alias the original."
            ) from None

    def grad_x(g):
        return ViewAsComplex.apply(contiguous(g))  # which takes pairs that lie side by side only


def _view_as_complex_batched(call: BatchedCall) -> Tensor:
    """The batch as it is; a sample without dims is refused, as the batch's own dim would pass for its last."""
    if not call.ndim("x"):
        raise RuntimeError("Input tensor must have one or more dimensions")
    return call.run()


class ViewAsComplex(View, public=True):
    """A real tensor whose last dim has size 2 as a complex one."""

    batch = _view_as_complex_batched
    samples = cases(lambda: (draw(3, 2),))

    def forward(x):
        layout = x._layout
        if layout.dtype.name not in ("float32", "float64"):
            raise RuntimeError(
                "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar "
                f"type: {scalar_type(layout.dtype)}"
            )
        if not layout.ndim:
            raise RuntimeError("Input tensor must have one or more dimensions")
        if layout.shape[-1] != 2:
            raise RuntimeError("Tensor must have a last dimension of size 2")
        if layout.strides[-1] != 1:
            raise RuntimeError("Tensor must have a last dimension with stride 1")
        if any(s % 2 for s, n in zip(layout.strides[:-1], layout.shape[:-1], strict=True) if n != 1):
            raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
        dtype = complex64 if layout.dtype.name == "float32" else complex128
        return reread(x, dtype, layout.shape[:-1], tuple(s // 2 for s in layout.strides[:-1]))

    def grad_x(g):
        return ViewAsReal.apply(resolve_conj(g))


def real(input: Tensor) -> Tensor:
    """The real part, as a view; a real tensor itself."""
    if not input._layout.dtype.is_complex:
        return input
    try:
        pairs = ViewAsReal.apply(input)
    except RuntimeError:
        if not is_conj(input):
            raise
        pairs = ViewAsReal.apply(Conj.apply(input))
    return Select.apply(pairs, -1, 0)


def imag(input: Tensor) -> Tensor:
    """The imaginary part of a complex tensor, as a view: of a conjugated one, with the negative bit."""
    if not input._layout.dtype.is_complex:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    try:
        pairs = ViewAsReal.apply(input)
    except RuntimeError:
        if not is_conj(input):
            raise
        pairs = NegView.apply(ViewAsReal.apply(Conj.apply(input)))
    return Select.apply(pairs, -1, 1)


def _part_property(function: Any) -> property:
    """A property that reads a view and, assigned to, writes through it: ``z.real = x``."""
    def write(self: Tensor, value: Any) -> None:
        function(self).copy_(value)

    return property(function, write, doc=function.__doc__)


public(real, method_too=False)
public(imag, method_too=False)
Tensor.real, Tensor.imag = _part_property(real), _part_property(imag)  # type: ignore[method-assign, assignment]
