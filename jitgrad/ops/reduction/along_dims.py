"""Bases of the ops that name dims of ``x``: reductions, what is chosen along a dim, and whatever keeps the shape.

Under vmap the batch is one more dim in front, so an op that names dims is applied to the whole batch with its dims
shifted by one. That rule and the samples of the generated tests are inherited by every op that is declared here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from jitgrad.core.layout import Layout, intern
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.batch_rules import flattened, over_dims
from jitgrad.dispatch.copying import filled
from jitgrad.dispatch.declaration_checks import Rule, refuse, rules_of
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.planned import Launches, Written, planned, row_major
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import extrema as kernels
from jitgrad.kernels.loops.elements import scatter
from jitgrad.kernels.loops.fill import fill
from jitgrad.ops.reduction.reduction_plan import ReductionPlan, plan_reduction, with_reduced_dims

__all__ = [
    "AlongDim", "ChosenAlongDim", "OneChosenAlongDim", "Reduction", "ReductionOfAll", "along_axis", "over_axes",
    "sorted_along",
]  # fmt: skip


class AlongDim(Structured, abstract=True):
    """Base of ops of ``x`` that name one dim, ``dim``: running totals, softmax."""

    batch = over_dims("dim")
    samples = cases(
        lambda: (draw(3, 4), 1), lambda: (draw(2, 3, 4), 1), lambda: (draw(4, 3).t(), -2), lambda: (draw(), 0)
    )


class Reduction(AlongDim, abstract=True):
    """Base of ops that reduce ``dim``, an int, several, or None for all; ``keepdim`` keeps them, with size 1."""

    samples = cases(
        lambda: (draw(3, 4), 1),
        lambda: (draw(2, 3, 4), (0, 2), True),
        lambda: (draw(2, 3, 4).transpose(0, 2), -2),
        lambda: (draw(4, 3).t(), 0),
        lambda: (draw(), 0),
    )


# -- reductions of all elements -------------------------------------------------------------------------

_OF_ALL = {"dim": None, "keepdim": False}  # how the op along dims is asked for all elements


class ReductionOfAll(Structured, abstract=True):
    """Base of ops that reduce all elements and have a node of their own, as PyTorch's do: SumBackward0, SumBackward1.

        class Sum(ReductionOfAll, along=SumDim):
            \"""Sum of all elements.\"""

    ``along`` is the op over dims, whose forward takes (x, dim, keepdim, ...). Forward, rules, linearity and reference
    are its own with ``dim=None, keepdim=False``, but for what the class defines. Under vmap each sample becomes a row
    that ``along`` reduces; of several results the first counts.
    """

    samples = cases(lambda: (draw(3, 4),), lambda: (draw(4, 3).t(),), lambda: (draw(),))

    def __init_subclass__(cls, along: Any = None, abstract: bool = False, **kwargs: Any) -> None:
        if not abstract:
            if along is None or along.parameters[:3] != ("x", "dim", "keepdim"):
                remedy = "name it: along=SumDim, an op whose forward takes (x, dim, keepdim, ...)"
                raise refuse(cls, "a reduction of all elements needs the op over dims that it belongs to", remedy)
            _derive_of_all(cls, along)
        super().__init_subclass__(abstract=abstract, **kwargs)


def _derive_of_all(cls: Any, along: Any) -> None:
    cls.batch = flattened(lambda x, **given: along.apply(x, 1, False, **given))
    if not hasattr(cls, "forward") and cls.plan is None:
        if along.plan is None:
            cls.forward = _of_all(along.forward)
        else:
            cls.plan = _of_all(along.plan)
    # A class with rules of its own brings all of them: what is linear, and kernels, belong to the rule.
    if not rules_of(cls, "grad_"):
        cls.linear = along.linear
        for prefix in ("grad_", "kernel_"):
            for name, rule in rules_of(along, prefix).items():
                setattr(cls, prefix + name, staticmethod(_rule_of_all(rule)))
    if along.reference is not None:
        cls.reference = _reference_of_all(along.reference)


def _of_all(function: Callable[..., Any]) -> Callable[..., Any]:
    """``forward`` or ``plan`` of an op over dims, for all elements."""

    def of_all(x: Any, *rest: Any) -> Any:
        return function(x, None, False, *rest)

    # Shown by help(), and read when the op is declared, in place of ``*rest``.
    signature = inspect.signature(function)
    kept = [p for n, p in signature.parameters.items() if n not in _OF_ALL]
    vars(of_all)["__signature__"] = signature.replace(parameters=kept)
    return of_all


def _rule_of_all(rule: Rule) -> Callable[..., Any]:
    function, names = rule
    # dim and keepdim are a rule's last parameters, so that fixing them by keyword leaves the others positional.
    fixed: Any = partial(function, **{n: v for n, v in _OF_ALL.items() if n in names})
    kept = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names if n not in _OF_ALL]
    fixed.__signature__ = inspect.Signature(kept)
    return fixed


