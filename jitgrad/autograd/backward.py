"""backward and grad, by which users run the engine: their arguments, checked, as edges and gradients to start from.

Gradients of wrapped tensors (inside transforms, or of a batch of gradients) go by way of transforms/gradients.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from jitgrad.autograd.gradient_edge import GradientEdge
from jitgrad.core.grad_mode import state
from jitgrad.core.node import Edge, Node, edge_of, edge_to
from jitgrad.core.tensor import Tensor
from jitgrad.core.transform_guards import transforming
from jitgrad.core.wrapped import outermost_wrapped
from jitgrad.dispatch.registry import set_method
from jitgrad.engine import engine
from jitgrad.ops.creation.constants import empty, ones_like, zeros_like
from jitgrad.transforms.gradients import gradients as gradients_of

__all__ = ["backward", "first_gradient", "grad"]

Tensors = Tensor | GradientEdge | Sequence[Tensor | GradientEdge]


def _as_list(value: Any) -> list[Any]:
    """A tensor, an edge or any iterable of these as a list."""
    return [value] if isinstance(value, (Tensor, GradientEdge)) else list(value)


def _inputs(value: Any, name: str) -> list[Any]:
    """The tensors or edges of the argument ``inputs``, as a list; of a dictionary its values."""
    kind = type(value)
    # Asking for an abstract class takes longer than all else here, so not of what mostly is given.
    if kind is not tuple and kind is not list and kind is not dict and isinstance(value, Mapping):
        raise TypeError(
            f"`inputs` argument to `{name}()` must be a dict, not {kind.__name__}. Other Mapping types are not "
            "supported."
        )
    found = _as_list(value.values() if kind is dict else value)
    if not found:
        raise RuntimeError(f"`inputs` argument to `{name}()` cannot be empty.")
    return found


def _one_for_each(outputs: Sequence[Any], grads: list[Any]) -> list[Any]:
    """The gradients of the outputs; RuntimeError for too few, while what is beyond is not looked at, as in PyTorch."""
    if len(outputs) > len(grads):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(grads)} gradients")
    return grads[: len(outputs)]


def _stand_in(out: Any, gradient: Any = None) -> Any:
    """In place of a GradientEdge an uninitialised tensor with that edge as its history; anything else as it is.

    An edge made by hand does not know the layout of its tensor; then the incoming gradient tells it, else it is a
    scalar.
    """
    if not isinstance(out, GradientEdge):
        return out
    layout = out.layout or (gradient._layout if isinstance(gradient, Tensor) else empty(())._layout)
    tensor = empty(layout.shape, dtype=layout.dtype, device=layout.device)
    return tensor._attached(edge_to(out.node, out.output_nr))


def _roots(outputs: Sequence[Tensor], grads: Sequence[Tensor | None]) -> tuple[list[Edge], list[Tensor]]:
    """The edges of outputs, and the gradients to start from; RuntimeError for an output without history."""
    edges, gradients = [], []
    for k, (out, gradient) in enumerate(zip(outputs, grads, strict=True)):
        if not isinstance(out, Tensor):
            raise AssertionError("Expected output to be a torch.Tensor")
        edge, first = _root(out, gradient, k)
        edges.append(edge)
        gradients.append(first)
    return edges, gradients


def _root(out: Tensor, gradient: Tensor | None, index: int) -> tuple[Edge, Tensor]:
    """The edge of output ``index`` and the gradient to start from there; RuntimeError if it has no history."""
    edge = edge_of(out)
    first = first_gradient(out, gradient, index, edge)  # PyTorch refuses a wrong gradient first
    if edge is None:
        raise RuntimeError(f"element {index} of tensors does not require grad and does not have a grad_fn")
    return edge, first


def first_gradient(out: Tensor, gradient: Any, index: int, edge: Edge | None) -> Tensor:
    """The gradient to start from at output ``index``, in its dtype; None means 1 if the output is a real scalar."""
    if gradient is None:
        if edge is not None and out._layout.numel != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        if edge is not None and not out._layout.dtype.is_floating_point:
            raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {out.dtype}")
        return ones_like(out)
    if not isinstance(gradient, Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(gradient).__name__}")
    if gradient._layout is out._layout:
        return gradient
    if gradient.shape != out.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{index}] has a shape of {gradient.shape} and output[{index}] has a "
            f"shape of {out.shape}."
        )
    if out.dtype.is_complex != gradient.dtype.is_complex:
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in "
            f"dtype: grad_output[{index}] has a dtype of {gradient.dtype} and output[{index}] has a dtype of "
            f"{out.dtype}."
        )
    return gradient if gradient.dtype is out.dtype else gradient.to(out.dtype)


def backward(
    tensors: Tensors, grad_tensors: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
    grad_variables: Any = None, inputs: Any = None,
) -> None:  # fmt: skip
    """Add the gradients of ``tensors`` to ``.grad`` of the leaves they depend on.

    grad_tensors: one gradient per tensor, or None for real scalars. retain_graph: keep what nodes
    saved (default: create_graph). create_graph: record backward itself. inputs: accumulate into
    these tensors only, leaves or not; one, any number, or a dictionary of them.
    """
    if transforming():
        raise RuntimeError(
            "backward() called inside a functorch transform. This is not supported, please use functorch.grad or "
            "functorch.vjp instead or call backward() outside of functorch transforms."
        )
    if grad_variables is not None:
        warnings.warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=2)
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. Please only "
                "use `grad_tensors`."
            )
        grad_tensors = grad_variables
    outputs = _as_list(tensors)
    grads = _as_list(grad_tensors) if grad_tensors is not None else [None] * len(outputs)
    targets = None if inputs is None else _inputs(inputs, "backward")
    grads = _one_for_each(outputs, grads)
    edges, gradients = _roots([*map(_stand_in, outputs, grads)], grads)
    keep = create_graph if retain_graph is None else retain_graph
    if create_graph:
        warnings.warn(_CYCLE, UserWarning, stacklevel=3)  # names the caller of Tensor.backward, as PyTorch's does
    if targets is None:
        engine.run(edges, gradients, keep, create_graph)
        return
    for target in targets:
        if isinstance(target, Tensor):
            target.retain_grad()  # of a non-leaf: that is how its ``.grad`` comes to be set
    wanted = [_input_edge(t) for t in targets]
    engine.run(edges, gradients, keep, create_graph, wanted)


_CYCLE = (
    "Using backward() with create_graph=True will create a reference cycle between the parameter and its gradient "
    "which can cause a memory leak. We recommend using autograd.grad when creating the graph to avoid this. If you "
    "have to use this function, make sure to reset the .grad fields of your parameters to None after use to break "
    "the cycle and avoid the leak."
)


def _input_edge(tensor: Any) -> Edge:
    """The edge of a tensor, or GradientEdge, whose gradient is asked for; RuntimeError if it has none."""
    if isinstance(tensor, GradientEdge):
        return edge_to(tensor.node, tensor.output_nr)
    if not isinstance(tensor, Tensor):
        raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(tensor).__name__}")
    edge = edge_of(tensor)
    if edge is None and tensor.requires_grad:  # a view made under no_grad: nothing leads to it
        return Node()
    if edge is None:
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    return edge


def grad(
    outputs: Tensors, inputs: Tensors, grad_outputs: Any = None, retain_graph: bool | None = None,
    create_graph: bool = False, only_inputs: bool = True, allow_unused: bool | None = None,
    is_grads_batched: bool = False, materialize_grads: bool = False,
) -> Any:  # fmt: skip
    """Return the gradients of ``outputs`` with respect to ``inputs``, a tuple; ``.grad`` stays as it is.

    Inputs in a dictionary have their gradients in one.
    A RuntimeError if an input was not used, unless ``allow_unused`` (None is returned for it) or
    ``materialize_grads`` (zeros are).
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    if not only_inputs:
        warnings.warn("only_inputs argument is deprecated and is ignored now (defaults to True).",
                      FutureWarning, stacklevel=2)  # fmt: skip
    outs, ins = _as_list(outputs), _inputs(inputs, "grad")
    keep = create_graph if retain_graph is None else retain_graph
    find = _run_batched if is_grads_batched else _run_once
    grads = [None] * len(outs) if grad_outputs is None else _as_list(grad_outputs)
    grads = _one_for_each(outs, grads)
    found = find(outs, ins, grads, keep, create_graph, bool(allow_unused or materialize_grads))
    if materialize_grads:
        found = _materialized(found, ins, create_graph)
    return dict(zip(inputs, found, strict=True)) if isinstance(inputs, dict) else found


