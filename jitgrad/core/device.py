"""Devices: where a tensor's values are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["device", "move", "register_device", "resolve"]

_TYPES = (
    "cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, mps, meta, hpu, mtia, "
    "privateuseone"
)
_NO_CUDA = "Torch not compiled with CUDA enabled"


class device:
    """A device, as ``jitgrad.device("cpu")`` or ``jitgrad.device("cuda", 1)``.

    RuntimeError for a type that PyTorch does not know. Naming a device does not ask for it.
    """

    __slots__ = ("index", "type")
    type: str
    index: int | None

    def __init__(self, type: Any, index: int | None = None):
        if isinstance(type, device):
            self.type, self.index = type.type, type.index if index is None else index
            return
        if isinstance(type, int) and not isinstance(type, bool):
            self.type, self.index = "cuda", type
            return _check_accelerator()
        if not isinstance(type, str):
            raise TypeError(f"device(): argument 'type' (position 1) must be str, not {_kind(type)}")
        name, colon, number = type.partition(":")
        if name not in _TYPES.split(", "):
            raise RuntimeError(f"Expected one of {_TYPES} device type at start of device string: {type}")
        if colon and not number.isdigit():
            raise RuntimeError(f"Invalid device string: '{type}'")
        if colon and index is not None:
            raise RuntimeError(f"type (string) must not include an index because index was passed explicitly: {type}")
        self.type, self.index = name, int(number) if colon else index

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return f"device(type='{self.type}'{'' if self.index is None else f', index={self.index}'})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> Any:
        return (device, (self.type, self.index))


def _kind(value: Any) -> str:
    return type(value).__name__


def _check_accelerator() -> None:
    """A number names a CUDA device; RuntimeError where there are none."""
    try:
        resolve(device("cuda"))
    except AssertionError:
        raise RuntimeError("Cannot access accelerator device when none is available.") from None


# device type -> (function that turns a device into what layouts carry, or raises; function that
# copies a tensor to or from such a device, recorded).
_openers: dict[str, Callable[[device], Any]] = {"cpu": lambda _: "cpu"}
_movers: dict[str, Callable[[Any, Any], Any]] = {}


def register_device(device_type: str, opener: Callable[[device], Any], mover: Callable[[Any, Any], Any]) -> None:
    """Make a device type available.

    ``opener(device)`` returns what a Layout's ``device`` holds, ``mover(tensor, that)`` copies a
    tensor to it, or from it to "cpu".
    """
    _openers[device_type], _movers[device_type] = opener, mover


def move(tensor: Any, where: Any) -> Any:
    """Copy a tensor to another device, by the mover of the one of both that is not the CPU."""
    away = where if where != "cpu" else tensor._layout.device
    return _movers[away.type](tensor, where)


def resolve(value: Any) -> Any:
    """What a Layout carries for a ``device=`` argument: "cpu", or a device object.

    AssertionError, in PyTorch's words, for CUDA where there is none.
    """
    if value is None or value == "cpu":
        return "cpu"
    wanted = value if isinstance(value, device) else device(value)
    opener = _openers.get(wanted.type)
    if opener is None:
        if wanted.type == "cuda":
            raise AssertionError(_NO_CUDA)
        raise RuntimeError(f"PyTorch is not linked with support for {wanted.type} devices")
    return opener(wanted)
