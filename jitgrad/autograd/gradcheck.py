"""Gradients against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ops.registry import FUNCTIONS
from ..tensor import Tensor
from .backward import grad
from .grad_mode import no_grad

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]

Function = Callable[..., Any]


class GradcheckError(RuntimeError):
    """Numerical and analytical gradients differ."""


def gradcheck(
    func: Function, inputs: Any, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:  # fmt: skip
    """Compare the Jacobians of ``func`` with central differences, entry by entry.

    ``inputs``: a tensor or tuple; those that require grad should be float64 or complex128. Returns
    True, or raises GradcheckError (returns False without ``raise_exception``) where an entry
    differs by more than ``atol + rtol |numerical|``. For complex inputs real and imaginary steps
    are taken, and PyTorch's convention for complex gradients is expected.
    """
    arguments = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    try:
        _check(func, list(arguments), eps, atol, rtol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Function, inputs: Any, grad_outputs: Any = None, *, eps: float = 1e-6, atol: float = 1e-5,
    rtol: float = 1e-3, raise_exception: bool = True, seed: int = 0,
) -> bool:  # fmt: skip
    """Check second derivatives: gradcheck of the gradient, as a function of inputs and grad_outputs."""
    arguments = list(inputs if isinstance(inputs, (tuple, list)) else (inputs,))
    rng = np.random.default_rng(seed)
    if grad_outputs is None:
        grad_outputs = [_random_like(o, rng) for o in _outputs(func, arguments)]
    given = list(grad_outputs if isinstance(grad_outputs, (tuple, list)) else (grad_outputs,))
    count = len(arguments)

    def first_order(*values: Any) -> tuple[Tensor, ...]:
        outs = _outputs(func, values[:count])
        wanted = [v for v in values[:count] if isinstance(v, Tensor) and v.requires_grad]
        found = grad(outs, wanted, values[count:], create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None and g.requires_grad)

    return gradcheck(
        first_order, (*arguments, *given), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception
    )


def _outputs(func: Function, arguments: Sequence[Any]) -> list[Tensor]:
    result = func(*arguments)
    found = list(result) if isinstance(result, (tuple, list)) else [result]
    return [o for o in found if isinstance(o, Tensor) and o.dtype.category >= 2 and o.requires_grad]


def _random_like(tensor: Tensor, rng: np.random.Generator) -> Tensor:
    values = rng.standard_normal(tensor.shape)
    if tensor.dtype.is_complex:
        values = values + 1j * rng.standard_normal(tensor.shape)
    return FUNCTIONS["tensor"](values.astype(tensor.dtype.numpy), requires_grad=True)


def _check(func: Function, arguments: list[Any], eps: float, atol: float, rtol: float) -> None:
    checked = [k for k, a in enumerate(arguments) if isinstance(a, Tensor) and a.requires_grad]
    if not checked:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have "
            "requires_grad=True."
        )
    outs = _outputs(func, arguments)
    for number, out in enumerate(outs):
        for k in checked:
            analytical = _analytical(out, arguments[k])
            numerical = _numerical(func, arguments, k, number, eps)
            if not np.allclose(analytical, numerical, rtol, atol, equal_nan=True):
                raise GradcheckError(
                    f"Jacobian mismatch for output {number} with respect to input {k},\n"
                    f"numerical:{numerical}\nanalytical:{analytical}\n"
                )


def _parts(dtype: Any) -> tuple[complex, ...]:
    return (1, 1j) if dtype.is_complex else (1,)


def _analytical(out: Tensor, x: Tensor) -> np.ndarray[Any, Any]:
    """Rows: real (and imaginary) parts of x's elements; columns: the same of the output's."""
    columns = []
    for element in range(out.numel()):
        for part in _parts(out.dtype):
            seed = np.zeros(out.numel(), out.dtype.numpy)
            seed[element] = part
            (g,) = grad(out, x, FUNCTIONS["tensor"](seed.reshape(out.shape)), retain_graph=True, allow_unused=True)
            flat = np.zeros(x.numel(), x.dtype.numpy) if g is None else np.array(g.tolist(), x.dtype.numpy).ravel()
            columns.append(np.concatenate([flat.real, flat.imag]) if x.dtype.is_complex else flat)
    rows = x.numel() * len(_parts(x.dtype))
    return np.stack(columns, axis=1) if columns else np.zeros((rows, 0))


def _numerical(func: Function, arguments: list[Any], k: int, number: int, eps: float) -> np.ndarray[Any, Any]:
    x = arguments[k]
    start = np.array(x.tolist(), x.dtype.numpy).reshape(x.shape)
    rows = []
    for part in _parts(x.dtype):
        for index in np.ndindex(start.shape):
            ends = []
            for sign in (1, -1):
                moved = start.copy()
                moved[index] += sign * eps * part
                ends.append(_value(func, arguments, k, number, moved))
            rows.append((ends[0] - ends[1]) / (2 * eps))
    return np.stack(rows) if rows else np.zeros((0, 0))


def _value(func: Function, arguments: list[Any], k: int, number: int, moved: Any) -> np.ndarray[Any, Any]:
    replaced = [a.detach().clone().requires_grad_(a.requires_grad) if isinstance(a, Tensor) else a for a in arguments]
    with no_grad():
        replaced[k].copy_(FUNCTIONS["tensor"](moved))
    out = _outputs(func, replaced)[number].detach()
    flat = np.array(out.tolist(), out.dtype.numpy).ravel()
    return np.stack([flat.real, flat.imag], axis=1).ravel() if out.dtype.is_complex else flat
