"""Devices: ``jitgrad.device``, and what a device type needs to be usable (see ``register_device``)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

from jitgrad.core.layout import forget_plans

__all__ = ["device", "device_of", "get_default_device", "move", "register_device", "resolve", "set_default_device"]

_TYPES = (
    "cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, mps, meta, hpu, mtia, "
    "privateuseone"
)
_NO_CUDA = "Torch not compiled with CUDA enabled"


class device:
    """A device, as ``jitgrad.device("cpu")`` or ``jitgrad.device("cuda", 1)``.

    RuntimeError for a type that PyTorch does not know. Naming a device does not require that there is one:
    ``resolve`` looks for it, when a tensor is to be put there.
    """

    __slots__ = ("_before", "index", "type")
    type: str
    index: int | None

    def __init__(self, type: Any, index: int | None = None):
        if isinstance(type, device):
            self.type, self.index = type.type, type.index if index is None else index
            return
        # PyTorch reads a number as an index of the accelerator, which is CUDA here, and asks at once if there is one.
        if isinstance(type, int) and not isinstance(type, bool):
            self.type, self.index = "cuda", type
            return _check_accelerator()
        if not isinstance(type, str):
            found = type.__class__.__name__  # the parameter hides the builtin ``type``
            raise TypeError(f"device(): argument 'type' (position 1) must be str, not {found}")
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

    def __enter__(self) -> device:
        """Make this the device of new tensors until the block ends."""
        before = get_default_device()
        set_default_device(self)
        self._before: list[device] = [*getattr(self, "_before", ()), before]
        return self

    def __exit__(self, *error: Any) -> None:
        set_default_device(self._before.pop())

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate a function so that this is the device of the tensors that it makes."""

        @functools.wraps(function)
        def on_device(*args: Any, **kwargs: Any) -> Any:
            with device(self):
                return function(*args, **kwargs)

        return on_device

    def __reduce__(self) -> Any:
        return (device, (self.type, self.index))


def _check_accelerator() -> None:
    """A number names a CUDA device; RuntimeError where there are none."""
    try:
        resolve(device("cuda"))
    except AssertionError:
        raise RuntimeError("Cannot access accelerator device when none is available.") from None


# By device type. Filled by whoever provides the device (jitgrad/cuda.py): this floor knows no op, and a copy to a
# device is one.
_openers: dict[str, Callable[[device], Any]] = {"cpu": lambda _: "cpu"}
_LATER = {"meta": "jitgrad.ops.creation.meta_device"}  # who provides a device, imported when it is first named
_copiers: dict[str, Callable[[Any, Any], Any]] = {}


def register_device(device_type: str, opener: Callable[[device], Any], copier: Callable[[Any, Any], Any]) -> None:
    """Make a device type available.

    ``opener(device)`` returns the object that ``Layout.device`` holds for it, or raises if there is no such device.
    ``copier(tensor, target)`` returns a copy of a tensor on ``target``, such an object or "cpu", recorded as an op.
    """
    _openers[device_type], _copiers[device_type] = opener, copier


def move(tensor: Any, target: Any) -> Any:
    """A copy of a tensor on another device, ``target`` as layouts have it; one of the two devices may be "cpu"."""
    remote = target if target != "cpu" else tensor._layout.device  # the CPU has no copier: the other device's knows it
    return _copiers[remote.type](tensor, target)


_default: list[Any] = ["cpu"]  # as layouts have it


def set_default_device(device: Any) -> None:
    """Make tensors that are given no ``device`` on this one; None: on the CPU."""
    _default[0] = resolve("cpu" if device is None else device)
    forget_plans()


def get_default_device() -> device:
    """The device of tensors that are given none: the CPU unless ``set_default_device`` changed it."""
    return device(str(_default[0]))


@functools.cache
def device_of(opened: Any) -> device:
    """The device that a layout's ``device`` stands for; the same object each time, for it is asked for often."""
    return device(str(opened))


def resolve(value: Any) -> Any:
    """What ``Layout.device`` holds for the value of a ``device=`` argument: "cpu", or the object of an opened device.

    AssertionError, in PyTorch's words, for CUDA where there is none.
    """
    # The CPU is a string, not an object: layouts are hashed and compared at every new shape, and nearly all are there.
    if value is None:
        return _default[0]
    if value == "cpu":
        return "cpu"
    wanted = value if isinstance(value, device) else device(value)
    if wanted.type in _LATER and wanted.type not in _openers:
        import_module(_LATER[wanted.type])
    opener = _openers.get(wanted.type)
    if opener is None:
        if wanted.type == "cuda":
            raise AssertionError(_NO_CUDA)
        raise RuntimeError(f"PyTorch is not linked with support for {wanted.type} devices")
    return opener(wanted)


def get_device_module(device: Any = None) -> Any:
    """The module of a device's type: ``jitgrad.cpu``, ``jitgrad.cuda``; by default that of the accelerator, if any."""
    import jitgrad

    kind = str(getattr(device, "type", device)).partition(":")[0] if device is not None else "cpu"
    if device is None and jitgrad.cuda.is_available():
        kind = "cuda"
    if kind not in ("cpu", "cuda", "mps", "xpu", "mtia"):
        raise RuntimeError(f"Invalid value of '{device}'. Expect torch.device, str, or None.")
    return getattr(jitgrad, kind)
