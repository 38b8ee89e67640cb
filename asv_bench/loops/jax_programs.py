"""Four of the loops as users of JAX write them, `jax.lax.scan` under `jax.jit`: plainly, and tuned to run fast.

Each function takes the module jax and the example's arguments. What tuning has to offer is a rule that XLA's loops on a
CPU reward: a custom derivative, recomputing instead of keeping (`jax.checkpoint`), logarithms taken behind the scan.
Writing the body of a scan out twice or more (``unroll``) gains nothing here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .problems import PROBLEMS, Result

__all__ = ["PLAIN", "TUNED", "jax_gradient"]

FAR = 1e10  # a cost that no path takes; infinity would make gradients NaN
Softmin = Callable[[Any, Any, Any], Any]


# -- soft_dtw ---------------------------------------------------------------------------------------


def _warping(jax: Any, D: Any, softmin: Softmin) -> Any:
    """A scan over anti-diagonals, whose points do not depend on each other; softmin is that of three.

    A diagonal holds R[i, k - i] at i. The costs are sheared once, so that each diagonal is a row.
    """
    np = jax.numpy
    n, m = D.shape
    sheared = np.pad(D, ((0, 0), (0, n)), constant_values=FAR).reshape(-1)[: n * (m + n - 1)]

    def step(carry: Any, costs: Any) -> Any:
        both, last = carry  # the last diagonal but one, moved on by a row; the last one
        first = np.concatenate((np.full(1, FAR), last[:-1]))
        return (first, costs + softmin(both, first, last)), None

    start = np.full(n, FAR).at[0].set(0.0), np.full(n, FAR)
    (_, last), _ = jax.lax.scan(step, start, sheared.reshape(n, m + n - 1).T)
    return last[n - 1]


def _softmin_and_weights(jax: Any, gamma: float) -> Callable[..., tuple[Any, tuple[Any, Any, Any]]]:
    """The soft minimum of three, and its derivatives."""
    np = jax.numpy

    def both(a: Any, b: Any, c: Any) -> Any:
        least = jax.lax.stop_gradient(np.minimum(np.minimum(a, b), c))  # whatever it is, the result is the same
        exps = np.exp((least - a) / gamma), np.exp((least - b) / gamma), np.exp((least - c) / gamma)
        total = exps[0] + exps[1] + exps[2]
        return least - gamma * np.log(total), (exps[0] / total, exps[1] / total, exps[2] / total)

    return both


def plain_soft_dtw(jax: Any, D: Any, gamma: float) -> Any:
    """Differentiated by JAX."""
    both = _softmin_and_weights(jax, gamma)
    return _warping(jax, D, lambda *of: both(*of)[0])


def tuned_soft_dtw(jax: Any, D: Any, gamma: float) -> Any:
    """With a derivative by hand: the weights are kept, and nothing else."""
    both = _softmin_and_weights(jax, gamma)
    softmin = jax.custom_vjp(lambda *of: both(*of)[0])
    softmin.defvjp(both, lambda weights, g: tuple(w * g for w in weights))
    return _warping(jax, D, softmin)


# -- kalman_loglik ----------------------------------------------------------------------------------


def _kalman_step(state: Any, value: Any, q_level: Any, q_slope: Any, r: Any) -> Any:
    """(the next state, (miss, variance)): Python alone, so that it needs no module."""
    level, slope, p00, p01, p11 = state
    miss, variance = value - level, p00 + r
    gain0, gain1 = p00 / variance, p01 / variance
    slope = slope + gain1 * miss
    level = level + gain0 * miss + slope
    c00, c01, c11 = p00 - gain0 * p00, p01 - gain0 * p01, p11 - gain1 * p01
    return (level, slope, c00 + 2.0 * c01 + c11 + q_level, c01 + c11, c11 + q_slope), (miss, variance)


def _kalman_start(jax: Any, level0: Any, slope0: Any) -> Any:
    return level0, slope0, jax.numpy.array(1.0), jax.numpy.array(0.0), jax.numpy.array(1.0)


def plain_kalman_loglik(jax: Any, y: Any, q_level: Any, q_slope: Any, r: Any, level0: Any, slope0: Any) -> Any:
    """The likelihood is carried along."""
    np = jax.numpy

    def step(carry: Any, value: Any) -> Any:
        state, loglik = carry
        state, (miss, variance) = _kalman_step(state, value, q_level, q_slope, r)
        return (state, loglik - 0.5 * (np.log(2.0 * math.pi * variance) + miss * miss / variance)), None

    (_, loglik), _ = jax.lax.scan(step, (_kalman_start(jax, level0, slope0), np.array(0.0)), y)
    return loglik


def tuned_kalman_loglik(jax: Any, y: Any, q_level: Any, q_slope: Any, r: Any, level0: Any, slope0: Any) -> Any:
    """The likelihood is summed behind the scan, by vectors; XLA makes one compiled loop of what is left of it."""
    step = lambda state, value: _kalman_step(state, value, q_level, q_slope, r)
    _, (miss, variance) = jax.lax.scan(step, _kalman_start(jax, level0, slope0), y)
    return -0.5 * (jax.numpy.log(2.0 * math.pi * variance) + miss * miss / variance).sum()


# -- nbody_leapfrog ---------------------------------------------------------------------------------


def _orbits(
    jax: Any, tuned: bool, x0: Any, v0: Any, m: Any, dt: float, steps: int, observed: Any
) -> Any:  # fmt: skip
    """A scan over steps, all pairs of bodies at once. Coordinates come first: pairs are what vectors are made of."""
    np = jax.numpy

    def acceleration(x: Any) -> Any:
        d = x[:, None, :] - x[:, :, None]
        square = (d * d).sum(0) + 0.01
        return (m / (square * np.sqrt(square)) * d).sum(2)

    def step(state: Any, _: Any) -> Any:
        x, v = state
        v = v + dt * acceleration(x)
        return (x + dt * v, v), None

    v = v0.T + 0.5 * dt * acceleration(x0.T)
    body = jax.checkpoint(step) if tuned else step
    (x, _), _ = jax.lax.scan(body, (x0.T + dt * v, v), None, length=steps - 1)
    return ((x.T - observed) ** 2).sum()


def plain_nbody_leapfrog(jax: Any, *given: Any) -> Any:
    """Keeps what pairs have computed."""
    return _orbits(jax, False, *given)


def tuned_nbody_leapfrog(jax: Any, *given: Any) -> Any:
    """Keeps positions and velocities, and computes pairs again on the way back."""
    return _orbits(jax, True, *given)


# -- binomial_option --------------------------------------------------------------------------------


def _tree(jax: Any, spot: Any, rate: Any, volatility: Any, maturity: Any, steps: int) -> Any:
    """(up, the weights of a node's two successors, the last day's prices)."""
    np = jax.numpy
    dt = maturity / steps
    up, discount = np.exp(volatility * np.sqrt(dt)), np.exp(-rate * dt)
    rise = (1.0 / discount - 1.0 / up) / (up - 1.0 / up)
    prices = spot * np.exp(np.log(up) * np.arange(-steps, steps + 1, 2))
    return up, discount * rise, discount * (1.0 - rise), prices


def plain_binomial_option(
    jax: Any, spot: Any, strike: Any, rate: Any, volatility: Any, maturity: Any, steps: int
) -> Any:  # fmt: skip
    """A scan over days, on arrays of one length: nodes behind a day's last one are never read by those before it."""
    np = jax.numpy
    up, a, b, prices = _tree(jax, spot, rate, volatility, maturity, steps)

    def step(state: Any, _: Any) -> Any:
        values, prices = state
        prices = prices * up
        return (np.maximum(strike - prices, a * np.roll(values, -1) + b * values), prices), None

    (values, _), _ = jax.lax.scan(step, (np.maximum(strike - prices, 0.0), prices), None, length=steps)
    return values[0]


