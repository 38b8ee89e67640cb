"""Properties of gradients that gradcheck tests besides their values.

- Backward is linear: zeros as the gradients of outputs give zeros for the inputs, in their dtype and shape.
- An undefined gradient or tangent (None, where nothing has arrived) counts as zeros.
- Gradients of a batch, computed at once as vmap does, are those computed one by one.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from jitgrad.autograd.backward import grad
from jitgrad.autograd.forward_ad import dual_level, make_dual, unpack_dual
from jitgrad.autograd.gradcheck_error import GradcheckError
from jitgrad.autograd.gradcheck_jacobians import (
    Function,
    as_tuple,
    inputs_requiring_grad,
    outputs_requiring_grad,
)
from jitgrad.core.node import Node, edge_of, next_sequence_number
from jitgrad.core.tensor import Tensor
from jitgrad.ops.creation.constants import ones_like, zeros, zeros_like
from jitgrad.ops.random.sampling import randn_like
from jitgrad.ops.reduction.any_all import allclose
from jitgrad.ops.shape.join import stack
from jitgrad.transforms.batched import Batch, batch_first, batched

__all__ = [
    "check_batched_grad", "check_batched_tangents", "check_multiplied_by_grad_output", "check_undefined_grad",
    "check_undefined_tangents",
]  # fmt: skip


def check_multiplied_by_grad_output(outputs: Sequence[Tensor], inputs: tuple[Any, ...]) -> None:
    """GradcheckError unless zeros for the outputs give zeros, in each input's dtype, shape and device."""
    wanted = [x for _, x in inputs_requiring_grad(inputs)]
    nothing = [zeros_like(o) for o in outputs]
    for g, x in zip(grad(outputs, wanted, nothing, allow_unused=True) if outputs else (), wanted, strict=False):
        if g is None:
            continue
        if not bool((g == 0).all()):
            raise GradcheckError("backward not multiplied by grad_output")
        for what, title in (("dtype", "type"), ("device", "device"), ("shape", "size")):
            if getattr(g, what) != getattr(x, what):
                raise GradcheckError(f"grad is incorrect {title}")


# -- undefined gradients ------------------------------------------------------------------------------


class UndefinedGrad(Node):
    """A node that passes no gradient to its input."""

    def vjp(self, *grads: Any) -> tuple[Any, ...]:
        """Return None."""
        return (None,)


def _without_gradient(output: Tensor) -> Tensor:
    """The same values with a history that gives ``output`` an undefined gradient."""
    node = UndefinedGrad()
    node.edges, node.sequence_number = (edge_of(output),), next_sequence_number()
    return output._attached(node)


def check_undefined_grad(func: Function, inputs: tuple[Any, ...]) -> None:
    """GradcheckError unless undefined gradients of all outputs, or of one at a time, count as zeros."""
    wanted = [x for _, x in inputs_requiring_grad(inputs)]
    _expect_nothing([_without_gradient(o) for o in outputs_requiring_grad(func(*inputs))], wanted)
    count = len(outputs_requiring_grad(func(*inputs)))
    for without in range(count) if count > 1 else ():
        outputs = outputs_requiring_grad(func(*inputs))
        _expect_nothing([_without_gradient(o) if n == without else o for n, o in enumerate(outputs)], wanted)


def _expect_nothing(outputs: Sequence[Tensor], wanted: Sequence[Tensor]) -> None:
    """GradcheckError unless backward from zeros gives None or zeros for each tensor of ``wanted``."""
    if not outputs:
        return
    nothing = [zeros_like(o) for o in outputs]
    try:
        found = grad(outputs, wanted, nothing, allow_unused=True)
    except RuntimeError as error:
        warnings.warn(
            "Backwards compatibility: New undefined gradient support checking feature is enabled by default, but it "
            "may break existing callers of this function. If this is true for you, you can call this function with "
            '"check_undefined_grad=False" to disable the feature', UserWarning, stacklevel=2,
        )  # fmt: skip
        raise GradcheckError(
            "Expected backward function to handle undefined output grads. A gradient is None where nothing depends on "
            "the output: treat it as zeros, or pass check_undefined_grad=False"
        ) from error
    if any(g is not None and bool((g != 0).any()) for g in found):
        raise GradcheckError(
            "Expected all input grads to be undefined or zero when all output grads are undefined or zero. Pass "
            "check_undefined_grad=False to skip this check"
        )


