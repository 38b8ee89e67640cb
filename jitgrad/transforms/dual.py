"""Forward mode: dual tensors, which are a value (primal) and its tangent. No op declares a rule for tangents.

- Elementwise: out = f(x, y) has scalar derivatives, so its tangent is the sum of the gradient rules with the
  operands' tangents in the place of the incoming gradient.
- Linear in an input x: the tangent of f(x) is f(tangent of x).
- An op may compute its tangents itself (``Structured.tangents``).
- Any other op: backward maps v to J^T v and is linear in v. Its own gradient with respect to v, weighted by the
  tangent dx, therefore is J dx. This is the "double backward trick"; the value of v does not matter.

An inplace op is computed by its copying form, which is then written over value and tangent (dual_inplace.py). The
gradient of a dual tensor is dual, by the product rule: d(J^T v) = J^T dv + gradient with respect to x of (v . J dx).
"""

from __future__ import annotations

from typing import Any

from jitgrad.core.formatting import with_suffixes
from jitgrad.core.grad_mode import state
from jitgrad.core.inference import differentiable
from jitgrad.core.tensor import Tensor
from jitgrad.core.wrapped import Level, Wrapped, link_views, outermost_wrapped, turn_into
from jitgrad.dispatch.structured import reapply
from jitgrad.ops.creation.constants import full_like, zeros_like
from jitgrad.ops.shape.view import ReshapeAlias, Reshaped, reshape
from jitgrad.transforms.batched import batches_of, with_batches
from jitgrad.transforms.gradients import gradients, new_variable, requires_grad

__all__ = ["Dual", "dual", "split", "tensors_among"]


