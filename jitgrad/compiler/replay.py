"""A recording as a function: guards, the program of its launches, and what Python has to see afterwards.

The function is text, generated for each recording, as recorders of nodes are: it runs for every call.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.compiler.addresses import root_of
from jitgrad.compiler.argument_guards import argument_lines
from jitgrad.compiler.constants import constant_roots
from jitgrad.compiler.differentiable import Backward, CompiledFunctionBackward, alias, record_backward
from jitgrad.compiler.explanation import summary_of
from jitgrad.compiler.failures import after_failure
from jitgrad.compiler.families import families_of
from jitgrad.compiler.guards import Guards, Names, NotReplayable
from jitgrad.compiler.kept import Kept, is_plain
from jitgrad.compiler.memory import (
    Block,
    Fresh,
    Memory,
    Region,
    Temporaries,
    blocks_of,
    fresh_of_tensors,
    meet,
    pairs_apart,
)
from jitgrad.compiler.modes import depend_on_modes
from jitgrad.compiler.numbers import was_read
from jitgrad.compiler.options import DEFAULT, Options
from jitgrad.compiler.program import Stretches, bare_tensor, new_tensor, view_of
from jitgrad.compiler.recording import Change, Recording
from jitgrad.compiler.tensor_guards import depend_on_tensor, depend_on_writes
from jitgrad.compiler.tensor_notes import TensorNote
from jitgrad.core import saved_tensors
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.node import edge_of, edge_to, next_sequence_number
from jitgrad.core.storage import UNWRITTEN
from jitgrad.core.tensor import Tensor
from jitgrad.func.tree import flatten, unflatten
from jitgrad.kernels.blas import one_thread
from jitgrad.kernels.program import Beginning, Program, Ranges, address_of, extent_of, is_array, is_on_device
from jitgrad.random import generators

__all__ = ["BUSY", "MISS", "Replay", "replay_of"]

BUSY: Any = type("Busy", (), {"__repr__": lambda self: "<busy>"})()
MISS: Any = type("Miss", (), {"__repr__": lambda self: "<miss>"})()
Replay = Callable[[tuple[Any, ...], dict[str, Any]], Any]


def replay_of(recording: Recording, options: Options = DEFAULT) -> Replay:
    """``replay(args, kwargs)``, which returns what the recorded function would; MISS where a guard does not hold.

    BUSY where another thread is in a run of it.
    """
    return _Text(recording, record_backward(recording), options).function()


class _Text:
    """Makes the text of a replay."""

    def __init__(self, recording: Recording, backward: Backward | None, options: Options):
        self.recording, self.notes, self.backward, self.options = recording, recording.notes, backward, options
        self.scope: dict[str, Any] = {
            "MISS": MISS, "BUSY": BUSY, "state": grad_state, "new": object.__new__, "Tensor": Tensor,
            "tensor": bare_tensor, "UNWRITTEN": UNWRITTEN, "flatten": flatten, "unflatten": unflatten,
            "ndarray": np.ndarray, "saving": saved_tensors.thread, "edge_of": edge_of, "edge_to": edge_to,
            "next_sequence_number": next_sequence_number, "alias": alias, "Node": CompiledFunctionBackward,
            "reference": weakref.ref, "__name__": __name__,
        }  # fmt: skip
        self.name = Names(self.scope)
        self.numbers = {id(leaf): k for k, leaf in enumerate(recording.leaves)}
        self._lay_out()

    def _lay_out(self) -> None:
        """Say where memory is in a run: see `memory`."""
        new_grads = [c.grad for c in self.recording.changes if c.new_grad and c.grad is not None]
        done = [a for action in self.notes.actions for a in action.args]
        read = [n.tensor for n in (*self.recording.results, *done) if was_read(n)]
        tensors = [*self._new_results(), *new_grads, *read]
        self.families = families_of(self._new_results())
        self.fresh = fresh_of_tensors(tensors, self.recording, "fresh", self.recording.launches)
        self.moving = [
            Region(*extent_of(n.data), f"{self.expression(n)}._data", address_of(n.data))
            for n in self.notes.tensors.values() if n.layout.numel and self.moves(n)
        ]  # fmt: skip
        extents = [extent_of(n.data) for n in self.notes.tensors.values() if n.layout.numel]
        if any(sum(meet(r[:2], e) for e in extents) > 1 for r in self.moving):
            raise NotReplayable("an argument shares memory with another tensor from outside")
        block = self.backward.block if self.backward is not None else []
        self.blocks = blocks_of(block)
        saved = [region for b in self.blocks for region in b.regions()]
        launches, staying = self.recording.launches, [*self.fresh, *(Fresh(r, "") for r in block)]
        self.temporaries = Temporaries(self.recording, launches, staying)
        constants = self._constants() if self.options.passes.constants else []
        self.stretches = Stretches(
            launches, self.notes.actions, self.temporaries, self.options.passes, self.temporaries.leave(constants)
        )  # fmt: skip
        self.temporaries.place(self.stretches)
        moving = [*(f.region() for f in self.fresh), *self.moving, *saved]
        self.memory = Memory([*moving, *self.temporaries.regions])

    def _constants(self) -> list[Any]:
        behind = self.backward.launches if self.backward is not None else []
        return constant_roots(self.recording.launches, behind, self.recording.initial, self.temporaries.holds)

    def _new_results(self) -> list[Tensor]:
        return [r for r in self.recording.results if isinstance(r, Tensor) and id(r) not in self.notes.tensors]

    def moves(self, note: TensorNote) -> bool:
        """Whether the tensor may lie elsewhere in the next run: arguments and gradients."""
        given = id(note.tensor) in self.numbers and id(note.tensor) not in self.notes.found_elsewhere
        return note.owner is not None or given

    def expression(self, note: TensorNote) -> str:
        """What a tensor that was there before is called in the text."""
        if id(note.tensor) in self.numbers and self.moves(note):
            return f"a{self.numbers[id(note.tensor)]}"
        return f"g{self.expression(note.owner)}" if note.owner is not None else self.name(note.tensor)

    def fresh_of(self, tensor: Tensor) -> Fresh:
        """The memory of a result or a new gradient."""
        root = root_of(tensor._data)
        return next(f for f in self.fresh if f.root is root)

    def function(self) -> Replay:
        """The replay."""
        program = self.stretches.program(self.recording.initial, self.memory, self.options.timed)
        program.keep.append(self.temporaries.block)
        self.guards = Guards(self.notes.guards.values(), self.notes.live, self.name, program.set_number)
        depend_on_modes(self.guards, self.name)
        for note in self.notes.tensors.values():
            self._add_tensor(note)
        written = [self.notes.tensors[id(c.tensor)] for c in self.recording.changes if c.writes]
        differentiates = self.backward is not None or self.recording.differentiates
        notes = list(self.notes.tensors.values())
        depend_on_writes(self.guards, notes, written, self.expression, self.moves, differentiates)
        self.guards.finish()
        kept = self._kept()
        begin, arrays, everything = self._beginnings(program, kept)
        lines = [*argument_lines(self.recording, self.numbers, self.name), *self._conditions()]
        on_device = "".join(f"{self.memory.slots[k]}, " for k in program.device_slots)
        run = [*self._run(kept, arrays, everything), *program.running(on_device, "return MISS")]
        locks = [g.lock for g in generators() if any(a is g._state for made in self.stretches for a in made.args)]
        if locks:  # nobody else may draw meanwhile
            run = [f"with {', '.join(map(self.name, locks))}:", *(f"    {line}" for line in run)]
        changes = self.recording.changes
        failing, functions = after_failure(
            changes, lambda t: self.notes.tensors[id(t)], self.moves, self._leaf, self.stretches, program
        )  # fmt: skip
        self.scope |= functions
        if failing:
            run = ["try:", *(f"    {line}" for line in run), "except BaseException:", *failing, "    raise"]
        if program.brief:  # a call of ``begin``, which does not let go of Python's lock, is all of the run
            lines += run
        else:
            lines += ["if not acquire(False): return BUSY", "try:", *(f"    {line}" for line in run)]
            lines.append("finally: release()")
        lines += self._effects()
        for key, (obj, item) in self.notes.live.items():
            program.set_number(key, obj[item])
        text = "def replay(args, kwargs):\n" + "".join(f"    {line}\n" for line in lines)
        lock = threading.Lock()
        self.scope |= {
            "acquire": lock.acquire, "release": lock.release, "hold": self.guards.hold, "run": program.run,
            "fail": program.fail, "one_thread": one_thread, "begin": begin.call,
        }  # fmt: skip
        exec(compile(text, "<jitgrad replay>", "exec"), self.scope)
        replay = self.scope["replay"]
        replay.text, replay.program = text, program
        behind = None if self.backward is None else len(self.backward.launches)
        memory = self.temporaries.recorded, self.temporaries.nbytes
        summary = summary_of(self.recording, list(self.stretches), behind, *memory)
        replay.summary = lambda: summary._replace(times=program.times())
        return replay

    def _beginnings(self, program: Program, kept: set[str]) -> tuple[Beginning, str, str]:
        """What begins a run, the arrays that it binds, and those that are bound where gradients are made anew."""
        slots = {k: self.memory.slots[k] for k in program.slots}
        first, second = [[k for k, s in slots.items() if (s in kept) is wanted] for wanted in (False, True)]
        begin, begin_all = program.beginning(first), program.beginning([*first, *second])
        begin.compare(first=self.guards.rows)
        apart = self._apart([slots[k] for k in first], False)
        begin.refuse_overlap(apart)
        begin_all.refuse_overlap(apart)
        apart_on_device = self._apart([self.memory.slots[k] for k in program.device_slots], True)
        program.device.refuse_overlap(apart_on_device)
        self.scope["device"] = program.device
        # Whether a run that makes gradients anew will not be refused once it has begun.
        self.sure = not apart and not apart_on_device
        arrays = f"({''.join(slots[k] + ', ' for k in first)})"
        if not kept:
            return begin, arrays, ""
        unread = self._unread()
        where = {slots[k]: number for number, k in enumerate(second)}
        order = sorted(self.kept, key=lambda c: where[self.fresh_of(c.grad).name])
        keeper = Kept([(c, self.fresh_of(c.grad)) for c in order], unread, begin)
        self.scope |= {"begin_all": begin_all.call, "allocate": keeper.allocate, "give": keeper.give}
        return begin, arrays, f"({''.join(slots[k] + ', ' for k in first)}*arrays,)"

    def _unread(self) -> list[Change]:
        """The changes whose old gradient can be given up before the run, which neither reads it nor is refused."""
        changes = self.recording.changes if self.sure else []
        return [c for c in changes if c.new_grad and not self.notes.tensors[id(c.tensor)].grad_read]

    def _apart(self, slots: list[str], on_device: bool) -> list[tuple[int, int, int, int, int, int]]:
        """Pairs of tensors from outside, one of which is written to, that share no memory in the recording.

        Those of the CPU, or those on a device: between them nothing is shared ever.

        Launches may have been put in another order, which is right only while that is so.
        """
        writes = Ranges(
            extent_of(made.args[w]) for made in self.recording.launches for w in made.kernel.writes
            if is_array(made.args[w])
        )  # fmt: skip
        notes = [n for n in self.notes.tensors.values() if n.layout.numel and is_on_device(n.data) is on_device]
        known = [(extent_of(n.data), f"{self.expression(n)}._data") for n in notes]
        written = {k for k, (e, _) in enumerate(known) if writes.meets(*e)}
        return pairs_apart(known, written, {slot: k for k, slot in enumerate(slots)})

    def _run(self, kept: set[str], arrays: str, everything: str) -> list[str]:
        """Lines that compare, make new memory, and say where it is and where the arguments are."""
        new: list[Fresh | Block] = [*(f for f in self.fresh if f.name not in kept), *self.blocks]
        here, on_device = ([n.allocation(self.name) for n in new if n.on_device is side] for side in (False, True))
        lines = [
            *here,
            f"status = begin({arrays})", "if status == 1:", "    if not hold(): return MISS",
            f"    status = begin({arrays})",
        ]  # fmt: skip
        if kept:
            lines += ["again = status != 2", "if not again:", "    arrays = allocate()"]
            lines.append(f"    status = begin_all({everything})")
        lines += ["if status:", "    if status < 4: return MISS", "    fail(status - 4)"]
        there = [c for c in self._unread() if c.grad is not None and is_on_device(c.grad._data)]
        return [*lines, *self._for_each(there, "t._grad = None"), *on_device]

    def _for_each(self, changes: Sequence[Change], *statements: str) -> list[str]:
        """Lines that do something with each tensor ``t`` that changes are of, by a loop: it is compiled once."""
        if not changes:
            return []
        moving = [c for c in changes if self.moves(self.notes.tensors[id(c.tensor)])]
        those = self.name(tuple([c.tensor for c in changes if c not in moving]))
        if moving:
            those = f"({''.join(self._leaf(c) + ', ' for c in moving)}*{those})"
        return [f"for t in {those}:", *(f"    {s}" for s in statements)]

    # -- guards -------------------------------------------------------------------------------------------

    def _conditions(self) -> list[str]:
        state = grad_state
        own = f"state.enabled is {state.enabled} and state.inference is {state.inference} and state.scope is None"
        plain = "not state.levels and not state.function_modes and not saving.hooks"
        lines = [f"if not ({own} and {plain}): return MISS"]
        if self.guards.always:
            lines += ["try:", *(f"    if not ({c}): return MISS" for c in self.guards.always)]
            lines.append("except (AttributeError, KeyError, IndexError, ValueError, TypeError): return MISS")
        return lines

    def _add_tensor(self, note: TensorNote) -> None:
        passes_on = self.backward is not None
        linked = passes_on and note.requires_grad and id(note.tensor) in self.numbers
        depend_on_tensor(self.guards, note, self.expression, moves=self.moves(note), linked=linked, passes_on=passes_on)

    # -- effects --------------------------------------------------------------------------------------------

    def _kept(self) -> set[str]:
        """The names of memory whose only use after a run is as a new gradient."""
        owners: dict[str, list[Any]] = {}
        for change in self.recording.changes:
            if change.new_grad and change.grad is not None:
                owners.setdefault(self.fresh_of(change.grad).name, []).append(change)
        for leaf in self._new_results():
            owners.setdefault(self.fresh_of(leaf).name, []).append(None)
        alone = {n: c[0] for n, c in owners.items() if len(c) == 1 and c[0] is not None}
        here = [c for c in alone.values() if is_plain(c.grad)]
        self.kept = [c for c in here if not self.moves(self.notes.tensors[id(c.tensor)])]
        return {self.fresh_of(c.grad).name for c in self.kept}

    def _effects(self) -> list[str]:
        """Lines that leave tensors as the recorded function would, and return its result."""
        lines = self._writes()
        made: dict[int, str] = {}
        for change in self.recording.changes:
            if change.new_grad and change not in self.kept:
                value = "None" if change.grad is None else self._new_tensor(change.grad, made, lines)
                lines.append(f"{self._leaf(change)}._grad = {value}")
        if self.kept:
            lines.append("if not again: give(arrays)")
        leaves = []
        for leaf in self.recording.results:
            if was_read(leaf):
                leaves.append(f"{self._array_of(leaf.tensor)}.item()")
            elif not isinstance(leaf, Tensor):
                leaves.append(self.name(leaf))
            elif id(leaf) in self.notes.tensors:
                leaves.append(self.expression(self.notes.tensors[id(leaf)]))
            else:
                leaves.append(self._new_tensor(leaf, made, lines))
        if self.backward is not None:
            lines += self._node(self.backward, made)
        if self.recording.result_structure is not None and self.recording.result_structure.type is None:
            return [*lines, f"return {leaves[0]}"]
        structure = self.name(self.recording.result_structure)
        return [*lines, f"return unflatten([{', '.join(leaves)}], {structure})"]

    def _leaf(self, change: Change) -> str:
        return self.expression(self.notes.tensors[id(change.tensor)])

    def _writes(self) -> list[str]:
        lines = []
        written = [c for c in self.recording.changes if c.writes]
        for count in {c.writes: None for c in written}:
            lines += self._for_each(
                [c for c in written if c.writes == count],
                f"if t._counter is UNWRITTEN: t._counter = [{count}]", f"else: t._counter[0] += {count}",
            )  # fmt: skip
        return lines

    def _array_of(self, tensor: Tensor) -> str:
        """The expression of the array of a tensor of one element, which a number is read of."""
        fresh, data = self.fresh_of(tensor), tensor._data
        if data is fresh.root:
            return fresh.name
        return view_of(data, fresh.address, fresh.root).text(fresh.name, self.name)

    def _new_tensor(self, tensor: Any, made: dict[int, str], lines: list[str]) -> str:
        """The name of a tensor that the run makes anew."""
        if id(tensor) not in made:
            here = made[id(tensor)] = f"t{len(made)}"
            fresh = self.fresh_of(tensor)
            new_tensor(here, tensor, fresh.name, fresh.address, self.name, lines, fresh.root)
            lines += self.families.lines(here, tensor, lambda base: self._new_tensor(base, made, lines))
            if tensor._edge is not None and not (self.backward is not None and self.backward.is_of(tensor)):
                lines.append(f"{here}._edge = {self.name(tensor._edge)}")
        return made[id(tensor)]

    def _node(self, backward: Backward, made: dict[int, str]) -> list[str]:
        """Lines that give the results whose gradients can be asked for their node."""
        slots = {f.name for f in self.fresh if id(f.root) in backward.read_results}
        slots |= {f"{self.expression(n)}._data" for n in backward.read_notes if self.moves(n)}
        carried = sorted(slots) + [block.name for block in self.blocks]
        watched = [f"alias({made[id(w)]})" if isinstance(w, Tensor) else self.expression(w) for w in backward.watched]
        edges = [f"edge_of({self.expression(n)})" for n in backward.wanted]
        self.scope["backward"] = backward.function(
            self.blocks, self.fresh, self.moving, carried, self.options.passes
        )  # fmt: skip
        count = len(backward.results)
        lines = [
            f"node = new(Node); node.replay, node.freeing = backward, {self.name(backward.freeing)}",
            f"node.arrays = ({''.join(c + ', ' for c in carried)})",
            f"node.saved = ({''.join(w + ', ' for w in watched)})",
            "node.versions = tuple([t._counter[0] for t in node.saved])",
            f"node.edges = ({''.join(e + ', ' for e in edges)})",
            f"node.n_outputs, node.special = {count}, {count > 1}", "node.sequence_number = next_sequence_number()",
        ]  # fmt: skip
        if backward.freed or backward.runs_again:
            lines.append(f"node.freed, node.runs_again = {backward.freed}, {backward.runs_again}")
        for k, result in enumerate(backward.results):
            lines.append(f"{made[id(result)]}._edge = {'node' if count == 1 else f'edge_to(node, {k})'}")
        return lines
