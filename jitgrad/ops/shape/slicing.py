"""Views of some of a tensor's elements: select, slice, narrow, diagonal, unfold.

The gradient of such a view is zero at the elements that it does not show: ``Embedded`` makes it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from jitgrad.core.layout import Layout, as_int, cache, collapse, intern, layout_of, normalize_dim
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.batch_rules import BatchedCall, over_dims
from jitgrad.dispatch.copying import copy_into, filled
from jitgrad.dispatch.declaration_checks import parameters_of, refuse
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.planned import Launches, Number, Read, Written, planned, row_major
from jitgrad.dispatch.registry import fast_method
from jitgrad.dispatch.sizes import int_argument
from jitgrad.dispatch.strides import extent, restrided
from jitgrad.dispatch.structured import Structured, View
from jitgrad.dispatch.views import view_maker
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import indexing as kernels
from jitgrad.kernels.past_caches import STREAMED_BYTES
from jitgrad.ops.shape.copy import contiguous
from jitgrad.ops.shape.view import relaying

__all__ = ["Embedded", "Select", "Slice", "SliceView", "slicing", "with_size", "without_dim", "zeros_of"]


def zeros_of(layout: Layout) -> Tensor:
    """A row-major tensor of zeros with the shape and dtype of ``layout``."""
    return filled(intern(layout.numpy_dtype, layout.shape, None, layout.device), 0)


def _embedded_batched(call: BatchedCall) -> Any:
    """Embed the whole batch, by the arguments that the view's own batch rule computes for it.

    The rule is given an uninitialised batch to view, and in the place of the op a function that returns the arguments.
    """
    op, one = call["op"], call["layout"]
    layout = intern(one.numpy_dtype, (call.size, *one.shape), None, one.device)
    args = dict(zip(op.parameters, (wrap(empty_for(layout), layout), *call["args"]), strict=True))
    _, *found = op.batch(BatchedCall(op, lambda values: values, args, {"x"}, call.size, call.level, False, call.stack))
    return Embedded.apply(call["x"], layout, op, tuple(found))


def _embedded_reference(x: Any, layout: Layout, op: Any, args: tuple[Any, ...]) -> Any:
    places = np.arange(layout.numel).reshape(layout.shape)
    shown = op.forward(wrap(places, layout_of(places)), *args)._data
    out = np.zeros(layout.shape, x.dtype)
    np.add.at(out.reshape(-1), shown, x)
    return out


class Embedded(Structured):
    """Zeros of ``layout``'s shape, except that the view ``op(result, *args)`` of the result equals ``x``.

    An element that the view shows more than once is the sum of what ``x`` has in these places.
    """

    linear = ("x",)
    batch = _embedded_batched
    reference = _embedded_reference
    samples = cases(
        lambda: (draw(3), draw(2, 3)._layout, Select, (0, 1)),
        lambda: (draw(2, 2, 3), draw(2, 4)._layout, Unfold, (1, 3, 1)),
    )

    def forward(x, layout, op, args):
        out = zeros_of(intern(x._layout.numpy_dtype, layout.shape, None, x._layout.device))
        part = op.forward(out, *args)
        if op.overlapping:
            _add_into(part, contiguous(wrap(x._data, x._layout)))  # elementwise copies assume distinct places
        elif part._layout.numel:
            copy_into(part._data, part._layout, x)
        return out

    def grad_x(g, op, args):
        return op.apply(contiguous(g), *args)


def _add_into(part: Tensor, x: Tensor) -> None:
    """Add the elements of ``x``, row-major, to the memory that ``part`` views, which may overlap itself."""
    layout = part._layout
    if not layout.numel:
        return
    sizes, (steps,) = collapse(layout.shape, [layout.strides])
    memory = restrided(part._data, (extent(layout.shape, layout.strides),), (1,))
    launch(kernels.add_strided, x._data.reshape(-1), memory, np.array(sizes, np.uint64), np.array(steps, np.uint64))


_DIMS = frozenset({"dim", "dim1", "dim2", "dimension"})


class SliceView(View, abstract=True):
    """Base of views of some elements: ``forward`` or ``plan``, which makes the view, is a complete declaration.

    The gradient is that of the view, embedded in zeros of x's shape. What vmap does follows from those of
    forward's parameters that name dims of x; TypeError where there are none and the class gives no ``batch``.
    """

    owned = True
    overlapping: ClassVar[bool] = False  # whether the view may show an element more than once

    def __init_subclass__(cls, **kwargs: Any) -> None:
        rule = cls.__dict__.get("plan") or cls.__dict__.get("forward")
        if rule is not None:
            parameters = (*parameters_of(rule)[0], *cls.values)
            if "grad_x" not in cls.__dict__:
                cls.grad_x = staticmethod(_embedding(cls, parameters[1:]))  # type: ignore[attr-defined]
            if cls.batch is None:
                dims = [p for p in parameters if p in _DIMS]
                if not dims:
                    remedy = f"name the dims of x by some of {', '.join(sorted(_DIMS))}, or give the class a batch"
                    raise refuse(cls, "a view of some elements needs a batch rule", remedy)
                cls.batch = over_dims(*dims)
        super().__init_subclass__(**kwargs)


def _embedding(op: type[SliceView], parameters: tuple[str, ...]) -> Callable[..., Tensor]:
    """The gradient of a view that is made with arguments of these names."""

    def grad_x(g: Tensor, x_layout: Layout, *args: Any) -> Tensor:
        return Embedded.apply(g, x_layout, op, args)

    names = ("g", "x_layout", *parameters)  # what the recorder keeps of a call, and hands to the rule
    signature = inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names])
    vars(grad_x)["__signature__"] = signature
    return grad_x


# -- along one dim ----------------------------------------------------------------------------------


class Select(SliceView, public=True):
    """The slice at ``index`` of dim ``dim``, without that dim."""

    samples = cases(lambda: (draw(2, 3), 1, -1))

    values = ("index",)

    def plan(x_layout, dim):
        if not x_layout.ndim:
            raise IndexError("select() cannot be applied to a 0-dim tensor.")
        return selecting(x_layout, normalize_dim(dim, x_layout.ndim))

    def kernel_x(g, x_layout, dim, index):
        return _between_zeros(g, x_layout, dim, index if index.__class__ is int else int(index), None, 1)

    def add_to(g, there, dim, index):
        _add_blocks(g, there, dim, index if index.__class__ is int else int(index), 1)


@planned("g", numbers=("start", "end"))
def _between_zeros(g, x_layout, dim, start, end, step):
    """The gradient of a slice, or of one index (``end`` is None), as one launch."""
    if g.device != "cpu" or not g.numel:
        return lambda g, x_layout, dim, start, end, step: (
            Select.grad_x(g, x_layout, dim, start) if end is None else Slice.grad_x(g, x_layout, dim, start, end, step)
        )
    source, whole, inner = _blocks(g, x_layout, dim, step)
    out = intern(g.numpy_dtype, x_layout.shape, None, g.device)
    if whole[0] == step == 1 and 2 * out.numel * out.numpy_dtype.itemsize >= STREAMED_BYTES:
        flat = row_major("g", g, (g.numel,)), Written(0, (out.numel,))
        return Launches([(kernels.embed_large, *flat, Number("start"), inner)], [out])
    return Launches([(kernels.embed, source, Written(0, whole), Number("start"), step, inner)], [out])


@planned("g", "there", numbers=("start",))
def _add_blocks(g, there, dim, start, step):
    """Add the gradient of a slice, or of one index, to that of the whole."""
    if not g.numel:
        return Launches([], [], 0)
    source, whole, inner = _blocks(g, there, dim, step)
    return Launches([(kernels.add_embedded, source, Read("there", whole), Number("start"), step, inner)], [], 0)


def _blocks(g: Layout, x: Layout, dim: int, step: int) -> tuple[Read, tuple[int, int], int]:
    """(the gradient of a slice as blocks that lie side by side, the shape of the whole with these in rows, inner)."""
    d = normalize_dim(dim, x.ndim)
    outer, n, inner = math.prod(x.shape[:d]), x.shape[d], math.prod(x.shape[d + 1 :])
    rows = g.numel // (outer * inner)
    return row_major("g", g, (outer, 1, rows * inner) if step == 1 else (outer, rows, inner)), (outer, n * inner), inner


def selecting(layout: Layout, d: int, kind: str = "") -> Any:
    """A function ``view(x, index)`` that views one slice along dim ``d``; kind: see ``Tensor._view_kind``."""
    n = layout.shape[d]

    def checked(index: Any) -> int:
        index = as_int(index)
        if not -n <= index < n:
            raise IndexError(
                f"select(): index {index} out of range for tensor of size {list(layout.shape)} at dimension {d}"
            )
        return index

    part = without_dim(layout, d)
    # The ... makes it an array also where no dim is left. Of an empty tensor no array is read.
    data = f"x._data[{':, ' * d}index, ...]" if layout.numel else "empty_for(layout)"
    return view_maker(
        data, parameters="index", constants="low, high, checked, empty_for",
        before="index = index if index.__class__ is int and low <= index < high else checked(index)",
    )(part, kind, -n, n, checked, empty_for)  # fmt: skip


def without_dim(layout: Layout, d: int) -> Layout:
    """The layout of one slice along dim ``d``."""
    shape, strides = layout.shape, layout.strides
    return intern(layout.numpy_dtype, (*shape[:d], *shape[d + 1 :]), (*strides[:d], *strides[d + 1 :]), layout.device)


def with_size(layout: Layout, d: int, n: int) -> Layout:
    """The layout of ``n`` elements along dim ``d``."""
    return intern(layout.numpy_dtype, (*layout.shape[:d], n, *layout.shape[d + 1 :]), layout.strides, layout.device)


class Slice(SliceView):
    """Every ``step``-th element of dim ``dim`` from ``start`` to ``end`` (exclusive), counted from the front."""

    samples = cases(lambda: (draw(2, 5), 1, 0, 5, 2))
    values = ("start", "end", "step")

    def plan(x_layout, dim):
        return slicing(x_layout, dim)

    def kernel_x(g, x_layout, dim, start, end, step):
        return _between_zeros(g, x_layout, dim, start, end, step)

    def add_to(g, there, dim, start, step):
        _add_blocks(g, there, dim, start, step)


def slicing(layout: Layout, d: int, kind: str = "") -> Any:
    """A function ``view(x, start, end, step)`` that views elements along dim ``d``; kind: see ``Tensor._view_kind``."""
    known: dict[tuple[int, int], Layout] = cache()
    shape, strides = layout.shape, layout.strides

    def layout_for(count: int, step: int) -> Layout:
        found = known[count, step] = intern(
            layout.numpy_dtype, (*shape[:d], len(range(0, count, step)), *shape[d + 1 :]),
            (*strides[:d], strides[d] * step, *strides[d + 1 :]), layout.device,
        )  # fmt: skip
        return found

    return view_maker(
        f"x._data[{':, ' * d}start:end:step]", parameters="start, end, step", constants="find, layout_for",
        before="layout = find((end - start, step)) or layout_for(end - start, step)",
    )(layout, kind, known.get, layout_for)  # fmt: skip


@fast_method
def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """``length`` elements of dim ``dim`` from ``start`` on."""
    if not input._layout.ndim:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if isinstance(start, Tensor) and (start._layout.ndim or start._layout.dtype.category != 1):
        raise RuntimeError("start must be an 0-dim integral Tensor.")
    d = normalize_dim(int_argument("narrow", "dim", 2, dim), input._layout.ndim)
    start, length = int_argument("narrow", "start", 3, start), int_argument("narrow", "length", 4, length)
    n = input._layout.shape[d]
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if not -n <= start <= n:
        raise IndexError(f"start out of range (expected to be in range of [{-n}, {n}], but got {start})")
    start = start + n if start < 0 else start
    if start + length > n:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({n}).")
    return Slice.apply(input, d, start, start + length, 1)


# -- by strides -------------------------------------------------------------------------------------


class Diagonal(SliceView, public=True):
    """The elements whose places in ``dim1`` and ``dim2`` differ by ``offset``, as a new last dim."""

    samples = cases(lambda: (draw(2, 3, 4), 1, 0, 2), lambda: (draw(3, 2), -1))

    def plan(x_layout, offset=0, dim1=0, dim2=1):
        a, b = normalize_dim(dim1, x_layout.ndim), normalize_dim(dim2, x_layout.ndim)
        if a == b:
            raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
        shape, strides = x_layout.shape, x_layout.strides
        offset = as_int(offset)
        down, along = max(-offset, 0), max(offset, 0)
        length = max(min(shape[a] - down, shape[b] - along), 0)
        rest = [d for d in range(x_layout.ndim) if d not in (a, b)]
        first = down * strides[a] + along * strides[b] if length else 0  # an empty view must not begin outside x
        return relaying(x_layout, [*(shape[d] for d in rest), length],
                        [*(strides[d] for d in rest), strides[a] + strides[b]], first)  # fmt: skip


class Unfold(SliceView, public="method"):
    """All slices of length ``size`` of a dim, ``step`` apart, as a new last dim."""

    overlapping = True
    samples = cases(lambda: (draw(2, 5), 1, 3, 1))

    def plan(x_layout, dimension, size, step):
        d = normalize_dim(dimension, x_layout.ndim)
        size, step = as_int(size), as_int(step)
        n, stride = (x_layout.shape[d], x_layout.strides[d]) if x_layout.ndim else (1, 1)
        if size < 0:
            raise RuntimeError(f"size is {size} but must be >= 0")
        if size > n:
            raise RuntimeError(f"maximum size for tensor at dimension {d} is {n} but size is {size}")
        if step <= 0:
            raise RuntimeError(f"step is {step} but must be > 0")
        if not x_layout.ndim:  # as a vector of one element
            return relaying(x_layout, (size,), (1,))
        shape, strides, count = x_layout.shape, x_layout.strides, (n - size) // step + 1
        # One slice needs no distance to a next, which for a huge step may be more than a stride holds.
        between = stride * step if count > 1 else min(stride * step, 1 << 59)
        return relaying(x_layout, (*shape[:d], count, *shape[d + 1 :], size),
                        (*strides[:d], between, *strides[d + 1 :], stride))  # fmt: skip
