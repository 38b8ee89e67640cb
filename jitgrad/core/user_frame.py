"""Warnings: which line of a program one is about, and those that PyTorch gives once in a process."""

from __future__ import annotations

import sys
import warnings

__all__ = ["repeated", "user_level", "warn_once"]

repeated = False  # whether every such warning is given, which torch.set_warn_always says
_said: set[str] = set()


def user_level() -> int:
    """``stacklevel`` for ``warnings.warn``, called where this is: the first frame outside of jitgrad.

    Counted frames go wrong with every function that is wrapped in another one, as the published ones are.
    """
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "jitgrad":
        frame, level = frame.f_back, level + 1
    return level


def warn_once(text: str, kind: str = "") -> None:
    """Warn a user, the first time in this process that it is of this text, or of this ``kind``."""
    if repeated or (kind or text) not in _said:
        _said.add(kind or text)
        warnings.warn(text, UserWarning, stacklevel=user_level())
