"""Selective checkpointing: of a checkpointed region's ops, a policy says whose results are kept.

While forward runs, each op is shown to the policy, and results that it wants are kept. While the region is computed
anew, an op whose result was kept makes its node and computes nothing. Elementwise ops, views and writes in place are
computed anew in any case: reading a kept result costs as much as they do.
"""

from __future__ import annotations

import enum
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from jitgrad.core.grad_mode import is_grad_enabled
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.op_calls import OpFunction, add_observer, remove_observer
from jitgrad.dispatch.structured import View, record
from jitgrad.dispatch.structured_function import bind_arguments
from jitgrad.func.tree import leaves_of, map_leaves
from jitgrad.ops.aten import OpOverload, OpOverloadPacket, overload

__all__ = ["CheckpointPolicy", "SelectiveCheckpointContext", "create_selective_checkpoint_contexts"]


class CheckpointPolicy(enum.Enum):
    """What becomes of an op's result: kept, or computed anew. MUST and PREFER, memory and CPU make no difference."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_RECOMPUTING = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)


class SelectiveCheckpointContext:
    """What a policy is told of an op besides its arguments: its result."""

    def __init__(self, *, is_recompute: bool, op_output: Any = None):
        self.is_recompute, self.op_output = is_recompute, op_output


# -- ops are shown while a region runs ----------------------------------------------------------------


class _Thread(threading.local):
    mode: Any = None  # what ops of this thread are shown to


_thread = _Thread()


class _Op:
    """One of the functions by which ops are applied."""

    __slots__ = ("declared", "shown")

    def __init__(self, op: OpFunction):
        self.shown = overload(op.operation, op.in_place)
        # What ``record`` needs to make a node round a kept result; None for ops that are computed anew in any case.
        whole = not op.in_place and isinstance(op.operation, type) and not issubclass(op.operation, View)
        drawn = whole and op.operation.__module__.startswith("jitgrad.ops.random.")
        self.declared = op.operation if whole and not drawn else None


_known: weakref.WeakKeyDictionary[OpFunction, _Op | None] = weakref.WeakKeyDictionary()


def _declared(op: OpFunction) -> _Op | None:
    """What there is to know of an op, None for a function that is no op of its own or has no derivative."""
    if op not in _known:
        listed = op.operation is not None and getattr(op.operation, "op", op.operation).grad_name
        _known[op] = _Op(op) if listed else None
    return _known[op]


def _show(op: OpFunction, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Show a call of an op to what this thread's ops are shown to."""
    mode = _thread.mode
    if mode is None or (known := _declared(op)) is None:
        return call(*args, **kwargs)
    _thread.mode = None  # the ops that this one is made of are its own affair
    try:
        return mode.apply(known, call, args, kwargs)
    finally:
        _thread.mode = mode


# -- what happens to results --------------------------------------------------------------------------


class _Kept:
    """An op's result, outside of the graph, and the versions that it had."""

    def __init__(self, op: _Op, result: Any):
        result = map_leaves(_outside, result)
        self.counters = [t._counter for t in leaves_of(result) if isinstance(t, Tensor)]
        self.versions = [counter[0] for counter in self.counters]
        self.result = None if op.declared is None else result

    def check(self) -> None:
        """RuntimeError if the result was written to."""
        if [counter[0] for counter in self.counters] != self.versions:
            raise RuntimeError("Tensor cached during selective activation checkpoint has been mutated")


