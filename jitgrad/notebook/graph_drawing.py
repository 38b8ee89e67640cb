"""The recorded graph behind tensors, as a picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jitgrad.core.formatting import PrintOptions, format_array
from jitgrad.core.layout import Layout
from jitgrad.core.node import AccumulateGrad, Node, edge_of, node_of, number_of
from jitgrad.core.tensor import Tensor
from jitgrad.debug.picture import Arrow, Box, Picture
from jitgrad.dispatch.elementwise_plan import ElementwiseNode
from jitgrad.dispatch.structured_node import StructuredNode

__all__ = ["draw"]

_SHOWN = PrintOptions(threshold=24, edgeitems=2, linewidth=44)  # of values in boxes: small, so that boxes are
Place = tuple[int, int]  # the id of a node, and which of its outputs


def draw(*outputs: Any, names: Any = None, saved: bool = False, values: bool = False, grads: bool = False) -> Picture:
    """Draw the graph that computed ``outputs``, from the leaves above to the outputs below.

    Light blue: leaves that ``backward`` gives a ``.grad``. Grey: functions (``grad_fn``), with the
    shape of what they made where it is known. Green: the outputs. Orange: what functions saved.

    Args:
        outputs: tensors, or sequences of them.
        names: how to call tensors: {name: tensor}, or a module, whose parameters are then named. A
            named tensor that an op made gets a box of its own (pale green) after that op.
        saved: also draw saved tensors, with dashed lines to the functions that will need them.
        values: print the values of the tensors drawn; large ones are summarised.
        grads: print their ``.grad``; tensors with ``retain_grad()`` then get a box too.

    Returns a `Picture`: a notebook shows it, ``.svg()``, ``.dot`` and ``.mermaid`` are its texts.
    Raises TypeError if an output is not a tensor. Computes nothing on the tensors.

    >>> import jitgrad
    >>> x = jitgrad.ones(2, requires_grad=True)
    >>> draw((x * 3).sum(), names={"x": x})
    <picture of 5 boxes and 4 arrows>
    """
    return _Drawing(list(_tensors(outputs)), _named(names), saved, values, grads).picture()


def _tensors(outputs: Iterable[Any]) -> Iterator[Tensor]:
    for output in outputs:
        if isinstance(output, Tensor):
            yield output
        elif isinstance(output, (tuple, list)):
            yield from _tensors(output)
        else:
            raise TypeError(f"draw(): expected Tensors, but got {type(output).__name__}")


def _named(names: Any) -> dict[str, Tensor]:
    if names is None:
        return {}
    if hasattr(names, "named_parameters"):
        return dict(names.named_parameters())
    if isinstance(names, Mapping) and all(isinstance(t, Tensor) for t in names.values()):
        return dict(names)
    raise TypeError("draw(): names must be a dict from str to Tensor, or a module")


class _Drawing:
    """Collects the boxes and arrows of one picture.

    names: by the id of a tensor, what it is called. layouts: of what functions made, where that is known. made: results
    that get a box of their own, by the function output that they are. ids stay valid because ``nodes`` and ``roots``
    hold what they belong to.
    """

    def __init__(self, roots: list[Tensor], named: dict[str, Tensor], saved: bool, values: bool, grads: bool):
        self.saved, self.values, self.grads = saved, values, grads
        self.names = {id(t): name for name, t in named.items()}
        self.boxes: dict[int, Box] = {}  # by the id of the node or tensor that it stands for
        self.arrows: list[Arrow] = []
        self.roots = roots
        self.nodes = _reachable([node_of(edge) for edge in map(edge_of, roots) if edge is not None])
        self.layouts = _layouts(self.nodes, roots)
        self.made = self._made(named.values())

    def _made(self, named: Iterable[Tensor]) -> dict[Place, Tensor]:
        """Results with a box of their own: outputs, what was named, and with ``grads`` what retains its gradient."""
        known = [*(t for n in self.nodes for t in _retained(n) if self.grads), *named, *self.roots]
        here = {id(n) for n in self.nodes}
        return {_place(t._edge): t for t in known if t._edge is not None and id(node_of(t._edge)) in here}

    def picture(self) -> Picture:
        for node in self.nodes:
            self._function(node)
        for (maker, _), tensor in self.made.items():
            box = self._tensor(tensor, "output" if any(tensor is r for r in self.roots) else "tensor")
            self._arrow(self.boxes[maker].key, box.key, tensor._edge)
        for root in self.roots:
            # Without a box yet: a leaf, or another tensor at an output that already has one.
            if id(root) not in self.boxes:
                self._tensor(root, "leaf" if root._requires_grad else "output")
        for node in self.nodes:
            for edge in node.edges:
                if edge is not None:
                    self._arrow(self._source(edge), self.boxes[id(node)].key, edge)
        if self.saved:
            for node in self.nodes:
                self._saved(node)
        return Picture(list(self.boxes.values()), list(self.arrows))

    # -- boxes --------------------------------------------------------------------------------

    def _box(self, number: int, lines: list[str], kind: str) -> Box:
        self.boxes[number] = box = Box(f"n{len(self.boxes)}", tuple(lines), kind)
        return box

    def _function(self, node: Node) -> None:
        lines, layout = [type(node).__name__], self.layouts.get((id(node), 0))
        if layout is not None and not isinstance(node, AccumulateGrad):
            lines.append(_shape(layout))
        if self.saved and node.saved is None and _names_of_saved(node):
            lines.append("saved: freed")
        box = self._box(id(node), lines, "function")
        if isinstance(node, AccumulateGrad):
            self.arrows.append(Arrow(self._leaf(node).key, box.key))

    def _leaf(self, node: AccumulateGrad) -> Box:
        leaf = node.variable
        if leaf is None:  # a node knows its leaf weakly; the negative id can be that of no object
            return self._box(-id(node), ["leaf", "no longer held"], "leaf")
        return self._tensor(leaf, "leaf")

    def _tensor(self, tensor: Tensor, kind: str, title: str = "") -> Box:
        if id(tensor) in self.boxes:
            return self.boxes[id(tensor)]
        lines = [self.names.get(id(tensor)) or title or kind, _shape(tensor._layout)]
        if self.values:
            lines += _numbers(tensor)
        if self.grads and kind != "saved" and tensor._requires_grad:
            lines += _grad(tensor)
        return self._box(id(tensor), lines, kind)

    def _saved(self, node: Node) -> None:
        for name, tensor in _saved_tensors(node):
            shown = self.made.get(_place(tensor._edge), tensor) if tensor._edge is not None else tensor
            box = self._tensor(shown, "saved", f"saved {name}")
            arrow = Arrow(box.key, self.boxes[id(node)].key, dashed=True)
            if arrow not in self.arrows:
                self.arrows.append(arrow)

    # -- arrows -------------------------------------------------------------------------------

    def _source(self, edge: Any) -> str:
        """Where an edge's values come from: a tensor's box if it has one, else its function's."""
        tensor = self.made.get(_place(edge))
        return self.boxes[id(node_of(edge) if tensor is None else tensor)].key

    def _arrow(self, start: str, end: str, edge: Any) -> None:
        node, number = node_of(edge), number_of(edge)
        several = node.n_outputs > 1 and start == self.boxes[id(node)].key
        self.arrows.append(Arrow(start, end, f"output {number}" if several else ""))


