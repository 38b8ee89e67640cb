"""Views that show part of a tensor, or show it otherwise: select, slice, diagonal, unfold, as_strided, real.

The gradient of a part is zero outside it: ``Embedded`` puts it in its place.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from jitgrad.core.dtypes import complex64, complex128
from jitgrad.core.errors import scalar_type
from jitgrad.core.layout import Layout, collapse, intern, normalize_dim
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.core.wrapped import innermost
from jitgrad.dispatch.batch_rules import BatchedCall, aligned, is_batch, over_dims
from jitgrad.dispatch.copying import copy_into, filled
from jitgrad.dispatch.op_samples import cases, draw, draw_complex
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.strides import dense_layout, extent, offset_in, restrided
from jitgrad.dispatch.structured import Structured, View, view_of
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import indexing as kernels
from jitgrad.ops.shape.copy import contiguous
from jitgrad.ops.shape.dtype_view import reread
from jitgrad.ops.shape.view import relaid

__all__ = ["ZEROS", "AsStrided", "Embedded", "Select", "Slice", "ViewAsComplex", "ViewAsReal", "zeros_of"]


ZEROS: dict[str, Any] = {"f": 0.0, "c": 0j, "b": False}  # for fill kernels; integers have 0


def zeros_of(layout: Layout) -> Tensor:
    """A row-major tensor of zeros with the shape and dtype of ``layout``."""
    return filled(intern(layout.numpy_dtype, layout.shape, None, layout.device), 0)


def _embedded_lot(call: BatchedCall) -> Any:
    """The part of a batch: where the view's own rule finds it."""
    layout, op = call["layout"], call["op"]
    whole = call["x"].new_empty((call.size, *layout.shape))
    args = dict(zip(op.parameters, (whole, *call["args"]), strict=True))
    _, *found = op.batch(BatchedCall(op, lambda values: values, args, {"x"}, call.size, call.level, False, call.stack))
    return Embedded.apply(call["x"], whole._layout, op, tuple(found))


def _strided_lot(call: BatchedCall) -> Any:
    """The same places in the memory of every sample."""
    x = call["x"]
    return call.run(size=(call.size, *call["size"]), stride=(x._layout.strides[0], *call["stride"]))


class Embedded(Structured):
    """Zeros of ``layout``'s shape, except that the part ``op(result, *args)`` of it is ``g``.

    Where the part shows an element twice, the contributions add up.
    """

    linear = ("x",)
    batch = _embedded_lot
    grad_name = "EmbeddedBackward0"
    samples = cases(
        lambda: (draw(3), draw(2, 3)._layout, Select, (0, 1)),
        lambda: (draw(2, 2, 3), draw(2, 4)._layout, Unfold, (1, 3, 1)),
    )

    def forward(x, layout, op, args):
        out = zeros_of(intern(x._layout.numpy_dtype, layout.shape, None, x._layout.device))
        part = op.forward(out, *args)
        if op.overlapping:
            _add_into(part, contiguous(wrap(x._data, x._layout)))
        elif part._layout.numel:
            copy_into(part._data, part._layout, x)
        return out

    def grad_x(g, op, args):
        return op.apply(contiguous(g), *args)


def _add_into(part: Tensor, x: Tensor) -> None:
    layout = part._layout
    if not layout.numel:
        return
    sizes, (steps,) = collapse(layout.shape, [layout.strides])
    memory = restrided(part._data, (extent(layout.shape, layout.strides),), (1,))
    launch(kernels.add_strided, x._data.reshape(-1), memory, np.array(sizes, np.uint64), np.array(steps, np.uint64))


class Part(View, abstract=True):
    """A view of some elements; ``overlapping`` if one may be shown twice."""

    overlapping = False


# -- one place, a range -----------------------------------------------------------------------------


class Select(Part, public=True):
    """The slice at ``index`` of dim ``dim``, without that dim."""

    batch = over_dims("dim")
    samples = cases(lambda: (draw(2, 3), 1, -1))

    def forward(x, dim, index):
        layout = x._layout
        if not layout.ndim:
            raise IndexError("select() cannot be applied to a 0-dim tensor.")
        d, index = normalize_dim(dim, layout.ndim), int(index)
        n = layout.shape[d]
        if not -n <= index < n:
            raise IndexError(
                f"select(): index {index} out of range for tensor of size {list(layout.shape)} at dimension {d}"
            )
        return view_of(x, x._data[(slice(None),) * d + (index, ...)], key=("select", d))

    def grad_x(g, x_layout, dim, index):
        return Embedded.apply(g, x_layout, Select, (dim, index))


