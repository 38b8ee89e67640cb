"""A recording as a function: guards, the program of its launches, and what Python has to see afterwards.

The function is text, generated for each recording, as recorders of nodes are: it runs for every call, and its guards
take most of the time of a small step.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.autograd.anomaly import is_anomaly_enabled
from jitgrad.compiler.notes import Guard, TensorNote, is_scalar, same
from jitgrad.compiler.recording import Change, Launch, Recording, root_of
from jitgrad.core import saved_tensors, tensor_observers
from jitgrad.core.dtypes import get_default_dtype
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.node import node_observers
from jitgrad.core.storage import UNWRITTEN
from jitgrad.core.tensor import Tensor
from jitgrad.engine import task
from jitgrad.func.tree import flatten, unflatten
from jitgrad.kernels import launch, threads
from jitgrad.kernels.blas import one_thread
from jitgrad.kernels.program import Builder, Place, Program

__all__ = ["MISS", "NotReplayable", "replay_of"]

MISS: Any = type("Miss", (), {"__repr__": lambda self: "<miss>"})()


class NotReplayable(Exception):
    """A recording that no program can be made of; the message says why."""


def replay_of(recording: Recording) -> Callable[[tuple[Any, ...], dict[str, Any]], Any]:
    """``replay(args, kwargs)``, which returns what the recorded function would; MISS where a guard does not hold."""
    return _Replay(recording).function()


class _Fresh:
    """Memory that every run makes anew, since tensors that are on it outlive the run."""

    def __init__(self, root: np.ndarray[Any, Any], number: int):
        self.root, self.name = root, f"fresh{number}"
        self.address, self.end = _extent(root)


class _Replay:
    def __init__(self, recording: Recording):
        self.recording, self.notes = recording, recording.notes
        self.scope: dict[str, Any] = {
            "MISS": MISS, "same": same, "state": grad_state, "empty": np.empty, "new": object.__new__, "Tensor": Tensor,
            "UNWRITTEN": UNWRITTEN, "flatten": flatten, "unflatten": unflatten, "ndarray": np.ndarray,
            "get_threads": threads.get_num_threads, "get_dtype": get_default_dtype, "saving": saved_tensors.thread,
            "launch_observers": launch.observers, "node_observers": node_observers, "engine_observers": task.observers,
            "tensor_observers": tensor_observers.tensor_observers, "is_anomaly_enabled": is_anomaly_enabled,
            "one_thread": one_thread, "__name__": __name__,
        }  # fmt: skip
        self.names: dict[int, str] = {}
        self.fresh: list[_Fresh] = []
        self.slots: list[str] = []  # the expressions of the arrays that are bound for a run
        self.known: list[tuple[int, int, TensorNote]] = []  # memory of tensors that were there before
        self.slot_of: dict[int, int] = {}  # by id of a tensor's note

    # -- names in the text ----------------------------------------------------------------------------

    def name(self, value: Any) -> str:
        """A name for a constant."""
        if value is None or value is True or value is False:
            return repr(value)
        name = self.names.get(id(value))
        if name is None:
            name = self.names[id(value)] = f"k{len(self.names)}"
            self.scope[name] = value
        return name

    # -- memory -----------------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        notes, recording = self.notes, self.recording
        for note in notes.tensors.values():
            if note.layout.numel:
                self.known.append((*_extent(note.data), note))
        self.created = {id(root_of(t._data)) for t in notes.created.values() if type(t._data) is np.ndarray}
        escaping = [r for r in recording.results if isinstance(r, Tensor) and id(r) not in notes.tensors]
        escaping += [c.grad for c in recording.changes if c.new_grad and c.grad is not None]
        for tensor in escaping:
            root = root_of(tensor._data)
            if id(root) not in {id(f.root) for f in self.fresh}:
                if self._note_at(_extent(root)[0]) is not None:
                    raise NotReplayable("it returns a view of a tensor from outside")
                self.fresh.append(_Fresh(root, len(self.fresh)))
                self.slots.append(self.fresh[-1].name)
        self.slot_names = {f.name: k for k, f in enumerate(self.fresh)}

    def _note_at(self, address: int) -> TensorNote | None:
        return next((n for low, high, n in self.known if low <= address < high), None)

    def locate(self, array: np.ndarray[Any, Any]) -> Place:
        """Where an array of the recording lies when the program runs."""
        address = _address(array)
        for number, fresh in enumerate(self.fresh):
            if fresh.address <= address < fresh.end:
                return Place(number, address - fresh.address)
        note = self._note_at(address)
        if note is not None and self._moves(note):
            if id(note) not in self.slot_of:
                self.slot_of[id(note)] = len(self.slots)
                self.slots.append(self._array_of(note))
            return Place(self.slot_of[id(note)], address - _address(note.data))
        return Place(None, address)

    def _moves(self, note: TensorNote) -> bool:
        """Whether the tensor may lie elsewhere in the next run: arguments and gradients."""
        return note.owner is not None or self._argument_number(note) is not None

    def _argument_number(self, note: TensorNote) -> int | None:
        return next((k for k, leaf in enumerate(self.recording.leaves) if leaf is note.tensor), None)

    def _array_of(self, note: TensorNote) -> str:
        return f"{self._expression(note)}._data"

    def _expression(self, note: TensorNote) -> str:
        number = self._argument_number(note)
        if number is not None:
            return f"a{number}"
        if note.owner is not None:
            return f"g{self.name(note.owner)}"
        return self.name(note.tensor)

    # -- the program --------------------------------------------------------------------------------------

    def _program(self) -> Program:
        builder, actions = Builder(self.locate), list(self.notes.actions)
        flags = {id(root_of(found)): root_of(found) for la in self.recording.launches for found, _ in la.checks}
        written: set[int] = set()
        for number, made in enumerate(self.recording.launches):
            while actions and actions[0].launch <= number:
                self._act(builder, actions.pop(0))
            for a in made.args:
                if isinstance(a, np.ndarray) and (root := flags.get(id(root_of(a)))) is not None:
                    builder.clear(root)
            builder.launch(made.kernel, made.args)
            written |= {id(root_of(made.args[w])) for w in made.kernel.writes if isinstance(made.args[w], np.ndarray)}
            for found, fail in made.checks:
                builder.check(found, fail)
        for action in actions:
            self._act(builder, action)
        for fresh in self.fresh:
            if id(fresh.root) not in written and fresh.root.size:
                raise NotReplayable("it returns a tensor that no kernel has written")
        return builder.finish()

    def _act(self, builder: Builder, action: Any) -> None:
        call, kwargs = action.call, action.kwargs
        builder.host((lambda *args: call(*args, **kwargs)) if kwargs else call, *action.args)

    # -- guards -------------------------------------------------------------------------------------------

    def _guards(self) -> list[str]:
        lines = [self._modes()]
        lines += [line for g in self.notes.guards.values() if (line := self._guard(g))]
        for note in self.notes.tensors.values():
            lines += self._tensor_guards(note)
        return lines

    def _modes(self) -> str:
        name, state = self.name, grad_state
        return (
            f"state.enabled is {state.enabled} and state.inference is {state.inference} and not state.levels "
            f"and state.scope is None and get_threads() == {threads.get_num_threads()} "
            f"and get_dtype() is {name(get_default_dtype())} and not (launch_observers or node_observers or "
            "engine_observers or tensor_observers or saving.hooks or is_anomaly_enabled())"
        )

    def _is(self, expression: str, value: Any) -> str:
        if is_scalar(value) and value is not None and not isinstance(value, bool):
            return f"({expression} is {self.name(value)} or same({expression}, {self.name(value)}))"
        return f"{expression} is {self.name(value)}"

    def _guard(self, guard: Guard) -> str:
        kind, obj, key, value = guard
        here = self.name(obj)
        if kind == "attr":
            if not is_scalar(value) and getattr(obj, key) is not value:
                raise NotReplayable(f"{key} of a {type(obj).__name__} is another object each time it is read")
            return self._is(f"{here}.{key}", value)
        if kind == "item":
            return self._is(f"{here}[{self.name(key)}]", value)
        if kind == "cell":
            return self._is(f"{here}.cell_contents", value)
        if kind == "lacks":
            return f"{key!r} not in {here}.__dict__"
        if kind == "empty":
            return f"not {here}" if value else f"{here}"
        if kind == "float":
            return f"type({here}[{self.name(key)}]) is float"
        if isinstance(obj, dict):
            items = [self._is(f"{here}[{self.name(k)}]", v) for k, v in value]
        elif isinstance(obj, list):
            items = [self._is(f"{here}[{k}]", v) for k, v in enumerate(value)]
        else:
            return f"tuple({here}) == {self.name(value)}"
        return " and ".join([f"len({here}) == {len(value)}", *items])

    def _tensor_guards(self, note: TensorNote) -> list[str]:
        here = self._expression(note)
        lines = []
        if note.owner is not None:
            lines.append(f"({here} := {self.name(note.owner)}._grad) is not None")
        lines.append(
            f"{here}._layout is {self.name(note.layout)} and {here}._requires_grad is {note.requires_grad} "
            f"and {here}._edge is None and {here}._leaf_hooks is None"
        )
        if note.owner is not None or self._argument_number(note) is not None:
            lines[-1] = f"type({here}) is {self.name(type(note.tensor))} and {lines[-1]} and {here}._level is None"
            lines[-1] += f" and type({here}._data) is ndarray"
        else:
            lines.append(f"{here}._data is {self.name(note.data)}")
        if note.grad_read and note.grad is None:
            lines.append(f"{here}._grad is None")
        return lines

    # -- the text -------------------------------------------------------------------------------------------

    def _arguments(self) -> list[str]:
        """Lines that take the arguments apart and compare their structure and all but tensors with the recording's."""
        leaves, structure = self.recording.leaves, self.recording.structure
        names = [f"a{k}" for k in range(len(leaves))]
        lines = [
            "leaves, structure = flatten((args, kwargs))",
            f"if structure != {self.name(structure)}: return MISS",
        ]
        if names:
            lines.append(f"{', '.join(names)}, = leaves")
        lines += [
            f"if not ({self._is(n, leaf)}): return MISS"
            for n, leaf in zip(names, leaves, strict=True) if not isinstance(leaf, Tensor)
        ]  # fmt: skip
        return lines

    def function(self) -> Callable[[tuple[Any, ...], dict[str, Any]], Any]:
        self._lay_out()
        program = self._program()
        guards, arguments = self._guards(), self._arguments()
        lines = [*arguments, "try:"]
        lines += [f"    if not ({g}): return MISS" for g in guards]
        lines += ["except (AttributeError, KeyError, IndexError, ValueError, TypeError): return MISS"]
        for fresh in self.fresh:
            root = fresh.root
            lines.append(f"{fresh.name} = empty({self.name(root.shape)}, {self.name(root.dtype)})")
        lines.append("if not acquire(False): return MISS")
        lines.append("try:")
        order = [self.slots[k] for k in program.slots]
        if order:
            lines.append(f"    bind(({', '.join(order)},))")
        for key, (obj, item) in self.notes.live.items():
            if key in program.live or any(key == k for c in program.calls for _, k in c.live):
                lines += [f"    n = {self.name(obj)}[{self.name(item)}]", f"    set_number({self.name(key)}, n)"]
        lines.append("    with one_thread: run()" if program.uses_blas else "    run()")
        lines.append("finally: release()")
        lines += self._effects()
        text = "def replay(args, kwargs):\n" + "".join(f"    {line}\n" for line in lines)
        lock = threading.Lock()
        self.scope |= {"acquire": lock.acquire, "release": lock.release, "bind": program.bind, "run": program.run,
                       "set_number": program.set_number}  # fmt: skip
        exec(compile(text, "<jitgrad replay>", "exec"), self.scope)
        replay = self.scope["replay"]
        replay.text, replay.program = text, program
        return replay

    def _effects(self) -> list[str]:
        """Lines that leave tensors as the recorded function would, and return its result."""
        lines: list[str] = []
        made: dict[int, str] = {}
        for change in self.recording.changes:
            lines += self._change(change, made)
        leaves = []
        for leaf in self.recording.results:
            if not isinstance(leaf, Tensor):
                leaves.append(self.name(leaf))
            elif id(leaf) in self.notes.tensors:
                leaves.append(self._expression(self.notes.tensors[id(leaf)]))
            else:
                leaves.append(self._new_tensor(leaf, made, lines))
        structure = self.recording.result_structure
        if len(leaves) == 1 and self.recording.result is self.recording.results[0]:
            lines.append(f"return {leaves[0]}")
        else:
            lines.append(f"return unflatten([{', '.join(leaves)}], {self.name(structure)})")
        return lines

    def _change(self, change: Change, made: dict[int, str]) -> list[str]:
        note = self.notes.tensors[id(change.tensor)]
        here, lines = self._expression(note), []
        if change.writes:
            lines += [
                f"if {here}._counter is UNWRITTEN: {here}._counter = [{change.writes}]",
                f"else: {here}._counter[0] += {change.writes}",
            ]
        if change.new_grad:
            value = "None" if change.grad is None else self._new_tensor(change.grad, made, lines)
            lines.append(f"{here}._grad = {value}")
        return lines

    def _new_tensor(self, tensor: Tensor, made: dict[int, str], lines: list[str]) -> str:
        """The name of a tensor that the run makes anew."""
        if id(tensor) in made:
            return made[id(tensor)]
        name = made[id(tensor)] = f"t{len(made)}"
        root = root_of(tensor._data)
        fresh = next(f for f in self.fresh if f.root is root)
        data = tensor._data
        if data is root:
            array = fresh.name
        else:
            offset = _address(data) - fresh.address
            array = f"ndarray({self.name(data.shape)}, {self.name(data.dtype)}, {fresh.name}, {offset}, {self.name(data.strides)})"
        lines += [f"{name} = new({self.name(type(tensor))})", f"{name}._data = {array}", f"{name}._layout = {self.name(tensor._layout)}"]
        if tensor._requires_grad:
            lines.append(f"{name}._requires_grad = True")
        if tensor._edge is not None:
            lines.append(f"{name}._edge = {self.name(tensor._edge)}")
        if tensor._counter[0]:
            lines.append(f"{name}._counter = [{tensor._counter[0]}]")
        return name


def _address(a: np.ndarray[Any, Any]) -> int:
    return int(a.__array_interface__["data"][0])


def _extent(a: np.ndarray[Any, Any]) -> tuple[int, int]:
    """The addresses of an array's first byte and of the one after its last; strides are not negative."""
    low = _address(a)
    if a.size == 0:
        return low, low
    return low, low + sum((n - 1) * abs(s) for n, s in zip(a.shape, a.strides, strict=True)) + a.itemsize
