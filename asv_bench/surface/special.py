"""Cases: special functions, orthogonal polynomials, parts and divisors of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .case import Case

__all__ = ["CASES"]


def _vectors(*ranges: tuple[float, float]) -> Callable[..., list[np.ndarray]]:
    """A float32 vector for each pair of bounds."""

    def inputs(rng: np.random.Generator, n: int) -> list[np.ndarray]:
        return [rng.uniform(low, high, n).astype(np.float32) for low, high in ranges]

    return inputs


def _integers(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    return [rng.integers(1, 1000, n), rng.integers(1, 1000, n)]


def _of_special(name: str, *rest: Any) -> Callable[..., Any]:
    return lambda lib, *tensors: getattr(lib.special, name)(*tensors, *rest)


_DIFFERENTIABLE = {
    "i0": (-12, 12), "i0e": (-12, 12), "i1": (-12, 12), "i1e": (-12, 12), "erfcx": (-3, 10), "ndtr": (-4, 4),
    "log_ndtr": (-9, 4), "ndtri": (0, 1), "entr": (0, 2),
}  # fmt: skip
_CONSTANT = {
    "bessel_j0": (0, 20), "bessel_j1": (0, 20), "bessel_y0": (0, 20), "bessel_y1": (0, 20), "airy_ai": (-8, 4),
    "modified_bessel_k0": (0, 6), "modified_bessel_k1": (0, 6), "scaled_modified_bessel_k0": (0, 6),
    "spherical_bessel_j0": (-9, 9),
}  # fmt: skip
_POLYNOMIALS = (
    "chebyshev_polynomial_t", "chebyshev_polynomial_u", "hermite_polynomial_h", "hermite_polynomial_he",
    "laguerre_polynomial_l", "legendre_polynomial_p", "shifted_chebyshev_polynomial_v",
)  # fmt: skip

CASES = {
    **{f"special.{n}": Case(_vectors(bounds), _of_special(n)) for n, bounds in _DIFFERENTIABLE.items()},
    **{f"special.{n}": Case(_vectors(bounds), _of_special(n), False) for n, bounds in _CONSTANT.items()},
    **{f"special.{n}": Case(_vectors((-1.2, 1.2)), _of_special(n, 5), False) for n in _POLYNOMIALS},
    "special.zeta": Case(_vectors((1.1, 6), (0.2, 6)), _of_special("zeta"), False),
    "special.xlog1py": Case(_vectors((0, 2), (0, 2)), _of_special("xlog1py")),
    "igamma": Case(_vectors((0.1, 9), (0.1, 9)), lambda lib, a, x: lib.igamma(a, x), False),
    "igammac": Case(_vectors((0.1, 9), (0.1, 9)), lambda lib, a, x: lib.igammac(a, x), False),
    "mvlgamma": Case(_vectors((2, 9)), lambda lib, x: lib.mvlgamma(x, 3)),
    "frexp": Case(_vectors((-9, 9)), lambda lib, x: lib.frexp(x)),
    "ldexp": Case(_vectors((-9, 9), (-9, 9)), lambda lib, x, y: lib.ldexp(x, y)),
    "heaviside": Case(_vectors((-1, 1), (0, 1)), lambda lib, x, y: lib.heaviside(x, y), False),
    "nextafter": Case(_vectors((-1, 1), (-1, 1)), lambda lib, x, y: lib.nextafter(x, y)),
    "gcd": Case(_integers, lambda lib, x, y: lib.gcd(x, y), False),
    "lcm": Case(_integers, lambda lib, x, y: lib.lcm(x, y), False),
    "fill": Case(_vectors((-1, 1)), lambda lib, x: lib.fill(x, 2.5)),
}
