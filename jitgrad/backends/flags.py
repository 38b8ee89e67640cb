"""What several of the modules here need: flags that are set for the time of a ``with`` block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["kept"]


@contextmanager
def kept(module: dict[str, Any], **flags: Any) -> Iterator[None]:
    """Set names of a module, given as its globals, and set them back at the block's end; None leaves one as it is."""
    before = {name: module[name] for name in flags}
    module.update({name: value for name, value in flags.items() if value is not None})
    try:
        yield
    finally:
        module.update(before)
