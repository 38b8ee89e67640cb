"""Ten loops from science and finance: their gradients, however asked for, and what is known of them beforehand.

The first half compares: values with the function as plain Python, gradients with differences and with each other. The
second half knows answers: a posterior sums to one, an option has its Greeks, a spring is found from its trajectory.
"""

import itertools
import math
from functools import cache

import numpy as np
import pytest

import jitgrad as torch
from jitgrad import differentiable, numba_grad
from jitgrad.autograd import gradcheck, gradgradcheck

from .loop_examples import (
    EXAMPLES,
    binomial_option,
    ctc_loss,
    example_arguments,
    garch_loglik,
    hmm_loglik,
    kalman_loglik,
    nbody_leapfrog,
    soft_dtw,
    soft_needleman_wunsch,
    spring_mass,
    wave2d,
)  # fmt: skip

NAMES = list(EXAMPLES)


@cache
def op_of(name):
    """One op for all tests: what it derives it compiles once."""
    return differentiable(EXAMPLES[name].function)


@cache
def gradient_of(function, argnums=0, value=False):
    """numba_grad of an example; the op's derivations are shared."""
    return numba_grad(op_of(function.__name__), argnums, value=value)


def op_and_inputs(name, seed=0, places=None):
    """The example as an op of what it is differentiated by, and these arguments as tensors that require grad."""
    given, places, f = example_arguments(name, seed=seed), places or EXAMPLES[name].argnums, op_of(name)
    constants = [torch.tensor(v) if isinstance(v, np.ndarray) else v for v in given]  # arrays do, too, but to compile

    def op(*inputs):
        arguments = list(constants)
        for place, x in zip(places, inputs):
            arguments[place] = x
        return f(*arguments)

    return op, [torch.tensor(given[k], dtype=torch.float64, requires_grad=True) for k in places]


def directions(inputs, seed=7):
    rng = np.random.default_rng(seed)
    return [torch.tensor(rng.standard_normal(x.shape), dtype=torch.float64) for x in inputs]


def close(a, b, rtol=1e-10, atol=1e-12):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=atol)


# -- the same, however asked for --------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_values_are_those_of_the_function(name):
    given = example_arguments(name)
    expected = EXAMPLES[name].function(*given)
    close(op_of(name)(*given), expected, rtol=1e-13)
    op, inputs = op_and_inputs(name)
    found = op(*inputs)
    close(found.detach(), expected, rtol=1e-13)
    assert found.requires_grad and found.shape == np.shape(expected)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_those_of_differences(name):
    op, inputs = op_and_inputs(name)
    assert gradcheck(op, inputs)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "nbody_leapfrog"])
def test_numba_grad_is_the_gradient_of_the_op(name):
    op, inputs = op_and_inputs(name, seed=1)
    result = op(*inputs)
    expected = torch.autograd.grad(result, inputs)
    argnums = EXAMPLES[name].argnums
    value, *found = numba_grad(op_of(name), argnums, value=True)(*example_arguments(name, seed=1))
    close(value, result.detach(), rtol=1e-13)
    for f, e, x in zip(found, expected, inputs, strict=True):
        assert isinstance(f, np.ndarray) if x.ndim else isinstance(f, float)
        close(f, e)


def energy(x, keep):
    total = 0.0
    for t in range(x.size):
        total = keep * total + x[t] ** 2
    return total


def test_the_value_beside_a_gradient_is_the_result():
    # The way back puts old values of ``total`` back: it is not the result any more when both are returned.
    value, by_x, by_keep = numba_grad(energy, (0, 1), value=True)(np.array([1.0, -2.0, 3.0]), 0.5)
    assert value == 11.25 and by_keep == 5.0
    close(by_x, [0.5, -2.0, 6.0])


def test_the_adjoint_takes_seeds_where_a_function_returns_an_array():
    op, inputs = op_and_inputs("nbody_leapfrog", seed=1)
    result = op(*inputs)
    (seed,) = directions([result])
    given = example_arguments("nbody_leapfrog", seed=1)
    found = op_of("nbody_leapfrog").adjoint(*given, seed.numpy())  # by x0, v0, m, dt: all floats
    for f, e in zip(found, torch.autograd.grad(result, inputs, seed)):
        close(f, e)
    with pytest.raises(TypeError, match="must return one float"):
        numba_grad(nbody_leapfrog)(*given)


