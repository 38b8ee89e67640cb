"""Cross products of vectors of three elements."""

from __future__ import annotations

from jitgrad.kernels.launch import loop

__all__ = ["cross"]


@loop(split=("x", "y", "out"))
def cross(x, y, out):
    """Cross products along axis 1 of arrays (outer, 3, inner)."""
    for o in range(x.shape[0]):
        a, b, c = x[o, 0], x[o, 1], x[o, 2]
        d, e, f = y[o, 0], y[o, 1], y[o, 2]
        for i in range(a.size):
            out[o, 0, i] = b[i] * f[i] - c[i] * e[i]
            out[o, 1, i] = c[i] * d[i] - a[i] * f[i]
            out[o, 2, i] = a[i] * e[i] - b[i] * d[i]
