"""Which line of a program a warning is about."""

from __future__ import annotations

import sys

__all__ = ["user_level"]


def user_level() -> int:
    """``stacklevel`` for ``warnings.warn``, called where this is: the first frame outside of jitgrad.

    Counted frames go wrong with every function that is wrapped in another one, as the published ones are.
    """
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "jitgrad":
        frame, level = frame.f_back, level + 1
    return level
