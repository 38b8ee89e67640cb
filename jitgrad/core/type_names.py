"""How errors show the type of a value."""

from __future__ import annotations

from typing import Any

from jitgrad.core.dtypes import dtype

__all__ = ["type_name"]

_HEAP_TYPE = 1 << 9  # the bit of a class's __flags__ that says that it was made by a class statement


def type_name(value: Any) -> str:
    """The type of ``value`` as errors show it: that of a class written in C with its module, ``numpy.ndarray``.

    A tensor of PyTorch itself, passed by mistake, is named in full; ``Tensor`` is jitgrad's.
    """
    kind = type(value)
    if kind.__name__ == "Tensor" and kind.__module__ == "torch":
        return "torch.Tensor of PyTorch (jitgrad.from_dlpack takes its memory)"
    if kind is dtype or (kind.__name__ == "device" and kind.__module__ in ("jitgrad.core.device", "torch")):
        return f"torch.{kind.__name__}"
    if kind.__flags__ & _HEAP_TYPE or kind.__module__ == "builtins":
        return kind.__name__
    return f"{kind.__module__}.{kind.__name__}"
