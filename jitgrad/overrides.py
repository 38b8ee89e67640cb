"""``torch.overrides``: ``__torch_function__`` and modes, by which a program takes over ops.

What asks whom is in ``jitgrad/dispatch/overriding.py``; here are PyTorch's names for it. The lists of functions that
can be overridden are made of what is published, and the overrides for tests have the signatures of those functions.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jitgrad
from jitgrad.core.grad_mode import state
from jitgrad.core.override_off import DISABLED
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.overriding import activate, ask_all, is_overriding, overloaded_in, without_modes
from jitgrad.dispatch.registry import FUNCTIONS, publish_rest

__all__ = [
    "BaseTorchFunctionMode", "TorchFunctionMode", "enable_reentrant_dispatch", "get_default_nowrap_functions",
    "get_ignored_functions", "get_overridable_functions", "get_testing_overrides", "handle_torch_function",
    "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic", "is_tensor_like",
    "is_tensor_method_or_property", "redispatch_function", "resolve_name", "wrap_torch_function",
]  # fmt: skip

# -- for functions of a program's own ---------------------------------------------------------------------


def has_torch_function(relevant_args: Sequence[Any]) -> bool:
    """Whether one of the arguments, or a mode, takes over a call. TypeError if they are no sequence."""
    if not isinstance(relevant_args, Iterable):
        raise TypeError("expected a sequence")
    return has_torch_function_variadic(*relevant_args)


def has_torch_function_variadic(*args: Any) -> bool:
    """``has_torch_function`` of arguments one by one."""
    if state.overrides:
        return state.overrides == 1 and bool(state.function_modes)
    return bool(state.function_modes) or any(map(is_overriding, args))


has_torch_function_unary = has_torch_function_variadic


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """The result of a call of ``public_api`` by the mode, or by those of ``relevant_args`` that take it over.

    TypeError if all of them return NotImplemented.
    """
    activate()
    return ask_all(public_api, _get_overloaded_args(relevant_args), args, kwargs)


def wrap_torch_function(dispatcher: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator: the function can be overridden by what ``dispatcher``, called with its arguments, returns."""

    def decorated(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return decorated


def _get_overloaded_args(relevant_args: Iterable[Any], get_type_fn: Any = None) -> list[Any]:
    return [] if state.overrides else overloaded_in(relevant_args)


def is_tensor_like(inp: Any) -> bool:
    """Whether ``inp`` is a Tensor, or of a class that has ``__torch_function__``."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def redispatch_function(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """Call ``func`` as if the handler that has been called were not there."""
    with DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


# -- modes ------------------------------------------------------------------------------------------------


class TorchFunctionMode:
    """A context manager whose ``__torch_function__`` gets every call of an op in its block, also without tensors.

    Inside of ``__torch_function__`` the mode is off, and the one that was entered before it is on.
    """

    inner: TorchFunctionMode

    def __init__(self) -> None:
        """Nothing is to be set; a subclass may take what it likes."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What the call ``func(*args, **kwargs)`` gives; a subclass defines it."""
        raise NotImplementedError

    def __enter__(self) -> Any:
        _push_mode(self)
        return self

    def __exit__(self, *error: Any) -> None:
        _pop_mode()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """PyTorch's former way to make a mode."""
        warnings.warn("`Mode.push()` is no longer necessary and can be replaced with just `with Mode()`", stacklevel=2)
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that leaves every call as it is."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """``func(*args, **kwargs)``."""
        return func(*args, **(kwargs or {}))


def _push_mode(mode: TorchFunctionMode) -> None:
    activate()
    state.function_modes = (*state.function_modes, mode)


def _pop_mode() -> TorchFunctionMode:
    *before, mode = state.function_modes
    state.function_modes = tuple(before)
    return mode


def _get_current_function_mode() -> Any:
    return state.function_modes[-1] if state.function_modes else None


def _get_current_function_mode_stack() -> list[Any]:
    return list(state.function_modes)


def _pop_mode_temporarily() -> without_modes:
    return without_modes(1)


class _Overriding:
    """A block in which ``state.overrides`` has the class's value: 0 all may take over ops, 1 modes only, 2 nothing."""

    overrides = 0

    def __init__(self) -> None:
        self._before: list[int] = []

    def __enter__(self) -> None:
        self._before.append(state.overrides)
        state.overrides = self.overrides if not self.overrides else max(state.overrides, self.overrides)

    def __exit__(self, *error: Any) -> None:
        state.overrides = self._before.pop()


class DisableTorchFunctionSubclass(_Overriding):
    """A block in which no object takes over ops; modes do."""

    overrides = 1


class DisableTorchFunction(_Overriding):
    """A block in which nothing takes over ops, modes neither."""

    overrides = 2


_enable_torch_function = enable_reentrant_dispatch = _Overriding

# -- what can be overridden -------------------------------------------------------------------------------

_NAMESPACES = ("", "functional", "nn.functional", "nn.init", "linalg", "special", "fft", "masked")
_IGNORED = (
    "arange as_strided_copy asarray bartlett_window blackman_window broadcast_shapes can_cast compile empty "
    "empty_permuted empty_strided eye fftfreq rfftfreq from_dlpack from_numpy frombuffer full hamming_window "
    "hann_window kaiser_window linspace logspace ones promote_types rand randint randn randperm range "
    "is_storage is_tensor result_type scalar_tensor tensor tril_indices triu_indices vander zeros as_tensor "
    "is_grad_enabled"
)  # no tensor is passed to them, or none that could take them over


def _at(path: str) -> Any:
    """The module or class ``jitgrad.PATH``; None if there is none."""
    home: Any = jitgrad
    for name in filter(None, path.split(".")):
        home = getattr(home, name, None)
    return home


@functools.cache
def _names() -> dict[str, Any]:
    """{PyTorch's path: function} of what can be overridden, functions before methods and properties."""
    publish_rest()
    activate()
    found: dict[str, Any] = {}
    for namespace in _NAMESPACES:
        home = _at(namespace)
        for name in dir(home) if home is not None else ():
            function = getattr(home, name, None)
            mine = inspect.isfunction(function) and (namespace in ("nn.functional", "nn.init") or _published(function))
            if mine and name[0] != "_" and name not in _IGNORED.split():
                found[".".join(filter(None, ("torch", namespace, name)))] = function
    for name, thing in vars(Tensor).items():
        if isinstance(thing, property):
            found[f"torch.Tensor.{name}.__get__"] = thing.__get__
        elif inspect.isfunction(thing) and (name[0] != "_" or name in _OPERATORS):
            found[f"torch.Tensor.{name}"] = thing
    return found


_OPERATORS = {
    f"__{prefix}{name}__"
    for name in ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow")
    for prefix in ("", "r", "i")
}
_OPERATORS |= {
    f"__{name}__"
    for name in [
        "abs", "and", "array", "array_wrap", "bool", "complex", "contains", "deepcopy", "dlpack", "dlpack_device", "eq",
        "float", "format", "ge", "getitem", "gt", "iand", "ilshift", "index", "int", "invert", "ior", "irshift", "ixor",
        "le", "len", "lshift", "lt", "ne", "neg", "or", "pos", "rand", "reduce_ex", "repr", "reversed", "rlshift",
        "ror", "rrshift", "rshift", "rxor", "setitem", "xor",
    ]
}  # fmt: skip


def _published(function: Any) -> bool:
    return any(function is f for f in FUNCTIONS.values())


@functools.cache
def get_ignored_functions() -> set[Callable[..., Any]]:
    """Functions of PyTorch's that nothing can take over: most of them make tensors of numbers."""
    ignored: set[Any] = {getattr(jitgrad, name, None) for name in _IGNORED.split()} - {None}
    return ignored | {jitgrad.set_default_dtype, jitgrad.manual_seed}


@functools.cache
def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """Functions whose results the default ``__torch_function__`` leaves as they are."""
    return {Tensor.grad.__get__}


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """{module or class: the functions of it that can be overridden}."""
    found: dict[Any, list[Any]] = {}
    for name, function in _names().items():
        path = name.removesuffix(".__get__").split(".")[1:-1]
        found.setdefault(_at(".".join(path)), []).append(function)
    return found


@functools.cache
def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """{function: one that takes its arguments and returns -1} of all that can be overridden."""
    return {function: _dummy(function) for function in _names().values()}


def _dummy(function: Any) -> Callable[..., Any]:
    if getattr(function, "__name__", "") == "__get__":
        return lambda self: -1
    kinds = inspect.Parameter
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return lambda *args, **kwargs: -1
    marks: dict[Any, str] = {kinds.VAR_POSITIONAL: "*", kinds.VAR_KEYWORD: "**"}
    texts, keywords_only = [], False
    for p in parameters:
        if p.kind is kinds.KEYWORD_ONLY and not keywords_only:
            texts.append("*")
        keywords_only = keywords_only or p.kind in (kinds.KEYWORD_ONLY, kinds.VAR_POSITIONAL)
        texts.append(marks.get(p.kind, "") + p.name + ("=None" if p.default is not p.empty else ""))
    made: Callable[..., Any] = eval(f"lambda {', '.join(texts)}: -1")
    return made


def resolve_name(f: Any) -> str | None:
    """PyTorch's path of a function: ``torch.add``, ``torch.Tensor.shape.__get__``; None for one that is not its own."""
    if isinstance(f, jitgrad.ops.aten.OpOverload | jitgrad.ops.aten.OpOverloadPacket):
        return str(f)
    return next((name for name, function in _names().items() if function is f or function == f), None)


def is_tensor_method_or_property(func: Any) -> bool:
    """Whether ``func`` is a method of Tensor or the getter of one of its properties."""
    if getattr(func, "__name__", "") == "__get__":
        return any(func == p.__get__ for p in vars(Tensor).values() if isinstance(p, property))
    activate()
    return any(func is m for m in vars(Tensor).values())


_disabled_torch_function_impl = DISABLED
