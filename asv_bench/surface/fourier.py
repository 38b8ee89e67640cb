"""Cases: Fourier transforms, spectra of frames, windows, masked reductions, random counts."""

from __future__ import annotations

import numpy as np

from .case import Case

__all__ = ["CASES"]


def _rows(n: int) -> tuple[int, int]:
    """A shape of about n elements: few rows of powers of two."""
    width = 1 << max(int(np.log2(n)) // 2, 2)
    return n // width, width


def _real(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    return [rng.standard_normal(_rows(n), dtype=np.float32)]


def _complex(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    return [_real(rng, n)[0] + 1j * _real(rng, n)[0]]


def _vector(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    return [rng.standard_normal(n, dtype=np.float32)]


def _framed(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    width = 8 if n < 100 else 64 if n < 10_000 else 512
    return [rng.standard_normal(n, dtype=np.float32), np.hanning(width + 1)[:-1].astype(np.float32)]


def _there_and_back(lib, x, window):
    size = window.shape[0]
    return lib.istft(lib.stft(x, size, window=window, return_complex=True), size, window=window.detach())


def _masked(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    shape = _rows(n)
    return [rng.standard_normal(shape, dtype=np.float32), rng.random(shape) < 0.7]


def _counts(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    return [rng.uniform(0, 30, n).astype(np.float32), rng.random(n, dtype=np.float32)]


def _masked_case(name: str, *args: float) -> Case:
    return Case(_masked, lambda lib, x, mask: getattr(lib.masked, name)(x, *args, mask=mask))


CASES = {
    "fft.fft of real": Case(_real, lambda lib, x: lib.fft.fft(x)),
    "fft.fft": Case(_complex, lambda lib, x: lib.fft.fft(x)),
    "fft.fft along columns": Case(_complex, lambda lib, x: lib.fft.fft(x, dim=0)),
    "fft.ifft": Case(_complex, lambda lib, x: lib.fft.ifft(x)),
    "fft.rfft": Case(_real, lambda lib, x: lib.fft.rfft(x)),
    "fft.rfft of one vector": Case(_vector, lambda lib, x: lib.fft.rfft(x)),
    "fft.irfft": Case(_complex, lambda lib, x: lib.fft.irfft(x)),
    "fft.hfft": Case(_complex, lambda lib, x: lib.fft.hfft(x)),
    "fft.ihfft": Case(_real, lambda lib, x: lib.fft.ihfft(x)),
    "fft.fft2": Case(_complex, lambda lib, x: lib.fft.fft2(x)),
    "fft.rfft2": Case(_real, lambda lib, x: lib.fft.rfft2(x)),
    "fft.irfft2": Case(_complex, lambda lib, x: lib.fft.irfft2(x)),
    "fft.fftshift": Case(_real, lambda lib, x: lib.fft.fftshift(x)),
    "fft.fftfreq": Case(lambda rng, n: [n], lambda lib, n: lib.fft.fftfreq(n), backward=False),
    "stft": Case(_framed, lambda lib, x, w: lib.stft(x, w.shape[0], window=w, return_complex=True)),
    "istft of stft": Case(_framed, _there_and_back),
    "hann_window": Case(lambda rng, n: [n], lambda lib, n: lib.hann_window(n), backward=False),
    "kaiser_window": Case(lambda rng, n: [n], lambda lib, n: lib.kaiser_window(n), backward=False),
    "signal.windows.gaussian": Case(lambda rng, n: [n], lambda lib, n: lib.signal.windows.gaussian(n), backward=False),
    "signal.windows.nuttall": Case(lambda rng, n: [n], lambda lib, n: lib.signal.windows.nuttall(n), backward=False),
    "masked.sum": _masked_case("sum", 1),
    "masked.mean": _masked_case("mean", 1),
    "masked.var": _masked_case("var", 1),
    "masked.amax": _masked_case("amax", 1),
    "masked.norm": _masked_case("norm", 2.0, 1),
    "masked.softmax": _masked_case("softmax", 1),
    "masked.cumsum": _masked_case("cumsum", 1),
    "poisson": Case(_counts, lambda lib, rate, _: lib.poisson(rate), backward=False),
    "binomial": Case(_counts, lambda lib, count, p: lib.binomial(count, p), backward=False),
}
