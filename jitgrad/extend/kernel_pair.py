"""kernel_pair: a user's op from a forward loop and a backward loop."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from jitgrad.core import dtypes
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import Layout, intern
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.copying import fill_array
from jitgrad.dispatch.structured import Structured
from jitgrad.extend.pair_loop import PairLoop
from jitgrad.extend.pair_node import PairNode
from jitgrad.kernels.codegen.source import LoopSource
from jitgrad.kernels.user_loop import UserLoop
from jitgrad.ops.shape.copy import cast

__all__ = ["KernelPair", "kernel_pair"]

Shape = tuple[int, ...]


def kernel_pair(
    forward: Callable[..., None] | None = None, backward: Callable[..., None] | None = None, *,
    shape: Callable[..., Any] | None = None, dtype: Any = None, rule: Callable[..., Any] | None = None,
    name: str = "", cuda: Sequence[Callable[..., None]] | None = None, nondifferentiable: Sequence[str] = (),
    check: bool | None = None, parallel: bool = False,
) -> Any:  # fmt: skip
    """Make an op of two loops over arrays, compiled by Numba.

    ``forward(x, alpha, out)`` reads tensors and numbers and writes its outputs: the parameters whose
    names start with ``out``. ``backward(g, alpha, grad_x)`` names what it needs (``g``, the outputs'
    gradients; with several outputs ``g_NAME`` for ``out_NAME``; inputs and outputs, which are then
    saved) and adds to ``grad_INPUT``, which starts at zero. All arrays are contiguous; inputs may not
    be written to. The only element of a 0-d array is ``x[()]``.

    shape: ``shape(x, alpha)``, called with shapes for tensors, returns the output's shape (a list of
    shapes for several); by default that of the first tensor. dtype: the outputs' dtype; by default the
    inputs' common one. rule: the backward in differentiable tensor ops, with parameters like
    ``backward``'s without the ``grad_`` ones, returning the gradient (or a tuple, in the order of
    ``backward``'s ``grad_`` parameters); needed only to differentiate twice. cuda: the pair as
    numba.cuda loops, for tensors on a GPU.

    nondifferentiable: inputs that count as constants even if they require grad. Any other input that
    requires grad must have a ``grad_INPUT``, or the call is refused; without a backward loop, backward is.

    check: whether indices are compared with the arrays' sizes; an index beyond them raises IndexError,
    where an unchecked one reads or overwrites foreign memory. By default the first call with each
    combination of dtypes, shapes and values of whole numbers is checked, and later ones are not: enough
    where nothing else decides on the indices. True: every call, for indices that are computed from
    elements or floats. False: none.

    parallel: the rows of ``for i in numba.prange(n)``, the loop's last statement, are shared among
    threads. They must be independent. Otherwise ``prange`` is ``range``.

    Also a decorator: ``@kernel_pair`` on forward, then ``@NAME.backward`` and ``@NAME.rule``.
    """
    if forward is None:
        return lambda function: kernel_pair(
            function, backward, shape=shape, dtype=dtype, rule=rule, name=name, cuda=cuda,
            nondifferentiable=nondifferentiable, check=check, parallel=parallel,
        )  # fmt: skip
    pair = KernelPair(forward, shape, dtype, name or forward.__name__, cuda, nondifferentiable, check, parallel)
    if backward is not None:
        pair.backward(backward)
    if rule is not None:
        pair.rule(rule)
    return pair


class KernelPair:
    """A callable op made by ``kernel_pair``."""

    def __init__(
        self, forward: Callable[..., None], shape: Any, dtype: Any, name: str, cuda: Any,
        nondifferentiable: Sequence[str], check: bool | None, parallel: bool,
    ):  # fmt: skip
        self.name, self.shape, self.dtype, self.cuda = name, shape, dtype, cuda
        self.check, self.parallel = check, parallel
        self.__doc__ = forward.__doc__ or f"User-defined op {name}."
        self.__name__ = name
        parameters = LoopSource(forward).parameters
        self.outputs = [p for p in parameters if p.startswith("out")]
        self.inputs = [p for p in parameters if not p.startswith("out")]
        self.nondifferentiable = tuple(nondifferentiable)
        self._check_names()
        self.forward_loop = self._loop(forward, self.outputs)
        self.backward_loop: PairLoop | None = None
        self.tensor_rule: Callable[..., Any] | None = None
        self.op = self._declare()

    def __repr__(self) -> str:
        return f"<kernel_pair {self.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the op."""
        return self.op.apply(*args, **kwargs)

    def backward(self, function: Callable[..., None]) -> KernelPair:
        """Set the backward loop; usable as a decorator."""
        parameters = LoopSource(function).parameters
        self._check_backward(parameters)
        self.backward_loop = self._loop(function, [p for p in parameters if p.startswith("grad_")])
        self.op = self._declare()
        return self

    def rule(self, function: Callable[..., Any]) -> KernelPair:
        """Set the backward in tensor ops, for ``create_graph=True``; usable as a decorator."""
        self.tensor_rule = function
        self.op = self._declare()
        return self

    # -- the declaration ----------------------------------------------------------------------

    def _loop(self, function: Callable[..., None], outputs: Sequence[str]) -> PairLoop:
        return PairLoop(self.name, UserLoop(function, outputs, self.parallel), self.check)

    def _declare(self) -> type[Structured]:
        """The op as a structured one, whose forward and backward launch the loops.

        What nodes of a structured op save is read from the signatures of ``grad_INPUT``. Here all of these ask for what
        the one backward loop names, and for the layouts of the gradients that it fills; ``kernels`` computes them all.
        """
        body: dict[str, Any] = {"__doc__": self.__doc__, "name": self.name}
        title = "".join(part.capitalize() for part in self.name.split("_"))
        body |= {"grad_name": f"{title}Backward", "multiple_results": len(self.outputs) > 1}
        body["forward"] = _with_parameters(self._forward, self.inputs)
        if self.backward_loop is not None:
            needed, layouts = self._saved_names()
            for name in self.wanted():
                body[f"grad_{name}"] = _with_parameters(self._missing, ["g", *needed, *layouts])
            body["kernels"] = _with_parameters(self._backward, ["g", *needed, *layouts])
        else:
            for name in self.wanted():
                body[f"grad_{name}"] = _with_parameters(self._no_backward, ["g"])
        # Not listed among jitgrad's ops: a user's may have the name of one of them.
        op: type[Structured] = type(title, (Structured,), body, listed=False)
        op.node_type = type(op.grad_name, (PairNode,), {"op": op, "pair": self})
        # Inputs that may not require grad, by place.
        known = {*self.wanted(), *self.nondifferentiable}
        self._without_gradient = [(k, n) for k, n in enumerate(self.inputs) if n not in known]
        return op

    def wanted(self) -> list[str]:
        """The inputs with a gradient, in the order of the backward's parameters; without a backward all that may."""
        if self.backward_loop is None:
            return [n for n in self.inputs if n not in self.nondifferentiable]
        return [p.removeprefix("grad_") for p in self.backward_loop.parameters if p.startswith("grad_")]

    def _saved_names(self) -> tuple[list[str], list[str]]:
        """What backward needs: arguments and outputs ("out" for any, as a node saves them together), and layouts."""
        assert self.backward_loop is not None
        names = ["out" if p in self.outputs else p for p in self.backward_loop.parameters]
        needed = [p for p in dict.fromkeys(names) if p in (*self.inputs, "out")]
        return needed, [*(f"{n}_layout" for n in self.wanted()), "out_layout"]

    def _check_names(self) -> None:
        if not self.outputs:
            raise TypeError(f"{self.name}: no output parameter; name what the loop writes 'out' or 'out_...'")
        for n in self.inputs:
            if n.startswith("grad_"):
                raise TypeError(f"{self.name}: the input {n!r} has a name that means a gradient; give it another one")
        for n in self.nondifferentiable:
            if n not in self.inputs:
                raise TypeError(f"{self.name}: nondifferentiable names {n!r}, but the inputs are {self.inputs}")

    def _check_backward(self, parameters: Sequence[str]) -> None:
        gradients = ["g"] if len(self.outputs) == 1 else [f"g_{o.removeprefix('out_')}" for o in self.outputs]
        known = {*gradients, *self.inputs, *self.outputs, *(f"grad_{n}" for n in self.inputs)}
        for p in parameters:
            if p not in known:
                raise TypeError(f"{self.name}: backward's parameter {p!r} is unknown; it may name {sorted(known)}")
            if p in gradients and p in self.inputs:
                raise TypeError(f"{self.name}: {p!r} is an input and an output's gradient; give the input another name")
            if p.removeprefix("grad_") in self.nondifferentiable and p.startswith("grad_"):
                raise TypeError(f"{self.name}: backward has {p!r}, but nondifferentiable names its input")
        if not any(p.startswith("grad_") for p in parameters):
            raise TypeError(f"{self.name}: backward has no output; name what it writes, such as grad_{self.inputs[0]}")

    # -- running --------------------------------------------------------------------------------

    def _forward(self, *args: Any) -> Any:
        tensors = [a for a in args if isinstance(a, Tensor)]
        if not tensors:
            raise TypeError(f"{self.name}(): expected at least one Tensor argument, but got {len(args)} without any")
        if self._without_gradient and grad_state.enabled:
            self._refuse_constants(args)
        # Tensors with dims decide on the dtype before those without, as for any op.
        common = self.dtype or dtypes.promote(
            [t.dtype for t in tensors if t.ndim], [t.dtype for t in tensors if not t.ndim], []
        )
        device = tensors[0]._layout.device
        outs = [_zeros(intern(common.numpy, s, None, device)) for s in self._shapes(args, tensors[0])]
        values = dict(zip(self.inputs, args, strict=True)) | dict(zip(self.outputs, outs, strict=True))
        loop = self.forward_loop
        loop.launch([values[p] for p in loop.parameters], common, self.cuda and self.cuda[0])
        return tuple(outs) if len(outs) > 1 else outs[0]

    def _refuse_constants(self, args: Sequence[Any]) -> None:
        for k, name in self._without_gradient:
            if isinstance(args[k], Tensor) and args[k]._requires_grad:
                raise RuntimeError(
                    f"The function '{self.name}' is not differentiable with respect to argument '{name}'. This input "
                    f"cannot have requires_grad True. Give its backward loop a parameter grad_{name}, or declare that "
                    f"the input counts as a constant: kernel_pair(..., nondifferentiable=({name!r},))"
                )

    def _shapes(self, args: Sequence[Any], first: Tensor) -> list[Shape]:
        if self.shape is None:
            return [first._layout.shape] * len(self.outputs)
        described = [tuple(v.shape) if isinstance(v, Tensor) else v for v in args]
        shapes = self.shape(**dict(zip(self.inputs, described, strict=True)))
        if len(self.outputs) == 1:
            return [tuple(shapes) if not isinstance(shapes, int) else (shapes,)]
        return [tuple(s) for s in shapes]

    def _backward(self, g: Any, *saved: Any) -> dict[str, Any]:
        assert self.backward_loop is not None
        needed, layouts = self._saved_names()
        values = dict(zip([*needed, *layouts], saved, strict=True))
        several = len(self.outputs) > 1
        given, outs = (g, values.get("out")) if several else ([g], [values.get("out")])
        like = next(t for t in given if t is not None)
        arrays: dict[str, Any] = {}
        for k, (o, layout) in enumerate(zip(self.outputs, values["out_layout"], strict=True)):
            name = f"g_{o.removeprefix('out_')}" if several else "g"
            arrays[name] = given[k] if given[k] is not None else _zeros(layout)
            arrays[o] = outs[k] if outs is not None else None
        arrays |= {n: values[n] for n in needed if n != "out"}
        grads = {}
        for n in self.wanted():
            layout = values[f"{n}_layout"]  # None for a number: what its gradient is written into is dropped
            shape = layout.shape if layout is not None else ()
            made = arrays[f"grad_{n}"] = _zeros(intern(like._layout.numpy_dtype, shape, None, like._layout.device))
            if layout is not None:
                grads[n] = made
        loop = self.backward_loop
        loop.launch([arrays[p] for p in loop.parameters], like.dtype, self.cuda and self.cuda[1])
        return {n: cast(t, values[f"{n}_layout"].dtype) for n, t in grads.items()}

    def _no_backward(self, g: Any) -> NoReturn:
        """Stands for the rules of a pair without a backward loop."""
        raise RuntimeError(
            f"Trying to backward through {self.name} but no autograd formula was registered. Give kernel_pair a "
            f"backward loop, or declare which inputs count as constants: nondifferentiable={tuple(self.inputs)!r}"
        )

    def _missing(self, *saved: Any) -> Any:
        """Stands for the rules that a structured op has; only its signature is read."""
        raise AssertionError("a kernel_pair's node differentiates through its rule or not at all")


def _zeros(layout: Layout) -> Tensor:
    """A new tensor of zeros."""
    out = wrap(empty_for(layout), layout)
    fill_array(out._data, layout, 0)
    return out


def _with_parameters(function: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """The function with a signature of its own: a declaration's names of parameters are what its op goes by."""
    def call(*args: Any) -> Any:
        return function(*args)

    kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD
    call.__signature__ = inspect.Signature([inspect.Parameter(n, kinds) for n in names])  # type: ignore[attr-defined]
    return call
