"""Batched tensors: what vmap hands to its function. Each wraps a tensor whose dim 0 is the batch, and hides that dim.

An elementwise op on batched tensors is the op on the wrapped ones, with dims of size 1 put in so that samples
broadcast against each other. A structured op goes by the batch rule that its declaration names (see
dispatch/batch_rules.py); without one it is applied to one sample at a time.
"""

from __future__ import annotations

import functools
from typing import Any

from jitgrad.core.grad_mode import state
from jitgrad.core.layout import Layout
from jitgrad.core.tensor import Tensor
from jitgrad.core.wrapped import Level, Wrapped, link_views, outermost_wrapped
from jitgrad.dispatch.batch_randomness import check_parameters, draw_rule
from jitgrad.dispatch.batch_rules import BatchedCall, align, one_by_one, unbatched_target
from jitgrad.dispatch.structured import reapply
from jitgrad.ops.creation.ranges import arange
from jitgrad.ops.indexing.keys import BATCHED_MASK
from jitgrad.ops.shape.join import stack
from jitgrad.transforms.batched_methods import BatchedMethods

__all__ = ["Batch", "Batched", "batch_first", "batched", "batches_of", "is_batched", "with_batches"]


class Batch(Level):
    """The level of one vmap, whose batch has ``size`` samples. ``randomness``: see dispatch/batch_randomness.py."""

    def __init__(self, size: int, randomness: str = "error"):
        super().__init__()
        self.size, self.randomness = size, randomness

    def _new_layout(self, below: Layout) -> Layout:
        return Layout(below.numpy_dtype, tuple(below.shape[1:]), tuple(below.strides[1:]), below.device)

    def batch_of(self, x: Tensor) -> Any:
        """An uninitialised batched tensor whose samples have the shape and dtype of ``x``."""
        return batched(self, x.new_empty((self.size, *x.shape)))

    def is_batched(self, x: Any) -> bool:
        """The function ``is_batched`` at this level."""
        return is_batched(x, self)

    def batch_first(self, x: Tensor) -> Tensor:
        """The function ``batch_first`` at this level."""
        return batch_first(x, self)

    def batched(self, x: Tensor) -> Any:
        """The function ``batched`` at this level."""
        return batched(self, x)

    def with_batch(self, x: Tensor) -> Any:
        """The function ``with_batch`` at this level."""
        return with_batch(self, x)


