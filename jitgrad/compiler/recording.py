"""One run of a function, recorded: its launches, what it depended on, and what it left behind."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jitgrad.compiler.addresses import ARRAYS, root_of
from jitgrad.compiler.coverage import Coverage
from jitgrad.compiler.guards import NotReplayable
from jitgrad.compiler.modes import modes_of
from jitgrad.compiler.notes import Notes, is_constant
from jitgrad.compiler.numbers import is_live, plain
from jitgrad.compiler.placeholders import Placeholders
from jitgrad.compiler.tensor_notes import HOOKS, TensorNote, hooks_of
from jitgrad.compiler.trial import Refused, may_be_tried, runs_programs_code, unnoticed
from jitgrad.compiler.watch import Watch
from jitgrad.core.dtypes import get_default_dtype
from jitgrad.core.grad_mode import state
from jitgrad.core.host_reads import read_observers
from jitgrad.core.node import Edge, Node, edge_of, node_of
from jitgrad.core.tensor import Tensor
from jitgrad.core.tensor_observers import tensor_observers
from jitgrad.engine.engine import run_observers
from jitgrad.func.tree import KINDS, Structure, flatten, kind_of, unflatten
from jitgrad.kernels.device_array import MetaArray, NoValues
from jitgrad.kernels.launch import Kernel, check_observers, observers
from jitgrad.kernels.lazy_array import LazyArray
from jitgrad.kernels.program import Launch, is_array
from jitgrad.kernels.threads import get_num_threads
from jitgrad.random import generators

__all__ = ["Change", "Recording", "nodes_behind", "record"]

_OUTSIDE = "backward of an autograd.Function, a checkpoint or hooks on saved tensors runs outside of it"
_OPENED = (tuple, list, dict, OrderedDict, defaultdict, deque, namedtuple)  # Python's own kinds of pytrees


@dataclass(frozen=True, eq=False)
class Change:
    """What a run leaves in a tensor that was there before: so many more writes, and another ``.grad`` or none."""

    tensor: Tensor
    writes: int
    new_grad: bool
    grad: Tensor | None


class Recording:
    """What `record` returns: ``result`` of the function, and what it takes to do the same again."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]):
        # No cycle: what a recorded run has computed is to be freed at once, not when the collector comes by.
        self.launches: list[Launch] = []
        self.notes = Notes(self.launches.__len__)
        self.leaves, self.structure = flatten((args, kwargs))
        self.result: Any = None
        self.changes: list[Change] = []
        self.results: list[Any] = []
        self.result_structure: Structure | None = None
        # By id of the memory: (memory, what it held at first, which launch found it so) of new tensors that were not
        # written by a launch first, as those made of Python's numbers.
        self.initial: dict[int, tuple[Any, Any, int]] = {}
        self._touched: set[int] = set()
        self._coverage = Coverage()
        self._modes = _modes()
        self.differentiates = False  # whether backward was run
        self.differentiates_twice = False  # whether backward was run so that its results have a graph
        self._finished = False
        forgetting = self._touched, self._coverage, self.notes.host_made
        self._standing: set[int] = set()  # in a trial of backward: ids of the memory that forward's launches have used
        self.placeholders = Placeholders(self.launches, self.initial, forgetting)
        self._thread = threading.get_ident()

    # -- observers --------------------------------------------------------------------------------------

    def __call__(self, kernel: Kernel, args: tuple[Any, ...], seconds: float) -> None:
        """A launch was done."""
        if threading.get_ident() == self._thread:
            self.launches.append(Launch(kernel, args, []))
            self.placeholders.launched()

    def before(self, kernel: Kernel, args: tuple[Any, ...]) -> None:
        """A launch is about to be done: what it finds in memory of new tensors is kept, if it may read it."""
        if threading.get_ident() != self._thread:
            return
        roots = {k: root_of(a) for k, a in enumerate(args) if isinstance(a, np.ndarray)}
        writes = set(kernel.writes)
        if self.notes.trying_backward:
            self._refuse_writes([roots[k] for k in writes & roots.keys()])
        read = {id(root) for k, root in roots.items() if k not in writes}
        for k, root in roots.items():
            if id(root) in self._touched:
                continue
            new, part = id(root) in self.placeholders.announced, args[k].nbytes < root.nbytes
            written = id(root) not in read and id(root) not in self.notes.host_made
            if new and written and part and self._coverage.add(len(self.launches), kernel, args, k):
                continue
            if new and (part or not written) and not self._coverage.is_whole(root):
                self._keep(root)
            self._touched.add(id(root))
            self._coverage.discard(id(root))

    def _refuse_writes(self, roots: list[Any]) -> None:
        """In a trial of backward: Refused for memory that was there before, or that draws of random numbers change."""
        there = {id(root_of(note.data)) for note in self.notes.tensors.values()}
        there |= {id(g._state) for g in generators()} | self._standing
        if any(id(root) in there for root in roots):
            self.notes.effect("it writes to memory from outside")

    def _keep(self, root: Any) -> None:
        """Keep a copy of what new memory holds now: every run begins with it, and repeats the launches so far."""
        first = self._coverage.first_launch(root, len(self.launches))
        self.initial[id(root)] = root, root.copy(order="K"), first

    def _on_check(self, found: Any, fail: Callable[..., Any], args: tuple[Any, ...]) -> None:
        if threading.get_ident() != self._thread:
            return
        self.launches[-1].checks.append((found, fail, args))
        if self.notes.trying:
            self.notes.fail("what may be an error is computed where the function catches errors, or has finally")
        with contextlib.suppress(NoValues):
            if found.item(0):
                self.notes.fail("it goes on after an error")

    def _on_tensor(self, tensor: Tensor) -> None:
        if threading.get_ident() == self._thread:
            self.notes.created[id(tensor)] = tensor
            if is_array(tensor._data):
                self.placeholders.announce(root_of(tensor._data))

    def _on_read(self, what: str) -> None:
        if threading.get_ident() == self._thread and not self.notes.reading:
            self.notes.fail(f"{what} reads numbers of a tensor", lasting=True)

    def _on_backward(
        self, roots: Sequence[Edge], create_graph: bool, wanted: Sequence[Edge] | None, accumulate: bool
    ) -> None:
        """Backward is about to run."""
        if threading.get_ident() != self._thread:
            return
        if accumulate:
            self.notes.effect("it runs backward itself")
        if self._finished:
            return
        self.differentiates = True
        self.differentiates_twice |= create_graph
        ends = None if wanted is None else {node_of(e) for e in wanted}
        running = nodes_behind(map(node_of, roots))
        those = list(self.notes.tensors.values())
        edges = [(n, edge_of(n.tensor)) for n in those if n.requires_grad]
        sought = [n for n, e in edges if e is not None and node_of(e) in (ends or ())]
        for note, edge in edges:
            if accumulate:
                self.notes.grad_of(note)
            if edge is not None and node_of(edge) in running:
                self._passes(note, node_of(edge), ends, [n for n in sought if n is not note])

    def _passes(self, note: TensorNote, node: Node, ends: set[Node] | None, sought: list[TensorNote]) -> None:
        """Backward is about to come by a tensor from outside. sought: others that gradients are asked for."""
        behind = nodes_behind([node])
        note.history_counts = True
        if note.edge is not None:
            note.apart += [n for n in sought if n not in note.apart]
        if note.edge is not None and (ends is None or not ends.isdisjoint(behind - {node})):
            self.notes.fail("it runs backward through the graph of an argument")
        elif ends is None or not ends.isdisjoint(behind):
            note.reached = True
            if hooks_of(note.tensor):
                self.notes.fail("it runs backward to a tensor from outside that has hooks or retains its gradient")

    @contextlib.contextmanager
    def observing(self) -> Iterator[None]:
        """Listen to launches, checks, new tensors and reads of numbers."""
        pairs: list[tuple[list[Any], Any]] = [
            (observers, self), (check_observers, self._on_check), (tensor_observers, self._on_tensor),
            (read_observers, self._on_read), (run_observers, self._on_backward),
        ]  # fmt: skip
        for those, observer in pairs:
            those.append(observer)
        try:
            yield
        finally:
            for those, observer in pairs:
                those.remove(observer)

    @contextlib.contextmanager
    def trying_backward(self, results: list[Tensor]) -> Iterator[None]:
        """Around a run of backward through these results that the program has not asked for."""
        nodes = {n for r in results for n in self.programs_nodes(r)}
        arrays = [a for made in self.launches for a in made.args if isinstance(a, np.ndarray)]
        self._standing = set(map(id, map(root_of, arrays)))
        self.notes.trying_backward = bool(nodes)
        try:
            with unnoticed(nodes):
                yield
        except NotReplayable:
            raise
        except (Refused, Exception) as error:
            self.notes.trying_backward = False
            if not nodes:
                raise
            what = error if isinstance(error, Refused) else f"it raises {type(error).__name__}"
            self.notes.fail(f"{_OUTSIDE}, and {what}", None, True, self.notes.repeated)
        finally:
            self.notes.trying_backward = False

    # -- afterwards -------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Find out what the run has left behind; a reason is noted if a program can't leave the same."""
        notes, self._finished = self.notes, True
        self.results, self.result_structure = flatten(self.result)
        if any(map(is_live, self.results)):
            self.result = unflatten([plain(r) for r in self.results], self.result_structure)
        if notes.reason is not None:
            return
        if _modes() != self._modes:
            notes.fail("it leaves another grad mode, default dtype, device or number of threads")
        for root in self._coverage.others():
            self._keep(root)
        self.placeholders.restore()
        for note in notes.tensors.values():  # a new tensor on memory from outside is no new memory
            self.initial.pop(id(root_of(note.data)), None)
        notes.check_states()
        self._check_containers(self.result, set())
        for leaf in self.results:
            self._check_result(leaf)
        counters: dict[int, TensorNote] = {}
        for note in list(notes.tensors.values()):
            self._compare(note, counters)
        for kernel, args, _ in self.launches:
            if any(isinstance(a, (LazyArray, MetaArray)) for a in args):
                notes.fail(f"the kernel {kernel.name} takes lazy arrays or those without data")

    def nodes_of(self, result: Tensor) -> set[Node]:
        """The nodes of a result's graph, nothing behind those of arguments."""
        return nodes_behind([node_of(result._edge)], self._arguments_nodes())

    def _arguments_nodes(self) -> set[Node]:
        return {node_of(n.edge) for n in self.notes.tensors.values() if n.edge is not None}

    def own_nodes(self, result: Tensor) -> set[Node]:
        """The nodes of a result's graph that the run has made, leaves' nodes included."""
        return self.nodes_of(result) - self._arguments_nodes()

    def programs_nodes(self, result: Tensor) -> list[Node]:
        """Those of ``own_nodes`` whose backward runs a program's own code."""
        return [n for n in self.own_nodes(result) if runs_programs_code(n)]

    def has_graph(self, result: Tensor) -> bool:
        """Whether gradients that differ from run to run can be asked for by a result: its graph isn't all freed."""
        if result._edge is None:
            return False
        # Not by the attribute, a property that unpacks where there are hooks on saved tensors.
        freed = {node for node in self.own_nodes(result) if vars(node).get("saved", ()) is None}
        notes = self.notes
        given = [edge_of(n.tensor) for key, n in notes.tensors.items() if key in notes.arguments and n.requires_grad]
        arguments = {node_of(edge) for edge in given if edge is not None}
        left = nodes_behind([node_of(result._edge)], freed | self._arguments_nodes()) - freed
        return not freed or any(node in arguments or node.frees() for node in left)

    def is_behind(self, tensor: Tensor, result: Tensor) -> bool:
        """Whether backward through a result whose graph has not all been freed comes by another tensor."""
        if tensor is result or not tensor._requires_grad or not self.has_graph(result):
            return False
        edge: Any = edge_of(tensor)
        return node_of(edge) in self.nodes_of(result) - {node_of(result._edge)}

    def _check_containers(self, tree: Any, seen: set[int]) -> None:
        """Each run makes new containers for its result: those that may be changed have to be so, and be there once."""
        if not isinstance(tree, (list, dict, tuple, deque)):
            return
        if not isinstance(tree, tuple):
            if id(tree) in seen:
                self.notes.fail(f"it returns one {type(tree).__name__} twice")
            elif self.notes.is_known(tree):
                self.notes.fail(f"it returns a {type(tree).__name__} from outside")
            seen.add(id(tree))
        for key in tree if isinstance(tree, dict) else ():
            if not (is_constant(key) or self.notes.is_known(key)) or _has_tensor(key):
                self.notes.fail(f"it returns a dictionary with a {type(key).__name__} as a key")
        for item in tree.values() if isinstance(tree, dict) else tree:
            self._check_containers(item, seen)

    def _check_result(self, leaf: Any) -> None:
        notes = self.notes
        if not isinstance(leaf, Tensor):
            if not isinstance(leaf, (bool, int, float, complex, str, type(None))):
                notes.fail(f"it returns a {type(leaf).__name__}")
        elif id(leaf) not in notes.tensors:
            if type(leaf._data) not in ARRAYS:
                notes.fail("it returns a lazy tensor or one without data")
            elif leaf._grad is not None or leaf._leaf_hooks is not None:
                notes.fail("it returns a new tensor with a gradient or hooks of its own")
            elif self.has_graph(leaf) and not all(map(may_be_tried, self.programs_nodes(leaf))):
                notes.fail(_OUTSIDE, None, True, notes.repeated)

    def _compare(self, note: TensorNote, counters: dict[int, TensorNote]) -> None:
        """Note what has become of a tensor. counters: by id, the first tensor that has a version counter."""
        notes, tensor = self.notes, note.tensor
        if type(tensor._data) not in ARRAYS:
            notes.fail("it uses a tensor without data, or a lazy one")
        elif tensor._data is not note.data or tensor._layout is not note.layout:
            notes.fail("it replaces the memory of a tensor from outside")
        elif tensor._edge is not note.edge or tensor._requires_grad is not note.requires_grad:
            notes.fail("it makes a tensor from outside part of a graph")
        elif hooks_of(tensor) != note.hooks:
            notes.fail(HOOKS)
        first = counters.setdefault(id(tensor._counter), note)
        writes = 0 if note.inference else tensor._counter[0] - first.version
        if first is not note:  # the writes are credited to that one, which is right only while they share a counter
            note.counts_with, writes = (first if writes else None), 0
        grad = tensor._grad
        new = grad is not note.grad or (grad is None and note.grad_written)  # there may be one in the next run
        if new and grad is not None:
            if id(grad) not in notes.created or grad._edge is not None or type(grad._data) not in ARRAYS:
                notes.fail("it leaves a gradient that is part of a graph, or not its own")
        note.inference_counts |= bool(writes)  # else it can't be written to
        if writes or new:
            self.changes.append(Change(tensor, writes, new, grad))


