"""Batched tensors: what vmap hands to its function. They hide a dim of the tensor they wrap.

The batch is dim 0 of the wrapped tensor. Elementwise ops broadcast; other ops go by the rule that
their declaration names (see dispatch/batch_rules.py), or sample by sample.
"""

from __future__ import annotations

from typing import Any

from jitgrad.core.grad_mode import state
from jitgrad.core.layout import Layout
from jitgrad.core.tensor import Tensor
from jitgrad.core.wrapped import Level, Wrapped, outermost, relate
from jitgrad.dispatch.batch_randomness import check_parameters, drawn
from jitgrad.dispatch.batch_rules import BatchedCall, align, one_by_one, unbatched_target
from jitgrad.dispatch.structured import reapply
from jitgrad.ops.creation.constants import arange
from jitgrad.transforms.batched_methods import Sample

__all__ = ["Batch", "Batched", "batched", "batches_of", "lies", "over_batches", "physical"]


class Batch(Level):
    """A vmap at work: its batch has ``size`` samples. ``randomness``: see dispatch/batch_randomness.py."""

    def __init__(self, size: int, randomness: str = "error"):
        super().__init__()
        self.size, self.randomness = size, randomness
        # What gives a tensor that all samples share a batch of its own when samples are written into it. None: that
        # is an error. jacfwd sets it: its samples differ in tangents, and in what func.grad has expanded.
        self.widen: Any = None

    def _new_layout(self, below: Layout) -> Layout:
        return Layout(below.numpy_dtype, tuple(below.shape[1:]), tuple(below.strides[1:]), below.device)

    def batch_of(self, x: Tensor) -> Any:
        """A new tensor like ``x`` for each sample, uninitialised."""
        return batched(self, x.new_empty((self.size, *x.shape)))

    def holds(self, x: Any) -> bool:
        """Whether a tensor is batched here."""
        return lies(x, self)

    def opened(self, x: Tensor) -> Tensor:
        """All samples of a tensor, the batch as dim 0, expanded if it has none."""
        return physical(x, self)

    def around(self, x: Tensor) -> Any:
        """A tensor whose dim 0 is the batch, as one sample."""
        return batched(self, x)

    def widened(self, x: Tensor) -> Any:
        """A tensor that has no batch here, with the same for each sample."""
        return vectorized(self, x)


