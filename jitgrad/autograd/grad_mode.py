"""Whether ops are recorded, per thread: no_grad, enable_grad, set_grad_enabled."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["enable_grad", "is_grad_enabled", "no_grad", "set_grad_enabled"]


class _State(threading.local):
    enabled = True
    dual_level = -1  # of forward mode; see forward_ad
    dual_count = 0


state = _State()


def is_grad_enabled() -> bool:
    """Return True if ops are recorded in this thread."""
    return state.enabled


class _GradMode:
    """A context manager, and a decorator of functions and generators."""

    mode: bool

    def __enter__(self) -> None:
        self._before = state.enabled
        state.enabled = self.mode

    def __exit__(self, *error: Any) -> None:
        state.enabled = self._before

    def clone(self) -> _GradMode:
        return type(self)()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isgeneratorfunction(function):
            return self._wrap_generator(function)

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return wrapped

    def _wrap_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            generator, sent = function(*args, **kwargs), None
            while True:
                try:
                    with self.clone():
                        item = generator.send(sent)
                except StopIteration as stop:
                    return stop.value
                sent = yield item

        return wrapped


class no_grad(_GradMode):
    """Record nothing inside: results have ``requires_grad=False``. Also a decorator."""

    mode = False

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        self = super().__new__(cls)
        return self if function is None else self(function)

    def __init__(self, function: Any = None):
        super().__init__()


class enable_grad(no_grad):
    """Record inside, also within ``no_grad``. Also a decorator."""

    mode = True


class set_grad_enabled(_GradMode):
    """Record or not, by a flag: takes effect at once, and as a context manager until its end."""

    def __init__(self, mode: bool):
        self.mode = bool(mode)
        self._before = state.enabled
        state.enabled = self.mode

    def __enter__(self) -> None:
        state.enabled = self.mode

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        state.enabled = self._before  # a decorator changes nothing until the function runs
        return super().__call__(function)

    def clone(self) -> _GradMode:
        return set_grad_enabled(self.mode)

    def __repr__(self) -> str:
        return f"set_grad_enabled(mode={self.mode})"
