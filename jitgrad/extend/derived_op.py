"""Ops whose gradients are derived from a program: the function itself, its tangents, and its gradients.

Gradients of gradients need no other derivation than these two, whatever the order. With the function's Jacobian J, the
gradient that a seed s gives is J^T s. Weighted by w it is s . (J w), and J w is what the tangent program computes. So
the gradient of J^T s in the direction w is, with respect to s, the tangent, and with respect to the inputs the gradient
of the tangent with seed s.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count as count_up
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.host_reads import announce_read, read_observers
from jitgrad.core.layout import Layout, cache, intern
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.batch_rules import BatchedCall
from jitgrad.extend.derived_node import GradientNode, ValueNode, structured
from jitgrad.extend.derived_shares import InShares, in_shares
from jitgrad.extend.pair_backward import zeros_of
from jitgrad.kernels import threads
from jitgrad.kernels.adjoint.entries import ARRAY, HOLDER, NUMBER, Derivation
from jitgrad.kernels.adjoint.program import Kind, Program
from jitgrad.kernels.launch import Kernel, launch, observers
from jitgrad.ops.shape.copy import cast_gradient, contiguous

__all__ = ["AdjointOp", "DerivedOp", "Kept", "Plan", "array_or_number", "call_key", "kind_of", "result_array"]

Names = tuple[str, ...]


class DerivedOp:
    """The function of a program as an op of tensors and numbers.

    inputs: its parameters but for the outputs that it writes into. derivation: what is derived for parameters of given
    kinds. layouts: of arrays among the parameters that are outputs, for a call's arguments.
    """

    def __init__(
        self, name: str, inputs: Sequence[str], derivation: Callable[[tuple[Kind, ...]], Derivation],
        layouts: Callable[[Sequence[Any], Sequence[Tensor]], Sequence[Layout]] | None = None,
        check: bool | None = False, constants: Sequence[str] = (),
    ):  # fmt: skip
        self.name, self.inputs, self.derivation, self.layouts = name, list(inputs), derivation, layouts
        self.check, self.constants = check, set(constants)
        self.tangents: dict[Names, DerivedOp] = {}
        self.adjoints: dict[Names, AdjointOp] = {}
        self.over_samples: dict[frozenset[str], Any] = {}  # the ops of batches, by the inputs that have one
        self.plans: dict[Any, Any] = cache()
        self.latest = threading.local()
        self.made: dict[bool, Any] = {}  # structured ops, for one result and for several

    def __call__(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The results for inputs in the order of ``inputs``."""
        if any(isinstance(v, np.ndarray) for v in values) and (grad_state.levels or self.wanted(values)):
            # Backward reads them as they are now: unlike tensors they don't tell whether they were written to since.
            values = [v.copy() if isinstance(v, np.ndarray) else v for v in values]
        several = len(self.program(values).outputs) > 1
        if several not in self.made:
            self.made[several] = structured(
                self.name, self.inputs, self._forward, ValueNode, self, several, self.batch, self.constants
            )  # fmt: skip
            self.made[several].tangents = staticmethod(self._tangents)
        self.latest.kept = None
        out = self.made[several].apply(*values)
        outs = out if several else (out,)
        kept, self.latest.kept = self.latest.kept, None
        if kept is not None and outs[0] is kept.result:
            node: Any = next(o for o in outs if o._requires_grad).grad_fn
            node.kept = kept
        return outs

    def batch(self, call: BatchedCall) -> Any:
        """What vmap does."""
        return importlib.import_module("jitgrad.extend.derived_samples").of_values(self, call)

    def program(self, values: Sequence[Any]) -> Program:
        """The program for arguments, which may be wrapped tensors."""
        if not grad_state.levels:
            return self.plan(values).derivation.program
        kinds = [_kind_and_form(self.name, n, v)[0] for n, v in zip(self.inputs, values, strict=True)]
        return self.derivation((*kinds, *self.kinds_written(values))).program

    def in_program(self, program: Program, wanted: Names) -> Names:
        """The program's names for inputs; they may differ from the op's."""
        own = dict(zip(self.inputs, program.parameters, strict=False))
        return tuple([own[n] for n in wanted])

    def kinds_written(self, values: Sequence[Any]) -> list[Kind]:
        """The kinds of the parameters that are outputs."""
        return [Kind(x.numpy_dtype.name, len(x.shape)) for x in self.written(values)]

    def written(self, values: Sequence[Any]) -> Sequence[Layout]:
        """The layouts of the parameters that are outputs."""
        return self.layouts(values, [v for v in values if isinstance(v, Tensor)]) if self.layouts is not None else ()

    def tangent(self, wanted: Names) -> DerivedOp:
        """The op of the tangents along directions in ``wanted``, which are inputs behind the others."""
        if wanted not in self.tangents:
            count = len(self.inputs)

            def derivation(kinds: tuple[Kind, ...]) -> Derivation:
                base = self.derivation((*kinds[:count], *kinds[count + len(wanted) :]))
                return base.tangent(self.in_program(base.program, wanted))

            def layouts(values: Sequence[Any], tensors: Sequence[Tensor]) -> Sequence[Layout]:
                return self.written(values[:count])

            inputs = list(self.inputs)
            for n in wanted:
                inputs.append(next(name for k in count_up() if (name := f"{n}_t{k or ''}") not in inputs))
            given = layouts if self.layouts is not None else None
            self.tangents[wanted] = DerivedOp(f"{self.name}_tangent", inputs, derivation, given)
        return self.tangents[wanted]

    def adjoint(self, wanted: Names) -> AdjointOp:
        """The op of the gradients of ``wanted``; its inputs are the function's and a seed for each output of floats."""
        if wanted not in self.adjoints:
            self.adjoints[wanted] = AdjointOp(self, wanted)
        return self.adjoints[wanted]

    def plan(self, values: Sequence[Any]) -> Any:
        """How arguments are handed to compiled functions, worked out once for such layouts and whole numbers."""
        key = call_key(values)
        plan = self.plans.get(key)
        if plan is None:
            plan = self.plans[key] = self.new_plan(values)
        return plan

    def new_plan(self, values: Sequence[Any]) -> Any:
        """See ``plan``."""
        return Plan(self, values)

    def _tangents(self, values: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The tangents of the results, for forward mode; None for a result that has none."""
        known = zip(self.inputs, values, tangents, strict=True)
        pairs = [(n, t) for n, v, t in known if t is not None and n not in self.constants]
        along = tuple([n for n, _ in pairs])
        program = self.program(values)
        if not along or not any(program.kinds[n].floating for n in program.outputs):
            return None
        found = iter(self.tangent(along)([*values, *(t for _, t in pairs)]))
        outs = [next(found) if program.kinds[n].floating else None for n in program.outputs]
        return tuple(outs) if len(outs) > 1 else outs[0]

    # -- values -------------------------------------------------------------------------------------

    def _forward(self, *values: Any) -> Any:
        plan = self.plan(values)
        arguments = plan.arguments(values)
        plan.check(arguments)
        wanted = self.wanted(values) if plan.has_gradient else ()
        if observers:
            outs = self._recorded(plan, arguments)
        elif wanted:
            return self._kept(plan, wanted, arguments)
        else:
            found: list[Any] = []
            rows = plan.rows
            run = plan.derivation.plain(plan.forms) if rows is None else lambda *a: rows.plain(plan.forms, a)
            launch(Kernel(self.name, lambda *a: found.extend(run(*a)), ()), *arguments)
            outs = [_tensor(v, plan.dtype) for v in found]
        return tuple(outs) if len(outs) > 1 else outs[0]

    def wanted(self, values: Sequence[Any]) -> Names:
        """The inputs that require grad."""
        if not grad_state.enabled:
            return ()
        pairs = zip(self.inputs, values, strict=True)
        return tuple([n for n, v in pairs if isinstance(v, Tensor) and v._requires_grad and n not in self.constants])

    def _kept(self, plan: Plan, wanted: Names, arguments: list[Any]) -> Any:
        found: list[Any] = []
        names, rows = self.in_program(plan.derivation.program, wanted), plan.rows
        run = (plan.derivation.saving(names, plan.forms) if rows is None
               else lambda *a: rows.saving(names, plan.forms, a))  # fmt: skip
        launch(Kernel(self.name, lambda *a: found.extend(run(*a)), ()), *arguments)
        count = len(plan.outputs)
        outs = [_tensor(v, plan.dtype) for v in found[:count]]
        # What the user may write into is none of what backward reads.
        given = {v.ctypes.data for v in found[:count] if isinstance(v, np.ndarray)}
        kept = [v.copy() if isinstance(v, np.ndarray) and v.ctypes.data in given else v for v in found[count:]]
        written = [a.copy() for a in arguments[len(self.inputs):]]
        self.latest.kept = Kept(wanted, kept, written, outs[0], rows)
        return tuple(outs) if len(outs) > 1 else outs[0]

    def _recorded(self, plan: Plan, arguments: list[Any]) -> list[Tensor]:
        """By a launch that a recorded program can repeat: results are written into arrays that are given."""
        program, count = plan.derivation.program, len(self.inputs)
        if read_observers and (names := plan.derivation.deciding_on_shapes(plan.forms)):
            announce_read(f"{self.name}(), of which {names[0]!r} decides on the shape of the result,")
        # This run shows the shapes of results. What it writes into would not be zeros for the launch.
        results = plan.derivation.plain(plan.forms)(*arguments[:count], *[a.copy() for a in arguments[count:]])
        given = dict(zip(program.parameters[count:], arguments[count:], strict=True))
        outs = [_tensor(given.get(n, v), plan.dtype) for n, v in zip(program.outputs, results, strict=True)]
        fresh = [o for n, o in zip(program.outputs, outs, strict=True) if n not in given]
        store = plan.derivation.value_into(plan.forms)

        def checked(*args: Any) -> None:
            plan.check(args[: len(arguments)])
            store(*args)

        run = store if plan.checks.settled() else checked
        writes = range(len(self.inputs), len(arguments) + len(fresh))
        launch(Kernel(self.name, run, tuple(writes)), *arguments, *[o._data for o in fresh])
        return outs


class AdjointOp:
    """The gradients of a DerivedOp's inputs ``wanted``: an op of its inputs and of a seed for each output of floats."""

    def __init__(self, of: DerivedOp, wanted: Names):
        self.of, self.wanted = of, wanted
        self.name = f"{of.name}_gradient"
        self.made: dict[int, Any] = {}

    def __call__(self, values: Sequence[Any], seeds: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The gradients, recorded if inputs or seeds require grad."""
        if len(seeds) not in self.made:
            names = [*self.of.inputs, *(f"seed_{k}" for k in range(len(seeds)))]
            self.made[len(seeds)] = structured(
                self.name, names, self._forward, GradientNode, self, True, self.batch
            )  # fmt: skip
        return self.made[len(seeds)].apply(*values, *seeds)

    def _forward(self, *values: Any) -> tuple[Tensor, ...]:
        count = len(self.of.inputs)
        return self.run(values[:count], values[count:])

    def batch(self, call: BatchedCall) -> Any:
        """What vmap does."""
        return importlib.import_module("jitgrad.extend.derived_samples").of_gradients(self, call)

    def run(self, values: Sequence[Any], seeds: Sequence[Tensor], kept: Kept | None = None) -> tuple[Tensor, ...]:
        """The gradients, by the reverse sweep alone where forward has kept what it needs."""
        of = self.of
        plan = of.plan(values)
        derivation, arguments = plan.derivation, plan.arguments(values)
        floats = [n for n in plan.outputs if derivation.program.kinds[n].floating]
        by_name = dict(zip(floats, seeds, strict=True))
        wanted = of.in_program(derivation.program, self.wanted)
        adjoint = derivation.adjoint(wanted)
        weights = [contiguous(by_name[n].detach())._data for n in adjoint.seeds]
        inputs = dict(zip(of.inputs, values, strict=True))
        if kept is not None and not observers:
            arguments = [*arguments[: len(of.inputs)], *kept.written]
            found: list[Any] = []
            run: Callable[..., Any]
            if kept.rows is None:
                run = derivation.reversing(wanted, plan.forms)
                given = [*arguments, *kept.values, *weights]
            else:
                by_output = dict(zip(adjoint.seeds, weights, strict=True))
                run = partial(kept.rows.reversing, wanted, plan.forms, parts=kept.values[0], seeds=by_output)
                given = arguments
            launch(Kernel(self.name, lambda *a: found.extend(run(*a)), ()), *given)
            results = [_tensor(v, inputs[n].dtype) for n, v in zip(self.wanted, found, strict=True)]
        else:
            layouts = [inputs[n]._layout for n in self.wanted]
            results = [zeros_of(intern(x.numpy_dtype, x.shape, None, x.device)) for x in layouts]
            into = derivation.gradient_into(wanted, plan.forms)
            given = [*arguments, *weights]
            writes = range(len(given), len(given) + len(results))
            launch(Kernel(self.name, into, (*range(len(of.inputs), len(arguments)), *writes)), *given,
                   *[r._data for r in results])  # fmt: skip
        return tuple([cast_gradient(r, inputs[n].dtype) for n, r in zip(self.wanted, results, strict=True)])


class Kept:
    """What a forward sweep kept for gradients of ``wanted``.

    result: the first tensor that it returned. rows: where it ran in shares, whose values ``values`` holds as one.
    """

    __slots__ = ("result", "rows", "values", "wanted", "written")

    def __init__(self, wanted: Names, values: list[Any], written: list[Any], result: Tensor, rows: InShares | None):
        self.wanted, self.values, self.written, self.result, self.rows = wanted, values, written, result, rows


class Plan:
    """For arguments of certain layouts: the derivation, and the form in which compiled functions take each."""

    def __init__(self, op: DerivedOp, values: Sequence[Any]):
        self.op = op
        self.dtype = _float_dtype([v for v in values if isinstance(v, Tensor)])
        kinds = [_kind_and_form(op.name, n, v) for n, v in zip(op.inputs, values, strict=True)]
        kinds += [(kind, ARRAY) for kind in op.kinds_written(values)]
        self.forms = tuple([form for _, form in kinds])
        self.derivation = op.derivation(tuple([kind for kind, _ in kinds]))
        self.outputs = self.derivation.program.outputs
        self.has_gradient = any(self.derivation.program.kinds[n].floating for n in self.outputs)
        self.checks = self.derivation.checks(op.check, self.forms)
        self.in_shares: tuple[InShares | None] | None = None

    @property
    def rows(self) -> InShares | None:
        """The derivation in shares, for as many threads as there are now."""
        many = threads.get_num_threads() > 1
        if many and self.in_shares is None:
            self.in_shares = (in_shares(self.derivation),)
        return self.in_shares[0] if many and self.in_shares is not None else None

    def check(self, arguments: Sequence[Any]) -> None:
        """IndexError for an index beyond its array, where calls with such arguments are to be checked."""
        if self.checks.due(arguments):
            count = len(self.op.inputs)
            self.derivation.checked(self.forms)(*arguments[:count], *[a.copy() for a in arguments[count:]])
            self.checks.passed(arguments)

    def arguments(self, values: Sequence[Any]) -> list[Any]:
        """What a compiled function takes: arrays and numbers, and new arrays for outputs among the parameters."""
        given = [loop_value(v) for v in values]
        return [*given, *(zeros_of(x)._data for x in self.op.written(values))]


def loop_value(value: Any) -> Any:
    """An argument for compiled code: a contiguous array, or a number."""
    if isinstance(value, Tensor):
        return contiguous(value.detach())._data
    if isinstance(value, np.ndarray):
        return np.ascontiguousarray(value) if value.ndim else value
    return value.item() if isinstance(value, np.generic) else value


def array_or_number(value: Any) -> Any:
    """An argument for compiled code of which an array without dims is the number that it holds."""
    found = loop_value(value)
    return found.item() if isinstance(found, np.ndarray) and not found.ndim else found


def _kind_and_form(op: str, name: str, value: Any) -> tuple[Kind, str]:
    """The kind of an argument as the function sees it, and the form in which compiled code takes it."""
    if isinstance(value, (bool, int, float)) and not isinstance(value, np.generic):
        return Kind({bool: "bool", int: "int64"}.get(type(value), "float64")), NUMBER
    dtype, device = _numpy_dtype(value), getattr(getattr(value, "_layout", None), "device", "cpu")
    if dtype is None or device != "cpu":
        what = f"a tensor on {device}" if device != "cpu" else f"a {type(value).__name__}"
        raise TypeError(f"{op}(): argument '{name}' must be a tensor, an array or a number on the CPU, but got {what}")
    if dtype.kind not in "biuf":
        raise TypeError(f"{op}(): argument '{name}' is of {dtype}; loops of real numbers are differentiated")
    if not dtype.isnative:
        what = f"of {dtype.str}, whose bytes are in the order of other machines"
        raise TypeError(f"{op}(): argument '{name}' is {what}; convert it by .astype({dtype.name!r})")
    if value.ndim:
        return Kind(dtype.name, value.ndim), ARRAY
    kind = Kind({"b": "bool", "f": "float64"}.get(dtype.kind, "int64"))
    return kind, HOLDER if isinstance(value, (Tensor, np.ndarray)) else NUMBER


def kind_of(op: str, name: str, value: Any) -> Kind:
    """The kind of a function's argument; TypeError for one that is neither a tensor, nor an array, nor a number."""
    return _kind_and_form(op, name, value)[0]


def _numpy_dtype(value: Any) -> np.dtype[Any] | None:
    """The dtype of the numbers that compiled code gets for a tensor or array; None for anything else."""
    if isinstance(value, Tensor):
        return np.dtype("float32") if value.dtype.is_half else value.dtype.numpy  # an op widens 16-bit floats
    return value.dtype if isinstance(value, (np.ndarray, np.generic)) else None


def call_key(values: Sequence[Any]) -> tuple[Any, ...]:
    """What decides on a call but for floats' values: layouts, shapes with dtypes, whole numbers, truths, types."""
    return tuple([v._layout if isinstance(v, Tensor) else v if type(v) is int
                  else int(v) if isinstance(v, np.integer)
                  else (bool, bool(v)) if isinstance(v, (bool, np.bool_))  # True is equal to 1
                  else (v.shape, v.dtype) if isinstance(v, np.ndarray) else type(v) for v in values])  # fmt: skip


def _float_dtype(tensors: Sequence[Tensor]) -> dtypes.dtype:
    """The dtype of a result that is a number: that of the floats among the inputs."""
    floats = [t for t in tensors if t.dtype.category == 2]
    if not floats:
        return dtypes.get_default_dtype()
    return dtypes.promote([t.dtype for t in floats if t.ndim], [t.dtype for t in floats if not t.ndim], [])


def result_array(value: Any, dtype: dtypes.dtype) -> np.ndarray:
    """A compiled function's result as an array; a float has ``dtype``."""
    if isinstance(value, np.ndarray):
        return value
    kind = dtype.numpy if isinstance(value, float) else np.bool_ if isinstance(value, bool) else np.int64
    return np.array(value, kind)


def _tensor(value: Any, dtype: dtypes.dtype) -> Tensor:
    array = result_array(value, dtype)
    return wrap(array, intern(array.dtype, array.shape, None, "cpu"))
