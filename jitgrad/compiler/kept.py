"""Gradients whose memory one run after the other may write to."""

from __future__ import annotations

from typing import Any

from jitgrad.core.tensor import Tensor
from jitgrad.kernels.program import Beginning, Rows, words_of_dict, words_of_references

__all__ = ["Kept"]

_NEVER = (id(None), -1, 0)  # a row that does not hold: that is a count of references


class Kept:
    """New gradients that a run may write to again, because nobody but their leaves has them.

    They are those of the last run. ``rows`` are the words that say so: all of them are still where that put them, and
    nobody else has the tensor or its memory.
    """

    def __init__(self, leaves: list[Tensor], begin: Beginning):
        self.leaves, self.begin = leaves, begin
        self.grads: list[Any] = []
        self._never = Rows([[_NEVER]])
        self.release()

    def release(self) -> None:
        """Let go of the gradients, before others are made: the last run's memory is not written to again."""
        self.begin.compare(second=self._never)  # first: the rows say where the gradients' counts of references are
        self.grads = []

    def take(self, *grads: Tensor) -> None:
        """Note the gradients that the leaves have got."""
        self.grads = list(grads)
        rows = []
        for leaf, grad in zip(self.leaves, grads, strict=True):
            data = grad._data
            parts = [words_of_dict(leaf.__dict__), words_of_references(grad, 2), words_of_references(data, 1)]
            if data.base is not None:
                parts.append(words_of_references(data.base, 1))
            if None in parts:
                return
            rows += [row for part in parts for row in part or ()]
        self.begin.compare(second=Rows([rows]))
