"""Derivatives of functions of tensors: vjp, jvp, jacobian, hessian, vhp, hvp.

Each calls a function with new variables that have the values of ``inputs``, and differentiates what it returns.
Inputs and outputs are a tensor or a tuple of tensors, and results are structured like them. Without ``create_graph``
results are outside the graph. ``strict``: a RuntimeError where a result is zero because an output does not depend
on an input. The newer jitgrad.func does the same for nests of tensors, and composes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.autograd import forward_ad
from jitgrad.autograd.functional_arguments import (
    INDEPENDENT,
    OUTPUT_FIXED,
    STRICT,
    Evaluation,
    Tensors,
    check_scalar,
    checked_tensors,
    filled_gradients,
    gradients,
    released,
    require_dependence,
)  # fmt: skip
from jitgrad.core.grad_mode import enable_grad, state
from jitgrad.core.missing_names import explain_missing_names
from jitgrad.core.tensor import Tensor
from jitgrad.core.transform_guards import API, refuse_inside
from jitgrad.ops.creation.constants import zeros, zeros_like
from jitgrad.ops.creation.ranges import eye
from jitgrad.ops.shape.join import stack
from jitgrad.transforms.batched import Batch, batch_first, batched, with_batch
from jitgrad.transforms.dual import dual

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

explain_missing_names(__name__)

Maybe = Sequence[Tensor | None]

_JACOBIAN_FIXED = (
    f"The jacobian of the user-provided function is independent of input {{}}. {STRICT} when create_graph=True."
)
_HESSIAN_FIXED = (
    f"The hessian of the user-provided function is independent of input {{}}. {STRICT} when create_graph=True."
)
_GRADIENT_FIXED = (
    f"The gradient with respect to input {{}} is independent of the inputs of the user-provided function. {STRICT}."
)
_FIRST_DERIVATIVE_FIXED = (
    "While computing the hessian, found that the jacobian of the user-provided function with respect to input {} is "
    f"independent of the input. {STRICT}. You should ensure that your function is twice differentiable and that the "
    "jacobian depends on the inputs (this would be violated by a linear function for example)."
)
_JVP_FIXED = (
    "The gradient with respect to the input is independent of entry {} in the grad_outputs when using the double "
    f"backward trick to compute forward mode gradients. {STRICT}."
)
_VHP_FIXED = f"The jacobian of the user-provided function is independent of input {{}}. {STRICT}."
_HVP_FIXED = (
    f"The hessian of the user-provided function is independent of entry {{}} in the grad_jacobian. {STRICT} as it "
    "prevents from using the double backward trick to replace forward mode AD."
)
_STRATEGIES = ("forward-mode", "reverse-mode")


# -- products -----------------------------------------------------------------------------------------------


def vjp(
    func: Callable[..., Any], inputs: Tensors, v: Tensors | None = None, create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """Return (outputs of ``func``, product of ``v`` and its jacobian).

    v: shaped like the outputs; may be None if that is one number. The product is shaped like the inputs.
    """
    with enable_grad():
        at = Evaluation("vjp", inputs, create_graph, strict)
        at.run(func)
        if v is None and (len(at.outputs) != 1 or at.outputs[0]._layout.numel != 1):
            raise RuntimeError(
                "The vector v can only be None if the user-provided function returns a single Tensor with a single "
                "element."
            )
        weights = None if v is None else at.output_weights(v)
    found = gradients(at.outputs, at.inputs, weights, create_graph=create_graph)
    filled = filled_gradients(found, at.inputs, strict, create_graph, INDEPENDENT, _JACOBIAN_FIXED)
    return at.results(filled, at.several)


def jvp(
    func: Callable[..., Any], inputs: Tensors, v: Tensors | None = None, create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """Return (outputs of ``func``, product of its jacobian and ``v``), by differentiating backward twice.

    v: shaped like the inputs; may be None if that is one number. The product is shaped like the outputs.
    ``jitgrad.func.jvp`` computes the same in one forward pass.
    """
    with enable_grad():
        at = Evaluation("jvp", inputs, create_graph, strict)
        weights = at.input_weights(v)
        at.run(func)
        # Backward is linear in these, so their values do not matter: the double backward trick of transforms/dual.py.
        seeds = [zeros_like(o, requires_grad=True) for o in at.outputs]
        back = gradients(at.outputs, at.inputs, seeds, create_graph=True)
        if strict:
            require_dependence(back, _GRADIENT_FIXED)
    found = gradients(back, seeds, weights, create_graph=create_graph)
    filled = filled_gradients(found, at.outputs, strict, create_graph, _JVP_FIXED, _JACOBIAN_FIXED)
    return at.results(filled, at.several_outputs)


def vhp(
    func: Callable[..., Any], inputs: Tensors, v: Tensors | None = None, create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """Return (value of ``func``, product of ``v`` and its hessian); ``func`` returns one number.

    v: shaped like the inputs, as is the product; may be None if that is one number.
    """
    with enable_grad():
        at = Evaluation("vhp", inputs, create_graph, strict)
        weights = at.input_weights(v)
        at.run_to_number(func)
        first = gradients(at.outputs, at.inputs, create_graph=True)
        if strict:
            require_dependence(first, _FIRST_DERIVATIVE_FIXED)
    found = gradients(first, at.inputs, weights, create_graph=create_graph)
    return at.results(filled_gradients(found, at.inputs, strict, create_graph, _VHP_FIXED, _HESSIAN_FIXED), at.several)


def hvp(
    func: Callable[..., Any], inputs: Tensors, v: Tensors | None = None, create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """Return (value of ``func``, product of its hessian and ``v``); ``func`` returns one number.

    The same as ``vhp`` where the hessian is symmetric, as it is for all twice continuously
    differentiable functions; ``vhp`` differentiates once less.
    """
    with enable_grad():
        at = Evaluation("hvp", inputs, create_graph, strict)
        weights = at.input_weights(v)
        at.run_to_number(func)
        first = gradients(at.outputs, at.inputs, create_graph=True)
        if strict:
            require_dependence(first, _FIRST_DERIVATIVE_FIXED)
        seeds = [zeros_like(x, requires_grad=True) for x in at.inputs]
        second = gradients(first, at.inputs, seeds, create_graph=True)
    found = gradients(second, seeds, weights, create_graph=create_graph)
    return at.results(filled_gradients(found, at.inputs, strict, create_graph, _HVP_FIXED, _HESSIAN_FIXED), at.several)


# -- matrices -----------------------------------------------------------------------------------------------


def jacobian(
    func: Callable[..., Any], inputs: Tensors, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """Return the derivatives of all outputs of ``func`` with respect to all inputs.

    For one output and one input a tensor of shape (*output.shape, *input.shape); a tuple over inputs,
    over outputs, or over outputs of tuples over inputs, where those are tuples. vectorize: all rows at
    once. strategy: "reverse-mode", or "forward-mode" (needs vectorize), a column per input element.
    """
    if strategy not in _STRATEGIES:
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs '
            'than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        _check_forward(create_graph, strict, vectorize, inputs)
        return _by_columns(func, inputs)
    with enable_grad():
        at = Evaluation("jacobian", inputs, create_graph, strict)
        at.run(func)
        if strict and vectorize:
            raise RuntimeError(
                "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. "
                "Please either set `strict=False` or `vectorize=False`."
            )
        matrices = [_by_rows(at, k, vectorize) for k in range(len(at.outputs))]
    found = tuple([released(row, at.several, create_graph) for row in matrices])
    return found if at.several_outputs else found[0]


def _by_rows(at: Evaluation, number: int, vectorize: bool) -> list[Tensor]:
    """The Jacobian of one output with respect to each input: a backward per element of the output, or one batched."""
    out, create = at.outputs[number], at.create_graph
    if out.dtype.is_complex and not vectorize:  # PyTorch starts each row from an implicit 1
        raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {out.dtype}")
    shape, n, basis = tuple(out.shape), out._layout.numel, _basis(out)
    stacks: list[Tensor | None] = [None] * len(at.inputs)
    if vectorize and n:
        rows = gradients([out], at.inputs, [basis], create_graph=create, retain_graph=True, is_grads_batched=True)
        stacks = list(rows)
    elif n:
        each = [gradients([out], at.inputs, [basis[j]], create_graph=create, retain_graph=True) for j in range(n)]
        stacks = [_stack_rows(parts) for parts in zip(*each, strict=True)]
    results = []
    for k, (x, rows_of_x) in enumerate(zip(at.inputs, stacks, strict=True)):
        if at.strict and rows_of_x is None:
            raise RuntimeError(f"Output {number} of the user-provided function is independent of input {k}. {STRICT}.")
        if at.strict and create and not rows_of_x.requires_grad:  # type: ignore[union-attr]
            raise RuntimeError(_JACOBIAN_FIXED.format(k))
        if rows_of_x is None:
            rows_of_x = zeros((n, *x.shape), dtype=x.dtype, device=x.device)
        results.append(rows_of_x.reshape((*shape, *x.shape)))
    return results


def _stack_rows(rows: Maybe) -> Tensor | None:
    """The rows of a Jacobian as one tensor; None where the output does not depend on the input."""
    return None if rows[0] is None else stack(list(rows))


def _check_forward(create_graph: bool, strict: bool, vectorize: bool, inputs: Any) -> None:
    """Refuse options that PyTorch's forward mode refuses."""
    for flag, given, error in (("create_graph", create_graph, NotImplementedError), ("strict", strict, RuntimeError)):
        if given:
            raise error(
                f'torch.autograd.functional.jacobian: `{flag}=True` and `strategy="forward-mode"` are not supported '
                f'together (yet). Please either set `{flag}=False` or `strategy="reverse-mode"`.'
            )
    checked_tensors(inputs, "inputs", "jacobian")
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is only implemented for "
            "`vectorize=True`."
        )


