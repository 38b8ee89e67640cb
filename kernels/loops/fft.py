"""Fourier transforms by NumPy's pocketfft, which computes float32 in float32.

``out`` has any strides and may be longer or shorter than ``x`` along the dim that is transformed: its size counts, and
that of ``x`` is filled with zeros or cut. ``scale`` is a NumPy number of the precision of ``out``: the ufuncs take no
other. Many vectors are shared among threads: NumPy lets go of Python's lock.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels import threads
from jitgrad.kernels.launch import library

try:  # the ufuncs behind np.fft, without the 2 us that its functions take to look at their arguments
    from numpy.fft import _pocketfft_umath as _ufuncs  # type: ignore[attr-defined]
except ImportError:  # another NumPy, which has them elsewhere
    _ufuncs = None

__all__ = ["any_below", "c2c", "c2r", "inner_times", "r2c"]

# So many elements are worth a second thread: they take 100 us.
_GRAIN = 1 << 14


def _by_numpy(name):
    """A transform by NumPy's public functions, in the form of its ufuncs."""
    function = getattr(np.fft, name)

    def transform(x, scale, out, axes):
        axis = axes[2][0]
        n = (x if name == "rfft" else out).shape[axis]
        found = function(x, n, axis, norm="backward" if name in ("fft", "rfft") else "forward")
        np.multiply(found, scale, out=out)

    return transform


if _ufuncs is not None:
    _fft, _ifft, _irfft = _ufuncs.fft, _ufuncs.ifft, _ufuncs.irfft
    _rfft = (_ufuncs.rfft_n_even, _ufuncs.rfft_n_odd)
else:
    _fft, _ifft, _irfft = map(_by_numpy, ("fft", "ifft", "irfft"))
    _rfft = (_by_numpy("rfft"),) * 2


def _run(transform, x, scale, out, axis):
    """Transform ``x`` along ``axis`` into ``out``, which may be ``x``; a large one on several threads."""
    axes = [(axis,), (), (axis,)]
    if out.size < _GRAIN or (count := threads.get_num_threads()) == 1:
        if axis == out.ndim - 1 and _ufuncs is not None:
            transform(x, scale, out)
        else:
            transform(x, scale, out, axes=axes)
        return
    rest = [(n, -d) for d, n in enumerate(out.shape) if d != axis]
    most, cut = max(rest, default=(1, 0))
    if most < count:
        transform(x, scale, out, axes=axes)
        return
    jobs = []
    for k in range(count):
        part = (*(slice(None),) * -cut, slice(most * k // count, most * (k + 1) // count))
        jobs.append((_part, (transform, x[part], scale, out[part], axes)))
    threads.run_together(jobs)


def _part(transform, x, scale, out, axes):
    transform(x, scale, out, axes=axes)


@library("out")
def c2c(x, out, axes, scale, forward):
    """Complex to complex along ``axes``, times ``scale``."""
    transform = _fft if forward else _ifft
    for axis in axes:
        _run(transform, x, scale, out, axis)
        x, scale = out, type(scale)(1)


@library("out")
def r2c(x, out, axis, scale):
    """Real to complex along ``axis``; where ``out`` has more than half of the frequencies, all of them."""
    n = x.shape[axis]
    before, half = (slice(None),) * axis, n // 2 + 1
    low = out if out.shape[axis] == half else out[(*before, slice(0, half))]
    _run(_rfft[n % 2], x, scale, low, axis)
    if low is not out and n > half:
        # The spectrum of real numbers: at n - k the conjugate of what is at k.
        np.conjugate(out[(*before, slice(n - half, 0, -1))], out=out[(*before, slice(half, n))])


@library("out")
def c2r(x, out, axis, scale):
    """Complex to real along ``axis``: ``x`` has half of the frequencies, from 0 on."""
    _run(_irfft, x, scale, out, axis)


@library("out")
def inner_times(x, out, axis, inner, factor):
    """``x``, along ``axis`` from index 1 to ``inner`` times ``factor``."""
    np.copyto(out, x)
    part = out[(*(slice(None),) * axis, slice(1, inner + 1))]
    np.multiply(part, out.real.dtype.type(factor), out=part)


@library("found")
def any_below(x, found, bound):
    """Set ``found[0]`` to whether an element's size is below ``bound``."""
    found[0] = x.size > 0 and np.abs(x).min() < bound