def _place(edge: Any) -> Place:
    return id(node_of(edge)), number_of(edge)


def _reachable(roots: list[Node]) -> list[Node]:
    """All nodes that gradients from ``roots`` reach, depth first, without recursion: graphs may be deep."""
    found: dict[int, Node] = {}
    pending = list(reversed(roots))
    while pending:
        node = pending.pop()
        if id(node) not in found:
            found[id(node)] = node
            pending += [node_of(edge) for edge in reversed(node.edges) if edge is not None]
    return list(found.values())


def _retained(node: Node) -> Iterator[Tensor]:
    for reference in (node.retained or {}).values():
        tensor = reference()
        if tensor is not None:
            yield tensor


# -- what nodes know ----------------------------------------------------------------------------------


def _saved_tensors(node: Node) -> list[tuple[str, Tensor]]:
    """(argument name, tensor) of what a node saved; "tensor" where one name stands for a list of unknown length."""
    names, saved = _names_of_saved(node), node.saved or ()
    if len(names) < len(saved):
        names = (names if len(names) == 1 else ["tensor"]) * len(saved)
    return list(zip(names, saved, strict=False))


def _names_of_saved(node: Node) -> list[str]:
    """The argument names of a node's saved tensors, from the plan or recorder of its op; none for a user's Function."""
    if isinstance(node, ElementwiseNode):
        return list(node.backward_plan.saves)
    return list(node.recorder.saved) if isinstance(node, StructuredNode) else []


