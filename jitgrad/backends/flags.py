"""What several of the modules here need: flags that are set once, or for the time of a ``with`` block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["kept", "set_given"]


def set_given(module: dict[str, Any], **flags: Any) -> tuple[Any, ...]:
    """Set names of a module, given as its globals, but those that are None; returns what all were before."""
    before = tuple([module[name] for name in flags])
    module.update({name: value for name, value in flags.items() if value is not None})
    return before


@contextmanager
def kept(module: dict[str, Any], **flags: Any) -> Iterator[None]:
    """Set names of a module, given as its globals, and set them back at the block's end; None leaves one as it is."""
    before = set_given(module, **flags)
    try:
        yield
    finally:
        module.update(zip(flags, before, strict=True))
