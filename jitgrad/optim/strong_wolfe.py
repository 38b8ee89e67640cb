"""A line search for the strong Wolfe conditions: bracket a minimum, then zoom in by cubic interpolation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jitgrad
from jitgrad.core.tensor import Tensor

__all__ = ["strong_wolfe"]

_DECREASE, _CURVATURE = 1e-4, 0.9  # the conditions' two constants


class _Point(NamedTuple):
    """A step size, the loss there, the gradient, and its slope along the direction."""

    t: Any
    loss: float
    grad: Tensor
    slope: Any


def _cubic_minimum(a: _Point, b: _Point, bounds: tuple[Any, Any] | None = None) -> Any:
    """Where the cubic through two points with their slopes has its minimum, within bounds."""
    low, high = bounds or ((a.t, b.t) if a.t <= b.t else (b.t, a.t))
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1**2 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2.0
    d2 = square.sqrt()
    left, right = (a, b) if a.t <= b.t else (b, a)
    t = right.t - (right.t - left.t) * ((right.slope + d2 - d1) / (right.slope - left.slope + 2 * d2))
    return min(max(t, low), high)


class _Search:
    """Losses along a direction from one start, and how many were looked at."""

    def __init__(self, evaluate: Callable[[Any], tuple[float, Tensor]], d: Tensor, start: _Point):
        self.evaluate, self.d, self.start, self.evaluations = evaluate, d, start, 0

    def at(self, t: Any) -> _Point:
        loss, grad = self.evaluate(t)
        self.evaluations += 1
        return _Point(t, loss, grad, grad.dot(self.d))

    def too_high(self, point: _Point) -> Any:
        """Whether the loss does not fall enough."""
        return point.loss > self.start.loss + _DECREASE * point.t * self.start.slope

    def is_flat(self, point: _Point) -> Any:
        """Whether the slope is small enough."""
        return abs(point.slope) <= -_CURVATURE * self.start.slope


def strong_wolfe(
    evaluate: Callable[[Any], tuple[float, Tensor]], t: Any, d: Tensor, loss: float, grad: Tensor, slope: Any,
    tolerance_change: float = 1e-9, max_ls: int = 25,
) -> tuple[float, Tensor, Any, int]:  # fmt: skip
    """Find a step along ``d`` that meets the strong Wolfe conditions; (loss, gradient, step, evaluations).

    ``evaluate(t)`` gives loss and gradient after a step ``t``; the start's are ``loss`` and ``grad``, its slope along d
    is ``slope``. The best step of what was looked at, if ``max_ls`` evaluations or the tolerance end the search.
    """
    start = _Point(0, loss, grad.clone(memory_format=jitgrad.contiguous_format), slope)
    search = _Search(evaluate, d, start)
    bracket, done, steps = _bracket(search, t, max_ls)
    if done:
        best = bracket[0]
    else:
        best = _zoom(search, bracket, steps, max_ls, tolerance_change)
    return best.loss, best.grad, best.t, search.evaluations


def _bracket(search: _Search, t: Any, max_ls: int) -> tuple[list[_Point], bool, int]:
    """Two steps with a minimum between them, or one that will do and True; and how many steps were tried."""
    before, point, steps = search.start, search.at(t), 0
    while steps < max_ls:
        if search.too_high(point) or (steps > 1 and point.loss >= before.loss):
            return [before, point], False, steps
        if search.is_flat(point):
            return [point], True, steps
        if point.slope >= 0:
            return [before, point], False, steps
        bounds = (point.t + 0.01 * (point.t - before.t), point.t * 10)
        before, point = point, search.at(_cubic_minimum(before, point, bounds))
        steps += 1
    return [search.start, point], False, steps


def _zoom(search: _Search, bracket: list[_Point], steps: int, max_ls: int, tolerance_change: float) -> _Point:
    """Narrow a bracket until a step meets the conditions; the better end otherwise."""
    low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
    largest, stuck = search.d.abs().max(), False
    while steps < max_ls and not abs(bracket[1].t - bracket[0].t) * largest < tolerance_change:
        t, stuck = _inside(bracket, _cubic_minimum(bracket[0], bracket[1]), stuck)
        point = search.at(t)
        steps += 1
        if search.too_high(point) or point.loss >= bracket[low].loss:
            bracket[high] = point
            low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
            continue
        done = search.is_flat(point)
        if not done and point.slope * (bracket[high].t - bracket[low].t) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = point
        if done:
            break
    return bracket[low]


def _inside(bracket: list[_Point], t: Any, stuck: bool) -> tuple[Any, bool]:
    """A step that is away from the bracket's ends, where two in a row would be close to one."""
    left, right = min(bracket[0].t, bracket[1].t), max(bracket[0].t, bracket[1].t)
    margin = 0.1 * (right - left)
    if min(right - t, t - left) >= margin:
        return t, False
    if stuck or t >= right or t <= left:
        return (right - margin if abs(t - right) < abs(t - left) else left + margin), False
    return t, True
