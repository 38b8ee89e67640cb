"""Dual tensors: a value and its tangent, pushed through every op by the op's own declaration.

An elementwise op's tangent is its gradient rules applied to the tangents. An op that is linear in an
input applies itself to that input's tangent. Any other op's is the derivative of its backward with
respect to the incoming gradient: backward is linear in that, so differentiating it once more gives
the Jacobian-vector product. In place, the result of the copying form is written over value and
tangent (see dual_inplace.py). The gradient of a dual tensor is dual: d(J^T v) = J^T dv + gradient of (v . J dx).
"""

from __future__ import annotations

from typing import Any

from jitgrad.core.grad_mode import state
from jitgrad.core.inference import differentiable
from jitgrad.core.tensor import Tensor
from jitgrad.core.wrapped import Level, Wrapped, link_views, outermost, turn_into
from jitgrad.dispatch.structured import reapply
from jitgrad.ops.creation.constants import full_like, zeros_like
from jitgrad.ops.shape.view import ReshapeAlias, Reshaped, reshape
from jitgrad.transforms.batched import batches_of, with_batches
from jitgrad.transforms.gradients import gradients, new_variable, requires_grad

__all__ = ["Dual", "dual", "split", "tensors_among"]


class Dual(Wrapped):
    """A tensor with a tangent. All but the tangent is that of the tensor it wraps."""

    _primal: Tensor
    _tangent: Tensor

    def unwrapped(self) -> Any:
        """The value."""
        return self._primal

    def map(self, function: Any) -> Any:
        """The same dual with a linear ``function`` applied to value and tangent; None where it gives nothing."""
        return dual(self._level, function(self._primal), function(self._tangent))

    def value_and_dim(self) -> tuple[Any, None]:
        """(the value, no dim of a batch)."""
        return self._primal, None

    def wrap_alias(self) -> None:
        """Wrap an alias: what happens to this tensor does not happen to the one that was made dual."""
        self._primal = self._primal.detach()

    @staticmethod
    def map_pair(function: Any, level: Level, x: Any, y: Any) -> Any:
        """Apply a linear ``function`` of two tensors to values and to tangents."""
        (p, dp), (t, dt) = split(x, level), split(y, level)
        if dp is None and dt is None:
            return function(p, t)
        return dual(level, function(p, t), function(zeros_like(p) if dp is None else dp, dt))

    def map_graph(self, function: Any) -> Any:
        """The same with ``function`` applied to what carries the graph, the value."""
        return dual(self._level, function(self._primal), self._tangent)

    def __repr__(self) -> str:
        if not self._level.open:
            return repr(self._primal)
        if self._level is not state.forward:
            return super().__repr__()
        return f"{repr(self._plain)[:-1]}, tangent={self._tangent})"

    def detach(self) -> Tensor:
        """The value outside the graph, without a tangent."""
        return self._primal.detach() if self._level.open else super().detach()

    def detach_(self) -> Any:
        """Take the tangent away; outside of transforms, whose levels are each their own, the history, too."""
        if self._level is state.forward or self._base is not None or not self._level.open:
            super().detach_()
        return turn_into(self, self._primal) if self._level.open else self

    def wrap_new(self, made: Tensor) -> Any:
        """A new tensor as it is: it has no tangent."""
        return self._primal.wrap_new(made) if isinstance(self._primal, Wrapped) else made

    @staticmethod
    def as_it_was(level: Level, args: tuple[Any, ...]) -> Any:
        """The first of ``args``, which is about to be written to: a copy, where nodes may save it."""
        raise NotImplementedError

    @staticmethod
    def overwrite(level: Level, target: Tensor, result: Tensor) -> Tensor:
        """Make ``result``, dual or not, value and tangent of ``target``, as an op in place does."""
        raise NotImplementedError

    @classmethod
    def elementwise(cls, level: Level, operation: Any, operands: tuple[Any, ...], inplace: bool) -> Any:
        """The op's gradient rules, with tangents in place of gradients."""
        if not state.pushing:
            values = [split(o, level)[0] for o in operands]
            out = operation(*values, inplace=True) if inplace else operation(*values)
            return operands[0] if inplace else out
        if inplace:
            before = (cls.as_it_was(level, operands), *operands[1:])
            return cls.overwrite(level, operands[0], cls.elementwise(level, operation, before, False))
        pairs = [split(o, level) for o in operands]
        op, primals = operation.op, tuple(p for p, _ in pairs)
        out = operation(*primals)
        if any(isinstance(p, Tensor) and p.dtype.is_complex for p in primals) and not op.holomorphic:
            return dual(level, out, _twice(lambda args: operation(*args), primals, [t for _, t in pairs]))
        known = {**op.scalars, **dict(zip((*op.inputs, *op.scalars), primals, strict=False)), "out": out}
        total = None
        for name, (_, tangent) in zip(op.inputs, pairs, strict=False):
            if tangent is not None and name in op.grads:
                rule = op.grads[name]
                part = rule.function(*(tangent if p == "g" else known[p] for p in rule.parameters))
                part = part if isinstance(part, Tensor) else full_like(out, part)
                total = part if total is None else total + part
        if total is None:
            return out
        return dual(level, out, _like(total, out))

    @classmethod
    def structured(cls, level: Level, op: Any, args: tuple[Any, ...], inplace: bool) -> Any:
        """The op itself on the tangents where it is linear, else by differentiating its backward."""
        if not state.pushing:
            out = reapply(op, [_each(lambda v: split(v, level)[0], a) for a in args], inplace)
            return args[0] if inplace else out
        if inplace:
            before = (cls.as_it_was(level, args), *args[1:])
            return cls.overwrite(level, args[0], cls.structured(level, op, before, False))
        primals = tuple(_each(lambda v: split(v, level)[0], a) for a in args)
        tangents = [_each(lambda v: split(v, level)[1], a) for a in args]
        outs = reapply(op, primals)
        found = _linear(op, primals, tangents)
        if found is None:
            found = _twice(lambda given: reapply(op, given), primals, tangents)
        result = _joined(level, outs, found)
        if op.is_view and state.levels[-1] is not level:
            link_views(args[0], result)
        return result

    @classmethod
    def gradients(cls, level: Level, outs: list[Any], ins: list[Any], grads: list[Any], run: Any) -> list[Any]:
        """Gradients of values, and their tangents by the product rule."""
        pairs, seeds = [split(o, level) for o in outs], [split(g, level) for g in grads]
        values = [split(i, level)[0] for i in ins]
        first = run([o for o, _ in pairs], values, [g for g, _ in seeds])
        moved = [(o, dg) for (o, _), (_, dg) in zip(pairs, seeds, strict=True) if dg is not None]
        moved += [(t, g) for (_, t), (g, _) in zip(pairs, seeds, strict=True) if t is not None]
        if not moved:
            return first
        second = run([o for o, _ in moved], values, [g for _, g in moved])
        return [dual(level, a, b) for a, b in zip(first, second, strict=True)]


