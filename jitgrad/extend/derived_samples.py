"""Derived ops under vmap: a batch is one launch, in which compiled functions run sample by sample, cut over threads.

The functions are those that single samples go through, so values, dtypes and errors are theirs. A sample is a row of
the arrays that have a batch, and nothing is copied for it; arrays without a batch go to every sample as they are.

Gradients need no rules of their own: the op of a batch is differentiated like that of a sample. Its seeds have the
batch, gradients of inputs with a batch have it too, and those of other inputs are summed over the samples.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.core.layout import intern
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.batch_rules import BatchedCall, one_by_one
from jitgrad.extend.derived_op import AdjointOp, DerivedOp, Kept, Plan, result_array
from jitgrad.extend.pair_backward import zeros_of
from jitgrad.kernels import threads
from jitgrad.kernels.adjoint.program import Program
from jitgrad.kernels.launch import Kernel, launch, observers
from jitgrad.ops.shape.copy import cast_gradient

__all__ = ["of_gradients", "of_values", "over_threads"]

Names = tuple[str, ...]
Samples = Callable[[int], list[Any]]  # from a sample's number to its arguments

# Samples that take less are run by one thread: between two of them it needs Python's lock.
_WORTH_A_THREAD = 30e-6
_PARTS_PER_THREAD = 4  # a thread that comes late, or loses its core for a while, does fewer of them


class UnevenError(RuntimeError):
    """Results of two samples have different shapes."""


def of_values(op: DerivedOp, call: BatchedCall) -> Any:
    """The batch rule of a DerivedOp."""
    batched = _batched(op, call)
    if _by_samples(op, call, batched):
        return one_by_one(call)
    try:
        found = over_samples(op, batched)(list(call.args.values()))
    except UnevenError:  # stacking them says so in its words
        return one_by_one(call)
    return found if len(found) > 1 else found[0]


def of_gradients(op: AdjointOp, call: BatchedCall) -> Any:
    """The batch rule of the gradients of a DerivedOp: every sample has its own, of inputs without a batch, too."""
    of, count = op.of, len(op.of.inputs)
    batched = _batched(of, call) | {*op.wanted}
    if _by_samples(of, call, batched):
        return one_by_one(call)
    whole = [*(f"in_{n}" for n in op.wanted), *list(call.args)[count:]]
    values = list((call.args | {n: call.whole(n) for n in whole}).values())
    return over_samples(of, batched).adjoint(op.wanted)(values[:count], values[count:])


def over_samples(op: DerivedOp, batched: frozenset[str]) -> OverSamples:
    """The op for batches of these inputs."""
    if batched not in op.over_samples:
        op.over_samples[batched] = OverSamples(op, batched)
    return op.over_samples[batched]


def _batched(op: DerivedOp, call: BatchedCall) -> frozenset[str]:
    return frozenset([n for n in op.inputs if f"in_{n}" in call.batched])


def _by_samples(op: DerivedOp, call: BatchedCall, batched: frozenset[str]) -> bool:
    """Whether there are no samples, or fewer than threads, which can share the rows of each."""
    if not call.size or not batched:
        return True
    if call.size >= threads.get_num_threads():
        return False
    whole = {f"in_{n}": call.whole(f"in_{n}") for n in batched}
    values = list((call.args | whole).values())[: len(op.inputs)]
    return over_samples(op, batched).plan(values).one.rows is not None


def over_threads(size: int, rows: Callable[[int, int], Any]) -> list[Any]:
    """``rows(first, last)`` for parts of ``size`` samples, in their order: the first sample alone, by this thread."""
    start = time.perf_counter()
    found = [rows(0, 1)]
    seconds = time.perf_counter() - start
    count = threads.get_num_threads()
    parts = min(size - 1, count * _PARTS_PER_THREAD if count > 1 and seconds > _WORTH_A_THREAD else 1)
    edges = [1 + (size - 1) * k // parts for k in range(parts + 1)] if parts else [1]
    found += [None] * parts

    def run(k: int) -> None:
        found[k + 1] = rows(edges[k], edges[k + 1])

    if parts == 1:
        run(0)
    else:
        threads.run_together([(run, (k,)) for k in range(parts)])
    return found


class _BatchPlan:
    """one: the plan of a sample. written: the layouts of a sample's outputs among the parameters."""

    def __init__(self, op: OverSamples, values: Sequence[Any]):
        sample, places = list(values), op.places
        for k in places:
            x = values[k]._layout
            shape = tuple(x.shape[1:])
            sample[k] = wrap(np.empty(shape, x.numpy_dtype), intern(x.numpy_dtype, shape, None, x.device))
        self.one: Plan = op.of.plan(sample)
        self.size = int(values[places[0]]._layout.shape[0])
        self.written = op.of.written(sample)
        outputs = self.one.derivation.program.parameters[len(op.inputs):]
        # For each output the place of the parameter that it is, if it is one.
        self.places = [outputs.index(n) if n in outputs else None for n in self.one.outputs]

    def new_written(self) -> list[np.ndarray]:
        """Zeros for the outputs among the parameters, of all samples."""
        layouts = [intern(x.numpy_dtype, (self.size, *x.shape), None, "cpu") for x in self.written]
        return [zeros_of(x)._data for x in layouts]


