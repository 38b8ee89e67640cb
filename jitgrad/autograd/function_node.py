"""The node of a Function's call, which is the ``ctx`` that its forward and backward see.

The engine's attributes are plain ones of the node. What a user sets on ``ctx`` under one of their names
(``ctx.saved``, ``ctx.edges``) is moved away after forward, and backward gets a proxy that finds it; other calls,
nearly all, pay nothing.
"""

from __future__ import annotations

import itertools
import warnings
from typing import Any, ClassVar

from jitgrad.autograd.function_outputs import are_owned, fit_gradient
from jitgrad.core.node import FREED, Node, edge_to
from jitgrad.core.saved_tensors import SavedTensor
from jitgrad.core.tensor import Tensor
from jitgrad.ops.shape.slicing import zeros_of

__all__ = ["BackwardCFunction", "FunctionCtx", "keep_user_attributes"]

_ONE_ACCESS = (
    "saved_tensors can only be accessed once when clear_saved_tensors_on_access=True is set on the autograd.Function. "
    "Either access saved_tensors only once, or set clear_saved_tensors_on_access=False."
)
_SHARED = (
    "`mark_shared_storage` is deprecated. Tensors with shared storages are automatically tracked. Note that calls to "
    "`set_()` are not tracked"
)


class FunctionCtx:
    """The methods of ``ctx``, by which forward tells backward what to keep and what its inputs and outputs are."""

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
        """Deprecated, without effect: which tensors share memory is known anyway."""
        warnings.warn(_SHARED, FutureWarning, stacklevel=2)

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Name outputs that need no gradient; backward gets zeros for them."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Choose what backward gets for an output that no gradient has arrived at: zeros (the default) or None."""
        if not isinstance(value, bool):
            raise TypeError(
                "set_materialize_grads received an invalid combination of arguments - got "
                f"({type(value).__name__}), but expected (bool)"
            )
        self.materialize_grads = value