def _outside(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value


_RECOMPUTED, _CONSUMED = object(), object()
_IGNORED = ("detach", "alias")
_Storage = dict[OpOverload, dict[int, Any]]


class _Mode:
    """A block in which this thread's ops are shown to ``apply``; ops are counted by their names."""

    def __init__(self, storage: _Storage):
        self.storage = storage
        self.counts: dict[OpOverload, int] = {}

    def __enter__(self) -> None:
        self.counts.clear()
        self.outer = _thread.mode
        add_observer(_show)
        _thread.mode = self

    def __exit__(self, *error: object) -> None:
        _thread.mode = self.outer
        remove_observer(_show)

    def number(self, op: _Op) -> int:
        """How often the op was applied before."""
        found = self.counts.get(op.shown, 0)
        self.counts[op.shown] = found + 1
        return found


class _Keeping(_Mode):
    """Forward: the policy says which results are kept."""

    def __init__(self, policy: Callable[..., Any], storage: _Storage):
        super().__init__(storage)
        self.policy = policy

    def apply(self, op: _Op, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Apply an op, and keep its result if that is wanted."""
        result = call(*args, **kwargs)
        if result is NotImplemented or op.shown.overloadpacket.__name__ in _IGNORED:
            return result
        number = self.number(op)
        context = SelectiveCheckpointContext(is_recompute=False, op_output=result)
        policy = self.policy(context, op.shown, *args, **kwargs)
        kept = policy if isinstance(policy, bool) else policy not in _RECOMPUTING
        self.storage[op.shown][number] = _Kept(op, result) if kept and not grad_state.levels else _RECOMPUTED
        return result


class _Reusing(_Mode):
    """The same again: results that were kept are taken, each once."""

    def __init__(self, storage: _Storage, allow_writes: bool):
        super().__init__(storage)
        self.allow_writes = allow_writes

    def apply(self, op: _Op, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Make an op's node round its kept result, or apply it."""
        if op.shown.overloadpacket.__name__ in _IGNORED:
            return call(*args, **kwargs)
        number = self.number(op)
        entry = self.storage[op.shown].get(number) if op.shown in self.storage else None
        if entry is None:
            where = f"{op.shown} invocation index {number} " if op.shown in self.storage else f"{op.shown} "
            raise RuntimeError(f"{where}encountered during backward but not found in storage. {_MISMATCH}")
        if entry is _CONSUMED:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any region computed under "
                "selective activation checkpoint."
            )
        if entry is _RECOMPUTED:
            return call(*args, **kwargs)
        self.storage[op.shown][number] = _CONSUMED
        if not self.allow_writes:
            entry.check()
        if op.declared is None or "out" in kwargs:
            return call(*args, **kwargs)
        return _applied(op.declared, map_leaves(_outside, entry.result), args, kwargs)


_MISMATCH = (
    "This can happen if the operations in the checkpointed region are nondeterministic or depend on global state that "
    "changed between forward and backward."
)


def _applied(op: Any, result: Any, args: Any, kwargs: Any) -> Any:
    """The result of an op, recorded as if the op had computed it."""
    given = bind_arguments(op, args, kwargs)
    inputs = [given[op.parameters.index(n)] for n in op.grads]
    if is_grad_enabled() and any(t.requires_grad for t in leaves_of(inputs) if isinstance(t, Tensor)):
        record(op, given, result)
    return result


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable[..., Any] | list[OpOverload], allow_cache_entry_mutation: bool = False
) -> tuple[_Mode, _Mode]:
    """The ``context_fn`` of a checkpoint that keeps the results of some ops: two blocks for forward and after.

    policy_fn_or_list: ops whose results are kept, such as ``jitgrad.ops.aten.mm.default``; or a function of a
    SelectiveCheckpointContext, the op and its arguments that returns a CheckpointPolicy, or whether to keep. It is
    asked in forward alone. RuntimeError in backward if a kept result was written to, unless
    ``allow_cache_entry_mutation``, and for a second backward. TypeError, ValueError for what is neither.
    """
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            _check(op)
        policy: Any = lambda context, op, *args, **kwargs: op in policy_fn_or_list
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    storage: _Storage = defaultdict(dict)
    return _Keeping(policy, storage), _Reusing(storage, allow_cache_entry_mutation)


def _check(op: Any) -> None:
    if not isinstance(op, OpOverload):
        hint = (
            "Please update the OpOverloadPacket to a specific OpOverload.For example, if you have `torch.ops.aten.mm`, "
            "change it to `torch.ops.aten.mm.default`."
        )
        raise ValueError(
            f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}. "
            f"{hint if isinstance(op, OpOverloadPacket) else ''}"
        )
