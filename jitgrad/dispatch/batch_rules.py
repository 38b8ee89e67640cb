"""What an op means on a batch: rules for families of ops, one of which a declaration may name.

    class Flip(Structured):
        batch = over_dims("dims")

A rule gets a ``Lot``: the op's arguments by name, those that are batched with the batch as their
dim 0. It applies the op, or others, to all of the batch at once, and returns results with the batch
as dim 0. Without a rule the op is applied to one sample after another, which is always right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import broadcast_shapes, normalize_dim
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.registry import FUNCTIONS

__all__ = [
    "Lot", "Rule", "aligned", "flattened", "is_batch", "one_by_one", "onto_first", "over_dims", "over_losses",
    "rewritten", "sized",
]  # fmt: skip

Rule = Callable[["Lot"], Any]


class Lot:
    """The arguments of an op, some of them batched, and the op."""

    def __init__(self, op: Any, apply: Callable[[Sequence[Any]], Any], args: dict[str, Any], batched: set[str],
                 size: int, level: Any, into: bool):  # fmt: skip
        self.op, self.apply, self.args, self.batched = op, apply, args, batched
        self.size, self.level, self.into = size, level, into

    def __getitem__(self, name: str) -> Any:
        return self.args[name]

    def run(self, **changed: Any) -> Any:
        """Apply the op, with some arguments changed."""
        return self.apply([changed.get(name, value) for name, value in self.args.items()])

    def overwritten(self, value: Tensor) -> Tensor:
        """The first argument with ``value`` written over it, or, not in place, ``value`` as what takes its place."""
        first = next(iter(self.args))
        if self.into:
            return self.args[first].copy_(value)
        return value.to(self.args[first].dtype).expand(self.size, *self.shape(first)).clone()

    def ndim(self, name: str) -> int:
        """The number of dims of an argument (of the first of a list), its batch not counted."""
        value = self.args[name]
        value = value[0] if isinstance(value, (list, tuple)) else value
        return value._layout.ndim - (name in self.batched)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of an argument without its batch."""
        return tuple(self.args[name]._layout.shape[name in self.batched :])

    def whole(self, name: str) -> Any:
        """An argument with a batch, expanded to one if it has none."""
        value = self.args[name]
        return value if name in self.batched else value.expand((self.size, *value._layout.shape))

    def tensors(self) -> list[str]:
        """The names of the arguments that are tensors."""
        return [name for name, value in self.args.items() if isinstance(value, Tensor)]


def _shifted(dim: Any, ndim: int) -> Any:
    """A dim, or dims, of a sample as dims of the batch; None is all of them."""
    if dim is None:
        return tuple(range(1, ndim + 1))
    if isinstance(dim, (list, tuple)):
        return tuple([normalize_dim(d, ndim) + 1 for d in dim]) or tuple(range(1, ndim + 1))
    return normalize_dim(dim, ndim) + 1


def one_by_one(lot: Lot) -> Any:
    """The op on one sample after another."""
    rows = [
        lot.apply([_row(value, k) if name in lot.batched else value for name, value in lot.args.items()])
        for k in range(lot.size)
    ]
    if lot.into:
        return next(iter(lot.args.values()))
    if not rows:
        raise RuntimeError(f"vmap: {lot.op.name} cannot be applied to a batch of size 0")
    if isinstance(rows[0], tuple):
        return type(rows[0])(*map(_stacked, zip(*rows))) if hasattr(rows[0], "_fields") else tuple(
            map(_stacked, zip(*rows)))  # fmt: skip
    return _stacked(rows)


def _row(value: Any, k: int) -> Any:
    return [v[k] for v in value] if isinstance(value, (list, tuple)) else value[k]


def _stacked(rows: Any) -> Tensor:
    return FUNCTIONS["stack"](list(rows))


# -- families -------------------------------------------------------------------------------------------


def over_dims(*names: str, extra: int = 0) -> Rule:
    """Ops that name dims of their first tensor; those that make a dim count ``extra`` more."""

    def rule(lot: Lot) -> Any:
        first = next(iter(lot.args))
        n = lot.ndim(first) + extra
        if not n:
            return _of_numbers(lot, first, names) if lot.tensors() == [first] else one_by_one(lot)
        tensors = {name: lot.whole(name) for name in lot.tensors()}
        return lot.run(**tensors, **{name: _shifted(lot[name], n) for name in names})

    return rule


def _of_numbers(lot: Lot, first: str, names: Sequence[str]) -> Any:
    """Samples without dims, which count as vectors of one element."""
    for name in names:
        _shifted(lot[name], 0)  # says what is out of range
    if getattr(lot.op, "is_view", False):
        shape = lot.run(**{first: lot[first].new_empty(())})._layout.shape
        return lot[first].view(lot.size, *shape) if math.prod(shape) == 1 else one_by_one(lot)
    changed = {name: 1 if isinstance(lot[name], int) else (1,) for name in names}
    outs = lot.run(**{first: lot[first].unsqueeze(1)}, **changed)
    flat = [o.reshape(lot.size) for o in (outs if isinstance(outs, tuple) else (outs,))]
    if not isinstance(outs, tuple):
        return flat[0]
    return type(outs)(*flat) if hasattr(outs, "_fields") else tuple(flat)