class Batched(BatchedMethods):
    """A tensor with the shape of one sample that stands for all samples of a batch."""

    _level: Batch
    _value: Tensor  # what it wraps; its dim 0 is the batch
    _in_dim = 0  # which dim the batch was in the tensor that the user gave to vmap; printed, and told to Function.vmap

    def unwrapped(self) -> Any:
        """The wrapped tensor, whose dim 0 is the batch."""
        return self._value

    def map(self, function: Any) -> Any:
        """``function`` applied to the wrapped tensor, as a batch of this level; None where it returns None."""
        found = function(self._value)
        return None if found is None else batched(self._level, found)

    @staticmethod
    def map_pair(function: Any, level: Any, x: Any, y: Any) -> Any:
        """``function(x, y)`` of the wrapped tensors, as a batch of ``level``."""
        return batched(level, function(batch_first(x, level), batch_first(y, level)))

    def value_and_dim(self) -> tuple[Tensor, int]:
        """(the tensor that the user gave to vmap, the dim of the batch in it)."""
        x = self._value
        return (x.movedim(0, self._in_dim), self._in_dim) if self._in_dim else (x, 0)

    def wrap_alias(self) -> None:
        """Wrap an alias instead, so that flags set on this tensor are not set on the one that the user gave to vmap."""
        self._value = self._value.detach()

    def map_graph(self, function: Any) -> Any:
        """``function`` applied to the wrapped tensor, whose shape it keeps, as a batch of this level."""
        result = batched(self._level, function(self._value))
        if self._in_dim:
            result._in_dim = self._in_dim
        return result

    def detach(self) -> Tensor:
        """The samples outside the graph."""
        return batched(self._level, self._value.detach())

    def wrap_new(self, made: Tensor) -> Any:
        """A new plain tensor ``made`` as a batched one: a copy for each sample, which may so be written to."""
        level, below = self._level, self._value
        rows = made.expand((level.size, *made._layout.shape)).clone()
        return batched(level, below.wrap_new(rows) if isinstance(below, Wrapped) else rows)

    @classmethod
    def taken_at(cls, level: Any, x: Tensor, indices: list[Any]) -> Any:
        """``x[indices]`` where indices, or ``x``, differ between samples."""
        keys, dims, first = _keys(level, x, indices)
        out = batch_first(x, level)[keys]
        return batched(level, _moved(out, range(1, 1 + dims), range(1 + first, 1 + first + dims)))

    @classmethod
    def put_at(cls, level: Any, x: Tensor, indices: list[Any], values: Tensor, accumulate: bool) -> None:
        """``x[indices] = values`` where indices, or values, differ between samples; added if ``accumulate``."""
        if not is_batched(x, level):
            raise unbatched_target("index_put")
        keys, dims, first = _keys(level, x, indices)
        below = batch_first(x, level)
        shape = _moved(below.detach()[keys], range(1, 1 + dims), range(1 + first, 1 + first + dims)).shape
        rows = align([_opened(values, level), (below.new_empty(shape), True)])[0].expand(shape)
        rows = _moved(rows, range(1 + first, 1 + first + dims), range(1, 1 + dims))
        key = [k if isinstance(k, Tensor) else None for k in keys]
        below.index_put_(key, rows, accumulate)

    def __bool__(self) -> bool:
        raise RuntimeError(
            "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't "
            "support that yet, please file an issue at https://github.com/pytorch/pytorch/issues ."
        )

    @classmethod
    def elementwise(cls, level: Any, operation: Any, operands: tuple[Any, ...], inplace: bool) -> Any:
        """Apply the op to the wrapped tensors, aligned so that samples broadcast."""
        if inplace and level.give_batch is not None and not is_batched(operands[0], level):
            level.give_batch(operands[0], level)
        if inplace and not is_batched(operands[0], level):
            if operation.op.name not in ("add", "atan2"):
                raise unbatched_target(operation.op.name)
            shape = list(operands[0].shape)
            raise RuntimeError(f"output with shape {shape} doesn't match the broadcast shape {[level.size, *shape]}")
        tensors = [o for o in operands if isinstance(o, Tensor)]
        given = [_as_operand(operation, operands, o) for o in tensors] if not inplace else tensors
        below = iter(align([_opened(t, level) for t in given]))
        args = [next(below) if isinstance(o, Tensor) else o for o in operands]
        if inplace:
            operation(*args, inplace=True)
            return operands[0]
        return batched(level, operation(*args))

    @classmethod
    def structured(cls, level: Any, op: Any, args: tuple[Any, ...], inplace: bool) -> Any:
        """Apply the op by its batch rule, which gets the wrapped tensors and the names of those that have a batch."""
        given, found = {}, set()
        if inplace and level.give_batch is not None and not is_batched(args[0], level):
            level.give_batch(args[0], level)
        for name, value in zip(op.parameters, args, strict=True):
            if isinstance(value, (list, tuple)) and outermost_wrapped(value) is not None and _any_batched(value, level):
                given[name] = [batch_first(v, level) for v in value]
                found.add(name)
            else:
                given[name], has_batch = _opened(value, level)
                if has_batch:
                    found.add(name)
        if inplace and op.parameters[0] not in found:
            if op.batch is draw_rule:
                check_parameters(level, True)
            raise unbatched_target(op.name)
        apply = functools.partial(reapply, op, inplace=inplace)
        call = BatchedCall(op, apply, given, found, level.size, level, inplace, stack)
        outs = (op.batch or one_by_one)(call)
        if inplace:
            return args[0]
        result = _wrapped_outputs(level, outs)
        if op.is_view and state.levels[-1] is not level:
            link_views(args[0], result)
        return result

    @classmethod
    def gradients(cls, level: Any, outs: list[Any], ins: list[Any], grads: list[Any], run: Any) -> list[Any]:
        """One backward on the wrapped tensors: samples do not depend on each other, so their gradients do not mix."""
        if not all(is_batched(i, level) for i in ins):
            raise RuntimeError(
                "autograd.grad: an output is batched by vmap and an input is not, so its gradient would mix the "
                "samples; differentiate inside the vmapped function with jitgrad.func.grad or jitgrad.func.vjp"
            )
        found = run(*[[batch_first(v, level) for v in values] for values in (outs, ins, grads)])
        return [None if f is None else batched(level, f) for f in found]


def _refuse(self: Any) -> Any:
    if not self._level.open:
        raise RuntimeError(
            "Either your tensor may have escaped from inside a function being vmapped and this is a user error (see "
            "https://pytorch.org/functorch/stable/ux_limitations.html), or there is an internal functorch error in "
            "`gen_vmap_plumbing` Please file an issue if it looks like the latter"
        )
    raise RuntimeError(
        "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a "
        "Tensor, please try to rewrite what you're doing with other operations. If error is occurring somewhere inside "
        "PyTorch internals, please file a bug report."
    )


def _delegated(name: str) -> property:
    def write(self: Any, value: Any) -> None:
        setattr(self._value, name, value)

    return property(lambda self: getattr(self._value, name), write)


Batched._data = property(_refuse)
for _name in ("_counter", "_requires_grad", "_edge", "_grad", "_view_kind", "_leaf_edge", "_leaf_hooks",
              "_unrecorded"):  # fmt: skip
    setattr(Batched, _name, _delegated(_name))
Batched.__name__ = Batched.__qualname__ = "Tensor"


