"""Checkpointed regions: functions whose saved tensors are dropped in forward and computed again in backward.

While a region runs, saved-tensor hooks replace each tensor that a node saves by a numbered ``_Slot``. The first slot
that backward unpacks calls the function again; hooks catch what the nodes of this second call save, which comes in
the same order, so that numbers identify it. With early stop the call ends at the last tensor needed. Each caught
tensor is handed out once, to the node that asks, and freed with it: backward holds the tensors of one region at a time.

Slots are known to the region weakly: of a node that is gone nothing is kept. What was caught belongs to one run of the
engine; a second run (``retain_graph=True``) calls the function again.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from typing import Any

from jitgrad.autograd.graph import saved_tensors_hooks
from jitgrad.core.grad_mode import enable_grad
from jitgrad.core.node import Node, announce_node, next_sequence_number, node_observers
from jitgrad.core.tensor import Tensor
from jitgrad.engine import engine

__all__ = ["CheckpointError", "GraphExecGroup", "Region", "within_full_backward"]

_TIP = (
    "\n\nTip: To see a more detailed error message, either pass `debug=True` to\n"
    "`torch.utils.checkpoint.checkpoint(...)` or wrap the code block\n"
    "with `with torch.utils.checkpoint.set_checkpoint_debug_enabled(True):` to\n"
    "enable checkpoint‑debug mode globally.\n"
)


class CheckpointError(RuntimeError):
    """Recomputing a region gave something else than its forward."""


class _Stop(Exception):
    """Ends the second call of a region early: all that backward needs has been caught."""


class _Slot:
    """What a node keeps in place of the ``index``-th tensor that its region has saved."""

    __slots__ = ("__weakref__", "index")

    def __init__(self, index: int):
        self.index = index


class _Run:
    """What has been computed again for one run of the engine: tensors until they are handed out, and their metadata."""

    def __init__(self) -> None:
        self.tensors: weakref.WeakKeyDictionary[_Slot, Tensor] = weakref.WeakKeyDictionary()
        self.facts: dict[int, Any] = {}
        self.count = 0
        self.done = False


class _Inputs(Node):
    """Saves a region's inputs like any node: their versions are checked, and outer saved-tensor hooks see them."""

    def __init__(self, tensors: tuple[Tensor, ...]):
        self.saved = tensors
        self.versions = tuple([t._counter[0] for t in tensors])
        self.sequence_number = next_sequence_number()
        if node_observers:
            announce_node(self)


