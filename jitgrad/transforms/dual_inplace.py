"""Inplace ops in forward mode: the tangent of what is written reaches every tensor that shares the memory.

A tensor without a tangent that is written to becomes a dual tensor: the same Python object changes its class. So do
its base and all views of the base, and their tangents are views of the base's tangent. Inside vmap a tangent
(or, in jacfwd, a tensor) that all samples share gets a batch of its own in the same way; memory with gaps that samples
share is refused. Views of wrapped tensors know their wrapped base for this (``_wrapped_base``, ``_wrapped_views``), but
only while a later level is open.
"""

from __future__ import annotations

import weakref
from typing import Any

from jitgrad.core.grad_mode import state
from jitgrad.core.tensor import Tensor
from jitgrad.core.wrapped import Level, Wrapped, link_view, turn_into
from jitgrad.dispatch.operand_checks import check_result_cast
from jitgrad.engine.view_history import Place, StridedCopy
from jitgrad.ops.creation.constants import zeros_like
from jitgrad.transforms.batched import Batched, batch_first, batched, batches_of, is_batched, with_batches
from jitgrad.transforms.dual import Dual, dual, split, tensors_among
from jitgrad.transforms.gradients import plain_tensors, requires_grad

__all__ = ["give_batch"]


def before_write(level: Level, args: tuple[Any, ...]) -> Any:
    """The first of ``args``, which is about to be written to.

    It is a copy if the op is recorded: the op runs in its copying form first, whose node saves its input.
    """
    target = args[0]
    if not (state.enabled and any(map(requires_grad, tensors_among(args)))):
        return target
    value, tangent = split(target, level)
    return dual(level, value.clone(), None if tangent is None else tangent.clone())


def overwrite(level: Level, target: Tensor, result: Tensor) -> Tensor:
    """Write the primal and tangent of ``result`` into ``target``, which need not be dual yet, and return that."""
    scope = state.scope
    if scope is None or scope.unchecked:
        return _overwritten(level, target, result)
    # The write to ``target`` was checked. Its primal may have been made outside of the scope, and be written to.
    scope.unchecked = True
    try:
        return _overwritten(level, target, result)
    finally:
        scope.unchecked = False


def _overwritten(level: Level, target: Tensor, result: Tensor) -> Tensor:
    value, tangent = split(result, level)
    primal, old = split(target, level)
    check_result_cast(result.dtype, target.dtype)
    primal.copy_(value)
    if old is None and tangent is not None:
        old = _tangent_for(level, target, batches_of(tangent))
    if old is None:
        return target
    tangent = zeros_like(old) if tangent is None else tangent
    missing = _missing_batches(old, tangent)
    if not missing:
        old.copy_(tangent)
    elif isinstance(target, Dual) and target._level is level and not _has_other_views(old):  # no need to keep ``old``
        target._tangent = tangent.clone()
    else:
        for each in sorted(missing, key=lambda batch: -batch.number):
            give_batch(old, each)
        old.copy_(tangent)
    return target


def _missing_batches(old: Any, new: Any) -> Any:
    """The batches that ``new`` has, in primal or tangent, where ``old`` has none."""
    duals = [x for x in (old, new) if isinstance(x, Dual) and x._level.open]
    if not duals:
        return batches_of(new) - batches_of(old)
    level = max((x._level for x in duals), key=lambda found: found.number)
    (a, da), (b, db) = split(old, level), split(new, level)
    return _missing_batches(a, b) | (_missing_batches(da, db) if da is not None and db is not None else set())


def _tangent_for(level: Level, target: Tensor, batches: Any) -> Tensor:
    """Give ``target``, its base and all views of that a tangent of zeros; return the one of ``target``.

    The tangent has the strides of the base, so that each view's tangent is the view at the same place of it.
    """
    base = _base_of(level, target)
    base_tangent = _make_dual(level, base, _with_own_batches(_zeros_strided_like(base), batches))
    for view in (*_views_of(level, base), target):
        if split(view, level)[1] is None:
            view_tangent = _view_in(base, view, base_tangent)
            link_view(base_tangent, view_tangent)
            _make_dual(level, view, view_tangent)
    return split(target, level)[1]


def _base_of(level: Level, target: Any) -> Any:
    """The base of the view ``target``, if the same level has wrapped both; else ``target`` itself."""
    base = target._wrapped_base if isinstance(target, Wrapped) and target._wrapped_base is not None else target._base
    base = None if base is None else _unwrapped_to(level, base)
    return base if base is not None and _wrapped_alike(base, target) else target


def _views_of(level: Level, base: Any) -> list[Any]:
    """The living views of ``base``, dual by now, that the same level as the base has wrapped."""
    plain = base._primal if isinstance(base, Dual) and base._level is level else base
    found = [view for r in getattr(plain, "_wrapped_views", None) or () if (view := r()) is not None]
    views = [_unwrapped_to(level, view) for view in (*found, *_living_views(plain))]
    return [v for v in views if _wrapped_alike(v._primal if isinstance(v, Dual) and v._level is level else v, plain)]


