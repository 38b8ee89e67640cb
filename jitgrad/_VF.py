"""PyTorch's ``torch._VF``: the functions of ``jitgrad`` under another name, by which some programs call them."""

from typing import Any

import jitgrad

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    """The function of ``jitgrad`` of that name."""
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(jitgrad, name)
