"""Batch rules: how vmap applies an op to a whole batch. A declaration names one of these as its ``batch``.

    class Flip(Structured):
        batch = over_dims("dims")

A rule gets a ``BatchedCall``, the op and its arguments, in which the batch is dim 0 of every batched tensor. It applies
the op, or others, to all samples at once and returns results with the batch as dim 0. An op without a rule is applied
to one sample after another (``one_by_one``), which is right for every op.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import broadcast_shapes, normalize_dim
from jitgrad.core.tensor import Tensor
from jitgrad.core.wrapped import outermost_wrapped

__all__ = [
    "BatchedCall", "Rule", "aligned", "flattened", "is_batch", "of_samples", "one_by_one", "onto_first", "over_dims",
    "over_losses", "rewritten", "sized",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])

Rule = Callable[["BatchedCall"], Any]


class BatchedCall:
    """A call of an op some of whose arguments are batched.

    op: the op. apply: calls it with a list of all arguments. args: the arguments by name, batched ones with the batch
    as dim 0. batched: the names of those. size: the number of samples. level: that of the vmap. inplace: whether the op
    writes to its first argument. stack: makes a batch of results of single samples.
    """

    def __init__(self, op: Any, apply: Callable[[Sequence[Any]], Any], args: dict[str, Any], batched: set[str],
                 size: int, level: Any, inplace: bool, stack: Callable[[list[Tensor]], Tensor]):  # fmt: skip
        self.op, self.apply, self.args, self.batched = op, apply, args, batched
        self.size, self.level, self.inplace, self.stack = size, level, inplace, stack

    def __getitem__(self, name: str) -> Any:
        return self.args[name]

    def run(self, **changed: Any) -> Any:
        """Apply the op, with some arguments replaced, given by name."""
        return self.apply([changed.get(name, value) for name, value in self.args.items()])

    def overwritten(self, value: Tensor) -> Tensor:
        """The first argument after ``value`` was written to it; of a call that is not inplace, ``value`` as a copy of
        the first argument's dtype and shape."""
        first = next(iter(self.args))
        if self.inplace:
            return self.args[first].copy_(value)
        return value.to(self.args[first].dtype).expand(self.size, *self.shape(first)).clone()

    def ndim(self, name: str) -> int:
        """The number of dims of a sample of an argument; of a list, of its first tensor."""
        value = self.args[name]
        value = value[0] if isinstance(value, (list, tuple)) else value
        return value._layout.ndim - (name in self.batched)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a sample of an argument."""
        return tuple(self.args[name]._layout.shape[name in self.batched :])

    def whole(self, name: str) -> Any:
        """An argument as a batch, expanded to one if it is not batched."""
        value = self.args[name]
        return value if name in self.batched else value.expand((self.size, *value._layout.shape))

    def tensors(self) -> list[str]:
        """The names of the arguments that are tensors."""
        return [name for name, value in self.args.items() if isinstance(value, Tensor)]


def _shifted(dim: Any, ndim: int, empty_is_all: bool = True) -> Any:
    """A dim, or dims, of a sample with ``ndim`` dims as dims of the batch; None, and mostly (), are all of them."""
    several = isinstance(dim, (list, tuple))
    if dim is None or (several and not dim and empty_is_all):
        return tuple(range(1, ndim + 1))
    return tuple([normalize_dim(d, ndim) + 1 for d in dim]) if several else normalize_dim(dim, ndim) + 1


def one_by_one(call: BatchedCall) -> Any:
    """Apply the op to one sample after another, and stack the results."""
    rows = [
        call.apply([_row(value, k) if name in call.batched else value for name, value in call.args.items()])
        for k in range(call.size)
    ]
    if call.inplace:  # the samples are views of the first argument, which therefore has been written to
        return next(iter(call.args.values()))
    if not rows:
        raise RuntimeError(f"vmap: {call.op.name} cannot be applied to a batch of size 0")
    if isinstance(rows[0], tuple):
        results = [call.stack(list(column)) for column in zip(*rows)]
        return type(rows[0])(*results) if hasattr(rows[0], "_fields") else tuple(results)  # a named tuple stays one
    return call.stack(rows)


def _row(value: Any, k: int) -> Any:
    return [v[k] for v in value] if isinstance(value, (list, tuple)) else value[k]


# -- families -------------------------------------------------------------------------------------------


def over_dims(*names: str, extra: int = 0, empty_is_all: bool = True) -> Rule:
    """The rule of ops that have dims of their first tensor as arguments ``names``: counted one further in a batch.

    extra: how many dims more than the tensor the result has, which such an argument may name (``unsqueeze``).
    empty_is_all: whether () stands for all dims, as in reductions, or for none.
    """

    def rule(call: BatchedCall) -> Any:
        first = next(iter(call.args))
        n = call.ndim(first) + extra
        if not n:
            return _of_numbers(call, first, names) if call.tensors() == [first] else one_by_one(call)
        # All tensors as batches: an index or source that is not batched must have the dims of one that is.
        tensors = {name: call.whole(name) for name in call.tensors()}
        return call.run(**tensors, **{name: _shifted(call[name], n, empty_is_all) for name in names})

    return rule


def _of_numbers(call: BatchedCall, first: str, names: Sequence[str]) -> Any:
    """The rule of ``over_dims`` for samples without dims: they are handled as vectors of one element.

    Such a tensor takes dim 0 and -1, but its batch has no dim that they could stand for.
    """
    for name in names:
        _shifted(call[name], 0)  # IndexError if it is out of range for a sample
    if getattr(call.op, "is_view", False):
        shape = call.run(**{first: call[first].new_empty(())})._layout.shape
        return call[first].view(call.size, *shape) if math.prod(shape) == 1 else one_by_one(call)
    changed = {name: 1 if isinstance(call[name], int) else (1,) for name in names}
    outs = call.run(**{first: call[first].unsqueeze(1)}, **changed)
    flat = [o.reshape(call.size) for o in (outs if isinstance(outs, tuple) else (outs,))]
    if not isinstance(outs, tuple):
        return flat[0]
    return type(outs)(*flat) if hasattr(outs, "_fields") else tuple(flat)


def aligned(call: BatchedCall) -> Any:
    """The rule of ops that broadcast their tensors: all get as many dims, so that batches meet in dim 0."""
    names = call.tensors()
    if call.inplace and next(iter(call.args)) not in call.batched:
        raise unbatched_target(call.op.name)
    return call.run(**dict(zip(names, align([(call[n], n in call.batched) for n in names]), strict=True)))


def align(tensors: Sequence[tuple[Tensor, bool]]) -> list[Tensor]:
    """(tensor, whether it is batched) pairs as tensors whose samples broadcast: dims of size 1 follow the batch.

    A tensor that is not batched stays as it is, because broadcasting adds leading dims anyway.
    """
    n = max((t._layout.ndim - batched for t, batched in tensors), default=0)
    result = []
    for t, batched in tensors:
        missing = n - t._layout.ndim + 1
        if batched and missing > 0:
            t = t.view(t._layout.shape[0], *(1,) * missing, *t._layout.shape[1:])
        result.append(t)
    return result


def onto_first(call: BatchedCall) -> Any:
    """The rule of ops whose other tensors broadcast to the first, which therefore is made a batch."""
    first, *rest = call.tensors()
    others = align([(call.whole(first), True), *((call[n], n in call.batched) for n in rest)])
    return call.run(**dict(zip((first, *rest), others, strict=True)))


# PyTorch's names of inplace ops in the error of ``unbatched_target``, where they are not "aten::" + name + "_".
_TITLES = {
    **dict.fromkeys(("copy_from", "mul", "div", "sub", "masked_fill_number", "masked_fill_tensor"),
                    "inplace arithmetic"),
    **dict.fromkeys(("index_fill_number", "index_fill_tensor"), "index_fill_"),
    **dict.fromkeys(("scatter_source", "scatter_value"), "aten::scatter_"),
    "index_put": "index_put_", "index_put_places": "index_put_", "index_add": "index_add_",
    **dict.fromkeys(("fill_number", "fill_tensor"), "fill_"),
    **{f"clamp_{bound}": "aten::clamp_" for bound in ("low", "high", "number")},
    "scatter_add": "scatter_add_", "put_places": "aten::masked_scatter_", "lerp_number": "aten::lerp_",
    "bernoulli_fill_each": "inplace bernoulli",
}  # fmt: skip


def is_batch(*tensors: Any) -> bool:
    """Whether one of the tensors is batched by an open vmap."""
    if not grad_state.levels:
        return False
    # detach takes a dual tensor's wrapper off, under which the batch may be.
    levels = [t.detach()._level for t in tensors if isinstance(t, Tensor)]
    return any(level is not None and level.open for level in levels)


def unbatched_target(name: str) -> RuntimeError:
    """The error of an inplace op that would write a batch into a tensor which is not batched."""
    title = _TITLES.get(name, f"aten::{name}_")
    place = f"at level {len(grad_state.levels)}" if title.startswith("aten") else "in a vmap"
    return RuntimeError(
        f"vmap: {title}(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args that "
        "has more elements than `self`. This happened due to `other` being vmapped over but `self` not being vmapped "
        f"over {place}. Please try to use out-of-place operators instead of {title}. If said operator is being "
        "called inside the PyTorch framework, please file a bug report instead."
    )


def sized(name: str) -> Rule:
    """The rule of ops that give their first tensor the size in argument ``name``: the batch's size goes in front."""

    def rule(call: BatchedCall) -> Any:
        first = next(iter(call.args))
        if call.batched != {first}:
            return one_by_one(call)
        return call.run(**{name: (call.size, *_inferred(call[name], call.shape(first)))})

    return rule