class Region:
    """One call of a function whose saved tensors are computed again in backward.

    rerun: called with ``inputs`` for that. early_stop: end it once all is there that backward needs. facts(tensor):
    metadata that must be equal for a tensor saved in forward and computed again. explain: called with the error
    where they differ.
    """

    def __init__(
        self, inputs: tuple[Any, ...], rerun: Callable[..., Any], early_stop: bool, facts: Callable[[Tensor], Any],
        explain: Callable[[CheckpointError], None] | None = None,
    ):  # fmt: skip
        self.rerun, self.early_stop, self.facts, self.explain = rerun, early_stop, facts, explain
        # Tensor arguments are kept by a node, others here; ``places`` says where tensors belong.
        self.others = [None if isinstance(a, Tensor) else a for a in inputs]
        self.places = [k for k, a in enumerate(inputs) if isinstance(a, Tensor)]
        self.inputs = _Inputs(tuple([inputs[k] for k in self.places]))
        self.slots: list[weakref.ref[_Slot]] = []
        self.known: list[Any] = []  # ``facts`` of what forward saved, by slot
        self.runs: weakref.WeakKeyDictionary[Any, _Run] = weakref.WeakKeyDictionary()
        self.complete = False  # whether forward has ended
        self.partial = False  # whether it was recomputed before it had ended

    def recorded(self) -> saved_tensors_hooks:
        """The context manager in which forward runs."""
        return saved_tensors_hooks(self._drop, self._open)

    def _drop(self, tensor: Tensor) -> _Slot:
        """The pack hook of forward: keeps nothing but a number and metadata."""
        slot = _Slot(len(self.slots))
        self.slots.append(weakref.ref(slot))
        self.known.append(self.facts(tensor))
        return slot

    def _open(self, slot: _Slot) -> Tensor:
        """The unpack hook of forward: the tensor of a slot, computed again if this run has not done so."""
        try:
            # Outside of backward (``grad_fn._saved_self``) there is no run to share with: a key of its own.
            task = _group[-1] if _group else engine.current_task() or _Run()
            run = self.runs.setdefault(task, _Run())
            if not run.done:
                self._recompute(run)
            if slot not in run.tensors:
                raise CheckpointError(_opened_twice())
            return run.tensors.pop(slot)  # from now on the node's, and freed when it has run
        except CheckpointError as error:
            if self.explain is not None:
                self.explain(error)
            raise

    def _recompute(self, run: _Run) -> None:
        """Call the function again, and catch what its nodes save."""
        inputs = list(self.others)
        for place, tensor in zip(self.places, self.inputs.unpack(), strict=True):
            inputs[place] = tensor
        catch = saved_tensors_hooks(lambda tensor: self._catch(run, tensor), lambda tensor: tensor)
        with contextlib.suppress(_Stop), catch, enable_grad():
            self.rerun(*inputs)
        run.done = True
        if not self.partial:
            self._compare(run)

    def _catch(self, run: _Run, tensor: Tensor) -> Tensor:
        """The pack hook of the second call: keeps the tensor for the slot of the same number, if that still exists."""
        tensor = tensor.detach() if tensor.requires_grad else tensor  # without the second call's graph
        index, run.count = run.count, run.count + 1
        if index >= len(self.slots):
            if not self.complete:  # the function calls backward itself: it has saved only a part so far
                self.partial = True
                return tensor
            raise CheckpointError(
                "torch.utils.checkpoint: trying to save more tensors during recomputation than during the original "
                f"forward pass.\n{_TIP}"
            )
        slot = self.slots[index]()
        if slot is not None:
            run.tensors[slot] = tensor
            run.facts[index] = self.facts(tensor)
        if self.early_stop and run.count == len(self.slots):
            raise _Stop
        return tensor

    def _compare(self, run: _Run) -> None:
        """CheckpointError unless both calls have saved as many tensors, with equal metadata."""
        if run.count != len(self.slots):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the original forward and "
                f"recomputation.\nNumber of tensors saved during forward: {len(self.slots)}\nNumber of tensors saved "
                f"during recomputation: {run.count}.\n{_TIP}"
            )
        differing = "".join(
            f"tensor at position {k}:\nsaved metadata: {self.known[k]}\nrecomputed metadata: {facts}\n"
            for k, facts in run.facts.items()
            if facts != self.known[k]
        )
        if differing:
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than "
                f"during the forward pass.\n{differing}.\n{_TIP}"
            )


def _opened_twice() -> str:
    """The error message for a slot that is unpacked a second time in one run, after its tensor has been handed out."""
    overlap = (
        "Performing two backward calls that overlap (i.e. require the same saved activation in order to compute "
        "gradients) is not allowed while under the torch.utils.checkpoint.GraphExecGroup context. "
    )
    return (
        "torch.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked once. "
        f"{overlap if _group else ''}If you are calling ctx.saved_tensors in backward, make sure to do so only once. "
        "Otherwise please open an issue with details on your use case."
    )


_group: list[Any] = []


class GraphExecGroup:
    """A block in which regions are computed again once for all runs of the engine in it.

    No two of these runs may need the same saved tensor. RuntimeError if nested.
    """

    def __enter__(self) -> GraphExecGroup:
        if _group:
            raise RuntimeError(f"GraphExecGroup contexts cannot be nested. Already inside group {_group[-1]}")
        _group.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _group.clear()


def within_full_backward() -> bool:
    """Whether this is no run for certain inputs only, but ``backward()`` with gradients for all leaves."""
    task = engine.current_task()
    return task is None or task.wanted is None
