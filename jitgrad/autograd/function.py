"""Function: a user's op with a backward of its own, recorded as one node.

The node of a call is also the ``ctx`` that forward and backward see; each Function has its class of nodes
(``ScaleBackward`` for ``Scale``). Here is what users derive from and how it is applied; function_node.py has the
node, function_outputs.py makes what forward returned part of the graph.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

from jitgrad.autograd.function_node import BackwardCFunction, FunctionCtx, keep_user_attributes
from jitgrad.autograd.function_outputs import connect
from jitgrad.core.any_signature import any_signature
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.node import AccumulateGrad, Node, edge_to, next_sequence_number
from jitgrad.core.tensor import Tensor
from jitgrad.transforms.function_transforms import generated_node_class, transformed

__all__ = [
    "BackwardCFunction", "Function", "FunctionCtx", "FunctionMeta", "InplaceFunction", "NestedIOFunction",
    "once_differentiable",
]  # fmt: skip

_FORWARD = "You must implement the forward function for custom autograd.Function."
_BACKWARD = (
    "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward "
    "mode AD."
)
_BOTH = (
    "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only implement one of "
    "them."
)
_JVP = "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
_VMAP = (
    "To use autograd.Function with vmap, you must either override the vmap staticmethod or set generate_vmap_rule=True."
)
_DIFFERENTIATED_TWICE = "trying to differentiate twice a function that was marked with @once_differentiable"


class FunctionMeta(type):
    """Makes for each Function the class of its nodes."""

    def __init__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]):
        super().__init__(name, bases, body)
        documented = {"_forward_cls": cls, "__doc__": f"A recorded call of {name}, and its ctx."}
        cls._backward_cls = type(f"{name}Backward", (BackwardCFunction,), documented)


class Function(FunctionCtx, metaclass=FunctionMeta):
    """Base of ops with a backward of their own; subclasses are applied by ``apply``, never instantiated.

    class Scale(Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, g):
            return g * ctx.factor, None

    forward may do without ``ctx`` if there is a ``setup_context(ctx, inputs, output)``. Neither is
    recorded. backward gets a gradient per output and returns one per input, or None; it is recorded
    under ``create_graph=True``, so what it does with ``ctx.saved_tensors`` can be differentiated again.
    """

    _backward_cls: ClassVar[type[BackwardCFunction]]
    _generated_node_cls: ClassVar[type[BackwardCFunction]]
    generate_vmap_rule = False
    clear_saved_tensors_on_access = False
    boxed_grads_call = False

    def __init__(self, *args: Any, **kwargs: Any):
        warnings.warn(
            f"{self.__class__} should not be instantiated. Methods on autograd functions are all static, so you should "
            "invoke them on the class itself. Instantiating an autograd function will raise an error in a future "
            "version of PyTorch.", DeprecationWarning, stacklevel=2,
        )  # fmt: skip

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: a Function is applied by its class."""
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd "
            "function with static forward method. (Example: "
            "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @any_signature
    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs: ``forward(ctx, *args)``, or ``forward(*args)`` beside a ``setup_context``."""
        raise NotImplementedError(_FORWARD)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Put into ``ctx`` what backward needs, given all inputs and what forward returned."""
        raise NotImplementedError("setup_context is not implemented.")

    @any_signature
    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Return a gradient per input of forward (None where there is none), given one per output."""
        raise NotImplementedError(_BACKWARD)

    vjp = backward

    @any_signature
    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Return a tangent per output of forward, given one per input (None for what is no tensor)."""
        raise NotImplementedError(_JVP)

    @any_signature
    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        """Return (output, out_dims) for inputs that have a batch at ``in_dims``."""
        raise NotImplementedError(_VMAP)

    @classmethod
    def _has_setup_context(cls) -> bool:
        """Whether forward takes no ctx, which ``setup_context`` then fills."""
        return cls.setup_context is not Function.setup_context

    @classmethod
    def _backward_or_vjp(cls) -> Callable[..., Any]:
        """What the user wrote to be run in backward, under either name."""
        if cls.backward is not Function.backward and cls.vjp is not Function.vjp:
            raise RuntimeError(_BOTH)
        return cls.backward if cls.vjp is Function.vjp else cls.vjp

    @classmethod
    def _has_vmap(cls) -> bool:
        return cls.vmap is not Function.vmap

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call forward, and record the call if an input requires grad.

        Keyword arguments count as inputs after the positional ones. Outputs that are no tensors are
        passed on as they are.
        """
        if cls._has_setup_context():
            args, kwargs = _bind_arguments(cls.forward, args, kwargs)
        if grad_state.levels or grad_state.scope is not None:  # inside a transform; else nothing more is asked
            found = _transformed(cls, args, kwargs)
            if found is not NotImplemented:
                return found
        ctx, output = _call(cls, args, kwargs)
        ctx.saved_for_forward = None  # from now on ``saved_tensors`` is what backward is to see
        return output


def _transformed(cls: type[Function], args: Any, kwargs: Any) -> Any:
    """The result of a call inside transforms; NotImplemented if no input is wrapped."""
    return transformed(Function, cls, functools.partial(_call, cls), args, kwargs)


def _bind_arguments(forward: Callable[..., Any], args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments as forward's signature takes them, with its defaults."""
    bound = inspect.signature(forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args, bound.kwargs


def _call(cls: type[Function], args: Any, kwargs: Any) -> tuple[BackwardCFunction, Any]:
    """Run forward without recording its ops; return its ctx, and its outputs as part of the graph."""
    inputs = (*args, *kwargs.values()) if kwargs else args
    ctx = (cls._backward_cls if grad_state.scope is None else generated_node_class(cls))()
    ctx._are_tensors = are = tuple([isinstance(a, Tensor) for a in inputs])
    # By the property, not the flag: a view made under no_grad says what its base says.
    ctx.needs_input_grad = needs = tuple([t and a.requires_grad for a, t in zip(inputs, are)])
    has_setup_context = cls._has_setup_context()
    before, pushing = grad_state.enabled, grad_state.computes_tangents
    grad_state.enabled = grad_state.computes_tangents = False  # gradients and tangents are the user's to compute
    try:
        output = cls.forward(*args, **kwargs) if has_setup_context else cls.forward(ctx, *args, **kwargs)
        if has_setup_context:
            cls.setup_context(ctx, inputs, output)
    finally:
        grad_state.enabled, grad_state.computes_tangents = before, pushing
    keep_user_attributes(ctx)
    return ctx, connect(ctx, inputs, output, before and True in needs, has_setup_context)


# -- differentiable once -------------------------------------------------------------------------------


class Error(Node):
    """The node of gradients that can't be differentiated: it raises when backward reaches it."""

    def vjp(self, *grads: Any) -> tuple[Any, ...]:
        """Raise."""
        raise RuntimeError(_DIFFERENTIATED_TWICE)


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a backward whose work is not recorded: differentiating its results is a RuntimeError."""

    @functools.wraps(function)
    def wrapper(ctx: Any, *args: Any) -> Any:
        with no_grad():
            outputs = function(ctx, *args)
        wanted = grad_state.enabled and any(isinstance(a, Tensor) and a.requires_grad for a in args)
        return _behind_error(outputs) if wanted else outputs

    return wrapper


def _behind_error(outputs: Any) -> tuple[Any, ...]:
    """The same values as outputs of a node that raises."""
    node = Error()
    node.sequence_number = next_sequence_number()
    outs = outputs if isinstance(outputs, tuple) else (outputs,)
    node.edges = tuple([_unreached_leaf(o) if isinstance(o, Tensor) else None for o in outs])
    if len(outs) > 1:  # the engine's common path knows nodes of one output only
        node.n_outputs, node.special = len(outs), True
    return tuple([o._attached(edge_to(node, k)) if isinstance(o, Tensor) else o for k, o in enumerate(outs)])


def _unreached_leaf(out: Tensor) -> AccumulateGrad:
    """A leaf's node for an edge of Error. It holds its leaf, because func.grad ignores nodes whose leaf is gone."""
    node = AccumulateGrad(out)
    node._kept = out
    return node


# -- older forms ---------------------------------------------------------------------------------------


class InplaceFunction(Function):
    """A Function for code that was written for early PyTorch; use ``Function``."""

    def __init__(self, inplace: bool = False):
        super().__init__()
        self.inplace = inplace


class NestedIOFunction(Function):
    """A name that early code imports; use ``Function``, whose inputs and outputs are not nested."""
