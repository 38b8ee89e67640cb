"""Who takes the notes: while a profiler is on, ops are swapped for wrappers that time them.

Nothing of this is there while no profiler is on, so ops cost what they always cost. Swapped are the
public functions in jitgrad's own modules, methods and operators of Tensor, and the steps of
optimisers; kernels and nodes are watched through the observers that ``launch`` and the engine have.
A function that a program took out of jitgrad earlier (``from jitgrad import exp``) is not seen, but
the kernels that it launches are.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from ..autograd import engine
from ..autograd.edge import node_of
from ..kernels.launch import observers as kernel_observers
from ..ops.publish import OPERATIONS
from ..ops.registry import FUNCTIONS
from ..ops.structured import Structured
from ..optim import Optimizer
from ..tensor import Tensor
from . import recording
from .recording import BACKWARD, FUNCTION, KERNEL, USER, begin, end

__all__: list[str] = []

_QUESTIONS = {
    "can_cast", "data_ptr", "dim", "element_size", "get_device", "numel", "numpy", "promote_types", "result_type",
    "shapes_broadcast", "size", "storage_offset", "stride", "tensor_type", "tolist",
}  # fmt: skip
_OPERATORS = {"__getitem__": "index", "__setitem__": "index_put_", "__matmul__": "matmul", "power": "pow"}


def _name(function: Any) -> str:
    """The name of an op's function in traces, empty for what is no op."""
    name = _OPERATORS.get(function.__name__, function.__name__)
    if not function.__module__.startswith("jitgrad.ops.") or name in _QUESTIONS:
        return ""
    return "" if name.startswith(("_", "<", "is_")) else name


def _ops() -> dict[int, tuple[Callable[..., Any], str]]:
    """Every function to be timed, with its name, by its id."""
    found: dict[int, tuple[Callable[..., Any], str]] = {}

    def add(function: Any, name: str) -> None:
        if name and id(function) not in found:
            found[id(function)] = function, name

    for operation in OPERATIONS.values():
        add(operation.function, operation.op.name)
        add(operation.inplace, f"{operation.op.name}_")
        for operator in operation.op.operators:
            add(vars(Tensor)[operator], operation.op.name)
    for op in _subclasses(Structured):
        for attribute in ("apply", "into"):
            if attribute in vars(op):
                add(vars(op)[attribute].__func__, op.name + ("_" if attribute == "into" else ""))
    for space in (FUNCTIONS, vars(Tensor)):
        for function in space.values():
            if isinstance(function, FunctionType):
                add(function, _name(function))
    return found


def _subclasses(cls: Any) -> Iterator[Any]:
    for sub in cls.__subclasses__():
        yield sub
        yield from _subclasses(sub)