class Dual(Wrapped):
    """A tensor with a tangent of its shape. Memory, history and flags are those of the primal that it wraps."""

    _primal: Tensor
    _tangent: Tensor

    def unwrapped(self) -> Any:
        """The primal."""
        return self._primal

    def map(self, function: Any) -> Any:
        """A linear ``function`` applied to primal and tangent, as a dual tensor; None where it returns None."""
        return dual(self._level, function(self._primal), function(self._tangent))

    def value_and_dim(self) -> tuple[Any, None]:
        """(the primal, None: it has no batch)."""
        return self._primal, None

    def wrap_alias(self) -> None:
        """Wrap an alias instead, so that flags set on this tensor are not set on the one that was made dual."""
        self._primal = self._primal.detach()

    @staticmethod
    def map_pair(function: Any, level: Level, x: Any, y: Any) -> Any:
        """A linear ``function`` of two tensors, applied to their primals and to their tangents."""
        (p, dp), (t, dt) = split(x, level), split(y, level)
        if dp is None and dt is None:
            return function(p, t)
        return dual(level, function(p, t), function(zeros_like(p) if dp is None else dp, dt))

    def map_graph(self, function: Any) -> Any:
        """``function`` applied to the primal, which carries the graph; the tangent stays."""
        return dual(self._level, function(self._primal), self._tangent)

    def __repr__(self) -> str:
        if not self._level.open:
            return repr(self._primal)
        if self._level is not state.forward:
            return super().__repr__()
        text = repr(self._primal)[:-1]
        return with_suffixes(text, [f"tangent={self._tangent}"], indent=text.index("(") + 1) + ")"

    def detach(self) -> Tensor:
        """The primal outside the graph, without a tangent."""
        return self._primal.detach() if self._level.open else super().detach()

    def detach_(self) -> Any:
        """Become the primal, without a tangent; under ``forward_ad`` also lose the history, as PyTorch has it."""
        if self._level is state.forward or self._base is not None or not self._level.open:
            super().detach_()
        return turn_into(self, self._primal) if self._level.open else self

    def wrap_new(self, made: Tensor) -> Any:
        """A new plain tensor ``made``, wrapped by the levels below this one; it has no tangent."""
        return self._primal.wrap_new(made) if isinstance(self._primal, Wrapped) else made

    @staticmethod
    def before_write(level: Level, args: tuple[Any, ...]) -> Any:
        """See ``before_write`` in dual_inplace.py, which puts it here: that file needs this one."""
        raise NotImplementedError

    @staticmethod
    def overwrite(level: Level, target: Tensor, result: Tensor) -> Tensor:
        """See ``overwrite`` in dual_inplace.py, which puts it here."""
        raise NotImplementedError

    @classmethod
    def elementwise(cls, level: Level, operation: Any, operands: tuple[Any, ...], inplace: bool) -> Any:
        """Apply the op to the primals, and its gradient rules to the tangents in place of gradients."""
        if not state.computes_tangents:
            values = [split(o, level)[0] for o in operands]
            out = operation(*values, inplace=True) if inplace else operation(*values)
            return operands[0] if inplace else out
        if inplace:
            before = (cls.before_write(level, operands), *operands[1:])
            return cls.overwrite(level, operands[0], cls.elementwise(level, operation, before, False))
        pairs = [split(o, level) for o in operands]
        op, primals = operation.op, tuple(p for p, _ in pairs)
        out = operation(*primals)
        if any(isinstance(p, Tensor) and p.dtype.is_complex for p in primals) and not op.holomorphic:
            # abs, conj and angle of a complex number have no complex derivative to multiply a tangent by; their rules
            # are right for incoming gradients only.
            tangents = [t for _, t in pairs]
            return dual(level, out, _tangent_by_double_backward(lambda args: operation(*args), primals, tangents))
        known = {**op.scalars, **dict(zip((*op.inputs, *op.scalars), primals, strict=False)), "out": out}
        total = None
        for name, (_, tangent) in zip(op.inputs, pairs, strict=False):
            if tangent is not None and name in op.grads:
                rule = op.grads[name]
                term = rule.function(*(tangent if p == "g" else known[p] for p in rule.parameters))
                term = term if isinstance(term, Tensor) else full_like(out, term)  # a rule may return a number
                total = term if total is None else total + term
        if total is None:
            return out
        return dual(level, out, _fitted_tangent(total, out))

    @classmethod
    def structured(cls, level: Level, op: Any, args: tuple[Any, ...], inplace: bool) -> Any:
        """Apply the op to the primals; to the tangents too where it is linear in them, else use double backward."""
        if not state.computes_tangents:
            out = reapply(op, [_map_nested(lambda v: split(v, level)[0], a) for a in args], inplace)
            return args[0] if inplace else out
        if inplace:
            before = (cls.before_write(level, args), *args[1:])
            return cls.overwrite(level, args[0], cls.structured(level, op, before, False))
        primals = tuple(_map_nested(lambda v: split(v, level)[0], a) for a in args)
        tangents = [_map_nested(lambda v: split(v, level)[1], a) for a in args]
        if op.refuse_tangents is not None:
            op.refuse_tangents([n for n, t in zip(op.parameters, tangents, strict=True) if _has_tangent(t)])
        outs = reapply(op, primals)
        found = _linear_tangent(op, primals, tangents)
        if found is None and op.tangents is not None:
            found = op.tangents(primals, tangents)
        elif found is None:
            found = _tangent_by_double_backward(lambda given: reapply(op, given), primals, tangents)
        result = _dual_outputs(level, outs, found)
        if op.is_view and state.levels[-1] is not level:
            link_views(args[0], result)
        return result

    @classmethod
    def gradients(cls, level: Level, outs: list[Any], ins: list[Any], grads: list[Any], run: Any) -> list[Any]:
        """The gradients of primals, and as their tangents the two terms of the product rule (top of the file)."""
        pairs, seeds = [split(o, level) for o in outs], [split(g, level) for g in grads]
        values = [split(i, level)[0] for i in ins]
        first = run([o for o, _ in pairs], values, [g for g, _ in seeds])
        # J^T dv: outputs weighted by the tangents of seeds. Gradient of v . J dx: output tangents weighted by seeds.
        weighted = [(o, dg) for (o, _), (_, dg) in zip(pairs, seeds, strict=True) if dg is not None]
        weighted += [(t, g) for (_, t), (g, _) in zip(pairs, seeds, strict=True) if t is not None]
        if not weighted:
            return first
        second = run([o for o, _ in weighted], values, [g for _, g in weighted])
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
    """``primal`` with a tangent at ``level``; None for either means zeros, or no tangent.

    Wrappers are always nested in the order of their levels: what later levels have put round either stays outermost.
    """
    if tangent is None:
        return primal
    if primal is None:
        primal = zeros_like(tangent)
    later = outermost_wrapped((primal, tangent))
    if later is not None and later._level.number > level.number:
        return later.map_pair(lambda p, t: dual(level, p, t), later._level, primal, tangent)
    result = object.__new__(Dual)
    result._level, result._primal, result._tangent = level, primal, tangent
    result._layout = level.layout(primal._layout)
    return result


def _dual_outputs(level: Level, outs: Any, tangents: Any) -> Any:
    """What an op returned, a tensor or a tuple of them (perhaps a named one), with its tangents."""
    if not isinstance(outs, tuple):
        return _dual_output(level, outs, tangents)
    pairs = [_dual_output(level, o, t) for o, t in zip(outs, tangents or [None] * len(outs), strict=True)]
    return type(outs)(*pairs) if hasattr(outs, "_fields") else type(outs)(pairs)


def _dual_output(level: Level, out: Any, tangent: Any) -> Any:
    """An output with its tangent; integers and bools have none."""
    return dual(level, out, tangent) if out is None or out.dtype.category >= 2 else out


