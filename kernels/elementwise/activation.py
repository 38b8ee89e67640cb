"""The table: activation functions of neural networks."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.elementwise.declaration import Elementwise
from jitgrad.kernels.words import *
from jitgrad.kernels.words.vocabulary import by_scipy


def _logistic(x):
    return 1 / (1 + np.exp(-x))


class Sigmoid(Elementwise, public=True):
    """Logistic function: ``1 / (1 + exp(-x))``."""

    reference, aliases = _logistic, ("expit",)

    def forward(x):
        return sigmoid(x)

    def grad_x(g, out):
        return g * (1 - out) * out


class Relu(Elementwise, public=True):
    """``x``, but 0 where it is negative; -0 stays."""

    kind, accepts = "same", "int float"
    refuses = {
        "bool": (RuntimeError, "Boolean inputs not supported for relu"),
        "complex": (NotImplementedError, "clamp is not supported for complex types"),
    }
    reference = lambda x: np.maximum(x, 0)

    def forward(x):
        return where(x < 0, 0, x)

    def grad_x(g, out):
        return constant_in(where(out <= 0, 0, g), out)


class LeakyRelu(Elementwise):
    """``x`` where it is positive, else ``negative_slope * x``."""

    kind, accepts = "same", "float"
    reference = lambda x, negative_slope=0.01: np.where(x > 0, x, x * negative_slope).astype(x.dtype)

    def forward(x, negative_slope=0.01):
        return where(x > 0, x, x * negative_slope)

    def grad_x(g, x, negative_slope):
        return constant_in(where(x > 0, g, g * negative_slope), x)


class Elu(Elementwise):
    """``scale * x`` where x is positive, else ``scale * alpha * (exp(input_scale * x) - 1)``."""

    kind, accepts = "same", "float"

    def reference(x, alpha=1.0, scale=1.0, input_scale=1.0):
        return np.where(x > 0, scale * x, scale * alpha * np.expm1(input_scale * x)).astype(x.dtype)

    def forward(x, alpha=1.0, scale=1.0, input_scale=1.0):
        return where(x < 0, expm1(x * input_scale) * (alpha * scale), x * scale)

    # For x > 0 the exponent is 0, or where g is 0 the side not taken might be 0 * inf, which makes NaN of the second
    # derivative. At 0 that derivative is 0, as PyTorch's.
    def grad_x(g, x, alpha, scale, input_scale):
        slope = input_scale * (alpha * scale) * exp(where(x < 0, x, 0) * input_scale)
        return where(x <= 0, g * slope, g * scale)


class Celu(Elementwise):
    """``x`` where it is positive, else ``alpha * (exp(x / alpha) - 1)``."""

    kind, accepts, error_name = "same", "float", "elu_cpu"
    reference = lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(x / alpha)).astype(x.dtype)

    def forward(x, alpha=1.0):
        return where(x < 0, expm1(x / alpha) * alpha, x)

    # As in Elu. Where alpha is negative the exponents are positive.
    def grad_x(g, x, alpha):
        return where(x <= 0, g * exp(where(x < 0, x, 0) / alpha), g)


class NormalDensity(Elementwise):
    """``exp(-x * x / 2) / sqrt(2 pi)``."""

    kind, accepts = "same", "float"
    reference = lambda x: np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)

    def forward(x):
        return normal_density(x)

    def grad_x(g, out, x):
        return -(g * x * out)


class NormalMass(Elementwise):
    """The normal distribution's mass below ``x``."""

    kind, accepts, reference = "same", "float", by_scipy("ndtr")

    def forward(x):
        return normal_mass(x)

    def grad_x(g, x):
        return g * normal_density(x)


class Gelu(Elementwise):
    """``x`` times the normal distribution function of ``x``."""

    kind, accepts, error_name = "same", "float", "GeluKernelImpl"
    reference = lambda x: x * by_scipy("ndtr")(x)

    # x Phi(x), and its derivative Phi(x) + x phi(x).
    def forward(x):
        return x * normal_mass(x)

    def grad_x(g, x):
        return g * (normal_mass(x) + x * normal_density(x))


class GeluTanh(Elementwise):
    """``gelu`` by the approximation with tanh."""

    kind, accepts, error_name, grad_name = "same", "float", "GeluKernelImpl", "GeluBackward0"
    reference = lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    # 0.7978... = sqrt(2 / pi); Hendrycks and Gimpel's approximation, arXiv 1606.08415.
    def forward(x):
        return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * (x * x * x))))

    def grad_x(g, x):
        t = tanh(0.7978845608028654 * (x + 0.044715 * (x * x * x)))
        inner = 0.7978845608028654 * (1 + 3 * 0.044715 * (x * x))
        return g * (0.5 * (1 + t) + 0.5 * x * ((1 - t) * (1 + t)) * inner)


class Silu(Elementwise):
    """``x * sigmoid(x)``."""

    kind, accepts = "same", "float complex"
    reference = lambda x: x * _logistic(x)

    def forward(x):
        return x * sigmoid(x)

    # s + x s (1 - s), as PyTorch groups it.
    def grad_x(g, x):
        s = sigmoid(x)
        return g * (s * (1 + x * (1 - s)))