def tangent_of(name, seed, along):
    """(value, tangent) by f.tangent, which takes a direction for each float, zeros for what counts as constant here.

    Some of these are arrays without dims, which count as the numbers that they hold.
    """
    given = example_arguments(name, seed=seed)
    by_place = {k: v.numpy() if v.ndim else v.item() for k, v in zip(EXAMPLES[name].argnums, along)}
    floats = [k for k, v in enumerate(given) if np.asarray(v).dtype.kind == "f"]
    return op_of(name).tangent(*given, *(by_place.get(k, np.zeros_like(given[k])) for k in floats))


@pytest.mark.parametrize("name", [n for n in NAMES if n != "soft_dtw"])  # which has no derivative by gamma
def test_tangents_fit_gradients(name):
    op, inputs = op_and_inputs(name, seed=2)
    along = directions(inputs)
    value, tangent = tangent_of(name, 2, along)
    result = op(*inputs)
    close(value, result.detach(), rtol=1e-13)
    (weight,) = directions([result], seed=8)  # w . (J v) is (w J) . v
    gradients = torch.autograd.grad(result, inputs, weight)
    close((weight.numpy() * tangent).sum(), sum((g * v).sum() for g, v in zip(gradients, along)), rtol=1e-9)


@pytest.mark.parametrize("name", ["soft_dtw", "garch_loglik"])
def test_forward_mode(name):
    op, inputs = op_and_inputs(name, seed=2)
    along = directions(inputs)
    result, tangent = torch.func.jvp(op, tuple(x.detach() for x in inputs), tuple(along))
    gradients = torch.autograd.grad(op(*inputs), inputs)
    close(tangent, sum((g * v).sum() for g, v in zip(gradients, along)))
    if name != "soft_dtw":
        for found, expected in zip((result, tangent), tangent_of(name, 2, along), strict=True):
            close(found, expected)


@pytest.mark.parametrize("name, places", [("soft_dtw", (0,)), ("kalman_loglik", (1, 3)), ("garch_loglik", (1, 2, 3))])
def test_second_derivatives_are_those_of_differences(name, places):
    op, inputs = op_and_inputs(name, places=places)
    assert gradgradcheck(op, inputs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["ctc_loss", "kalman_loglik", "garch_loglik"])
def test_in_a_compiled_function(name):
    op, inputs = op_and_inputs(name)

    def step(*inputs):
        result = op(*inputs)
        return result, *torch.autograd.grad(result.sum(), inputs)

    compiled = torch.compile(step, fullgraph=True)
    for factor in (1.0, 1.01, 0.99):
        now = [(x.detach() * factor).requires_grad_() for x in inputs]
        for found, expected in zip(compiled(*now), step(*now), strict=True):
            close(found.detach(), expected.detach())
    assert "1 recording" in str(compiled.explain())


# -- alignments -------------------------------------------------------------------------------------


def paths_of_ctc(log_probs, targets, blank=0):
    """Probability of ``targets``, and the posterior (frames, symbols), from all paths one by one."""
    frames, symbols = log_probs.shape
    total, posterior = 0.0, np.zeros(log_probs.shape)
    for path in itertools.product(range(symbols), repeat=frames):
        spelled = [s for s, _ in itertools.groupby(path) if s != blank]
        if spelled == list(targets):
            p = math.exp(sum(log_probs[t, s] for t, s in enumerate(path)))
            total += p
            posterior[range(frames), path] += p
    return total, posterior / total


@pytest.mark.parametrize("targets", [(1, 2), (2, 2), (1,)])
def test_gradient_of_ctc_is_softmax_less_posterior(targets):
    logits = torch.tensor(np.random.default_rng(3).standard_normal((5, 3)), requires_grad=True)
    loss = op_of("ctc_loss")(logits.log_softmax(1), np.array(targets), 0)
    loss.backward()
    probs = logits.detach().softmax(1).numpy()
    total, posterior = paths_of_ctc(np.log(probs), targets)
    assert loss.item() == pytest.approx(-math.log(total), rel=1e-12)
    close(logits.grad, probs - posterior)
    by_log_probs = gradient_of(ctc_loss)(np.log(probs), np.array(targets))  # the blank is 0 unless said otherwise
    close(by_log_probs, -posterior)