class _Results:
    """The results of all samples: of outputs among the parameters these, of others arrays like the first sample's."""

    def __init__(self, plan: _BatchPlan, written: Sequence[np.ndarray]):
        self.plan = plan
        self.arrays: list[Any] = [None if k is None else written[k] for k in plan.places]
        self.own = [i for i, k in enumerate(plan.places) if k is None]

    def put(self, k: int, found: Sequence[Any]) -> None:
        """Store what a sample's function returned, that of sample 0 first."""
        for i in self.own:
            if k == 0:
                first = result_array(found[i], self.plan.one.dtype)
                self.arrays[i] = np.empty((self.plan.size, *first.shape), first.dtype)
            elif self.arrays[i].shape[1:] != np.shape(found[i]):
                raise UnevenError
            self.arrays[i][k] = found[i]

    def tensors(self) -> list[Tensor]:
        return [wrap(a, intern(a.dtype, a.shape, None, "cpu")) for a in self.arrays]


class OverSamples(DerivedOp):
    """The op ``of`` for samples that lie along dim 0 of the inputs ``batched``, and of all results."""

    def __init__(self, of: DerivedOp, batched: frozenset[str]):
        super().__init__(of.name, of.inputs, of.derivation, of.layouts, of.check, sorted(of.constants))
        self.of, self.batched = of, batched
        self.places = [k for k, n in enumerate(self.inputs) if n in batched]

    def batch(self, call: BatchedCall) -> Any:
        """Of a vmap in another the inner one is a launch."""
        return one_by_one(call)

    def program(self, values: Sequence[Any]) -> Program:
        """A sample's."""
        return self.plan(values).one.derivation.program

    def new_plan(self, values: Sequence[Any]) -> Any:
        """The plan of a sample, and what is needed beside it."""
        return _BatchPlan(self, values)

    def tangent(self, wanted: Names) -> DerivedOp:
        """Directions have the batch where their inputs do."""
        of = self.of.tangent(wanted)
        directions = zip(wanted, of.inputs[len(self.inputs):], strict=True)
        return over_samples(of, self.batched | {d for n, d in directions if n in self.batched})

    def adjoint(self, wanted: Names) -> AdjointOp:
        """All seeds have the batch."""
        if wanted not in self.adjoints:
            self.adjoints[wanted] = AdjointOverSamples(self, wanted)
        return self.adjoints[wanted]

    def samples(self, arguments: Sequence[Any], further: Sequence[np.ndarray]) -> Samples:
        """The samples of arguments of the op, and of further arrays with the batch."""
        arrays = [a if not isinstance(a, np.ndarray) else _with_rows(a) if k in self.places else _row_major(a)
                  for k, a in enumerate(arguments)]  # fmt: skip
        cut = [*self.places, *range(len(arrays), len(arrays) + len(further))]
        arrays += map(_with_rows, further)

        def sample(k: int) -> list[Any]:
            found = arrays.copy()
            for place in cut:
                found[place] = arrays[place][k, ...]
            return found

        return sample

    def _forward(self, *values: Any) -> Any:
        plan, arguments, wanted = self.plan(values), _arrays(values), self.wanted(values)
        outs = self._recorded_batch(plan, arguments) if observers else self._batch(plan, arguments, wanted)
        return tuple(outs) if len(outs) > 1 else outs[0]

    def _check(self, plan: _BatchPlan, samples: Samples) -> None:
        """Compare indices with sizes in the samples for which that is due."""
        for k in range(0 if plan.one.checks.settled() else plan.size):
            plan.one.check(samples(k))

    def _batch(self, plan: _BatchPlan, arguments: list[Any], wanted: Names) -> list[Tensor]:
        """The results; what backward needs of each sample is kept where inputs require grad."""
        one, written = plan.one, plan.new_written()
        results, count, inputs = _Results(plan, written), len(one.outputs), len(self.inputs)
        kept: list[Any] = [None] * plan.size

        def call(*args: Any) -> None:
            samples = self.samples(args, written)
            self._check(plan, samples)
            names = self.in_program(one.derivation.program, wanted)
            run = one.derivation.saving(names, one.forms) if wanted else one.derivation.plain(one.forms)

            def rows(first: int, last: int) -> None:
                for k in range(first, last):
                    own = samples(k)
                    found = run(*own)
                    results.put(k, found)
                    if wanted:
                        kept[k] = _copies(own[inputs:], found[count:])

            over_threads(plan.size, rows)

        launch(Kernel(self.name, call, ()), *arguments)
        outs = results.tensors()
        if wanted:
            self.latest.kept = Kept(wanted, kept, [], outs[0], None)
        return outs

    def _recorded_batch(self, plan: _BatchPlan, arguments: list[Any]) -> list[Tensor]:
        """By a launch that a recorded program can repeat: results are written into arrays that are given."""
        one, written, count = plan.one, plan.new_written(), len(arguments)
        samples = self.samples(arguments, [a.copy() for a in written])
        self._check(plan, samples)
        results = _Results(plan, written)
        results.put(0, one.derivation.plain(one.forms)(*samples(0)))  # shows the shapes
        run = one.derivation.value_into(one.forms)

        def call(*args: Any) -> None:
            samples = self.samples(args[:count], args[count:])
            self._check(plan, samples)
            over_threads(plan.size, lambda first, last: [run(*samples(k)) for k in range(first, last)])

        given = [*arguments, *written, *(results.arrays[i] for i in results.own)]
        launch(Kernel(self.name, call, tuple(range(count, len(given)))), *given)
        return results.tensors()


