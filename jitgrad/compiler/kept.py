"""Gradients whose memory one run after the other may write to."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any, NamedTuple

from jitgrad.compiler.memory import Fresh
from jitgrad.compiler.program import View, bare_tensor, view_of
from jitgrad.compiler.recording import Change
from jitgrad.core.inference import is_inference
from jitgrad.core.layout import Layout
from jitgrad.core.storage import UNWRITTEN
from jitgrad.core.tensor import Tensor
from jitgrad.kernels.program import (
    Beginning,
    Row,
    Rows,
    is_on_device,
    words_of_dict,
    words_of_list,
    words_of_own_dict,
    words_of_references,
    words_of_type,
)

__all__ = ["Kept", "is_plain"]

_NEVER = (id(None), -1, 0)  # a row that does not hold: that is a count of references


class _Gradient(NamedTuple):
    """How a leaf's gradient is made anew: ``make`` returns its memory, of which it is all, or the part ``view``."""

    leaf: Tensor
    make: Callable[[], Any]
    view: View | None
    kind: type[Tensor]
    layout: Layout
    writes: int


class Kept:
    """New gradients that a run may write to again, because nobody but their leaves has them.

    They are those of the last run. The words that ``begin`` compares say so: all of them are still where that put
    them, nobody else has the tensor or its memory, and both are as they were made. Words are compared in their order,
    so those that say that an object is still there come before those at its address.
    """

    def __init__(self, changes: Sequence[tuple[Change, Fresh]], unread: Container[Change], begin: Beginning):
        """changes: each with the memory of its gradient; unread: those whose old gradient no run looks at."""
        self.gradients = [_gradient(*pair) for pair in changes]
        self._unread = [change.tensor for change, _ in changes if change in unread]
        self.begin = begin
        self.grads: list[Any] = []
        self._never = Rows([[_NEVER]])
        self._release()

    def _release(self) -> None:
        """Let go of the gradients, before others are made: the last run's memory is not written to again."""
        self.begin.compare(second=self._never)  # first: the rows say where the gradients' counts of references are
        self.grads = []

    def allocate(self) -> list[Any]:
        """New memory for all of them; that of the old ones is free for it."""
        self._release()
        for leaf in self._unread:
            leaf._grad = None
        return [gradient.make() for gradient in self.gradients]

    def give(self, arrays: Sequence[Any]) -> None:
        """Make the gradients of what ``allocate`` returned, and note them."""
        rows: list[Row] = []
        known = True
        for made, array in zip(self.gradients, arrays, strict=True):
            data = array if made.view is None else made.view.of(array)
            grad = bare_tensor(made.kind, made.layout, data)
            if made.writes:
                grad._counter = [made.writes]
            made.leaf._grad = grad
            self.grads.append((grad, vars(grad)))
            parts = [words_of_dict(made.leaf.__dict__), words_of_references(grad, 2), *_words_of_own(grad)]
            parts.append(words_of_references(data, 1))
            if made.view is not None:
                parts.append(words_of_references(array, 1))
            known = known and None not in parts
            rows += [row for part in parts for row in part or ()]
        if known:
            self.begin.compare(second=Rows([rows]))


def _words_of_own(grad: Any) -> list[Any]:
    """Words of memory that change if the gradient gets other attributes, another class or another version."""
    counter = [] if grad._counter is UNWRITTEN else [words_of_list(grad._counter, grad._counter)]
    return [words_of_own_dict(grad), words_of_type(grad), *counter]


def is_plain(grad: Tensor) -> bool:
    """Whether a gradient is one that `Kept` can make: on the CPU, with no more to it than numbers."""
    return not (is_on_device(grad._data) or is_inference(grad) or grad._requires_grad or grad._edge is not None)


def _gradient(change: Change, fresh: Fresh) -> _Gradient:
    grad: Any = change.grad
    view = None if grad._data is fresh.root else view_of(grad._data, fresh.address, fresh.root)
    return _Gradient(change.tensor, fresh.maker(), view, type(grad), grad._layout, grad._counter[0])
