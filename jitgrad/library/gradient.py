"""The node of a custom op, with the backward that ``register_autograd`` was given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.autograd import Function
from jitgrad.core.tensor import Tensor

__all__ = ["function_of"]


class _Call:
    """One call: its arguments with places for their tensors, which the Function gets one by one."""

    def __init__(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]):
        self.op, self.args, self.kwargs = op, args, kwargs
        self.flat: list[Any] = []
        for value in args:
            self.flat += value if self.is_list(value) else [value]
        self.needed: Any = None  # which arguments need a gradient, once it is known
        self.listed = False  # whether the op has returned a list

    @staticmethod
    def is_list(value: Any) -> bool:
        """Whether an argument is a list with tensors."""
        return isinstance(value, (list, tuple)) and any(isinstance(x, Tensor) for x in value)

    def gathered(self, flat: Any) -> tuple[Any, ...]:
        """What is given for each item of ``flat``, in lists where the arguments are lists."""
        found, items = [], iter(flat)
        for value in self.args:
            if self.is_list(value):
                found.append(type(value)([next(items) for _ in value]) if type(value) in (list, tuple) else
                             [next(items) for _ in value])  # fmt: skip
            else:
                found.append(next(items))
        return tuple(found)

    def spread(self, grads: Any) -> list[Any]:
        """Gradients of arguments as one for each tensor of them."""
        flat: list[Any] = []
        for value, grad in zip(self.args, grads, strict=True):
            if not self.is_list(value):
                flat.append(grad)
            else:
                flat += [None] * len(value) if grad is None else grad
        return flat


def function_of(op: Any) -> Callable[[tuple[Any, ...], dict[str, Any]], Any]:
    """A function of (args, kwargs) that applies the op as one node."""

    def forward(*inputs: Any) -> Any:
        *flat, call = inputs
        out = op.compute(call.gathered(flat), call.kwargs)
        call.listed = isinstance(out, list)
        return tuple(out) if call.listed else out

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        *flat, ctx._call = inputs
        if op.setup_context is None:
            return
        call = ctx._call
        named = {"keyword_only_inputs": call.kwargs} if call.kwargs else {}
        op.setup_context(ctx=ctx, inputs=call.gathered(flat), **named, output=list(output) if call.listed else output)

    def backward(ctx: Any, *grads: Any) -> Any:
        call = ctx._call
        if op.backward is None:
            raise RuntimeError(
                f"Trying to backward through {op} but no autograd formula was registered. Please use "
                "register_autograd to add one."
            )
        if call.needed is None:  # backward may run more than once
            call.needed = ctx.needs_input_grad = call.gathered(ctx.needs_input_grad[:-1])
        result = op.backward(ctx, list(grads)) if call.listed else op.backward(ctx, *grads)
        result = result if isinstance(result, tuple) else (result,)
        if len(result) != len(call.args):
            raise RuntimeError(
                f"Expected the return from backward to be of the same structure as the inputs. Got: {len(result)} "
                f"gradients for {len(call.args)} inputs of {op}"
            )
        return (*call.spread(result), None)

    members: dict[str, Any] = {"forward": forward, "setup_context": setup_context, "backward": backward}
    if op.vmap is not None:
        members["vmap"] = lambda info, in_dims, *inputs: _batched(op, info, in_dims, inputs)
    else:
        members["generate_vmap_rule"] = True
    statics = {n: staticmethod(f) if callable(f) else f for n, f in members.items()}
    kind = type(f"GeneratedBackwardFor_{op.namespace}_{op.schema.name}_default", (Function,), statics)

    def apply(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = _Call(op, args, kwargs)
        out = kind.apply(*call.flat, call)  # type: ignore[attr-defined]
        return list(out) if call.listed else out

    return apply


def _batched(op: Any, info: Any, in_dims: Any, inputs: Any) -> Any:
    *flat, call = inputs
    return op.vmap(info, call.gathered(in_dims[:-1]), *call.gathered(flat), **call.kwargs)
