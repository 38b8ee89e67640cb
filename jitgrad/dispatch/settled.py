"""Composites whose arguments are checked once for each combination of layouts and options, not at every call.

    @settled(1)
    def _padding(input, pad, mode):      # looks at the layout of ``input`` only, never at its values
        ...                              # checks, works out sizes, raises
        return Padded.apply, (maps,)     # what to call: Padded.apply(input, maps)

A call of what ``settled`` makes takes the same arguments and returns the result of that. Checks in Python take longer
than kernels of small tensors; what they found is kept under the layouts and options that they have seen. Errors are
raised again by the next call, since nothing was kept. A function that warns must not be settled.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jitgrad.core.layout import cache

__all__ = ["settled"]

# Equal values of other types are other arguments: True is no size. A tensor's value may change, so none is kept.
_OPTIONS = frozenset({bool, int, float, str, type(None), tuple})
_IN_TUPLES = frozenset({int, float, type(None)})


def settled(tensors: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function that returns (function, arguments) one that calls it; the first ``tensors`` arguments are tensors
    or None, and go before ``arguments``."""

    def decorate(settle: Callable[..., Any]) -> Callable[..., Any]:
        known = cache()
        get = known.get

        def work_out(given: tuple[Any, ...], options: tuple[Any, ...], key: Any) -> Any:
            found = settle(*given, *options)
            kept = key is not None and _OPTIONS.issuperset(map(type, options))
            if kept and all(_IN_TUPLES.issuperset(map(type, v)) for v in options if type(v) is tuple):
                known[key] = found
            return found

        def of_one(x: Any, *options: Any) -> Any:
            key = None
            try:
                kinds = (*map(type, options),)
                key = (x._layout, options, *(kinds if tuple not in kinds else map(_kind, options)))
                found = get(key)
            except (AttributeError, TypeError):  # what is no tensor, or has no hash
                found = key = None
            function, arguments = found or work_out((x,), options, key)
            return function(x, *arguments)

        def of_several(*args: Any) -> Any:
            given, options = args[:tensors], args[tensors:]
            key = None
            try:
                key = (*[None if t is None else t._layout for t in given], options, *map(_kind, options))
                found = get(key)
            except (AttributeError, TypeError):
                found = key = None
            function, arguments = found or work_out(given, options, key)
            return function(*given, *arguments)

        return functools.wraps(settle)(of_one if tensors == 1 else of_several)

    return decorate


def _kind(option: Any) -> Any:
    """The type of an option, of a tuple those of its items."""
    return option.__class__ if option.__class__ is not tuple else (*map(type, option),)
