"""Makes what a Function's forward returned part of the graph, and what its backward returned fit the inputs.

Forward runs without recording, so its results have no history yet. Each is one of: a new tensor; an input that was
written to (``mark_dirty``); an input returned as it is, of which a view is made, since a tensor has one history only;
a view of an input; or no tensor.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Sequence
from sys import getrefcount
from typing import Any

from jitgrad.core.block_pool import is_part
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.layout import Layout
from jitgrad.core.node import (
    Node,
    announce_node,
    edge_of,
    edge_to,
    next_sequence_number,
    node_observers,
    node_of,
    number_of,
)  # fmt: skip
from jitgrad.core.storage import count_write, counter_of
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.operand_checks import check_inplace_target
from jitgrad.dispatch.views import view_of
from jitgrad.ops.shape.expand import sum_to_size

__all__ = ["are_owned", "connect", "fit_gradient"]

_LEAF = "a leaf Variable that requires grad has been used in an in-place operation."
_DIRTY_NO_INPUT = (
    "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been mutated should be "
    "passed to ctx.mark_dirty()."
)
_DIRTY_VIEW = (
    "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot return more "
    "than one Tensor. This is not supported by the current autograd engine. You should either make sure the input is "
    "not a view (using .clone() for example) or make your Function only return one Tensor (potentially splitting it "
    "into two Functions: one doing the inplace that returns a single Tensor and a second one that does the other "
    "operations). You can ask on the forum https://discuss.pytorch.org/ if you need help to do this change."
)
_SAVED_INPUT = (
    "An input that has been returned as-is as output is being saved for backward. This is not supported if you "
    "override setup_context. You should return and save a view of the input instead, e.g. with x.view_as(x) or setup "
    "ctx inside the forward function itself."
)
_NOT_RETURNED = (
    "Some elements marked as dirty during the forward method were not returned as output. The inputs that are modified "
    "inplace must all be outputs of the Function."
)


def connect(ctx: Any, inputs: Sequence[Any], output: Any, recorded: bool, has_setup_context: bool) -> Any:
    """Return forward's output; if ``recorded``, its differentiable tensors become outputs of the node ``ctx``.

    ``has_setup_context``: a setup_context has filled ctx. Given a tensor that is input and output, it can't say which
    of the two is to be saved, so that is an error.
    """
    tensors = [a for a in inputs if isinstance(a, Tensor)]
    if recorded:
        _become_node(ctx, tensors)
        if _is_plain(ctx, tensors, output):
            output._edge, output._requires_grad = ctx, True
            ctx._outputs = ((output._layout, True),)
            _complete_node(ctx, {})
            return output
    outs = output if isinstance(output, tuple) else (output,)
    fixed = _marked(ctx.non_differentiable, "mark_non_differentiable only accepts variable arguments, but got {1}")
    dirty = _marked(ctx.dirty_tensors, "mark_dirty can only accept variables, but argument {0} is of type {1}")
    for tensor in dirty.values():  # marking counts as a write, besides those that forward's inplace ops have counted
        count_write(tensor)
    call = _CallOutputs(ctx, tensors, dirty, fixed, recorded, len(outs), has_setup_context)
    results = [call.output(out, k) if isinstance(out, Tensor) else out for k, out in enumerate(outs)]
    if not dirty.keys() <= {id(out) for out in outs}:
        raise RuntimeError(_NOT_RETURNED)
    _forbid_writes(results, {id(t) for t in tensors} & dirty.keys(), call.differentiable)
    if recorded:
        ctx._outputs = tuple(call.known)
        _complete_node(ctx, dirty)
    ctx.non_differentiable = ctx.dirty_tensors = None
    return tuple(results) if isinstance(output, tuple) else results[0]


def _is_plain(ctx: Any, tensors: list[Tensor], output: Any) -> bool:
    """Whether forward returned a single new tensor and marked nothing, as most do."""
    if type(output) is not Tensor or output._base is not None or output._layout.dtype.category < 2:
        return False
    return not (ctx.dirty_tensors or ctx.non_differentiable or any(output is t for t in tensors))


def _marked(tensors: Any, words: str) -> dict[int, Tensor]:
    """{id: tensor} of what the user has marked; a RuntimeError (``words``) for what is no tensor."""
    for k, tensor in enumerate(tensors or ()):
        if not isinstance(tensor, Tensor):
            raise RuntimeError(words.format(k, type(tensor).__name__))
    return {id(t): t for t in tensors or ()}


def _become_node(ctx: Any, tensors: list[Tensor]) -> None:
    """Make ctx a node of the graph: edges to the inputs, the layouts of their gradients, a number."""
    ctx.edges = tuple([edge_of(t) for t in tensors])
    ctx._inputs = tuple([t._layout if e is not None else None for t, e in zip(tensors, ctx.edges, strict=True)])
    ctx.sequence_number = next_sequence_number()


class _CallOutputs:
    """The outputs of one call of a Function, which become part of the graph one after another.

    ``dirty`` and ``fixed``: {id: tensor} of what was marked as written to and as not differentiable. ``known``: for
    the node, (layout, whether it is differentiable) of each output.
    """

    def __init__(self, ctx: Any, tensors: list[Tensor], dirty: dict[int, Tensor], fixed: dict[int, Tensor],
                 recorded: bool, count: int, has_setup_context: bool):  # fmt: skip
        self.ctx, self.dirty, self.fixed, self.recorded, self.count = ctx, dirty, fixed, recorded, count
        self.inputs = {id(t): k for k, t in enumerate(tensors)}
        to_save = ctx.to_save if has_setup_context and isinstance(ctx.to_save, tuple) else ()
        self.saved = {id(t) for t in to_save}
        self.known: list[Any] = [None] * count
        self.differentiable = 0
        if recorded and count != 1:
            ctx.n_outputs, ctx.special = count, True

    def output(self, out: Tensor, number: int) -> Tensor:
        """An output with its history."""
        fixed = id(out) in self.fixed or out._layout.dtype.category < 2
        if fixed:
            self.ctx._non_differentiable_outputs += (number,)
        differentiable = self.recorded and not fixed
        self.known[number] = (out._layout, differentiable)
        self.differentiable += differentiable
        if not differentiable:
            return self.outside(out)
        if id(out) in self.dirty:
            self.written(out, number)
            return out
        if id(out) in self.inputs:
            if id(out) in self.saved:
                raise RuntimeError(_SAVED_INPUT)
            out = _another(out)
        out._edge, out._requires_grad = edge_to(self.ctx, number), True
        return out

    def outside(self, out: Tensor) -> Tensor:
        """An output that gets no history: it is not differentiable, or the call is not recorded."""
        is_input = id(out) in self.inputs
        # An input that forward did not write to comes out as another tensor, never as the same object.
        if not out.requires_grad:
            return _another(out) if is_input and id(out) not in self.dirty else out
        if is_input:
            return out.detach()
        return out.detach_() if out._base is None else out

    def written(self, out: Tensor, number: int) -> None:
        """Make the call the history of an input that forward has written to."""
        if out._edge is None and out.requires_grad:
            raise RuntimeError(_LEAF)
        if id(out) not in self.inputs:
            warnings.warn(_DIRTY_NO_INPUT, UserWarning, stacklevel=5)
        if out._base is None:
            out._rebase(edge_to(self.ctx, number))
            return
        if self.count > 1:
            raise RuntimeError(_DIRTY_VIEW)
        check_inplace_target(out, True, allows_internal_overlap=True)
        place = self.inputs.get(id(out))
        out._rebase(edge_to(self.ctx if place == 0 else _Reordered(self.ctx, place), number))


def _another(tensor: Tensor) -> Tensor:
    """A view of an input that forward has returned, of the class that ``view_as`` gives an input of a subclass."""
    if type(tensor) is Tensor:
        return view_of(tensor, tensor._data, tensor._layout, "custom")
    with no_grad():
        result: Tensor = tensor.view_as(tensor)
    result._view_kind = "custom"
    return result


class _Reordered(Node):
    """A call whose inputs are in another order: CopySlices wants the input that was written to in the first place."""

    def __init__(self, node: Node, place: int | None):
        self.node, self.place = node, place
        self.edges = self._moved(node.edges)
        self.sequence_number = node.sequence_number

    def _moved(self, values: Sequence[Any]) -> tuple[Any, ...]:
        if self.place is None:  # forward wrote into what was not its input
            return (None, *values)
        return (values[self.place], *values[: self.place], *values[self.place + 1 :])

    def vjp(self, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """The call's gradients, in that order."""
        found = self._moved(self.node.vjp(*grads))
        self.owned = self.node.owned
        return found

    def release(self) -> None:
        """Free what the call saved."""
        self.node.release()

    def frees(self) -> bool:
        """Whether that makes a second backward raise."""
        return self.node.frees()

    def watched(self) -> tuple[Any, ...]:
        """What the call saved."""
        return self.node.watched()


