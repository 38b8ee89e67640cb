"""Results whose gradients can be asked for: the node of a compiled call, and the program of its backward.

After a function was recorded, so is one backward through what it returns, from gradients of each result to every tensor
from outside that requires grad. A call runs the forward program and gives its results one node. What backward reads
of the temporaries of forward lies in one block of memory, which each call makes anew and its node holds.
"""

from __future__ import annotations

import functools
import operator
import threading
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

import numpy as np

from jitgrad.compiler.addresses import ARRAYS, root_of
from jitgrad.compiler.constants import constant_roots
from jitgrad.compiler.guards import Guards, Names, NotReplayable
from jitgrad.compiler.memory import Block, Fresh, Memory, Region, Temporaries, fresh_of_tensors, written_roots
from jitgrad.compiler.program import Stretches, bare_tensor, new_tensor
from jitgrad.compiler.recording import Recording, nodes_behind
from jitgrad.compiler.tensor_notes import TensorNote
from jitgrad.core.layout import Layout, intern
from jitgrad.core.node import FREED, Node, edge_of, node_of
from jitgrad.core.saved_versions import modified_message, writes
from jitgrad.core.storage import UNWRITTEN, counter_of, empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.copying import copy_to_layout, fill_array
from jitgrad.engine.engine import run
from jitgrad.kernels.blas import one_thread
from jitgrad.kernels.program import Launch, Passes, address_of, extent_of, is_array

__all__ = ["Backward", "CompiledFunctionBackward", "alias", "record_backward"]

_TWICE = (
    "torch.compile with aot_autograd does not currently support double backward: gradients of a compiled function "
    "can't be differentiated again (create_graph=True)"
)


_CHANGED = (
    "torch.compile: what backward of an autograd.Function reads has changed since the compiled function was called. "
    "Change it before forward or after backward, or keep it in ctx"
)


class CompiledFunctionBackward(Node):
    """The node of a call of a compiled function.

    ``saved`` are tensors that backward reads, watched for writes; ``arrays`` the memory that it finds them in, and all
    else that it needs of forward. ``freeing``: of the function's nodes, those that free what they saved when they have
    run: which results each is behind, which edges it leads to, and which of ``saved`` it saved, as bits. ``freed``:
    those that have, as bits.
    """

    arrays: Any = ()
    freeing: tuple[tuple[int, int, int], ...] = ()
    freed = ran = 0
    runs_again = False  # whether gradients may be asked for that come by none of those
    owned = False  # a gradient may be the one that came in
    replay: Callable[..., Any]

    def vjp(self, *grads: Tensor | None) -> Any:
        """The gradients of the tensors from outside."""
        return self._vjp(-1, *grads)

    def vjp_toward(self, nodes: Container[Node], recorded: bool) -> Callable[..., Any]:
        """``vjp``, by which only those of the function's nodes count as run that lead to ``nodes``."""
        if recorded:
            return self.vjp_recorded
        return functools.partial(self._vjp, _bits(e is not None and node_of(e) in nodes for e in self.edges))

    def _vjp(self, toward: int, *grads: Tensor | None) -> Any:
        needed = -1
        if toward == -1 and None not in grads:
            self.ran = (1 << len(self.freeing)) - 1
        else:
            there = _bits(g is not None for g in grads)
            ran = [bool(behind & there and (toward == -1 or leads & toward)) for behind, leads, _ in self.freeing]
            self.ran = _bits(ran)
            needed = functools.reduce(operator.or_, [saves for r, (*_, saves) in zip(ran, self.freeing) if r], 0)
        if self.ran & self.freed:
            raise RuntimeError(FREED)
        self._compare(needed)
        return self.replay(self.arrays, grads)

    def _compare(self, needed: int) -> None:
        """RuntimeError if one of those saved tensors was written to since."""
        for k, (tensor, version) in enumerate(zip(self.saved or (), self.versions, strict=True)):
            if tensor._counter[0] != version and needed >> k & 1 and writes(tensor._counter[0]) != writes(version):
                raise RuntimeError(modified_message(tensor, version, self))

    def vjp_recorded(self, *grads: Tensor | None) -> Any:
        """RuntimeError: there are no rules that could be differentiated."""
        raise RuntimeError(_TWICE)

    def release(self) -> None:
        """Free what was saved, once all nodes have run that do, unless there are gradients that come by none."""
        self.freed |= self.ran
        if not self.runs_again and self.freed == (1 << len(self.freeing)) - 1:
            self.saved, self.arrays = None, ()

    def frees(self) -> bool:
        """Whether one of the function's nodes does."""
        return bool(self.freeing)


