"""Numba's settings, without importing Numba."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["numba_flag"]


def numba_flag(name: str) -> bool:
    """Whether ``NUMBA_name`` is set, in the environment, a file of settings, or afterwards in ``numba.config``."""
    if "numba" not in sys.modules and not Path(".numba_config.yaml").exists():
        return os.environ.get(f"NUMBA_{name}", "0") not in ("", "0")
    from numba.core import config

    return bool(getattr(config, name))
