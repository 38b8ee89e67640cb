"""Values of images and volumes at places between their elements.

x is (n, channels, depth, height, width), grid (n, places, dims) with dims 2 or 3, of which the first number is the
place along the width, from -1 to 1. Each result is a sum over taps: elements of the volume, each with a weight and the
weight's derivatives by the dims of the grid. So one function finds taps for all modes, and the loops are short.
"""

from __future__ import annotations

from jitgrad.kernels.launch import loop
from jitgrad.kernels.words.vocabulary import T, scratch

__all__ = ["sample", "sample_gradients"]

NEAREST, CUBIC, BORDER, REFLECTED = 1, 2, 1, 2


def reflected(place, low, high):
    """(a place brought between low and high by turning back at both, its derivative)."""
    span = high - low
    if span <= 0:
        return T(0), T(0)
    distance, sign = place - low, T(1)
    if distance < 0:
        distance, sign = -distance, T(-1)
    turns = math.floor(distance / span)
    rest = distance - turns * span
    return (low + rest, sign) if turns % 2 == 0 else (low + span - rest, -sign)


def within(place, size, padding, align):
    """(a place brought into 0 .. size - 1 as the padding has it, its derivative)."""
    slope = T(1)
    if padding == REFLECTED:
        low, high = (T(0), T(size - 1)) if align else (T(-0.5), T(size) - T(0.5))
        place, slope = reflected(place, low, high)
    if padding != 0:
        if not place > 0:
            return T(0), T(0)
        if place >= size - 1:
            return T(size - 1), T(0)
    return place, slope


def cubic(t, weights, slopes, curves):
    """The four weights of cubic convolution at t in 0 .. 1, and their first and second derivatives."""
    a = T(-0.75)
    for k in range(4):
        x, sign = t + T(1) - T(k), T(1)
        if x < 0:
            x, sign = -x, T(-1)
        if k == 1 or k == 2:
            weights[k] = ((a + T(2)) * x - (a + T(3))) * x * x + T(1)
            slopes[k] = sign * (T(3) * (a + T(2)) * x - T(2) * (a + T(3))) * x
            curves[k] = T(6) * (a + T(2)) * x - T(2) * (a + T(3))
        else:
            weights[k] = ((a * x - T(5) * a) * x + T(8) * a) * x - T(4) * a
            slopes[k] = sign * ((T(3) * a * x - T(10) * a) * x + T(8) * a)
            curves[k] = T(6) * a * x - T(10) * a


def along(place, size, mode, padding, align, at, weights, slopes, curves):
    """The taps along one dim: their places (-1: outside), weights and two derivatives; returns how many."""
    half = T(size - 1) / T(2) if align else T(size) / T(2)
    real = (place + T(1)) * half - (T(0) if align else T(0.5))
    if mode == CUBIC:
        low = T(math.floor(real))
        cubic(real - low, weights, slopes, curves)
        for k in range(4):
            tap, _ = within(low + T(k - 1), size, padding, align)
            inside = tap >= 0 and tap <= size - 1
            at[k] = int(tap) if inside else -1
            slopes[k] *= half
            curves[k] *= half * half
        return 4
    curves[:2] = T(0)
    real, slope = within(real, size, padding, align)
    if mode == NEAREST:
        tap = np.rint(real)
        inside = tap >= 0 and tap <= size - 1
        at[0], weights[0], slopes[0] = int(tap) if inside else -1, T(1), T(0)
        return 1
    low = T(math.floor(real))
    for k in range(2):
        tap = low + T(k)
        inside = tap >= 0 and tap <= size - 1
        at[k] = int(tap) if inside else -1
    weights[0], weights[1] = low + T(1) - real, real - low
    slopes[0], slopes[1] = -half * slope, half * slope
    return 2


