"""``compile`` and what it returns: a callable that records a function and replays it where a recording holds."""

from __future__ import annotations

import copy
import functools
import threading
import types
import warnings
import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any, NamedTuple

from jitgrad.compiler.crossing import obstacle
from jitgrad.compiler.explanation import Explanation, lines_title
from jitgrad.compiler.guards import NotReplayable
from jitgrad.compiler.notes import same
from jitgrad.compiler.optimized_module import OptimizedModule
from jitgrad.compiler.options import DEFAULT, Options, options_of
from jitgrad.compiler.parts import Cut, Parts, Stretch, parts_of, positional_names
from jitgrad.compiler.recording import Recording, record
from jitgrad.compiler.replay import BUSY, MISS, Replay, replay_of
from jitgrad.core.block_pool import pool
from jitgrad.core.casting import state as casting
from jitgrad.core.errors import type_name
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import user_level
from jitgrad.kernels.collector import paused_collector
from jitgrad.kernels.launch import observers
from jitgrad.nn.modules.module import Module

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

    _parts: Parts | None

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
        """What the function has that was compiled."""
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
        if _state.recording or observers or grad_state.levels or grad_state.function_modes:
            return self._compiled_function(*args, **kwargs)
        if self._parts is not None:
            return self._parts.run(*args, **kwargs)
        if self._given_up:
            if self._fullgraph:
                raise RuntimeError(self._given_up)
            return self._compiled_function(*args, **kwargs)
        try:
            return self._record(args, kwargs)
        finally:
            pool.clear()  # replays don't ask for what the recording needed, nor the building of a program

    def _record(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        _state.recording = True
        casting.cache.clear()  # casts of parameters are to be part of the recording
        try:
            made = record(self._compiled_function, args, kwargs)
            self._twice |= made.differentiates_twice
            obstacle = self._obstacle(made)
            if obstacle is None:
                try:
                    with paused_collector():  # nearly all of what is made for a replay stays
                        self._add(replay_of(made, self._options), args)
                except NotReplayable as error:
                    obstacle = self._obstacle(made) or _Obstacle(str(error))
                except Exception as error:  # a mistake of ours: the call itself is done, and has its result
                    obstacle = _Obstacle(f"{NOT_BUILT} ({type(error).__name__}: {error})")
        finally:
            _state.recording = False
        if obstacle is not None:
            self._failures.append(obstacle[:2])
            tried = len(self._failures) >= _ATTEMPTS
            if (tried or obstacle.lasting) and self._take_apart(obstacle):
                return made.result
            if tried or (obstacle.lasting and self._fullgraph):
                self._give_up(obstacle)
        return made.result

    def _obstacle(self, made: Recording) -> _Obstacle | None:
        """Why a run can't be replayed."""
        notes = made.notes
        if notes.reason is None:
            return None
        cut = Cut(line=notes.line[1]) if notes.line else None
        return _Obstacle(notes.reason, notes.place, cut, notes.line and notes.line[0], notes.lasting)

    def _add(self, replay: Replay, args: tuple[Any, ...]) -> None:
        self._variants.insert(0, replay)
        self._given.insert(0, args)
        self._failures.clear()
        if len(self._variants) > _MOST_VARIANTS:
            self._variants.pop()
            obstacle = _Obstacle(f"it has been recorded for {_MOST_VARIANTS} different situations", cut=self._varying())
            if self._take_apart(obstacle):
                self._variants.clear()
            else:
                self._give_up(obstacle)
            self._given.clear()

    def _varying(self) -> Cut | None:
        """Where to cut so that parts don't depend on what was another object or number each time."""
        names = positional_names(self._compiled_function)
        varying = {
            name for name, values in zip(names, zip(*self._given), strict=False)
            if not any(isinstance(v, (Tensor, list, tuple, dict)) for v in values)
            and not any(same(v, w) for k, v in enumerate(values) for w in values[:k])
        }  # fmt: skip
        return Cut(read=frozenset(varying)) if varying else None

    def _take_apart(self, obstacle: _Obstacle) -> bool:
        """Compile what is before and behind a statement from now on, and leave that as it is."""
        if self._fullgraph or obstacle.cut is None:
            return False
        self._parts = parts_of(self._compiled_function, obstacle.cut, obstacle.code, self._part)
        if self._parts is not None:
            left = ", ".join(lines_title(lines) for lines in self._parts.left_out) or "nothing"
            self._warn(self._message(f"of {self._title()} {left} runs uncompiled, the rest in parts", obstacle))
        return self._parts is not None

    def _part(self, stretch: Stretch, twice: bool) -> Compiled:
        return _Part(stretch, self._options, self._twice or twice)

    def _give_up(self, obstacle: _Obstacle) -> None:
        """Run the function as it is from now on, where no recording holds."""
        self._given_up = self._message(f"{self._title()} runs uncompiled", obstacle)
        if self._fullgraph:
            raise RuntimeError(self._given_up)
        self._warn(self._given_up)

    def _title(self) -> str:
        return getattr(self._compiled_function, "__qualname__", type(self._compiled_function).__name__)

    def _message(self, what: str, obstacle: _Obstacle) -> str:
        place = f" ({obstacle.place})" if obstacle.place else ""
        return f"torch.compile: {what}, since {obstacle.reason}{place}"

    def _warn(self, message: str) -> None:
        warnings.warn(message, CompileWarning, stacklevel=user_level())

    def forget(self) -> None:
        """Forget all recordings, and what could not be compiled."""
        self._variants: list[Replay] = []
        self._given: list[tuple[Any, ...]] = []
        self._failures: list[tuple[str, str]] = []
        self._given_up, self._twice = "", False  # why it is no longer tried; whether backward ran to be run again
        self._parts = None

    def explain(self) -> Explanation:
        """What there is of recordings, why there are not more, and what their programs do.

        Printed, it is text; a notebook shows a picture of the launches as well. With ``options={"trace.times": True}``
        each launch is timed, which makes runs a little slower.
        """
        recordings = [replay.summary() for replay in self._variants]  # type: ignore[attr-defined]
        if self._parts is None:
            return Explanation(recordings, self._failures)
        parts = [(lines_title(part.stretch.lines), part.explain()) for part in self._parts.parts]
        return Explanation(recordings, self._failures, parts)

    def source(self) -> str:
        """The text of the kernels that were made for the recordings: loops that stand for several launches."""
        return self.explain().source()


class _Obstacle(NamedTuple):
    """Why a function could not be compiled: the place, and where it is cut if that is left out.

    code: of the function that the cut's line is of. lasting: whether the next run will meet it too.
    """

    reason: str
    place: str = ""
    cut: Cut | None = None
    code: CodeType | None = None
    lasting: bool = False


class _Part(Compiled):
    """A stretch of a function that could not be compiled as a whole, which has given its warning."""

    def __init__(self, stretch: Stretch, options: Options, twice: bool):
        """twice: whether the function differentiates gradients, which results of programs don't allow."""
        super().__init__(stretch.function, False, options)
        self.stretch, self._twice = stretch, twice

    def _obstacle(self, made: Recording) -> _Obstacle | None:
        known = super()._obstacle(made)
        if known is None and not made.launches:
            return _Obstacle("it launches nothing")
        if known is not None and known.cut is not None:
            return known
        if known is None and self._twice and any(isinstance(r, Tensor) and r._edge is not None for r in made.results):
            return _Obstacle("gradients of its results may be differentiated")
        found = obstacle(made, self.stretch)
        return _Obstacle(found[0], "", found[1], None, True) if found is not None else known

    def _warn(self, message: str) -> None:
        """The function has given its warning."""


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
    that its documentation names. Without ``model`` a decorator. Of a Module an `OptimizedModule`.
    """
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable
        )
    if not callable(model):
        raise RuntimeError(f"torch.compile expects a callable, but got {type_name(model)}")
    known = options_of(mode, options) if backend == "inductor" else DEFAULT  # another compiler has others
    if disable:
        return model
    made = functools.partial(Compiled, fullgraph=fullgraph, options=known)
    if isinstance(model, OptimizedModule):
        model = model._orig_mod
    return OptimizedModule(model, made) if isinstance(model, Module) else made(model)


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
