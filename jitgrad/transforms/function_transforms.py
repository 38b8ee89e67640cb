"""A Function applied to wrapped tensors: to dual ones by its jvp (here), to batched ones by function_vmap.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.core.tensor import Tensor
from jitgrad.core.transform_guards import transforming
from jitgrad.core.wrapped import outermost_wrapped
from jitgrad.ops.creation.constants import zeros_like
from jitgrad.transforms.batched import Batched
from jitgrad.transforms.dual import Dual, dual, split
from jitgrad.transforms.function_vmap import over_batch

__all__ = ["generated_node_class", "transformed"]

_NEEDS_SETUP_CONTEXT = (
    "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must override "
    "the setup_context staticmethod. For more details, please see "
    "https://pytorch.org/docs/main/notes/extending.func.html"
)
_FIXED = (
    "Function's jvp returned a gradient at position {}, but  the corresponding forward output is not a differentiable "
    "Tensor.You should return None at that position instead."
)
Call = Callable[[Any, Any], tuple[Any, Any]]


def transformed(base: Any, cls: Any, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Apply the Function ``cls`` to inputs of which some may be wrapped; NotImplemented if none is.

    ``base``: the class Function, which lives on a higher floor. ``call(args, kwargs)`` applies ``cls`` to plain inputs
    and returns (ctx, outputs). RuntimeError inside transforms for a Function without ``setup_context``.
    """
    if not cls._has_setup_context() and transforming():
        raise RuntimeError(_NEEDS_SETUP_CONTEXT)
    wrapped = outermost_wrapped((*args, *kwargs.values()))
    if isinstance(wrapped, Dual):
        return _apply_jvp(base, cls, call, wrapped._level, args, kwargs)
    if isinstance(wrapped, Batched):
        return over_batch(base, cls, wrapped._level, args, kwargs)
    return NotImplemented


def generated_node_class(cls: Any) -> Any:
    """The class of the Function's nodes inside ``func.grad``, made once: there PyTorch names nodes otherwise."""
    if "_generated_node_cls" not in vars(cls):
        documented = {"__doc__": cls._backward_cls.__doc__}
        cls._generated_node_cls = type(f"{cls.__name__}GeneratedBackward", (cls._backward_cls,), documented)
    return cls._generated_node_cls


def _apply_jvp(base: Any, cls: Any, call: Call, level: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the Function's forward on primals and its jvp on tangents; return dual outputs."""
    inputs = (*args, *kwargs.values())
    values, tangents = zip(*[split(a, level) for a in inputs], strict=True)
    named = dict(zip(kwargs, values[len(args) :], strict=True))
    ctx, output = _call_unwrapped(base, cls, call, values[: len(args)], named)
    if ctx.materialize_grads:
        tangents = tuple([_materialized(v, t) for v, t in zip(values, tangents, strict=True)])
    versions = [t._counter[0] if isinstance(t, Tensor) else 0 for t in tangents]
    if ctx.saved_for_forward is None:
        ctx.saved_for_forward = ()  # ``ctx.saved_tensors`` is this in jvp, not what was saved for backward
    found = cls.jvp(ctx, *tangents)
    ctx.saved_for_forward = None
    outs, out_tangents = _as_tuple(output), _as_tuple(found)
    if len(out_tangents) != len(outs):
        raise RuntimeError(
            "Function's jvp returned an invalid number of forward gradients "
            f"(expected {len(outs)} but got {len(out_tangents)})"
        )
    given = {id(v): found for v, found in zip(values, zip(inputs, tangents, versions), strict=True)}
    results = []
    for k, (out, tangent) in enumerate(zip(outs, out_tangents, strict=True)):
        if isinstance(tangent, Tensor) and k in ctx._non_differentiable_outputs:
            raise RuntimeError(_FIXED.format(k))
        results.append(_dual_output(level, out, tangent, k, given))
    return tuple(results) if isinstance(output, tuple) else results[0]


def _call_unwrapped(base: Any, cls: Any, call: Call, values: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any]:
    """(ctx, outputs) of a Function applied to inputs without their outermost wrapper, which may be wrapped still."""
    if outermost_wrapped((*values, *named.values())) is None:
        return call(values, named)
    output = transformed(base, cls, call, values, named)
    ctx = cls._backward_cls()
    if not cls._has_setup_context():
        raise RuntimeError(_NEEDS_SETUP_CONTEXT)
    cls.setup_context(ctx, (*values, *named.values()), output)
    return ctx, output


def _materialized(value: Any, tangent: Any) -> Any:
    """A tangent, zeros in place of None for a tensor of floating point or complex numbers."""
    if tangent is None and isinstance(value, Tensor) and value._layout.dtype.category >= 2:
        return zeros_like(value)
    return tangent


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _check_view(out: Any, tangent: Any, given: dict[int, Any]) -> None:
    """RuntimeError unless the tangent of an output that is a view of an input is a view of that input's tangent."""
    if tangent._base is None:
        raise RuntimeError(
            "A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a view."
        )
    for original, input_tangent, _ in given.values():
        value = original._primal if isinstance(original, Dual) else original
        if not isinstance(value, Tensor) or input_tangent is None or out._base is not _view_base(value):
            continue
        if tangent._base is not _view_base(input_tangent):
            which = "given grad input" if value._base is None else "same base as the given grad input"
            raise RuntimeError(
                f"A custom Function is returning a view but the jvp is not returning a view of the {which}."
            )


def _view_base(x: Tensor) -> Tensor:
    """The tensor that ``x`` is a view of, or ``x`` itself."""
    return x if x._base is None else x._base


def _dual_output(level: Any, out: Any, tangent: Any, number: int, given: dict[int, Any]) -> Any:
    """An output with its tangent, checked.

    ``given``: {id of an unwrapped input: (the input, its tangent, the version of the tangent before jvp)}.
    """
    if tangent is None or not isinstance(out, Tensor):
        return out
    if not isinstance(tangent, Tensor):
        raise RuntimeError(f"expected Variable or None (got {type(tangent).__name__}) for grad output {number}.")
    if tangent.shape != out.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(out.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}."
        )
    if id(out) in given:  # the Function wrote to an input and returned it
        original, before, version = given[id(out)]
        if tangent._counter[0] == version:
            raise RuntimeError(
                "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is "
                "modifying an input inplace, then the jvp function must modify the corresponding gradient inplace."
            )
        if tangent is not before:
            raise RuntimeError(
                "An inplace custom Function is not returning the forward mode gradients as-is. If the forward is "
                "modifying an input inplace, then the jvp function must modify the gradient inplace and return it "
                "as-is."
            )
        return dual(level, out, tangent) if original is out else original
    if out._base is not None:
        _check_view(out, tangent, given)
    return dual(level, out, tangent)