def _run_once(
    outs: list[Any], ins: list[Any], grads: list[Any], keep: bool, create_graph: bool, unused: bool
) -> tuple[Tensor | None, ...]:
    """The gradients that one run of the engine finds. ``unused``: None for an input not used, rather than an error."""
    outs = [*map(_stand_in, outs, grads)]
    edges, gradients = _roots(outs, grads)
    wanted = [_input_edge(t) for t in ins]
    if state.levels and outermost_wrapped((*outs, *ins, *gradients)) is not None:
        found = gradients_of(outs, ins, gradients, create_graph, keep)
    else:
        found = engine.run(edges, gradients, keep, create_graph, wanted, accumulate=False)
    missing = [k for k, f in enumerate(found) if f is None]
    if missing and not unused:
        raise RuntimeError(
            f"The differentiated Tensor at index {missing[0]} appears to not have been used in the graph. Set "
            "allow_unused=True if this is the desired behavior."
        )
    return tuple(found)


def _materialized(found: Sequence[Tensor | None], ins: Sequence[Any], create_graph: bool) -> tuple[Tensor, ...]:
    """Gradients with zeros in place of None, which require grad under ``create_graph``."""
    if any(f is None and isinstance(t, GradientEdge) for f, t in zip(found, ins, strict=True)):
        raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
    pairs = zip(found, ins, strict=True)
    return tuple([zeros_like(t, requires_grad=create_graph) if f is None else f for f, t in pairs])


