"""Numbers of the gamma and Dirichlet distributions, drawn one after another, number for number PyTorch's.

Marsaglia and Tsang's method: the cube of a shifted normal is accepted by a uniform; a shape below 1 is raised by 1,
and the number times a power of another uniform. How many words an element takes depends on what is drawn. Shapes and
``out`` are flat arrays; constants are rounded to float32 where PyTorch has them so.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import loop
from jitgrad.kernels.words.random import next_normal, uniform64
from jitgrad.kernels.words.vocabulary import T, word

__all__ = ["dirichlet", "standard_gamma"]


@word(internal=True)
class gamma_variate:
    """A number of the gamma distribution whose shape is d + 1 / 3, and how many words are used now.

    ``power``: times a uniform to this power; 0 draws none.
    """

    def any(d, power, state):
        scale = np.float64(1)
        if power != 0:
            u, state[624] = uniform64(state)
            scale = (1 - u) ** power
        c = 1 / np.sqrt(9 * d)
        while True:
            y = np.float64(0)
            x = np.float64(0)
            while y <= 0:
                x, state[624] = next_normal(state)
                y = 1 + c * x
            v = y * y * y
            u, used = uniform64(state)
            state[624] = used
            square = x * x
            if 1 - u < 1 - np.float64(np.float32(0.0331)) * square * square:
                break
            # NaN, of a negative shape, is taken: it would never be less.
            if not np.log(1 - u) >= np.float64(0.5) * square + d * (1 - v + np.log(v)):
                break
        return scale * d * v, used


@loop(dtype_from="out")
def standard_gamma(shapes, out, state, tiny):
    """Numbers of the gamma distributions of these shapes and rate 1, no less than ``tiny``."""
    third = T(np.float32(1) / np.float32(3))
    for i in range(shapes.size):
        shape = T(shapes[i])
        if shape == 0:
            out[i] = T(tiny)
            continue
        power = np.float64(T(1) / shape) if shape < 1 else np.float64(0)
        raised = shape + T(1) if shape < 1 else shape
        value, state[624] = gamma_variate(np.float64(raised - third), power, state)
        out[i] = T(value) if T(value) > T(tiny) else T(tiny)


@loop(dtype_from="out")
def dirichlet(shapes, out, state, width, smallest, below_one, tiny):
    """Rows of ``width`` gamma numbers over their sums, between ``tiny`` and ``below_one``; sums are in float64."""
    third = np.float64(np.float32(1) / np.float32(3))
    values = np.empty(width, np.float64)
    for first in range(0, shapes.size, width):
        total = np.float64(0)
        for k in range(width):
            shape, value = np.float64(shapes[first + k]), np.float64(0)
            if shape != 0:
                power = 1 / shape if shape < 1 else np.float64(0)
                raised = shape + 1 if shape < 1 else shape
                value, state[624] = gamma_variate(raised - third, power, state)
            values[k] = value if value > smallest else smallest
            total += values[k]
        for k in range(width):
            share = T(values[k] / total)
            share = share if share > T(tiny) else T(tiny)
            out[first + k] = share if share < T(below_one) else T(below_one)
