"""kernel_pair: a user's op from a forward loop and a backward loop."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import intern
from jitgrad.core.node import Node, edge_of, next_sequence_number
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.copying import fill_array
from jitgrad.dispatch.structured import Structured
from jitgrad.dispatch.structured_recorder import StructuredNode
from jitgrad.kernels.cuda.provider import user_kernel
from jitgrad.kernels.launch import Loop, launch
from jitgrad.kernels.launch import loop as make_loop
from jitgrad.ops.shape.copy import cast, contiguous

__all__ = ["KernelPair", "kernel_pair"]

Shape = tuple[int, ...]


def kernel_pair(
    forward: Callable[..., None] | None = None, backward: Callable[..., None] | None = None, *,
    shape: Callable[..., Any] | None = None, dtype: Any = None, rule: Callable[..., Any] | None = None,
    name: str = "", cuda: Sequence[Callable[..., None]] | None = None,
) -> Any:  # fmt: skip
    """Make an op of two loops over arrays, compiled by Numba.

    ``forward(x, alpha, out)`` reads tensors and numbers and writes its outputs: the parameters whose
    names start with ``out``. ``backward(g, alpha, grad_x)`` names what it needs (``g``, the outputs'
    gradients; with several outputs ``g_NAME`` for ``out_NAME``; inputs and outputs, which are then
    saved) and adds to ``grad_INPUT``, which starts at zero. All arrays are contiguous.

    shape: ``shape(x, alpha)``, called with shapes for tensors, returns the output's shape (a list of
    shapes for several); by default that of the first tensor. dtype: the outputs' dtype; by default the
    inputs' common one. rule: the backward in differentiable tensor ops, with parameters like
    ``backward``'s without the ``grad_`` ones, returning the gradient (or a tuple, in the order of
    ``backward``'s ``grad_`` parameters); needed only to differentiate twice. cuda: the pair as
    numba.cuda loops, for tensors on a GPU.

    Also a decorator: ``@kernel_pair`` on forward, then ``@NAME.backward`` and ``@NAME.rule``.
    """
    if forward is None:
        return lambda function: kernel_pair(function, backward, shape=shape, dtype=dtype, rule=rule,
                                            name=name, cuda=cuda)  # fmt: skip
    pair = KernelPair(forward, shape, dtype, name or forward.__name__, cuda)
    if backward is not None:
        pair.backward(backward)
    if rule is not None:
        pair.rule(rule)
    return pair


class _Undifferentiable(Node):
    """The node of gradients that a loop computed without a rule: it raises when one differentiates through them."""

    origin = ""

    def vjp(self, *grads: Any) -> Any:
        raise RuntimeError(
            f"trying to differentiate twice a function that was marked with @once_differentiable: the backward of "
            f"{self.origin!r} is a loop; give kernel_pair a rule= in tensor ops to differentiate it again"
        )


def _checked(function: Callable[..., None]) -> Loop:
    """The loop as a kernel, parsed now and not at the first launch: errors in it are raised where it is declared."""
    kernel: Loop = make_loop(function)
    kernel.source.tree  # noqa: B018
    return kernel


class KernelPair:
    """A callable op made by ``kernel_pair``."""

    def __init__(self, forward: Callable[..., None], shape: Any, dtype: Any, name: str, cuda: Any):
        self.name, self.shape, self.dtype, self.cuda = name, shape, dtype, cuda
        self.__doc__ = forward.__doc__ or f"User-defined op {name}."
        self.__name__ = name
        self.forward_kernel: Loop = _checked(forward)
        parameters = self.forward_kernel.source.parameters
        self.outputs = [p for p in parameters if p.startswith("out")]
        self.inputs = [p for p in parameters if not p.startswith("out")]
        if not self.outputs:
            raise TypeError(f"{name}: no output parameter; name what the loop writes 'out' or 'out_...'")
        self.backward_kernel: Loop | None = None
        self.tensor_rule: Callable[..., Any] | None = None
        self.op = self._declare()

    def __repr__(self) -> str:
        return f"<kernel_pair {self.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the op."""
        return self.op.apply(*args, **kwargs)

    def backward(self, function: Callable[..., None]) -> KernelPair:
        """Set the backward loop; usable as a decorator."""
        self.backward_kernel = _checked(function)
        self.op = self._declare()
        return self

    def rule(self, function: Callable[..., Any]) -> KernelPair:
        """Set the backward in tensor ops, for ``create_graph=True``; usable as a decorator."""
        self.tensor_rule = function
        self.op = self._declare()
        return self

    # -- the declaration ----------------------------------------------------------------------

    def _declare(self) -> type[Structured]:
        """The op as a structured one, whose forward and backward launch the loops.

        What nodes of a structured op save is read from the signatures of ``grad_INPUT``. Here all of these ask for what
        the one backward loop names, and for the layouts of the gradients that it fills; ``kernels`` computes them all.
        """
        body: dict[str, Any] = {"__doc__": self.__doc__, "name": self.name}
        title = "".join(part.capitalize() for part in self.name.split("_"))
        body |= {"grad_name": f"{title}Backward", "multiple_results": len(self.outputs) > 1}
        body["forward"] = _with_parameters(self._forward, self.inputs)
        if self.backward_kernel is not None:
            self._check_backward()
            needed, layouts = self._saved_names()
            for name in self._wanted():
                body[f"grad_{name}"] = _with_parameters(self._missing, ["g", *needed, *layouts])
            body["kernels"] = _with_parameters(self._backward, ["g", *needed, *layouts])
        # Not listed among jitgrad's ops: a user's may have the name of one of them.
        op: type[Structured] = type(title, (Structured,), body, listed=False)
        op.node_type = type(op.grad_name, (_PairNode,), {"op": op, "pair": self})
        return op

    def _wanted(self) -> list[str]:
        """The inputs that the backward loop computes gradients of, in the order of its parameters."""
        assert self.backward_kernel is not None
        return [p.removeprefix("grad_") for p in self.backward_kernel.source.parameters if p.startswith("grad_")]

    def _backward_inputs(self) -> list[str]:
        """What the backward loop reads; "out" for any output, because a node saves its outputs together."""
        assert self.backward_kernel is not None
        names = [p for p in self.backward_kernel.source.parameters if not p.startswith("grad_")]
        return ["out" if p in self.outputs else p for p in names]

    def _saved_names(self) -> tuple[list[str], list[str]]:
        """What backward needs: arguments and outputs, and layouts."""
        needed = [p for p in dict.fromkeys(self._backward_inputs()) if p in (*self.inputs, "out")]
        return needed, [*(f"{n}_layout" for n in self._wanted()), "out_layout"]

    def _check_backward(self) -> None:
        gradients = ["g"] if len(self.outputs) == 1 else [f"g_{o.removeprefix('out_')}" for o in self.outputs]
        known = {*gradients, *self.inputs, *self.outputs, *(f"grad_{n}" for n in self.inputs)}
        assert self.backward_kernel is not None
        for p in self.backward_kernel.source.parameters:
            if p not in known:
                raise TypeError(f"{self.name}: backward's parameter {p!r} is unknown; it may name {sorted(known)}")

    # -- running --------------------------------------------------------------------------------

    def _forward(self, *args: Any) -> Any:
        given = dict(zip(self.inputs, args, strict=True))
        tensors = [a for a in args if isinstance(a, Tensor)]
        if not tensors:
            raise TypeError(f"{self.name}(): expected at least one Tensor argument, but got {len(args)} without any")
        # Tensors with dims decide on the dtype before those without, as for any op.
        common = self.dtype or dtypes.promote(
            [t.dtype for t in tensors if t.ndim], [t.dtype for t in tensors if not t.ndim], []
        )
        outs = [self._zeros(s, common, tensors[0]) for s in self._shapes(given)]
        values = {n: _loop_argument(v, common) for n, v in given.items()}
        values |= {n: o._data for n, o in zip(self.outputs, outs, strict=True)}
        kernel = self._kernel(0, tensors[0])
        launch(kernel, *[values[p] for p in self.forward_kernel.source.parameters])
        return tuple(outs) if len(outs) > 1 else outs[0]

    def _kernel(self, direction: int, like: Tensor) -> Any:
        if like._layout.device == "cpu":
            return (self.forward_kernel, self.backward_kernel)[direction]
        if self.cuda is None:
            raise NotImplementedError(
                f"{self.name}: has no CUDA loops; pass kernel_pair(..., cuda=(forward, backward))"
            )
        return user_kernel(self.cuda[direction])

    def _shapes(self, given: dict[str, Any]) -> list[Shape]:
        described = {n: tuple(v.shape) if isinstance(v, Tensor) else v for n, v in given.items()}
        if self.shape is None:
            first = next(v for n, v in described.items() if isinstance(given[n], Tensor))
            return [first] * len(self.outputs)
        shapes = self.shape(**described)
        if len(self.outputs) == 1:
            return [tuple(shapes) if not isinstance(shapes, int) else (shapes,)]
        return [tuple(s) for s in shapes]

    @staticmethod
    def _zeros(shape: Shape, dtype: dtypes.dtype, like: Tensor) -> Tensor:
        layout = intern(dtype.numpy, tuple(shape), None, like._layout.device)
        out = wrap(empty_for(layout), layout)
        fill_array(out._data, layout, 0)
        return out

    def _backward(self, g: Any, *saved: Any) -> dict[str, Any]:
        assert self.backward_kernel is not None
        needed, layouts = self._saved_names()
        values = dict(zip([*needed, *layouts], saved, strict=True))
        several = len(self.outputs) > 1
        given, outs = (g, values.get("out")) if several else ([g], [values.get("out")])
        like = next(t for t in given if t is not None)
        arrays: dict[str, Any] = {}
        for k, (o, layout) in enumerate(zip(self.outputs, values["out_layout"], strict=True)):
            name = f"g_{o.removeprefix('out_')}" if several else "g"
            arrays[name] = given[k] if given[k] is not None else self._zeros(layout.shape, layout.dtype, like)
            arrays[o] = outs[k] if outs is not None else None
        arrays |= {n: values[n] for n in needed if n != "out"}
        grads = {}
        for n in self._wanted():
            layout = values[f"{n}_layout"]
            grads[n] = arrays[f"grad_{n}"] = self._zeros(layout.shape, like.dtype, like)
        call = [_loop_argument(arrays[p], like.dtype) for p in self.backward_kernel.source.parameters]
        launch(self._kernel(1, like), *call)
        return {n: cast(t, values[f"{n}_layout"].dtype) for n, t in grads.items()}

    def _missing(self, *saved: Any) -> Any:
        """Stands for the rules that a structured op has; only its signature is read."""
        raise AssertionError("a kernel_pair's node differentiates through its rule or not at all")