def _layouts(nodes: list[Node], roots: list[Tensor]) -> dict[Place, Layout | tuple[int, ...]]:
    """The layout of each function output, where a root, its maker or a node that reads it knows it.

    Nodes do not keep the shapes of their outputs, so many can only be learnt from what other nodes saved.
    """
    found: dict[Place, Any] = {_place(t._edge): t._layout for t in roots if t._edge is not None}
    for node in nodes:
        if isinstance(node, ElementwiseNode):
            found.setdefault((id(node), 0), node.backward_plan.forward.shape)
        for edge, layout in _inputs(node):
            if edge is not None and isinstance(layout, Layout):
                found.setdefault(_place(edge), layout)
        for name, tensor in _saved_tensors(node):
            if name == "out" and node.n_outputs == 1:
                found.setdefault((id(node), 0), tensor._layout)
        for tensor in _retained(node):
            found.setdefault(_place(tensor._edge), tensor._layout)
    return found


def _inputs(node: Node) -> list[tuple[Any, Any]]:
    """(edge, layout) of a node's inputs, None for layouts that it did not save."""
    if isinstance(node, ElementwiseNode):
        return list(zip(node.edges, node.backward_plan.forward.inputs, strict=False))
    edges = [edge for edge in node.edges if edge is not None]
    if not isinstance(node, StructuredNode):
        return []
    recorder = node.recorder
    if len(edges) != len(recorder.wants):  # an input is a list of tensors: which edge is whose is not known
        return []
    notes = zip(recorder.saved_nontensors, node.saved_nontensors, strict=True)
    known = {n.removesuffix("_layout"): v for n, v in notes if n.endswith("_layout")}
    known |= {n: t._layout for n, t in _saved_tensors(node)}
    return [(edge, known.get(name)) for edge, name in zip(edges, recorder.wants, strict=True)]


# -- text ---------------------------------------------------------------------------------------------


def _shape(layout: Layout | tuple[int, ...]) -> str:
    if not isinstance(layout, Layout):
        return str(tuple(layout))
    dtype = "" if layout.dtype.name == "float32" else f" {layout.dtype.name}"
    return f"{tuple(layout.shape)}{dtype}"


def _numbers(tensor: Tensor) -> list[str]:
    array = tensor._data if tensor._layout.device == "cpu" else tensor.detach().cpu()._data
    return _even(format_array(array, _SHOWN).split("\n"))


def _grad(tensor: Tensor) -> list[str]:
    grad = tensor._grad
    first, *rest = ["None"] if grad is None else _numbers(grad)
    return _even([f"grad {first}", *(f"     {line}" for line in rest)])


def _even(lines: list[str]) -> list[str]:
    """Lines padded to one length, so that columns of numbers stay in line when each line is centred."""
    width = max(map(len, lines))
    return [line.ljust(width) for line in lines]
