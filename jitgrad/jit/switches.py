"""Switches of TorchScript's optimiser, without effect, and its tasks, which run at once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from jitgrad.futures import Future

__all__ = [
    "enable_onednn_fusion", "fork", "fuser", "onednn_fusion_enabled", "optimized_execution", "set_fusion_strategy",
    "wait",
]  # fmt: skip

_state = {"onednn": False, "strategy": [("STATIC", 2), ("DYNAMIC", 10)]}


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
    """A Future of ``func(*args, **kwargs)``, which is called now."""
    future = Future()
    try:
        future.set_result(func(*args, **kwargs))
    except Exception as error:
        future.set_exception(error)
    return future


def wait(future: Future) -> Any:
    """The result of a Future."""
    return future.wait()


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> Any:
    """Remember a strategy, which has no effect; return the one before."""
    before, _state["strategy"] = _state["strategy"], list(strategy)
    return before


def enable_onednn_fusion(enabled: bool) -> None:
    """Remember a switch, which has no effect."""
    _state["onednn"] = bool(enabled)


def onednn_fusion_enabled() -> bool:
    """What ``enable_onednn_fusion`` has set."""
    return bool(_state["onednn"])


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """A block without effect."""
    yield


@contextlib.contextmanager
def fuser(name: str) -> Iterator[None]:
    """A block without effect."""
    yield
