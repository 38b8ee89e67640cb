"""CUDA devices, under PyTorch's names.

Kernels run on the GPU through Numba's CUDA target: install ``jitgrad[cuda]``. Without a GPU,
``NUMBA_ENABLE_CUDASIM=1``, set before Python starts, runs them in Numba's simulator. Everything is
asynchronous on one stream, as in PyTorch; copies to the CPU wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jitgrad.core import dtypes
from jitgrad.core.errors import scalar_type
from jitgrad.core.layout import Layout
from jitgrad.core.lazy_import import set_lazy_attributes
from jitgrad.core.storage import register_allocator
from jitgrad.cuda.devices import (
    NO_CUDA,
    current_device,
    device,
    device_count,
    device_of,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    init,
    is_available,
    is_bf16_supported,
    is_initialized,
    is_tf32_supported,
    mem_get_info,
    opened,
    set_device,
    synchronize,
)  # fmt: skip
from jitgrad.kernels.cuda import provider as kernels
from jitgrad.ops.creation.device_copy import Transfer
from jitgrad.ops.creation.from_data import LegacyType

__all__ = [
    "Event", "Stream", "StreamContext", "current_device", "current_stream", "default_stream", "device", "device_count",
    "device_of", "empty_cache", "get_arch_list", "get_device_capability", "get_device_name", "get_device_properties",
    "get_rng_state", "get_rng_state_all", "init", "initial_seed", "is_available", "is_bf16_supported", "is_initialized",
    "is_tf32_supported", "manual_seed", "manual_seed_all", "max_memory_allocated", "max_memory_reserved",
    "mem_get_info", "memory_allocated", "memory_reserved", "reset_peak_memory_stats", "seed", "seed_all", "set_device",
    "set_rng_state", "set_rng_state_all", "set_stream", "stream", "synchronize",
]  # fmt: skip

if TYPE_CHECKING:  # what is imported at its first use
    from jitgrad.cuda import amp, random, streams
    from jitgrad.cuda.random import (
        get_rng_state,
        get_rng_state_all,
        initial_seed,
        manual_seed,
        manual_seed_all,
        seed,
        seed_all,
        set_rng_state,
        set_rng_state_all,
    )
    from jitgrad.cuda.streams import (
        Event,
        Stream,
        StreamContext,
        current_stream,
        default_stream,
        set_stream,
        stream,
    )  # fmt: skip

_LATER = {
    "random": (
        "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed", "seed_all",
        "set_rng_state", "set_rng_state_all",
    ),
    "streams": ("Event", "Stream", "StreamContext", "current_stream", "default_stream", "set_stream", "stream"),
}  # fmt: skip
_MODULES = {name: f"{__name__}.{name}" for name in ("amp", *_LATER)}
set_lazy_attributes(__name__, {**_MODULES, **{n: _MODULES[m] for m, names in _LATER.items() for n in names}})


class _CudaType(LegacyType):
    """Metaclass of ``cuda.FloatTensor`` and its kin. TypeError for calls where there is no CUDA."""

    place = "cuda"

    def __call__(cls, *args: Any) -> Any:
        if not is_available():
            raise TypeError(f"type torch.cuda.{cls.__name__} not available. {NO_CUDA}.")
        return super().__call__(*args).to("cuda")

    def __repr__(cls) -> str:
        return f"<class 'torch.cuda.{cls.__name__}'>"


for _dtype in (t for t in dtypes.all_dtypes() if not t.is_complex):
    _title = f"{scalar_type(_dtype)}Tensor"
    globals()[_title] = _CudaType(_title, (), {"dtype": _dtype, "__doc__": f"A tensor of {_dtype.name} on a GPU."})


# -- memory ---------------------------------------------------------------------------------------


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors hold on the device."""
    return kernels.pool().used if opened else 0


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors held since the start, or since `reset_peak_memory_stats`."""
    return kernels.pool().peak if opened else 0


def memory_reserved(device: Any = None) -> int:
    """Bytes that are kept, those of freed tensors included."""
    return kernels.pool().reserved if opened else 0


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that were kept."""
    return max(memory_reserved(), max_memory_allocated())


def reset_peak_memory_stats(device: Any = None) -> None:
    """Start to measure `max_memory_allocated` anew."""
    if opened:
        kernels.pool().peak = kernels.pool().used


def empty_cache() -> None:
    """Return the memory of freed tensors to the driver."""
    if opened:
        kernels.pool().clear()


# -- what core/storage.py calls for devices called "cuda" ----------------------------------------------------


def _allocate(layout: Layout) -> Any:
    return kernels.empty(layout.shape, layout.numpy_dtype, None if layout.contiguous else layout.strides)


register_allocator("cuda", _allocate, Transfer)
