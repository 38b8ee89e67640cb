"""The comparisons that gradcheck makes, and the function that gradgradcheck hands to it.

gradcheck_jacobians.py computes the two sides that are compared, gradcheck_properties.py checks what else a correct
gradient must satisfy.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jitgrad.autograd import gradcheck_jacobians as jacobians
from jitgrad.autograd import gradcheck_properties as properties
from jitgrad.autograd.backward import grad
from jitgrad.autograd.gradcheck_error import GradcheckError
from jitgrad.autograd.gradcheck_jacobians import Function, as_tuple, outputs_requiring_grad
from jitgrad.core.dtypes import promote_types
from jitgrad.core.tensor import Tensor
from jitgrad.ops.creation.constants import empty, empty_like
from jitgrad.ops.pointwise.complex import Complex
from jitgrad.ops.reduction.any_all import allclose
from jitgrad.ops.shape.complex_view import imag, real

__all__ = [
    "Check", "check_backward", "check_forward", "check_inputs", "check_properties", "compare_entries",
    "compare_projections", "gradient_of", "random_gradients",
]  # fmt: skip


@dataclass(frozen=True)
class Check:
    """How one comparison is done.

    complex_places: the numbers of complex outputs (in forward mode inputs) of which one part is checked at a time.
    part: which, "real" or "imaginary".
    """

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    dtypes: bool
    forward: bool = False
    complex_places: Sequence[int] = field(default=())
    part: str = "real"

    def in_forward_mode(self) -> Check:
        """The same comparison, of Jacobians that forward mode has computed."""
        return replace(self, forward=True)

    def mismatch(self, analytical: Tensor, numerical: Tensor, output: int, k: int) -> str:
        """The error message for Jacobians that differ."""
        what, mode = ("inputs", "computed with forward mode ") if self.forward else ("outputs", "")
        split = (k if self.forward else output) in self.complex_places
        prefix = f"While considering the {self.part} part of complex {what} only, " if split else ""
        return (
            f"{prefix}Jacobian {mode}mismatch for output {output} with respect to input {k},\n"
            f"numerical:{numerical}\nanalytical:{analytical}\n"
        )

    def close(self, analytical: Tensor, numerical: Tensor, atol: float | None = None) -> bool:
        """Whether both sides agree by ``allclose``, in the dtype that they promote to."""
        dtype = promote_types(analytical.dtype, numerical.dtype)
        a, n = analytical.to(dtype), numerical.to(dtype)
        return bool(allclose(a, n, self.rtol, self.atol if atol is None else atol))


def check_properties(func: Function, inputs: tuple[Any, ...], batched: bool, undefined: bool) -> None:
    """Check what gradcheck_properties.py has for backward; ``batched`` and ``undefined`` are options of gradcheck."""
    outputs = outputs_requiring_grad(func(*inputs))
    if batched:
        for number, output in enumerate(outputs):
            properties.check_batched_grad(inputs, output, number)
    properties.check_multiplied_by_grad_output(outputs, inputs)
    if undefined:
        properties.check_undefined_grad(func, inputs)


def check_inputs(inputs: tuple[Any, ...]) -> None:
    """ValueError without an input that requires grad, RuntimeError for one whose elements overlap."""
    for k, x in jacobians.inputs_requiring_grad(inputs):
        if x.dtype.name not in ("float64", "complex128"):
            warnings.warn(
                f"Input #{k} requires gradient and is not a double precision floating point or complex. This check "
                "will likely fail if all the inputs are not of double precision floating point or complex. ",
                UserWarning, stacklevel=3,
            )  # fmt: skip
        if not all(s > 0 or n <= 1 for s, n in zip(x.stride(), x.shape, strict=True)):
            raise RuntimeError(
                f"The {k}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping to be able to compute the numerical gradients correctly. You should call .contiguous "
                "on the input before passing it to gradcheck."
            )
    if not jacobians.inputs_requiring_grad(inputs):
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have "
            "requires_grad=True."
        )


# -- complex numbers ----------------------------------------------------------------------------------


def check_backward(func: Function, inputs: tuple[Any, ...], compare: Any, check: Check) -> None:
    """Compare Jacobians by backward; of complex outputs first the imaginary parts, then the real ones."""
    outputs = as_tuple(func(*inputs))
    if not any(o.dtype.is_complex for o in outputs):
        compare(func, inputs, check)
        return
    places = [k for k, o in enumerate(outputs_requiring_grad(outputs)) if o.dtype.is_complex]
    for part in ("imaginary", "real"):
        compare(_real_or_imaginary_outputs(func, part), inputs, replace(check, complex_places=places, part=part))


def _real_or_imaginary_outputs(func: Function, part: str) -> Function:
    take = imag if part == "imaginary" else real
    return lambda *inputs: tuple([take(o) if o.dtype.is_complex else o for o in as_tuple(func(*inputs))])


def check_forward(func: Function, inputs: tuple[Any, ...], compare: Any, check: Check, undefined: bool) -> None:
    """Compare Jacobians by forward mode; by complex inputs first their imaginary parts, then the real ones."""
    places = [k for k, x in enumerate(inputs) if isinstance(x, Tensor) and x.dtype.is_complex]
    runs = [(func, inputs, check)]
    if places:
        runs = [
            (*_real_or_imaginary_inputs(func, inputs, places, part), replace(check, complex_places=places, part=part))
            for part in ("imaginary", "real")
        ]
    for function, arguments, options in runs:
        compare(function, arguments, options)
    if undefined:
        for function, arguments, _ in runs:
            properties.check_undefined_tangents(function, arguments)


def _real_or_imaginary_inputs(func: Function, inputs: tuple[Any, ...], places: list[int], part: str) -> tuple[Any, Any]:
    """(``func`` as a function of one part of its complex inputs, the other part fixed; the values of that part)."""

    def function(*given: Any) -> Any:
        full = list(given)
        for k in places:
            other = inputs[k]
            full[k] = other.real + given[k] * 1j if part == "imaginary" else given[k] + other.imag * 1j
        return func(*full)

    take = imag if part == "imaginary" else real
    return function, tuple([take(x) if k in places else x for k, x in enumerate(inputs)])


# -- comparing ----------------------------------------------------------------------------------------


def compare_entries(func: Function, inputs: tuple[Any, ...], check: Check) -> None:
    """Compare whole Jacobians, entry by entry."""
    every = as_tuple(func(*inputs))
    outputs = outputs_requiring_grad(every)
    wanted = [k for k, _ in jacobians.inputs_requiring_grad(inputs)]
    numerical = [jacobians.numerical(func, inputs, k, check.eps, check.forward) for k in wanted]
    if not outputs:
        _expect_zero(numerical)
        return
    # ``numerical`` has the outputs of floating point numbers, ``outputs`` those of them that require grad.
    numbers = [n for n, o in enumerate(o for o in every if o.dtype.category >= 2) if o.requires_grad]
    forward = jacobians.forward(func, inputs, check.dtypes) if check.forward else None
    for i, number in enumerate(numbers):
        analytical = (
            [f[number] for f in forward] if forward is not None
            else jacobians.backward(inputs, outputs[i], check.nondet_tol, check.dtypes)
        )  # fmt: skip
        for k, a in enumerate(analytical):
            if not check.close(a, numerical[k][number]):
                raise GradcheckError(check.mismatch(a, numerical[k][number], i, k))


def _expect_zero(numerical: Sequence[Sequence[Tensor]], tolerance: float = 0.0) -> None:
    if any(j.numel() and (j.abs() > tolerance).any() for each in numerical for j in each):
        raise GradcheckError("Numerical gradient for function expected to be zero")


def compare_projections(func: Function, inputs: tuple[Any, ...], check: Check) -> None:
    """Compare one number of each Jacobian, v J u for random vectors; in forward mode the vector J u."""
    every = as_tuple(func(*inputs))
    outputs = outputs_requiring_grad(every)
    us, vs = jacobians.projections(inputs, () if check.forward else outputs)
    wanted = [k for k, _ in jacobians.inputs_requiring_grad(inputs)]
    numerical = [jacobians.numerical_along(func, inputs, k, u, check) for k, u in zip(wanted, us, strict=True)]
    if not outputs and not check.forward:
        _expect_zero(numerical, check.nondet_tol)
        return
    # ``numerical`` has the outputs of floating point numbers, ``outputs`` those of them that require grad.
    numbers = [n for n, o in enumerate(o for o in every if o.dtype.category >= 2) if o.requires_grad]
    for i, number in enumerate(numbers):
        if check.forward:
            analytical = [jacobians.forward_along(func, inputs, k, u, check.dtypes)[number]
                          for k, u in zip(wanted, us, strict=True)]  # fmt: skip
            found = [n[number] for n in numerical]
        else:
            analytical = jacobians.backward_along(inputs, outputs[i], vs[i], us, check.nondet_tol, check.dtypes)
            found = [(n[number] * vs[i]).sum() for n in numerical]
        for k, (a, n) in enumerate(zip(analytical, found, strict=True)):
            weight = jacobians.sum_of_entries(us[k]) * (1.0 if check.forward else vs[i].sum().item())
            if not check.close(a, n, check.atol * weight):
                raise GradcheckError(check.mismatch(a, n, i, k) + _slow_mode_text(func, inputs, k, i, number, check))


_FAST = (
    "\nThe above quantities relating the numerical and analytical jacobians are computed \nin fast mode. See: "
    "https://github.com/pytorch/pytorch/issues/53876 for more background \nabout fast mode. Below, we recompute "
    "numerical and analytical jacobians in slow mode:\n\n"
)
_WOULD_PASS = (
    "Fast gradcheck failed but element-wise differences are small. This means that the\ntest might've passed in "
    "slow_mode!\nPass fast_mode=False to compare entry by entry."
)


def _slow_mode_text(func: Function, inputs: tuple[Any, ...], k: int, output: int, number: int, check: Check) -> str:
    """The result of comparing entry by entry, which is added to the error message of fast mode."""
    place = jacobians.inputs_requiring_grad(inputs)[k][0]
    numerical = jacobians.numerical(func, inputs, place, check.eps, check.forward)[number]
    if check.forward:
        analytical = jacobians.forward(func, inputs, False)[k][number]
    else:
        analytical = jacobians.backward(inputs, outputs_requiring_grad(func(*inputs))[output], float("inf"), False)[k]
    return (
        f"{_FAST}Numerical:\n {numerical}\nAnalytical:\n{analytical}\n\n"
        f"The max per-element difference (slow mode) is: {(numerical - analytical).abs().max()}.\n"
        + (_WOULD_PASS if check.close(analytical, numerical) else "")
    )


# -- second order -------------------------------------------------------------------------------------


def gradient_of(func: Function, inputs: tuple[Any, ...], given: tuple[Any, ...]) -> Callable[..., Any]:
    """The gradient of ``func`` as a function of its inputs and of the gradients of its outputs."""
    count = len(inputs)
    wanted = [k for k, x in enumerate((*inputs, *given)) if isinstance(x, Tensor) and x.requires_grad]

    def gradient(*values: Any) -> tuple[Tensor, ...]:
        # In forward mode gradcheck passes dual tensors of detached values.
        full = [v.requires_grad_() if k in wanted else v for k, v in enumerate(values)]
        outputs = outputs_requiring_grad(func(*full[:count]))
        found = grad(
            outputs, [full[k] for k in wanted if k < count], full[count:], create_graph=True, allow_unused=True
        )
        return tuple([g for g in found if g is not None])

    return gradient


def random_gradients(outputs: Sequence[Tensor], gaps: bool) -> tuple[Tensor, ...]:
    """A random tensor in (-1, 1) per output; ``gaps``: not contiguous, every second element of a larger one."""
    made = []
    for o in outputs:
        shape = (*o.shape[:-1], 2 * o.shape[-1]) if gaps and o.shape else o.shape
        values = empty(shape, dtype=o.dtype.to_real(), device=o.device).uniform_(-1, 1)
        if o.dtype.is_complex:
            values = Complex.apply(values, empty_like(values).uniform_(-1, 1))
        made.append((values[..., ::2] if gaps and o.shape else values).requires_grad_())
    return tuple(made)