class Mish(Elementwise):
    """``x * tanh(log(1 + exp(x)))``."""

    kind, accepts = "same", "float"
    reference = lambda x: x * np.tanh(np.logaddexp(0, x)).astype(x.dtype)

    def forward(x):
        return x * tanh(log1p(exp(x)))

    def grad_x(g, x):
        t = tanh(log1p(exp(x)))
        return g * (t + x * sigmoid(x) * ((1 - t) * (1 + t)))


class Softplus(Elementwise):
    """``log(1 + exp(beta * x)) / beta``; ``x`` itself where ``beta * x > threshold``."""

    kind, accepts = "same", "float"

    def reference(x, beta=1.0, threshold=20.0):
        return np.where(x * beta > threshold, x, np.logaddexp(0, x * beta) / beta).astype(x.dtype)

    # Above the usual threshold, 20, log(1 + exp(x)) is x to float32's last place, and exp might overflow.
    def forward(x, beta=1.0, threshold=20.0):
        return where(x * beta > threshold, x, log1p(exp(x * beta)) / beta)

    def grad_x(g, x, beta, threshold):
        return where(x * beta > threshold, g, g * sigmoid(x * beta))


class LogSigmoid(Elementwise):
    """``log(sigmoid(x))``."""

    kind, accepts, name, error_name = "same", "float", "logsigmoid", "log_sigmoid_cpu"
    memory_order = "row-major"
    reference = lambda x: -np.logaddexp(0, -x).astype(x.dtype)

    # -log(1 + exp(-x)) with an exponent that is never positive.
    def forward(x):
        return minimum(x, 0) - log1p(exp(-abs(x)))

    def grad_x(g, x):
        return g * sigmoid(-x)


class Hardtanh(Elementwise):
    """``x`` kept between ``min_val`` and ``max_val``; no gradient flows at the bounds."""

    kind, accepts, memory_order = "same", "int float", "copy"
    refuses = {
        "bool": (RuntimeError, "Bool inputs not supported for hardtanh"),
        "complex": (NotImplementedError, "clamp is not supported for complex types"),
    }
    reference = lambda x, min_val=-1.0, max_val=1.0: np.clip(x, x.dtype.type(min_val), x.dtype.type(max_val))

    def forward(x, min_val=-1.0, max_val=1.0):
        return minimum(max_val, maximum(min_val, x))

    def grad_x(g, x, min_val, max_val):
        return constant_in(where((x <= min_val) | (x >= max_val), 0, g), x)


class Hardsigmoid(Elementwise):
    """``x / 6 + 1 / 2`` kept between 0 and 1."""

    kind, accepts = "same", "float"
    reference = lambda x: np.clip(x + 3, 0, 6) / 6

    def forward(x):
        return minimum(maximum(x + 3, 0), 6) / 6

    def grad_x(g, x):
        return constant_in(where((x > -3) & (x < 3), g / 6, 0), x)


class Hardswish(Elementwise):
    """``x`` times its hard sigmoid."""

    kind, accepts = "same", "float"
    reference = lambda x: x * np.clip(x + 3, 0, 6) / 6

    def forward(x):
        return x * minimum(maximum(x + 3, 0), 6) / 6

    # The derivative of x (x + 3) / 6 is x / 3 + 1 / 2.
    def grad_x(g, x):
        return where(x <= -3, 0, where(x < 3, g * (x / 3 + 0.5), g))


class Threshold(Elementwise):
    """``x`` where it is above ``threshold``, else ``value``."""

    kind, accepts, allows_internal_overlap = "same", "int float", True
    reference = lambda x, threshold=0.5, value=2.0: np.where(x <= threshold, x.dtype.type(value), x)

    def forward(x, threshold=0.5, value=2.0):
        return where(x <= threshold, value, x)

    def grad_x(g, x, threshold):
        return constant_in(where(x <= threshold, 0, g), x)


class Softshrink(Elementwise):
    """``x`` moved towards 0 by ``lambd``, 0 within that distance."""

    kind, accepts, error_name = "same", "float", "softshrink_check"
    reference = lambda x, lambd=0.5: np.sign(x) * np.maximum(np.abs(x) - lambd, 0).astype(x.dtype)

    # x * 0 rather than 0: NaN stays NaN.
    def forward(x, lambd=0.5):
        return where(x > lambd, x - lambd, where(x < -lambd, x + lambd, x * 0))

    def grad_x(g, x, lambd):
        return constant_in(where((x >= -lambd) & (x <= lambd), 0, g), x)


class Hardshrink(Elementwise, public=True):
    """``x``, but 0 within ``lambd`` of 0."""

    in_place = False
    kind, accepts, rounds = "same", "float", ("lambd",)
    reference = lambda x, lambd=0.5: np.where(np.abs(x) <= lambd, x.dtype.type(0), x)

    def forward(x, lambd=0.5):
        return where((x >= -lambd) & (x <= lambd), 0, x)

    def grad_x(g, x, lambd):
        return constant_in(where((x >= -lambd) & (x <= lambd), 0, g), x)
