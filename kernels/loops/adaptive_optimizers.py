"""Steps of optimisers that adapt their rates, one parameter at a time; see ``optimizer.py`` for the form of a loop.

Besides ``step`` some have counters of their own, arrays of one element: each is read and advanced once a step.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import loop
from jitgrad.kernels.words import maximum, minimum, where
from jitgrad.kernels.words.vocabulary import T

__all__ = ["adadelta", "adamax", "asgd", "nadam", "radam", "rprop"]


@loop
def adadelta(param, grad, square_avg, acc_delta, step, lr, rho, eps, weight_decay, maximize):
    """delta = sqrt(acc_delta + eps) / sqrt(square_avg + eps) grad; param -= lr delta."""
    step[0] += 1
    rate, keep, new, tiny = T(lr), T(rho), T(1 - rho), T(eps)
    decay, sign = T(weight_decay), T(-1 if maximize else 1)
    for i in range(param.size):
        p = param[i]
        g = sign * grad[i]
        if weight_decay != 0:
            g += decay * p
        v = keep * square_avg[i] + new * g * g
        delta = np.sqrt(acc_delta[i] + tiny) / np.sqrt(v + tiny) * g
        square_avg[i] = v
        acc_delta[i] = keep * acc_delta[i] + new * delta * delta
        param[i] = p - rate * delta


@loop
def adamax(param, grad, exp_avg, exp_inf, step, lr, beta1, beta2, eps, weight_decay, maximize):
    """exp_inf = max(beta2 exp_inf, |grad| + eps); param -= lr / (1 - beta1^step) exp_avg / exp_inf."""
    step[0] += 1
    rate = T(lr / (1 - beta1 ** np.float64(step[0])))
    new, keep, tiny, decay, sign = T(1 - beta1), T(beta2), T(eps), T(weight_decay), T(-1 if maximize else 1)
    for i in range(param.size):
        p = param[i]
        g = sign * grad[i]
        if weight_decay != 0:
            g += decay * p
        m = exp_avg[i] + new * (g - exp_avg[i])
        largest = maximum(keep * exp_inf[i], abs(g) + tiny)
        exp_avg[i] = m
        exp_inf[i] = largest
        param[i] = p - rate * m / largest


def nesterov_momentum(step, beta1, momentum_decay):
    """NAdam's coefficient of momentum at a step: beta1 (1 - 0.96^(step momentum_decay) / 2)."""
    # 0.96 as a quotient: a literal would have the parameter's precision.
    return beta1 * (1 - (np.float64(96) / 100) ** (step * momentum_decay) / 2)


@loop
def nadam(
    param, grad, exp_avg, exp_avg_sq, mu_product, step, lr, beta1, beta2, eps, weight_decay, momentum_decay, decoupled,
    maximize,
):  # fmt: skip
    """Adam with Nesterov's momentum, the coefficients of which have ``mu_product`` as their product so far."""
    step[0] += 1
    count = np.float64(step[0])
    mu = nesterov_momentum(count, beta1, momentum_decay)
    mu_next = nesterov_momentum(count + 1, beta1, momentum_decay)
    # Both factors and the product are rounded to the counter's precision, as PyTorch's multiplication in place does.
    before = mu_product[0]
    mu_product[0] = mu
    mu_product[0] = before * mu_product[0]
    product = np.float64(mu_product[0])
    rate, rate_next = T(lr * (1 - mu) / (1 - product)), T(lr * mu_next / (1 - product * mu_next))
    inverse = T(1 / (1 - beta2**count))
    new, keep2, new2, tiny = T(1 - beta1), T(beta2), T(1 - beta2), T(eps)
    decay, sign = T(0 if decoupled else weight_decay), T(-1 if maximize else 1)
    shrink = T(1 - lr * weight_decay if decoupled else 1)
    for i in range(param.size):
        p = param[i] * shrink
        g = sign * grad[i]
        if weight_decay != 0:
            g += decay * p
        m = exp_avg[i] + new * (g - exp_avg[i])
        v = keep2 * exp_avg_sq[i] + new2 * g * g
        exp_avg[i] = m
        exp_avg_sq[i] = v
        param[i] = p - (rate * g + rate_next * m) / (np.sqrt(v * inverse) + tiny)


@loop
def radam(
    param, grad, exp_avg, exp_avg_sq, step, lr, beta1, beta2, eps, weight_decay, decoupled, maximize,
):  # fmt: skip
    """Adam whose adaptive rate is rectified for its variance, and left out while that is not known yet."""
    step[0] += 1
    count = np.float64(step[0])
    decayed = beta2**count
    limit = 2 / (1 - beta2) - 1
    rho = limit - 2 * count * decayed / (1 - decayed)
    rectified = rho > 5
    rate = lr / (1 - beta1**count)
    if rectified:
        # The rate's own correction, and the root of the second moment's.
        rate = rate * np.sqrt((rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho) * (1 - decayed))
    rate = T(rate)
    new, keep2, new2, tiny = T(1 - beta1), T(beta2), T(1 - beta2), T(eps)
    decay, sign = T(0 if decoupled else weight_decay), T(-1 if maximize else 1)
    shrink = T(1 - lr * weight_decay if decoupled else 1)
    for i in range(param.size):
        p = param[i] * shrink
        g = sign * grad[i]
        if weight_decay != 0:
            g += decay * p
        m = exp_avg[i] + new * (g - exp_avg[i])
        v = keep2 * exp_avg_sq[i] + new2 * g * g
        exp_avg[i] = m
        exp_avg_sq[i] = v
        param[i] = p - rate * m / (np.sqrt(v) + tiny if rectified else T(1))


@loop
def rprop(param, grad, prev, step_size, step, etaminus, etaplus, smallest, largest, maximize):
    """Each element has a step of its own, which grows while the gradient keeps its sign and shrinks where it turns."""
    step[0] += 1
    shrink, grow, low, high = T(etaminus), T(etaplus), T(smallest), T(largest)
    sign, zero, one = T(-1 if maximize else 1), T(0), T(1)
    for i in range(param.size):
        g = sign * grad[i]
        turn = g * prev[i]
        size = step_size[i] * where(turn > 0, grow, where(turn < 0, shrink, one))
        size = minimum(maximum(size, low), high)
        g = where(turn < 0, zero, g)  # where it turns the element waits for the next gradient
        prev[i] = g
        step_size[i] = size
        param[i] -= where(g > 0, size, where(g < 0, -size, zero))


@loop
def asgd(param, grad, ax, mu, eta, step, lr, lambd, alpha, t0, weight_decay, maximize):
    """param -= eta (grad + lambd param) with the rate of the step before; ``ax`` averages it, from step t0 on."""
    step[0] += 1
    count, rate, share = np.float64(step[0]), np.float64(eta[0]), np.float64(mu[0])
    eta[0] = lr / (1 + lambd * lr * count) ** alpha
    mu[0] = 1 / max(1, count - t0)
    averaged = share != 1
    shrink, rate, share = T(1 - lambd * rate), T(rate), T(share)
    decay, sign = T(weight_decay), T(-1 if maximize else 1)
    for i in range(param.size):
        p = param[i]
        g = sign * grad[i]
        if weight_decay != 0:
            g += decay * p
        p = p * shrink - rate * g
        param[i] = p
        ax[i] = ax[i] + (p - ax[i]) * share if averaged else p
