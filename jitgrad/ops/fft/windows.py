"""Windows: ``jitgrad.hann_window`` and its kin, and those of ``jitgrad.signal.windows``.

A periodic window is a symmetric one of one element more, without its last: for spectra of frames that overlap.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.errors import cpp_type, not_implemented_for
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import float_argument, int_argument
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops.windows import kaiser as kaiser_kernel
from jitgrad.ops.creation.constants import as_dtype, finished, new
from jitgrad.ops.creation.fill import fill_
from jitgrad.ops.creation.from_data import tensor
from jitgrad.ops.creation.ranges import arange, linspace

__all__: list[str] = []


# -- jitgrad.NAME_window ----------------------------------------------------------------------------------


def _ones(n: int, dtype: dtypes.dtype, device: Any) -> Tensor:
    return fill_(new(dtype, (n,), device), 1)


def _made(op: str, n: Any, periodic: bool, formula: Callable[[int, int, dtypes.dtype, Any], Tensor], dtype: Any,
          device: Any, requires_grad: bool) -> Tensor:  # fmt: skip
    """``formula(n, steps, dtype, device)``: n elements of a symmetric window of ``steps`` + 1."""
    n = int_argument(op, "window_length", 1, n)
    chosen = as_dtype(op, dtype) or dtypes.get_default_dtype()
    if chosen.category < 2:
        title = cpp_type(chosen)
        raise RuntimeError(
            f"{op} expects floating point dtypes, got: TensorOptions(dtype={title}, device=cpu, "
            "layout=Strided (default), requires_grad=false (default), pinned_memory=false, memory_format=(nullopt))"
        )
    if n < 0:
        raise RuntimeError(f"{op} requires non-negative window_length, got window_length={n}")
    if chosen.is_complex:
        raise not_implemented_for("arange_cpu", chosen)
    made = _ones(n, chosen, device) if n < 2 else formula(n, n if periodic else n - 1, chosen, device)
    return finished(op, made, requires_grad)


def _cosines(n: int, steps: int, dtype: dtypes.dtype, device: Any, *weights: float) -> Tensor:
    """The sum of weights[j] cos(2 pi j k / steps)."""
    angles = arange(n, dtype=dtype, device=device).mul_(2 * math.pi / steps)
    more = (angles * 2).cos_().mul_(weights[2]) if len(weights) > 2 else None
    out = angles.cos_().mul_(weights[1]).add_(weights[0])
    return out if more is None else out.add_(more)


def hann_window(window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None,
                device: Any = None, pin_memory: bool = False, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Window sin(pi k / N)^2: N is window_length, or one less if not ``periodic``."""
    formula = lambda *given: _cosines(*given, 0.5, -0.5)
    return _made("hann_window", window_length, periodic, formula, dtype, device, requires_grad)


