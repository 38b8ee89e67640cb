"""Where storages are: the tags that files have for devices, and where ``map_location`` puts what is loaded."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jitgrad
from jitgrad.core.device import device
from jitgrad.core.tensor import typename
from jitgrad.ops.memory.storage import UntypedStorage

__all__ = ["default_restore_location", "location_tag", "register_package", "restoring", "validate_cuda_device"]

_packages: list[tuple[int, Callable[[Any], str | None], Callable[[Any, str], Any]]] = []


def register_package(priority: int, tagger: Callable[[Any], str | None],
                     deserializer: Callable[[Any, str], Any]) -> None:  # fmt: skip
    """Let a device have storages in files.

    ``tagger(storage)`` returns the text that stands for its device, ``deserializer(storage, tag)`` the storage on it;
    each None for other devices. They are asked in order of ``priority``, the lowest first.
    """
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda package: package[0])


def location_tag(storage: Any) -> str:
    """The text that stands for a storage's device in files, as "cpu" and "cuda:0"."""
    for _, tagger, _ in _packages:
        if location := tagger(storage):
            return location
    raise RuntimeError(f"don't know how to determine data location of {typename(storage)}")


def default_restore_location(storage: Any, location: str) -> Any:
    """The storage on the device that the text stands for; RuntimeError if nobody knows it."""
    for _, _, restore in _packages:
        if (result := restore(storage, location)) is not None:
            return result
    raise RuntimeError(
        f"don't know how to restore data location of {typename(storage)} (tagged with {location})"
    )


def _is_tagged(location: str, kind: str) -> bool:
    return location == kind or bool(re.match(f"{kind}(:|[0-9]+)", location))


def validate_cuda_device(location: Any) -> int:
    """The index of the CUDA device that a text names; RuntimeError where there is none."""
    _check_available("cuda")
    index = device(location).index or 0
    count = jitgrad.cuda.device_count()
    if index >= count:
        raise RuntimeError(
            f"Attempting to deserialize object on CUDA device {index} but torch.cuda.device_count() is {count}. Please "
            "use torch.load with map_location to map your storages to an existing device."
        )
    return index


def _check_available(kind: str) -> None:
    if kind != "cuda" or not jitgrad.cuda.is_available():
        raise RuntimeError(
            f"Attempting to deserialize object on a {kind.upper()} device but torch.{kind}.is_available() is False. If "
            "you are running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map "
            "your storages to the CPU."
        )


def _cuda_tag(storage: Any) -> str | None:
    return f"cuda:{storage.device.index or 0}" if storage.device.type == "cuda" else None


def _to_cuda(storage: Any, location: str) -> Any:
    if _is_tagged(location, "cuda"):
        return storage.to(device=device("cuda", validate_cuda_device(location)))
    return None


def _to_meta(storage: Any, location: str) -> Any:
    return UntypedStorage(storage.nbytes(), device="meta") if location == "meta" else None


def _elsewhere(storage: Any, location: str) -> Any:
    """Devices that PyTorch has and jitgrad has not."""
    for kind in ("mps", "hpu", "xpu", "mtia"):
        if _is_tagged(location, kind):
            _check_available(kind)
    return None


def _plain_tag(kind: str) -> Callable[[Any], str | None]:
    return lambda storage: kind if storage.device.type == kind else None


register_package(10, _plain_tag("cpu"), lambda storage, location: storage if location == "cpu" else None)
register_package(20, _cuda_tag, _to_cuda)
register_package(22, _plain_tag("meta"), _to_meta)
register_package(30, lambda storage: None, _elsewhere)


def restoring(map_location: Any) -> Callable[[Any, str], Any]:
    """The function (storage, tag) -> storage that ``map_location`` of ``load`` stands for."""
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        return lambda storage, location: default_restore_location(storage, map_location.get(location, location))
    if isinstance(map_location, (str, bytes, device)):
        place = map_location.decode() if isinstance(map_location, bytes) else str(map_location)
        return lambda storage, location: default_restore_location(storage, place)

    def restore(storage: Any, location: str) -> Any:
        result = map_location(storage, location)
        return default_restore_location(storage, location) if result is None else result

    return restore