def _delegated(name: str) -> property:
    def read(self: Any) -> Any:
        return getattr(self._primal, name)

    def write(self: Any, value: Any) -> None:
        setattr(self._primal, name, value)

    return property(read, write)


for _name in ("_data", "_counter", "_requires_grad", "_edge", "_grad", "_base", "_views", "_view_kind", "_leaf_edge",
              "_leaf_hooks", "_unrecorded"):  # fmt: skip
    setattr(Dual, _name, _delegated(_name))
Dual.__name__ = Dual.__qualname__ = "Tensor"


def dual(level: Level, primal: Any, tangent: Any) -> Any:
    """``primal`` with a tangent at ``level``, beneath what later levels have put round either."""
    if tangent is None:
        return primal
    if primal is None:
        primal = zeros_like(tangent)
    later = outermost((primal, tangent))
    if later is not None and later._level.number > level.number:
        return later.map_pair(lambda p, t: dual(level, p, t), later._level, primal, tangent)
    result = object.__new__(Dual)
    result._level, result._primal, result._tangent = level, primal, tangent
    result._layout = level.layout(primal._layout)
    return result


def _joined(level: Level, outs: Any, tangents: Any) -> Any:
    if not isinstance(outs, tuple):
        return _paired(level, outs, tangents)
    pairs = [_paired(level, o, t) for o, t in zip(outs, tangents or [None] * len(outs), strict=True)]
    return type(outs)(*pairs) if hasattr(outs, "_fields") else type(outs)(pairs)


def _paired(level: Level, out: Any, tangent: Any) -> Any:
    """A result with its tangent; whole numbers and truth values have none."""
    return dual(level, out, tangent) if out is None or out.dtype.category >= 2 else out