def hamming_window(window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *,
                   dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
                   requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Window alpha - beta cos(2 pi k / N): N is window_length, or one less if not ``periodic``."""
    formula = lambda *given: _cosines(*given, alpha, -beta)
    return _made("hamming_window", window_length, periodic, formula, dtype, device, requires_grad)


def blackman_window(window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None,
                    device: Any = None, pin_memory: bool = False, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Window 0.42 - 0.5 cos(2 pi k / N) + 0.08 cos(4 pi k / N): N is window_length, or one less."""
    formula = lambda *given: _cosines(*given, 0.42, -0.5, 0.08)
    return _made("blackman_window", window_length, periodic, formula, dtype, device, requires_grad)


def bartlett_window(window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None,
                    device: Any = None, pin_memory: bool = False, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Window 1 - |2 k / N - 1|, a triangle: N is window_length, or one less if not ``periodic``."""
    formula = lambda n, steps, *where: 1 - (table.mul(_counted(n, *where), 2 / steps) - 1).abs()
    return _made("bartlett_window", window_length, periodic, formula, dtype, device, requires_grad)


def _counted(n: int, dtype: dtypes.dtype, device: Any) -> Tensor:
    return arange(n, dtype=dtype, device=device)


def _kaiser(n: int, steps: int, dtype: dtypes.dtype, device: Any, beta: float) -> Tensor:
    out = new(dtype, (n,), device)
    launch(kaiser_kernel, out._data, steps, np.array([beta]))
    return out


def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None,
                  layout: Any = None, device: Any = None, pin_memory: bool = False,
                  requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Window I0(beta sqrt(1 - (2 k / N - 1)^2)) / I0(beta), I0 Bessel's function: N is window_length, or one less."""
    beta = float_argument("kaiser_window", "beta", 3, beta)
    formula = functools.partial(_kaiser, beta=beta)
    return _made("kaiser_window", window_length, periodic, formula, dtype, device, requires_grad)


for _function in (hann_window, hamming_window, blackman_window, bartlett_window, kaiser_window):
    public(_function, method_too=False)


# -- jitgrad.signal.windows -------------------------------------------------------------------------------


def _signal(name: str, M: int, dtype: Any, layout: Any) -> dtypes.dtype:
    """The dtype of a window; ValueError for what PyTorch's checks refuse."""
    chosen = as_dtype(name, dtype) or dtypes.get_default_dtype()
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not None and str(layout) != "torch.strided":
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if chosen.name not in ("float32", "float64"):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {chosen}")
    return chosen


def _line(M: int, start: float, step: float, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    """``M`` numbers from start * step on, ``step`` apart."""
    return linspace(start * step, (start + (M - 1)) * step, M, dtype=dtype, device=device, requires_grad=requires_grad)


def _constant(M: int, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    """What all windows of less than two elements are: ones."""
    return finished("ones", _ones(M, dtype, device), requires_grad)


def exponential(M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: Any = None,
                layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Window exp(-|k - center| / tau); ``sym`` False for a periodic one."""
    chosen = _signal("exponential", M, dtype, layout)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    if M == 0:
        return _constant(0, chosen, device, requires_grad)
    middle = (M if not sym and M > 1 else M - 1) / 2 if center is None else center
    return (-_line(M, -middle, 1 / tau, chosen, device, requires_grad).abs()).exp()


def cosine(M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None,
           requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Window sin(pi (k + 1/2) / M), half a wave; ``sym`` False for a periodic one."""
    chosen = _signal("cosine", M, dtype, layout)
    if M == 0:
        return _constant(0, chosen, device, requires_grad)
    step = math.pi / (M + 1 if not sym and M > 1 else M)
    return _line(M, 0.5, step, chosen, device, requires_grad).sin()


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, dtype: Any = None, layout: Any = None,
             device: Any = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Window exp(-(k - middle)^2 / (2 std^2)); ``sym`` False for a periodic one."""
    chosen = _signal("gaussian", M, dtype, layout)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    if M == 0:
        return _constant(0, chosen, device, requires_grad)
    start, step = -(M if not sym and M > 1 else M - 1) / 2, 1 / (std * math.sqrt(2))
    return (-(_line(M, start, step, chosen, device, requires_grad) ** 2)).exp()


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, dtype: Any = None, layout: Any = None,
           device: Any = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Window I0(beta sqrt(1 - (2 k / N - 1)^2)) / I0(beta): N is M - 1, or M if not ``sym``."""
    chosen = _signal("kaiser", M, dtype, layout)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    if M < 2:
        return _constant(M, chosen, device, requires_grad)
    return finished("kaiser", _kaiser(M, M - 1 if sym else M, chosen, device, float(beta)), requires_grad)


def bartlett(M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None,
             requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Window 1 - |2 k / N - 1|, a triangle: N is M - 1, or M if not ``sym``."""
    chosen = _signal("bartlett", M, dtype, layout)
    if M < 2:
        return _constant(M, chosen, device, requires_grad)
    step = 2 / (M - 1 if sym else M)
    line = linspace(-1, -1 + (M - 1) * step, M, dtype=chosen, device=device, requires_grad=requires_grad)
    return 1 - line.abs()


def general_cosine(M: int, *, a: Any, sym: bool = True, dtype: Any = None, layout: Any = None,
                   device: Any = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Window of cosines: the sum of (-1)^j a[j] cos(2 pi j k / N): N is M - 1, or M if not ``sym``."""
    chosen = _signal("general_cosine", M, dtype, layout)
    if M < 2:
        return _constant(M, chosen, device, requires_grad)
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    if not a:
        raise ValueError("Coefficients cannot be empty")
    line = _line(M, 0, 2 * math.pi / (M - 1 if sym else M), chosen, device, requires_grad)
    signed = [(-1) ** j * w for j, w in enumerate(a)]
    weights = tensor(signed, dtype=chosen, device=device, requires_grad=requires_grad)
    counts = arange(len(signed), dtype=chosen, device=device)
    return (weights.unsqueeze(-1) * (counts.unsqueeze(-1) * line).cos()).sum(0)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Any = None, layout: Any = None,
                    device: Any = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Window alpha - (1 - alpha) cos(2 pi k / N): N is M - 1, or M if not ``sym``."""
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, dtype=dtype, layout=layout, device=device,
                          requires_grad=requires_grad)  # fmt: skip


def _of_cosines(name: str, *weights: float) -> None:
    """Publish the window ``name`` of cosines of these weights."""

    def window(M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None,
               requires_grad: bool = False) -> Tensor:  # fmt: skip
        chosen = _signal(name if name == "blackman" else "general_cosine", M, dtype, layout)
        return general_cosine(M, a=weights, sym=sym, dtype=chosen, device=device, requires_grad=requires_grad)

    window.__name__ = window.__qualname__ = name
    window.__doc__ = f"Window of cosines with the weights {', '.join(map(str, weights))}; see ``general_cosine``."
    public(window, module="signal.windows")


for _window in (exponential, cosine, gaussian, kaiser, bartlett, general_cosine, general_hamming):
    public(_window, module="signal.windows")
_of_cosines("hamming", 0.54, 0.46)
_of_cosines("hann", 0.5, 0.5)
_of_cosines("blackman", 0.42, 0.5, 0.08)
_of_cosines("nuttall", 0.3635819, 0.4891775, 0.1365995, 0.0106411)
