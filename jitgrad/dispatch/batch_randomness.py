"""What vmap's ``randomness`` means for random ops: refused, the same numbers for all samples, or numbers for each.

A random op of no tensor, or of a tensor's shape, draws once for a whole batch ("different") or for one
sample ("same"). A fill in place does so by its rule (``draw_rule``). An op of parameters that are tensors
(``check_draw``, ``expand_for_draw``) has the same numbers only where no parameter is batched. Values are checked
on all samples at once: reading them sample by sample is what vmap refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.tensor import Tensor
from jitgrad.core.wrapped import innermost_tensor
from jitgrad.dispatch.batch_rules import BatchedCall, aligned

__all__ = [
    "all_samples",
    "batch_for_draw",
    "check_draw",
    "check_fill",
    "check_parameters",
    "draw_rule",
    "expand_for_draw",
    "new_like_batch",
    "with_fills_allowed",
]  # fmt: skip

_drawing: list[Any] = []  # the levels of vmap whose batch is being drawn for


# Why nothing may be drawn: "error" is vmap's own; batches of gradients know no other way.
_REFUSED = {
    "error": (
        "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
        "randomness flags on vmap or perform the randomness operation out of vmap"
    ),
    "gradients": (
        "vmap: We do not yet support calling random operations inside of vmap. Please perform random operations "
        "outside of vmap as a workaround"
    ),
}


def _check_allowed(level: Any) -> None:
    if level.randomness in _REFUSED:
        raise RuntimeError(_REFUSED[level.randomness])


def check_parameters(level: Any, batched: bool) -> None:
    """RuntimeError where a level forbids drawing, or drawing with parameters that are ``batched``."""
    _check_allowed(level)
    if level.randomness == "same" and batched:
        raise RuntimeError(
            "Vmap does not currently support same randomness with a batched tensor input. Please file an issue with "
            "functorch"
        )


def check_draw(*parameters: Any, out: Any = None) -> None:
    """RuntimeError where a vmap at work forbids drawing: with these parameters, or into ``out``."""
    for level in reversed(grad_state.levels):
        if level.randomness and out is not None:
            raise RuntimeError(
                "vmap: We do not support calling out variants of random operations inside of vmap. Please use non-out "
                "variants as a workaround"
            )
        if level.randomness:
            tensors = [p.detach() for p in parameters if isinstance(p, Tensor)]
            check_parameters(level, any(level.is_batched(t) for t in tensors))


def check_fill() -> None:
    """RuntimeError where a vmap at work forbids the fill of a tensor that has none of its batch."""
    for level in grad_state.levels:
        _check_allowed(level)
        if level.randomness == "different" and level not in _drawing:
            raise RuntimeError(
                "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same "
                "randomness. If this is necessary for your usage, please file an issue with functorch."
            )


def batch_for_draw(x: Tensor) -> Any:
    """``x``, a new tensor to be filled, or a batch of such where a vmap draws for each sample."""
    for level in grad_state.levels:
        if level.randomness == "different":
            x = level.batch_of(x)
    return x


def new_like_batch(x: Tensor, make: Callable[[Tensor], Tensor]) -> Any:
    """What ``make`` makes of ``x``, a tensor to be filled: of a whole batch where a vmap draws for each sample.

    So it has the memory order of the batch, in which numbers are drawn.
    """
    return _made(x.detach(), make, grad_state.levels) if grad_state.levels else make(x)


def _made(x: Any, make: Callable[[Tensor], Tensor], levels: tuple[Any, ...]) -> Any:
    if not levels:
        return make(x)
    *earlier, level = levels
    if level.randomness == "different":
        return level.batched(_made(level.batch_first(x), make, tuple(earlier)))
    if level.randomness == "same" and level.is_batched(x):
        x = level.batch_first(x)[0]
    return _made(x, make, tuple(earlier))


def expand_for_draw(x: Tensor) -> Any:
    """``x`` with a batch for each vmap that draws for each sample."""
    for level in grad_state.levels:
        if level.randomness == "different" and not level.is_batched(x.detach()):
            x = level.with_batch(x)
    return x


def all_samples(x: Any) -> Tensor:
    """The plain tensor with all samples of a batch; a plain one itself."""
    found: Tensor = innermost_tensor(x.detach())
    return found


def draw_rule(call: BatchedCall) -> Any:
    """The rule of random ops: numbers of its own for each sample, or the same for all."""
    first, *rest = call.args
    check_parameters(call.level, any(name in call.batched for name in rest))
    if call.level.randomness == "same":
        row = call.apply([call[first].new_empty(call.shape(first)), *[call[name] for name in rest]])
        whole = row.expand((call.size, *row._layout.shape))
        return call.overwritten(whole) if call.inplace else whole
    return with_fills_allowed(call, aligned)


def with_fills_allowed(call: BatchedCall, rule: Callable[[BatchedCall], Any]) -> Any:
    """Apply a rule to a batch for which fills are allowed."""
    _drawing.append(call.level)
    try:
        return rule(call)
    finally:
        _drawing.remove(call.level)
