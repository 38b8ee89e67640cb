"""Settings of PyTorch's compiler. Any name may be set and read; none has an effect."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

__all__ = ["patch"]

suppress_errors = False
verbose = False
cache_size_limit = recompile_limit = 8
accumulated_cache_size_limit = 256
dynamic_shapes = True
capture_scalar_outputs = False
optimize_ddp = True
traceable_tensor_subclasses: set[type] = set()


@contextlib.contextmanager
def patch(*args: Any, **kwargs: Any) -> Iterator[None]:
    """A block, and a decorator, without effect."""
    yield