class Batched(Sample):
    """One of many samples, as the vmapped function sees it."""

    _level: Batch
    _physical: Tensor
    _place = 0  # which dim the batch was in what vmap was given

    def below(self) -> Any:
        """All samples."""
        return self._physical

    def map(self, function: Any) -> Any:
        """The same batch of what ``function`` makes of each sample; None where it gives nothing."""
        found = function(self._physical)
        return None if found is None else batched(self._level, found)

    @staticmethod
    def join(function: Any, level: Any, x: Any, y: Any) -> Any:
        """Apply a function of two tensors to the wrapped ones."""
        return batched(level, function(physical(x, level), physical(y, level)))

    def given(self) -> tuple[Tensor, int]:
        """(the wrapped tensor as vmap was given it, the dim that the batch is there)."""
        x = self._physical
        return (x.movedim(0, self._place), self._place) if self._place else (x, 0)

    def set_apart(self) -> None:
        """Wrap an alias: what happens to this tensor does not happen to the one that vmap was given."""
        self._physical = self._physical.detach()

    def renewed(self, function: Any) -> Any:
        """The same with ``function``, which makes something in its shape, applied to the wrapped tensor."""
        result = batched(self._level, function(self._physical))
        if self._place:
            result._place = self._place
        return result

    def detach(self) -> Tensor:
        """The samples outside the graph."""
        return batched(self._level, self._physical.detach())

    def beside(self, made: Tensor) -> Any:
        """A new tensor as one for each sample, in memory of its own."""
        level, below = self._level, self._physical
        rows = made.expand((level.size, *made.shape)).clone()
        return batched(level, below.beside(rows) if isinstance(below, Wrapped) else rows)

    @classmethod
    def taken_at(cls, level: Any, x: Tensor, indices: list[Any]) -> Any:
        """``x[indices]`` with an index of its own for each sample."""
        keys, dims, first = _keys(level, x, indices)
        out = physical(x, level)[keys]
        return batched(level, _moved(out, range(1, 1 + dims), range(1 + first, 1 + first + dims)))

    @classmethod
    def put_at(cls, level: Any, x: Tensor, indices: list[Any], values: Tensor, accumulate: bool) -> None:
        """``x[indices] = values`` with an index of its own for each sample."""
        if not lies(x, level):
            raise unbatched_target("index_put")
        keys, dims, first = _keys(level, x, indices)
        below = physical(x, level)
        shape = _moved(below.detach()[keys], range(1, 1 + dims), range(1 + first, 1 + first + dims)).shape
        rows = align([(_below(values, level), lies(values, level)), (below.new_empty(shape), True)])[0].expand(shape)
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
        """The op on all samples at once."""
        if inplace and level.widen is not None and not lies(operands[0], level):
            level.widen(operands[0], level)
        if inplace and not lies(operands[0], level):
            if operation.op.name not in ("add", "atan2"):
                raise unbatched_target(operation.op.name)
            shape = list(operands[0].shape)
            raise RuntimeError(f"output with shape {shape} doesn't match the broadcast shape {[level.size, *shape]}")
        tensors = [o for o in operands if isinstance(o, Tensor)]
        given = [_as_operand(operation, operands, o) for o in tensors] if not inplace else tensors
        below = iter(align([(_below(t, level), lies(t, level)) for t in given]))
        args = [next(below) if isinstance(o, Tensor) else o for o in operands]
        if inplace:
            operation(*args, inplace=True)
            return operands[0]
        return batched(level, operation(*args))

    @classmethod
    def structured(cls, level: Any, op: Any, args: tuple[Any, ...], inplace: bool) -> Any:
        """The op on all samples at once, by its rule."""
        given, found = {}, set()
        if inplace and level.widen is not None and not lies(args[0], level):
            level.widen(args[0], level)
        for name, value in zip(op.parameters, args, strict=True):
            if isinstance(value, (list, tuple)) and outermost(value) is not None and _any(value, level):
                given[name] = [physical(v, level) for v in value]
                found.add(name)
            elif isinstance(value, Tensor) and lies(value, level):
                given[name] = _below(value, level)
                found.add(name)
            else:
                given[name] = value
        if inplace and op.parameters[0] not in found:
            if op.batch is drawn:
                check_parameters(level, True)
            raise unbatched_target(op.name)
        call = BatchedCall(op, lambda values: reapply(op, values, inplace), given, found, level.size, level, inplace)
        outs = (op.batch or one_by_one)(call)
        if inplace:
            return args[0]
        result = _lifted(level, outs)
        if op.is_view and state.levels[-1] is not level:
            relate(args[0], result)
        return result

    @classmethod
    def gradients(cls, level: Any, outs: list[Any], ins: list[Any], grads: list[Any], run: Any) -> list[Any]:
        """Samples do not depend on each other, so the gradients of all are found at once."""
        if not all(lies(i, level) for i in ins):
            raise RuntimeError(
                "autograd.grad: an output is batched by vmap and an input is not, so its gradient would mix the "
                "samples; differentiate inside the vmapped function with jitgrad.func.grad or jitgrad.func.vjp"
            )
        found = run(*[[physical(v, level) for v in values] for values in (outs, ins, grads)])
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
        setattr(self._physical, name, value)

    return property(lambda self: getattr(self._physical, name), write)


Batched._data = property(_refuse)
for _name in ("_counter", "_requires_grad", "_edge", "_grad", "_view_kind", "_leaf_edge", "_leaf_hooks",
              "_unrecorded"):  # fmt: skip
    setattr(Batched, _name, _delegated(_name))
Batched.__name__ = Batched.__qualname__ = "Tensor"


