"""A recording as a function: guards, the program of its launches, and what Python has to see afterwards.

The function is text, generated for each recording, as recorders of nodes are: it runs for every call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.autograd import anomaly
from jitgrad.compiler.guards import Guards, Names
from jitgrad.compiler.memory import Memory, address_of
from jitgrad.compiler.notes import Action, TensorNote
from jitgrad.compiler.recording import Change, Recording, root_of
from jitgrad.core import dtypes, saved_tensors, tensor_observers
from jitgrad.core.block_pool import pool
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.node import node_observers
from jitgrad.core.storage import UNWRITTEN
from jitgrad.core.tensor import Tensor
from jitgrad.engine import task
from jitgrad.func.tree import flatten, unflatten
from jitgrad.kernels import launch, threads
from jitgrad.kernels.blas import one_thread
from jitgrad.kernels.program import Builder, Program, Rows, improved, words_of_dict, words_of_references

__all__ = ["MISS", "replay_of"]

MISS: Any = type("Miss", (), {"__repr__": lambda self: "<miss>"})()
Replay = Callable[[tuple[Any, ...], dict[str, Any]], Any]


def replay_of(recording: Recording) -> Replay:
    """``replay(args, kwargs)``, which returns what the recorded function would; MISS where a guard does not hold."""
    return _Text(recording).function()


def _program(recording: Recording, memory: Memory) -> Program:
    builder, launches, actions = Builder(memory.locate), recording.launches, recording.notes.actions
    flags = {id(root_of(found)): root_of(found) for made in launches for found, *_ in made.checks}
    starts = [0, *sorted({action.launch for action in actions})]
    ends = [*starts[1:], len(launches)]
    stretches = [launches[start:end] for start, end in zip(starts, ends, strict=True)]
    for start, stretch in zip([-1, *starts[1:]], improved(stretches, memory.keeps), strict=True):
        for action in actions:
            if action.launch == start:
                _act(builder, action)
        for made in stretch:
            for a in made.args:
                if isinstance(a, np.ndarray) and (root := flags.get(id(root_of(a)))) is not None:
                    builder.clear(root)
            builder.launch(made.kernel, made.args)
            for check in made.checks:
                builder.check(*check)
    return builder.finish()


def _act(builder: Builder, action: Action) -> None:
    call, kwargs = action.call, action.kwargs
    builder.host((lambda *args: call(*args, **kwargs)) if kwargs else call, *action.args)


def _binding(slots: list[str], chosen: Callable[[str], bool]) -> list[str]:
    """The line that binds some of the slots, which are expressions, if there are any."""
    numbers = [k for k, slot in enumerate(slots) if chosen(slot)]
    return [f"bind_some({numbers}, ({', '.join(slots[k] for k in numbers)},))"] if numbers else []


class _Kept:
    """New gradients that a run may write to again, because nobody but their leaves has them.

    They are those of the last run. ``same()`` is -1 if all of them are still where that put them and nobody else has
    the tensor or its memory.
    """

    def __init__(self, leaves: list[Tensor]):
        self.leaves, self.grads = leaves, list[Any]()
        self.rows: Rows | None = None
        self.same: Callable[[], int] = lambda: 0

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
        self.rows = Rows([rows])
        self.same = self.rows.comparison()


class _Text:
    """Makes the text of a replay."""

    def __init__(self, recording: Recording):
        self.recording, self.notes = recording, recording.notes
        self.scope: dict[str, Any] = {
            "MISS": MISS, "state": grad_state, "empty": np.empty, "new": object.__new__, "Tensor": Tensor,
            "UNWRITTEN": UNWRITTEN, "flatten": flatten, "unflatten": unflatten, "ndarray": np.ndarray,
            "saving": saved_tensors.thread, "large": pool.array, "one_thread": one_thread, "__name__": __name__,
        }  # fmt: skip
        self.name = Names(self.scope)
        self.memory = Memory(recording, self.name)

    def function(self) -> Replay:
        """The replay."""
        program = _program(self.recording, self.memory)
        self.guards = Guards(self.notes, self.name, program.set_number)
        self._add_modes()
        for note in self.notes.tensors.values():
            self._add_tensor(note)
        self.guards.finish()
        lines = self._arguments()
        lines += [*self._conditions(), "if not acquire(False): return MISS", "try:"]
        kept, effects = self._kept(), self._effects()
        for key in self.notes.live:
            obj, item = self.notes.live[key]
            program.set_number(key, obj[item])
        bound = [self.memory.slots[k] for k in program.slots]
        run = "with one_thread: run()" if program.uses_blas else "run()"
        moving = [f for f in self.memory.fresh if f.name not in kept]
        still = [f for f in self.memory.fresh if f.name in kept]
        lines += [f"    {f.allocation(self.name)}" for f in moving]
        if still:
            lines += ["    again = same_grads() == -1", "    if not again:"]
            lines += [f"        {f.allocation(self.name)}" for f in still]
            lines += [f"        {line}" for line in _binding(bound, lambda b: b in kept)]
        lines += [f"    {line}" for line in _binding(bound, lambda b: b not in kept)]
        lines += ["    relocate()", f"    {run}", "finally: release()", *effects]
        text = "def replay(args, kwargs):\n" + "".join(f"    {line}\n" for line in lines)
        lock = threading.Lock()
        self.scope |= {
            "acquire": lock.acquire, "release": lock.release, "bind_some": program.bind_some,
            "relocate": program.relocate, "run": program.run, "unchanged": self.guards.unchanged,
            "hold": self.guards.hold,
        }  # fmt: skip
        exec(compile(text, "<jitgrad replay>", "exec"), self.scope)
        replay = self.scope["replay"]
        replay.text, replay.program = text, program
        return replay

    # -- guards -------------------------------------------------------------------------------------------

    def _conditions(self) -> list[str]:
        state = grad_state
        own = (
            f"state.enabled is {state.enabled} and state.inference is {state.inference} and not state.levels "
            "and state.scope is None and not saving.hooks"
        )
        lines = ["try:", f"    if not ({own}): return MISS", "    if unchanged() >= 0 and not hold(): return MISS"]
        lines += [f"    if not ({c}): return MISS" for c in self.guards.always]
        return [*lines, "except (AttributeError, KeyError, IndexError, ValueError, TypeError): return MISS"]

    def _add_modes(self) -> None:
        """What kernels and Python code depend on that is the same for all threads."""
        depends, name = self.guards.depends, self.name
        depends(vars(threads), f"{name(threads)}.get_num_threads() == {threads.get_num_threads()}")
        depends(vars(dtypes), f"{name(dtypes)}.get_default_dtype() is {name(dtypes.get_default_dtype())}")
        depends(vars(anomaly._mode), f"not {name(anomaly._mode)}.enabled")
        for those in (launch.observers, node_observers, task.observers, tensor_observers.tensor_observers):
            depends(those, f"not {name(those)}")

    def _add_tensor(self, note: TensorNote) -> None:
        here, name = self.memory.expression(note), self.name
        conditions = [
            f"{here}._layout is {name(note.layout)}", f"{here}._requires_grad is {note.requires_grad}",
            f"{here}._edge is None", f"{here}._leaf_hooks is None",
        ]  # fmt: skip
        if note.grad_read and note.grad is None:
            conditions.append(f"{here}._grad is None")
        if not self.memory.moves(note):
            conditions.append(f"{here}._data is {name(note.data)}")
            for condition in conditions:
                self.guards.depends(note.tensor.__dict__, condition)
            return
        start = f"type({here}) is {name(type(note.tensor))}"
        if note.owner is not None:
            start = f"type({here} := {name(note.owner)}._grad) is {name(type(note.tensor))}"
        conditions += [f"{here}._level is None", f"type({here}._data) is ndarray"]
        self.guards.always.append(" and ".join([start, *conditions]))

    # -- arguments ------------------------------------------------------------------------------------------

    def _arguments(self) -> list[str]:
        """Lines that take the arguments apart and compare their structure and all but tensors with the recording's."""
        leaves, structure = self.recording.leaves, self.recording.structure
        names = [f"a{k}" for k in range(len(leaves))]
        positional, keywords = structure.children()
        if keywords.num_leaves == 0 and all(c.type is None for c in positional.children()):
            lines = [f"if len(args) != {len(leaves)} or kwargs: return MISS"]
            lines += [f"{', '.join(names)}, = args"] if names else []
        else:
            lines = ["leaves, structure = flatten((args, kwargs))"]
            lines.append(f"if structure != {self.name(structure)}: return MISS")
            lines += [f"{', '.join(names)}, = leaves"] if names else []
        plain = [(n, leaf) for n, leaf in zip(names, leaves, strict=True) if not isinstance(leaf, Tensor)]
        return lines + [f"if not ({self.name.equals(n, leaf)}): return MISS" for n, leaf in plain]

    # -- effects --------------------------------------------------------------------------------------------

    def _kept(self) -> set[str]:
        """The names of memory whose only use after a run is as a new gradient."""
        owners: dict[str, list[Any]] = {}
        for change in self.recording.changes:
            if change.new_grad and change.grad is not None:
                owners.setdefault(self.memory.fresh_of(change.grad).name, []).append(change)
        for leaf in self.recording.results:
            if isinstance(leaf, Tensor) and id(leaf) not in self.notes.tensors:
                owners.setdefault(self.memory.fresh_of(leaf).name, []).append(None)
        alone = {n: c[0] for n, c in owners.items() if len(c) == 1 and c[0] is not None}
        self.kept = [c for c in alone.values() if not self.memory.moves(self.notes.tensors[id(c.tensor)])]
        keeper = _Kept([c.tensor for c in self.kept])
        self.scope |= {"same_grads": lambda: keeper.same(), "take": keeper.take}
        return {self.memory.fresh_of(c.grad).name for c in self.kept}

    def _effects(self) -> list[str]:
        """Lines that leave tensors as the recorded function would, and return its result."""
        lines: list[str] = []
        made: dict[int, str] = {}
        for change in self.recording.changes:
            lines += self._writes(change)
            if change.new_grad and change not in self.kept:
                value = "None" if change.grad is None else self._new_tensor(change.grad, made, lines)
                lines.append(f"{self._leaf(change)}._grad = {value}")
        lines += self._kept_gradients(made)
        leaves = []
        for leaf in self.recording.results:
            if not isinstance(leaf, Tensor):
                leaves.append(self.name(leaf))
            elif id(leaf) in self.notes.tensors:
                leaves.append(self.memory.expression(self.notes.tensors[id(leaf)]))
            else:
                leaves.append(self._new_tensor(leaf, made, lines))
        if len(leaves) == 1 and self.recording.result is self.recording.results[0]:
            return [*lines, f"return {leaves[0]}"]
        structure = self.name(self.recording.result_structure)
        return [*lines, f"return unflatten([{', '.join(leaves)}], {structure})"]

    def _leaf(self, change: Change) -> str:
        return self.memory.expression(self.notes.tensors[id(change.tensor)])

    def _writes(self, change: Change) -> list[str]:
        if not change.writes:
            return []
        here = self._leaf(change)
        return [
            f"if {here}._counter is UNWRITTEN: {here}._counter = [{change.writes}]",
            f"else: {here}._counter[0] += {change.writes}",
        ]

    def _kept_gradients(self, made: dict[int, str]) -> list[str]:
        if not self.kept:
            return []
        inside: list[str] = []
        names = [self._new_tensor(c.grad, made, inside) for c in self.kept]
        for change, name in zip(self.kept, names, strict=True):
            inside.append(f"{self._leaf(change)}._grad = {name}")
        inside.append(f"take({', '.join(names)})")
        return ["if not again:", *(f"    {line}" for line in inside)]

    def _new_tensor(self, tensor: Any, made: dict[int, str], lines: list[str]) -> str:
        """The name of a tensor that the run makes anew."""
        if id(tensor) in made:
            return made[id(tensor)]
        name, of = f"t{len(made)}", self.name
        made[id(tensor)] = name
        fresh, data = self.memory.fresh_of(tensor), tensor._data
        array = fresh.name
        if data is not fresh.root:
            offset = address_of(data) - fresh.address
            array = f"ndarray({of(data.shape)}, {of(data.dtype)}, {fresh.name}, {offset}, {of(data.strides)})"
        lines += [f"{name} = new({of(type(tensor))})", f"{name}._data = {array}"]
        lines.append(f"{name}._layout = {of(tensor._layout)}")
        if tensor._requires_grad:
            lines.append(f"{name}._requires_grad = True")
        if tensor._edge is not None:
            lines.append(f"{name}._edge = {of(tensor._edge)}")
        if tensor._counter[0]:
            lines.append(f"{name}._counter = [{tensor._counter[0]}]")
        return name