class Slice(Part):
    """Every ``step``-th element of dim ``dim`` from ``start`` to ``end`` (exclusive)."""

    batch = over_dims("dim")
    samples = cases(lambda: (draw(2, 5), 1, 0, 5, 2))

    def forward(x, dim, start, end, step):
        part = x._data[(slice(None),) * dim + (slice(start, end, step),)]
        return view_of(x, part, key=("slice", dim, part.shape[dim], step))

    def grad_x(g, x_layout, dim, start, end, step):
        return Embedded.apply(g, x_layout, Slice, (dim, start, end, step))


@public
def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """``length`` elements of dim ``dim`` from ``start`` on."""
    d = normalize_dim(dim, input._layout.ndim)
    n, start, length = input._layout.shape[d], int(start), int(length)
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if not -n <= start <= n:
        raise IndexError(f"start out of range (expected to be in range of [{-n}, {n}], but got {start})")
    start = start + n if start < 0 else start
    if start + length > n:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({n}).")
    return Slice.apply(input, d, start, start + length, 1)


# -- by strides -------------------------------------------------------------------------------------


class Diagonal(Part, public=True):
    """The elements whose places in ``dim1`` and ``dim2`` differ by ``offset``, as a new last dim."""

    batch = over_dims("dim1", "dim2")
    samples = cases(lambda: (draw(2, 3, 4), 1, 0, 2), lambda: (draw(3, 2), -1))

    def forward(x, offset=0, dim1=0, dim2=1):
        layout = x._layout
        a, b = normalize_dim(dim1, layout.ndim), normalize_dim(dim2, layout.ndim)
        if a == b:
            raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
        shape, strides = layout.shape, layout.strides
        down, along = max(-offset, 0), max(offset, 0)
        length = max(min(shape[a] - down, shape[b] - along), 0)
        rest = [d for d in range(layout.ndim) if d not in (a, b)]
        first = down * strides[a] + along * strides[b] if length else 0
        return relaid(x, [*(shape[d] for d in rest), length],
                      [*(strides[d] for d in rest), strides[a] + strides[b]], first)  # fmt: skip

    def grad_x(g, x_layout, offset, dim1, dim2):
        return Embedded.apply(g, x_layout, Diagonal, (offset, dim1, dim2))


class Unfold(Part, public="method"):
    """All slices of length ``size`` of a dim, ``step`` apart, as a new last dim."""

    batch = over_dims("dimension")
    overlapping = True
    samples = cases(lambda: (draw(2, 5), 1, 3, 1))

    def forward(x, dimension, size, step):
        layout = x._layout
        d = normalize_dim(dimension, layout.ndim)
        n, stride = (layout.shape[d], layout.strides[d]) if layout.ndim else (1, 1)
        if size < 0:
            raise RuntimeError(f"size is {size} but must be >= 0")
        if size > n:
            raise RuntimeError(f"maximum size for tensor at dimension {d} is {n} but size is {size}")
        if step <= 0:
            raise RuntimeError(f"step is {step} but must be > 0")
        if not layout.ndim:
            return relaid(x, (size,), (1,))
        shape = (*layout.shape[:d], (n - size) // step + 1, *layout.shape[d + 1 :], size)
        return relaid(x, shape, (*layout.strides[:d], stride * step, *layout.strides[d + 1 :], stride))

    def grad_x(g, x_layout, dimension, size, step):
        return Embedded.apply(g, x_layout, Unfold, (dimension, size, step))


class AsStrided(Part):
    """The memory of ``x`` by size and strides; ``offset`` counts from its own first element."""

    batch = _strided_lot
    name, overlapping = "as_strided_from", True
    linear: ClassVar[tuple[str, ...]] = ()  # a tangent may lie otherwise in memory
    samples = cases(
        lambda: (draw(3, 4), (3, 3), (2, 1), 1),
        lambda: (draw(3, 4).t(), (2, 5), (3, 1), 0),
    )

    def forward(x, size, stride, offset):
        return relaid(x, size, stride, offset)

    def grad_x(g, x_layout, size, stride, offset):
        # By way of the whole storage, in which both x and its view have a place.
        before = max(-offset, 0)
        count = max(extent(x_layout.shape, x_layout.strides), extent(size, stride) + offset) + before
        storage = dense_layout(x_layout.numpy_dtype, count, x_layout.device)
        whole = Embedded.apply(g, storage, AsStrided, (size, stride, offset + before))
        return AsStrided.apply(whole, x_layout.shape, x_layout.strides, before)


@public
def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """A view of the tensor's memory by shape and strides; elements may overlap.

    RuntimeError for negative strides, and where the memory ends before the view does.
    """
    size, stride = tuple(size), tuple(stride)
    if any(s < 0 for s in stride):
        raise RuntimeError(
            f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}"
        )
    if is_batch(input):
        return _strided_sample(input, size, stride, storage_offset)
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    base = input._base if input._base is not None else input
    own = offset_in(base, input)
    start = own if storage_offset is None else storage_offset
    item, room = input._layout.dtype.itemsize, extent(base._layout.shape, base._layout.strides)
    have, need = room * base._layout.dtype.itemsize, (extent(size, stride) + start) * item
    if extent(size, stride) and (need > have or start < 0):
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {start}, and itemsize {item} "
            f"requiring a storage size of {need} are out of bounds for storage of size {have}"
        )
    return AsStrided.apply(input, size, stride, start - own)


