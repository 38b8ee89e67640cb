"""Forward mode: tensors that carry a tangent, pushed through every op by its own declaration.

An elementwise op's tangent is its gradient rules applied to the tangents. Any other op's is the
derivative of its backward with respect to the incoming gradient: backward is linear in that, so
differentiating it once more gives the Jacobian-vector product. In place, the result of the copying
form is written over value and tangent.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

from ..ops import structured
from ..ops.arguments import check_result_cast
from ..ops.elementwise import set_push as set_elementwise_push
from ..ops.registry import FUNCTIONS
from ..tensor import Tensor, wrap
from .backward import grad
from .grad_mode import enable_grad, state

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """A dual tensor's value and its tangent (None without one)."""

    primal: Any
    tangent: Any


def enter_dual_level() -> int:
    """Open a level; tensors made dual inside are dual until it is closed."""
    if state.dual_level >= 0:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    state.dual_level += 1
    state.dual_count += 1
    return state.dual_level


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level: tangents are lost."""
    if state.dual_level < 0 or (level is not None and level != state.dual_level):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    state.dual_level -= 1


class dual_level:
    """A block in which tensors can be made dual."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *error: Any) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Return ``tensor`` with a tangent of its shape and dtype attached."""
    if state.dual_level < 0:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    for t in (tensor, tangent):
        if not (t.dtype.is_floating_point or t.dtype.is_complex):
            raise ValueError(f"Expected {'primal' if t is tensor else 'tangent'} to be floating point or complex, "
                             f"but got: {t.dtype}")  # fmt: skip
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            f"Expected tangent to have the same shape as the primal, but got {list(tangent.shape)} and "
            f"{list(tensor.shape)}"
        )
    return _dual(tensor, tangent)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Return (primal, tangent) of a tensor; the tangent is None where it has none."""
    return UnpackedDualTensor(_primal(tensor), _tangent(tensor))


def _dual(primal: Tensor, tangent: Tensor) -> Tensor:
    """Its layout is a copy: plans are kept by the identity of layouts, so dual tensors never take
    the roads of plain ones, and those need not look for tangents."""
    result = wrap(primal._data, copy.copy(primal._layout))
    result._counter, result._edge, result._requires_grad = primal._counter, primal._edge, primal._requires_grad
    result._leaf_edge, result._plain = primal._leaf_edge, primal
    result._tangent = (state.dual_count, tangent)
    return result


def _tangent(tensor: Any) -> Tensor | None:
    if not isinstance(tensor, Tensor) or tensor._tangent is None or state.dual_level < 0:
        return None
    level, tangent = tensor._tangent
    return tangent if level == state.dual_count else None


def _primal(tensor: Any) -> Any:
    return tensor._plain if isinstance(tensor, Tensor) and tensor._tangent is not None else tensor


def _overwrite(target: Tensor, result: Tensor) -> Tensor:
    """Make ``result``, dual or not, value and tangent of ``target``, as an op in place does."""
    plain = _primal(target)
    if plain._base is not None:
        raise NotImplementedError(
            "an op in place on a view is not supported with dual tensors, since what it is a view of would keep its "
            "old tangent; write into the whole tensor, or use an op that returns a new one"
        )
    check_result_cast(result.dtype, target.dtype)
    plain.copy_(_primal(result))
    tangent = _tangent(result)
    if plain is target and tangent is not None:
        plain = wrap(target._data, target._layout)
        plain._counter = target._counter
        target._layout, target._plain = copy.copy(target._layout), plain
        plain._edge, plain._requires_grad = target._edge, target._requires_grad
    target._edge, target._requires_grad = plain._edge, plain._requires_grad
    target._tangent = None if tangent is None else (state.dual_count, tangent)
    return target


def _push_elementwise(operation: Any, operands: tuple[Any, ...], write: bool = False) -> Any:
    """The op on dual operands: its gradient rules, with tangents in place of gradients."""
    if write:
        return _overwrite(operands[0], _push_elementwise(operation, operands))
    op, primals = operation.op, tuple(_primal(o) for o in operands)
    out = operation(*primals)
    if any(isinstance(p, Tensor) and p.dtype.is_complex for p in primals) and not op.holomorphic:
        return _attach(out, _twice(operation, operands, {}))
    known = {**op.scalars, **dict(zip((*op.inputs, *op.scalars), primals, strict=False)), "out": out}
    total = None
    for name, operand in zip(op.inputs, operands, strict=False):
        tangent = _tangent(operand)
        if tangent is not None and name in op.grads:
            rule = op.grads[name]
            part = rule.function(*(tangent if p == "g" else known[p] for p in rule.parameters))
            part = part if isinstance(part, Tensor) else FUNCTIONS["full_like"](out, part)
            total = part if total is None else total + part
    if total is None:
        return out
    return _attach(out, total if total.shape == out.shape else total.expand(out.shape))


def _attach(out: Any, tangent: Tensor | None) -> Any:
    return out if tangent is None else _dual(out, tangent)


def _push_structured(apply: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A structured op on dual operands."""
    primals = tuple(_map(_primal, a) for a in args)
    outs = apply(*primals, **kwargs)
    tangents = _twice(apply, args, kwargs)
    if isinstance(outs, tuple):
        pairs = [_attach(o, t) for o, t in zip(outs, tangents or [None] * len(outs), strict=True)]
        return type(outs)(*pairs) if hasattr(outs, "_fields") else type(outs)(pairs)
    return _attach(outs, tangents)


def _map(function: Any, value: Any) -> Any:
    return type(value)(function(v) for v in value) if isinstance(value, (list, tuple)) else function(value)


def _twice(apply: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Jacobian-vector product by differentiating backward, which is linear in its gradient."""
    leaves: list[Tensor] = []
    tangents: list[Tensor] = []

    def leaf(value: Any) -> Any:
        tangent = _tangent(value)
        if tangent is None:
            return value.detach() if isinstance(value, Tensor) else value
        leaves.append(_primal(value).detach().requires_grad_())
        tangents.append(tangent)
        return leaves[-1]

    plain = [_map(leaf, a) for a in args]
    level, state.dual_level = state.dual_level, -1
    try:
        with enable_grad():
            result = apply(*plain, **kwargs)
            several = isinstance(result, tuple)
            outs = [o for o in (result if several else (result,)) if o.requires_grad]
            if not outs:
                return None
            dummies = [FUNCTIONS["zeros_like"](o, requires_grad=True) for o in outs]
            back: Any = grad(outs, leaves, dummies, create_graph=True, materialize_grads=True)
            found = _through(back, dummies, tangents)
    finally:
        state.dual_level = level
    if not several:
        return found[0]
    queue = iter(found)
    return [next(queue) if o.requires_grad else None for o in result]


def _through(back: Any, dummies: list[Tensor], tangents: list[Tensor]) -> Any:
    """Tangents of results; a gradient that is zero whatever arrives (of what is overwritten) has no history."""
    passing = [(b, t) for b, t in zip(back, tangents, strict=True) if b.requires_grad]
    if not passing:
        return [FUNCTIONS["zeros_like"](d) for d in dummies]
    return grad([b for b, _ in passing], dummies, [t for _, t in passing], materialize_grads=True)


set_elementwise_push(_push_elementwise)
structured.set_push(_push_structured, _overwrite)