def batched(level: Any, x: Tensor) -> Any:
    """``x``, whose dim 0 is the batch of ``level``, as a batched tensor.

    Wrappers are always nested in the order of their levels: what later levels have put round ``x`` stays outermost.
    """
    if isinstance(x, Wrapped) and x._level.open and x._level.number > level.number:
        return x.map(lambda v: batched(level, v.transpose(0, 1) if isinstance(x, Batched) else v))
    result = object.__new__(Batched)
    result._level, result._value, result._layout = level, x, level.layout(x._layout)
    return result


def _wrapped_outputs(level: Any, outs: Any) -> Any:
    """What an op returned, a tensor or a tuple of them (perhaps a named one), as batched tensors."""
    if not isinstance(outs, tuple):
        return batched(level, outs)
    wrapped = [batched(level, o) for o in outs]
    return type(outs)(*wrapped) if hasattr(outs, "_fields") else type(outs)(wrapped)


def is_batched(x: Any, level: Level) -> bool:
    """Whether a tensor has a batch at ``level``: anywhere among its wrappers, of a dual tensor in value or tangent."""
    while isinstance(x, Wrapped) and x._level.open and x._level.number >= level.number:
        if x._level is level:
            return True
        if isinstance(x, Batched):
            x = x._value
        else:
            return is_batched(x._primal, level) or is_batched(x._tangent, level)
    return False


def _opened(x: Any, level: Level) -> tuple[Any, bool]:
    """(``x`` with its batch at ``level`` as dim 0, True), or (``x`` itself, False) for whatever has none."""
    if not is_batched(x, level):
        return x, False
    if x._level is level:
        return x._value, True
    if isinstance(x, Batched):  # of a later level, whose batch stays hidden: ours is dim 0 of a sample of it
        return batched(x._level, _opened(x._value, level)[0].transpose(0, 1)), True
    return x.map(lambda v: batch_first(v, level)), True


def batch_first(x: Any, level: Any) -> Any:
    """A tensor with its batch at ``level`` as dim 0, expanded if it has none; other objects as they are."""
    x, has_batch = _opened(x, level)
    return x if has_batch or not isinstance(x, Tensor) else x.expand((level.size, *x._layout.shape))


def with_batch(level: Any, x: Any) -> Any:
    """``x`` with a batch at ``level`` in the tensor that carries its graph, expanded if it has none."""
    if isinstance(x, Wrapped) and x._level.open:
        if x._level is level:
            return x
        if x._level.number > level.number or not isinstance(x, Batched):
            return x.map_graph(lambda v: with_batch(level, v))
    return batched(level, batch_first(x, level))


def _keys(level: Any, x: Tensor, indices: list[Any]) -> tuple[tuple[Any, ...], int, int]:
    """How ``x[indices]`` of one sample is written for the wrapped tensor.

    Returns (keys, the number of dims that tensor indices give, the place of these dims in a sample's result). The
    first key counts the samples, so that each takes its own index from its own row.
    """
    found = [(d, i) for d, i in enumerate(indices) if i is not None]
    if any(i.dtype.name == "bool" and is_batched(i, level) for _, i in found):
        raise RuntimeError(BATCHED_MASK)
    tensors = align([_opened(i, level) for _, i in found])
    dims = max(i._layout.ndim for _, i in found)
    rows = arange(level.size).view(-1, *(1,) * dims)
    queue = iter(tensors)
    keys = (rows, *(slice(None) if i is None else next(queue) for i in indices))
    places = [d for d, _ in found]
    # NumPy's rule, which is PyTorch's: dims of adjacent indices stand where the indices do, of others in front.
    adjacent = places == list(range(places[0], places[0] + len(places)))
    return keys, dims, places[0] if adjacent else 0


def _moved(x: Tensor, source: Any, target: Any) -> Tensor:
    return x if source == target or not len(source) else x.movedim(tuple(source), tuple(target))


def batches_of(*tensors: Any) -> set[Batch]:
    """The levels of vmap at which any of the tensors is batched."""
    levels = [level for level in state.levels if isinstance(level, Batch)]
    return {level for level in levels if any(is_batched(t, level) for t in tensors)}


def with_batches(x: Any, levels: Any) -> Any:
    """``x`` with a batch at each of ``levels``, so that each sample has a gradient of its own."""
    for level in sorted(levels, key=lambda found: found.number):
        x = with_batch(level, x)
    return x


def _any_batched(values: Any, level: Level) -> bool:
    return any(_any_batched(v, level) if isinstance(v, (list, tuple)) else is_batched(v, level) for v in values)


def _as_operand(operation: Any, operands: tuple[Any, ...], x: Tensor) -> Tensor:
    """An operand cast so that the op's result dtype is that of a single sample.

    A sample without dims counts little in promotion, the wrapped tensor, which has one, counts fully.
    """
    if not isinstance(x, Wrapped) or x._layout.ndim or x.dtype.name == "bool":
        return x
    computed, result = operation._dtypes(operands, None)
    dtype = result if operation.op.in_double else computed  # their kernels widen what they read
    return x if x.dtype is dtype or x.dtype.category > dtype.category else x.to(dtype)
