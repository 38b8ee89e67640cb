"""Views of all parts of a tensor at once: split, chunk, unbind, tensor_split and the like."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, TypeVar

from jitgrad.core.errors import must_be, scalar_type
from jitgrad.core.layout import as_int, normalize_dim
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.registry import fast_method, public
from jitgrad.dispatch.sizes import as_ints, int_argument, is_int
from jitgrad.ops.shape.join import Cat, SplitView, Unbind, parts_at
from jitgrad.ops.shape.slicing import Slice, with_size, zeros_of

__all__ = ["split", "unbind"]

F = TypeVar("F", bound=Callable[..., Any])


def _also_named(*names: str) -> Callable[[F], F]:
    """Let a function's second argument be given under any of ``names``, those that it has in PyTorch's overloads."""

    def decorate(function: F) -> F:
        second = list(inspect.signature(function).parameters)[1]

        @functools.wraps(function)
        def renaming(*args: Any, **kwargs: Any) -> Any:
            if kwargs:
                kwargs = {second if k in names else k: v for k, v in kwargs.items()}
            return function(*args, **kwargs)

        vars(renaming)["also_takes"] = names  # for stubs: its signature is that of ``function``
        return renaming  # type: ignore[return-value]

    return decorate


def _sizes_of_parts(n: int, size: int) -> list[int]:
    """The sizes of parts of ``size``, the last of which may be smaller; of a dim of size 0, one part of size 0."""
    if size == 0:
        return [0]
    return [size] * (n // size) + ([n % size] if n % size else []) or [0]


def _without_base(parts_of: Callable[[Tensor], tuple[Tensor, ...]]) -> Callable[[Tensor], tuple[Tensor, ...]]:
    """The plan of parts that have neither base nor version counter in common with anything."""
    return lambda x: tuple([wrap(part._data, part._layout) for part in parts_of(x)])


class SplitWithSizes(SplitView):
    """Parts of given sizes along a dim."""

    name = "split_sizes"
    samples = cases(lambda: (draw(2, 5), (2, 3), 1))

    def plan(x_layout, sizes, dim):
        ends, lead = [0, *accumulate(sizes)], (slice(None),) * dim
        layouts = [with_size(x_layout, dim, n) for n in sizes]
        return parts_at([((*lead, slice(a, b)), part) for (a, b), part in zip(pairwise(ends), layouts, strict=True)])

    def grad_x(g, x_layout, sizes, dim):
        pairs = zip(g, sizes, strict=True)
        grads = [zeros_of(with_size(x_layout, dim, n)) if part is None else part for part, n in pairs]
        return Cat.apply(grads, dim)


class Split(SplitView):
    """Parts of ``size`` along a dim."""

    name = "split_even"
    samples = cases(lambda: (draw(5, 2), 2, 0))

    def plan(x_layout, size, dim):
        return SplitWithSizes.plan(x_layout, _sizes_of_parts(x_layout.shape[dim], size), dim)

    def grad_x(g, x_layout, size, dim):
        return SplitWithSizes.grad_x(g, x_layout, _sizes_of_parts(x_layout.shape[dim], size), dim)


class UnsafeSplit(Split):
    """Parts of ``size`` along a dim, which may be written to as if they were copies."""

    name = "unsafe_split_even"

    def plan(x_layout, size, dim):
        return _without_base(Split.plan(x_layout, size, dim))


class UnsafeSplitWithSizes(SplitWithSizes):
    """Parts of given sizes along a dim, which may be written to as if they were copies."""

    name = "unsafe_split_sizes"

    def plan(x_layout, sizes, dim):
        return _without_base(SplitWithSizes.plan(x_layout, sizes, dim))


def _sections(x: Tensor, given: Tensor) -> Any:
    """The sections or indices that a tensor given to ``tensor_split`` holds."""
    layout = given._layout
    if not x._layout.ndim:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    if layout.dtype.name != "int64":
        raise RuntimeError(
            "tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
            f"{scalar_type(layout.dtype)}"
        )
    if layout.ndim > 1:
        raise RuntimeError(
            "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, but "
            f"got a tensor with {layout.ndim} dims"
        )
    return given.tolist()


def _dim(op: str, x: Tensor, dim: int) -> int:
    if not x._layout.ndim:
        raise RuntimeError(f"{op} expects at least a 1-dimensional tensor")
    try:
        return normalize_dim(dim, x._layout.ndim)
    except TypeError:
        raise must_be(op, "dim", 3, "int", dim) from None


def _split_evenly(op: Any, tensor: Tensor, size: int, dim: int) -> tuple[Tensor, ...]:
    d = _dim("split", tensor, dim)
    n = tensor._layout.shape[d]
    if size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={size}")
    if size == 0 and n:
        raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {n}")
    return op.apply(tensor, size, d)


def _split_by_sizes(op: Any, tensor: Tensor, split_sizes: Any, dim: int) -> tuple[Tensor, ...]:
    if not isinstance(split_sizes, (tuple, list)):
        raise must_be("split_with_sizes", "split_sizes", 2, "tuple of ints", split_sizes)
    d = _dim("split", tensor, dim)
    n, sizes = tensor._layout.shape[d], as_ints("split_with_sizes", split_sizes, "split_sizes", 2)
    if any(s < 0 for s in sizes):
        raise RuntimeError(
            f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={list(sizes)}"
        )
    if sum(sizes) != n:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at dimension {d}), but "
            f"got split_sizes={list(sizes)}"
        )
    return op.apply(tensor, sizes, d)


@fast_method
@_also_named("split_size")
def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of a size (the last may be smaller), or of several given sizes, along ``dim``; views."""
    if is_int(split_size_or_sections):
        return _split_evenly(Split, tensor, as_int(split_size_or_sections), dim)
    return _split_by_sizes(SplitWithSizes, tensor, split_size_or_sections, dim)


