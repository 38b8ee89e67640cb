"""Numba's settings, without importing Numba."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path
from typing import Any

__all__ = ["numba_flag"]


def numba_flag(name: str) -> bool:
    """Whether ``NUMBA_name`` is set: in the environment, in a file of settings, or afterwards in ``numba.config``."""
    config: Any = sys.modules.get("numba.core.config")
    return bool(getattr(config, name)) if hasattr(config, name) else _set_at_first(name)


@functools.cache  # Numba reads them once, too
def _set_at_first(name: str) -> bool:
    if Path(".numba_config.yaml").exists():
        from numba.core import config  # it reads that file

        return bool(getattr(config, name))
    return os.environ.get(f"NUMBA_{name}", "0") not in ("", "0")
