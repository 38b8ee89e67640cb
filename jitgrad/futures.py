"""``torch.futures``: a value that is there later. Nothing here computes it: who makes a Future sets its result."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

__all__ = ["Future", "collect_all", "wait_all"]


class Future:
    """A result, or an error, that some thread sets once, and that others wait for."""

    def __init__(self, *, devices: Any = None):
        self._done, self._lock = threading.Event(), threading.Lock()
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future], Any]] = []

    def __class_getitem__(cls, item: Any) -> Any:
        return cls

    def done(self) -> bool:
        """Whether a result or an error has been set."""
        return self._done.is_set()

    def wait(self) -> Any:
        """The result, waited for; the error is raised."""
        self._done.wait()
        return self.value()

    def value(self) -> Any:
        """The result of a Future that is done; the error is raised. RuntimeError before that."""
        if not self.done():
            raise RuntimeError("Future is not completed; call wait()")
        if self._error is not None:
            raise self._error
        return self._value

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """A Future of ``callback(self)``, which is called once this one is done."""
        following = Future()

        def follow(done: Future) -> None:
            try:
                following.set_result(callback(done))
            except Exception as error:
                following.set_exception(error)

        self.add_done_callback(follow)
        return following

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Call ``callback(self)`` once it is done, now if it is."""
        with self._lock:
            if not self.done():
                self._callbacks.append(callback)
                return
        callback(self)

    def set_result(self, result: Any) -> None:
        """Set the result. RuntimeError if it is done already."""
        self._finish(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Set the error that ``wait`` raises. RuntimeError if it is done already."""
        if not isinstance(result, BaseException):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._finish(None, result)

    def _finish(self, value: Any, error: BaseException | None) -> None:
        with self._lock:
            if self.done():
                raise RuntimeError("Attempting to mark a completed Future as complete again. Note that a Future can "
                                   "only be marked completed once.")  # fmt: skip
            self._value, self._error = value, error
            self._done.set()
        for callback in self._callbacks:
            callback(self)


def collect_all(futures: list[Future]) -> Future:
    """A Future of the list of futures, which is done when all of them are."""
    result, left, lock = Future(), [len(futures)], threading.Lock()

    def one_less(_: Future) -> None:
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last:
            result.set_result(futures)

    for future in futures:
        future.add_done_callback(one_less)
    if not futures:
        result.set_result(futures)
    return result


def wait_all(futures: list[Future]) -> list[Any]:
    """The results of all."""
    return [f.wait() for f in collect_all(futures).wait()]