def batched(level: Any, x: Tensor) -> Any:
    """``x``, whose dim 0 is the batch, as one sample at ``level``, beneath what later levels have put round it."""
    if isinstance(x, Wrapped) and x._level.open and x._level.number > level.number:
        return x.map(lambda v: batched(level, v.transpose(0, 1) if isinstance(x, Batched) else v))
    result = object.__new__(Batched)
    result._level, result._physical, result._layout = level, x, level.layout(x._layout)
    return result


def _lifted(level: Any, outs: Any) -> Any:
    if not isinstance(outs, tuple):
        return batched(level, outs)
    wrapped = [batched(level, o) for o in outs]
    return type(outs)(*wrapped) if hasattr(outs, "_fields") else type(outs)(wrapped)


def lies(x: Any, level: Level) -> bool:
    """Whether a tensor is batched at ``level``."""
    while isinstance(x, Wrapped) and x._level.open and x._level.number >= level.number:
        if x._level is level:
            return True
        if isinstance(x, Batched):
            x = x._physical
        else:
            return lies(x._plain, level) or lies(x._tangent, level)
    return False


def _below(x: Any, level: Level) -> Any:
    """A tensor with its batch at ``level`` as dim 0; one that has none, or is no tensor, as it is."""
    if not lies(x, level):
        return x
    if x._level is level:
        return x._physical
    if isinstance(x, Batched):  # the batch of a later level stays outside
        return batched(x._level, _below(x._physical, level).transpose(0, 1))
    return x.map(lambda v: physical(v, level))


def physical(x: Any, level: Any) -> Any:
    """A tensor with its batch at ``level`` as dim 0, expanded if it has none."""
    if not isinstance(x, Tensor) or lies(x, level):
        return _below(x, level)
    return x.expand((level.size, *x.shape))


def vectorized(level: Any, x: Any) -> Any:
    """``x`` with a batch at ``level`` in what carries its graph, expanded if it has none."""
    if isinstance(x, Wrapped) and x._level.open:
        if x._level is level:
            return x
        if x._level.number > level.number or not isinstance(x, Batched):
            return x.renewed(lambda v: vectorized(level, v))
    return batched(level, physical(x, level))


def _keys(level: Any, x: Tensor, indices: list[Any]) -> tuple[tuple[Any, ...], int, int]:
    """(keys into the wrapped tensor, dims that they give, where those stand in a sample's result)."""
    found = [(d, i) for d, i in enumerate(indices) if i is not None]
    if any(i.dtype.name == "bool" and lies(i, level) for _, i in found):
        raise RuntimeError(
            "vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over "
            "indexing with a boolean mask."
        )
    tensors = align([(_below(i, level), lies(i, level)) for _, i in found])
    dims = max(i._layout.ndim for _, i in found)
    rows = arange(level.size).view(-1, *(1,) * dims)
    queue = iter(tensors)
    keys = (rows, *(slice(None) if i is None else next(queue) for i in indices))
    places = [d for d, _ in found]
    together = places == list(range(places[0], places[0] + len(places)))
    return keys, dims, places[0] if together else 0


def _moved(x: Tensor, source: Any, target: Any) -> Tensor:
    return x if source == target or not len(source) else x.movedim(tuple(source), tuple(target))


def batches_of(*tensors: Any) -> set[Batch]:
    """The batches, of all vmaps at work, that tensors have."""
    levels = [level for level in state.levels if isinstance(level, Batch)]
    return {level for level in levels if any(lies(t, level) for t in tensors)}


def over_batches(x: Any, levels: Any) -> Any:
    """``x`` with batches of its own, so that each sample has a gradient."""
    for level in sorted(levels, key=lambda found: found.number):
        x = vectorized(level, x)
    return x


def _any(values: Any, level: Level) -> bool:
    return any(_any(v, level) if isinstance(v, (list, tuple)) else lies(v, level) for v in values)


def _as_operand(operation: Any, operands: tuple[Any, ...], x: Tensor) -> Tensor:
    """An operand whose part in promotion does not change when its batch becomes a dim."""
    if not isinstance(x, Wrapped) or x._layout.ndim or x.dtype.name == "bool":
        return x
    dtype = operation._dtypes(operands, None)[0]
    return x if x.dtype is dtype or x.dtype.category > dtype.category else x.to(dtype)
