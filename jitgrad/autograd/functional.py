"""Derivatives of functions of tensors: vjp, jvp, jacobian, hessian, vhp, hvp.

All of them evaluate a function at inputs that are variables of their own, and differentiate what it
returned. Inputs and outputs are a tensor or a tuple of tensors, and results are structured like them.
Without ``create_graph`` results are outside the graph. ``strict`` makes it a RuntimeError that a result
is zero only because something does not depend on something else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.autograd import forward_ad
from jitgrad.autograd.backward import grad
from jitgrad.core.grad_mode import enable_grad, state
from jitgrad.core.tensor import Tensor
from jitgrad.core.transform_guards import API, refuse_inside
from jitgrad.ops.creation.constants import eye, zeros, zeros_like
from jitgrad.ops.shape.join import stack
from jitgrad.transforms.batched import Batch, batch_first, batched, with_batch
from jitgrad.transforms.dual import dual

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = Tensor | tuple[Tensor, ...]
Maybe = Sequence[Tensor | None]

_STRICT = "This is not allowed in strict mode"
_INDEPENDENT = f"The output of the user-provided function is independent of input {{}}. {_STRICT}."
_JACOBIAN_FIXED = (
    f"The jacobian of the user-provided function is independent of input {{}}. {_STRICT} when create_graph=True."
)
_HESSIAN_FIXED = (
    f"The hessian of the user-provided function is independent of input {{}}. {_STRICT} when create_graph=True."
)
_OUTPUT = (
    "Output {} of the user-provided function does not require gradients. The outputs must be computed in a "
    "differentiable manner from the input when running in strict mode."
)
_GRADIENT = (
    f"The gradient with respect to input {{}} is independent of the inputs of the user-provided function. {_STRICT}."
)
_JACOBIAN = (
    "While computing the hessian, found that the jacobian of the user-provided function with respect to input {} is "
    f"independent of the input. {_STRICT}. You should ensure that your function is twice differentiable and that the "
    "jacobian depends on the inputs (this would be violated by a linear function for example)."
)
_OF_JVP = (
    "The gradient with respect to the input is independent of entry {} in the grad_outputs when using the double "
    f"backward trick to compute forward mode gradients. {_STRICT}."
)
_OF_VHP = f"The jacobian of the user-provided function is independent of input {{}}. {_STRICT}."
_OF_HVP = (
    f"The hessian of the user-provided function is independent of entry {{}} in the grad_jacobian. {_STRICT} as it "
    "prevents from using the double backward trick to replace forward mode AD."
)
_STRATEGIES = ("forward-mode", "reverse-mode")


# -- arguments and results --------------------------------------------------------------------------------


def _listed(value: Any, what: str, name: str) -> tuple[bool, tuple[Tensor, ...]]:
    """(whether it was a tuple, its tensors); TypeError for anything but a tensor or a tuple of tensors."""
    several = isinstance(value, tuple)
    tensors = value if several else (value,)
    for k, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            place = f"value at index {k}" if several else f"given {what}"
            raise TypeError(
                f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but the {place} has type "
                f"{type(tensor)}."
            )
    return several, tensors


def _variables(tensors: tuple[Tensor, ...], create_graph: bool, track: bool = True) -> tuple[Tensor, ...]:
    """The same values as new variables, still part of the graph if results shall be."""
    return tuple(
        [t.view_as(t) if create_graph and t.requires_grad else t.detach().requires_grad_(track) for t in tensors]
    )


def _weights(v: Any, name: str, like: Sequence[Tensor], several: bool, create_graph: bool) -> tuple[Tensor, ...]:
    """``v`` as tensors in the shapes of ``like``; RuntimeError where they have others."""
    given = _variables(_listed(v, "v", name)[1], create_graph, track=False)
    if len(given) != len(like):
        if several:
            raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(given)}.")
        raise RuntimeError("The given v should contain a single Tensor.")
    for k, (weight, other) in enumerate(zip(given, like, strict=True)):
        if weight.shape != other.shape:
            entry = f"Entry {k} in " if several else ""
            raise RuntimeError(f"{entry}v has invalid size: should be {other.shape} but got {weight.shape}.")
    return given


def _result(tensors: Sequence[Tensor], several: bool, create_graph: bool) -> Tensors:
    """What is handed back: out of the graph unless that was asked for, and a tuple where one was given."""
    found = tuple(tensors) if create_graph else tuple([t.detach() for t in tensors])
    return found if several else found[0]


def _require(tensors: Maybe, words: str) -> None:
    """Strict mode: each of them must be there, and depend on something."""
    for k, tensor in enumerate(tensors):
        if tensor is None:
            raise RuntimeError(_INDEPENDENT.format(k))
        if not tensor.requires_grad:
            raise RuntimeError(words.format(k))


def _filled(grads: Maybe, like: Sequence[Tensor], strict: bool, create_graph: bool, missing: str, fixed: str) -> Any:
    """Gradients with zeros for those that are None; strict mode refuses that."""
    for k, gradient in enumerate(grads):
        if strict and gradient is None:
            raise RuntimeError(missing.format(k))
        if strict and create_graph and not gradient.requires_grad:  # type: ignore[union-attr]
            raise RuntimeError(fixed.format(k))
    return [zeros_like(x) if g is None else g for g, x in zip(grads, like, strict=True)]


def _gradients(outs: Maybe, ins: Sequence[Tensor], weights: Sequence[Any] | None = None, **options: Any) -> Maybe:
    """Gradients of those of ``outs`` that have any."""
    pairs = [(o, w) for o, w in zip(outs, weights or [None] * len(outs), strict=True) if o is not None]
    pairs = [(o, w) for o, w in pairs if o.requires_grad]
    if not pairs:
        return [None] * len(ins)
    return grad([o for o, _ in pairs], list(ins), [w for _, w in pairs], allow_unused=True, **options)


class _Evaluation:
    """A function at its inputs: both as tuples, and whether they were."""

    def __init__(self, name: str, inputs: Any, create_graph: bool, strict: bool):
        self.name, self.create_graph, self.strict = name, create_graph, strict
        self.several, given = _listed(inputs, "inputs", name)
        self.inputs = _variables(given, create_graph)
        self.outputs: tuple[Tensor, ...] = ()
        self.several_outputs = False

    def run(self, func: Callable[..., Any]) -> Any:
        """Call the function."""
        found = func(*self.inputs)
        self.several_outputs, self.outputs = _listed(found, "outputs of the user-provided function", self.name)
        if self.strict:
            _require(self.outputs, _OUTPUT)
        return found

    def run_to_number(self, func: Callable[..., Any]) -> None:
        """Call a function that must return one tensor of one element."""
        self.run(func)
        _check_number(self.name, self.outputs[0], self.several_outputs)

    def input_weights(self, v: Any) -> tuple[Tensor, ...] | None:
        """``v`` shaped like the inputs; None for a single number, which stands for one."""
        if v is not None:
            return _weights(v, self.name, self.inputs, self.several, self.create_graph)
        if len(self.inputs) != 1 or self.inputs[0]._layout.numel != 1:
            raise RuntimeError(
                "The vector v can only be None if the input to the user-provided function is a single Tensor with a "
                "single element."
            )
        return None

    def results(self, found: Sequence[Tensor], several: bool) -> tuple[Tensors, Tensors]:
        """The function's value, and what was found, structured as the user's."""
        return (
            _result(self.outputs, self.several_outputs, self.create_graph),
            _result(found, several, self.create_graph),
        )


def _check_number(name: str, output: Any, several: bool) -> None:
    if several:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if output._layout.numel != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {name} should contain a single element")


# -- products -----------------------------------------------------------------------------------------------


def vjp(
    func: Callable[..., Any], inputs: Tensors, v: Tensors | None = None, create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """Return (outputs of ``func``, product of ``v`` and its jacobian).

    v: shaped like the outputs; may be None if that is one number. The product is shaped like the inputs.
    """
    with enable_grad():
        at = _Evaluation("vjp", inputs, create_graph, strict)
        at.run(func)
        if v is None and (len(at.outputs) != 1 or at.outputs[0]._layout.numel != 1):
            raise RuntimeError(
                "The vector v can only be None if the user-provided function returns a single Tensor with a single "
                "element."
            )
        weights = None if v is None else _weights(v, "vjp", at.outputs, at.several_outputs, create_graph)
    found = _gradients(at.outputs, at.inputs, weights, create_graph=create_graph)
    return at.results(_filled(found, at.inputs, strict, create_graph, _INDEPENDENT, _JACOBIAN_FIXED), at.several)


def jvp(
    func: Callable[..., Any], inputs: Tensors, v: Tensors | None = None, create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """Return (outputs of ``func``, product of its jacobian and ``v``), by differentiating backward twice.

    v: shaped like the inputs; may be None if that is one number. The product is shaped like the outputs.
    ``jitgrad.func.jvp`` computes the same in one forward pass.
    """
    with enable_grad():
        at = _Evaluation("jvp", inputs, create_graph, strict)
        weights = at.input_weights(v)
        at.run(func)
        seeds = [zeros_like(o.detach(), requires_grad=True) for o in at.outputs]
        back = _gradients(at.outputs, at.inputs, seeds, create_graph=True)
        if strict:
            _require(back, _GRADIENT)
    found = _gradients(back, seeds, weights, create_graph=create_graph)
    filled = _filled(found, at.outputs, strict, create_graph, _OF_JVP, _JACOBIAN_FIXED)
    return at.results(filled, at.several_outputs)


def vhp(
    func: Callable[..., Any], inputs: Tensors, v: Tensors | None = None, create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """Return (value of ``func``, product of ``v`` and its hessian); ``func`` returns one number.

    v: shaped like the inputs, as is the product; may be None if that is one number.
    """
    with enable_grad():
        at = _Evaluation("vhp", inputs, create_graph, strict)
        weights = at.input_weights(v)
        at.run_to_number(func)
        first = _gradients(at.outputs, at.inputs, create_graph=True)
        if strict:
            _require(first, _JACOBIAN)
    found = _gradients(first, at.inputs, weights, create_graph=create_graph)
    return at.results(_filled(found, at.inputs, strict, create_graph, _OF_VHP, _HESSIAN_FIXED), at.several)


def hvp(
    func: Callable[..., Any], inputs: Tensors, v: Tensors | None = None, create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """Return (value of ``func``, product of its hessian and ``v``); ``func`` returns one number.

    The same as ``vhp`` where the hessian is symmetric, as it is for all twice continuously
    differentiable functions; ``vhp`` differentiates once less.
    """
    with enable_grad():
        at = _Evaluation("hvp", inputs, create_graph, strict)
        weights = at.input_weights(v)
        at.run_to_number(func)
        first = _gradients(at.outputs, at.inputs, create_graph=True)
        if strict:
            _require(first, _JACOBIAN)
        seeds = [zeros_like(x.detach(), requires_grad=True) for x in at.inputs]
        second = _gradients(first, at.inputs, seeds, create_graph=True)
    found = _gradients(second, seeds, weights, create_graph=create_graph)
    return at.results(_filled(found, at.inputs, strict, create_graph, _OF_HVP, _HESSIAN_FIXED), at.several)


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
        at = _Evaluation("jacobian", inputs, create_graph, strict)
        at.run(func)
        if strict and vectorize:
            raise RuntimeError(
                "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. "
                "Please either set `strict=False` or `vectorize=False`."
            )
        matrices = [_by_rows(at, k, vectorize) for k in range(len(at.outputs))]
    found = tuple([_result(row, at.several, create_graph) for row in matrices])
    return found if at.several_outputs else found[0]


def _by_rows(at: _Evaluation, number: int, vectorize: bool) -> list[Tensor]:
    """Jacobians of one output: a backward per element, or one for all."""
    out, create = at.outputs[number], at.create_graph
    if out.dtype.is_complex and not vectorize:
        raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {out.dtype}")
    shape, n, basis = tuple(out.shape), out._layout.numel, _basis(out)
    stacks: list[Tensor | None] = [None] * len(at.inputs)
    if vectorize and n:
        rows = _gradients([out], at.inputs, [basis], create_graph=create, retain_graph=True, is_grads_batched=True)
        stacks = list(rows)
    elif n:
        each = [_gradients([out], at.inputs, [basis[j]], create_graph=create, retain_graph=True) for j in range(n)]
        stacks = [_stacked(parts) for parts in zip(*each, strict=True)]
    results = []
    for k, (x, rows_of_x) in enumerate(zip(at.inputs, stacks, strict=True)):
        if at.strict and rows_of_x is None:
            raise RuntimeError(f"Output {number} of the user-provided function is independent of input {k}. {_STRICT}.")
        if at.strict and create and not rows_of_x.requires_grad:  # type: ignore[union-attr]
            raise RuntimeError(_JACOBIAN_FIXED.format(k))
        if rows_of_x is None:
            rows_of_x = zeros((n, *x.shape), dtype=x.dtype, device=x.device)
        results.append(rows_of_x.reshape(*shape, *x.shape))
    return results


def _stacked(rows: Maybe) -> Tensor | None:
    return None if rows[0] is None else stack(list(rows))


def _check_forward(create_graph: bool, strict: bool, vectorize: bool, inputs: Any) -> None:
    """What forward mode can't do."""
    for flag, given, error in (("create_graph", create_graph, NotImplementedError), ("strict", strict, RuntimeError)):
        if given:
            raise error(
                f'torch.autograd.functional.jacobian: `{flag}=True` and `strategy="forward-mode"` are not supported '
                f'together (yet). Please either set `{flag}=False` or `strategy="reverse-mode"`.'
            )
    _listed(inputs, "inputs", "jacobian")
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is only implemented for "
            "`vectorize=True`."
        )


