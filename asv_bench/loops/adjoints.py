"""Gradients of four of the loops by hand, as somebody writes them who has a day for each: what `jitgrad` is held to.

Each returns (value, gradients...) in one pass forward, which keeps what the way back needs and can't have for less, and
one pass back. Loops are split where that lets the compiler use vectors.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

__all__ = ["ADJOINTS"]


@njit
def _warping_forward(D, gamma):
    """(R[n, m], the weights of the three predecessors of each point). Of R itself one row and one number live."""
    n, m = D.shape
    weights = np.empty((3, n, m))
    above, row = np.full(m, np.inf), np.empty(m)
    corner = 0.0  # R[i, 0], which only the first row has a path from
    for i in range(n):
        both, second = corner, np.inf
        for j in range(m):
            first = above[j]
            least = min(both, first, second)
            a = math.exp((least - both) / gamma)
            b = math.exp((least - first) / gamma)
            c = math.exp((least - second) / gamma)
            total = a + b + c
            share = 1.0 / total
            weights[0, i, j], weights[1, i, j], weights[2, i, j] = a * share, b * share, c * share
            both, second = first, D[i, j] + least - gamma * math.log(total)
            row[j] = second
        above, row, corner = row, above, np.inf
    return above[m - 1], weights


@njit
def soft_dtw(D, gamma):
    """Keeps the weights of the three predecessors, the derivatives of the soft minimum: no exp on the way back."""
    value, weights = _warping_forward(D, gamma)
    n, m = D.shape
    both, first, second = weights[0], weights[1], weights[2]
    E = np.empty((n, m))
    grad = E[n - 1, m - 1] = 1.0
    for j in range(m - 2, -1, -1):
        grad *= second[n - 1, j + 1]
        E[n - 1, j] = grad
    for i in range(n - 2, -1, -1):
        grad = E[i, m - 1] = E[i + 1, m - 1] * first[i + 1, m - 1]
        for j in range(m - 2, -1, -1):
            below = E[i + 1, j + 1] * both[i + 1, j + 1] + E[i + 1, j] * first[i + 1, j]
            grad = below + grad * second[i, j + 1]
            E[i, j] = grad
    return value, E


@njit
def kalman_loglik(y, q_level, q_slope, r, level0, slope0):
    """Keeps four numbers of a step: the miss, the inverse of its variance, two entries of the covariance."""
    n = y.size
    kept = np.empty((n, 4))
    level, slope = level0, slope0
    p00, p01, p11 = 1.0, 0.0, 1.0
    loglik = -0.5 * n * math.log(2.0 * math.pi)
    for t in range(n):
        miss, variance = y[t] - level, p00 + r
        inverse = 1.0 / variance
        kept[t, 0], kept[t, 1], kept[t, 2], kept[t, 3] = miss, inverse, p00, p01
        loglik -= 0.5 * (math.log(variance) + miss * miss * inverse)
        gain0, gain1 = p00 * inverse, p01 * inverse
        slope += gain1 * miss
        level += gain0 * miss + slope
        c00, c01, c11 = p00 - gain0 * p00, p01 - gain0 * p01, p11 - gain1 * p01
        p00, p01, p11 = c00 + 2.0 * c01 + c11 + q_level, c01 + c11, c11 + q_slope
    # The gradients of the variables that the forward names have, at the same place.
    grad_y = np.empty(n)
    grad_q_level = grad_q_slope = grad_r = 0.0
    level = slope = p00 = p01 = p11 = 0.0
    for t in range(n - 1, -1, -1):
        miss, inverse, kept00, kept01 = kept[t, 0], kept[t, 1], kept[t, 2], kept[t, 3]
        gain0, gain1 = kept00 * inverse, kept01 * inverse
        grad_q_level += p00
        grad_q_slope += p11
        c01, c11 = 2.0 * p00 + p01, p00 + p01 + p11  # that of c00 is p00's
        slope += level
        grad_gain0 = level * miss - p00 * kept00 - c01 * kept01
        grad_gain1 = slope * miss - c11 * kept01
        scaled = miss * inverse
        grad_y[t] = level * gain0 + slope * gain1 - scaled
        level -= grad_y[t]
        grad_variance = 0.5 * (scaled * scaled - inverse) - (grad_gain0 * gain0 + grad_gain1 * gain1) * inverse
        grad_r += grad_variance
        p00 = p00 * (1.0 - gain0) + grad_gain0 * inverse + grad_variance
        p01 = c01 * (1.0 - gain0) - c11 * gain1 + grad_gain1 * inverse
        p11 = c11
    return loglik, grad_y, grad_q_level, grad_q_slope, grad_r, level, slope


@njit
def _wave_forward(squares, source, observed, receivers, dt):
    """(misfit, misses, the Laplacians of all times): these are all of the field that the way back reads."""
    rows, columns = squares.shape
    previous, current, following = np.zeros(squares.shape), np.zeros(squares.shape), np.zeros(squares.shape)
    laplacians = np.empty((source.size, rows - 2, columns - 2))
    misses = np.empty(observed.shape)
    misfit = 0.0
    for t in range(source.size):
        for i in range(1, rows - 1):
            for j in range(1, columns - 1):
                laplacian = (
                    current[i - 1, j] + current[i + 1, j] + current[i, j - 1] + current[i, j + 1]
                    - 4.0 * current[i, j]
                )  # fmt: skip
                laplacians[t, i - 1, j - 1] = laplacian
                following[i, j] = 2.0 * current[i, j] - previous[i, j] + squares[i, j] * laplacian
        following[2, columns // 2] += dt * dt * source[t]
        for k in range(receivers.size):
            misses[t, k] = following[2, receivers[k]] - observed[t, k]
            misfit += 0.5 * dt * misses[t, k] * misses[t, k]
        previous, current, following = current, following, previous
    return misfit, misses, laplacians


@njit
def wave2d(c, source, observed, receivers, dt, dx):
    """The adjoint field obeys an equation like that of the field, backwards in time and driven by the misses.

    That of the adjoint times (c dt / dx)^2 is the very same one, for which two time levels are enough. c > 0.
    """
    rows, columns = c.shape
    squares = (c * (dt / dx)) ** 2
    misfit, misses, laplacians = _wave_forward(squares, source, observed, receivers, dt)
    grad_source = np.empty(source.size)
    grad_squares = np.zeros((rows, columns))  # times squares
    later, now = np.zeros((rows, columns)), np.zeros((rows, columns))
    for t in range(source.size - 1, -1, -1):
        for k in range(receivers.size):
            now[2, receivers[k]] += squares[2, receivers[k]] * dt * misses[t, k]
        grad_source[t] = dt * dt * now[2, columns // 2] / squares[2, columns // 2]
        for i in range(1, rows - 1):
            for j in range(1, columns - 1):
                here = now[i, j]
                grad_squares[i, j] += laplacians[t, i - 1, j - 1] * here
                laplacian = now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1] - 4.0 * here
                later[i, j] = 2.0 * here - later[i, j] + squares[i, j] * laplacian
        now, later = later, now
    return misfit, 2.0 * grad_squares / c, grad_source


@njit
def _tree_forward(exercise, a, b, steps):
    """The values of all days, day after day; ``exercise`` of even nodes in row 0 and of odd ones in row 1."""
    values = np.empty((steps + 1) * (steps + 2) // 2)
    last = values[steps * (steps + 1) // 2 :]
    for j in range(steps + 1):
        last[j] = max(exercise[0, j], 0.0)
    for day in range(steps - 1, -1, -1):
        here = values[day * (day + 1) // 2 :]
        ahead = values[(day + 1) * (day + 2) // 2 :]
        given = exercise[(steps - day) % 2, (steps - day) // 2 :]
        for j in range(day + 1):
            here[j] = max(given[j], a * ahead[j + 1] + b * ahead[j])
    return values


@njit
def _tree_backward(values, exercise, a, b, steps):
    """The gradients of exercise, a and b. Sums are taken by node first: additions that don't wait for each other."""
    grad_exercise = np.zeros(exercise.shape)
    sums = np.zeros((2, steps + 1))
    grads, waiting = np.zeros(steps + 2), np.zeros(steps + 3)
    grads[0] = 1.0
    for day in range(steps):
        here = values[day * (day + 1) // 2 :]
        ahead = values[(day + 1) * (day + 2) // 2 :]
        given = exercise[(steps - day) % 2, (steps - day) // 2 :]
        grad_given = grad_exercise[(steps - day) % 2, (steps - day) // 2 :]
        for j in range(day + 1):
            waits = grads[j] if here[j] > given[j] else 0.0
            grad_given[j] += grads[j] - waits
            sums[0, j] += waits * ahead[j + 1]
            sums[1, j] += waits * ahead[j]
            waiting[j + 1] = waits
        for j in range(day + 2):  # waiting[0] and what is behind the day's nodes are zeros
            grads[j] = b * waiting[j + 1] + a * waiting[j]
    last = values[steps * (steps + 1) // 2 :]
    for j in range(steps + 1):
        grad_exercise[0, j] += grads[j] if last[j] > 0.0 else 0.0
    return grad_exercise, sums[0].sum(), sums[1].sum()


@njit
def binomial_option(spot, strike, rate, volatility, maturity, steps):
    """Keeps the values of all days, half a square of steps; the prices' gradients follow from those of exercising."""
    dt = maturity / steps
    root = math.sqrt(dt)
    up, discount = math.exp(volatility * root), math.exp(-rate * dt)
    top, width = 1.0 / discount - 1.0 / up, up - 1.0 / up
    rise = top / width
    a, b = discount * rise, discount * (1.0 - rise)
    exercise = np.empty((2, steps + 1))
    price = spot * up ** (-steps)
    for i in range(2 * steps + 1):
        exercise[i % 2, i // 2] = strike - price
        price *= up
    exercise[1, steps] = 0.0  # there is one odd node less
    values = _tree_forward(exercise, a, b, steps)
    grad_exercise, grad_a, grad_b = _tree_backward(values, exercise, a, b, steps)
    grad_strike = grad_spot = grad_up = 0.0
    for i in range(2 * steps + 1):
        grad = grad_exercise[i % 2, i // 2]
        price = strike - exercise[i % 2, i // 2]
        grad_strike += grad
        grad_spot -= grad * price / spot
        grad_up -= grad * price * (i - steps) / up
    grad_rise = discount * (grad_a - grad_b)
    grad_discount = grad_a * rise + grad_b * (1.0 - rise) - grad_rise / (width * discount * discount)
    grad_up += grad_rise / width / (up * up) - grad_rise * rise / width * (1.0 + 1.0 / (up * up))
    grad_exponent = grad_up * up  # of volatility * root
    grad_dt = grad_exponent * volatility * 0.5 / root - grad_discount * discount * rate
    return (
        values[0], grad_spot, grad_strike, -grad_discount * discount * dt, grad_exponent * root, grad_dt / steps,
    )  # fmt: skip


ADJOINTS = {f.__name__: f for f in (soft_dtw, kalman_loglik, wave2d, binomial_option)}