def _reference_of_all(reference: Callable[..., Any]) -> Callable[..., Any]:
    def of_all(x: Any, *rest: Any) -> Any:
        found = reference(x, None, False, *rest)
        return found[0] if isinstance(found, tuple) else found

    return of_all


# -- choices along a dim ---------------------------------------------------------------------------------


class ChosenAlongDim(AlongDim, abstract=True):
    """Base of ops whose results are (values, indices): elements of ``x`` and their places along ``dim``.

    The gradient of an element that was chosen goes back to its place; the others have none.
    """

    multiple_results, results, typed = True, ("values", "indices"), True
    samples = cases(lambda: (draw(3, 4), 1), lambda: (draw(3, 4), 0, True), lambda: (draw(4, 3).t(), 0))

    def grad_x(g, indices, x_layout, dim):
        return _put_back(g[0], indices, x_layout, dim)

    def kernel_x(g, indices, x_layout, dim):
        return _put_back_in_rows(g[0], indices, x_layout, dim)


class OneChosenAlongDim(ChosenAlongDim, abstract=True):
    """Base of choices of one element along ``dim``, a dim that ``keepdim`` keeps."""

    samples = cases(
        lambda: (draw(3, 4), 1),
        lambda: (draw(2, 3, 4), 1, True),
        lambda: (draw(4, 3).t(), 0),
        lambda: (draw(), 0),
    )

    def grad_x(g, indices, x_layout, dim, keepdim):
        gradient, places = (with_reduced_dims(t, x_layout, dim, keepdim) for t in (g[0], indices))
        return _put_back(gradient, places, x_layout, dim)

    def kernel_x(g, indices, x_layout, dim):
        return _put_back_by_kernel(g[0], indices, x_layout, dim)


@planned("g", "indices")
def _put_back_in_rows(g, indices, x_layout, dim):
    if g.device != "cpu":
        return _put_back
    out = intern(g.numpy_dtype, x_layout.shape, None, g.device)
    blocks = plan_reduction(out, dim).blocks
    rows = blocks[0], g.numel // max(blocks[0] * blocks[2], 1), blocks[2]
    arrays = row_major("g", g, rows), row_major("indices", indices, rows), Written(0, blocks)
    # Where every element was chosen, as by ``sort``, nothing is left to be zero.
    clear = [(fill, Written(0, (out.numel,)), out.numpy_dtype.type(0).item())] if rows != blocks else []
    return Launches([*clear, (scatter, *arrays)], [out])


@planned("g", "indices")
def _put_back_by_kernel(g, indices, x_layout, dim):
    plan = plan_reduction(x_layout, dim)
    if not plan.natural:
        return lambda g, indices, x_layout, dim: _placed_in_blocks(g, indices, x_layout, plan)
    shape, out = plan.blocks[::2], intern(x_layout.numpy_dtype, x_layout.shape, None, x_layout.device)
    arrays = row_major("g", g, shape), row_major("indices", indices, shape), Written(0, plan.blocks)
    return Launches([(kernels.place, *arrays)], [out])


def _placed_in_blocks(g: Tensor, indices: Tensor, layout: Layout, plan: ReductionPlan) -> Tensor:
    array, shape = np.empty(plan.blocks, layout.numpy_dtype), plan.blocks[::2]
    launch(kernels.place, plan.written(g).reshape(shape), plan.written(indices).reshape(shape), array)
    return plan.tensor(array, layout)


def _put_back(g: Tensor, indices: Tensor, layout: Layout, dim: int) -> Tensor:
    """Zeros of ``layout``'s shape with ``g`` at ``indices`` along ``dim``."""
    # A gradient may have another dtype than x, and under vmap it may have a batch that the zeros don't need.
    zeros = filled(intern(g._layout.numpy_dtype, layout.shape, None, layout.device), 0)
    return zeros.scatter(dim, indices, g)


# -- references -------------------------------------------------------------------------------------------


def over_axes(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction of NumPy's, ``function(x, axis=, keepdims=)``, with the arguments of a Reduction."""

    def reference(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
        # A tensor of no dims may be reduced over dim 0, and () is all dims; NumPy's None says both.
        axis = dim if x.ndim and dim != () else None
        x = x if dtype is None else x.astype(dtype.numpy)
        return function(x, axis=axis, keepdims=keepdim)

    return reference


def along_axis(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function(x, axis, ...)``, whose result has the shape of ``x``, for arrays of no dims too."""
    return lambda x, dim, *rest: function(np.atleast_1d(x), dim, *rest).reshape(x.shape)


def sorted_along(x: Any, dim: int | None, descending: bool = False) -> tuple[Any, Any]:
    """Sorted elements (values, indices) of an array along a dim, or of all of them in one."""
    x, dim = (x.reshape(-1), 0) if dim is None or not x.ndim else (x, dim)
    # Negated, not reversed, for descending order: equal elements then keep their order.
    order = np.argsort(-x if descending else x, axis=dim, kind="stable")
    return np.take_along_axis(x, order, dim), order
