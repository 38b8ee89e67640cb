"""The argument ``out=``: an op computes its result as ever, and it is then copied into the caller's tensor."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from jitgrad.core.errors import must_be
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.inference import check_write
from jitgrad.core.layout import intern
from jitgrad.core.sparse import SparseOperand, SparseTensor
from jitgrad.core.storage import count_write, empty_for
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import user_level
from jitgrad.core.wrapped import outermost_wrapped
from jitgrad.dispatch.copying import copy_into
from jitgrad.dispatch.operand_checks import check_memory, overlaps
from jitgrad.dispatch.out_dtypes import check_out_dtype
from jitgrad.dispatch.parameter_types import explain, keywords_again, mark_explaining
from jitgrad.dispatch.sparse_calls import form_after
from jitgrad.kernels.lazy_array import with_bits_of

__all__ = ["check_out", "into_out", "takes_out"]

F = TypeVar("F", bound=Callable[..., Any])


def into_out(op: str, result: Any, out: Any, allows_internal_overlap: bool = False, resized: str | None = None) -> Any:
    """Write a result, or a tuple of them, into ``out``, which is resized to its shape; return ``out``.

    Returns the result if ``out`` is None. RuntimeError if a gradient would be lost, or if ``out`` has a dtype that
    the op doesn't write. op: the name that errors show. allows_internal_overlap: whether several elements of
    ``out`` may have one place in memory, as PyTorch's factories have it. resized: the warning where an ``out`` that has
    elements gets another shape, "" for none; None for PyTorch's usual one.
    """
    if out is None:
        return result
    if isinstance(result, tuple):
        _check_tuple(op, len(result), out)
        for part, (one, target) in enumerate(zip(result, out, strict=True)):  # all before the first is written
            if isinstance(target, Tensor):
                check_out_dtype(op, one.dtype, target.dtype, part)
        written = [into_out(op, r, o) for r, o in zip(result, out, strict=True)]
        return type(result)(*written) if hasattr(result, "_fields") else tuple(written)
    if not isinstance(out, Tensor):
        raise must_be(op, "out", None, "Tensor", out)
    if grad_state.levels and (wrapped := outermost_wrapped((result, out))) is not None:
        if wrapped._level.randomness:
            raise RuntimeError(
                f"Batching rule not implemented for aten::{op}.out; the fallback path doesn't work on out= or view ops."
            )
        raise NotImplementedError(
            f"Trying to use forward AD with {op}_out that does not support it because it is an out= function"
        )
    if grad_state.enabled and (result._requires_grad or out._requires_grad):
        raise RuntimeError(
            f"{op}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    # All checks come before the first change: an error leaves ``out`` as it was.
    check_out_dtype(op, result.dtype, out.dtype)
    check_write(out)
    if isinstance(out, SparseTensor) or isinstance(result, SparseTensor):
        return _into_sparse(op, result, out)
    if out.shape != result.shape:
        _take_shape(out, result, resized)
    if not allows_internal_overlap:
        return out.copy_(result)
    copy_into(out._data, out._layout, result)
    count_write(out)
    return out


def _check_tuple(op: str, count: int, out: Any) -> None:
    """TypeError if ``out`` is no tuple or list of ``count`` tensors.

    RuntimeError for a wrong number where the number of results depends on the operand, as ``unbind_copy``'s does.
    """
    if not isinstance(out, (tuple, list)):
        raise must_be(op, "out", None, "tuple of Tensors", out)
    if len(out) != count:
        if op.endswith("_copy"):
            raise RuntimeError(f"{op}_int_out expected an out= argument of size {count}, got size {len(out)}")
        raise TypeError(f"expected tuple of {count} elements but got {len(out)}")


def _into_sparse(op: str, result: Tensor, out: Tensor) -> Tensor:
    """Let a sparse ``out`` take over a sparse result's places and values."""
    if not (isinstance(out, SparseTensor) and isinstance(result, SparseTensor)):
        raise SparseOperand(f"{op}.out")
    out.become(result if result.dtype is out.dtype else result.to(out.dtype))
    return out


def check_out(out: Any, operands: Iterable[Any]) -> None:
    """RuntimeError if several elements of ``out``, or one and an operand's, have one place in memory.

    For the ops that PyTorch computes by iterators, which compare memory before ``out`` gets the shape of the result.
    """
    if isinstance(out, Tensor) and not isinstance(out, SparseTensor) and not grad_state.levels:
        check_memory(out._layout)
        for operand in operands:
            if isinstance(operand, Tensor):
                overlaps(out, operand)


def _take_shape(out: Tensor, result: Tensor, warning: str | None) -> None:
    """Give ``out`` new memory of the result's shape, with a warning if it had elements."""
    if out._layout.numel and warning != "":
        usual = (
            f"An output with one or more elements was resized since it had shape {list(out.shape)}, which does "
            f"not match the required output shape {list(result.shape)}. This behavior is deprecated, and in a "
            "future PyTorch release outputs will not be resized unless they have zero elements. You can "
            "explicitly reuse an out tensor t by resizing it, inplace, to zero elements with t.resize_(0)."
        )
        warnings.warn(usual if warning is None else warning, UserWarning, stacklevel=user_level())
    out._layout = intern(out._layout.numpy_dtype, result._layout.shape, None, out._layout.device)
    out._data = with_bits_of(out._data, empty_for(out._layout))


def takes_out(function: F, name: str = "", iterated: bool = False) -> F:
    """``function`` with the keyword ``out``, under its own name or ``name``; its errors name a wrong argument.

    iterated: whether PyTorch computes it by an iterator; see ``check_out``.
    """
    name = name or function.__name__

    @functools.wraps(function)
    def writing(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        try:
            result = function(*args, **kwargs) if kwargs else function(*args)  # without keywords 0.04 us less
        except SparseOperand as error:
            result = form_after(error, name, args)(*args, **kwargs)
        except Exception as error:
            if (named := keywords_again(error, function, args, kwargs)) is not None:
                return writing(*args, **named) if out is None else writing(*args, out=out, **named)
            explain(error, function, name, args, kwargs)
            raise
        if out is None:
            return result
        if iterated:
            check_out(out, (*args, *kwargs.values()))
        return into_out(name, result, out)

    writing.__name__ = writing.__qualname__ = name
    mark_explaining(writing)
    return writing  # type: ignore[return-value]
