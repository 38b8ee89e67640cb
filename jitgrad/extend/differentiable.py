"""differentiable: a function with loops, as Numba compiles it, whose gradient is derived from its text."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.core.layout import cache
from jitgrad.core.tensor import Tensor
from jitgrad.extend.derived_op import DerivedOp, array_or_number, call_key, kind_of
from jitgrad.extend.pair_names import PairNames
from jitgrad.extend.pair_outputs import PairOutputs
from jitgrad.kernels.adjoint.checked_calls import CheckedCalls
from jitgrad.kernels.adjoint.entries import ARRAY, NUMBER, Derivation
from jitgrad.kernels.adjoint.functions import gradient_function
from jitgrad.kernels.adjoint.notes import Notes
from jitgrad.kernels.adjoint.program import Kind, Program
from jitgrad.ops.creation.from_data import from_numpy

__all__ = ["Differentiable", "differentiable"]


def differentiable(
    function: Callable[..., Any] | None = None, *, shape: Any = None, dtype: Any = None, name: str = "",
    nondifferentiable: Sequence[str] = (), check: bool | None = None, checkpoint: bool | int = False,
) -> Any:  # fmt: skip
    """Make a function with loops differentiable: an op whose gradient is derived from the function's text.

    The function is one that ``numba.njit`` compiles, or already has: it reads numbers and arrays, element by element,
    by rows and slices or whole, allocates arrays, branches, loops and calls other such functions, and returns numbers
    and arrays (or a tuple of them). It may not write into what it is given, but for parameters whose names start with
    ``out``, which are results: callers leave them out, and they start with zeros.

    Called with tensors it returns tensors, and records: backward runs an adjoint of the loops, in reverse order,
    compiled like the function itself. Tensors without dims are numbers to the function. Called with NumPy's arrays and
    numbers it returns those. Second derivatives, forward mode, vmap and compiled functions work as for any op.

    A loop over ``numba.prange`` that is the last statement is shared among threads where its rows are independent: each
    writes into its own row of arrays, and adds to numbers that begin with constants. Otherwise ``prange`` is ``range``.

    shape, dtype: what ``out`` parameters are like; see ``kernel_pair``. nondifferentiable: parameters that count as
    constants even if they require grad. check: whether indices are compared with the sizes of arrays; by default in the
    first call with each combination of shapes, whole numbers and truths, and in others where data decide on indices.
    A float that picks a branch is none of these: check=True where only some branches keep within the arrays.

    checkpoint: for long loops over time, whose iterations would keep more than memory holds. True: the loops of the
    function itself (for loops that are left at their end) keep the state at sqrt(n) of their n iterations, and backward
    runs the iterations between two of these again: memory for some 2 sqrt(n) iterations, time for one more forward. A
    number: memory for so many states, and as few iterations run again as that allows (binomial checkpointing): with k
    states none of (k + r)! / (k! r!) iterations more than r times, and once more for its own reverse.

    ``f.adjoint_source(x, ...)`` is the text of both sweeps for such arguments; it is compiled under NUMBA_DISABLE_JIT,
    too. ``numba_grad`` is for gradients without tensors. SourceError at the declaration for a construct that cannot be
    differentiated: it names the file, the line, and what to write instead.

    Where ``max``, ``min`` or ``abs`` has a kink the derivative is that of the side which Python takes; that of a norm
    of zeros, or of a standard deviation of equal values, is 0. A number written over an element hides the one before;
    each operand's derivative is that of the branch that ran.
    """
    if function is None:
        return lambda given: differentiable(
            given, shape=shape, dtype=dtype, name=name, nondifferentiable=nondifferentiable, check=check,
            checkpoint=checkpoint,
        )  # fmt: skip
    return Differentiable(function, shape, dtype, name, nondifferentiable, check, checkpoint)


class Differentiable:
    """A function made by ``differentiable``."""

    def __init__(
        self, function: Callable[..., Any], shape: Any, dtype: Any, name: str, nondifferentiable: Sequence[str],
        check: bool | None, checkpoint: bool | int,
    ):  # fmt: skip
        self.states = _states(name or function.__name__, checkpoint)
        self.py_func: Callable[..., Any] = getattr(function, "py_func", function)
        Notes(self.py_func, "accepted").read("accepted", lambda: _refuse_constructs(self.py_func))
        self.name = self.__name__ = name or self.py_func.__name__
        self.__doc__, self.__wrapped__ = self.py_func.__doc__, self.py_func
        self.__module__, self.__qualname__ = self.py_func.__module__, self.py_func.__qualname__
        self.signature = inspect.signature(self.py_func)
        self.parameters = list(self.signature.parameters)
        self.outputs = [p for p in self.parameters if p.startswith("out")]
        self.inputs = [p for p in self.parameters if not p.startswith("out")]
        known = self.signature.parameters
        inputs = [known[n] for n in self.inputs]
        self.free = inspect.Signature([*inputs, *(known[n].replace(default=None) for n in self.outputs)])
        self.derivations: dict[tuple[Kind, ...], Derivation] = {}  # their programs have the outputs last
        self.in_order: dict[tuple[Kind, ...], Derivation] = {}  # of functions with outputs among the parameters
        self.checked: dict[Any, CheckedCalls] = cache()
        layouts = None
        if self.outputs:
            rule = PairOutputs(PairNames(self.name, self.parameters, nondifferentiable), shape, dtype)
            layouts = self._layouts(rule)
        self._order = [[*self.inputs, *self.outputs].index(p) for p in self.parameters]
        self.op = DerivedOp(self.name, self.inputs, self._derivation, layouts, check, nondifferentiable)

    def __repr__(self) -> str:
        return f"<differentiable {self.name}>"

    def __reduce__(self) -> str:
        """As a function: copies are itself, and a pickle holds its name."""
        return self.__qualname__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the function."""
        values = args if len(args) == len(self.inputs) and not kwargs else self._bound(args, kwargs)
        if not any(isinstance(v, Tensor) for v in values):
            return self._of_arrays(values)
        if len(values) > len(self.inputs):
            given = self.outputs[0]
            raise TypeError(f"{self.name}(): called with tensors it makes {given!r} itself; leave it out")
        found = self.op(values)
        return found[0] if self.op.program(values).single else found

    def adjoint_source(self, *args: Any, **kwargs: Any) -> str:
        """The text of the forward and the reverse sweep for arguments like these.

        All floats are differentiated, but for the parameters declared as constants.
        """
        values = self._bound(args, kwargs)
        derivation = self.op.plan(values[: len(self.inputs)]).derivation
        program = derivation.program
        constants = {*self.outputs, *self.op.constants}
        wanted = tuple([n for n in program.parameters if program.kinds[n].floating and n not in constants])
        return gradient_function(derivation.adjoint(wanted)).text(f"{self.name}_gradient")

    @functools.cached_property
    def adjoint(self) -> Any:
        """``(arguments, seeds) -> gradients``, for compiled callers too: see ``numba_grad``.

        A seed for each result of floats, of its shape; a tuple with a gradient for each float among the arguments.
        """
        from jitgrad.extend.numba_functions import adjoint_function  # few programs need what it imports

        return adjoint_function(self)

    @functools.cached_property
    def tangent(self) -> Any:
        """``(arguments, directions) -> (results..., tangents...)``, for compiled callers too.

        A direction for each float among the arguments; a tangent for each result of floats.
        """
        from jitgrad.extend.numba_functions import tangent_function

        return tangent_function(self)

    def derivation_of(self, kinds: tuple[Kind, ...]) -> Derivation:
        """What is derived for parameters of these kinds, which it has in the function's own order."""
        if not self.outputs:
            return self._derivation(kinds)
        if kinds not in self.in_order:
            self.in_order[kinds] = self._derived(kinds)
        return self.in_order[kinds]

    def _layouts(self, rule: PairOutputs) -> Callable[..., Any]:
        return lambda values, tensors: rule.layouts(values, tensors)[0]

    def _bound(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments of the inputs, then of the outputs that were given; TypeError as Python's."""
        all_given = len(args) == len(self.parameters)  # in the function's own order
        try:
            bound = (self.signature if all_given else self.free).bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.name}(): {error}") from None
        bound.apply_defaults()
        given = [bound.arguments[n] for n in self.outputs]
        return [*(bound.arguments[n] for n in self.inputs), *(v for v in given if v is not None)]

    def _derivation(self, kinds: tuple[Kind, ...]) -> Derivation:
        """For kinds of the inputs, then of the outputs among the parameters."""
        found = self.derivations.get(kinds)
        if found is None:
            found = self.derivations[kinds] = self._derived([kinds[k] for k in self._order])
            found.program.parameters = [*self.inputs, *self.outputs]
        return found

    def _derived(self, kinds: Sequence[Kind]) -> Derivation:
        notes = Notes(self.py_func, str(list(kinds)))
        return Derivation(notes.program(lambda: _program_of(self.py_func, kinds)), self.states, notes)

    def _of_arrays(self, values: Sequence[Any]) -> Any:
        """The function of NumPy's arrays and numbers."""
        inputs, outs = values[: len(self.inputs)], list(values[len(self.inputs):])
        if self.outputs and not outs:
            found = self(*[_as_tensor(v) for v in inputs])
            return tuple([t.numpy() for t in found]) if isinstance(found, tuple) else found.numpy()
        kinds = [kind_of(self.name, n, v) for n, v in zip([*self.inputs, *self.outputs], values, strict=True)]
        derivation = self._derivation(tuple(kinds))
        given = [array_or_number(v) for v in inputs]
        self._refuse_shared(given, outs)
        results = self.checked_results(derivation, [*given, *outs])
        if results is None:
            results = derivation.plain(_forms(derivation))(*given, *outs)
        return results[0] if derivation.program.single else results

    def checked_results(self, derivation: Derivation, arguments: Sequence[Any]) -> Any:
        """The results of a call with checks of indices, if one with such arguments is to have them; else None."""
        key = derivation, *call_key(arguments)
        checks = self.checked.get(key)
        if checks is None:
            checks = self.checked[key] = derivation.checks(self.op.check, _forms(derivation))
        if not checks.due(arguments):
            return None
        results = derivation.checked(_forms(derivation))(*arguments)
        checks.passed(arguments)
        return results

    def _refuse_shared(self, inputs: Sequence[Any], outs: Sequence[Any]) -> None:
        """An output in the memory of an input, or of another output, would be read as one while it is written."""
        arrays = [(n, v) for n, v in zip(self.inputs, inputs, strict=True) if isinstance(v, np.ndarray)]
        for name, out in zip(self.outputs, outs, strict=False):
            for other, array in arrays:
                if np.may_share_memory(out, array):
                    raise ValueError(f"{self.name}(): {name} shares memory with {other}; pass an array of its own")
            arrays.append((name, out))


# Processes that find all of this in notes don't import what reads functions.
def _refuse_constructs(function: Callable[..., Any]) -> None:
    from jitgrad.kernels.adjoint.parse import refuse_constructs

    refuse_constructs(function)


def _program_of(function: Callable[..., Any], kinds: Sequence[Kind]) -> Program:
    from jitgrad.kernels.adjoint.parse import program_of

    return program_of(function, kinds)


def _states(function: str, checkpoint: bool | int) -> int | None:
    """How many states a long loop keeps, 0 for the root of its length; None for all."""
    if isinstance(checkpoint, bool):
        return 0 if checkpoint else None
    if not isinstance(checkpoint, int) or checkpoint < 1:
        what = "checkpoint must be True, False or a number of states from 1"
        raise ValueError(f"{function}: {what}, but got {checkpoint}")
    return checkpoint


def _forms(derivation: Derivation) -> tuple[str, ...]:
    """How arrays and plain numbers come."""
    program = derivation.program
    return tuple([NUMBER if program.kinds[n].ndim is None else ARRAY for n in program.parameters])


def _as_tensor(value: Any) -> Any:
    return from_numpy(value) if isinstance(value, np.ndarray) else value
