"""Structured ops that write into their first input: ``x.index_add_(...)`` and, on a copy, ``x.index_add(...)``.

    class IndexAdd(InplaceOp):
        \"""Add rows of ``source`` to the rows of ``x`` that ``index`` names.\"""
        def write(x, dim, index, source): ...      # launches kernels that write into x, of any layout
        def grad_x(g): ...
        def grad_source(g, dim, index): ...

One declaration gives both forms and the node of both. Rules must not name ``x``, whose values are overwritten.
The form that copies (``x.index_add``) writes into a copy of ``x``. An op that has a kernel from ``x`` to a new tensor
defines ``plan`` as well, which that form then uses.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, ClassVar

from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.inference import check_write
from jitgrad.core.layout import halves, intern
from jitgrad.core.storage import UNWRITTEN, count_write
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.core.transform_guards import check_capture, scopes
from jitgrad.core.user_frame import user_level
from jitgrad.core.wrapped import outermost_wrapped
from jitgrad.dispatch.copying import copy_into, copy_to_layout, preserved_layout, strided_copy
from jitgrad.dispatch.declaration_checks import refuse
from jitgrad.dispatch.op_calls import register
from jitgrad.dispatch.operand_checks import check_history, check_memory, has_internal_overlap, may_overlap, overlaps
from jitgrad.dispatch.parameter_types import mark_explaining, second_call
from jitgrad.dispatch.registry import method
from jitgrad.dispatch.sparse_calls import among, apply_form
from jitgrad.dispatch.strides import restrided
from jitgrad.dispatch.structured import Structured, record
from jitgrad.dispatch.structured_function import bind_arguments
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops.masks import put_changed

__all__ = ["InplaceOp", "stored_once", "through_rows", "warn_of_expanded"]


class InplaceOp(Structured, abstract=True):
    """Base of ops that write into their first input; ``write`` and gradient rules are a complete declaration.

    abstract: the subclass is a base of declarations, no op. public: see Structured.
    """

    # Whether x may have several elements in one place of memory, as an expanded tensor has (stride 0).
    allows_internal_overlap: ClassVar[bool] = False
    # The strides of the result of the form that copies, as PyTorch's: "dense" (no gaps, the dims in the order of those
    # of x), "row-major", or "strided" (those of x, gaps included).
    copy_strides: ClassVar[str] = "dense"
    write: ClassVar[Callable[..., None]]
    inplace: ClassVar[Callable[..., Tensor]]

    def __init_subclass__(cls, abstract: bool = False, public: bool | str = False, **kwargs: Any) -> None:
        if abstract:
            return
        write = getattr(cls, "write", None)
        if write is None:
            raise refuse(cls, "an op that writes needs a write", "define write(x, ...), whose kernels write into x")

        cls.write = staticmethod(write)
        if cls.plan is None:
            cls.forward = _on_copy(write, _COPIES[cls.copy_strides])
        super().__init_subclass__(public=public, **kwargs)
        inplace = _writer(cls, bool(public) and public != "function")
        cls.inplace = staticmethod(inplace)
        register(inplace, cls, in_place=True, own=True)
        if public and public != "function":
            method(cls.inplace, f"{cls.name}_")


def _on_copy(write: Callable[..., None], copied: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """``forward`` of an op that writes: it writes into a copy."""

    def forward(x: Tensor, *args: Any) -> Tensor:
        out = copied(x)
        write(out, *args)
        return out

    vars(forward)["__wrapped__"] = write  # ``parameters_of`` takes the parameters from there
    return forward


def _without_gaps(x: Tensor) -> Tensor:
    return copy_to_layout(x, preserved_layout(x._layout))


def _with_gaps(x: Tensor) -> Tensor:
    return _without_gaps(x) if has_internal_overlap(x._layout) else strided_copy(x)


def _row_major(x: Tensor) -> Tensor:
    layout = x._layout
    if not (layout.contiguous and layout.numel):  # what is empty counts as row-major whatever its strides
        return copy_to_layout(x, intern(layout.numpy_dtype, layout.shape, None, layout.device))
    return _without_gaps(x)


_COPIES = {"dense": _without_gaps, "row-major": _row_major, "strided": _with_gaps}


def _writer(op: type[InplaceOp], public: bool) -> Callable[..., Tensor]:
    """The inplace form of an op: checks, the write, the count of it, and the node.

    public: whether users call this form itself. Then its errors name wrong arguments, which otherwise the function does
    that users call.
    """
    count, write, overlapping, name = len(op.parameters), op.write, op.allows_internal_overlap, f"{op.name}_"

    def inplace(*args: Any, **kwargs: Any) -> Tensor:
        try:
            if kwargs or len(args) != count:
                args = bind_arguments(op, args, kwargs, name)
            x = args[0]
            counter, recorded, plain = x._counter, x._requires_grad, x._base is None
            if counter is UNWRITTEN:  # now only views of this memory have the same counter
                counter = x._counter = [0]
            if count > 1:
                for a in args[1:]:
                    if isinstance(a, Tensor):
                        plain, recorded = plain and a._counter is not counter, recorded or a._requires_grad
            if not plain or scopes or grad_state.levels or halves or (recorded and grad_state.enabled):
                return _checked(op, x, args)
            # A write that is not recorded, to what is no view, from memory of others.
            if not (overlapping or x._layout.contiguous):
                check_memory(x._layout)
            if type(counter) is not list:
                check_write(x)
            write(*args)
            counter[0] += 1
            return x
        except Exception as error:
            if not public:
                raise
            repeat = second_call(error, inplace, op.write, name, args, kwargs)
        return repeat()

    inplace.__name__ = inplace.__qualname__ = name
    if public:
        mark_explaining(inplace)
    inplace.__doc__ = f"In-place version of ``{op.name}``."
    vars(inplace)["__wrapped__"] = op.write  # whose signature help() shows, and errors compare arguments with
    return inplace


def _checked(op: type[InplaceOp], x: Tensor, args: tuple[Any, ...]) -> Tensor:
    """The write to ``args[0]``, x, where it is recorded, or x is a view, wrapped, or in one memory with an operand."""
    write, overlapping = op.write, op.allows_internal_overlap
    if scopes:
        check_capture(x, op.name)
    if grad_state.levels and (wrapped := outermost_wrapped(args)) is not None:
        return wrapped.structured(wrapped._level, op, args, True)
    others = [a for a in args if isinstance(a, Tensor)]
    if halves and among(others):
        return apply_form(f"{op.name}_", args)
    recorded = shared = False
    if grad_state.enabled and x._layout.dtype.category >= 2:  # integers have no gradient
        for a in others:
            recorded = recorded or a._requires_grad
    check_history(x, recorded)
    if not (x._layout.contiguous or overlapping):
        check_memory(x._layout)
    counter = x._counter
    for a in others:  # the target is one of them
        shared = shared or (a._counter is counter and a is not x and overlaps(x, a))
    if shared:  # an operand in the target's memory is read from a copy
        write(x, *[strided_copy(a) if isinstance(a, Tensor) and overlaps(x, a) else a for a in args[1:]])
    else:
        write(*args)
    count_write(x)
    if recorded:
        record(op, args, x)
    return x


def through_rows(x: Tensor, write: Callable[[Any], None], order: tuple[int, ...] | None = None) -> None:
    """Call ``write`` with an array of ``x`` in row-major order, the dims permuted by ``order``.

    The array is the memory of ``x`` itself if that is in this order; else it is a copy, which is then written back.
    If elements of ``x`` share memory, as those of overlapping windows do, only those that ``write`` has changed are
    written back: the copies of the same element in other windows still hold its old value.
    """
    view = x if order is None else wrap(x._data.transpose(order), _transposed(x, order))
    if view._layout.contiguous:
        write(view._data)
        return
    layout = intern(x._layout.numpy_dtype, view._layout.shape, None, x._layout.device)
    rows = copy_to_layout(view, layout)
    if may_overlap(view._layout) and layout.device == "cpu":
        before = copy_to_layout(rows, layout)
        write(rows._data)
        launch(put_changed, before._data, rows._data, view._data)
        return
    write(rows._data)
    copy_into(view._data, view._layout, rows)


def stored_once(x: Tensor) -> Tensor:
    """``x`` without repetition: of a dim whose elements share one place in memory (stride 0) the first alone."""
    layout = x._layout
    if not has_internal_overlap(layout):
        return x
    shape = tuple([1 if not s else n for n, s in zip(layout.shape, layout.strides, strict=True)])
    return wrap(restrided(x._data, shape, layout.strides),
                intern(layout.numpy_dtype, shape, layout.strides, layout.device))  # fmt: skip


def warn_of_expanded(op: str, x: Tensor, example: str) -> None:
    """PyTorch's warning if several elements of ``x``, the target of ``op``, have one place in memory."""
    if has_internal_overlap(x._layout):
        warnings.warn(
            f"Use of {op} on expanded tensors is deprecated. Please clone() the tensor before performing this "
            f"operation. This also applies to advanced indexing e.g. {example}",
            UserWarning, stacklevel=user_level(),
        )  # fmt: skip


def _transposed(x: Tensor, order: tuple[int, ...]) -> Any:
    """The layout of ``x`` with its dims permuted."""
    shape, strides = x._layout.shape, x._layout.strides
    return intern(x._layout.numpy_dtype, tuple([shape[d] for d in order]), tuple([strides[d] for d in order]),
                  x._layout.device)  # fmt: skip