def hard_alignment(D):
    """Cost and path (n, m) of the best alignment."""
    n, m = D.shape
    R = np.full((n + 1, m + 1), np.inf)
    R[0, 0] = 0.0
    for i, j in np.ndindex(n, m):
        R[i + 1, j + 1] = D[i, j] + min(R[i, j], R[i, j + 1], R[i + 1, j])
    path, i, j = np.zeros((n, m)), n, m
    while i:
        path[i - 1, j - 1] = 1.0
        _, i, j = min((R[a, b], a, b) for a, b in ((i - 1, j - 1), (i - 1, j), (i, j - 1)))
    return R[n, m], path


def test_gradient_of_soft_dtw_is_an_alignment():
    D, _ = example_arguments("soft_dtw", 15, seed=1)
    alignment = gradient_of(soft_dtw)(D, 0.3)  # how likely each pair is on the path
    assert alignment.min() >= 0 and alignment.max() <= 1 + 1e-12
    assert alignment[0, 0] == pytest.approx(1) and alignment[-1, -1] == pytest.approx(1)
    assert (alignment.sum(0) > 1 - 1e-12).all() and (alignment.sum(1) > 1 - 1e-12).all()  # no point is left out
    cost, path = hard_alignment(D)
    value, sharp = gradient_of(soft_dtw, (0,), True)(D, 1e-5)
    assert value == pytest.approx(cost, abs=1e-4)
    close(sharp, path, atol=1e-6)


def test_gradient_of_needleman_wunsch_counts_matches_and_gaps():
    S, gap, temperature = example_arguments("soft_needleman_wunsch", 12, seed=1)
    S = S[:, :9]
    matches, by_gap = gradient_of(soft_needleman_wunsch, (0, 1))(S, gap, temperature)
    assert matches.min() >= 0 and matches.sum(0).max() <= 1 + 1e-12 and matches.sum(1).max() <= 1 + 1e-12
    assert -by_gap == pytest.approx(12 + 9 - 2 * matches.sum())  # a letter is matched or faces a gap


# -- time series ------------------------------------------------------------------------------------


def test_kalman_filter_is_the_density_of_a_normal_vector():
    given = y, q_level, q_slope, r, level0, slope0 = example_arguments("kalman_loglik", 12, seed=1)
    n = y.size
    steps = np.arange(n)
    age = np.clip(steps[:, None] - steps - 1, -1, None)  # of a disturbance when y[t] is seen; -1: yet to come
    level, slope = (age >= 0) * 1.0, np.maximum(age, 0)
    covariance = r * np.eye(n) + q_level * level @ level.T + q_slope * slope @ slope.T
    covariance += 1.0 + np.outer(steps, steps)  # of the first state
    miss = y - level0 - slope0 * steps
    weighted = np.linalg.solve(covariance, miss)
    value, by_y, by_r, by_level, by_slope = gradient_of(kalman_loglik, (0, 3, 4, 5), True)(*given)
    assert value == pytest.approx(
        -0.5 * (n * math.log(2 * math.pi) + np.linalg.slogdet(covariance)[1] + miss @ weighted), rel=1e-12
    )
    close(by_y, -weighted, rtol=1e-8)
    close([by_level, by_slope], [weighted.sum(), weighted @ steps], rtol=1e-8)
    assert by_r == pytest.approx(0.5 * (weighted @ weighted - np.trace(np.linalg.inv(covariance))), rel=1e-8)


def test_gradients_of_a_hidden_markov_model_are_posteriors():
    rng = np.random.default_rng(0)
    states, symbols, seen = 3, 4, np.array([0, 2, 2, 1, 3, 2])
    weights = rng.random(states), rng.random((states, states)), rng.random((states, symbols))
    start, transition, emission = (np.log(w / w.sum(-1, keepdims=True)) for w in weights)
    value, *found = gradient_of(hmm_loglik, (0, 1, 2), True)(start, transition, emission, seen)

    total, expected = 0.0, [np.zeros_like(w) for w in weights]  # from all sequences of states
    for path in itertools.product(range(states), repeat=seen.size):
        moves = list(itertools.pairwise(path))
        p = start[path[0]] + sum(transition[m] for m in moves) + sum(emission[e] for e in zip(path, seen))
        p = math.exp(p)
        total += p
        expected[0][path[0]] += p
        for move in moves:
            expected[1][move] += p
        for shown in zip(path, seen):
            expected[2][shown] += p
    assert value == pytest.approx(math.log(total), rel=1e-12)
    for f, e in zip(found, expected):
        close(f, e / total)
    by_start, by_transition, by_emission = found
    assert by_start.sum() == pytest.approx(1)
    assert by_transition.sum() == pytest.approx(seen.size - 1)
    close(by_emission.sum(0), np.bincount(seen, minlength=symbols))