class BackwardCFunction(Node, FunctionCtx):
    """The node of a Function's call, and the ``ctx`` of that call. Each Function has a subclass."""

    owned = False  # set by ``vjp``: whether the user's backward has kept none of the gradients that it returned
    runs_without_gradient = True
    needs_input_grad: tuple[bool, ...] = ()
    _forward_cls: ClassVar[Any]
    _materialize_non_diff_grads = True
    _are_tensors: tuple[bool, ...] = ()  # which inputs are tensors; each of these has an entry in ``edges``
    _inputs: tuple[Any, ...] = ()  # for each edge the layout of its input; None where no gradient is wanted
    _outputs: tuple[Any, ...] = ()  # (layout, whether it is differentiable) of each output; None for what is no tensor
    # Of each argument of save_for_backward: None if that was None; the number of the output that it is; (weak node,
    # output number) for a view that the Function wrote to, whose history is not this node; -1 for any other tensor.
    _origins: tuple[Any, ...] = ()
    _non_differentiable_outputs: tuple[int, ...] = ()  # their numbers
    _accessed = False  # with clear_saved_tensors_on_access: whether the one access has happened
    # Attributes that the user has set on ctx under names of Node's; see ``keep_user_attributes``.
    _user_attributes: dict[str, Any] | None = None

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
        """What was saved, as SavedTensor objects, on which hooks can be registered."""
        if self.saved is None:
            raise RuntimeError(FREED)
        places = itertools.count()
        return tuple([SavedTensor(self, None if origin is None else next(places)) for origin in self._origins])

    def maybe_clear_saved_tensors(self) -> None:
        """Drop what was saved, of a Function with ``clear_saved_tensors_on_access``."""
        if self._forward_cls.clear_saved_tensors_on_access:
            self._accessed, self.saved = True, ()

    @property
    def saved_variables(self) -> tuple[Tensor | None, ...]:
        """The old name of ``saved_tensors``."""
        warnings.warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2)
        return self.saved_tensors

    def _hand_over(self) -> tuple[Tensor | None, ...]:
        """What was saved, for the only time: the node drops it, so it is freed when the caller drops it."""
        if self._accessed:
            raise RuntimeError(_ONE_ACCESS)
        saved = iter(self.unpack())
        self._accessed, self.saved = True, ()
        return tuple([None if origin is None else self._in_graph(next(saved), origin) for origin in self._origins])

    def _in_graph(self, saved: Tensor, origin: Any) -> Tensor:
        """A saved tensor with its history, which the node must not hold: it would hold itself."""
        if isinstance(origin, tuple):
            node = origin[0]()
            return saved if node is None else saved._attached(edge_to(node, origin[1]))
        return saved if origin < 0 else saved._attached(edge_to(self, origin))

    def is_output(self, saved: Tensor) -> bool:
        """Whether a saved tensor is an output of this call."""
        return any(s is saved and self.output_number(k) is not None for k, s in enumerate(self.saved or ()))

    def output_number(self, index: int) -> int | None:
        """The number of the output that the saved tensor ``index`` is; None if it is none."""
        origin = [o for o in self._origins if o is not None][index]
        return origin if isinstance(origin, int) and origin >= 0 else None

    def release(self) -> None:
        """Drop what was saved; asking for it then raises."""
        self.saved = None

    def frees(self) -> bool:
        """True: PyTorch's nodes of Functions don't run twice."""
        return True

    def __call__(self, *grads: Any) -> Any:
        """Refuse, as PyTorch's: only the engine runs a Function's backward."""
        raise TypeError(f"'{type(self).__name__}' object is not callable")

    def apply(self, *grads: Any) -> Any:
        """Call the user's backward."""
        cls = self._forward_cls
        function = cls._backward_or_vjp()
        ctx = self if self._user_attributes is None else _UserCtx(self)
        return function(ctx, list(grads)) if cls.boxed_grads_call else function(ctx, *grads)

    def vjp(self, *grads: Any) -> tuple[Any, ...]:
        """Call the user's backward and check what it returns; under ``create_graph`` its ops are recorded."""
        if self.materialize_grads:
            grads = tuple([self._zeros(k) if g is None else g for k, g in enumerate(grads)])
        found = self._checked(self.apply(*grads))
        self.owned = are_owned(found)  # the engine reads it right after this call
        return found

    def _zeros(self, number: int) -> Tensor | None:
        """Zeros in the shape of an output that no gradient has arrived at; None for an output that is no tensor."""
        known = self._outputs[number]
        if known is None or not (known[1] or self._materialize_non_diff_grads):
            return None
        return zeros_of(known[0])

    def _checked(self, found: Any) -> tuple[Any, ...]:
        """Check what backward returned, a gradient or None per input; return those of tensors, made to fit."""
        given, name = found if isinstance(found, tuple) else (found,), type(self).__name__
        n = len(self._are_tensors)
        if len(given) > n and all(g is None for g in given[n:]):  # PyTorch lets backward return more, if that is None
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
        return tuple([g if g is None or like is None else fit_gradient(g, like, name, k) for k, (g, like) in pairs])


class _UserCtx:
    """The ``ctx`` that backward gets where the user's attributes have names of Node's: it finds the user's first."""

    __slots__ = ("_node",)
    _node: BackwardCFunction

    def __init__(self, node: BackwardCFunction):
        object.__setattr__(self, "_node", node)

    def __getattr__(self, name: str) -> Any:
        own = self._node._user_attributes or {}
        return own[name] if name in own else getattr(self._node, name)

    def __setattr__(self, name: str, value: Any) -> None:
        own = self._node._user_attributes
        if own is not None and name in own:
            own[name] = value
        else:
            setattr(self._node, name, value)


_ENGINE_NAMES = frozenset(n for n in dir(Node) if n[0] != "_")


def keep_user_attributes(ctx: BackwardCFunction) -> None:
    """After forward: move attributes of the user's with names of Node's (``ctx.saved``) out of the engine's way."""
    own = vars(ctx)
    if not own.keys().isdisjoint(_ENGINE_NAMES):
        ctx._user_attributes = {name: own.pop(name) for name in _ENGINE_NAMES & own.keys()}
