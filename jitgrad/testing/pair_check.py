"""Checks of a kernel_pair: its backward loop against differences of forward, its rule and CUDA loops against these.

``check_pair`` is for tests. With the environment variable ``JITGRAD_CHECK=1`` each pair that has ``example=`` is
checked when it is declared; without it nothing here runs, and declarations test one empty list.

gradcheck decides whether the gradients are right. It knows nothing of names and lines, so what it refuses is compared
again here, entry by entry, to say which gradient is how wrong.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.autograd import gradcheck_jacobians as jacobians
from jitgrad.autograd.backward import grad
from jitgrad.autograd.gradcheck import gradcheck, gradgradcheck
from jitgrad.autograd.gradcheck_error import GradcheckError
from jitgrad.core.grad_mode import enable_grad
from jitgrad.core.tensor import Tensor
from jitgrad.extend.kernel_pair import KernelPair, declaration_observers
from jitgrad.kernels.cuda.provider import is_available
from jitgrad.ops.creation.constants import zeros_like
from jitgrad.ops.creation.ranges import linspace

__all__ = ["check_pair"]

_EPS, _ATOL, _RTOL = 1e-6, 1e-5, 1e-3  # gradcheck's


def check_pair(pair: Any, args: Any = None) -> bool:
    """Check a kernel_pair at ``args``, by default its ``example``; returns True.

    args: a tuple of arguments, or a function that returns one; floating-point tensors are taken as
    float64. Compared are the backward loop with central differences of forward, ``rule`` with the
    backward loop and its own derivative with differences, and the CUDA loops, where there is a GPU,
    with the others. GradcheckError names the first gradient that is wrong, with both numbers and the
    place of the loop. ValueError if there is nothing to check.
    """
    if not isinstance(pair, KernelPair):
        raise TypeError(f"check_pair(): expected a kernel_pair, but got {type(pair).__name__}")
    given = pair.example if args is None else args
    given = given() if callable(given) else given
    if given is None or pair.backward_loop is None:
        missing = "arguments; pass them, or kernel_pair(..., example=(...))" if given is None else "a backward loop"
        raise ValueError(f"check_pair(): {pair.name} lacks {missing}")
    with enable_grad():
        arguments = _leaves(pair, given if isinstance(given, (tuple, list)) else (given,))
        _check_loop(pair, arguments)
        if pair.tensor_rule is not None:
            _check_rule(pair, arguments)
        if pair.cuda[0] is not None and is_available():
            _check_cuda(pair, arguments)
    return True


def _leaves(pair: KernelPair, given: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments in double precision; those with a gradient require grad. ValueError if there are none."""
    found = []
    for name, value in zip(pair.names.inputs, given, strict=False):
        if isinstance(value, Tensor):
            value = value.detach().clone()
            if value.dtype.category >= 2:
                value = value.cdouble() if value.dtype.is_complex else value.double()
                value = value.requires_grad_(name in pair.wanted())
        found.append(value)
    if not any(isinstance(v, Tensor) and v.requires_grad for v in found):
        names = ", ".join(pair.wanted())
        raise ValueError(f"check_pair(): {pair.name} needs a floating-point tensor for one of the inputs {names}")
    return (*found, *given[len(found) :])


def _names(pair: KernelPair, arguments: Sequence[Any]) -> list[str]:
    """The names of the arguments that require grad."""
    return [pair.names.inputs[k] for k, _ in jacobians.inputs_requiring_grad(arguments)]


def _place(function: Any) -> str:
    code = getattr(function, "py_func", function).__code__
    return f"{function.__name__} ({code.co_filename}:{code.co_firstlineno})"


# -- the backward loop ------------------------------------------------------------------------------


def _check_loop(pair: KernelPair, arguments: tuple[Any, ...]) -> None:
    assert pair.backward_loop is not None
    try:
        gradcheck(pair, arguments, eps=_EPS, atol=_ATOL, rtol=_RTOL)
    except GradcheckError as error:
        place = _place(pair.backward_loop.loop.loop.source.function)
        what = _first_wrong(pair, arguments) or str(error)
        raise GradcheckError(f"{pair.name}: wrong gradient in {place}: {what}") from None


def _first_wrong(pair: KernelPair, arguments: tuple[Any, ...]) -> str:
    """What the worst entry of the first wrong Jacobian is; "" where only gradcheck knows, as for complex outputs."""
    every = zip(pair.names.outputs, jacobians.as_tuple(pair(*arguments)), strict=True)
    outputs = [(name, o) for name, o in every if o.dtype.category >= 2]
    if any(o.dtype.is_complex for _, o in outputs):
        return ""
    for k, x in jacobians.inputs_requiring_grad(arguments):
        numerical = jacobians.numerical(pair, arguments, k, _EPS)
        place = [n for n, _ in jacobians.inputs_requiring_grad(arguments)].index(k)
        for (name, o), expected in zip(outputs, numerical, strict=True):
            found = jacobians.backward(arguments, o, float("inf"), False)[place]
            at = _worst(found, expected)
            if at is not None:
                of, to = _entry(name, o, at[1]), _entry(pair.names.inputs[k], x, at[0])
                wanted = f"is {_number(expected[at])} by differences of forward"
                return f"the derivative of {of} with respect to {to} {wanted}, but backward gives {_number(found[at])}"
    return ""