class Backward:
    """A recorded backward: from ``grads``, one for each of the ``results``, to ``found``, one for each of ``wanted``.

    ``found`` is None where no gradient arrives, or all that do would come by nodes that the function has freed itself.
    ``block`` are the temporaries of forward that it reads; ``carried`` results and arguments whose memory it reads.
    ``watched``: notes of tensors from outside, and results, that nodes have saved and refuse to read once written to.
    """

    def __init__(self, recording: Recording, results: list[Tensor]):
        self.recording, self.results = recording, results
        own = {n for r in results for n in recording.own_nodes(r)}
        gone = {n for n in own if n.saved is None}
        known = set(recording.notes.guards)
        freeing = gone | {n for n in own if n.frees()}
        reached = set().union(*map(recording.nodes_of, results))  # an edge to others would make runs come by
        given: list[tuple[TensorNote, Any]] = [
            (n, edge_of(n.tensor)) for n in recording.notes.tensors.values() if n.requires_grad
        ]
        self.wanted = [n for n, edge in given if node_of(edge) in reached]
        saving = {n: n.watched() for n in freeing}  # before they run: some let go of it then
        first = self.first = len(recording.launches)
        self.grads = [_ones(r._layout) for r in results]
        del recording.launches[first:]
        edges: list[Any] = [edge_of(n.tensor) for n in self.wanted]
        ends = {node_of(e) for e in edges}
        if any(_has_hooks(n) for n in nodes_behind([node_of(r._edge) for r in results], ends) - ends):
            raise NotReplayable("its tensors have hooks or retain gradients, and backward runs outside of it")
        leads = _leads_to([node_of(r._edge) for r in results], edges)
        lost = self._lost(gone, leads)
        asked = [e for k, e in enumerate(edges) if not lost >> k & 1]
        arriving = iter(run([r._edge for r in results], self.grads, True, False, asked, False, ends=True))
        self.found = [None if lost >> k & 1 else next(arriving) for k in range(len(edges))]
        recording.placeholders.restore()
        self.launches: list[Launch] = recording.launches[first:]
        del recording.launches[first:]
        # What the program's own code read in backward, where another value may have been set since forward ran.
        self.guards = [guard for key, guard in recording.notes.guards.items() if key not in known]
        behind = [nodes_behind([node_of(r._edge)], ends) for r in results]
        self._reaches = [[node_of(e) in nodes for e in edges] for nodes in behind]
        saves = self._watch(saving)
        freed, left = (
            {(_bits(n in nodes for nodes in behind), leads[n], saves[n]) for n in those}
            for those in (gone, freeing - gone)
        )
        self.freeing, self.freed = (*freed, *left), (1 << len(freed)) - 1
        self.runs_again = any(
            wanted and not any(results >> r & 1 and to >> k & 1 for results, to, _ in self.freeing)
            for r, reached in enumerate(self._reaches) for k, wanted in enumerate(reached)
        )  # fmt: skip
        self._sort_out()

    def _lost(self, gone: Iterable[Node], leads: dict[Node, int]) -> int:
        """The edges, as bits, whose gradients all come by ``gone`` nodes: those that have freed what they saved.

        NotReplayable if an edge is reached by one result through such nodes, and by another one without.
        """
        past = []
        for result in self.results:
            own = self.recording.own_nodes(result)
            past.append(functools.reduce(operator.or_, [leads[n] for n in gone if n in own], 0))
        lost = functools.reduce(operator.or_, past, 0)
        if any(lost & leads[node_of(r._edge)] & ~through for r, through in zip(self.results, past, strict=True)):
            raise NotReplayable("part of the graph of a result has been freed, which gradients of another don't need")
        return lost

    def is_of(self, tensor: Tensor) -> bool:
        """Whether the tensor is one of the results."""
        return any(tensor is r for r in self.results)

    def _watch(self, saving: dict[Node, tuple[Any, ...]]) -> dict[Node, int]:
        """Find out what is watched for writes; returns which of it each node saved, as bits."""
        counters = {n: {_memory(t) for t in saved} for n, saved in saving.items()}
        every = set().union(*counters.values())
        notes = self.recording.notes.tensors
        outside = [n for n in notes.values() if _memory(n.tensor) in every]
        new = {id(r): r for r in self.recording.results if isinstance(r, Tensor) and id(r) not in notes}
        self.watched: list[TensorNote | Tensor] = [*outside, *(r for r in new.values() if _memory(r) in every)]
        known = [_memory(w if isinstance(w, Tensor) else w.tensor) for w in self.watched]
        return {n: _bits(k in those for k in known) for n, those in counters.items()}

    def _sort_out(self) -> None:
        """Find out what backward reads of forward."""
        mine, written = written_roots(self.launches), written_roots(self.recording.launches)
        arrays = [a for made in self.launches for a in made.args if is_array(a)]
        roots = {id(r): r for r in map(root_of, arrays)}
        results = {id(root_of(r._data)) for r in self.recording.results if isinstance(r, Tensor)}
        outside = {id(root_of(note.data)) for note in self.recording.notes.tensors.values()}
        elsewhere = {*mine, *results, *outside}
        self.block = [r for k, r in roots.items() if k in written and k not in elsewhere and r.nbytes]
        self.read_results = {k for k in roots if k in results}
        self.read_notes = []
        for note in self.recording.notes.tensors.values():
            low, high = extent_of(note.data)
            if any(low <= address_of(a) < high for a in arrays):
                self.read_notes.append(note)

    def function(self, blocks: Sequence[Block], fresh: Sequence[Fresh], moving: Sequence[Region],
                 carried: Sequence[str], passes: Passes) -> Callable[..., Any]:  # fmt: skip
        """``replay(arrays, grads)``; arrays: the values of the expressions ``carried`` in the text of forward.

        blocks: where the temporaries are that it reads; fresh: the memory of results; moving: the regions of arguments.
        """
        scope: dict[str, Any] = {
            "ndarray": np.ndarray, "tensor": bare_tensor, "fitted": _fitted,
            "of": functools.partial(_of_pattern, self._reaches),
        }  # fmt: skip
        name = Names(scope)
        given = {id(root_of(g._data)) for g in self.grads}
        new = [f for f in self.found if f is not None and id(root_of(f._data)) not in given]
        made = fresh_of_tensors(new, self.recording, "out", self.launches)
        here = {expression: f"arrays[{k}]" for k, expression in enumerate(carried)}
        regions = [region for b in blocks for region in b.regions(here[b.name])]
        regions += [f.region(here[f.name]) for f in fresh if f.name in here]
        regions += [r._replace(slot=here[r.slot]) for r in moving if r.slot in here]
        regions += [Region(*extent_of(g._data), f"g{k}._data", address_of(g._data)) for k, g in enumerate(self.grads)
                    if g._layout.numel]  # fmt: skip
        regions += [f.region() for f in made]
        bound = [Fresh(r, "") for r in (*self.block, *(root_of(g._data) for g in self.grads))]
        temporaries = Temporaries(self.recording, self.launches, [*made, *bound, *fresh])
        constants: list[Any] = []
        if passes.constants:
            known = self.recording.launches, self.recording.initial
            constants = constant_roots(self.launches, *known, temporaries.holds)
        stretches = Stretches(self.launches, [], temporaries, passes, temporaries.leave(constants))
        temporaries.place(stretches)
        memory = Memory([*regions, *temporaries.regions])
        initial = {k: v for k, v in self.recording.initial.items() if v[2] >= self.first}  # forward writes the others
        program = stretches.program(initial, memory)
        program.keep.append(temporaries.block)
        lines = self._conditions(name)
        lines += [f"g{k} = fitted(grads[{k}], {name(g._layout)})" for k, g in enumerate(self.grads)]
        lines += [f.allocation(name) for f in made]
        slots, on_device = ("".join([f"{memory.slots[k]}, " for k in s]) for s in (program.slots, program.device_slots))
        lines += ["with lock:", f"    status = begin(({slots}))", "    if status: fail(status - 4)"]
        lines += [f"    {line}" for line in program.running(on_device)]
        results = [self._gradient(f, made, name, lines) for f in self.found]
        lines.append(f"found = ({''.join(r + ', ' for r in results)})")
        lines += ["if any([g is None for g in grads]):", "    there = of([g is not None for g in grads])"]
        lines += ["    return [f if t else None for f, t in zip(found, there)]", "return found"]
        text = "def backward(arrays, grads):\n" + "".join(f"    {line}\n" for line in lines)
        scope |= {
            "lock": threading.Lock(), "begin": program.beginning(program.slots).call, "run": program.run,
            "fail": program.fail, "one_thread": one_thread, "device": program.device,
        }  # fmt: skip
        exec(compile(text, "<jitgrad backward>", "exec"), scope)
        return scope["backward"]

    def _conditions(self, name: Names) -> list[str]:
        """Lines that compare what was read when backward was recorded."""
        if not self.guards:
            return []
        guards = Guards(self.guards, {}, name, lambda key, value: None)
        guards.finish()
        conditions = [f"{name(guards.hold)}()", *guards.always]
        return [f"if not ({' and '.join(conditions)}): raise {name(RuntimeError)}({name(_CHANGED)})"]

    def _gradient(self, found: Tensor | None, made: Sequence[Fresh], name: Names, lines: list[str]) -> str:
        """The expression of one of the gradients."""
        if found is None:
            return "None"
        for k, g in enumerate(self.grads):
            if found is g:
                return f"g{k}"
            if root_of(found._data) is root_of(g._data):
                return new_tensor(f"t{len(lines)}", found, f"g{k}._data", address_of(g._data), name, lines)
        fresh = next(f for f in made if f.root is root_of(found._data))
        return new_tensor(f"t{len(lines)}", found, fresh.name, fresh.address, name, lines, fresh.root)


