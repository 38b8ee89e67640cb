"""The state of a thread that ops look at, and the modes that set whether they are recorded."""

from __future__ import annotations

import functools
import inspect
import threading
import warnings
from collections.abc import Callable, Generator
from typing import Any

__all__ = [
    "enable_grad", "is_grad_enabled", "is_multithreading_enabled", "no_grad", "set_grad_enabled",
    "set_multithreading_enabled",
]  # fmt: skip


class _State(threading.local):
    """What modes and transforms set, in one object, so that an op looks at one thread-local.

    The defaults are class attributes: a new thread starts with them, with nothing copied.
    """

    enabled = True  # whether ops are recorded; every op reads it
    inference = False  # whether new tensors are inference tensors; then ``enabled`` is False
    records_inference = False  # whether inference tensors may be recorded all the same; see inference.py
    grad_requested = False  # what ``is_grad_enabled`` returns in inference mode, though nothing is recorded
    levels: tuple[Any, ...] = ()  # those of open transforms, first opened first; see core/wrapped.py
    scope: Any = None  # the Scope of the innermost function that is being differentiated; see transforms/scope.py
    forward: Any = None  # the level opened by autograd.forward_ad
    computes_tangents = True  # whether ops on dual tensors compute tangents
    overrides = 0  # what may take ops over: 0 tensors and modes, 1 modes alone, 2 nothing; see dispatch/overriding.py
    function_modes: tuple[Any, ...] = ()  # the TorchFunctionModes that are entered, the innermost last
    multithreading = True  # the last value of set_multithreading_enabled


state = _State()


def is_grad_enabled() -> bool:
    """Return True if grad mode is on in this thread."""
    return state.grad_requested if state.inference else state.enabled


def set_enabled(mode: bool) -> bool:
    """Switch grad mode; return what it was. In inference mode nothing is recorded either way."""
    if state.inference:
        before, state.grad_requested = state.grad_requested, mode
    else:
        before, state.enabled = state.enabled, mode
    return before


class Mode:
    """A context manager, and a decorator of functions and generators."""

    def clone(self) -> Any:
        """A context manager of the same kind, for one call of what is decorated."""
        return type(self)()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isgeneratorfunction(function):
            return self._wrap_generator(function)
        called = function
        if inspect.isclass(function):
            warnings.warn(_CLASSES, FutureWarning, stacklevel=2)
            # functools.wraps would copy a class's __dict__ onto the wrapper; a function in front of it has none.
            called = lambda *args, **kwargs: function(*args, **kwargs)

        @functools.wraps(called)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self.clone():  # a mode keeps the state before it on itself, so nested calls need one each
                return called(*args, **kwargs)

        return wrapped

    def _wrap_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A generator function that has the mode on while its body runs, and off while its caller does."""

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            generator = function(*args, **kwargs)
            resume: Callable[..., Any] = generator.send  # how the caller's last action is passed on: send or throw
            value: Any = None
            while True:
                try:
                    with self.clone():
                        item = resume(value)
                except StopIteration as stop:
                    return stop.value
                try:
                    resume, value = generator.send, (yield item)
                except GeneratorExit:
                    with self.clone():
                        generator.close()
                    raise
                except BaseException as error:
                    resume, value = generator.throw, error

        return wrapped


_CLASSES = (
    "Decorating classes is deprecated and will be disabled in future versions. You should only decorate functions or "
    "methods. To preserve the current behavior of class decoration, you can directly decorate the `__init__` method "
    "and nothing else."
)


class no_grad(Mode):
    """Record nothing inside: results have ``requires_grad=False``. Also a decorator."""

    mode = False

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        self = super().__new__(cls)
        return self if function is None else self(function)

    def __init__(self, function: Any = None):
        self._before = False

    def __enter__(self) -> None:  # set_enabled, inlined: training and evaluation loops enter it at every step
        if state.inference:
            self._before, state.grad_requested = state.grad_requested, self.mode
        else:
            self._before, state.enabled = state.enabled, self.mode

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if state.inference:
            state.grad_requested = self._before
        else:
            state.enabled = self._before


class enable_grad(no_grad):
    """Record inside, also within ``no_grad``. Also a decorator."""

    mode = True


class set_grad_enabled(Mode):
    """Record ops or not. The flag is set when this object is made, and set back at the end of a with block."""

    def __init__(self, mode: bool):
        if not isinstance(mode, bool):
            found = type(mode).__name__
            raise TypeError(f"set_grad_enabled(): argument 'enabled' (position 1) must be bool, not {found}")
        self.mode = mode
        self._before = set_enabled(mode)

    def __enter__(self) -> None:
        set_enabled(self.mode)

    def __exit__(self, *error: Any) -> None:
        set_enabled(self._before)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        set_enabled(self._before)  # the object was made to decorate: the flag is to be set when the function runs
        return super().__call__(function)

    def clone(self) -> set_grad_enabled:
        """A new object with the same flag, which is set by making it."""
        return set_grad_enabled(self.mode)

    def __repr__(self) -> str:
        return f"{type(self).__module__}.{type(self).__qualname__}(mode={self.mode})"


# PyTorch's path, importable here too, which the text of set_grad_enabled shows.
enable_grad.__module__ = no_grad.__module__ = set_grad_enabled.__module__ = "jitgrad.autograd.grad_mode"


def is_multithreading_enabled() -> bool:
    """Return the last value that ``set_multithreading_enabled`` has set in this thread; True at first."""
    return state.multithreading


class set_multithreading_enabled(Mode):
    """Set whether backward may use threads. The flag is set when this object is made, and back after a with block.

    It has no effect besides what ``is_multithreading_enabled`` returns: backward runs on the thread that calls it.
    """

    def __init__(self, mode: bool):
        self.mode, self._before = mode, state.multithreading
        state.multithreading = mode

    def __enter__(self) -> None:
        """Empty: making the object has set the flag."""

    def __exit__(self, *error: Any) -> None:
        state.multithreading = self._before

    def clone(self) -> Any:
        """A new object with the same flag, which is set by making it."""
        return set_multithreading_enabled(self.mode)
