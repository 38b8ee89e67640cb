"""vmap's argument ``randomness`` for random ops: "error", "same" numbers for all samples, or "different" ones.

With "different" a random op draws for the whole batch at once, in the order of its memory; with "same" it draws for one
sample, and the batch repeats it. Inplace fills do so by their batch rule, ``draw_rule``; ops that make a tensor of a
size, or like another, fill a tensor from ``batch_for_draw`` or ``new_like_batch``. Ops whose parameters are tensors
expand these by ``expand_for_draw``; with "same" none of them may be batched, as in PyTorch. Parameters are checked on
``all_samples``, because vmap refuses to read values of a batched tensor.
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

# Levels of vmap whose whole batch is being filled by a rule: the fill inside sees a plain tensor and must not take it
# for one that lacks the batch (``check_fill``).
_drawing: list[Any] = []

# The refusals, by the level's ``randomness``: "error" is vmap's default, "gradients" the level of ``is_grads_batched``.
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
    """RuntimeError if a level forbids random ops, or those with parameters that are ``batched``."""
    _check_allowed(level)
    if level.randomness == "same" and batched:
        raise RuntimeError(
            "Vmap does not currently support same randomness with a batched tensor input. Please file an issue with "
            "functorch"
        )


def check_draw(*parameters: Any, out: Any = None) -> None:
    """RuntimeError if an open vmap forbids a random op with these parameters, or one that writes to ``out``."""
    for level in reversed(grad_state.levels):
        if level.randomness and out is not None:
            raise RuntimeError(
                "vmap: We do not support calling out variants of random operations inside of vmap. Please use non-out "
                "variants as a workaround"
            )
        if level.randomness:
            tensors = [p.detach() for p in parameters if isinstance(p, Tensor)]  # without tangents
            check_parameters(level, any(level.is_batched(t) for t in tensors))


def check_fill() -> None:
    """RuntimeError if an open vmap forbids random fills, or wants different ones of a tensor that is not batched."""
    for level in grad_state.levels:
        _check_allowed(level)
        if level.randomness == "different" and level not in _drawing:
            raise RuntimeError(
                "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same "
                "randomness. If this is necessary for your usage, please file an issue with functorch."
            )


def batch_for_draw(x: Tensor) -> Any:
    """What a random op fills instead of a new tensor ``x``: for each vmap with "different" a batch of it."""
    for level in grad_state.levels:
        if level.randomness == "different":
            x = level.batch_of(x)
    return x


def new_like_batch(x: Tensor, make: Callable[[Tensor], Tensor]) -> Any:
    """``make(x)``, a new tensor to be filled; ``make`` of the whole batch of ``x`` for each vmap with "different".

    Numbers are drawn in the order of memory. That of a new batch is to be the order of the batch inside of ``x``, which
    PyTorch keeps, too; so ``make`` is given that batch and not a sample.
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
    """``x`` expanded to a batch for each vmap with "different" that has not batched it."""
    for level in grad_state.levels:
        if level.randomness == "different" and not level.is_batched(x.detach()):
            x = level.with_batch(x)
    return x


def all_samples(x: Any) -> Tensor:
    """The plain tensor inside of ``x``, with the samples of all batches; ``x`` if it is plain."""
    found: Tensor = innermost_tensor(x.detach())
    return found


def draw_rule(call: BatchedCall) -> Any:
    """The batch rule of random fills: one launch for all samples, or one sample that the batch repeats."""
    first, *rest = call.args
    check_parameters(call.level, any(name in call.batched for name in rest))
    # The op is applied to one sample, so its order of drawing is that of a call without vmap.
    if call.level.randomness == "same":
        sample = call[first][0] if first in call.batched else call[first]
        if hasattr(call.op, "write"):  # a fill; of others this is a parameter, which all samples have in common
            sample = call[first].new_empty(call.shape(first))
        row = call.apply([sample, *[call[name] for name in rest]])
        whole = row.expand((call.size, *row._layout.shape))
        return call.overwritten(whole) if call.inplace else whole
    return with_fills_allowed(call, aligned)


def with_fills_allowed(call: BatchedCall, rule: Callable[[BatchedCall], Any]) -> Any:
    """Apply ``rule`` to a batch, with fills of plain tensors inside taken for fills of that batch."""
    _drawing.append(call.level)
    try:
        return rule(call)
    finally:
        _drawing.remove(call.level)
