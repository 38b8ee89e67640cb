"""Jacobians for gradcheck: by central differences, by backward or by forward mode; whole, or along random vectors.

A Jacobian has a row for each element of an input and a column for each element of an output: (numel of input, numel
of output). Of a complex input and a real output the entry is PyTorch's gradient, d/dx + i d/dy for the input x + iy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from jitgrad.autograd.backward import grad
from jitgrad.autograd.forward_ad import dual_level, make_dual, unpack_dual
from jitgrad.autograd.gradcheck_error import GradcheckError
from jitgrad.core.tensor import Tensor
from jitgrad.ops.creation.constants import zeros, zeros_like
from jitgrad.ops.random.sampling import rand
from jitgrad.ops.shape.join import stack
from jitgrad.random import Generator

__all__ = [
    "Function",
    "as_tuple",
    "backward",
    "backward_along",
    "forward",
    "forward_along",
    "inputs_requiring_grad",
    "numerical",
    "numerical_along",
    "outputs_requiring_grad",
    "projections",
    "sum_of_entries",
]  # fmt: skip

Function = Callable[..., Any]
Vector = Any  # a tensor; of a complex input (real, imaginary)


def as_tuple(value: Any) -> tuple[Any, ...]:
    """What a function takes or returns, as a tuple."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def outputs_requiring_grad(outputs: Any) -> tuple[Tensor, ...]:
    """The outputs that require grad."""
    return tuple([o for o in as_tuple(outputs) if o.requires_grad])


def inputs_requiring_grad(inputs: Sequence[Any]) -> list[tuple[int, Tensor]]:
    """(position, input) of the inputs that require grad, which are those that are checked."""
    return [(k, x) for k, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]


def _floating(outputs: Any) -> list[Tensor]:
    """The outputs of floating point or complex numbers."""
    return [o for o in as_tuple(outputs) if o.dtype.category >= 2]


# -- by differences -----------------------------------------------------------------------------------


def _difference(
    func: Function, inputs: tuple[Any, ...], data: Tensor, place: Any, step: Any, eps: float, about: str
) -> list[Tensor]:
    """(f(x + step) - f(x - step)) / (2 eps) of each output, flat; ``step`` is added to ``data[place]``.

    ``data`` is the memory of one of ``inputs``: it is written to and restored.
    """
    before, ends = data[place].clone(), []
    try:
        for moved in (before - step, before + step):
            data[place] = moved
            ends.append([o.detach().clone() for o in as_tuple(func(*inputs))])
    finally:
        data[place] = before
    found = []
    for low, high in zip(*ends, strict=True):
        for what in ("shape", "dtype"):
            if getattr(low, what) != getattr(high, what):
                raise AssertionError(
                    f"Expected `func` to return outputs with the same {what} when inputs are perturbed {about}by "
                    f"{eps}, but got: {what}s {getattr(low, what)} and {getattr(high, what)}."
                )
        if low.dtype.category >= 2:
            found.append(((high - low) / (2 * eps)).reshape(-1))
    return found


def numerical(func: Function, inputs: tuple[Any, ...], k: int, eps: float, forward: bool = False) -> list[Tensor]:
    """The Jacobian of each floating point output with respect to input ``k``."""
    x = inputs[k]
    data, rows = x.data, []
    for index in product(*[range(n) for n in x.shape]):
        about = f"on index {index} "
        row = _difference(func, inputs, data, index, eps, eps, about)
        if x.dtype.is_complex:  # d/dx + i d/dy needs a step along the imaginary axis too
            other = _difference(func, inputs, data, index, eps * 1j, eps, about)
            row = [a + b * 1j for a, b in zip(row, other, strict=True)]
        rows.append(row)
    outputs = _floating(func(*inputs)) if not rows else ()
    if outputs:
        return [zeros((0, o.numel()), dtype=o.dtype) for o in outputs]
    return [stack(list(columns)) for columns in zip(*rows, strict=True)]


def numerical_along(func: Function, inputs: tuple[Any, ...], k: int, u: Vector, check: Any) -> list[Tensor]:
    """The derivative of each floating point output along ``u``, a change of input ``k``."""
    x = inputs[k]
    real, imag = u if isinstance(u, tuple) else (u, None)
    found = _difference(func, inputs, x.data, ..., real.reshape(x.shape) * check.eps, check.eps, "")
    if imag is None:
        return found
    other = _difference(func, inputs, x.data, ..., imag.reshape(x.shape) * (check.eps * 1j), check.eps, "")
    return [a + b * 1j for a, b in zip(found, other, strict=True)]


# -- by backward --------------------------------------------------------------------------------------


def backward(inputs: tuple[Any, ...], output: Tensor, nondet_tol: float, dtypes: bool) -> list[Tensor]:
    """The Jacobian of ``output`` with respect to each input, by backward from each of its elements; checked."""
    ones = []
    for j in range(output.numel()):
        one = zeros(output.numel(), dtype=output.dtype, device=output.device)
        one[j] = 1
        ones.append(one.reshape(output.shape))
    return _backward_columns(inputs, output, ones, nondet_tol, dtypes)


