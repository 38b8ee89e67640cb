"""``torch.utils._mode_utils``: whether modes are the same one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__: list[str] = []


def all_same_mode(modes: Sequence[Any]) -> bool:
    """Whether all are equal to the first."""
    return all(mode == modes[0] for mode in modes)
