"""``compile`` and what it returns: a callable that records a function and replays it where a recording holds."""

from __future__ import annotations

import copy
import functools
import threading
import types
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from jitgrad.compiler.explanation import Explanation
from jitgrad.compiler.guards import NotReplayable
from jitgrad.compiler.options import DEFAULT, Options, options_of
from jitgrad.compiler.recording import record
from jitgrad.compiler.replay import BUSY, MISS, Replay, replay_of
from jitgrad.core.errors import type_name
from jitgrad.core.user_frame import user_level
from jitgrad.kernels.collector import paused_collector
from jitgrad.kernels.launch import observers

__all__ = ["CompileWarning", "Compiled", "compile", "disable", "is_compiling", "reset"]

NOT_BUILT = "no program could be built of it"
_MOST_VARIANTS = 8
# The first calls often prepare what later ones only use, such as the state of an optimiser.
_ATTEMPTS = 3


class CompileWarning(UserWarning):
    """A function runs without being compiled."""


class _State(threading.local):
    recording = False


_state = _State()


class Compiled:
    """A function that is recorded when it is called and replayed by later calls."""

    def __init__(self, function: Callable[..., Any], fullgraph: bool, options: Options = DEFAULT):
        functools.update_wrapper(self, function, updated=())
        self._compiled_function, self._fullgraph, self._options = function, fullgraph, options
        self.forget()
        _every.add(self)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<compiled {self._compiled_function!r}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Compiled:
        # Recordings are of the function and the tensors that it had.
        return Compiled(copy.deepcopy(self._compiled_function, memo), self._fullgraph, self._options)

    def __reduce__(self) -> Any:
        return Compiled, (self._compiled_function, self._fullgraph, self._options)

    def __getattr__(self, name: str) -> Any:
        """What the function or module that was compiled has."""
        if name == "_compiled_function":  # while a copy or a pickle is made
            raise AttributeError(name)
        return getattr(self._compiled_function, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for replay in self._variants:
            result = replay(args, kwargs)
            if result is BUSY:
                return self._compiled_function(*args, **kwargs)
            if result is not MISS:
                return result
        if self._given_up or _state.recording or observers:
            return self._compiled_function(*args, **kwargs)
        return self._record(args, kwargs)

    def _record(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        _state.recording = True
        try:
            made = record(self._compiled_function, args, kwargs)
            reason, place = made.notes.reason, made.notes.place
            if reason is None:
                try:
                    with paused_collector():  # nearly all of what is made for a replay stays
                        self._add(replay_of(made, self._options))
                except NotReplayable as error:
                    reason, place = str(error), ""
                except Exception as error:  # a mistake of ours: the call itself is done, and has its result
                    reason, place = f"{NOT_BUILT} ({type(error).__name__}: {error})", ""
        finally:
            _state.recording = False
        if reason is not None:
            self._failures.append((reason, place))
            if len(self._failures) >= _ATTEMPTS:
                self._give_up(reason, place)
        return made.result

    def _add(self, replay: Replay) -> None:
        self._variants.insert(0, replay)
        self._failures.clear()
        if len(self._variants) > _MOST_VARIANTS:
            self._variants.pop()
            self._give_up(f"it has been recorded for {_MOST_VARIANTS} different situations", "")

    def _give_up(self, reason: str, place: str) -> None:
        """Run the function as it is from now on, where no recording holds."""
        self._given_up = True
        name = getattr(self._compiled_function, "__qualname__", type(self._compiled_function).__name__)
        message = f"torch.compile: {name} runs uncompiled, since {reason}" + (f" ({place})" if place else "")
        if self._fullgraph:
            raise RuntimeError(message)
        warnings.warn(message, CompileWarning, stacklevel=user_level())

    def forget(self) -> None:
        """Forget all recordings, and what could not be compiled."""
        self._variants: list[Replay] = []
        self._failures: list[tuple[str, str]] = []
        self._given_up = False

    def explain(self) -> Explanation:
        """What there is of recordings, why there are not more, and what their programs do.

        Printed, it is text; a notebook shows a picture of the launches as well. With ``options={"trace.times": True}``
        each launch is timed, which makes runs a little slower.
        """
        return Explanation([replay.summary() for replay in self._variants], list(self._failures))  # type: ignore

    def source(self) -> str:
        """The text of the kernels that were made for the recordings: loops that stand for several launches."""
        return self.explain().source()


_every: weakref.WeakSet[Compiled] = weakref.WeakSet()


def compile(
    model: Callable[..., Any] | None = None, *, fullgraph: bool = False, dynamic: bool | None = None,
    backend: Any = "inductor", mode: str | None = None, options: dict[str, Any] | None = None, disable: bool = False,
) -> Any:  # fmt: skip
    """Return a function that does what ``model`` does, from recorded programs instead of Python.

    The first calls run ``model`` and record every kernel that it launches: forward, backward, accumulation, an
    optimiser's step. Later calls run the recorded kernels, if all that the function depends on is as it was.
    ``fullgraph``: a function that can't be compiled is a RuntimeError; else it runs as it is, with one warning.
    ``options``: a switch for each pass over the recorded launches, all of them on by default, as
    ``{"fusion": False}``: dead, repeated, constants, fusion, sums, row_blocks. ``"trace.times"``: see
    ``explain()``. ``dynamic``, ``backend`` and ``mode`` are taken for PyTorch's sake, as are the options
    that its documentation names. Without ``model`` a decorator.
    """
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable
        )
    if not callable(model):
        raise RuntimeError(f"torch.compile expects a callable, but got {type_name(model)}")
    known = options_of(mode, options) if backend == "inductor" else DEFAULT  # another compiler has others
    return model if disable else Compiled(model, fullgraph, known)


def is_compiling() -> bool:
    """Whether a function is being recorded in this thread."""
    return _state.recording


def reset() -> None:
    """Forget all recordings of all compiled functions."""
    for compiled in list(_every):
        compiled.forget()


def disable(fn: Callable[..., Any] | None = None, recursive: bool = True) -> Any:
    """Let a function run as it is: whatever calls it isn't compiled either. Without ``fn`` a decorator."""
    if fn is None:
        return functools.partial(disable, recursive=recursive)

    @functools.wraps(fn)
    def disabled(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    vars(disabled)["_jitgrad_disabled"] = True
    return disabled
