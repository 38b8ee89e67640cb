"""Ten loops from science, finance and signal processing, as their users write them for ``numba.njit``.

Nothing here knows of derivatives or of jitgrad: the functions are what is differentiated, tested and timed. `EXAMPLES`
says of each which arguments have gradients, and two sizes; `example_arguments` makes arguments of a size.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

__all__ = ["EXAMPLES", "Example", "example_arguments"]


# -- alignments -------------------------------------------------------------------------------------


def soft_dtw(D, gamma):
    """Soft dynamic time warping of two series whose points are ``D`` (n x m) apart: the cost of the best alignment.

    R[i, j] = D[i, j] + softmin(R[i-1, j-1], R[i-1, j], R[i, j-1]), softmin(x) = -gamma log(sum(exp(-x / gamma)));
    returns R[n, m]. gamma > 0, in the unit of D: how soft the minimum is.
    """
    n, m = D.shape
    R = np.full((n + 1, m + 1), np.inf)  # a border that no path comes from
    R[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            both, first, second = R[i - 1, j - 1], R[i - 1, j], R[i, j - 1]
            least = min(both, first, second)  # finite: one of the three always has a path
            total = math.exp((least - both) / gamma) + math.exp((least - first) / gamma)
            total += math.exp((least - second) / gamma)
            R[i, j] = D[i - 1, j - 1] + least - gamma * math.log(total)
    return R[n, m]


def ctc_loss(log_probs, targets, blank=0):
    """Connectionist temporal classification: -log of the probability of all paths that spell ``targets``.

    log_probs: (T, C), log-probabilities of C symbols in each of T frames. targets: (L,), integers that are not
    ``blank``. A path visits 2 L + 1 states, the targets with blanks around them: it stays, goes on by one, or by two
    where that skips a blank between different symbols.
    """
    frames = log_probs.shape[0]
    states = 2 * targets.size + 1
    alpha = np.full((frames, states), -np.inf)
    alpha[0, 0] = log_probs[0, blank]
    alpha[0, 1] = log_probs[0, targets[0]]
    for t in range(1, frames):
        for s in range(states):
            symbol = blank if s % 2 == 0 else targets[s // 2]
            stay = alpha[t - 1, s]
            step = alpha[t - 1, s - 1] if s > 0 else -np.inf
            skip = -np.inf
            if s % 2 == 1 and s > 1 and targets[s // 2] != targets[s // 2 - 1]:
                skip = alpha[t - 1, s - 2]
            most = max(stay, step, skip)
            if most > -np.inf:  # else no path is here yet
                total = math.exp(stay - most) + math.exp(step - most) + math.exp(skip - most)
                alpha[t, s] = most + math.log(total) + log_probs[t, symbol]
    a, b = alpha[frames - 1, states - 1], alpha[frames - 1, states - 2]
    most = max(a, b)
    return -(most + math.log(math.exp(a - most) + math.exp(b - most)))


def soft_needleman_wunsch(S, gap, temperature):
    """Soft global alignment score of two sequences whose letters match by ``S`` (n x m); ``gap`` is the cost of a gap.

    V[i, j] = softmax(V[i-1, j-1] + S[i, j], V[i-1, j] - gap, V[i, j-1] - gap),
    softmax(x) = temperature log(sum(exp(x / temperature))); returns V[n, m].
    """
    n, m = S.shape
    V = np.zeros((n + 1, m + 1))
    for i in range(1, n + 1):
        V[i, 0] = -gap * i
    for j in range(1, m + 1):
        V[0, j] = -gap * j
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            match = V[i - 1, j - 1] + S[i - 1, j - 1]
            delete = V[i - 1, j] - gap
            insert = V[i, j - 1] - gap
            most = max(match, max(delete, insert))
            total = (
                math.exp((match - most) / temperature)
                + math.exp((delete - most) / temperature)
                + math.exp((insert - most) / temperature)
            )
            V[i, j] = most + temperature * math.log(total)
    return V[n, m]


# -- time series ------------------------------------------------------------------------------------


def kalman_loglik(y, q_level, q_slope, r, level0, slope0):
    """Log-likelihood of ``y`` (n,) in the local linear trend model, by a Kalman filter of two states.

    y[t] = level[t] + N(0, r), level[t+1] = level[t] + slope[t] + N(0, q_level), slope[t+1] = slope[t] + N(0, q_slope).
    The first state is (level0, slope0) with unit variances. The covariance is symmetric: three numbers.
    """
    level, slope = level0, slope0
    p00, p01, p11 = 1.0, 0.0, 1.0
    loglik = -0.5 * y.size * math.log(2.0 * math.pi)
    for t in range(y.size):
        miss = y[t] - level
        variance = p00 + r
        loglik -= 0.5 * (math.log(variance) + miss * miss / variance)
        # What the observation tells of both states.
        gain0, gain1 = p00 / variance, p01 / variance
        level += gain0 * miss
        slope += gain1 * miss
        c00 = p00 - gain0 * p00
        c01 = p01 - gain0 * p01
        c11 = p11 - gain1 * p01
        # A step in time.
        level += slope
        p00 = c00 + 2.0 * c01 + c11 + q_level
        p01 = c01 + c11
        p11 = c11 + q_slope
    return loglik


def hmm_loglik(log_start, log_transition, log_emission, observations):
    """Log-likelihood of ``observations`` (n integers) in a hidden Markov model, by the forward algorithm.

    log_start: (K,). log_transition: (K, K), from row to column. log_emission: (K, M), of M symbols in each state.
    """
    K = log_start.size
    alpha = np.empty(K)
    following = np.empty(K)
    for k in range(K):
        alpha[k] = log_start[k] + log_emission[k, observations[0]]
    for t in range(1, observations.size):
        for k in range(K):
            most = -np.inf
            for i in range(K):
                most = max(most, alpha[i] + log_transition[i, k])
            total = 0.0
            for i in range(K):
                total += math.exp(alpha[i] + log_transition[i, k] - most)
            following[k] = most + math.log(total) + log_emission[k, observations[t]]
        alpha, following = following, alpha
    most = alpha.max()
    total = 0.0
    for k in range(K):
        total += math.exp(alpha[k] - most)
    return most + math.log(total)


def garch_loglik(returns, omega, alpha, beta):
    """Negative log-likelihood of ``returns`` (n,) in a GARCH(1, 1) model with normal innovations.

    variance[t+1] = omega + alpha returns[t]^2 + beta variance[t]; the first is the stationary one,
    omega / (1 - alpha - beta).
    """
    variance = omega / (1.0 - alpha - beta)
    total = 0.0
    for t in range(len(returns)):
        square = returns[t] ** 2
        total += 0.5 * (math.log(2.0 * math.pi * variance) + square / variance)
        variance = omega + alpha * square + beta * variance
    return total


# -- simulations ------------------------------------------------------------------------------------


def nbody_leapfrog(x0, v0, m, dt, steps):
    """Positions (n, 3) of bodies that attract each other, after ``steps`` of ``dt`` from ``x0`` with velocities ``v0``.

    Kick, drift, kick: half a step of velocity, a step of position, half a step of velocity. Units in which G = 1; the
    force m_i m_j d / (d.d + 0.01)^1.5 is softened, since bodies of a simulation may meet.
    """
    n = x0.shape[0]
    x, v = x0.copy(), v0.copy()
    a = np.zeros((n, 3))
    for step in range(steps + 1):
        for i in range(n):
            for k in range(3):
                a[i, k] = 0.0
        for i in range(n):
            for j in range(i):  # each pair once: action and reaction
                dx, dy, dz = x[j, 0] - x[i, 0], x[j, 1] - x[i, 1], x[j, 2] - x[i, 2]
                square = dx * dx + dy * dy + dz * dz + 0.01
                pull = 1.0 / (square * math.sqrt(square))
                a[i, 0] += m[j] * pull * dx
                a[i, 1] += m[j] * pull * dy
                a[i, 2] += m[j] * pull * dz
                a[j, 0] -= m[i] * pull * dx
                a[j, 1] -= m[i] * pull * dy
                a[j, 2] -= m[i] * pull * dz
        # The last kick of a step and the first of the next have the same acceleration: they are one.
        kick = 0.5 * dt if step == 0 or step == steps else dt
        for i in range(n):
            for k in range(3):
                v[i, k] += kick * a[i, k]
                if step < steps:
                    x[i, k] += dt * v[i, k]
    return x


def wave2d(c, source, observed, receivers, dt, dx):
    """Misfit of a seismogram: a pulse travels in a medium, 0.5 dt sum((pressure - observed)^2) at the receivers.

    The scalar wave equation u_tt = c^2 (u_xx + u_yy) + source, by central differences; u = 0 on the rim. c: (rows,
    columns), m/s. source: (nt,), at the middle of row 2. observed: (nt, k), pressure of ``receivers`` (k,), which are
    columns of row 2. dt in seconds, dx in metres; stable while c dt / dx < 0.7.
    """
    rows, columns = c.shape
    previous = np.zeros((rows, columns))
    current = np.zeros((rows, columns))
    following = np.zeros((rows, columns))
    scale = dt / dx
    misfit = 0.0
    for t in range(source.size):
        for i in range(1, rows - 1):
            for j in range(1, columns - 1):
                courant = c[i, j] * scale
                laplacian = (
                    current[i - 1, j] + current[i + 1, j] + current[i, j - 1] + current[i, j + 1]
                    - 4.0 * current[i, j]
                )  # fmt: skip
                following[i, j] = 2.0 * current[i, j] - previous[i, j] + courant * courant * laplacian
        following[2, columns // 2] += dt * dt * source[t]
        for k in range(receivers.size):
            miss = following[2, receivers[k]] - observed[t, k]
            misfit += 0.5 * dt * miss * miss
        previous, current, following = current, following, previous
    return misfit


def spring_mass(positions0, stiffness, rest, damping, mass, dt, steps, observed):
    """Squared error of a chain of masses between two walls against an ``observed`` trajectory (steps, n), m^2.

    positions0: (n,), m, from rest. stiffness: (n + 1,), N/m, of the springs from wall to wall, each ``rest`` m long
    without load; damping, kg/s; mass, kg. Symplectic Euler: velocities first, positions with the new velocities.
    """
    n = positions0.size
    x = np.empty(n)
    v = np.zeros(n)
    x[:] = positions0
    wall = (n + 1) * rest
    error = 0.0
    for t in range(steps):
        for i in range(n):
            left = x[i - 1] if i > 0 else 0.0
            right = x[i + 1] if i < n - 1 else wall
            force = stiffness[i + 1] * (right - x[i] - rest) - stiffness[i] * (x[i] - left - rest)
            v[i] += dt * (force - damping * v[i]) / mass
        for i in range(n):
            x[i] += dt * v[i]
            error += (x[i] - observed[t, i]) ** 2
    return error


# -- finance ----------------------------------------------------------------------------------------


def binomial_option(spot, strike, rate, volatility, maturity, steps):
    """Price of an American put by the binomial tree of Cox, Ross and Rubinstein, in the unit of ``spot``.

    rate and volatility: per year and per square root of a year; maturity: years. From the last day back, a node is
    worth what exercising gives or what waiting is worth, discounted; one array holds a day, overwritten in place.
    """
    dt = maturity / steps
    up = math.exp(volatility * math.sqrt(dt))
    discount = math.exp(-rate * dt)
    rise = (1.0 / discount - 1.0 / up) / (up - 1.0 / up)  # the risk-neutral probability of going up
    a, b = discount * rise, discount * (1.0 - rise)
    exercise = np.empty(2 * steps + 1)  # strike less the prices spot * up^-steps ... spot * up^steps
    price = spot * up ** (-steps)
    for i in range(2 * steps + 1):
        exercise[i] = strike - price
        price *= up
    values = np.empty(steps + 1)
    for j in range(steps + 1):
        values[j] = max(exercise[2 * j], 0.0)
    for day in range(steps - 1, -1, -1):
        for j in range(day + 1):
            values[j] = max(exercise[steps - day + 2 * j], a * values[j + 1] + b * values[j])
    return values[0]


# -- their arguments --------------------------------------------------------------------------------


def _of_soft_dtw(size, rng):
    x, y = rng.standard_normal(size).cumsum() / 4, rng.standard_normal(size).cumsum() / 4
    return (x[:, None] - y) ** 2, 0.5


def _of_ctc_loss(size, rng):
    logits = rng.standard_normal((size, 20))
    log_probs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    return log_probs, rng.integers(1, 20, max(2, size // 4)), 0


def _of_needleman_wunsch(size, rng):
    first, second = rng.integers(0, 4, size), rng.integers(0, 4, size)
    return np.where(first[:, None] == second, 2.0, -1.0) + 0.1 * rng.standard_normal((size, size)), 1.5, 0.7


def _of_kalman_loglik(size, rng):
    slope = 0.1 * rng.standard_normal(size).cumsum()
    return (0.1 * slope).cumsum() + rng.standard_normal(size), 0.05, 0.01, 1.0, 0.1, 0.0


def _of_hmm_loglik(size, rng, states=8, symbols=12):
    start, transition, emission = (rng.random(s) + 0.1 for s in (states, (states, states), (states, symbols)))
    logs = [np.log(p / p.sum(-1, keepdims=True)) for p in (start, transition, emission)]
    return *logs, rng.integers(0, symbols, size)


def _of_garch_loglik(size, rng):
    return rng.standard_normal(size) * (1.0 + 0.5 * np.sin(np.arange(size) / 30.0)), 0.1, 0.15, 0.75


def _of_nbody_leapfrog(size, rng):
    return rng.standard_normal((size, 3)), 0.2 * rng.standard_normal((size, 3)), rng.random(size) / size, 0.02, 3 * size


def _of_wave2d(size, rng):
    nt, dt = 3 * size // 2, 0.002
    time = math.pi * 12.0 * (np.arange(nt) * dt - 0.05)  # a Ricker pulse of 12 Hz
    c = 1500.0 + 500.0 * np.linspace(0.0, 1.0, size)[:, None] + 20.0 * rng.standard_normal((size, size))
    receivers = np.arange(1, size - 1, max(1, size // 16))
    observed = 0.1 * rng.standard_normal((nt, receivers.size))
    return c, 1e5 * (1.0 - 2.0 * time**2) * np.exp(-(time**2)), observed, receivers, dt, 10.0


def _of_spring_mass(size, rng):
    places, steps = np.arange(1.0, size + 1), 10 * size
    observed = places + 0.1 * rng.standard_normal((steps, size))
    return places + 0.2 * rng.standard_normal(size), 5.0 + rng.random(size + 1), 1.0, 0.3, 1.2, 0.02, steps, observed


def _of_binomial_option(size, rng):
    return 100.0 + rng.random(), 105.0, 0.04, 0.25, 1.5, size


class Example(NamedTuple):
    """A function, which arguments it is differentiated by, and sizes.

    small: for tests; large: for the figures. arguments: from a size and NumPy's generator of random numbers.
    """

    function: Callable[..., Any]
    argnums: tuple[int, ...]
    small: int
    large: int
    arguments: Callable[[int, np.random.Generator], tuple]


EXAMPLES = {
    example.function.__name__: example
    for example in (
        # Not by gamma: exp(-inf / gamma) at the border has the derivative 0 * inf.
        Example(soft_dtw, (0,), 6, 512, _of_soft_dtw),
        Example(ctc_loss, (0,), 12, 200, _of_ctc_loss),
        Example(soft_needleman_wunsch, (0, 1, 2), 6, 256, _of_needleman_wunsch),
        Example(kalman_loglik, (0, 1, 2, 3, 4, 5), 20, 10_000, _of_kalman_loglik),
        Example(nbody_leapfrog, (0, 1, 2), 4, 32, _of_nbody_leapfrog),
        Example(wave2d, (0, 1), 12, 100, _of_wave2d),
        Example(binomial_option, (0, 1, 2, 3, 4), 8, 1_000, _of_binomial_option),
        Example(hmm_loglik, (0, 1, 2), 10, 1_000, _of_hmm_loglik),
        Example(spring_mass, (0, 1, 2, 3, 4), 5, 64, _of_spring_mass),
        Example(garch_loglik, (1, 2, 3), 30, 10_000, _of_garch_loglik),
    )
}


def example_arguments(name, size=None, seed=0):
    """The arguments of an example, by default of its small size; the same numbers for the same seed."""
    example = EXAMPLES[name]
    return example.arguments(size or example.small, np.random.default_rng(seed))
