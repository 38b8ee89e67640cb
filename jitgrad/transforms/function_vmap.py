"""A user's Function inside vmap: by its own ``vmap`` staticmethod, or (``generate_vmap_rule``) by a generated one.

The generated rule is another Function, applied to the wrapped tensors. Its forward, backward and jvp open a vmap level,
wrap what they are given and call the user's, which so sees one sample. It is recorded as one node, like any Function.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

from jitgrad.core.tensor import Tensor
from jitgrad.core.wrapped import Level
from jitgrad.transforms.batched import Batch, batch_first, batched, is_batched

__all__ = ["VmapInfo", "over_batch"]

_MORE = "For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"


class VmapInfo(NamedTuple):
    """What a Function's ``vmap`` is told of the batch: its size, and the ``randomness`` argument of vmap."""

    batch_size: int
    randomness: str


def over_batch(base: Any, cls: Any, level: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Apply the Function ``cls``, a subclass of ``base``, to inputs whose outermost wrapper is a batch of ``level``."""
    if any(isinstance(value, Tensor) for value in kwargs.values()):
        raise NotImplementedError(
            "Run vmap on autograd.Function with kwarg-only Tensor args. Please do not pass kwarg-only Tensors to "
            f"autograd.Function. Got: {kwargs}"
        )
    if cls.generate_vmap_rule:
        if cls._has_vmap():
            raise RuntimeError(
                f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overridden "
                "vmap staticmethod. Please set generate_vmap_rule=False or delete the overridden vmap staticmethod to "
                f"avoid ambiguity. {_MORE}"
            )
        inputs = (*args, *kwargs.values())
        below = [batch_first(x, level) if is_batched(x, level) else x for x in inputs]
        in_dims = tuple([0 if is_batched(x, level) else None for x in inputs])
        output = _generated_function(base, cls).apply(level.size, level.randomness, in_dims, *below)
        return _wrap(level, output, 0)
    if not cls._has_vmap():
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement "
            f"the vmap staticmethod or set generate_vmap_rule=True. {_MORE}"
        )
    below = _map_nested(lambda x: _unwrapped_input(x, level)[0], args)
    in_dims = _map_nested(lambda x: _unwrapped_input(x, level)[1], args)
    output, out_dims = _checked_result(cls.vmap(VmapInfo(level.size, level.randomness), in_dims, *below, **kwargs))
    return _wrap(level, output, out_dims)


def _map_nested(function: Any, nest: Any) -> Any:
    """A nest of tuples, lists and dictionaries with ``function`` applied to its leaves."""
    if isinstance(nest, dict):
        return {key: _map_nested(function, value) for key, value in nest.items()}
    if type(nest) in (tuple, list):
        return type(nest)([_map_nested(function, value) for value in nest])
    return function(nest)


def _unwrapped_input(x: Any, level: Any) -> tuple[Any, int | None]:
    """(the wrapped tensor, the dim of the batch in it); (``x``, None) for what has no batch."""
    if not is_batched(x, level):
        return x, None
    found: tuple[Any, int | None] = x.value_and_dim() if x._level is level else (batch_first(x, level), 0)
    return found


def _checked_result(found: Any) -> tuple[Any, Any]:
    """(output, out_dims), as a user's ``vmap`` must return them."""
    if not (isinstance(found, tuple) and len(found) == 2):
        got = f"{len(found)} returns" if isinstance(found, tuple) else f"a {type(found)}"
        raise RuntimeError(
            "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure "
            f"compatible with the output. Got {got} instead"
        )
    if not _fits(found[1], found[0]):
        raise RuntimeError(
            "The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) tuple. Expected "
            f"out_dims={found[1]} to be compatible with the structure of `output`. {_MORE}"
        )
    return found


def _fits(dims: Any, output: Any) -> bool:
    """Whether there is a dim for each output: one for all, or a nest like theirs."""
    if not isinstance(dims, (tuple, list)):
        return True
    return type(dims) is type(output) and len(dims) == len(output) and all(map(_fits, dims, output))


def _wrap(level: Level, output: Any, dims: Any) -> Any:
    """Outputs with their batch at ``dims``, a nest like theirs or one dim for all, as batched tensors."""
    if isinstance(output, (tuple, list)):
        each = dims if isinstance(dims, (tuple, list)) else [dims] * len(output)
        return type(output)([_wrap(level, o, d) for o, d in zip(output, each, strict=True)])
    if not isinstance(output, Tensor) or dims is None:
        return output
    return batched(level, output.movedim(dims, 0) if dims else output)


def _unwrap(values: Any, level: Level) -> Any:
    """Outputs with their batch as dim 0; those without one are expanded."""
    if isinstance(values, (tuple, list)):
        return type(values)([_unwrap(v, level) for v in values])
    return batch_first(values, level)


class _SampleCtx:
    """The ``ctx`` that the user's forward and backward see: it wraps and unwraps what the real ctx keeps."""

    def __init__(self, outer: Any, level: Level, outputs: dict[int, Tensor]):
        # Weakly, since the real ctx holds this one, and graphs are freed by reference counts alone.
        self.outer, self.level = weakref.proxy(outer), level
        self.outputs = outputs  # {id of a wrapped input or output: the tensor that it wraps}
        self.saved_flags: tuple[bool, ...] = ()  # which of the saved tensors are wrapped again when they are read
        self.forward_flags: tuple[bool, ...] = ()  # the same for save_for_forward

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors for backward, unwrapped."""
        self.saved_flags, kept = _unwrap_saved(tensors, self.level)
        self.outer.save_for_backward(*kept)

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors for jvp, unwrapped."""
        self.forward_flags, kept = _unwrap_saved(tensors, self.level)
        self.outer.save_for_forward(*kept)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What was saved, wrapped as it was."""
        flags = self.saved_flags if self.outer.saved_for_forward is None else self.forward_flags
        pairs = zip(self.outer.saved_tensors, flags, strict=True)
        return tuple([batched(self.level, t) if flag else t for t, flag in pairs])

    @property
    def saved_for_forward(self) -> Any:
        """What ``saved_tensors`` is while jvp runs; None at other times."""
        return self.outer.saved_for_forward

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:
        """Which inputs require grad."""
        return self.outer.needs_input_grad[3:]  # after size, randomness and in_dims, the generated Function's own

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Name outputs that need no gradient."""
        self.outer.mark_non_differentiable(*[self.outputs[id(t)] for t in tensors])

    def mark_dirty(self, *tensors: Any) -> None:
        """Name inputs that forward wrote into."""
        self.outer.mark_dirty(*[self.outputs[id(t)] for t in tensors])

    def set_materialize_grads(self, value: bool) -> None:
        """Say whether backward gets zeros or None where no gradient arrived."""
        self.outer.set_materialize_grads(value)


def _unwrap_saved(tensors: Sequence[Any], level: Level) -> tuple[tuple[bool, ...], list[Any]]:
    """(which tensors have a batch at ``level``, the tensors with that batch as dim 0)."""
    flags = tuple([is_batched(t, level) for t in tensors])
    return flags, [batch_first(t, level) if flag else t for t, flag in zip(tensors, flags, strict=True)]


def _generated_function(base: Any, cls: Any) -> Any:
    """The generated Function of ``cls``, made once: it takes (size, randomness, in_dims, *inputs)."""
    if "_vmapped" not in vars(cls):
        cls._vmapped = _generate_function(base, cls)
    return cls._vmapped


def _generate_function(base: Any, cls: Any) -> Any:
    class Generated(base):
        generate_vmap_rule = True  # for an outer vmap

        @staticmethod
        def forward(size: int, randomness: str, in_dims: Any, *inputs: Any) -> Any:
            with Batch(size, randomness) as level:
                return _unwrap(cls.forward(*_wrap(level, inputs, in_dims)), level)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            size, randomness, in_dims, *given = inputs
            with Batch(size, randomness) as level:
                wrapped, out = _wrap(level, tuple(given), in_dims), _wrap(level, output, 0)
                outs, below = (out, output) if isinstance(out, tuple) else ((out,), (output,))
                pairs = [*zip(outs, below, strict=True), *zip(wrapped, given, strict=True)]
                ctx.sample = _SampleCtx(ctx, level, {id(a): b for a, b in pairs if isinstance(a, Tensor)})
                ctx.batch = (size, randomness, in_dims)
                cls.setup_context(ctx.sample, wrapped, out)
                ctx.sample.outputs.clear()

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            size, randomness, in_dims = ctx.batch
            with Batch(size, randomness) as level:
                ctx.sample.level = level
                found = cls.backward(ctx.sample, *_wrap(level, grads, 0))
                found = found if isinstance(found, tuple) else (found,)
                pairs = zip(found, in_dims, strict=True)
                return (None, None, None, *[_gradient(g, dim, level) for g, dim in pairs])

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            size, randomness, in_dims = ctx.batch
            with Batch(size, randomness) as level:
                ctx.sample.level = level
                return _unwrap(cls.jvp(ctx.sample, *_wrap(level, tangents[3:], in_dims)), level)

    Generated.__name__ = Generated.__qualname__ = name = f"Vmapped{cls.__name__}"
    Generated._backward_cls.__name__ = Generated._backward_cls.__qualname__ = f"{name}Backward"
    return Generated


def _gradient(g: Any, dim: int | None, level: Level) -> Any:
    """The gradient of an input: with the batch as dim 0, or summed over the samples if they share the input."""
    if not isinstance(g, Tensor):
        return g
    if dim is not None:
        return batch_first(g, level)
    return batch_first(g, level).sum(0)