def test_a_garch_model_is_fitted_by_scipy():
    optimize = pytest.importorskip("scipy.optimize")
    omega, alpha, beta = 0.1, 0.12, 0.8
    rng = np.random.default_rng(0)
    returns, variance = np.empty(4000), omega / (1 - alpha - beta)
    for t in range(returns.size):
        returns[t] = rng.standard_normal() * math.sqrt(variance)
        variance = omega + alpha * returns[t] ** 2 + beta * variance
    gradient = gradient_of(garch_loglik, (1, 2, 3), True)

    def value_and_slope(p):
        value, *slope = gradient(returns, *p)
        return value / returns.size, np.array(slope) / returns.size

    bounds = [(1e-4, None), (1e-4, 0.5), (1e-4, 0.95)]
    options = {"ftol": 1e-14, "gtol": 1e-7}
    fit = optimize.minimize(value_and_slope, [0.5, 0.05, 0.5], jac=True, method="L-BFGS-B", bounds=bounds,
                            options=options)  # fmt: skip
    assert fit.success and fit.nfev < 60 and np.abs(fit.jac).max() < 1e-5
    close(fit.x, [omega, alpha, beta], atol=0.05)
    assert fit.fun <= value_and_slope([omega, alpha, beta])[0]


# -- simulations ------------------------------------------------------------------------------------


