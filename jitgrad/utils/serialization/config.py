"""``config.load`` and ``config.save``: the options of `load` and `save`, which can be read and set."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

from jitgrad.serialization.options import options

__all__ = ["load", "patch", "save"]


class _Part:
    """Some of the options, as attributes."""

    def __init__(self, *names: str):
        self.__dict__["_names"] = names

    def __getattr__(self, name: str) -> Any:
        if name not in self.__dict__["_names"]:
            raise AttributeError(f"config has no option {name!r}")
        return getattr(options, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self.__getattr__(name)
        setattr(options, name, value)


load = _Part("mmap", "endianness", "mmap_flags", "calculate_storage_offsets")
save = _Part("compute_crc32", "use_pinned_memory_for_d2h", "storage_alignment")


@contextmanager
def patch(changes: Any = None, value: Any = None, **more: Any) -> Any:
    """A context with other options: ``patch({"load.mmap": True})`` or ``patch("load.mmap", True)``."""
    wanted = {changes: value} if isinstance(changes, str) else {**(changes or {}), **more}
    parts = {"load": load, "save": save}
    before = {}
    try:
        for name, new in wanted.items():
            part, _, option = name.partition(".")
            before[name] = getattr(parts[part], option)
            setattr(parts[part], option, new)
        yield
    finally:
        for name, old in before.items():
            part, _, option = name.partition(".")
            setattr(parts[part], option, old)
