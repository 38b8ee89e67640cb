"""Function: a user's op with a backward of its own, recorded as one node.

The node of a call is the ``ctx`` that its forward and backward see, an instance of a class of its own
per Function (``ScaleBackward`` for ``Scale``). What forward returned becomes part of the graph in
``outputs.py``; here is what users write, how it is called, and what backward may return.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

from jitgrad.autograd.function_outputs import alone, connect, shaped
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.node import FREED, AccumulateGrad, Node, edge_to, next_sequence_number
from jitgrad.core.saved_tensors import SavedTensor
from jitgrad.core.tensor import Tensor
from jitgrad.ops.shape.slicing import zeros_of
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
_ONE_ACCESS = (
    "saved_tensors can only be accessed once when clear_saved_tensors_on_access=True is set on the autograd.Function. "
    "Either access saved_tensors only once, or set clear_saved_tensors_on_access=False."
)
_SHARED = (
    "`mark_shared_storage` is deprecated. Tensors with shared storages are automatically tracked. Note that calls to "
    "`set_()` are not tracked"
)
_TWICE = "trying to differentiate twice a function that was marked with @once_differentiable"


class FunctionCtx:
    """What forward tells backward: tensors that are saved, and facts about inputs and outputs."""

    to_save: Any = None
    saved_for_forward: Any = None
    dirty_tensors: Any = None
    non_differentiable: Any = None
    materialize_grads = True

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep inputs, outputs or other tensors for ``saved_tensors`` in backward, watched for writes in place."""
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for ``saved_tensors`` in ``jvp``."""
        if not all(t is None or isinstance(t, Tensor) for t in tensors):
            raise AssertionError(
                "save_for_forward expects all arguments to be tensors; you should save non-tensors as attributes on "
                "ctx."
            )
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Name the inputs that forward wrote into; it must return them."""
        self.dirty_tensors = args

    def mark_shared_storage(self, *pairs: Any) -> None:
        """Do nothing, as it has for long: tensors that share memory are known to."""
        warnings.warn(_SHARED, FutureWarning, stacklevel=2)

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Name outputs that need no gradient; backward gets zeros for them."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Say whether backward gets zeros (as it does unless told otherwise) or None where no gradient arrived."""
        if not isinstance(value, bool):
            raise TypeError(
                "set_materialize_grads received an invalid combination of arguments - got "
                f"({type(value).__name__}), but expected (bool)"
            )
        self.materialize_grads = value


