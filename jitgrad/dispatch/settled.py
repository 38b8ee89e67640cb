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
import marshal
from collections.abc import Callable
from typing import Any

from jitgrad.core.layout import cache

__all__ = ["settled"]

# Options are looked up as bytes, which differ where types do: True, 1 and 1.0 are equal, but no size may be True. To
# encode them takes half the time of collecting their types. From version 3 on equal options might have other bytes, for
# there a part that is the same object as an earlier one is a reference to it.
_encoded, _VERSION = marshal.dumps, 2
# Types whose bytes stand for their value. Not kept are others: NumPy's numbers, say, are encoded without their type.
_PLAIN = frozenset({bool, int, float, str, type(None)})


def settled(tensors: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function that returns (function, arguments) one that calls it; the first ``tensors`` arguments are tensors
    or None, and go before ``arguments``."""

    def decorate(settle: Callable[..., Any]) -> Callable[..., Any]:
        known = cache()
        get = known.get

        def work_out(given: tuple[Any, ...], options: tuple[Any, ...], key: Any) -> Any:
            found = settle(*given, *options)
            if key is not None and _is_plain(options):
                known[key] = found
            return found

        def of_one(x: Any, *options: Any) -> Any:
            try:
                found = get(key := (x._layout, _encoded(options, _VERSION)))
            except (AttributeError, ValueError):  # what is no tensor, or can't be encoded
                found = key = None
            function, arguments = found or work_out((x,), options, key)
            return function(x, *arguments)

        def of_several(*args: Any) -> Any:
            given, options = args[:tensors], args[tensors:]
            try:
                found = get(key := (*[None if t is None else t._layout for t in given], _encoded(options, _VERSION)))
            except (AttributeError, ValueError):
                found = key = None
            function, arguments = found or work_out(given, options, key)
            return function(*given, *arguments)

        return functools.wraps(settle)(of_one if tensors == 1 else of_several)

    return decorate


def _is_plain(options: tuple[Any, ...]) -> bool:
    """Whether options are plain values, and tuples of such, all the way down."""
    return all(_is_plain(v) if type(v) is tuple else type(v) in _PLAIN for v in options)