def _inferred(size: Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    """``size`` with its -1 replaced, for a sample of ``shape``: from a batch of 0 samples it could not be inferred."""
    if -1 not in size:
        return tuple(size)
    others = math.prod(n for n in size if n != -1)
    return tuple(math.prod(shape) // others if n == -1 and others else n for n in size)


def flattened(reduce_rows: Callable[..., Any]) -> Rule:
    """Reductions of all elements: each sample becomes a row, and ``reduce_rows`` reduces along dim 1."""

    def rule(call: BatchedCall) -> Any:
        first, *rest = call.args
        if call.batched != {first}:
            return one_by_one(call)
        out = reduce_rows(call[first].reshape(call.size, -1), **{n: call[n] for n in rest})
        return out[0] if isinstance(out, tuple) else out

    return rule


def over_losses(call: BatchedCall) -> Any:
    """The rule of pointwise losses: without reduction for the whole batch, then ``reduction`` over each sample."""
    reduction = call["reduction"]
    if reduction not in ("mean", "sum", "none"):
        return one_by_one(call)
    names = call.tensors()
    tensors = align([(call[n], n in call.batched) for n in names])
    sample = (call.size,) + (1,) * (tensors[0]._layout.ndim - ("x" in call.batched))
    shape = broadcast_shapes(*(t._layout.shape for t in tensors[:2]), sample)
    tensors[:2] = [t.expand(shape) for t in tensors[:2]]
    # The op's own reduction would be over all samples; per element it broadcasts, and rows are reduced afterwards.
    losses = call.run(**dict(zip(names, tensors, strict=True)), reduction="none")
    if reduction == "none":
        return losses
    rows = losses.reshape(call.size, -1)
    return rows.mean(1) if reduction == "mean" else rows.sum(1)


def rewritten(function: Callable[..., Any]) -> Rule:
    """The rule of ops composed of others: ``function(call, *args)``, args in the order of the op's parameters."""

    def rule(call: BatchedCall) -> Any:
        return function(call, *call.args.values())

    return rule


class _Sampled:
    """What a BatchedCall needs to know of an op, for a plain function without gradients."""

    batch, is_view = None, False

    def __init__(self, function: Callable[..., Any]):
        self.apply, self.name, self.signature = function, function.__name__, inspect.signature(function)
        self.parameters = tuple(self.signature.parameters)
        self.positional = sum([p.kind is not p.KEYWORD_ONLY for p in self.signature.parameters.values()])


def of_samples(function: F) -> F:
    """``function``, which vmap calls with one sample after another; RuntimeError if their results differ in shape.

    For functions that launch kernels themselves, on arrays of NumPy, which batched tensors don't have. Results have no
    gradients.
    """
    op = _Sampled(function)

    @functools.wraps(function)
    def applied(*args: Any, **kwargs: Any) -> Any:
        if grad_state.levels and is_batch(*args, *kwargs.values()):
            bound = op.signature.bind(*args, **kwargs)
            bound.apply_defaults()
            given = [v.detach() if isinstance(v, Tensor) else v for v in bound.arguments.values()]
            wrapped = outermost_wrapped(given)
            return wrapped.structured(wrapped._level, op, given, False)
        return function(*args, **kwargs)

    return applied  # type: ignore[return-value]


def check_one_shape(op: str, x: Tensor) -> None:
    """RuntimeError if ``x`` is batched: the shape of the op's result depends on values, so samples could differ."""
    if is_batch(x):
        raise RuntimeError(
            "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over "
            f"aten::{op}. Please file an issue at https://github.com/pytorch/pytorch/issues if you need this feature."
        )
