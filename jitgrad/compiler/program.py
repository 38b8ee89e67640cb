"""Recorded launches as a program, and the text that replays have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.compiler.addresses import address_of
from jitgrad.compiler.guards import Names
from jitgrad.compiler.memory import Memory, written_roots
from jitgrad.compiler.notes import Action
from jitgrad.compiler.recording import Launch
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.strides import owner_of
from jitgrad.kernels.program import Builder, Program

__all__ = ["new_tensor", "program_of"]


def program_of(
    launches: Sequence[Launch], actions: Sequence[Action], initial: dict[int, tuple[Any, Any, int]], memory: Memory
) -> Program:
    """The program of launches, with what Python does between them.

    initial: memory that Python's numbers were put in, what it held at first, and which launch found it so: it gets
    these numbers again in every run if launches write to it.
    """
    builder, left = Builder(memory.locate), list(actions)
    flags = {id(owner_of(found)): owner_of(found) for made in launches for found, *_ in made.checks}
    written, ready = written_roots(launches), set[int]()
    for number, made in enumerate(launches):
        while left and left[0].launch <= number:
            _act(builder, left.pop(0))
        for a in made.args:
            if not isinstance(a, np.ndarray):
                continue
            root = owner_of(a)
            if id(root) in flags:
                builder.clear(flags[id(root)])
            if id(root) in initial and id(root) not in ready:
                ready.add(id(root))
                if id(root) in written or memory.locate(root).slot is not None:
                    builder.restore(root, initial[id(root)][1])
        builder.launch(made.kernel, made.args)
        for check in made.checks:
            builder.check(*check)
    for action in left:
        _act(builder, action)
    return builder.finish()


def _act(builder: Builder, action: Action) -> None:
    call, kwargs = action.call, action.kwargs
    builder.host((lambda *args: call(*args, **kwargs)) if kwargs else call, *action.args)


def new_tensor(
    variable: str, tensor: Tensor, buffer: str, start: int, name: Names, lines: list[str], whole: Any = None
) -> str:
    """Add the lines that make a tensor as the recorded one, on memory that begins, in the recording, at ``start``.

    buffer: the expression of the array that it is part of, or all of if its array is ``whole``. Returns ``variable``.
    """
    data, array = tensor._data, buffer
    if data is not whole:
        shape, dtype, strides = name(data.shape), name(data.dtype), name(data.strides)
        array = f"ndarray({shape}, {dtype}, {buffer}, {address_of(data) - start}, {strides})"
    lines += [f"{variable} = new({name(type(tensor))})", f"{variable}._data = {array}"]
    lines.append(f"{variable}._layout = {name(tensor._layout)}")
    if tensor._requires_grad:
        lines.append(f"{variable}._requires_grad = True")
    if tensor._counter[0]:
        lines.append(f"{variable}._counter = [{tensor._counter[0]}]")
    return variable
