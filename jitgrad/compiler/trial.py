"""Backward of a program's own autograd.Functions, run once more than the program runs it, to be recorded.

Where backward runs outside of the compiled function, it is recorded as soon as the function has been. A program must
not notice that: the run ends before its first effect, and the statement that applies the Function is left out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from jitgrad.autograd.function_node import BackwardCFunction
from jitgrad.core.node import Node

__all__ = ["Refused", "may_be_tried", "runs_programs_code", "unnoticed"]


class Refused(BaseException):
    """What a trial would do could be noticed; the message says what it is. No program catches it by ``Exception``."""


def runs_programs_code(node: Node) -> bool:
    """Whether a node's backward calls an autograd.Function's, or what unpacks saved tensors."""
    return isinstance(node, BackwardCFunction) or bool(getattr(node, "packing", False))


def may_be_tried(node: Node) -> bool:
    """Whether a node that runs a program's code can be run once more, and gives the same for zeros as for no gradient.

    Functions of jitgrad's are not followed; where a saved tensor is handed over, the second run finds none; writes to
    a device's memory are not noticed before they are done.
    """
    if not isinstance(node, BackwardCFunction) or getattr(node, "packing", False):
        return False
    cls = node._forward_cls
    ours = cls.__module__.startswith("jitgrad.")
    elsewhere = any(known is not None and known[0].device != "cpu" for known in node._outputs)
    return node.materialize_grads and not (ours or cls.clear_saved_tensors_on_access or elsewhere)


@contextlib.contextmanager
def unnoticed(nodes: Iterable[Node]) -> Iterator[None]:
    """Around a trial of nodes: Refused where it has changed what their ``ctx`` holds, which is as before afterwards."""
    kept = [(vars(node), dict(vars(node))) for node in nodes]
    held = [(c, c.copy()) for _, before in kept for value in before.values() for c in _containers(value)]
    try:
        yield
    finally:
        for own, _ in kept:
            own.pop("owned", None)  # which the engine sets
        changed = [(now, before) for now, before in (*kept, *held) if not _are_same(now, before)]
        for now, before in changed:
            _restore(now, before)
    if changed:
        raise Refused("it changes ctx")


def _containers(value: Any) -> Iterator[Any]:
    """The lists, dictionaries and sets of Python's in a value, from the innermost out."""
    if type(value) in (list, dict, set, tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _containers(item)
        if not isinstance(value, tuple):
            yield value


def _are_same(now: Any, before: Any) -> bool:
    """Whether a container holds the very objects that it held before."""
    if isinstance(now, dict):
        return now.keys() == before.keys() and all(value is before[key] for key, value in now.items())
    return len(now) == len(before) and all(a is b for a, b in zip(now, before, strict=True))


def _restore(now: Any, before: Any) -> None:
    """Put the items back."""
    now.clear()
    (now.extend if isinstance(now, list) else now.update)(before)
