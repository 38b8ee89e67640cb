"""Four of the loops as users of torch write them: whole arrays where the problem has them, else a tensor per number.

Each function takes the module torch and the example's arguments, arrays and floats as tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .problems import PROBLEMS, Result

__all__ = ["TORCH_PROGRAMS", "torch_gradient"]


def soft_dtw(torch: Any, D: Any, gamma: float) -> Any:
    """The recursion as it is written down, in ops of single numbers."""
    m = D.shape[1]
    nowhere = torch.tensor(math.inf, dtype=D.dtype)
    above = [torch.zeros((), dtype=D.dtype), *[nowhere] * m]
    for costs in D.unbind():
        row = [nowhere]
        for j, cost in enumerate(costs.unbind()):
            options = torch.stack((above[j], above[j + 1], row[j]))
            row.append(cost - gamma * torch.logsumexp(options / -gamma, 0))
        above = row
    return above[m]


def kalman_loglik(torch: Any, y: Any, q_level: Any, q_slope: Any, r: Any, level0: Any, slope0: Any) -> Any:
    """As the loop, on tensors of one number."""
    level, slope = level0, slope0
    p00, p01, p11 = (torch.tensor(v, dtype=y.dtype) for v in (1.0, 0.0, 1.0))
    terms = []
    for value in y.unbind():
        miss, variance = value - level, p00 + r
        terms.append(torch.log(variance) + miss * miss / variance)
        gain0, gain1 = p00 / variance, p01 / variance
        slope = slope + gain1 * miss
        level = level + gain0 * miss + slope
        c00, c01, c11 = p00 - gain0 * p00, p01 - gain0 * p01, p11 - gain1 * p01
        p00, p01, p11 = c00 + 2.0 * c01 + c11 + q_level, c01 + c11, c11 + q_slope
    return -0.5 * (torch.stack(terms).sum() + y.numel() * math.log(2.0 * math.pi))


def nbody_leapfrog(torch: Any, x0: Any, v0: Any, m: Any, dt: float, steps: int, observed: Any) -> Any:
    """All pairs of bodies at once."""

    def acceleration(x: Any) -> Any:
        d = x - x[:, None]
        square = (d * d).sum(2) + 0.01
        return ((m / (square * square.sqrt()))[:, :, None] * d).sum(1)

    x, v = x0, v0 + 0.5 * dt * acceleration(x0)
    for step in range(1, steps + 1):
        x = x + dt * v
        if step < steps:  # the last kick moves nothing
            v = v + dt * acceleration(x)
    return ((x - observed) ** 2).sum()


def binomial_option(torch: Any, spot: Any, strike: Any, rate: Any, volatility: Any, maturity: Any, steps: int) -> Any:
    """All nodes of a day at once."""
    dt = maturity / steps
    up, discount = torch.exp(volatility * torch.sqrt(dt)), torch.exp(-rate * dt)
    rise = (1.0 / discount - 1.0 / up) / (up - 1.0 / up)
    a, b = discount * rise, discount * (1.0 - rise)
    exercise = strike - spot * up ** torch.arange(-steps, steps + 1, dtype=spot.dtype)
    values = exercise[::2].clamp(min=0.0)
    for day in range(steps - 1, -1, -1):
        values = torch.maximum(exercise[steps - day : steps + day + 1 : 2], a * values[1:] + b * values[:-1])
    return values[0]


TORCH_PROGRAMS = {f.__name__: f for f in (soft_dtw, kalman_loglik, nbody_leapfrog, binomial_option)}


def torch_gradient(torch: Any, name: str) -> Callable[[], Result]:
    """The value and the gradients of a program at the problem's arguments."""
    argnums, given = PROBLEMS[name].argnums, PROBLEMS[name].arguments()
    arguments = [torch.tensor(a) if isinstance(a, np.ndarray) else a for a in given]
    for k in argnums:
        arguments[k] = torch.as_tensor(arguments[k], dtype=torch.float64).requires_grad_()
    wanted = [arguments[k] for k in argnums]

    def work() -> Result:
        value = TORCH_PROGRAMS[name](torch, *arguments)
        return value, torch.autograd.grad(value, wanted)

    return work
