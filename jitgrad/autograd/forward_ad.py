"""jitgrad.autograd.forward_ad: a level in which tensors are made dual, and the tangents of results are read.

Dual tensors and their rules are in jitgrad/transforms/dual.py; func.jvp uses the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jitgrad.core.grad_mode import Mode, state
from jitgrad.core.tensor import Tensor
from jitgrad.core.wrapped import Level
from jitgrad.ops.shape.view import view_as
from jitgrad.transforms import dual_inplace  # noqa: F401  (gives Dual its writes)
from jitgrad.transforms.batched import batches_of
from jitgrad.transforms.dual import dual, split

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


NESTED = "Nested forward mode AD is not supported at the moment"


def __getattr__(name: str) -> int:
    """``_current_level``: 0 while a level is open, else -1."""
    if name == "_current_level":
        return -1 if state.forward is None else 0
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class UnpackedDualTensor(NamedTuple):
    """A dual tensor's value and its tangent (None without one)."""

    primal: Any
    tangent: Any


def enter_dual_level() -> int:
    """Open a level; tensors made dual inside are dual until it is closed."""
    if state.forward is not None or any(type(level) is Level for level in state.levels):
        raise RuntimeError(NESTED)
    state.forward = Level()  # one per thread: PyTorch has no nested levels
    state.forward.__enter__()
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level: tangents are lost."""
    if state.forward is None:
        raise RuntimeError("Dual level must be a positive number.")
    if level not in (None, 0):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    state.forward.__exit__()
    state.forward = None


class dual_level:
    """A block in which tensors can be made dual."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *error: Any) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Return ``tensor`` with a tangent of its shape and dtype attached."""
    if state.forward is None:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    check_float(tensor, tangent)
    if not state.computes_tangents:
        return tensor.detach() if state.inference else view_as(tensor, tensor)
    check_unbatched(tensor)
    if split(tensor, state.forward)[1] is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is not "
            "supported."
        )
    if split(tangent, state.forward)[1] is not None:
        raise RuntimeError(
            "Setting a forward grad that itself has a forward gradient at the same level0 is not supported."
        )
    check_tangent(tensor, tangent)
    # As in PyTorch, a dual tensor is a view: that of a leaf is itself no leaf, and its gradient flows on to the leaf.
    return dual(state.forward, view_as(tensor, tensor), tangent)


def check_float(tensor: Tensor, tangent: Tensor) -> None:
    """ValueError for a primal or tangent that is not of floating point or complex numbers."""
    for name, t in (("primal", tensor), ("tangent", tangent)):
        if t._layout.dtype.category < 2:
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {t.dtype}")


def check_unbatched(tensor: Tensor) -> None:
    """RuntimeError for a batched tensor, which PyTorch can't make dual by hand."""
    if state.levels and batches_of(tensor):
        raise RuntimeError(
            "Batching rule not implemented for aten::_make_dual; the fallback path doesn't work on out= or view ops."
        )


def check_tangent(tensor: Tensor, tangent: Tensor) -> None:
    """RuntimeError unless a tangent has the shape of its primal."""
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(tensor.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}."
        )


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Return (primal, tangent) of a tensor; the tangent is None where it has none."""
    if state.forward is None or not state.computes_tangents:
        return UnpackedDualTensor(tensor, None)
    primal, tangent = split(tensor, state.forward)
    # An alias: ops on the primal are recorded as ops on a view of the tensor, as in PyTorch.
    return UnpackedDualTensor(tensor if tangent is None else view_as(primal, primal), tangent)


class _set_fwd_grad_enabled(Mode):
    """Compute tangents or not, by a flag: takes effect at once, and as a context manager until its end."""

    def __init__(self, mode: bool):
        self.mode, self._before = mode, state.computes_tangents
        state.computes_tangents = mode

    def __enter__(self) -> None:
        """Do nothing: the flag is set on construction, as PyTorch does it."""

    def __exit__(self, *error: Any) -> None:
        state.computes_tangents = self._before

    def clone(self) -> _set_fwd_grad_enabled:
        """The same flag, set again."""
        return type(self)(self.mode)


def _is_fwd_grad_enabled() -> bool:
    """Return True if ops on dual tensors compute tangents in this thread."""
    return state.computes_tangents
