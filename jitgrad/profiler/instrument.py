"""What a profiler puts in place while it is on: observers of calls of ops, of kernels and of nodes.

Calls of ops are seen at the seam that they all have (``dispatch/op_calls.py``), kernels and nodes through the
observers of ``launch`` and of the engine. Optimisers record their steps themselves (``optim/optimizer.py``). While no
profiler is on, nothing of this is there.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from jitgrad.core.node import AccumulateGrad, node_of
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.op_calls import OpFunction, add_observer, remove_observer
from jitgrad.engine import engine
from jitgrad.kernels.launch import observers as kernel_observers
from jitgrad.kernels.statistics import compilation
from jitgrad.profiler import recording
from jitgrad.profiler.recording import BACKWARD, FUNCTION, KERNEL, begin, end

__all__: list[str] = []

_QUESTIONS = {
    "can_cast", "data_ptr", "dim", "element_size", "get_device", "numel", "numpy", "promote_types", "result_type",
    "shapes_broadcast", "size", "storage_offset", "stride", "tensor_type", "tolist",
}  # fmt: skip
_titles: weakref.WeakKeyDictionary[OpFunction, str] = weakref.WeakKeyDictionary()
_OPERATORS = {"__getitem__": "index", "__setitem__": "index_put_", "__matmul__": "matmul", "power": "pow"}


def _name(op: OpFunction) -> str:
    """The name of an op's function in traces, empty for what is no op."""
    name = _OPERATORS.get(op.name, op.name)
    written_in = op.function.__globals__["__name__"]  # not ``__module__``, which says where users find the function
    if not written_in.startswith(("jitgrad.ops.", "jitgrad.dispatch.")) or name in _QUESTIONS:
        return ""
    return "" if name.startswith(("_", "<", "is_")) else name


def _title(op: OpFunction) -> str:
    """What an op is called in traces, empty for what is none."""
    title = getattr(op.operation, "op", op.operation).name + "_" * op.in_place if op.own else _name(op)
    return title and f"aten::{title}"


def _timed(op: OpFunction, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """A call of an op, noted by the op's name; an op that goes on under another name of its own is one op."""
    name = _titles.get(op)
    if name is None:
        name = _titles[op] = _title(op)
    above = recording.current()
    if not name or (above is not None and above.name == name):
        return call(*args, **kwargs)
    record = begin(name, FUNCTION, args)
    try:
        result = call(*args, **kwargs)
        if isinstance(result, Tensor) and result._edge is not None and not (args and result is args[0]):
            record.sequence = node_of(result._edge).sequence_number  # that of its node, which backward shows
        return result
    finally:
        end(record)


# -- putting in place, and back -----------------------------------------------------------------------

_undo: list[Callable[[], None]] = []


def start() -> None:
    """Put all observers in place."""
    add_observer(_timed)
    _undo.append(functools.partial(remove_observer, _timed))
    _observe(engine.observers, _node)
    _observe(kernel_observers, _kernel)


def stop() -> None:
    """Put everything back."""
    while _undo:
        _undo.pop()()


def _observe(observers: list[Any], observer: Any) -> None:
    observers.append(observer)
    _undo.append(functools.partial(observers.remove, observer))


# -- kernels and nodes --------------------------------------------------------------------------------


def _kernel(kernel: Any, args: tuple[Any, ...], seconds: float) -> None:
    """A kernel's run, and ahead of it what went into its machine code, which the first run of its kind waits for."""
    if compilation.seconds:
        seconds -= compilation.seconds
        name = "jitgrad::compile" if compilation.compiled else "jitgrad::load_compiled"
        recording.add_finished(name, FUNCTION, compilation.seconds, ago=seconds)
    recording.add_finished(kernel.name, KERNEL, seconds, args)


def _node(node: Any, when: str, gradients: Any) -> None:
    """Around a node: the engine's part of the work, and within it the node's own. Leaves have no number to be shown."""
    sequence = -1 if isinstance(node, AccumulateGrad) else node.sequence_number
    if when == "before":
        begin(f"autograd::engine::evaluate_function: {node.name()}", FUNCTION, (), sequence)
        begin(node.name(), BACKWARD, tuple(gradients), sequence)
        return
    record = recording.current()
    while record is not None and not (record.scope == BACKWARD and record.sequence == sequence):
        record = record.parent
    if record is not None and record.parent is not None:  # None: a hook raised before the node began
        end(record.parent)


recording.add_instrument(lambda options: True, start, stop)