def backward_along(
    inputs: tuple[Any, ...], output: Tensor, v: Tensor, us: Sequence[Vector], nondet_tol: float, dtypes: bool
) -> list[Tensor]:
    """v J u for each input: one number each."""
    found = _backward_columns(inputs, output, [v.reshape(output.shape)], nondet_tol, dtypes)
    results = []
    for row, u in zip(found, us, strict=True):
        row = row.reshape(-1)
        results.append((row.real * u[0]).sum() + (row.imag * u[1]).sum() * 1j if isinstance(u, tuple)
                       else (row * u).sum())  # fmt: skip
    return results


def _backward_columns(
    inputs: tuple[Any, ...], output: Tensor, seeds: list[Tensor], nondet_tol: float, dtypes: bool
) -> list[Tensor]:
    """For each input a matrix with the gradient from each seed as a column; run twice, both must agree."""
    wanted = [x for _, x in inputs_requiring_grad(inputs)]
    first, second = (
        [grad(output, wanted, seed, retain_graph=True, allow_unused=True) for seed in seeds] for _ in range(2)
    )
    result = []
    for k, x in enumerate(wanted):
        columns = [row[k] for row in first]
        if dtypes and any(c is not None and c.dtype != x.dtype for c in columns):
            raise GradcheckError("Gradient has dtype mismatch")
        if any(c is not None and c.shape != x.shape for c in columns):
            raise GradcheckError("Analytical gradient has incorrect size")
        jacobian, again = _columns(x, columns), _columns(x, [row[k] for row in second])
        if jacobian.numel() and bool(((jacobian - again).abs() > nondet_tol).any()):
            raise GradcheckError(
                "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times "
                "gives different values, although analytical gradient matches numerical gradient.The tolerance for "
                f"nondeterminism was {nondet_tol}.\n\nNOTE: If your op relies on non-deterministic operations, pass "
                "nondet_tol=<how far its gradients may differ>."
            )
        result.append(jacobian)
    return result


def _columns(x: Tensor, columns: Sequence[Tensor | None]) -> Tensor:
    """A matrix of gradients of ``x`` as columns, zeros for None."""
    jacobian = zeros((x.numel(), len(columns)), dtype=x.dtype, device=x.device)
    for j, column in enumerate(columns):
        if column is not None:
            jacobian[:, j] = column.reshape(-1)
    return jacobian


# -- by forward mode ----------------------------------------------------------------------------------


def forward(func: Function, inputs: tuple[Any, ...], dtypes: bool) -> list[list[Tensor]]:
    """For each input the Jacobian of each floating point output, a row for each tangent of one element."""
    result = []
    for k, x in inputs_requiring_grad(inputs):
        rows = []
        for j in range(x.numel()):
            one = zeros(x.numel(), dtype=x.dtype, device=x.device)
            one[j] = 1
            rows.append(forward_along(func, inputs, k, one, dtypes))
        if rows:
            result.append([stack(list(column)) for column in zip(*rows, strict=True)])
        else:
            result.append([zeros((0, o.numel()), dtype=o.dtype) for o in _floating(func(*inputs))])
    return result


def forward_along(func: Function, inputs: tuple[Any, ...], k: int, u: Tensor, dtypes: bool) -> list[Tensor]:
    """The tangent of each floating point output where input ``k`` has tangent ``u``, other inputs zeros."""
    wanted = [place for place, _ in inputs_requiring_grad(inputs)]
    with dual_level():
        duals = [
            make_dual(x.detach(), u.reshape(x.shape) if place == k else zeros_like(x))
            if place in wanted else x
            for place, x in enumerate(inputs)
        ]  # fmt: skip
        found = []
        for output in _floating(func(*duals)):
            primal, tangent = unpack_dual(output)
            if dtypes and tangent is not None and primal.dtype.is_complex != tangent.dtype.is_complex:
                raise GradcheckError("Forward AD gradient has dtype mismatch.")
            tangent = zeros_like(primal) if tangent is None else tangent
            found.append(tangent.detach().reshape(-1))
    return found


# -- random vectors -----------------------------------------------------------------------------------


def projections(inputs: tuple[Any, ...], outputs: Sequence[Tensor]) -> tuple[list[Vector], list[Tensor]]:
    """Random vectors of length 1, not negative, like each input that is checked and each output.

    Drawn from a generator of their own, so that the user's random numbers do not change.
    """
    source = Generator()
    us = [
        (_unit(x, source), _unit(x, source)) if x.dtype.is_complex else _unit(x, source)
        for _, x in inputs_requiring_grad(inputs)
    ]
    return us, [_unit(o, source).to(o.dtype) for o in outputs]


def _unit(x: Tensor, source: Generator) -> Tensor:
    """A real random vector of length 1 with as many elements as ``x``, none negative."""
    values = rand(x.numel(), generator=source).to(x.dtype.to_real())
    return (values / (values * values).sum().sqrt()).to(x.device)


def sum_of_entries(u: Vector) -> float:
    """The sum of a vector: a projection's tolerance is that of an entry times this sum."""
    return sum(part.sum().item() for part in (u if isinstance(u, tuple) else (u,)))
