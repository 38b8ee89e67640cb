"""kernel_pair: a user's op from a forward loop and a backward loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.structured import Structured
from jitgrad.extend.pair_backward import PairBackward, named, with_parameters, zeros_of
from jitgrad.extend.pair_loop import PairLoop
from jitgrad.extend.pair_names import PairNames
from jitgrad.extend.pair_node import PairNode
from jitgrad.extend.pair_outputs import PairOutputs
from jitgrad.kernels.codegen.source import LoopSource
from jitgrad.kernels.user_loop import UserLoop

__all__ = ["KernelPair", "declaration_observers", "kernel_pair"]

# Called with each pair that has got a backward loop or, after that, a rule.
declaration_observers: list[Callable[[Any], None]] = []


def kernel_pair(
    forward: Callable[..., None] | None = None, backward: Callable[..., None] | None = None, *,
    shape: Any = None, dtype: Any = None, rule: Callable[..., Any] | None = None, name: str = "",
    cuda: Callable[..., None] | Sequence[Callable[..., None]] | None = None, nondifferentiable: Sequence[str] = (),
    check: bool | None = None, parallel: bool = False, example: Any = None,
) -> Any:  # fmt: skip
    """Make an op of two loops over arrays, compiled by Numba.

    ``forward(x, alpha, out)`` reads tensors and numbers and writes its outputs: the parameters whose
    names start with ``out``. ``backward(g, alpha, grad_x)`` names what it needs (``g``, the outputs'
    gradients; with several outputs ``g_NAME`` for ``out_NAME``, zeros for an output that was not used;
    inputs and outputs, which are then saved) and adds to ``grad_INPUT``, which starts at zero. All
    arrays are contiguous; inputs may not be written to. The only element of a 0-d array is ``x[()]``.

    shape: what the output is like: the name of an input (that one's shape and dtype), a shape, or a
    tensor or array (its shape and dtype). Or a function that returns this, called with the shapes of
    the inputs that it names (numbers as they are): ``shape=lambda x, k: (x[0], k)``. For several
    outputs a tuple with one for each. By default the outputs have the shape of the first tensor.
    dtype: the outputs' dtype, or a tuple with one for each; None stands for what ``shape`` says, else
    the inputs' common one. Outputs of integers or bools have no gradient.

    rule: the backward in differentiable tensor ops, with parameters like ``backward``'s without the
    ``grad_`` ones, returning the gradient (or a tuple, in the order of ``backward``'s ``grad_``
    parameters); needed only to differentiate twice, and for forward mode.
    cuda: the pair as numba.cuda loops with the same parameters, for tensors on a GPU.

    nondifferentiable: inputs that count as constants even if they require grad. Any other input that
    requires grad must have a ``grad_INPUT``, or the call is refused; without a backward loop, backward is.

    check: whether indices are compared with the arrays' sizes; an index beyond them raises IndexError,
    where an unchecked one reads or overwrites foreign memory. By default the first call with each
    combination of dtypes, shapes and values of whole numbers is checked, and later ones are not, unless
    the text computes indices from elements of arrays or from floats: such a loop is checked in every
    call. True: every call, also where elements or floats decide only whether a statement runs that has
    indices. False: none.

    parallel: the rows of ``for i in numba.prange(n)``, the loop's last statement, are shared among
    threads. They must be independent. Otherwise ``prange`` is ``range``.

    example: arguments, or a function without parameters that returns a tuple of them. Where the
    environment variable ``JITGRAD_CHECK`` is 1, gradients are compared with differences of forward at
    these when the pair is declared (see ``jitgrad.testing.check_pair``).

    Also a decorator: ``@kernel_pair`` on forward, then ``@NAME.backward`` and ``@NAME.rule``.
    """
    if forward is None:
        return lambda function: kernel_pair(
            function, backward, shape=shape, dtype=dtype, rule=rule, name=name, cuda=cuda, check=check,
            nondifferentiable=nondifferentiable, parallel=parallel, example=example,
        )  # fmt: skip
    name = name or forward.__name__
    names = PairNames(name, LoopSource(forward).parameters, nondifferentiable)
    pair = KernelPair(forward, names, PairOutputs(names, shape, dtype), _cuda_pair(name, cuda), check, parallel)
    pair.example = example
    if rule is not None:  # before backward, with which the pair is complete for observers
        pair.rule(rule)
    if backward is not None:
        pair.backward(backward)
    return pair


def _cuda_pair(name: str, cuda: Any) -> tuple[Any, Any]:
    """(forward loop, backward loop), each a function or None."""
    loops = tuple(cuda) if isinstance(cuda, (tuple, list)) else (cuda,)
    if len(loops) > 2 or not all(loop is None or callable(loop) for loop in loops):
        raise TypeError(f"{name}: cuda must be a pair of loops, (forward, backward), but got {cuda!r}")
    return (*loops, None, None)[:2]


class KernelPair:
    """A callable op made by ``kernel_pair``."""

    example: Any = None

    def __init__(
        self, forward: Callable[..., None], names: PairNames, outputs: PairOutputs, cuda: tuple[Any, Any],
        check: bool | None, parallel: bool,
    ):  # fmt: skip
        self.name = self.__name__ = names.op
        self.names, self.outputs, self.cuda = names, outputs, cuda
        self.check, self.parallel = check, parallel
        self.__doc__ = forward.__doc__ or f"User-defined op {self.name}."
        self.forward_loop = self._loop(forward, names.outputs, cuda[0])
        self.backward_loop: PairBackward | None = None
        self.tensor_rule: Callable[..., Any] | None = None
        self.rule_parameters: list[str] = []
        self.op = self._declare()

    def __repr__(self) -> str:
        return f"<kernel_pair {self.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the op."""
        return self.op.apply(*args, **kwargs)

    def backward(self, function: Callable[..., None]) -> KernelPair:
        """Set the backward loop; usable as a decorator."""
        parameters = LoopSource(function).parameters
        self.names.check_backward(parameters)
        loop = self._loop(function, [p for p in parameters if p.startswith("grad_")], self.cuda[1])
        self.backward_loop = PairBackward(self.names, loop, self._refuse_tangents)
        return self._declared()

    def rule(self, function: Callable[..., Any]) -> KernelPair:
        """Set the backward in tensor ops, for ``create_graph=True``; usable as a decorator."""
        self.rule_parameters = self.names.check_rule(function)
        self.tensor_rule = function
        return self._declared()

    def wanted(self) -> list[str]:
        """The inputs with a gradient, in the order of the backward's parameters; without a backward all that may."""
        if self.backward_loop is None:
            return [n for n in self.names.inputs if n not in self.names.nondifferentiable]
        return self.backward_loop.wanted

    # -- the declaration ----------------------------------------------------------------------

    def _loop(self, function: Callable[..., None], outputs: Sequence[str], cuda: Any) -> PairLoop:
        return PairLoop(self.name, UserLoop(function, outputs, self.parallel), self.check, cuda)

    def _declared(self) -> KernelPair:
        self.op = self._declare()
        if self.backward_loop is not None:
            for observer in declaration_observers:
                observer(self)
        return self

    def _declare(self) -> type[Structured]:
        """The op as a structured one, whose forward and backward launch the loops.

        What nodes of a structured op save is read from the signatures of ``grad_INPUT``. Here all of these ask for what
        backward loop and rule name, and for layouts of the gradients; ``kernels`` computes them all.
        """
        body: dict[str, Any] = {"__doc__": self.__doc__, "name": self.name}
        title = "".join(part.capitalize() for part in self.name.split("_"))
        body |= {"grad_name": f"{title}Backward", "multiple_results": len(self.names.outputs) > 1}
        body["forward"] = with_parameters(self._forward, self.names.inputs)
        body["refuse_tangents"] = staticmethod(self._refuse_tangents)
        if self.backward_loop is not None:
            saved = self._saved = self._saved_names()
            for name in self.wanted():
                body[f"grad_{name}"] = with_parameters(self._missing, ["g", *saved])
            body["kernels"] = with_parameters(self._backward, ["g", *saved])
        else:
            for name in self.wanted():
                body[f"grad_{name}"] = with_parameters(self._no_backward, ["g"])
        # Not listed among jitgrad's ops: a user's may have the name of one of them.
        op: type[Structured] = type(title, (Structured,), body, listed=False)
        op.node_type = type(op.grad_name, (PairNode,), {"op": op, "pair": self})
        # Inputs that may not require grad, by place.
        self._known = {*self.wanted(), *self.names.nondifferentiable}
        self._without_gradient = [(k, n) for k, n in enumerate(self.names.inputs) if n not in self._known]
        return op

    def _saved_names(self) -> list[str]:
        """What backward needs: arguments and outputs ("out" for any, as a node saves them together), and layouts."""
        assert self.backward_loop is not None
        named_ = [*self.backward_loop.loop.parameters, *self.rule_parameters]
        names = ["out" if p in self.names.outputs else p for p in named_]
        needed = [p for p in dict.fromkeys(names) if p in (*self.names.inputs, "out")]
        return [*needed, *(f"{n}_layout" for n in self.wanted()), "out_layout"]

    # -- running --------------------------------------------------------------------------------

    def _forward(self, *args: Any) -> Any:
        tensors = [a for a in args if isinstance(a, Tensor)]
        if not tensors:
            raise TypeError(f"{self.name}(): expected at least one Tensor argument, but got {len(args)} without any")
        if self._without_gradient and grad_state.enabled:
            for k, name in self._without_gradient:
                if isinstance(args[k], Tensor) and args[k]._requires_grad:
                    raise self._constant(name)
        layouts, common = self.outputs.layouts(args, tensors)
        outs = [zeros_of(layout) for layout in layouts]
        values = dict(zip((*self.names.inputs, *self.names.outputs), (*args, *outs), strict=True))
        loop = self.forward_loop
        loop.launch([values[p] for p in loop.parameters], common)
        return tuple(outs) if len(outs) > 1 else outs[0]

    def _constant(self, name: str) -> RuntimeError:
        """The error of an input that requires grad, or has a tangent, and for which there is no gradient."""
        return RuntimeError(
            f"The function '{self.name}' is not differentiable with respect to argument '{name}'. This input "
            f"cannot have requires_grad True. Give its backward loop a parameter grad_{name}, or declare that "
            f"the input counts as a constant: kernel_pair(..., nondifferentiable=({name!r},))"
        )

    def _refuse_tangents(self, names: list[str]) -> None:
        for name in names:
            if name in self.names.inputs and name not in self._known:
                raise self._constant(name)
        if self.tensor_rule is None and not set(names) <= set(self.names.nondifferentiable):
            raise NotImplementedError(
                f"Trying to use forward AD with {self.name} that does not support it because its backward is a loop; "
                "give kernel_pair a rule= in tensor ops, from which tangents follow"
            )

    def _backward(self, g: Any, *saved: Any) -> dict[str, Any]:
        assert self.backward_loop is not None
        grads = g if len(self.names.outputs) > 1 else (g,)
        return self.backward_loop.run(named(self.names, grads, dict(zip(self._saved, saved, strict=True))))

    def _no_backward(self, g: Any) -> NoReturn:
        """Stands for the rules of a pair without a backward loop."""
        raise RuntimeError(
            f"Trying to backward through {self.name} but no autograd formula was registered. Give kernel_pair a "
            f"backward loop, or declare which inputs count as constants: nondifferentiable={tuple(self.names.inputs)!r}"
        )

    def _missing(self, *saved: Any) -> Any:
        """Stands for the rules that a structured op has; only its signature is read."""
        raise AssertionError("a kernel_pair's node differentiates through its rule or not at all")