def _worst(found: Tensor, expected: Tensor, atol: float = _ATOL) -> Any:
    """The index of the entry that differs most from what is expected; None if none differs too much."""
    a, b = np.asarray(found.detach().cpu().numpy()), np.asarray(expected.detach().cpu().numpy())
    excess = np.abs(a - b) - (atol + _RTOL * np.abs(b))
    excess = np.where(np.isnan(excess) & ~(np.isnan(a) & np.isnan(b)), np.inf, excess)
    if not excess.size or not (excess > 0).any():
        return None
    return tuple(int(n) for n in np.unravel_index(np.argmax(excess), excess.shape))


def _entry(name: str, tensor: Tensor, flat: int) -> str:
    """``x[1, 2]`` for the flat index of an element."""
    indices = ", ".join(str(int(n)) for n in np.unravel_index(flat, tensor.shape))
    return f"{name}[{indices or '()'}]"


def _number(value: Tensor) -> str:
    return f"{value.item():.6g}"


# -- the rule, and the CUDA loops ---------------------------------------------------------------------


def _check_rule(pair: KernelPair, arguments: tuple[Any, ...]) -> None:
    place = f"rule {_place(pair.tensor_rule)}"
    seeds = _seeds(jacobians.outputs_requiring_grad(pair(*arguments)))
    by_loop, by_rule = (_gradients(pair, arguments, seeds, create_graph) for create_graph in (False, True))
    _compare(pair, _names(pair, arguments), by_rule, by_loop, place, "the backward loop")
    try:
        gradgradcheck(pair, arguments, seeds, eps=_EPS, atol=_ATOL, rtol=_RTOL)
    except GradcheckError as error:
        raise GradcheckError(f"{pair.name}: wrong derivative of {place}: {error}") from None


def _check_cuda(pair: KernelPair, arguments: tuple[Any, ...]) -> None:
    moved = [v.detach().cuda().requires_grad_(v.requires_grad) if isinstance(v, Tensor) else v for v in arguments]
    expected, found = jacobians.as_tuple(pair(*arguments)), jacobians.as_tuple(pair(*moved))
    _compare(pair, pair.names.outputs, found, expected, _place(pair.cuda[0]), "forward", "")
    if pair.cuda[1] is None:
        return
    seeds = _seeds(jacobians.outputs_requiring_grad(expected))
    by_loop = _gradients(pair, arguments, seeds, False)
    by_cuda = _gradients(pair, moved, [s.detach().cuda() for s in seeds], False)
    _compare(pair, _names(pair, arguments), by_cuda, by_loop, _place(pair.cuda[1]), "the backward loop")


def _seeds(outputs: Sequence[Tensor]) -> list[Tensor]:
    """Gradients of the outputs, all entries different; not random, so as to leave the user's random numbers alone."""
    made = [linspace(0.5, 1.5, o.numel(), dtype=o.dtype, device=o.device).reshape(o.shape) for o in outputs]
    return [g.requires_grad_() for g in made]


def _gradients(pair: KernelPair, arguments: Sequence[Any], seeds: Sequence[Tensor], create_graph: bool) -> list[Tensor]:
    """The gradients of the arguments that require grad, zeros for None."""
    leaves = [x for _, x in jacobians.inputs_requiring_grad(arguments)]
    outputs = jacobians.outputs_requiring_grad(pair(*arguments))
    found = grad(outputs, leaves, [s.detach() for s in seeds], create_graph=create_graph, allow_unused=True)
    return [zeros_like(x) if g is None else g for g, x in zip(found, leaves, strict=True)]


def _compare(
    pair: KernelPair, names: Sequence[str], found: Sequence[Tensor], expected: Sequence[Tensor], place: str, other: str,
    prefix: str = "grad_",
) -> None:  # fmt: skip
    """GradcheckError for the first result that differs from the ``other`` loop's."""
    for name, a, b in zip(names, found, expected, strict=True):
        if a.shape != b.shape:
            what = f"{prefix}{name} the shape {tuple(a.shape)}, but it is {tuple(b.shape)}"
            raise GradcheckError(f"{pair.name}: {place} gives {what}")
        at = _worst(a, b)
        if at is not None:
            entry = _entry(f"{prefix}{name}", b, int(np.ravel_multi_index(at, b.shape)) if at else 0)
            raise GradcheckError(
                f"{pair.name}: {place} gives {_number(a[at])} for {entry}, but {other} gives {_number(b[at])}"
            )


# -- when pairs are declared --------------------------------------------------------------------------


def _check_declared(pair: KernelPair) -> None:
    if pair.example is not None:
        check_pair(pair)


def _start_from_environment() -> None:
    """Check pairs that are declared from now on if ``JITGRAD_CHECK`` is 1. ValueError for what is neither 0 nor 1."""
    value = os.environ.get("JITGRAD_CHECK", "0")
    if value not in ("0", "1", ""):
        raise ValueError(f"JITGRAD_CHECK={value!r} is unknown; use 1 to check the gradients of pairs with an example")
    if value == "1":
        declaration_observers.append(_check_declared)


_start_from_environment()