def check_undefined_tangents(func: Function, inputs: tuple[Any, ...]) -> None:
    """GradcheckError unless an input without a tangent gives the tangents that a zero tangent gives."""
    for k, x in inputs_requiring_grad(inputs):
        with dual_level():
            others = [
                make_dual(y.detach(), ones_like(y)) if isinstance(y, Tensor) and y.requires_grad else y
                for y in inputs
            ]
            pairs = []
            for given in (make_dual(x.detach(), zeros_like(x)), x.detach()):
                outputs = as_tuple(func(*others[:k], given, *others[k + 1 :]))
                pairs.append([unpack_dual(o).tangent for o in outputs if o.dtype.category >= 2])
            for number, (zero, missing) in enumerate(zip(*pairs, strict=True)):
                if zero is None or missing is None or bool(allclose(zero, missing)):
                    continue
                raise GradcheckError(
                    f"Mismatch in tangent values for output with index: {number} when input: {x} has an undefined "
                    f"tangent value.  Got: {missing} but expected: {zero}"
                )


# -- batches ------------------------------------------------------------------------------------------

_BATCHED = (
    "gradcheck or gradgradcheck failed while testing batched gradient computation. Backward runs under vmap there: "
    "one of its operations does not support that, or treats the batch as part of a sample. Pass "
    "check_batched_grad=False to skip this check."
)
_BATCHED_FORWARD = (
    "gradcheck failed while testing batched gradient computation with forward-mode AD. Pass "
    "check_batched_forward_grad=False to skip this check."
)


def check_batched_grad(inputs: tuple[Any, ...], output: Tensor, number: int) -> None:
    """GradcheckError unless backward from a batch of two gradients gives what backward from each gives."""
    wanted = [x for _, x in inputs_requiring_grad(inputs)]
    seeds = [randn_like(output.detach()) for _ in range(2)]

    def rows(seed: Tensor, batched: bool) -> list[Tensor]:
        found = grad(output, wanted, seed, retain_graph=True, allow_unused=True, is_grads_batched=batched)
        size = (2,) if batched else ()
        return [
            zeros((*size, *x.shape), dtype=x.dtype, device=x.device) if g is None else g
            for g, x in zip(found, wanted, strict=True)
        ]

    expected = [stack(list(each)) for each in zip(*[rows(s, False) for s in seeds], strict=True)]
    try:
        found = rows(stack(seeds), True)
    except RuntimeError as error:
        raise GradcheckError(f"While computing batched gradients, got: {error}\n\n{_BATCHED}") from error
    _expect_same(found, expected, number, _BATCHED)


def check_batched_tangents(func: Function, inputs: tuple[Any, ...]) -> None:
    """GradcheckError unless forward mode with a batch of two tangents gives what each of them gives."""
    for k, x in inputs_requiring_grad(inputs):

        def push(tangent: Tensor, k: int = k, x: Tensor = x) -> tuple[Tensor, ...]:
            with dual_level():
                given = [y.detach() if isinstance(y, Tensor) else y for y in inputs]
                given[k] = make_dual(x.detach(), tangent)
                pairs = [unpack_dual(o) for o in as_tuple(func(*given)) if o is not None]
                return tuple([zeros_like(p) if t is None else t for p, t in pairs])

        tangents = [randn_like(x.detach()) for _ in range(2)]
        expected = [stack(list(each)) for each in zip(*[push(t) for t in tangents], strict=True)]
        try:
            with Batch(2, "gradients") as level:
                found = tuple([batch_first(o, level) for o in push(batched(level, stack(tangents)))])
        except RuntimeError as error:
            raise GradcheckError(f"While computing batched gradients, got: {error}\n\n{_BATCHED_FORWARD}") from error
        _expect_same(found, expected, None, _BATCHED_FORWARD)


def _expect_same(found: Sequence[Tensor], expected: Sequence[Tensor], number: int | None, words: str) -> None:
    """GradcheckError (``words``) unless all tensors are close; ``number``: of the output, if it is always the same."""
    for k, (got, want) in enumerate(zip(found, expected, strict=True)):
        if not bool(allclose(got, want)):
            raise GradcheckError(
                f"For output {k if number is None else number} and input {k}:\n\n{words}\n\nGot:\n{got}\n\n"
                f"Expected:\n{want}"
            )
