"""Whether ops are recorded, per thread: no_grad, enable_grad, set_grad_enabled."""

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
    enabled = True  # what every op looks at
    inference = False
    records_inference = False  # whether inference tensors may be recorded all the same; see inference.py
    grad_requested = False  # in inference mode: what ``is_grad_enabled`` says, though nothing is recorded
    levels: tuple[Any, ...] = ()  # of the transforms at work: forward mode, vmap; see core/wrapped.py
    scope: Any = None  # the innermost function that is being differentiated; see scope.py
    forward: Any = None  # the level opened by forward_ad
    computes_tangents = True  # whether ops on dual tensors compute tangents
    multithreading = True  # what set_multithreading_enabled said last


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
            called = lambda *args, **kwargs: function(*args, **kwargs)

        @functools.wraps(called)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return called(*args, **kwargs)

        return wrapped

    def _wrap_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The mode is on whenever the generator runs, and off while its caller does."""

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            generator = function(*args, **kwargs)
            resume: Callable[..., Any] = generator.send
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

    def __enter__(self) -> None:  # set_enabled, written out: many loops enter it at every step
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
    """Record or not, by a flag: takes effect at once, and as a context manager until its end."""

    def __init__(self, mode: bool):
        if not isinstance(mode, bool):
            raise TypeError(f"set_grad_enabled(): argument 'enabled' (position 1) must be bool, not {_kind(mode)}")
        self.mode = mode
        self._before = set_enabled(mode)

    def __enter__(self) -> None:
        set_enabled(self.mode)

    def __exit__(self, *error: Any) -> None:
        set_enabled(self._before)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        set_enabled(self._before)  # a decorator changes nothing until the function runs
        return super().__call__(function)

    def clone(self) -> set_grad_enabled:
        """The same flag, set again."""
        return set_grad_enabled(self.mode)

    def __repr__(self) -> str:
        return f"{type(self).__module__}.{type(self).__qualname__}(mode={self.mode})"


def _kind(value: Any) -> str:
    return type(value).__name__


def is_multithreading_enabled() -> bool:
    """Return what ``set_multithreading_enabled`` said last in this thread; True at first."""
    return state.multithreading


class set_multithreading_enabled(Mode):
    """Say whether backward may use threads: takes effect at once, and as a context manager until its end.

    The setting is kept and shown, and changes nothing: backward runs on the thread that calls it.
    """

    def __init__(self, mode: bool):
        self.mode, self._before = mode, state.multithreading
        state.multithreading = mode

    def __enter__(self) -> None:
        """Nothing is left to do."""

    def __exit__(self, *error: Any) -> None:
        state.multithreading = self._before

    def clone(self) -> Any:
        """Another one for the same mode."""
        return set_multithreading_enabled(self.mode)
