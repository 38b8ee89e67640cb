"""Arguments and results of jitgrad.autograd.functional: checked, made variables, evaluated, and structured again.

Inputs and outputs are a tensor or a tuple of tensors; here both are handled as tuples beside a flag ``several``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.autograd.backward import grad
from jitgrad.core.tensor import Tensor
from jitgrad.ops.creation.constants import zeros_like

__all__ = [
    "INDEPENDENT", "OUTPUT_FIXED", "STRICT", "Evaluation", "Tensors", "check_scalar", "checked_tensors",
    "filled_gradients", "gradients", "released", "require_dependence",
]  # fmt: skip

Tensors = Tensor | tuple[Tensor, ...]
Maybe = Sequence[Tensor | None]

STRICT = "This is not allowed in strict mode"
INDEPENDENT = f"The output of the user-provided function is independent of input {{}}. {STRICT}."
OUTPUT_FIXED = (
    "Output {} of the user-provided function does not require gradients. The outputs must be computed in a "
    "differentiable manner from the input when running in strict mode."
)

def checked_tensors(value: Any, what: str, name: str) -> tuple[bool, tuple[Tensor, ...]]:
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


def _new_variables(tensors: tuple[Tensor, ...], create_graph: bool, track: bool = True) -> tuple[Tensor, ...]:
    """The same values as new variables: views of the tensors if results keep their history, else leaves."""
    return tuple(
        [t.view_as(t) if create_graph and t.requires_grad else t.detach().requires_grad_(track) for t in tensors]
    )


def checked_weights(v: Any, name: str, like: Sequence[Tensor], several: bool, create_graph: bool) -> tuple[Tensor, ...]:
    """``v`` as a tuple of tensors, which must have the shapes of ``like``."""
    given = _new_variables(checked_tensors(v, "v", name)[1], create_graph, track=False)
    if len(given) != len(like):
        if several:
            raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(given)}.")
        raise RuntimeError("The given v should contain a single Tensor.")
    for k, (weight, other) in enumerate(zip(given, like, strict=True)):
        if weight.shape != other.shape:
            entry = f"Entry {k} in " if several else ""
            raise RuntimeError(f"{entry}v has invalid size: should be {other.shape} but got {weight.shape}.")
    return given


def released(tensors: Sequence[Tensor], several: bool, create_graph: bool) -> Tensors:
    """What the user gets: outside the graph unless ``create_graph``, a tuple if ``several``, else its one tensor."""
    found = tuple(tensors) if create_graph else tuple([t.detach() for t in tensors])
    return found if several else found[0]


def require_dependence(tensors: Maybe, words: str) -> None:
    """Strict mode: a RuntimeError for None, and (``words``) for a tensor that does not require grad."""
    for k, tensor in enumerate(tensors):
        if tensor is None:
            raise RuntimeError(INDEPENDENT.format(k))
        if not tensor.requires_grad:
            raise RuntimeError(words.format(k))


def filled_gradients(
    grads: Maybe, like: Sequence[Tensor], strict: bool, create_graph: bool, missing: str, fixed: str
) -> Any:  # fmt: skip
    """Gradients with zeros in place of None.

    ``strict``: a RuntimeError for None (words ``missing``) and, with ``create_graph``, for a constant (``fixed``).
    """
    for k, gradient in enumerate(grads):
        if strict and gradient is None:
            raise RuntimeError(missing.format(k))
        if strict and create_graph and not gradient.requires_grad:  # type: ignore[union-attr]
            raise RuntimeError(fixed.format(k))
    return [zeros_like(x) if g is None else g for g, x in zip(grads, like, strict=True)]


def gradients(outs: Maybe, ins: Sequence[Tensor], weights: Sequence[Any] | None = None, **options: Any) -> Maybe:
    """The gradients of those of ``outs`` that require grad; None for each input if none does."""
    pairs = [(o, w) for o, w in zip(outs, weights or [None] * len(outs), strict=True) if o is not None]
    pairs = [(o, w) for o, w in pairs if o.requires_grad]
    if not pairs:
        return [None] * len(ins)
    return grad([o for o, _ in pairs], list(ins), [w for _, w in pairs], allow_unused=True, **options)


class Evaluation:
    """A function evaluated at new variables: inputs and outputs as tuples, and whether the user's are tuples."""

    def __init__(self, name: str, inputs: Any, create_graph: bool, strict: bool):
        self.name, self.create_graph, self.strict = name, create_graph, strict
        self.several, given = checked_tensors(inputs, "inputs", name)
        self.inputs = _new_variables(given, create_graph)
        self.outputs: tuple[Tensor, ...] = ()
        self.several_outputs = False

    def run(self, func: Callable[..., Any]) -> Any:
        """Call the function."""
        found = func(*self.inputs)
        self.several_outputs, self.outputs = checked_tensors(found, "outputs of the user-provided function", self.name)
        if self.strict:
            require_dependence(self.outputs, OUTPUT_FIXED)
        return found

    def run_to_number(self, func: Callable[..., Any]) -> None:
        """Call a function that must return a single tensor of one element."""
        self.run(func)
        check_scalar(self.name, self.outputs[0], self.several_outputs)

    def output_weights(self, v: Any) -> tuple[Tensor, ...]:
        """``v`` as tensors in the shapes of the outputs."""
        return checked_weights(v, self.name, self.outputs, self.several_outputs, self.create_graph)

    def input_weights(self, v: Any) -> tuple[Tensor, ...] | None:
        """``v`` as tensors in the shapes of the inputs; None, which means 1, is allowed for a single element."""
        if v is not None:
            return checked_weights(v, self.name, self.inputs, self.several, self.create_graph)
        if len(self.inputs) != 1 or self.inputs[0]._layout.numel != 1:
            raise RuntimeError(
                "The vector v can only be None if the input to the user-provided function is a single Tensor with a "
                "single element."
            )
        return None

    def results(self, found: Sequence[Tensor], several: bool) -> tuple[Tensors, Tensors]:
        """(the function's outputs, ``found``), each as the user gets it."""
        return (
            released(self.outputs, self.several_outputs, self.create_graph),
            released(found, several, self.create_graph),
        )


def check_scalar(name: str, output: Any, several: bool) -> None:
    if several:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if output._layout.numel != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {name} should contain a single element")
