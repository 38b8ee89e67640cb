"""The three transforms that all others are made of: complex to complex, real to complex, complex to real.

Each takes the dims to transform, which are distinct and counted from the front, and how to normalise: 0 not at all, 1
by the root of the number of elements, 2 by the number. A real transform halves its last dim, which is why its own
gradient has weights: every frequency between the first and the middle stands for two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.core.layout import Layout, intern
from jitgrad.dispatch.batch_rules import over_dims
from jitgrad.dispatch.op_samples import cases, draw, draw_complex
from jitgrad.dispatch.planned import Launches, Read, Written
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.loops import fft as kernels
from jitgrad.ops.shape.complex_view import real

__all__ = ["FftC2C", "FftC2R", "FftR2C"]


def _scale(normalization: int, x: Layout, dims: Sequence[int]) -> np.floating:
    """What a transform of ``dims`` is multiplied by, in the precision of ``x``."""
    count = math.prod([x.shape[d] for d in dims])
    scale = 1 / count**0.5 if normalization == 1 else 1 / count if normalization else 1.0
    return x.dtype.to_real().numpy.type(scale)


def _by_strides(x: Layout, dims: Sequence[int]) -> list[int]:
    return sorted(dims, key=lambda d: -x.strides[d])


def _result(x: Layout, dims: Sequence[int], last: int, dtype: np.dtype) -> Layout:
    """PyTorch's layout for the transform of ``dims``: they lie innermost in memory, the others in the order of x.

    last: the size of the last of the dims.
    """
    order = [*_by_strides(x, [d for d in range(x.ndim) if d not in dims]), *dims]
    shape = [*x.shape]
    shape[dims[-1]] = last
    strides, step = [0] * x.ndim, 1
    for d in reversed(order):
        strides[d] = step
        step *= max(shape[d], 1)
    return intern(dtype, tuple(shape), tuple(strides), x.device)


# NumPy's words for ``normalization``, forward and inverse.
_NORMS: dict[bool, Any] = {True: ("backward", "ortho", "forward"), False: ("forward", "ortho", "backward")}


class FftC2C(Structured):
    """Fourier transform of a complex tensor over ``dim``.

    ``forward`` takes exp(-2 pi i k m / n), otherwise its conjugate. The result is multiplied by 1, n ** -0.5 or 1 / n,
    for a ``normalization`` of 0, 1 or 2.
    """

    name, linear, batch = "_fft_c2c", ("x",), over_dims("dim")
    grad_name = "FftC2CBackward0"
    samples = cases(
        lambda: (draw_complex(3, 4), (1,), 0, True),
        lambda: (draw_complex(4, 3).t(), (0, 1), 1, False),
        lambda: (draw_complex(2, 3, 2), (2, 0), 2, True),
    )
    reference = lambda x, dim, normalization, forward: (
        (np.fft.fftn if forward else np.fft.ifftn)(x, axes=dim, norm=_NORMS[forward][normalization])
    )

    def plan(x_layout, dim, normalization, forward):
        dims = _by_strides(x_layout, dim)
        out = _result(x_layout, dims, x_layout.shape[dims[-1]], x_layout.numpy_dtype)
        # The innermost first: it writes to memory what the others change in place.
        given = (tuple(dims[::-1]), _scale(normalization, x_layout, dim), forward)
        return Launches([(kernels.c2c, Read("x"), Written(0), *given)], [out])

    def grad_x(g, dim, normalization, forward):
        return FftC2C.apply(g, dim, normalization, not forward)


class FftR2C(Structured):
    """Fourier transform of a real tensor over ``dim``; ``onesided``: frequencies 0 to n / 2 of the last dim alone."""

    name, linear, batch = "_fft_r2c", ("x",), over_dims("dim")
    grad_name = "FftR2CBackward0"
    samples = cases(
        lambda: (draw(3, 4), (1,), 0, True),
        lambda: (draw(4, 3).t(), (0, 1), 1, True),
        lambda: (draw(2, 5), (1,), 2, False),
    )
    reference = lambda x, dim, normalization, onesided: (
        (np.fft.rfftn if onesided else np.fft.fftn)(x, axes=dim, norm=_NORMS[True][normalization])
    )

    def plan(x_layout, dim, normalization, onesided):
        last, others = dim[-1], _by_strides(x_layout, dim[:-1])
        n = x_layout.shape[last]
        wide = np.dtype(np.complex64 if x_layout.numpy_dtype == np.float32 else np.complex128)
        out = _result(x_layout, [*others, last], n // 2 + 1 if onesided else n, wide)
        launches = [(kernels.r2c, Read("x"), Written(0), last, _scale(normalization, x_layout, dim))]
        if others:
            launches.append((kernels.c2c, Written(0), Written(0), tuple(others[::-1]), _scale(0, x_layout, ()), True))
        return Launches(launches, [out])

    def grad_x(g, x_layout, dim, normalization, onesided):
        if not onesided:
            return real(FftC2C.apply(g, dim, normalization, False))
        n = x_layout.shape[dim[-1]]
        # The real part of the inverse transform, where the frequencies that are left out count for nothing.
        return FftC2R.apply(InnerTimes.apply(g, dim[-1], n - n // 2 - 1, 0.5), dim, normalization, n)


class FftC2R(Structured):
    """The real tensor, of ``n`` elements along the last of the dims, whose one-sided spectrum is ``x``: no forward."""

    name, linear, batch = "_fft_c2r", ("x",), over_dims("dim")
    grad_name = "FftC2RBackward0"
    samples = cases(
        lambda: (draw_complex(3, 3), (1,), 0, 4),
        lambda: (draw_complex(3, 4).t(), (1, 0), 2, 7),
        lambda: (draw_complex(2, 3), (1,), 1, 5),
    )
    reference = lambda x, dim, normalization, n: np.fft.irfftn(
        x, [*(x.shape[d] for d in dim[:-1]), n], dim, norm=_NORMS[False][normalization]
    )

    def plan(x_layout, dim, normalization, n):
        *others, last = dim
        layouts, source, spectrum = [], Read("x"), x_layout
        launches = []
        if others:
            dims = _by_strides(x_layout, others)
            spectrum, source = _result(x_layout, dims, x_layout.shape[dims[-1]], x_layout.numpy_dtype), Written(1)
            launches.append((kernels.c2c, Read("x"), source, tuple(dims[::-1]), _scale(0, x_layout, ()), False))
            layouts.append(spectrum)
        narrow = np.dtype(np.float32 if x_layout.numpy_dtype == np.complex64 else np.float64)
        out = _result(spectrum, (last,), n, narrow)
        sized = intern(narrow, tuple([n if d == last else s for d, s in enumerate(x_layout.shape)]))
        launches.append((kernels.c2r, source, Written(0), last, _scale(normalization, sized, dim)))
        return Launches(launches, [out, *layouts])

    def grad_x(g, dim, normalization, n):
        found = FftR2C.apply(g, dim, normalization, True)
        return InnerTimes.apply(found, dim[-1], n - n // 2 - 1, 2.0)


class InnerTimes(Structured):
    """``x`` whose elements 1 to ``inner`` along ``dim`` are multiplied by ``factor``."""

    name, linear, batch = "_fft_inner_times", ("x",), over_dims("dim")
    samples = cases(lambda: (draw_complex(2, 4), 1, 2, 0.5), lambda: (draw_complex(3, 2).t(), -1, 2, 2.0))

    def plan(x_layout, dim, inner, factor):
        out = intern(x_layout.numpy_dtype, x_layout.shape, None, x_layout.device)
        return Launches([(kernels.inner_times, Read("x"), Written(0), dim % x_layout.ndim, inner, factor)], [out])

    def grad_x(g, dim, inner, factor):
        return InnerTimes.apply(g, dim, inner, factor)
