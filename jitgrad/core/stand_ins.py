"""Classes and flags of ``torch`` that programs name and that mean little here."""

from __future__ import annotations

import enum

from jitgrad.core.absent import absent

__all__ = ["AcceleratorError", "Event", "OutOfMemoryError", "Stream", "SymBool", "SymFloat", "SymInt", "Tag"]

_REASON = "shapes and numbers are Python's own"
SymBool, SymFloat, SymInt = (absent("jitgrad", name, _REASON) for name in ("SymBool", "SymFloat", "SymInt"))
Event, Stream = (absent("jitgrad", name, "work is queued on one stream") for name in ("Event", "Stream"))
has_lapack = has_mkl = has_openmp = has_spectral = True


class OutOfMemoryError(RuntimeError):
    """A device has no memory left."""


class AcceleratorError(RuntimeError):
    """A device has failed."""


class Tag(enum.Enum):
    """What PyTorch notes about an op; custom ops may name them, nothing looks at them."""

    core, cudagraph_unsafe, data_dependent_output, dynamic_output_shape, flexible_layout, generated = range(6)
    inplace_view, maybe_aliasing_or_mutating, needs_contiguous_strides, needs_exact_strides = range(6, 10)
    needs_fixed_stride_order, nondeterministic_bitwise, nondeterministic_seeded, pointwise = range(10, 14)
    pt2_compliant_tag, reduction, view_copy = range(14, 17)


def is_vulkan_available() -> bool:
    """Whether there is a Vulkan device: never."""
    return False


def is_distributed(input: object) -> bool:
    """Whether a tensor is spread over processes: never."""
    return False


for _kind in (OutOfMemoryError, AcceleratorError, Tag):
    _kind.__module__ = "jitgrad"