def tuned_binomial_option(
    jax: Any, spot: Any, strike: Any, rate: Any, volatility: Any, maturity: Any, steps: int
) -> Any:  # fmt: skip
    """Prices follow from the last day's, so that values are all that is carried; the rest is computed again."""
    np = jax.numpy
    up, a, b, prices = _tree(jax, spot, rate, volatility, maturity, steps)

    @jax.checkpoint
    def step(values: Any, growth: Any) -> Any:
        ahead = np.concatenate((values[1:], values[:1]))
        return np.maximum(strike - prices * growth, a * ahead + b * values), None

    growths = np.exp(np.log(up) * np.arange(1, steps + 1))
    values, _ = jax.lax.scan(step, np.maximum(strike - prices, 0.0), growths)
    return values[0]


PLAIN = {
    "soft_dtw": plain_soft_dtw, "kalman_loglik": plain_kalman_loglik, "nbody_leapfrog": plain_nbody_leapfrog,
    "binomial_option": plain_binomial_option,
}  # fmt: skip
TUNED = {
    "soft_dtw": tuned_soft_dtw, "kalman_loglik": tuned_kalman_loglik, "nbody_leapfrog": tuned_nbody_leapfrog,
    "binomial_option": tuned_binomial_option,
}  # fmt: skip
# Arguments that sizes depend on: compiled for each.
STATIC = {"nbody_leapfrog": (4,), "binomial_option": (5,)}


def jax_gradient(jax: Any, programs: dict[str, Callable[..., Any]], name: str) -> Callable[[], Result]:
    """The value and the gradients of a program at the problem's arguments, compiled."""
    problem, static = PROBLEMS[name], STATIC.get(name, ())
    program = lambda *given: programs[name](jax, *given)
    compiled = jax.jit(jax.value_and_grad(program, problem.argnums), static_argnums=static)
    given = [a if k in static else jax.numpy.asarray(a) for k, a in enumerate(problem.arguments())]
    return lambda: compiled(*given)