def _by_columns(func: Callable[..., Any], inputs: Any, copy_inputs: bool = False) -> Any:
    """Jacobians by forward mode: one evaluation with a batch of tangents, a unit vector per element of the inputs."""
    several, given = checked_tensors(inputs, "inputs", "jacobian")
    sizes = [x._layout.numel for x in given]
    several_outputs, values, columns = _columns_of_all_inputs(func, given, sizes, copy_inputs)
    rows = []
    for out, rows_of_out in zip(values, columns, strict=True):
        parts = []
        for x, part in zip(given, rows_of_out.split(sizes), strict=True):
            parts.append(part.movedim(0, -1).reshape((*out.shape, *x.shape)))
        rows.append(tuple(parts) if several else parts[0])
    return tuple(rows) if several_outputs else rows[0]


def _basis(x: Tensor) -> Tensor:
    """The unit vectors of the space of ``x``, as a tensor of shape (numel, *shape)."""
    n = x._layout.numel
    units: Tensor = eye(n, dtype=x.dtype, device=x.device)
    return units.reshape((n, *x.shape))


def _columns_of_all_inputs(
    func: Callable[..., Any], inputs: tuple[Tensor, ...], sizes: list[int], copy_inputs: bool
) -> tuple[bool, list[Tensor], list[Tensor]]:
    """(whether outputs are a tuple, the outputs, their tangents of shape (elements of all inputs, *output.shape)).

    The function runs once, on dual tensors with batched tangents. ``copy_inputs``: primals are batched too, by
    expanding; then gradients that the function takes by its inputs are those of each sample.
    """
    # Other tensors of the same values, since the function may set requires_grad on its inputs.
    own = [x.view_as(x) if x.requires_grad else x.detach() for x in inputs]
    total, start, tangents = sum(sizes), 0, []
    for x, n in zip(inputs, sizes, strict=True):
        forward_ad.check_unbatched(x)
        rows = x.new_zeros((total, *x.shape))
        rows[start : start + n] = _basis(x)
        tangents.append(rows)
        start += n
    with Batch(total) as level, forward_ad.dual_level():
        values = [with_batch(level, x) for x in own] if copy_inputs else own
        duals = [dual(state.forward, x, batched(level, rows)) for x, rows in zip(values, tangents, strict=True)]
        several, outs = checked_tensors(func(*duals), "outputs", "jacobian")
        pairs = [forward_ad.unpack_dual(o) for o in outs]
        found = [zeros_like(p) if t is None else t for p, t in pairs]
        return several, [p for p, _ in pairs], [batch_first(t, level) for t in found]