class BackwardCFunction(Node, FunctionCtx):
    """The node of a Function's call, and the ``ctx`` of that call. Each Function has a subclass."""

    owned = False  # unless ``vjp`` finds otherwise
    runs_without_gradient = True
    needs_input_grad: tuple[bool, ...] = ()
    _forward_cls: ClassVar[Any]
    _materialize_non_diff_grads = True
    _are_tensors: tuple[bool, ...] = ()  # which arguments are tensors: those have edges
    _inputs: tuple[Any, ...] = ()  # layouts of the inputs that want gradients; None for others
    _outputs: tuple[Any, ...] = ()  # (layout, differentiable) of outputs; None for what is no tensor
    # Per saved: None for None, an output's number, a weak edge for a view that was written to, -1 for others.
    _origins: tuple[Any, ...] = ()
    _non_differentiable_outputs: tuple[int, ...] = ()  # outputs that are not differentiable
    _accessed = False
    _aside: dict[str, Any] | None = None  # attributes of the user's with names that the engine needs

    __repr__ = object.__repr__

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """What was saved; RuntimeError if it was written into since, or freed."""
        if self.saved_for_forward is not None:
            return self.saved_for_forward
        if self._forward_cls.clear_saved_tensors_on_access:
            return self._hand_over()
        saved = iter(self.unpack())
        return tuple([None if origin is None else self._in_graph(next(saved), origin) for origin in self._origins])

    @property
    def _raw_saved_tensors(self) -> tuple[SavedTensor, ...]:
        """What was saved, as it is kept: hooks can be put on it."""
        if self.saved is None:
            raise RuntimeError(FREED)
        places = itertools.count()
        return tuple([SavedTensor(self, None if origin is None else next(places)) for origin in self._origins])

    def maybe_clear_saved_tensors(self) -> None:
        """Let go of what was saved, if it is for one access."""
        if self._forward_cls.clear_saved_tensors_on_access:
            self._accessed, self.saved = True, ()

    @property
    def saved_variables(self) -> tuple[Tensor | None, ...]:
        """The old name of ``saved_tensors``."""
        warnings.warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2)
        return self.saved_tensors

    def _hand_over(self) -> tuple[Tensor | None, ...]:
        """What was saved, to be freed as soon as the caller lets go of it."""
        if self._accessed:
            raise RuntimeError(_ONE_ACCESS)
        saved = iter(self.unpack())
        self._accessed, self.saved = True, ()
        return tuple([None if origin is None else self._in_graph(next(saved), origin) for origin in self._origins])

    def _in_graph(self, saved: Tensor, origin: Any) -> Tensor:
        """A saved tensor in its place in the graph."""
        if isinstance(origin, tuple):
            node = origin[0]()
            return saved if node is None else saved._attached(edge_to(node, origin[1]))
        return saved if origin < 0 else saved._attached(edge_to(self, origin))

    def is_output(self, saved: Tensor) -> bool:
        """Whether a saved tensor is what this call returned."""
        return any(s is saved and self.output_number(k) is not None for k, s in enumerate(self.saved or ()))

    def output_number(self, index: int) -> int | None:
        """Which output a saved tensor is."""
        origin = [o for o in self._origins if o is not None][index]
        return origin if isinstance(origin, int) and origin >= 0 else None

    def release(self) -> None:
        """Drop what was saved; asking for it then raises."""
        self.saved = None

    def __call__(self, *grads: Any) -> Any:
        """Refuse, as PyTorch's: only the engine runs a Function's backward."""
        raise TypeError(f"'{type(self).__name__}' object is not callable")

    def apply(self, *grads: Any) -> Any:
        """Call the user's backward."""
        cls = self._forward_cls
        if cls.backward is not Function.backward and cls.vjp is not Function.vjp:
            raise RuntimeError(_BOTH)
        function = cls.backward if cls.vjp is Function.vjp else cls.vjp
        ctx = self if self._aside is None else _Ctx(self)
        return function(ctx, list(grads)) if cls.boxed_grads_call else function(ctx, *grads)

    def vjp(self, *grads: Any) -> tuple[Any, ...]:
        """The user's backward, its gradients checked; under ``create_graph`` its ops are recorded."""
        if self.materialize_grads:
            grads = tuple([self._zeros(k) if g is None else g for k, g in enumerate(grads)])
        found = self._checked(self.apply(*grads))
        self.owned = alone(found)
        return found

    def _zeros(self, number: int) -> Tensor | None:
        """Zeros like an output that no gradient arrived for; None for what is no tensor."""
        known = self._outputs[number]
        if known is None or not (known[1] or self._materialize_non_diff_grads):
            return None
        return zeros_of(known[0])

    def _checked(self, found: Any) -> tuple[Any, ...]:
        """The gradients of the tensors among the inputs, in their shapes and dtypes."""
        given, name = found if isinstance(found, tuple) else (found,), type(self).__name__
        n = len(self._are_tensors)
        if len(given) > n and all(g is None for g in given[n:]):
            given = given[:n]
        if len(given) != n:
            raise RuntimeError(
                f"function {name} returned an incorrect number of gradients (expected {n}, got {len(given)})"
            )
        results = []
        for k, (gradient, is_tensor) in enumerate(zip(given, self._are_tensors, strict=True)):
            if is_tensor and not (gradient is None or isinstance(gradient, Tensor)):
                raise RuntimeError(f"expected Variable or None (got {type(gradient).__name__})")
            if is_tensor:
                results.append(gradient)
            elif gradient is not None:
                raise RuntimeError(
                    f"function {name} returned a gradient different than None at position {k + 1}, but the "
                    "corresponding forward input was not a Variable"
                )
        pairs = enumerate(zip(results, self._inputs, strict=True))
        return tuple([g if g is None or like is None else shaped(g, like, name, k) for k, (g, like) in pairs])


class _Ctx:
    """A node as its backward sees it, where the user gave attributes names that the engine needs on the node."""

    __slots__ = ("_node",)
    _node: BackwardCFunction

    def __init__(self, node: BackwardCFunction):
        object.__setattr__(self, "_node", node)

    def __getattr__(self, name: str) -> Any:
        aside = self._node._aside or {}
        return aside[name] if name in aside else getattr(self._node, name)

    def __setattr__(self, name: str, value: Any) -> None:
        aside = self._node._aside
        if aside is not None and name in aside:
            aside[name] = value
        else:
            setattr(self._node, name, value)


_ENGINE_NAMES = frozenset(n for n in dir(Node) if n[0] != "_")


