"""What ``compile(mode=..., options=...)`` takes: a switch for each pass, and whether runs are timed.

Modes, and the options of PyTorch's that its documentation names, are taken and have no effect.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, NamedTuple

from jitgrad.kernels.program import Passes

__all__ = ["DEFAULT", "Options", "options_of"]

MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
_PASSES = [field.name for field in fields(Passes)]
_TIMES = "trace.times"
_WITHOUT_EFFECT = (
    "epilogue_fusion", "max_autotune", "coordinate_descent_tuning", "fallback_random", "shape_padding",
    "triton.cudagraphs", "trace.enabled", "trace.graph_diagram",
)  # fmt: skip


class Options(NamedTuple):
    """Which passes are made, and whether each launch of a run is timed, for `Compiled.explain`."""

    passes: Passes = Passes()
    timed: bool = False


DEFAULT = Options()


def options_of(mode: str | None, options: dict[str, Any] | None) -> Options:
    """The Options of these arguments; RuntimeError, in PyTorch's words, for others than are known."""
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode and mode not in MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")
    known = [*_PASSES, _TIMES, *_WITHOUT_EFFECT]
    given: dict[str, bool] = {}
    for key, value in (options or {}).items():
        name = key.replace("-", "_")
        if name == "guard_filter_fn":  # a function; guards here are never left out
            continue
        if name not in known:
            raise RuntimeError(f"Unexpected optimization option {key}, known options are {known}")
        if not isinstance(value, bool):
            kind = type(value).__name__
            raise RuntimeError(f"Unexpected type of attr {key}, got {kind} should be bool")
        given[name] = value
    passes = Passes(**{name: value for name, value in given.items() if name in _PASSES})
    return Options(passes, given.get(_TIMES, False))