def taps_at(point, direction, shape, mode, padding, align, at, weights, slopes, curves, places, factors, by_dim):
    """All taps of a place: elements counted through the volume, weights, derivatives by each number of the place.

    With a ``direction``, unless that is empty, the weights are their derivatives along it.
    """
    dims, depths = point.size, 1
    at[0, 0], weights[0, 0], slopes[0, 0], curves[0, 0] = 0, T(1), T(0), T(0)
    if dims == 3:
        depths = along(point[2], shape[2], mode, padding, align, at[0], weights[0], slopes[0], curves[0])
    rows = along(point[1], shape[3], mode, padding, align, at[1], weights[1], slopes[1], curves[1])
    columns = along(point[0], shape[4], mode, padding, align, at[2], weights[2], slopes[2], curves[2])
    count = 0
    for i in range(depths):
        for j in range(rows):
            for k in range(columns):
                if at[0, i] < 0 or at[1, j] < 0 or at[2, k] < 0:
                    continue
                places[count] = (at[0, i] * shape[3] + at[1, j]) * shape[4] + at[2, k]
                a, b, c = weights[0, i], weights[1, j], weights[2, k]
                da, db, dc = slopes[0, i], slopes[1, j], slopes[2, k]
                if direction.size == 0:
                    factors[count] = a * b * c
                    by_dim[0, count], by_dim[1, count], by_dim[2, count] = a * b * dc, a * db * c, da * b * c
                else:
                    u, v, w = direction[0], direction[1], direction[2] if dims == 3 else T(0)
                    factors[count] = u * a * b * dc + v * a * db * c + w * da * b * c
                    by_dim[0, count] = u * a * b * curves[2, k] + v * a * db * dc + w * da * b * dc
                    by_dim[1, count] = u * a * db * dc + v * a * curves[1, j] * c + w * da * db * c
                    by_dim[2, count] = u * da * b * dc + v * da * db * c + w * curves[0, i] * b * c
                count += 1
    return count


def _pieces(x, grid, direction, *rest):
    return x.shape[0], max(x.size, grid.size * x.shape[1])


@loop(pieces=_pieces)
def sample(x, grid, direction, mode, padding, align, out, first, last):
    """The values (n, channels, places) at the places of ``grid``."""
    at, weights = scratch(12, np.int64).reshape(3, 4), scratch(12, T).reshape(3, 4)
    slopes, curves = scratch(12, T).reshape(3, 4), scratch(12, T).reshape(3, 4)
    places, factors, by_dim = scratch(16, np.int64), scratch(16, T), scratch(48, T).reshape(3, 16)
    for n in range(first, last):
        volumes = x[n].reshape(x.shape[1], x.shape[2] * x.shape[3] * x.shape[4])
        for p in range(grid.shape[1]):
            along_it = direction[n, p] if direction.size else direction[0, 0]
            count = taps_at(
                grid[n, p], along_it, x.shape, mode, padding, align, at, weights, slopes, curves, places, factors,
                by_dim,
            )  # fmt: skip
            for c in range(x.shape[1]):
                total = T(0)
                for k in range(count):
                    total += factors[k] * volumes[c, places[k]]
                out[n, c, p] = total


@loop(pieces=_pieces)
def sample_gradients(x, grid, direction, g, mode, padding, align, x_grad, grid_grad, first, last):
    """The gradients of the volumes and of the grid; ``x_grad`` of no elements is left out."""
    at, weights = scratch(12, np.int64).reshape(3, 4), scratch(12, T).reshape(3, 4)
    slopes, curves = scratch(12, T).reshape(3, 4), scratch(12, T).reshape(3, 4)
    places, factors, by_dim = scratch(16, np.int64), scratch(16, T), scratch(48, T).reshape(3, 16)
    dims, wanted = grid.shape[2], x_grad.size > 0
    for n in range(first, last):
        size = x.shape[2] * x.shape[3] * x.shape[4]
        volumes = x[n].reshape(x.shape[1], size)
        targets = x_grad[n if wanted else 0 : n + 1 if wanted else 0].reshape(x.shape[1] if wanted else 0, size)
        targets[:] = T(0)
        for p in range(grid.shape[1]):
            along_it = direction[n, p] if direction.size else direction[0, 0]
            count = taps_at(
                grid[n, p], along_it, x.shape, mode, padding, align, at, weights, slopes, curves, places, factors,
                by_dim,
            )  # fmt: skip
            a, b, c_sum = W(0), W(0), W(0)
            for c in range(x.shape[1]):
                value = g[n, c, p]
                for k in range(count):
                    if wanted:
                        targets[c, places[k]] += factors[k] * value
                    share = W(value) * W(volumes[c, places[k]])
                    a += share * W(by_dim[0, k])
                    b += share * W(by_dim[1, k])
                    c_sum += share * W(by_dim[2, k])
            grid_grad[n, p, 0], grid_grad[n, p, 1] = T(a), T(b)
            if dims == 3:
                grid_grad[n, p, 2] = T(c_sum)