def _forbid_writes(results: Sequence[Any], written: set[int], differentiable: int) -> None:
    """Mark views that a Function returned: an inplace op on one would give its base a history without the Function."""
    for out in results:
        if isinstance(out, Tensor) and out._base is not None and id(out) not in written:
            out._view_kind = "multi" if differentiable > 1 else "custom"


def _complete_node(ctx: Any, dirty: dict[int, Tensor]) -> None:
    """Save what forward asked for, then announce the node."""
    if ctx.to_save is not None:
        _save_tensors(ctx, ctx.to_save, dirty)
        del ctx.to_save  # it may name outputs, which hold this node: a cycle
    if node_observers:
        announce_node(ctx)


def _save_tensors(ctx: Any, given: Any, dirty: dict[int, Tensor]) -> None:
    """Keep tensors with their versions; of this node's own outputs an alias, as the output would hold the node."""
    if not isinstance(given, tuple):
        raise RuntimeError(
            f"autograd internal error: to_save attribute is expected to be a tuple but is {type(given).__name__}"
        )
    saved: list[Tensor] = []
    origins: list[Any] = []
    for k, tensor in enumerate(given):
        if tensor is None:
            origins.append(None)
            continue
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"save_for_backward can only save variables, but argument {k} is of type {type(tensor).__name__}"
            )
        edge = tensor._edge
        if edge is not None and node_of(edge) is ctx:
            origins.append(number_of(edge))
        elif edge is not None and id(tensor) in dirty:  # a view: its edge leads to an AsStrided node and on to this one
            origins.append((weakref.ref(node_of(edge)), number_of(edge)))
        else:
            origins.append(-1)
        saved.append(tensor if origins[-1] == -1 else _alias(tensor))
    ctx.saved, ctx._origins = tuple(saved), tuple(origins)
    ctx.versions = tuple([t._counter[0] for t in saved])