def _timed(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """``function``, noted as ``name``; an op that goes on under another name of its own is one op."""

    @functools.wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Any:
        if not recording.is_on():  # taken out of jitgrad while a profiler was on
            return function(*args, **kwargs)
        above = recording.current()
        if above is not None and above.name == name:
            return function(*args, **kwargs)
        record = begin(name, FUNCTION, args)
        try:
            result = function(*args, **kwargs)
            if isinstance(result, Tensor) and result._edge is not None and not (args and result is args[0]):
                record.sequence = node_of(result._edge).sequence_number  # that of its node, which backward shows
            return result
        finally:
            end(record)

    return timed


def _titled(function: Callable[..., Any], title: Callable[[Any], str], scope: int) -> Callable[..., Any]:
    """A method, noted under a name that depends on its object."""

    @functools.wraps(function)
    def titled(self: Any, *args: Any, **kwargs: Any) -> Any:
        record = begin(title(self), scope)
        try:
            return function(self, *args, **kwargs)
        finally:
            end(record)

    return titled


# -- putting in place, and back -----------------------------------------------------------------------

_undo: list[Callable[[], None]] = []


def start() -> None:
    """Put all wrappers and observers in place."""
    wrapped = {key: _timed(function, f"aten::{name}") for key, (function, name) in _ops().items()}
    for space in [FUNCTIONS, *_modules()]:
        for key, value in list(space.items()):
            if id(value) in wrapped and isinstance(value, FunctionType):
                _swap_item(space, key, wrapped[id(value)])
    for key, value in list(vars(Tensor).items()):
        if id(value) in wrapped:
            _swap_attribute(Tensor, key, wrapped[id(value)])
    for op in _subclasses(Structured):
        for key in ("apply", "into"):
            if key in vars(op) and id(vars(op)[key].__func__) in wrapped:
                _swap_attribute(op, key, staticmethod(wrapped[id(vars(op)[key].__func__)]))
    for operation in OPERATIONS.values():
        for key in ("function", "inplace"):
            if (wrapper := wrapped.get(id(getattr(operation, key)))) is not None:
                _swap_attribute(operation, key, wrapper)
    _start_backward()
    _start_optimizers()
    _observe(kernel_observers, _kernel)


def _start_backward() -> None:
    _observe(engine.observers, _node)
    finish = engine.Task.finish_leaf
    _swap_attribute(engine.Task, "finish_leaf", _leaf(finish))
    _swap_attribute(engine, "run", _restoring(engine.run))


def _start_optimizers() -> None:
    for cls in (Optimizer, *_subclasses(Optimizer)):
        for method in ("step", "zero_grad"):
            if method in vars(cls):
                title = lambda self, method=method: f"Optimizer.{method}#{type(self).__name__}.{method}"
                _swap_attribute(cls, method, _titled(vars(cls)[method], title, USER))


def stop() -> None:
    """Put everything back."""
    while _undo:
        _undo.pop()()


def _modules() -> list[dict[str, Any]]:
    """The namespaces of jitgrad's modules."""
    names = [n for n in tuple(sys.modules) if n == "jitgrad" or n.startswith("jitgrad.")]
    return [vars(sys.modules[n]) for n in names if not n.startswith(("jitgrad.kernels", "jitgrad.profiler"))]


def _swap_item(space: dict[str, Any], key: str, value: Any) -> None:
    _undo.append(functools.partial(space.__setitem__, key, space[key]))
    space[key] = value


def _swap_attribute(owner: Any, key: str, value: Any) -> None:
    _undo.append(functools.partial(setattr, owner, key, vars(owner)[key]))
    setattr(owner, key, value)


def _observe(observers: list[Any], observer: Any) -> None:
    observers.append(observer)
    _undo.append(functools.partial(observers.remove, observer))


# -- kernels and nodes --------------------------------------------------------------------------------


def _kernel(kernel: Any, args: tuple[Any, ...], seconds: float) -> None:
    recording.moment(kernel.name, KERNEL, seconds, args)


def _node(node: Any, when: str, gradients: Any) -> None:
    """Around a node: the engine's part of the work, and within it the node's own."""
    if when == "before":
        begin(f"autograd::engine::evaluate_function: {node.name()}", FUNCTION, (), node.sequence_number)
        begin(node.name(), BACKWARD, tuple(gradients), node.sequence_number)
        return
    record = recording.current()
    while record is not None and not (record.scope == BACKWARD and record.sequence == node.sequence_number):
        record = record.parent
    if record is not None and record.parent is not None:  # None: a hook raised before the node began
        end(record.parent)


def _leaf(finish: Callable[..., Any]) -> Callable[..., Any]:
    """Adding to a leaf's gradient, noted as the engine's other steps are."""

    @functools.wraps(finish)
    def finishing(task: Any, node: Any, grad: Any, *args: Any, **kwargs: Any) -> Any:
        if grad is None:
            return finish(task, node, grad, *args, **kwargs)
        record = begin(f"autograd::engine::evaluate_function: {node.name()}")
        begin(node.name(), BACKWARD, (grad,))
        try:
            return finish(task, node, grad, *args, **kwargs)
        finally:
            end(record)

    return finishing


def _restoring(run: Callable[..., Any]) -> Callable[..., Any]:
    """The engine, after which no node is left open: one that raised has no "after"."""

    @functools.wraps(run)
    def restoring(*args: Any, **kwargs: Any) -> Any:
        above = recording.current()
        try:
            return run(*args, **kwargs)
        finally:
            recording.close_down_to(above)

    return restoring


recording.add_taker(lambda options: True, start, stop)
