"""CUDA devices, under PyTorch's names.

Kernels run on the GPU through Numba's CUDA target: install ``jitgrad[cuda]``. Without a GPU,
``NUMBA_ENABLE_CUDASIM=1``, set before Python starts, runs them in Numba's simulator. Everything is
asynchronous on one stream, as in PyTorch; copies to the CPU wait.
"""

from __future__ import annotations

from typing import Any

from jitgrad.core import device as devices
from jitgrad.core import dtypes
from jitgrad.core.errors import scalar_type
from jitgrad.core.layout import Layout
from jitgrad.core.missing_names import explain_missing_names
from jitgrad.core.storage import register_allocator, register_array_type
from jitgrad.kernels.cuda import provider as kernels
from jitgrad.kernels.device_array import DeviceArray
from jitgrad.ops.creation.device_copy import ToDevice, Transfer
from jitgrad.ops.creation.from_data import LegacyType

__all__ = [
    "current_device", "device_count", "empty_cache", "get_device_name", "init", "is_available", "is_initialized",
    "manual_seed", "manual_seed_all", "max_memory_allocated", "max_memory_reserved", "memory_allocated",
    "memory_reserved", "reset_peak_memory_stats", "set_device", "synchronize",
]  # fmt: skip

explain_missing_names(__name__, {"amp": "jitgrad.cuda.amp"})

_NO_CUDA = "Torch not compiled with CUDA enabled"
_opened: dict[int, devices.device] = {}


class _CudaType(LegacyType):
    """Metaclass of ``cuda.FloatTensor`` and its kin. TypeError for calls where there is no CUDA."""

    place = "cuda"

    def __call__(cls, *args: Any) -> Any:
        if not is_available():
            raise TypeError(f"type torch.cuda.{cls.__name__} not available. {_NO_CUDA}.")
        return super().__call__(*args).to("cuda")

    def __repr__(cls) -> str:
        return f"<class 'torch.cuda.{cls.__name__}'>"


for _dtype in (t for t in dtypes.all_dtypes() if not t.is_complex):
    _title = f"{scalar_type(_dtype)}Tensor"
    globals()[_title] = _CudaType(_title, (), {"dtype": _dtype, "__doc__": f"A tensor of {_dtype.name} on a GPU."})


def is_available() -> bool:
    """Whether there is a GPU that kernels can run on, or the simulator."""
    return kernels.is_available()


def device_count() -> int:
    """How many GPUs there are."""
    return kernels.device_count()


def manual_seed(seed: int) -> None:
    """Nothing: random numbers are drawn on the CPU, from the generator that ``jitgrad.manual_seed`` starts."""
    int(seed)


def manual_seed_all(seed: int) -> None:
    """Nothing; see ``manual_seed``."""
    int(seed)


def init() -> None:
    """Make CUDA ready; AssertionError where there is none. Nobody needs to call it."""
    if not kernels.is_available():
        raise AssertionError(_NO_CUDA)
    # Each enters into a table what runs on device arrays in place of a CPU's loop. Programs that use no device, nearly
    # all, are spared the imports.
    from jitgrad.kernels.cuda import loops, matmul, optimizer


def is_initialized() -> bool:
    """Whether a CUDA device has been used."""
    return bool(_opened)


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
    if kernels.SIMULATED:
        return "CUDA simulator"
    name = kernels.provider().get_current_device().name
    return name.decode() if isinstance(name, bytes) else name


# -- memory ---------------------------------------------------------------------------------------


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors hold on the device."""
    return kernels.pool().used if _opened else 0


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors held since the start, or since `reset_peak_memory_stats`."""
    return kernels.pool().peak if _opened else 0


def memory_reserved(device: Any = None) -> int:
    """Bytes that are kept, those of freed tensors included."""
    return kernels.pool().reserved if _opened else 0


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that were kept."""
    return max(memory_reserved(), max_memory_allocated())


def reset_peak_memory_stats(device: Any = None) -> None:
    """Start to measure `max_memory_allocated` anew."""
    if _opened:
        kernels.pool().peak = kernels.pool().used


def empty_cache() -> None:
    """Return the memory of freed tensors to the driver."""
    if _opened:
        kernels.pool().clear()


# -- what core/device.py and core/storage.py call for devices called "cuda" ---------------------------


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
    if index not in _opened:
        _opened[index] = devices.device("cuda", index)
        register_array_type(DeviceArray, _opened[index])
    return _opened[index]


def _allocate(layout: Layout) -> Any:
    return kernels.empty(layout.shape, layout.numpy_dtype, None if layout.contiguous else layout.strides)


devices.register_device("cuda", _open, ToDevice.apply)
register_allocator("cuda", _allocate, Transfer)