def _by_columns(func: Callable[..., Any], inputs: Any, lift: bool = False) -> Any:
    """Jacobians by forward mode: one evaluation for the unit tangents of all inputs' elements."""
    several, given = _listed(inputs, "inputs", "jacobian")
    sizes = [x._layout.numel for x in given]
    several_outputs, values, columns = _pushed(func, given, sizes, lift)
    rows = []
    for out, rows_of_out in zip(values, columns, strict=True):
        parts = []
        for x, part in zip(given, rows_of_out.split(sizes), strict=True):
            parts.append(part.movedim(0, -1).reshape(*out.shape, *x.shape))
        rows.append(tuple(parts) if several else parts[0])
    return tuple(rows) if several_outputs else rows[0]


def _basis(x: Tensor) -> Tensor:
    """The unit vectors of a tensor's shape, stacked."""
    n = x._layout.numel
    units: Tensor = eye(n, dtype=x.dtype, device=x.device)
    return units.reshape(n, *x.shape)


def _pushed(
    func: Callable[..., Any], inputs: tuple[Tensor, ...], sizes: list[int], lift: bool
) -> tuple[bool, list[Tensor], list[Tensor]]:
    """(whether outputs are a tuple, outputs, their tangents: a row for each element of the inputs).

    The function runs on all tangents at once. ``lift``: on as many copies of the inputs, too; gradients
    that it takes then are those of each.
    """
    own = [x.view_as(x) if x.requires_grad else x.detach() for x in inputs]  # the function may make them require grad
    total, start, tangents = sum(sizes), 0, []
    for x, n in zip(inputs, sizes, strict=True):
        forward_ad.check_unbatched(x)
        rows = x.new_zeros((total, *x.shape))
        rows[start : start + n] = _basis(x)
        tangents.append(rows)
        start += n
    with Batch(total) as level, forward_ad.dual_level():
        values = [with_batch(level, x) for x in own] if lift else own
        duals = [dual(state.forward, x, batched(level, rows)) for x, rows in zip(values, tangents, strict=True)]
        several, outs = _listed(func(*duals), "outputs", "jacobian")
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
    several, given = _listed(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in _STRATEGIES:
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')

    def to_number(*args: Tensor) -> Tensor:
        out = func(*args)
        is_tuple, outs = _listed(out, "outputs of the user-provided function", "hessian")
        if strict:
            _require(outs, _OUTPUT)
        _check_number("hessian", out, is_tuple)
        return out.squeeze()

    def first(*args: Tensor) -> tuple[Tensor, ...]:
        if outer_jacobian_strategy == "forward-mode":
            for a in args:
                a.requires_grad = True
        found: tuple[Tensor, ...] = jacobian(to_number, args, create_graph=True)
        if strict:
            _require(found, _JACOBIAN)
        return found

    if outer_jacobian_strategy == "forward-mode":
        if state.scope is not None:
            refuse_inside("requires_grad_", API)
        _check_forward(create_graph, strict, vectorize, given)
        found = _by_columns(first, given, lift=True)
    else:
        found = jacobian(first, given, create_graph, strict, vectorize)
    return found if several else found[0][0]