def _loop_argument(value: Any, dtype: dtypes.dtype) -> Any:
    """A loop's argument: the contiguous array of a tensor, cast if floating-point or complex, or a Python number."""
    if isinstance(value, Tensor):
        floats = value.dtype.category >= 2 and dtype.category >= 2
        return contiguous(cast(value.detach(), dtype) if floats else value.detach())._data
    if isinstance(value, (int, float, bool, complex, np.generic)):
        return value.item() if isinstance(value, np.generic) else value
    raise TypeError(f"a loop takes tensors and numbers, but got {type(value).__name__}")


def _with_parameters(function: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """The function with a signature of its own: a declaration's names of parameters are what its op goes by."""
    def call(*args: Any) -> Any:
        return function(*args)

    kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD
    call.__signature__ = inspect.Signature([inspect.Parameter(n, kinds) for n in names])  # type: ignore[attr-defined]
    return call


class _PairNode(StructuredNode):
    """A recorded kernel_pair; its recorded backward is the rule, or ends the graph."""

    pair: KernelPair

    def vjp_recorded(self, *grads: Any) -> tuple[Any, ...]:
        pair = self.pair
        if pair.tensor_rule is None:
            return self._ended(grads)
        values = {**self.values(), "g": grads if pair.op.multiple_results else grads[0]}
        if pair.op.multiple_results:
            outs = values.get("out", ())
            values |= {f"g_{o.removeprefix('out_')}": g for o, g in zip(pair.outputs, grads, strict=True)}
            values |= dict(zip(pair.outputs, outs, strict=False))
        found = pair.tensor_rule(*[values[p] for p in inspect.signature(pair.tensor_rule).parameters])
        found = found if isinstance(found, (tuple, list)) else (found,)
        by_name = dict(zip(pair._wanted(), found, strict=True))
        return tuple(by_name[n] if n in self.recorder.wants else None for n in pair.op.grads)

    def _ended(self, grads: Any) -> tuple[Any, ...]:
        """The gradients, computed by the loop and without history, behind a node that raises when it is run."""
        before = grad_state.enabled
        grad_state.enabled = False
        try:
            results = self.vjp(*grads)
        finally:
            grad_state.enabled = before
        node = _Undifferentiable()
        node.origin = self.pair.name
        node.edges = tuple(edge_of(g) for g in grads if g is not None)
        node.sequence_number = next_sequence_number()
        for r in results:
            if r is not None:
                r._edge, r._requires_grad = node, True
        return results