def record_backward(recording: Recording) -> Backward | None:
    """Record backward through the results whose graph has not been freed; None if there are none."""
    if recording.notes.reason is not None:
        return None
    new = {id(r): r for r in recording.results if isinstance(r, Tensor) and id(r) not in recording.notes.tensors}
    results = [r for r in new.values() if recording.has_graph(r)]
    if not results:
        return None
    leaves = [r for r in new.values() if r._edge is None]
    if any(recording.is_behind(leaf, r) for leaf in leaves for r in results):
        raise NotReplayable("it returns a new leaf, and what has been computed of it")
    with recording.observing(), recording.trying_backward(results):
        made = Backward(recording, results)
    if recording.notes.reason is not None:
        raise NotReplayable(recording.notes.reason)
    if any(f is not None and (f._edge is not None or type(f._data) not in ARRAYS) for f in made.found):
        raise NotReplayable("a gradient of its results is lazy, or part of a graph")
    return made


def alias(tensor: Tensor) -> Tensor:
    """A result without its edge, with its version counter, as its own node saves it."""
    saved = wrap(tensor._data, tensor._layout)
    saved._counter = counter_of(tensor)
    return saved


def _bits(those: Iterable[bool]) -> int:
    """Truth values as the bits of a number, the first one the lowest."""
    return sum(1 << k for k, one in enumerate(those) if one)


