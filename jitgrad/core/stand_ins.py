"""Classes and flags of ``torch`` that programs name and that mean little here."""

from __future__ import annotations

import enum
from typing import Any

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


def get_device(input: Any) -> int:
    """The number of a tensor's device; -1 for the CPU."""
    return int(input.get_device())


def detach(input: Any) -> Any:
    """A tensor's values outside of the graph, on the same memory."""
    return input.detach()


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Switch ``autograd.set_detect_anomaly`` on or off, for good."""
    import jitgrad

    jitgrad.autograd.set_detect_anomaly(enabled, check_nan)


def cond(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    """``true_fn(*operands)`` if ``pred`` holds, else ``false_fn(*operands)``."""
    return (true_fn if bool(pred) else false_fn)(*operands)


def _removed(name: str, words: str) -> Any:
    """A function that PyTorch has for its error alone."""

    def function(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"This function was deprecated since version 1.9 and is now removed.{words}")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Removed from PyTorch: RuntimeError that names what ``linalg`` has instead of ``{name}``."
    return function


eig = _removed(
    "eig", " `torch.linalg.eig` returns complex tensors of dtype `cfloat` or `cdouble` rather than real tensors "
    "mimicking complex tensors.\n\nL, _ = torch.eig(A) should be replaced with:\nL_complex = torch.linalg.eigvals(A)"
    "\n\nand\n\nL, V = torch.eig(A, eigenvectors=True) should be replaced with:\n"
    "L_complex, V_complex = torch.linalg.eig(A)",
)  # fmt: skip
lstsq = _removed(
    "lstsq", " `torch.lstsq` is deprecated in favor of `torch.linalg.lstsq`.\n`torch.linalg.lstsq` has reversed "
    "arguments and does not return the QR decomposition in the returned tuple (although it returns other information "
    "about the problem).\n\nTo get the QR decomposition consider using `torch.linalg.qr`.\n\nThe returned solution in "
    "`torch.lstsq` stored the residuals of the solution in the last m - n columns of the returned value whenever m > n."
    " In torch.linalg.lstsq, the residuals are in the field 'residuals' of the returned named tuple.\n\nThe unpacking "
    "of the solution, as in\nX, _ = torch.lstsq(B, A).solution[:A.size(1)]\nshould be replaced with:\n"
    "X = torch.linalg.lstsq(A, B).solution",
)  # fmt: skip
matrix_rank = _removed(
    "matrix_rank", "\nPlease use the `torch.linalg.matrix_rank` function instead. The parameter 'symmetric' was "
    "renamed in `torch.linalg.matrix_rank()` to 'hermitian'.",
)  # fmt: skip
solve = _removed(
    "solve", " `torch.solve` is deprecated in favor of `torch.linalg.solve`. `torch.linalg.solve` has its arguments "
    "reversed and does not return the LU factorization.\n\nTo get the LU factorization see `torch.lu`, which can be "
    "used with `torch.lu_solve` or `torch.lu_unpack`.\nX = torch.solve(B, A).solution should be replaced with:\n"
    "X = torch.linalg.solve(A, B)",
)  # fmt: skip
symeig = _removed(
    "symeig", " The default behavior has changed from using the upper triangular portion of the matrix by default to "
    "using the lower triangular portion.\n\nL, _ = torch.symeig(A, upper=upper) should be replaced with:\n"
    "L = torch.linalg.eigvalsh(A, UPLO='U' if upper else 'L')\n\nand\n\nL, V = torch.symeig(A, eigenvectors=True) "
    "should be replaced with:\nL, V = torch.linalg.eigh(A, UPLO='U' if upper else 'L')",
)  # fmt: skip


for _kind in (OutOfMemoryError, AcceleratorError, Tag):
    _kind.__module__ = "jitgrad"