class AdjointOverSamples(AdjointOp):
    """The gradients of an OverSamples."""

    def batch(self, call: BatchedCall) -> Any:
        """See ``OverSamples.batch``."""
        return one_by_one(call)

    def run(self, values: Sequence[Any], seeds: Sequence[Tensor], kept: Kept | None = None) -> tuple[Tensor, ...]:
        """The gradients, by the reverse sweep alone where forward has kept what it needs."""
        of: Any = self.of
        plan, inputs = of.plan(values), dict(zip(of.inputs, values, strict=True))
        derivation, forms, count = plan.one.derivation, plan.one.forms, len(values)
        wanted = of.in_program(derivation.program, self.wanted)
        floats = [n for n in plan.one.outputs if derivation.program.kinds[n].floating]
        by_name = dict(zip(floats, seeds, strict=True))
        weights = _arrays([by_name[n] for n in derivation.adjoint(wanted).seeds])
        layouts = [inputs[n]._layout for n in self.wanted]
        results = [zeros_of(intern(x.numpy_dtype, tuple(x.shape), None, "cpu")) for x in layouts]
        sweep = (_both_sweeps(derivation.gradient_into(wanted, forms), plan, count) if kept is None or observers
                 else _reverse_sweep(derivation.reversing(wanted, forms), kept, count))  # fmt: skip
        in_all = [n in of.batched for n in self.wanted]

        def call(*args: Any) -> None:
            end = count + len(weights)
            samples, into = of.samples(args[:count], args[count:end]), args[end:]

            def rows(first: int, last: int) -> list[Any]:
                sums = [None if each else np.zeros(a.shape, a.dtype) for a, each in zip(into, in_all, strict=True)]
                for k in range(first, last):
                    own = [a[k, ...] if total is None else np.zeros_like(a)
                           for a, total in zip(into, sums, strict=True)]  # fmt: skip
                    sweep(k, samples(k), own)
                    for total, found in zip(sums, own, strict=True):
                        if total is not None:
                            total += found
                return sums

            for part in over_threads(plan.size, rows):
                for total, found in zip(into, part, strict=True):
                    if found is not None:
                        total += found

        given = [*_arrays(values), *weights, *(r._data for r in results)]
        launch(Kernel(self.name, call, tuple(range(count + len(weights), len(given)))), *given)
        return tuple([cast_gradient(r, inputs[n].dtype) for n, r in zip(self.wanted, results, strict=True)])


def _both_sweeps(run: Callable[..., Any], plan: _BatchPlan, count: int) -> Callable[..., None]:
    """``(sample's number, its arguments and seeds, arrays for its gradients)``."""

    def sweep(k: int, own: Sequence[Any], into: Sequence[np.ndarray]) -> None:
        written = [np.zeros(x.shape, x.numpy_dtype) for x in plan.written]
        run(*own[:count], *written, *own[count:], *into)

    return sweep


def _reverse_sweep(run: Callable[..., Any], kept: Kept, count: int) -> Callable[..., None]:
    """The same, from what forward kept."""

    def sweep(k: int, own: Sequence[Any], into: Sequence[np.ndarray]) -> None:
        written, saved = kept.values[k]
        for array, found in zip(into, run(*own[:count], *written, *saved, *own[count:]), strict=True):
            array[...] = found

    return sweep


def _copies(written: Sequence[np.ndarray], saved: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Outputs among the parameters, and what was saved, in memory that a user who gets the results can't write into."""
    given = {a.ctypes.data for a in written}
    return [a.copy() for a in written], [v.copy() if isinstance(v, np.ndarray) and v.ctypes.data in given else v
                                         for v in saved]  # fmt: skip


def _arrays(values: Sequence[Any]) -> list[Any]:
    return [v.detach()._data if isinstance(v, Tensor) else v for v in values]


def _with_rows(array: np.ndarray) -> np.ndarray:
    """The array, or a copy, with row-major rows; of one that was expanded the row is copied once."""
    if array[0].flags.c_contiguous:
        return array
    if array.strides[0] == 0:
        row = _row_major(array[0])  # np.broadcast_to would make it read-only, for which Numba compiles anew
        return np.lib.stride_tricks.as_strided(row, array.shape, (0, *row.strides))
    return np.ascontiguousarray(array)


def _row_major(array: np.ndarray) -> np.ndarray:
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)