def _memory(tensor: Tensor) -> int:
    """What tensors have in common that count the same writes."""
    return id(tensor if tensor._counter is UNWRITTEN else tensor._counter)


def _leads_to(first: Iterable[Node], edges: Sequence[Any]) -> dict[Node, int]:
    """Of these nodes and those behind them, the edges at which gradients from each arrive, as bits."""
    found = dict[Node, int]()
    ends: dict[Node, int] = {}
    for k, edge in enumerate(edges):
        ends[node_of(edge)] = ends.get(node_of(edge), 0) | 1 << k
    stack = list(first)
    while stack:
        node = stack[-1]
        below = [node_of(e) for e in node.edges if e is not None] if node not in ends else []
        waiting = [n for n in below if n not in found]
        if waiting:
            stack += waiting
            continue
        stack.pop()
        found[node] = functools.reduce(operator.or_, [found[n] for n in below], ends.get(node, 0))
    return found


def _of_pattern(reaches: list[list[bool]], present: Sequence[bool]) -> list[bool]:
    """Which of the wanted gradients there are if only these of the results have one.

    reaches: for each result, to which of the wanted tensors gradients flow from it.
    """
    return [any(p and r for p, r in zip(present, wanted, strict=True)) for wanted in zip(*reaches, strict=True)]


def _ones(layout: Layout) -> Tensor:
    """A gradient to record backward with."""
    dense = intern(layout.numpy_dtype, layout.shape, None, layout.device)
    data = empty_for(dense)
    fill_array(data, dense, 1)
    return wrap(data, dense)


def _fitted(grad: Tensor | None, layout: Layout) -> Tensor:
    """A gradient that has come in, in the layout that backward was recorded for; zeros if there is none."""
    if grad is None:
        data = empty_for(layout)
        fill_array(data, layout, 0)
        return wrap(data, layout)
    return grad if grad._layout is layout else copy_to_layout(grad, layout)


def _has_hooks(node: Node) -> bool:
    """Whether backward through a node calls the user's functions or stores a gradient of its outputs."""
    return bool(node.tensor_hooks or node.retained or node.pre_hooks or node.post_hooks)
