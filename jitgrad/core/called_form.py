"""How the program called an op, as errors have to say it: ``x.add(y)`` or ``torch.add(x, y)``.

PyTorch names what was called, and counts an argument's position without the tensor that a method is called of. Here a
method is the function itself, so that neither costs a step more; when an error is worded, the instruction of the
program's own frame tells which of the two it was. A call that names no attribute (``f = x.add``) is a function's.
"""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Sequence
from types import FrameType, ModuleType
from typing import Any

__all__ = ["as_called"]


def as_called(op: str, argument: str, position: int | None) -> tuple[str, int | None]:
    """The name of ``op`` and an argument's position, which counts the tensor, as PyTorch has them for the call.

    The position is None for an argument that the call names. An op that is no function was called as a method, however
    it looks.
    """
    face, (name, keywords) = sys.modules["jitgrad"], _called()
    position = None if argument in keywords else position
    known = vars(face.Tensor)
    if name is None or (name.rstrip("_") != op.rstrip("_") and known.get(name, name) is not known.get(op, op)):
        if not hasattr(face.Tensor, op) or hasattr(face, op):
            return op, position
        name = op
    return name, None if position is None else position - 1


def _called() -> tuple[str | None, Sequence[str]]:
    """The name of the method by which the program has called into jitgrad, and the keywords of the call.

    None if it has called something else, and no keywords if it has called nothing, or with ``**``.
    """
    frame: FrameType | None = sys._getframe(1)
    handed_on = False  # by a function that PyTorch has in Python, which gives an op all that it gets without a name
    while frame is not None and (module := frame.f_globals.get("__name__", "")).partition(".")[0] == "jitgrad":
        handed_on |= module == "jitgrad.nn.functional"
        frame = frame.f_back
    if frame is None:
        return None, ()
    steps = list(dis.get_instructions(frame.f_code))
    # Not every instruction's offset: that of a call may be the end of its inline cache.
    at = max(k for k, step in enumerate(steps) if step.offset <= frame.f_lasti)
    if not steps[at].opname.startswith("CALL"):
        return None, ()
    return _method_of(frame, steps, at), () if handed_on else _keywords_of(frame, steps, at)


def _keywords_of(frame: FrameType, steps: Sequence[dis.Instruction], at: int) -> Sequence[str]:
    """The keywords of a call, which an instruction before it has loaded."""
    for step in reversed(steps[max(at - 2, 0) : at]):
        if step.opname == "KW_NAMES" or steps[at].opname == "CALL_KW":  # until Python 3.12, and since
            names: Sequence[str] = frame.f_code.co_consts[step.arg or 0]
            return names
    return ()


def _method_of(frame: FrameType, steps: Sequence[dis.Instruction], at: int) -> str | None:
    """The name of the method that a call is one of, None if it is another function's."""
    # What is called stands at the beginning of the call's text, as all that it is an attribute of does.
    start = _start(steps[at])
    for k in reversed(range(at)):
        if steps[k].opname in ("LOAD_ATTR", "LOAD_METHOD") and start == _start(steps[k]) != (None, None):
            return None if isinstance(_owner(frame, steps[:k]), ModuleType) else steps[k].argval
    return None


def _start(step: dis.Instruction) -> tuple[int | None, int | None]:
    """Where the text begins that an instruction belongs to."""
    place = step.positions
    return (place.lineno, place.col_offset) if place else (None, None)


def _owner(frame: FrameType, steps: Sequence[dis.Instruction]) -> Any:
    """The module that the last of these instructions have loaded, ``torch.nn`` say; None if it may be no module."""
    step = steps[-1]
    if step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
        home = _owner(frame, steps[:-1])  # of what is no module, a property is not computed
        return (getattr if isinstance(home, ModuleType) else inspect.getattr_static)(home, step.argval, None)
    if not step.opname.startswith("LOAD_"):  # the result of a call, an element: mostly a tensor
        return None
    name = step.argval[-1] if isinstance(step.argval, tuple) else step.argval  # of two loads in one
    return frame.f_locals.get(name, frame.f_globals.get(name)) if isinstance(name, str) else None