def split(x: Any, level: Level) -> tuple[Any, Any]:
    """(value, tangent or None) of a tensor at ``level``; anything but a tensor has no tangent."""
    if not isinstance(x, Wrapped) or x._level.number < level.number or not x._level.open:
        return x, None
    if x._level is level:
        return x._primal, x._tangent
    return x.map(lambda v: split(v, level)[0]), x.map(lambda v: split(v, level)[1])


def _like(tangent: Tensor, out: Tensor) -> Tensor:
    """A tangent in shape and dtype of its value."""
    tangent = tangent if tangent.shape == out.shape else tangent.expand(out.shape)
    return tangent if tangent.dtype is out.dtype else tangent.to(out.dtype)


def _each(function: Any, value: Any) -> Any:
    if not isinstance(value, (list, tuple)):
        return function(value)
    return type(value)([function(v) for v in value])


def tensors_among(values: Any) -> list[Tensor]:
    """The tensors of a list, and of the lists in it."""
    nested = [tensors_among(v) if isinstance(v, (list, tuple)) else [v] for v in values]
    return [t for found in nested for t in found if isinstance(t, Tensor)]


def _has(tangent: Any) -> bool:
    return any(t is not None for t in tangent) if isinstance(tangent, (list, tuple)) else tangent is not None


def _linear(op: Any, primals: tuple[Any, ...], tangents: list[Any]) -> Any:
    """The tangent of an op that is linear in each input that has one; None if it is not."""
    found = [k for k, t in enumerate(tangents) if _has(t)]
    if found and all(op.parameters[k] in op.jointly_linear for k in found):
        pairs = zip(op.parameters, primals, tangents, strict=True)
        return reapply(op, [_moved(p, t) if name in op.jointly_linear else p for name, p, t in pairs])
    if not found or any(op.parameters[k] not in op.linear for k in found):
        return None
    total: Any = None
    for k in found:
        moved = _moved(primals[k], tangents[k])
        # Only a value is known to lie so that a view shows it in the new shape.
        part = reshape(moved, primals[1]) if op in (Reshaped, ReshapeAlias) else reapply(
            op, (*primals[:k], moved, *primals[k + 1 :]))  # fmt: skip
        total = part if total is None else total + part
    return total


def _moved(primal: Any, tangent: Any) -> Any:
    """The tangent of an argument, zeros where a tensor has none."""
    if isinstance(tangent, (list, tuple)):
        return [_moved(p, t) for p, t in zip(primal, tangent, strict=True)]
    return zeros_like(primal) if tangent is None and isinstance(primal, Tensor) else tangent


# -- by differentiating backward ------------------------------------------------------------------------


def _twice(apply: Any, primals: tuple[Any, ...], tangents: list[Any]) -> Any:
    """Jacobian-vector product by differentiating backward, which is linear in its gradient."""
    leaves: list[Any] = []
    moves: list[Any] = []

    def leaf(value: Any, tangent: Any) -> Any:
        if tangent is None:
            return value
        leaves.append(new_variable(with_batches(value, batches)))
        moves.append(tangent)
        return leaves[-1]

    batches = batches_of(*tensors_among(primals), *tensors_among(tangents))
    recorded = state.enabled and any(requires_grad(v) for v in (*tensors_among(primals), *tensors_among(tangents)))
    with differentiable():
        pairs = zip(primals, tangents, strict=True)
        given = [type(p)(map(leaf, p, d)) if isinstance(d, (list, tuple)) else leaf(p, d) for p, d in pairs]
        result = apply(given)
        several = isinstance(result, tuple)
        outs = [o for o in (result if several else (result,)) if o.requires_grad]
        if not outs:
            return None
        dummies = [new_variable(zeros_like(o)) for o in outs]
        back = gradients(outs, leaves, dummies, create_graph=True)
        found = _through(back, dummies, moves, recorded)
    if not several:
        return found[0]
    queue = iter(found)
    return [next(queue) if o.requires_grad else None for o in result]


def _through(back: list[Any], dummies: list[Tensor], moves: list[Any], recorded: bool) -> list[Any]:
    """Tangents of results; a gradient that is zero whatever arrives (of what is overwritten) has no history."""
    passing = [(b, t) for b, t in zip(back, moves, strict=True) if b is not None and b.requires_grad]
    if not passing:
        return [zeros_like(d) for d in dummies]
    found = gradients([b for b, _ in passing], dummies, [t for _, t in passing], create_graph=recorded)
    return [zeros_like(d) if f is None else f for f, d in zip(found, dummies, strict=True)]