def _unwrapped_to(level: Level, x: Any) -> Any:
    """``x`` without the wrappers of levels later than ``level``."""
    while isinstance(x, Wrapped) and x._level.open and x._level.number > level.number:
        x = x.unwrapped()
    return x


def _wrapped_alike(x: Any, y: Any) -> bool:
    """Whether the outermost wrappers of both are of the same level, or neither has one."""
    x, y = (v._level if isinstance(v, Wrapped) and v._level.open else None for v in (x, y))
    return x is y


def _view_in(base: Any, view: Any, whole: Any) -> Any:
    """The view of ``whole`` at the place that ``view`` has in ``base``."""
    if isinstance(base, Dual):
        view = view._primal if isinstance(view, Dual) and view._level is base._level else view
        return _view_in(base._primal, view, whole)
    if isinstance(base, Batched) and base._level.open:
        return batched(base._level, _view_in(base._value, view._value, batch_first(whole, base._level)))
    return Place(base, view)(whole)


def _make_dual(level: Level, tensor: Tensor, tangent: Tensor) -> Tensor:
    """Turn a tensor into a dual one, the same object as before, until the level ends; return its tangent."""
    primal = _second_object(tensor)
    level.wrapped_in_place.append(weakref.ref(tensor))
    tensor.__dict__.clear()
    tensor.__class__ = Dual
    wrapped: Any = tensor
    wrapped._level, wrapped._primal, wrapped._tangent = level, primal, tangent
    wrapped._layout = level.layout(primal._layout)
    if isinstance(primal, Wrapped):
        wrapped._wrapped_base, wrapped._wrapped_views = primal._wrapped_base, primal._wrapped_views
    return tangent


def _second_object(tensor: Tensor) -> Tensor:
    """A new object of the tensor's class with its attributes: the same memory, history and flags."""
    second = object.__new__(type(tensor))
    second.__dict__.update(tensor.__dict__)
    return second


def _zeros_strided_like(x: Any) -> Any:
    """Zeros with the strides of ``x``, gaps included, so that views of ``x`` can be taken of them."""
    if isinstance(x, Wrapped) and x._level.open:
        zeros = _zeros_strided_like(x.unwrapped())
        return batched(x._level, zeros) if isinstance(x, Batched) else zeros
    zeros = zeros_like(x)
    return zeros if zeros._layout.strides == x._layout.strides else StridedCopy.apply(zeros, x._layout)


def _with_own_batches(x: Any, batches: Any) -> Any:
    """A copy of ``x`` with a batch at each level of ``batches``, every sample with the strides of ``x``.

    NotImplementedError where strides have gaps or overlap, which a copy of the samples one after another loses.
    """
    batches = batches - batches_of(x)
    if not batches:
        return x
    if isinstance(x, Batched) and x._level.open:
        return batched(x._level, _with_own_batches(x._value, batches))
    strides = x._layout.strides
    order = sorted(range(len(strides)), key=lambda d: -strides[d])
    if order == list(range(len(order))):
        rows = with_batches(x, batches).contiguous().clone()
    else:
        back = sorted(range(len(order)), key=order.__getitem__)
        rows = with_batches(x.permute(order), batches).contiguous().clone().permute(back)
    if rows._layout.strides != strides and x._layout.numel > 1:
        raise NotImplementedError(
            "forward mode inside vmap: an op in place writes samples of its own into memory with gaps that all samples "
            "share; use an op that returns a new tensor"
        )
    return rows


def _living_views(base: Tensor) -> list[Tensor]:
    """The views of a plain tensor that still exist; the base holds them weakly."""
    return [view for reference in base._views or () if (view := reference()) is not None]


def _has_other_views(tangent: Tensor) -> bool:
    """Whether a tangent is a view or has views: then it must be written to, not replaced by another tensor."""
    return any(t._base is not None or _living_views(t) for t in plain_tensors(tangent))


def give_batch(x: Any, level: Any) -> None:
    """Give a tensor that all samples share, its base and the views of that, a batch at ``level``: each a copy of it."""
    x = _unwrapped_to(level, x)
    base = _base_of(level, x)
    before = _second_object(base)
    rows = _with_own_batches(before, {level})
    views = [v for v in {id(v): v for v in (*_views_of(level, base), x)}.values() if v is not base]
    for view in views:
        if not is_batched(view, level):
            turn_into(view, _view_in(before, view, rows))
    turn_into(base, rows)
    for view in views:
        link_view(base, view)


Dual.before_write, Dual.overwrite = staticmethod(before_write), staticmethod(overwrite)  # type: ignore[method-assign]