def aligned(lot: Lot) -> Any:
    """Ops that go element by element, broadcasting: all tensors get as many dims."""
    names = lot.tensors()
    if lot.into and next(iter(lot.args)) not in lot.batched:
        raise unbatched_target(lot.op.name)
    return lot.run(**dict(zip(names, align([(lot[n], n in lot.batched) for n in names]), strict=True)))


def align(tensors: Sequence[tuple[Tensor, bool]]) -> list[Tensor]:
    """Tensors, batched or not, with dims of size 1 after the batch, so that samples broadcast."""
    n = max((t._layout.ndim - batched for t, batched in tensors), default=0)
    result = []
    for t, batched in tensors:
        missing = n - t._layout.ndim + 1
        if batched and missing > 0:
            t = t.view(t._layout.shape[0], *(1,) * missing, *t._layout.shape[1:])
        result.append(t)
    return result


def onto_first(lot: Lot) -> Any:
    """Ops that read or write the first tensor beside others that broadcast to it."""
    first, *rest = lot.tensors()
    others = align([(lot.whole(first), True), *((lot[n], n in lot.batched) for n in rest)])
    return lot.run(**dict(zip((first, *rest), others, strict=True)))


_TITLES = {  # what errors call ops that have another name here, or belong to a family
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
    """Whether a vmap hides a dim of one of the tensors."""
    if not grad_state.levels:
        return False
    levels = [t.detach()._level for t in tensors if isinstance(t, Tensor)]  # without tangents
    return any(level is not None and level.open for level in levels)


def unbatched_target(name: str) -> RuntimeError:
    """The error for writing a batch into a tensor that is none."""
    title = _TITLES.get(name, f"aten::{name}_")
    place = f"at level {len(grad_state.levels)}" if title.startswith("aten") else "in a vmap"
    return RuntimeError(
        f"vmap: {title}(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args that "
        "has more elements than `self`. This happened due to `other` being vmapped over but `self` not being vmapped "
        f"over {place}. Please try to use out-of-place operators instead of {title}. If said operator is being "
        "called inside the PyTorch framework, please file a bug report instead."
    )


def sized(name: str) -> Rule:
    """Views and copies of one tensor by a size, which gets the batch's size in front."""

    def rule(lot: Lot) -> Any:
        first = next(iter(lot.args))
        if lot.batched != {first}:
            return one_by_one(lot)
        return lot.run(**{name: (lot.size, *_inferred(lot[name], lot.shape(first)))})

    return rule


def _inferred(size: Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    if -1 not in size:
        return tuple(size)
    known = math.prod(n for n in size if n != -1)
    return tuple(math.prod(shape) // known if n == -1 and known else n for n in size)


def flattened(function: str) -> Rule:
    """Reductions of all elements: those of the samples' rows, by ``function`` along dim 1."""

    def rule(lot: Lot) -> Any:
        first, *rest = lot.args
        if lot.batched != {first}:
            return one_by_one(lot)
        out = FUNCTIONS[function](lot[first].reshape(lot.size, -1), 1, **{n: lot[n] for n in rest})
        return out[0] if isinstance(out, tuple) else out

    return rule


def over_losses(lot: Lot) -> Any:
    """Losses: each element's first, then ``reduction`` over each sample."""
    reduction = lot["reduction"]
    if reduction not in ("mean", "sum", "none"):
        return one_by_one(lot)
    names = lot.tensors()
    tensors = align([(lot[n], n in lot.batched) for n in names])
    sample = (lot.size,) + (1,) * (tensors[0]._layout.ndim - ("x" in lot.batched))
    shape = broadcast_shapes(*(t._layout.shape for t in tensors[:2]), sample)
    tensors[:2] = [t.expand(shape) for t in tensors[:2]]
    losses = lot.run(**dict(zip(names, tensors, strict=True)), reduction="none")
    if reduction == "none":
        return losses
    rows = losses.reshape(lot.size, -1)
    return rows.mean(1) if reduction == "mean" else rows.sum(1)


def rewritten(function: Callable[..., Any]) -> Rule:
    """Ops that are written in others: ``function(lot, *args)`` with the op's arguments as they are."""

    def rule(lot: Lot) -> Any:
        return function(lot, *lot.args.values())

    return rule


def check_one_shape(op: str, x: Tensor) -> None:
    """RuntimeError for a batch of which each sample would have a result of another shape."""
    if is_batch(x):
        raise RuntimeError(
            "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over "
            f"aten::{op}. Please file an issue at https://github.com/pytorch/pytorch/issues if you need this feature."
        )