def _set_aside(ctx: BackwardCFunction) -> None:
    """Take from the node the user's attributes that bear the engine's names; its backward will find them."""
    own = vars(ctx)
    if not own.keys().isdisjoint(_ENGINE_NAMES):
        ctx._aside = {name: own.pop(name) for name in _ENGINE_NAMES & own.keys()}


class FunctionMeta(type):
    """Gives each Function the class of its nodes."""

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

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs: ``forward(ctx, *args)``, or ``forward(*args)`` beside a ``setup_context``."""
        raise NotImplementedError(_FORWARD)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Put into ``ctx`` what backward needs, given all inputs and what forward returned."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Return a gradient per input of forward (None where there is none), given one per output."""
        raise NotImplementedError(_BACKWARD)

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Return a tangent per output of forward, given one per input (None for what is no tensor)."""
        raise NotImplementedError(_JVP)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        """Return (output, out_dims) for inputs that have a batch at ``in_dims``."""
        raise NotImplementedError(_VMAP)

    @classmethod
    def _has_setup_context(cls) -> bool:
        """Whether forward does without a ctx."""
        return cls.setup_context is not Function.setup_context

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
            args, kwargs = _bound(cls.forward, args, kwargs)
        if grad_state.levels or grad_state.scope is not None:
            found = _transformed(cls, args, kwargs)
            if found is not NotImplemented:
                return found
        ctx, output = _call(cls, args, kwargs)
        ctx.saved_for_forward = None
        return output


def _transformed(cls: type[Function], args: Any, kwargs: Any) -> Any:
    """What the transforms at work make of a call; NotImplemented if it is an ordinary one."""
    return transformed(Function, cls, functools.partial(_call, cls), args, kwargs)


def _bound(forward: Callable[..., Any], args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments as forward's signature takes them, with its defaults."""
    bound = inspect.signature(forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args, bound.kwargs


def _call(cls: type[Function], args: Any, kwargs: Any) -> tuple[BackwardCFunction, Any]:
    """Run forward unrecorded; return its ctx, and its outputs as part of the graph."""
    inputs = (*args, *kwargs.values()) if kwargs else args
    ctx = (cls._backward_cls if grad_state.scope is None else generated_node_class(cls))()
    ctx._are_tensors = are = tuple([isinstance(a, Tensor) for a in inputs])
    ctx.needs_input_grad = needs = tuple([t and a.requires_grad for a, t in zip(inputs, are)])
    has_setup_context = cls._has_setup_context()
    before, pushing = grad_state.enabled, grad_state.pushing
    grad_state.enabled = grad_state.pushing = False
    try:
        output = cls.forward(*args, **kwargs) if has_setup_context else cls.forward(ctx, *args, **kwargs)
        if has_setup_context:
            cls.setup_context(ctx, inputs, output)
    finally:
        grad_state.enabled, grad_state.pushing = before, pushing
    _set_aside(ctx)
    return ctx, connect(ctx, inputs, output, before and True in needs, has_setup_context)


# -- differentiable once -------------------------------------------------------------------------------


class Error(Node):
    """Stands behind gradients that can't be differentiated."""

    def vjp(self, *grads: Any) -> tuple[Any, ...]:
        """Say so."""
        raise RuntimeError(_TWICE)


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a backward whose work is not recorded: differentiating its results is a RuntimeError."""

    @functools.wraps(function)
    def wrapper(ctx: Any, *args: Any) -> Any:
        with no_grad():
            outputs = function(ctx, *args)
        wanted = grad_state.enabled and any(isinstance(a, Tensor) and a.requires_grad for a in args)
        return _ended(outputs) if wanted else outputs

    return wrapper


def _ended(outputs: Any) -> tuple[Any, ...]:
    """The same values as outputs of a node that refuses to run."""
    node = Error()
    node.sequence_number = next_sequence_number()
    outs = outputs if isinstance(outputs, tuple) else (outputs,)
    node.edges = tuple([_leaf_of(o) if isinstance(o, Tensor) else None for o in outs])
    if len(outs) > 1:
        node.n_outputs, node.special = len(outs), True
    return tuple([o._attached(edge_to(node, k)) if isinstance(o, Tensor) else o for k, o in enumerate(outs)])


def _leaf_of(out: Tensor) -> AccumulateGrad:
    """A leaf that is never reached; the node holds it, for a history that ends in dropped leaves is taken for none."""
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
    """A name that early code imports; use ``Function``, with inputs and outputs laid flat."""
