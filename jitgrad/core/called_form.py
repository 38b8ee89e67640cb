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
from typing import Any, NamedTuple

__all__ = ["arguments_of_call", "as_called", "called_name"]


def as_called(op: str, argument: str, position: int | None) -> tuple[str, int | None]:
    """The name of ``op`` and an argument's position, which counts the tensor, as PyTorch has them for the call.

    The position is None for an argument that the call names. An op that is no function was called as a method, however
    it looks.
    """
    call = _called()
    name, method = _name_of(op, call)
    return name, None if position is None or argument in call.keywords else position - method


def called_name() -> str:
    """The name of the function or method of PyTorch's that the program has called; "" if it has called none."""
    name, face = _called().name, sys.modules["jitgrad"]
    known = name is not None and (hasattr(face.Tensor, name) or hasattr(face, name))
    return name if known else ""  # type: ignore[return-value]


def arguments_of_call(op: str) -> tuple[str, bool, list[Any], dict[str, Any]] | None:
    """How the program has made the call that ``op`` is part of.

    The name of what was called, "linalg_norm" of a module's, and whether it is a method; the arguments by position,
    without the tensor that a method is called of, and those by name. None where the call does not tell them: an
    operator, ``f(*a)``.
    """
    call = _called()
    if call.arguments is None or call.inside is None:
        return None
    name, method = (op, _name_of(op, call)[1]) if call.name is None else (call.name, not call.module)
    home = call.module.rpartition(".")[2]
    if home in ("fft", "linalg", "special"):
        name = f"{home}_{name}"
    code, given = call.inside.f_code, call.inside.f_locals
    parameters, only_named = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames[: parameters + only_named + 2]
    further = given[names[parameters + only_named]] if code.co_flags & inspect.CO_VARARGS else ()
    by_name = dict(given)
    if code.co_flags & inspect.CO_VARKEYWORDS:
        by_name |= given[names[parameters + only_named + bool(code.co_flags & inspect.CO_VARARGS)]]
    if any(n not in by_name for n in (*names[:parameters], *call.keywords)):
        return None
    count = call.arguments - len(call.keywords)
    values = [*[given[n] for n in names[:parameters]], *further][: count + call.bound]
    return name, method, values[method:], {n: by_name[n] for n in call.keywords}


class _Call(NamedTuple):
    """A call by which the program has entered jitgrad.

    name: that of the attribute that was called, None if it was none. module: the module's that has it, "" for a
    method. bound: whether the tensor stands before the name. keywords: those of the call, none if it has ``**``.
    arguments: how many, None if it is unknown. inside: the frame of what was called.
    """

    name: str | None = None
    module: str = ""
    bound: bool = False
    keywords: Sequence[str] = ()
    arguments: int | None = None
    inside: FrameType | None = None


def _name_of(op: str, call: _Call) -> tuple[str, bool]:
    """The name by which the program has called ``op``, and whether as a method."""
    face = sys.modules["jitgrad"]
    home = face if call.module else face.Tensor
    own = call.name is not None and _behind(getattr(home, call.name, call)) is _behind(getattr(home, op, None))
    if call.name is not None and (own or (call.name.rstrip("_") == op.rstrip("_") and not call.module)):
        return call.name, not call.module
    return op, hasattr(face.Tensor, op) and not hasattr(face, op)


def _behind(function: Any) -> Any:
    """What an alias and the function have in common."""
    while (wrapped := getattr(function, "__wrapped__", None)) is not None:
        function = wrapped
    return function


def _called() -> _Call:
    """The call by which the program has entered jitgrad."""
    frame: FrameType | None = sys._getframe(1)
    inside = None
    handed_on = False  # by a function that PyTorch has in Python, which gives an op all that it gets without a name
    while frame is not None and (module := frame.f_globals.get("__name__", "")).partition(".")[0] == "jitgrad":
        handed_on |= module.startswith("jitgrad.nn.functional")  # and the files from which it has functions
        inside, frame = frame, frame.f_back
    if frame is None:
        return _Call()
    steps = list(dis.get_instructions(frame.f_code))
    # Not every instruction's offset: that of a call may be the end of its inline cache.
    at = max(k for k, step in enumerate(steps) if step.offset <= frame.f_lasti)
    if not steps[at].opname.startswith("CALL"):
        return _Call()
    name, owner = _attribute_of(frame, steps, at)
    module = owner.__name__ if isinstance(owner, ModuleType) else ""
    if handed_on:
        return _Call(name, module)
    keywords = _keywords_of(frame, steps, at)
    count = None if steps[at].opname == "CALL_FUNCTION_EX" else steps[at].arg
    bound = name is not None and not isinstance(owner, (ModuleType, type))
    return _Call(name, module, bound, keywords, count, inside)


def _keywords_of(frame: FrameType, steps: Sequence[dis.Instruction], at: int) -> Sequence[str]:
    """The keywords of a call, which an instruction before it has loaded."""
    for step in reversed(steps[max(at - 2, 0) : at]):
        if step.opname == "KW_NAMES" or steps[at].opname == "CALL_KW":  # until Python 3.12, and since
            names: Sequence[str] = frame.f_code.co_consts[step.arg or 0]
            return names
    return ()


def _attribute_of(frame: FrameType, steps: Sequence[dis.Instruction], at: int) -> tuple[str | None, Any]:
    """The name of the attribute that a call is one of, and the module or class that has it; (None, None) of another."""
    # What is called stands at the beginning of the call's text, as all that it is an attribute of does.
    start = _start(steps[at])
    for k in reversed(range(at)):
        if steps[k].opname in ("LOAD_ATTR", "LOAD_METHOD") and start == _start(steps[k]) != (None, None):
            return steps[k].argval, _owner(frame, steps[:k])
    return None, None


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