def test_nbody_gradient_over_a_thousand_steps():
    # A heavy body and two that go around it, some three times.
    x0 = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.1], [0.0, -2.0, 0.0]])
    v0 = np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.7, 0.0, 0.05]])
    m, dt, steps = np.array([1.0, 0.01, 0.02]), 0.02, 1000
    seed = np.random.default_rng(0).standard_normal(x0.shape)
    f = op_of("nbody_leapfrog")
    by_x0, by_v0, by_m, by_dt = f.adjoint(x0, v0, m, dt, steps, seed)

    def difference(place, k, h=1e-5):
        ends = []
        for sign in (1, -1):
            given = [x0.copy(), v0.copy(), m.copy()]
            given[place].flat[k] += sign * h
            ends.append((seed * f(*given, dt, steps)).sum())
        return (ends[0] - ends[1]) / (2 * h)

    for place, found in enumerate((by_x0, by_v0, by_m)):
        expected = np.array([difference(place, k) for k in range(found.size)]).reshape(found.shape)
        close(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    # Moving everything moves the end as much.
    close(by_x0.sum(0), seed.sum(0), rtol=1e-8)


def seismogram(c, source, receivers, dt, dx):
    """Pressure (nt, k): the misfit's slope by ``observed``, which is -dt (pressure - observed), at ``observed`` = 0."""
    nothing = np.zeros((source.size, receivers.size))
    return -gradient_of(wave2d, 2)(c, source, nothing, receivers, dt, dx) / dt


def test_wave_speeds_are_found_from_a_seismogram():
    size, dt, dx = 16, 0.002, 10.0
    _, source, _, receivers, _, _ = example_arguments("wave2d", 60)
    receivers = np.arange(1, size - 1)
    true = np.full((size, size), 1500.0)
    true[8:] = 1900.0  # echoes come from here
    observed = seismogram(true, source, receivers, dt, dx)
    gradient = gradient_of(wave2d, (0,), True)
    assert gradient(true, source, observed, receivers, dt, dx)[0] < 1e-20 * (observed**2).sum()

    # Two layers, whose speeds are looked for by Gauss and Newton's steps in one number each.
    speeds = np.array([1450.0, 1750.0])
    layer = (np.arange(size) >= 8).astype(int)[:, None] + np.zeros((size, size), int)
    misfits = []
    for step in range(5):
        misfit, slope = gradient(speeds[layer], source, observed, receivers, dt, dx)
        misfits.append(misfit)
        slopes = np.array([slope[layer == k].sum() for k in range(2)])
        jacobian = np.stack([tangent_of_seismogram(speeds[layer], 1.0 * (layer == k), source, receivers, dt, dx)
                             for k in range(2)])  # fmt: skip
        if step == 0:
            miss = seismogram(speeds[layer], source, receivers, dt, dx) - observed
            close(slopes, dt * np.tensordot(jacobian, miss, 2), rtol=1e-5)
        speeds = speeds - np.linalg.solve(dt * np.tensordot(jacobian, jacobian, ((1, 2), (1, 2))), slopes)
    close(speeds, [1500.0, 1900.0], rtol=1e-4)
    assert misfits[-1] < 1e-5 * misfits[0] and misfits == sorted(misfits, reverse=True)


def tangent_of_seismogram(c, along, source, receivers, dt, dx, h=0.1):
    ends = [seismogram(c + s * along, source, receivers, dt, dx) for s in (h, -h)]
    return (ends[0] - ends[1]) / (2 * h)


def test_springs_are_found_from_a_trajectory():
    n, steps, dt = 3, 150, 0.05
    places, rest, damping, mass = np.array([1.4, 2.0, 3.0]), 1.0, 0.5, 1.0
    true = np.array([4.0, 7.0, 5.0, 6.0])
    # The trajectory itself: at observed = 0 the error's slope by what is observed is -2 x.
    nothing = np.zeros((steps, n))
    observed = -0.5 * gradient_of(spring_mass, 7)(places, true, rest, damping, mass, dt, steps, nothing)

    stiffness = torch.full((n + 1,), 5.0, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([stiffness], lr=0.1)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)
    start = None
    for _ in range(400):
        optimizer.zero_grad()
        error = op_of("spring_mass")(places, stiffness, rest, damping, mass, dt, steps, observed)
        error.backward()
        optimizer.step()
        schedule.step()
        start = start or error.item()
    assert error.item() < 1e-6 * start
    close(stiffness.detach(), true, rtol=1e-3)


# -- finance ----------------------------------------------------------------------------------------


def black_scholes_put(spot, strike, rate, volatility, maturity):
    """Price and slopes by spot, strike, volatility, maturity of a European put, at rate 0."""
    assert rate == 0.0
    root = volatility * math.sqrt(maturity)
    d1 = math.log(spot / strike) / root + 0.5 * root
    below = [0.5 * math.erfc(d / math.sqrt(2)) for d in (d1, d1 - root)]  # normal probabilities of -d1 and -d2
    density = math.exp(-0.5 * d1 * d1) / math.sqrt(2 * math.pi)
    price = strike * below[1] - spot * below[0]
    vega = spot * density * math.sqrt(maturity)
    return price, -below[0], below[1], vega, spot * density * volatility / (2 * math.sqrt(maturity))


@pytest.mark.parametrize("spot", [80.0, 100.0, 125.0])
def test_greeks_of_a_tree_become_those_of_black_and_scholes(spot):
    # Without interest nobody exercises early: the American put is the European one. A tree's figures swing around
    # their limit as nodes pass the strike, so trees of several sizes are averaged.
    given = spot, 100.0, 0.0, 0.3, 1.5
    greeks = gradient_of(binomial_option, (0, 1, 3, 4), True)
    found = np.mean([greeks(*given, steps) for steps in range(1000, 1040)], axis=0)
    close(found, black_scholes_put(*given), rtol=5e-3)


def test_greeks_of_an_american_put():
    given = 100.0, 105.0, 0.04, 0.25, 1.5, 200
    price, delta, by_strike, rho, vega, theta = gradient_of(binomial_option, (0, 1, 2, 3, 4), True)(*given)
    assert price == pytest.approx(delta * 100.0 + by_strike * 105.0)  # twice the money is twice the price
    assert -1 < delta < 0 < by_strike and rho < 0 < vega and theta > 0
    deep = gradient_of(binomial_option, (0, 1, 3), False)(60.0, *given[1:])  # exercised at once: strike less spot
    close(deep, [-1.0, 1.0, 0.0])