@public
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of given sizes along ``dim``; views."""
    return _split_by_sizes(SplitWithSizes, input, split_sizes, dim)


@public
def unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """``split``, but its parts may be written to: nothing notes that they are views of one memory.

    Gradients are wrong where ``input`` or another part of it is used after a write that reaches it.
    """
    return _split_evenly(UnsafeSplit, input, as_int(split_size), dim)


@public
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """``split_with_sizes`` with parts that may be written to; see ``unsafe_split``."""
    return _split_by_sizes(UnsafeSplitWithSizes, input, split_sizes, dim)


def _chunks(even: Any, by_sizes: Any, input: Tensor, chunks: int, dim: int) -> tuple[Tensor, ...]:
    d, chunks = _dim("chunk", input, dim), int_argument("chunk", "chunks", 2, chunks)
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    n = input._layout.shape[d]
    # Equal parts, rounded up: there may be fewer than ``chunks``. Only of a dim of size 0 there are as many, all empty.
    return by_sizes.apply(input, (0,) * chunks, d) if n == 0 else even.apply(input, -(-n // chunks), d)


@fast_method
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` parts of equal size (the last may be smaller) along ``dim``; views."""
    return _chunks(Split, SplitWithSizes, input, chunks, dim)


@public
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """``chunk`` with parts that may be written to; see ``unsafe_split``."""
    return _chunks(UnsafeSplit, UnsafeSplitWithSizes, input, chunks, dim)


@fast_method
def unbind(input: Tensor, dim: int = 0, *, axis: int | None = None) -> tuple[Tensor, ...]:
    """The slices along ``dim``, without that dim; views. ``axis``: NumPy's name of ``dim``."""
    dim = dim if axis is None else axis
    if not input._layout.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    try:
        d = normalize_dim(dim, input._layout.ndim)
    except TypeError:  # which names no argument; nor does anything around a fast method
        raise must_be("unbind", "dim", 2, "int", dim) from None
    return Unbind.apply(input, d)


@public
@_also_named("sections", "indices", "tensor_indices_or_sections")
def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts as equal as can be, or cut before the given indices, along ``dim``; views."""
    if isinstance(indices_or_sections, Tensor):
        indices_or_sections = _sections(input, indices_or_sections)
    if not input._layout.ndim:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    d = normalize_dim(dim, input._layout.ndim)
    n = input._layout.shape[d]
    if is_int(indices_or_sections):
        count = as_int(indices_or_sections)
        if count <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {count}")
        small, more = divmod(n, count)  # the first ``more`` parts have one element more than the others
        edges = [0] * (count + 1)  # in one piece: a MemoryError at once for a number of parts that no machine holds
        for k in range(1, count + 1):
            edges[k] = k * small + min(k, more)
    else:
        edges = [0, *as_ints("tensor_split", indices_or_sections, "indices", 2), n]
    # Indices may be negative and beyond the end, as those of Python's slices, and fall.
    parts = [slice(a, b).indices(n) for a, b in pairwise(edges)]
    return tuple([Slice.apply(input, d, a, max(a, b), 1) for a, b, _ in parts])


def _named_split(op: str, least: int, dim_of: Any) -> None:
    """Publish ``op``, a tensor_split along the dim that ``dim_of`` says for a number of dims, at least ``least``."""
    def function(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
        ndim = input._layout.ndim
        if ndim < least:
            raise RuntimeError(
                f"torch.{op} requires a tensor with at least {least} dimension, but got a tensor with {ndim} "
                "dimensions!"
            )
        d = dim_of(ndim)
        parts = as_int(indices_or_sections) if is_int(indices_or_sections) else 1
        if not parts or input._layout.shape[d] % parts:
            raise RuntimeError(
                f"torch.{op} attempted to split along dimension {d}, but the size of the dimension "
                f"{input._layout.shape[d]} is not divisible by the split_size {indices_or_sections}!"
            )
        return tensor_split(input, indices_or_sections, d)

    function.__name__ = function.__qualname__ = op
    function.__doc__ = f"Cut as ``tensor_split`` does, along the dim that ``{op}`` is named for."
    public(_also_named("sections", "indices")(function))


_named_split("hsplit", 1, lambda ndim: 0 if ndim == 1 else 1)
_named_split("vsplit", 2, lambda ndim: 0)
_named_split("dsplit", 3, lambda ndim: 2)