def hessian(
    func: Callable[..., Any], inputs: Tensors, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, outer_jacobian_strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """Return the second derivatives of ``func``, which returns one number.

    For one input a tensor of shape (*input.shape, *input.shape); for a tuple a tuple of tuples of shapes
    (*inputs[i].shape, *inputs[j].shape). outer_jacobian_strategy: "forward-mode" (needs vectorize)
    differentiates backward by forward mode.
    """
    several, given = checked_tensors(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in _STRATEGIES:
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')

    def to_number(*args: Tensor) -> Tensor:
        out = func(*args)
        is_tuple, outs = checked_tensors(out, "outputs of the user-provided function", "hessian")
        if strict:
            require_dependence(outs, OUTPUT_FIXED)
        check_scalar("hessian", out, is_tuple)
        return out.squeeze()  # of shape (1,), say: then Jacobians have the shape of inputs, without that dim

    def first(*args: Tensor) -> tuple[Tensor, ...]:
        if outer_jacobian_strategy == "forward-mode":
            for a in args:
                a.requires_grad = True
        found: tuple[Tensor, ...] = jacobian(to_number, args, create_graph=True)
        if strict:
            require_dependence(found, _FIRST_DERIVATIVE_FIXED)
        return found

    if outer_jacobian_strategy == "forward-mode":
        if state.scope is not None:
            refuse_inside("requires_grad_", API)
        _check_forward(create_graph, strict, vectorize, given)
        found = _by_columns(first, given, copy_inputs=True)
    else:
        found = jacobian(first, given, create_graph, strict, vectorize)
    return found if several else found[0][0]