def _run_batched(
    outs: list[Any], ins: list[Any], grads: list[Any], keep: bool, create_graph: bool, unused: bool
) -> tuple[Any, ...]:
    """``is_grads_batched``: one run with batched tensors as gradients; dim 0 of each gradient is the batch."""
    from jitgrad.transforms.batched import Batch, batch_first, batched  # part of no other path of every program

    with Batch(_batch_size(outs, grads), "gradients") as level:
        found = _run_once(outs, ins, [batched(level, g) for g in grads], keep, create_graph, unused)
        return tuple(f if f is None else batch_first(f, level) for f in found)


def _batch_size(outs: Sequence[Any], grads: Sequence[Any]) -> int:
    """The size of dim 0 of all ``grads``, whose other dims must be those of the outputs."""
    for k, (out, g) in enumerate(zip(outs, grads, strict=True)):
        if not isinstance(g, Tensor):
            first_gradient(stand_in := _stand_in(out), g, k, edge_of(stand_in))
            raise ValueError(
                "vmap(vjp, in_dims=0, ...)(<inputs>): Got in_dim=0 for some input, but that input is a Tensor of "
                "dimensionality 0 so expected in_dim to satisfy 0 <= in_dim < 0."
            )
        layout = out.layout if isinstance(out, GradientEdge) else out._layout
        if layout is not None and tuple(g.shape[1:]) != layout.shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                "dimension. The sizes of the remaining dimensions are expected to match the shape of corresponding "
                f"output, but a mismatch was detected: grad_output[{k}] has a shape of {g.shape} and output[{k}] has a "
                f"shape of {layout.size}. If you only want some tensors in `grad_output` to be considered batched, "
                "consider using vmap."
            )
    sizes = [g.shape[0] for g in grads]
    if len(set(sizes)) != 1:
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the "
            "mapped dimension"
        )
    return int(sizes[0])


def backward_of(
    self: Tensor, gradient: Tensor | None = None, retain_graph: bool | None = None, create_graph: bool = False,
    inputs: Any = None,
) -> None:  # fmt: skip
    """Add the gradients of this tensor to ``.grad`` of the leaves it depends on.

    ``gradient`` may be left out for a real scalar. See ``jitgrad.autograd.backward``.
    """
    if create_graph or inputs is not None or transforming():
        return backward([self], [gradient], retain_graph, create_graph, inputs=inputs)
    edge, first = _root(self, gradient, 0)  # most calls, without the lists that several tensors take
    engine.run((edge,), (first,), bool(retain_graph), False)
    return None


set_method("backward", backward_of)