def _modes() -> tuple[Any, ...]:
    """What a function can switch for those who come after it."""
    return state.enabled, state.inference, get_default_dtype(), get_num_threads(), *modes_of()


def nodes_behind(first: Iterable[Node], ends: Collection[Node] = ()) -> set[Node]:
    """These nodes and all that backward from them comes by, nothing behind ``ends``."""
    seen, stack = set[Node](), list(first)
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack += [node_of(e) for e in node.edges if e is not None and node not in ends]
    return seen


def record(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Recording:
    """Run ``function`` on these arguments and record it. What it raises is raised."""
    made = Recording(args, kwargs)
    notes = made.notes
    notes.arguments |= {id(leaf) for leaf in made.leaves if isinstance(leaf, Tensor)}
    for leaf in made.leaves:
        notes.know(leaf)
        if isinstance(leaf, np.ndarray):
            notes.fail("it is given a NumPy array")
    _know_containers(args, ("args",), notes)
    _know_containers(kwargs, ("kwargs",), notes)
    notes.know(function)
    with made.observing():
        made.result = Watch(notes).call(function, *args, **kwargs)
    made.finish()
    return made


def _know_containers(tree: Any, place: tuple[Any, ...], notes: Notes) -> None:
    """Containers in one that the call was given: their structure is compared in every call. place: the keys to it."""
    for key, item in tree.items() if isinstance(tree, dict) else enumerate(tree):
        kind = kind_of(item)
        if kind in _OPENED:
            notes.known[id(item)] = item
            notes.arguments.add(id(item))
            notes.containers.append((item, (*place, key)))
            if isinstance(item, dict) and any(map(_has_tensor, item)):
                notes.fail("it is given a dictionary whose keys are tensors")
            _know_containers(item, (*place, key), notes)
        elif kind in KINDS:
            notes.fail(f"it is given a {kind.__name__}, which is a registered pytree")


def _has_tensor(key: Any) -> bool:
    return isinstance(key, Tensor) or (isinstance(key, (tuple, frozenset)) and any(map(_has_tensor, key)))
