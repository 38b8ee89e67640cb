"""Windows that are more than a sum of cosines."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import loop
from jitgrad.kernels.words.modified_bessel import i0
from jitgrad.kernels.words.vocabulary import T

__all__ = ["kaiser"]


@loop(dtype_from="beta")
def kaiser(out, steps, beta):
    """The first elements of a Kaiser window of ``steps`` + 1: I0(beta sqrt(1 - (2 k / steps - 1)^2)) / I0(beta).

    ``beta``: an array of one float64, the precision in which all is computed, whatever that of ``out``.
    """
    whole = i0(beta[0])
    for k in range(out.size):
        place = T(k) * (2.0 / steps) - 1.0
        inside = 1.0 - place * place
        # Rounding may leave the last place outside.
        out[k] = i0(beta[0] * np.sqrt(inside if inside > 0.0 else 0.0)) / whole