def _strided_sample(x: Tensor, size: tuple[int, ...], stride: tuple[int, ...], storage_offset: int | None) -> Tensor:
    """``as_strided`` of one of many samples, within the memory of that sample; offsets are the first sample's."""
    if len(size) != len(stride):
        raise RuntimeError(
            "Tensor.as_strided(size, stride, ...): size and stride must have the same length! "
            f"Got size {list(size)} and stride {list(stride)}"
        )
    own = innermost(x).storage_offset()
    start = own if storage_offset is None else storage_offset
    room, need = extent(x._layout.shape, x._layout.strides), extent(size, stride)
    if need and (not room or start < own or start + need > own + room):
        raise RuntimeError(
            f"result = tensor.as_strided({list(size)}, {list(stride)}, {start}) can access memory outside of `tensor`. "
            f"{_reach(start, need, own, room)}. This is not supported inside of vmap, please try to rewrite the "
            "`as_strided` call as a sequence of PyTorch view operations"
        )
    return AsStrided.apply(x, size, stride, start - own)


def _reach(start: int, need: int, own: int, room: int) -> str:
    if not room:
        return (
            "`tensor` has no storage but the passed-in (size, stride, storage_offset) imply a result with some storage"
        )
    return (
        f"`result` can access some memory in range [{start}, {start + need}], but `tensor` can only access some memory "
        f"in range [{own}, {own + room}]"
    )


# -- as another dtype -------------------------------------------------------------------------------


class ViewAsReal(View, public=True):
    """A complex tensor as a real one whose last dim holds the real and the imaginary part."""

    batch = aligned
    samples = cases(lambda: (draw_complex(2, 3),))

    def forward(x):
        layout = x._layout
        if not layout.dtype.is_complex:
            raise RuntimeError("view_as_real is only supported for complex tensors")
        return reread(x, layout.dtype.to_real(), (*layout.shape, 2), (*(2 * s for s in layout.strides), 1))

    def grad_x(g):
        return ViewAsComplex.apply(contiguous(g))


def _complex_lot(call: BatchedCall) -> Tensor:
    if not call.ndim("x"):
        raise RuntimeError("Input tensor must have one or more dimensions")
    return call.run()


class ViewAsComplex(View, public=True):
    """A real tensor whose last dim has size 2 as a complex one."""

    batch = _complex_lot
    samples = cases(lambda: (draw(3, 2),))

    def forward(x):
        layout = x._layout
        if layout.dtype.name not in ("float32", "float64"):
            raise RuntimeError(
                "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar "
                f"type: {scalar_type(layout.dtype)}"
            )
        if not layout.ndim or layout.shape[-1] != 2:
            raise RuntimeError("Tensor must have a last dimension of size 2")
        if layout.strides[-1] != 1:
            raise RuntimeError("Tensor must have a last dimension with stride 1")
        if any(s % 2 for s, n in zip(layout.strides[:-1], layout.shape[:-1], strict=True) if n != 1):
            raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
        dtype = complex64 if layout.dtype.name == "float32" else complex128
        return reread(x, dtype, layout.shape[:-1], tuple(s // 2 for s in layout.strides[:-1]))

    def grad_x(g):
        return ViewAsReal.apply(g)


def real(input: Tensor) -> Tensor:
    """The real part, as a view; a real tensor itself."""
    return Select.apply(ViewAsReal.apply(input), -1, 0) if input._layout.dtype.is_complex else input


def imag(input: Tensor) -> Tensor:
    """The imaginary part of a complex tensor, as a view."""
    if not input._layout.dtype.is_complex:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return Select.apply(ViewAsReal.apply(input), -1, 1)


def _part_property(function: Any) -> property:
    def write(self: Tensor, value: Any) -> None:
        function(self).copy_(value)

    return property(function, write, doc=function.__doc__)


public(real, method_too=False)
public(imag, method_too=False)
Tensor.real, Tensor.imag = _part_property(real), _part_property(imag)  # type: ignore[attr-defined]
