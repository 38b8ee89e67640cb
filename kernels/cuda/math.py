"""What word bodies call of NumPy, as device functions: numba.cuda has few of NumPy's functions.

Only the text of these functions is used: `cuda.emit` renames a body's ``np.NAME`` to ``real_NAME`` or
``complex_NAME``, by its arguments, and writes that function before it. Float literals are read as ``R``, the
real dtype of the kernel; ``math`` stands for CUDA's functions, which have the precision of their arguments.
"""

from __future__ import annotations

import math

__all__ = ["Complex", "Integer", "Real"]

libdevice = math  # only a name here; in kernels CUDA's libdevice


class Real:
    """Functions of real numbers."""

    abs = "math.fabs"
    arccos = "math.acos"
    arccosh = "math.acosh"
    arcsin = "math.asin"
    arcsinh = "math.asinh"
    arctan = "math.atan"
    arctan2 = "math.atan2"
    arctanh = "math.atanh"
    ceil = "math.ceil"
    copysign = "math.copysign"
    cos = "math.cos"
    cosh = "math.cosh"
    exp = "math.exp"
    expm1 = "math.expm1"
    floor = "math.floor"
    fmod = "math.fmod"
    hypot = "math.hypot"
    log = "math.log"
    log1p = "math.log1p"
    power = "math.pow"
    rint = "libdevice.rint"
    sin = "math.sin"
    sinh = "math.sinh"
    sqrt = "math.sqrt"
    tan = "math.tan"
    tanh = "math.tanh"
    trunc = "libdevice.trunc"

    def divide(a, b):
        return a / b


class Integer:
    """Functions of integers."""

    def abs(x):
        return -x if x < 0 else x


class Complex:
    """Functions of complex numbers, after W. Kahan's "Branch cuts for complex elementary functions"."""

    def abs(z):
        return math.hypot(z.real, z.imag)

    def conj(z):
        return complex(z.real, -z.imag)

    def exp(z):
        size = math.exp(z.real)
        return complex(size * math.cos(z.imag), z.imag if z.imag == 0.0 else size * math.sin(z.imag))

    def expm1(z):
        half = math.sin(z.imag * 0.5)
        real = math.expm1(z.real) * math.cos(z.imag) - 2.0 * half * half
        return complex(real, math.exp(z.real) * math.sin(z.imag))

    def log(z):
        return complex(math.log(math.hypot(z.real, z.imag)), math.atan2(z.imag, z.real))

    def log1p(z):
        square = z.real * (z.real + 2.0) + z.imag * z.imag
        return complex(0.5 * math.log1p(square), math.atan2(z.imag, z.real + 1.0))

    def sqrt(z):
        large = math.sqrt(0.5 * (math.hypot(z.real, z.imag) + math.fabs(z.real)))
        small = 0.5 * math.fabs(z.imag) / large if large > 0.0 else large
        real, imag = (large, small) if z.real >= 0.0 else (small, large)
        return complex(real, math.copysign(imag, z.imag))

    def power(a, b):
        size = math.hypot(a.real, a.imag)
        if size == 0.0:
            return complex(1.0 if b.real == 0.0 else 0.0, 0.0)
        log, angle = math.log(size), math.atan2(a.imag, a.real)
        grown = math.exp(b.real * log - b.imag * angle)
        turned = b.imag * log + b.real * angle
        return complex(grown * math.cos(turned), grown * math.sin(turned))

    def sin(z):
        return complex(math.sin(z.real) * math.cosh(z.imag), math.cos(z.real) * math.sinh(z.imag))

    def cos(z):
        return complex(math.cos(z.real) * math.cosh(z.imag), -math.sin(z.real) * math.sinh(z.imag))

    def tan(z):
        t, h = math.tan(z.real), math.tanh(z.imag)
        below = 1.0 + t * t * h * h
        return complex(t * (1.0 - h * h) / below, h * (1.0 + t * t) / below)

    def sinh(z):
        return complex(math.sinh(z.real) * math.cos(z.imag), math.cosh(z.real) * math.sin(z.imag))

    def cosh(z):
        return complex(math.cosh(z.real) * math.cos(z.imag), math.sinh(z.real) * math.sin(z.imag))

    def tanh(z):
        t, h = math.tan(z.imag), math.tanh(z.real)
        below = 1.0 + t * t * h * h
        return complex(h * (1.0 + t * t) / below, t * (1.0 - h * h) / below)

    def arcsin(z):
        below, above = complex_sqrt(1.0 - z), complex_sqrt(1.0 + z)
        real = math.atan2(z.real, below.real * above.real - below.imag * above.imag)
        return complex(real, math.asinh(below.real * above.imag - below.imag * above.real))

    def arccos(z):
        below, above = complex_sqrt(1.0 - z), complex_sqrt(1.0 + z)
        real = 2.0 * math.atan2(below.real, above.real)
        return complex(real, math.asinh(above.real * below.imag - above.imag * below.real))

    def arctanh(z):
        near, square = 1.0 - z.real, z.imag * z.imag
        real = 0.25 * math.log1p(4.0 * z.real / (near * near + square))
        return complex(real, 0.5 * math.atan2(2.0 * z.imag, near * (1.0 + z.real) - square))

    def arctan(z):
        turned = complex_arctanh(complex(-z.imag, z.real))
        return complex(turned.imag, -turned.real)

    def arcsinh(z):
        turned = complex_arcsin(complex(z.imag, -z.real))
        return complex(-turned.imag, turned.real)

    def arccosh(z):
        below, above = complex_sqrt(z - 1.0), complex_sqrt(z + 1.0)
        real = math.asinh(below.real * above.real + below.imag * above.imag)
        return complex(real, 2.0 * math.atan2(below.imag, above.real))
