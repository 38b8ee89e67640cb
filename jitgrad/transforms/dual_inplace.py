"""Writes in place to dual tensors: tangents reach all that shows the memory that was written to.

A tensor that had no tangent becomes dual, the same object as before, and with it its base and all views
of that: their tangents are parts of one. Inside vmap, a tangent or a tensor that all samples share may have to
get a batch of its own in the same way.
"""

from __future__ import annotations

import weakref
from typing import Any

from jitgrad.core.grad_mode import state
from jitgrad.core.tensor import Tensor
from jitgrad.core.wrapped import Level, Wrapped, link_view, turn_into
from jitgrad.dispatch.checks import check_result_cast
from jitgrad.engine.view_history import Laid, Place
from jitgrad.ops.creation.constants import zeros_like
from jitgrad.transforms.batched import Batched, batch_first, batched, batches_of, is_batched, with_batches
from jitgrad.transforms.dual import Dual, dual, split, tensors_among
from jitgrad.transforms.gradients import plain_tensors, requires_grad

__all__ = ["give_batch"]


def as_it_was(level: Level, args: tuple[Any, ...]) -> Any:
    """The first of ``args``, which is about to be written to: a copy, where nodes may save it."""
    target = args[0]
    if not (state.enabled and any(map(requires_grad, tensors_among(args)))):
        return target
    value, tangent = split(target, level)
    return dual(level, value.clone(), None if tangent is None else tangent.clone())


def overwrite(level: Level, target: Tensor, result: Tensor) -> Tensor:
    """Make ``result``, dual or not, value and tangent of ``target``, as an op in place does."""
    scope = state.scope
    if scope is None or scope.unchecked:
        return _written(level, target, result)
    scope.unchecked = True  # what ``target`` is made of may be captured
    try:
        return _written(level, target, result)
    finally:
        scope.unchecked = False


def _written(level: Level, target: Tensor, result: Tensor) -> Tensor:
    value, tangent = split(result, level)
    plain, old = split(target, level)
    check_result_cast(result.dtype, target.dtype)
    plain.copy_(value)
    if old is None and tangent is not None:
        old = _tangent_for(level, target, batches_of(tangent))
    if old is None:
        return target
    tangent = zeros_like(old) if tangent is None else tangent
    missing = _lacking(old, tangent)
    if not missing:
        old.copy_(tangent)
    elif isinstance(target, Dual) and target._level is level and not _seen_elsewhere(old):
        target._tangent = tangent.clone()
    else:
        for each in sorted(missing, key=lambda batch: -batch.number):
            give_batch(old, each)
        old.copy_(tangent)
    return target


def _lacking(old: Any, new: Any) -> Any:
    """The batches that ``new`` has, in value or tangent, where ``old`` has none."""
    duals = [x for x in (old, new) if isinstance(x, Dual) and x._level.open]
    if not duals:
        return batches_of(new) - batches_of(old)
    level = max((x._level for x in duals), key=lambda found: found.number)
    (a, da), (b, db) = split(old, level), split(new, level)
    return _lacking(a, b) | (_lacking(da, db) if da is not None and db is not None else set())


def _tangent_for(level: Level, target: Tensor, batches: Any) -> Tensor:
    """Give ``target`` a tangent of zeros, and with it all that shows the same memory: parts of one."""
    base = _base_of(level, target)
    whole = _become(level, base, _rows(_zeros_laid(base), batches))
    for view in (*_views_of(level, base), target):
        if split(view, level)[1] is None:
            part = _part(base, view, whole)
            link_view(whole, part)
            _become(level, view, part)
    return split(target, level)[1]


def _base_of(level: Level, target: Any) -> Any:
    """What ``target`` is a view of, wrapped alike; ``target`` itself if it is no view."""
    base = target._wrapped_base if isinstance(target, Wrapped) and target._wrapped_base is not None else target._base
    base = None if base is None else _under(level, base)
    return base if base is not None and _alike(base, target) else target


