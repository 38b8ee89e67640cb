"""The nodes that structured ops record."""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import partial
from typing import TYPE_CHECKING, Any

from jitgrad.core.node import Node, node_of
from jitgrad.core.tensor import Tensor

if TYPE_CHECKING:
    from jitgrad.dispatch.structured_recorder import GeneratedRecorder

__all__ = ["StructuredNode", "title", "vjp_of_one"]


class StructuredNode(Node):
    """A recorded structured op; each op has a subclass with its printed name.

    saved: the tensors that rules name, those of a list one after another. saved_nontensors: the values of everything
    else that they name. The names of both are in the recorder.
    """

    planned = plain_release = True
    op: Any
    recorder: GeneratedRecorder
    saved_nontensors: tuple[Any, ...] = ()
    input_dtypes: tuple[Any, ...]  # of a node with 16-bit floats: those of its inputs, None for one without gradient

    def vjp(self, *grads: Any) -> tuple[Any, ...]:
        """The gradients of the inputs, by backward kernels where the op has them, else by its rules."""
        return self.recorder.vjp(self, *grads)

    def vjp_recorded(self, *grads: Any) -> tuple[Any, ...]:
        """The gradients of the inputs by the rules, which are differentiable ops."""
        return self.recorder.vjp_recorded(self, *grads)

    def vjp_into(self, g: Any, there: Any) -> None:
        """Add the gradient of the one input to ``there``, row-major, of that input's shape and not of 16-bit floats."""
        self.recorder.vjp_into(self, g, there)

    def vjp_toward(self, nodes: Container[Node], recorded: bool) -> Callable[..., tuple[Any, ...]]:
        """``vjp`` or ``vjp_recorded`` without the work for gradients of edges that lead to none of ``nodes``."""
        if len(self.edges) > 1 and self.recorder.inputs:
            leads = tuple([e is not None and node_of(e) in nodes for e in self.edges])
            if any(e is not None and not to for e, to in zip(self.edges, leads, strict=True)):
                return partial(self.recorder.toward(leads)[recorded], self)
        return self.vjp_recorded if recorded else self.vjp

    def is_output(self, saved: Tensor) -> bool:
        """Whether a saved tensor is this op's only result, or one that a rule has named."""
        if saved._layout.dtype.category < 2:  # indices are not in the graph
            return False
        results = ("out", *self.op.results)
        names = zip(self.recorder.saved, self.saved or (), strict=False)
        return any(name in results and tensor is saved for name, tensor in names)

    def output_number(self, index: int) -> int | None:
        """Which output saved tensor ``index`` is, counted from 0; None for an operand."""
        names, results = self._names(), self.op.results
        if names and names[index] in results:
            return results.index(names[index])
        return names[:index].count("out") if names and names[index] == "out" else None

    def saved_names(self) -> list[str]:
        """PyTorch's name of each saved tensor; [] if there are two lists, whose lengths are not kept."""
        return [title(n) for n in self._names()]

    def saved_lists(self) -> tuple[str, ...]:
        """Those of the names that stand for a list of tensors."""
        return tuple(map(title, self.recorder.lists))

    def _names(self) -> list[str]:
        """The rules' name of each saved tensor; a list's length is what the other names leave of the total."""
        names, lists, total = self.recorder.saved, self.recorder.lists, len(vars(self).get("saved") or ())
        lengths = {n: self.n_outputs if n == "out" else None for n in lists}
        unknown = [n for n in lists if lengths[n] is None]
        if len(unknown) > 1:
            return []
        if unknown:
            lengths[unknown[0]] = total - sum(lengths.get(n, 1) or 0 for n in names)
        return [n for n in names for _ in range(lengths.get(n, 1) or 0)]

    def nontensor_value(self, name: str) -> Any:
        """An argument that is no tensor, or the shape of one, under PyTorch's ``name``."""
        for n, value in zip(self.recorder.saved_nontensors, self.saved_nontensors, strict=True):
            if title(n) == name:
                return _sizes(value) if n.endswith("_layout") else value
        return None

    def values(self) -> dict[str, Any]:
        """{name: value} of everything that the rules name, with outputs as part of the graph."""
        return self.recorder.values(self)


def vjp_of_one(node: StructuredNode, g: Any) -> tuple[Any, ...]:
    """``StructuredNode.vjp`` for ops of one result: without ``*`` a call costs 0.1 us less."""
    return node.recorder.vjp(node, g)


# The rules' names -> PyTorch's, in ``_saved_NAME``.
_TITLES = {"x": "self", "y": "other", "out": "result", "x_layout": "self_sym_sizes", "y_layout": "other_sym_sizes"}


def _sizes(layouts: Any) -> Any:
    """The shapes of layouts, as PyTorch's nodes keep ``self_sym_sizes``."""
    return [_sizes(x) for x in layouts] if isinstance(layouts, list) else layouts and tuple(layouts.shape)


def title(name: str) -> str:
    """PyTorch's name for what a rule calls ``name``."""
    return _TITLES.get(name) or (f"{name.removesuffix('_layout')}_sym_sizes" if name.endswith("_layout") else name)
