"""The devices that "cuda" means: how many there are, which one is used, and what it is."""

from __future__ import annotations

from typing import Any, NamedTuple

from jitgrad.core import device as devices
from jitgrad.core.storage import register_array_type
from jitgrad.core.tensor import Tensor
from jitgrad.kernels.cuda import provider as kernels
from jitgrad.kernels.device_array import DeviceArray
from jitgrad.ops.creation.device_copy import ToDevice

__all__ = [
    "NO_CUDA", "current_device", "device", "device_count", "device_of", "get_arch_list", "get_device_capability",
    "get_device_name", "get_device_properties", "init", "is_available", "is_bf16_supported", "is_initialized",
    "is_tf32_supported", "mem_get_info", "opened", "set_device", "synchronize",
]  # fmt: skip

NO_CUDA = "Torch not compiled with CUDA enabled"
opened: dict[int, devices.device] = {}  # those that tensors have been put on


def is_available() -> bool:
    """Whether there is a GPU that kernels can run on, or the simulator."""
    return kernels.is_available()


def device_count() -> int:
    """How many GPUs there are."""
    return kernels.device_count()


def init() -> None:
    """Make CUDA ready; AssertionError where there is none. Nobody needs to call it."""
    if not kernels.is_available():
        raise AssertionError(NO_CUDA)
    # Each enters into a table what runs on device arrays in place of a CPU's loop. Programs that use no device, nearly
    # all, are spared the imports.
    from jitgrad.kernels.cuda import loops, matmul, optimizer  # noqa: F401


def is_initialized() -> bool:
    """Whether a CUDA device has been used."""
    return bool(opened)


def current_device() -> int:
    """The index of the device that "cuda" means: always 0."""
    init()
    return 0


def set_device(device: Any) -> None:
    """Choose the device that "cuda" means; only the first can be chosen."""
    _index(device)  # raises for any other


def synchronize(device: Any = None) -> None:
    """Wait until everything launched has run."""
    init()
    kernels.synchronize()


def get_device_name(device: Any = None) -> str:
    """The name of the GPU."""
    _index(device)
    return kernels.properties()[0]


class DeviceProperties(NamedTuple):
    """What a GPU is. total_memory: bytes. major, minor: its compute capability."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int


def get_device_properties(device: Any = None) -> DeviceProperties:
    """The properties of a GPU; AssertionError where there is none."""
    init()
    index = devices.device(device).index if isinstance(device, (str, devices.device)) else device
    if index is not None and not 0 <= index < device_count():
        raise AssertionError("Invalid device id")
    name, (major, minor), processors = kernels.properties()
    return DeviceProperties(name, major, minor, kernels.memory_info()[1], processors)


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of a GPU, as (major, minor); AssertionError where there is none."""
    found = get_device_properties(device)
    return found.major, found.minor


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether tensors of bfloat16 can be on the GPU; with False, whether it computes with them (Ampere and later do).

    False where there is no GPU.
    """
    return is_available() and (including_emulation or get_device_capability()[0] >= 8)


def is_tf32_supported() -> bool:
    """Whether the GPU's products may use TensorFloat-32; jitgrad's never do."""
    return is_bf16_supported(including_emulation=False)


def get_arch_list() -> list[str]:
    """The architectures that kernels can be compiled for: that of this GPU, if there is one."""
    return [f"sm_{''.join(map(str, get_device_capability()))}"] if is_available() else []


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Bytes of a GPU's memory that are free, and all it has; AssertionError where there is none."""
    _index(device)
    return kernels.memory_info()


class device:
    """``with device(0):`` a context in which a GPU is the one that "cuda" means.

    Only the first can be chosen. None and negative numbers choose none.
    """

    def __init__(self, device: Any):
        index = devices.device(device).index if isinstance(device, (str, devices.device)) else device
        self.idx = -1 if index is None else int(index)

    def __enter__(self) -> None:
        if self.idx >= 0:
            set_device(self.idx)

    def __exit__(self, *raised: Any) -> None:
        pass


class device_of(device):
    """``with device_of(tensor):`` the same for the GPU that a tensor is on; nothing for one on the CPU."""

    def __init__(self, obj: Tensor):
        super().__init__(obj.get_device() if obj.is_cuda else None)


# -- what core/device.py calls for devices called "cuda" -----------------------------------------------------


def _index(device: Any) -> int:
    """The index that a ``device`` argument means; RuntimeError where there is no such device."""
    init()
    wanted = device if isinstance(device, int) or device is None else devices.device(device).index
    if wanted is not None and wanted >= kernels.device_count():
        raise RuntimeError("CUDA error: invalid device ordinal")
    if wanted:
        raise NotImplementedError(f"jitgrad runs on the first GPU only, not on cuda:{wanted}; set CUDA_VISIBLE_DEVICES")
    return 0


def _open(device: devices.device) -> devices.device:
    """The device object that layouts carry, one for each device: layouts are compared by identity."""
    index = _index(device.index)
    if index not in opened:
        opened[index] = devices.device("cuda", index)
        register_array_type(DeviceArray, opened[index])
    return opened[index]


devices.register_device("cuda", _open, ToDevice.apply)