def split(x: Any, level: Level) -> tuple[Any, Any]:
    """(primal, tangent at ``level`` or None); for anything that is not dual there, (``x``, None)."""
    if not isinstance(x, Wrapped) or x._level.number < level.number or not x._level.open:
        return x, None
    if x._level is level:
        return x._primal, x._tangent
    return x.map(lambda v: split(v, level)[0]), x.map(lambda v: split(v, level)[1])


def _fitted_tangent(tangent: Tensor, out: Tensor) -> Tensor:
    """A tangent in the shape and dtype of its primal: rules leave broadcasting and promotion to the engine."""
    tangent = tangent if tangent.shape == out.shape else tangent.expand(out.shape)
    return tangent if tangent.dtype is out.dtype else tangent.to(out.dtype)


def _map_nested(function: Any, value: Any) -> Any:
    """``function(value)``, or of each element where an op takes a list (``cat``)."""
    if not isinstance(value, (list, tuple)):
        return function(value)
    found = [function(v) for v in value]
    return found if isinstance(value, list) else tuple(found)  # a Size takes nothing but ints


def tensors_among(values: Any) -> list[Tensor]:
    """The tensors in a list, nested lists included."""
    nested = [tensors_among(v) if isinstance(v, (list, tuple)) else [v] for v in values]
    return [t for found in nested for t in found if isinstance(t, Tensor)]


def _has_tangent(tangent: Any) -> bool:
    """Whether an argument has a tangent, or any element of one that is a list."""
    return any(t is not None for t in tangent) if isinstance(tangent, (list, tuple)) else tangent is not None


def _linear_tangent(op: Any, primals: tuple[Any, ...], tangents: list[Any]) -> Any:
    """The tangent of an op that is linear in all inputs that have one; None if it is not.

    ``jointly_linear``: linear in these inputs together, f(x + dx, y + dy) = f(x, y) + f(dx, dy), as ``cat`` is.
    ``linear``: linear in each of these alone, as ``matmul`` is, so there is a term for each.
    """
    found = [k for k, t in enumerate(tangents) if _has_tangent(t)]
    if found and all(op.parameters[k] in op.jointly_linear for k in found):
        pairs = zip(op.parameters, primals, tangents, strict=True)
        return reapply(op, [_tangent_or_zeros(p, t) if name in op.jointly_linear else p for name, p, t in pairs])
    if not found or any(op.parameters[k] not in op.linear for k in found):
        return None
    total: Any = None
    for k in found:
        tangent = _tangent_or_zeros(primals[k], tangents[k])
        # Reshaped is chosen where the primal's strides allow a view; the tangent's may not, so it may need a copy.
        term = reshape(tangent, primals[1]) if op in (Reshaped, ReshapeAlias) else reapply(
            op, (*primals[:k], tangent, *primals[k + 1 :]))  # fmt: skip
        total = term if total is None else total + term
    return total


def _tangent_or_zeros(primal: Any, tangent: Any) -> Any:
    """The tangent of an argument, zeros for a tensor that has none; anything else has None."""
    if isinstance(tangent, (list, tuple)):
        return [_tangent_or_zeros(p, t) for p, t in zip(primal, tangent, strict=True)]
    return zeros_like(primal) if tangent is None and isinstance(primal, Tensor) else tangent


# -- by double backward ------------------------------------------------------------------------


def _tangent_by_double_backward(apply: Any, primals: tuple[Any, ...], tangents: list[Any]) -> Any:
    """The tangents of ``apply(primals)`` by the double backward trick: a tensor, or one per output, None for some.

    ``recorded``: whether the results keep a history, for a gradient of the Jacobian-vector product.
    """
    leaves: list[Any] = []
    leaf_tangents: list[Any] = []

    def leaf(value: Any, tangent: Any) -> Any:
        if tangent is None:
            return value
        leaves.append(new_variable(with_batches(value, batches)))
        leaf_tangents.append(tangent)
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
        seeds = [new_variable(zeros_like(o)) for o in outs]
        back = gradients(outs, leaves, seeds, create_graph=True)
        found = _gradients_of_backward(back, seeds, leaf_tangents, recorded)
    if not several:
        return found[0]
    queue = iter(found)
    return [next(queue) if o.requires_grad else None for o in result]


def _gradients_of_backward(
    back: list[Any], seeds: list[Tensor], tangents: list[Any], recorded: bool
) -> list[Any]:  # fmt: skip
    """The gradient of backward's results, weighted by ``tangents``, with respect to its ``seeds``: J dx per output."""
    # Where a gradient is zero whatever the seed (of an input that was overwritten), it has no history.
    pairs = [(b, t) for b, t in zip(back, tangents, strict=True) if b is not None and b.requires_grad]
    if not pairs:
        return [zeros_like(s) for s in seeds]
    found = gradients([b for b, _ in pairs], seeds, [t for _, t in pairs], create_graph=recorded)
    return [zeros_like(s) if f is None else f for f, s in zip(found, seeds, strict=True)]