def _views_of(level: Level, base: Any) -> list[Any]:
    """The views of ``base``, which is dual by now, that are wrapped as it was."""
    plain = base._primal if isinstance(base, Dual) and base._level is level else base
    found = [view for r in getattr(plain, "_wrapped_views", None) or () if (view := r()) is not None]
    views = [_under(level, view) for view in (*found, *_living_views(plain))]
    return [v for v in views if _alike(v._primal if isinstance(v, Dual) and v._level is level else v, plain)]


def _under(level: Level, x: Any) -> Any:
    """What levels later than ``level`` have put something round."""
    while isinstance(x, Wrapped) and x._level.open and x._level.number > level.number:
        x = x.unwrapped()
    return x


def _alike(x: Any, y: Any) -> bool:
    """Whether the same level, or none, has wrapped both."""
    x, y = (v._level if isinstance(v, Wrapped) and v._level.open else None for v in (x, y))
    return x is y


def _part(base: Any, view: Any, whole: Any) -> Any:
    """What lies in ``whole`` where ``view`` lies in ``base``."""
    if isinstance(base, Dual):
        view = view._primal if isinstance(view, Dual) and view._level is base._level else view
        return _part(base._primal, view, whole)
    if isinstance(base, Batched) and base._level.open:
        return batched(base._level, _part(base._value, view._value, batch_first(whole, base._level)))
    return Place(base, view)(whole)


def _become(level: Level, tensor: Tensor, tangent: Tensor) -> Tensor:
    """Turn a tensor into a dual one, the same object as before, until the level ends; returns its tangent."""
    plain = _twin(tensor)
    level.wrapped_in_place.append(weakref.ref(tensor))
    tensor.__dict__.clear()
    tensor.__class__ = Dual
    wrapped: Any = tensor
    wrapped._level, wrapped._primal, wrapped._tangent = level, plain, tangent
    wrapped._layout = level.layout(plain._layout)
    if isinstance(plain, Wrapped):
        wrapped._wrapped_base, wrapped._wrapped_views = plain._wrapped_base, plain._wrapped_views
    return tangent


def _twin(tensor: Tensor) -> Tensor:
    """Another object that is the same tensor."""
    twin = object.__new__(type(tensor))
    twin.__dict__.update(tensor.__dict__)
    return twin


def _zeros_laid(x: Any) -> Any:
    """Zeros that lie in memory as ``x`` does."""
    if isinstance(x, Wrapped) and x._level.open:
        zeros = _zeros_laid(x.unwrapped())
        return batched(x._level, zeros) if isinstance(x, Batched) else zeros
    zeros = zeros_like(x)
    return zeros if zeros._layout.strides == x._layout.strides else Laid.apply(zeros, x._layout)


def _rows(x: Any, batches: Any) -> Any:
    """``x`` with batches of its own, in memory of its own, each sample laid as before."""
    batches = batches - batches_of(x)
    if not batches:
        return x
    if isinstance(x, Batched) and x._level.open:
        return batched(x._level, _rows(x._value, batches))
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
    return [view for reference in base._views or () if (view := reference()) is not None]


def _seen_elsewhere(tangent: Tensor) -> bool:
    """Whether a tangent is a view, or has views, that would not hear of another in its place."""
    return any(t._base is not None or _living_views(t) for t in plain_tensors(tangent))


def give_batch(x: Any, level: Any) -> None:
    """Give a tensor that all samples share, and all that shows its memory, a batch of its own at ``level``."""
    x = _under(level, x)
    base = _base_of(level, x)
    before = _twin(base)
    whole = _rows(before, {level})
    views = [v for v in {id(v): v for v in (*_views_of(level, base), x)}.values() if v is not base]
    for view in views:
        if not is_batched(view, level):
            turn_into(view, _part(before, view, whole))
    turn_into(base, whole)
    for view in views:
        link_view(base, view)


Dual.as_it_was, Dual.overwrite = staticmethod(as_it_was), staticmethod(overwrite)  # type: ignore[method-assign]