def _alias(out: Tensor) -> Tensor:
    """The memory and version counter of an output, without its edge."""
    result = wrap(out._data, out._layout)
    result._counter = counter_of(out)
    return result


# -- gradients ----------------------------------------------------------------------------------------


def fit_gradient(gradient: Tensor, like: Layout, name: str, index: int) -> Tensor:
    """A gradient in the shape, dtype and on the device of its input, whose layout is ``like``.

    It may be summed (as broadcasting would repeat) and cast; else a RuntimeError that names node and input.
    """
    layout = gradient._layout
    if layout is like:
        return gradient
    if layout.shape != like.shape:
        if not _broadcast_from(like.shape, layout.shape):
            raise RuntimeError(
                f"Function {name} returned an invalid gradient at index {index} - got {list(layout.shape)} but "
                f"expected shape compatible with {list(like.shape)}"
            )
        gradient = sum_to_size(gradient, like.shape)
    if layout.dtype is not like.dtype:
        if layout.dtype.is_complex and not like.dtype.is_complex:
            raise RuntimeError(
                f"Function {name} returned an invalid gradient at index {index} - got {layout.dtype} but the input is "
                f"{like.dtype}; return its real part"
            )
        gradient = gradient.to(like.dtype)
    if layout.device != like.device:
        if layout.shape:
            raise RuntimeError(
                f"Function {name} returned an invalid gradient at index {index} - expected device {like.device} but "
                f"got {layout.device}"
            )
        gradient = gradient.to(like.device)
    return gradient


def _broadcast_from(shape: Sequence[int], wide: Sequence[int]) -> bool:
    """Whether a tensor of ``shape`` broadcasts to the shape ``wide``."""
    missing = len(wide) - len(shape)
    return missing >= 0 and all(s in (1, w) for s, w in zip(shape, wide[missing:], strict=True))


def _count_references(values: tuple[Any, ...]) -> int:
    """CPython's reference count of the first value, as ``are_owned`` sees it in its loop over a tuple."""
    for value in values:
        return getrefcount(value)
    return 0


# The reference count of an object that only a tuple holds. Measured, since it differs between versions of Python.
_REFERENCES_IF_OWNED = _count_references((object(),))


def are_owned(gradients: tuple[Any, ...]) -> bool:
    """Whether nobody but the tuple holds any of these gradients or their arrays, so that they may become ``.grad``."""
    for g in gradients:
        if g is None:
            continue
        data = g._data if type(g) is Tensor else None
        if data is None or is_part(data):
            return False
        if getrefcount(g) > _REFERENCES_IF_OWNED or getrefcount(data) > _REFERENCES_IF_OWNED:
            return False
    return True
