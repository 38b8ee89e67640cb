"""Inference mode, and inference tensors: those made in it, which can never be part of a graph.

An inference tensor's version counter is an ``Untracked``. Recording an op reads the versions of the tensors that it
saves, and a write in place advances one; so a counter that raises outside of inference mode refuses both, and neither
path has to test what kind of tensor it meets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jitgrad.core.grad_mode import Mode, enable_grad, state
from jitgrad.core.saved_versions import writes
from jitgrad.core.tensor_observers import tensor_observers

if TYPE_CHECKING:
    from jitgrad.core.tensor import Tensor

__all__ = ["differentiable", "inference_mode", "is_inference_mode_enabled"]

_SAVED = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
    "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in "
    "autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`."
)
_WRITTEN = (  # the missing spaces are PyTorch's
    "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a normal "
    "tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details."
)


class Untracked(list[int]):
    """The version counter of inference tensors: always 0 in inference mode, a RuntimeError to read outside.

    A list, as other counters are, so that ``counter[0] += 1`` on any tensor comes here.
    """

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        if not (state.inference or state.records_inference):
            raise RuntimeError(_SAVED)
        return 0

    def __setitem__(self, index: Any, value: Any) -> None:
        """Writes are not counted."""


def mark_inference(tensor: Tensor) -> None:
    """Make a new tensor an inference tensor, if this thread is in inference mode; an observer of tensors."""
    if state.inference:  # observers see the tensors of all threads
        tensor._counter = Untracked()


def is_inference(tensor: Tensor) -> bool:
    """Whether a tensor was made in inference mode, or is a view of one that was."""
    return type(tensor._counter) is Untracked


def check_write(tensor: Tensor) -> None:
    """RuntimeError if a tensor that is about to be written to is an inference tensor, outside of inference mode.

    Called before the write, or after a counter has refused it, whose own words are those for saving.
    """
    if type(tensor._counter) is Untracked and not (state.inference or state.records_inference):
        raise RuntimeError(_WRITTEN) from None


def check_requires_grad(tensor: Tensor) -> None:
    """RuntimeError if a tensor that is about to require grad is an inference tensor, outside of inference mode."""
    if type(tensor._counter) is Untracked and not (state.inference or state.records_inference):
        raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")


def version(tensor: Tensor) -> int:
    """The number of writes to a tensor's memory; RuntimeError for inference tensors, which count none."""
    if type(tensor._counter) is Untracked:
        raise RuntimeError("Inference tensors do not track version counter.")
    return writes(tensor._counter[0])


def is_inference_mode_enabled() -> bool:
    """Return True if this thread is in inference mode."""
    return state.inference


class inference_mode(Mode):
    """Record nothing inside, and make inference tensors, which can never be part of a graph. Also a decorator.

    Inference tensors count no versions. Outside of the mode they can be read, and used by ops that need not save them;
    writing to them, saving them for backward and making them require grad are RuntimeErrors. ``clone()`` of one makes
    a normal tensor. ``mode=False`` ends the mode for a block within it.
    """

    def __new__(cls, mode: bool | Callable[..., Any] = True) -> Any:
        self = super().__new__(cls)
        return self if isinstance(mode, bool) else cls()(mode)  # ``@inference_mode`` without brackets: a function

    def __init__(self, mode: bool = True):
        self.mode = mode

    def __enter__(self) -> None:
        self._before = state.inference, state.enabled, state.grad_requested, state.computes_tangents
        if self.mode:
            tensor_observers.append(mark_inference)
        state.inference, state.grad_requested = self.mode, False
        state.enabled = state.computes_tangents = not self.mode

    def __exit__(self, *error: Any) -> None:
        state.inference, state.enabled, state.grad_requested, state.computes_tangents = self._before
        if self.mode:
            tensor_observers.remove(mark_inference)

    def clone(self) -> inference_mode:
        """A new object of the same mode."""
        return inference_mode(self.mode)


inference_mode.__module__ = enable_grad.__module__  # PyTorch's path


class differentiable(enable_grad):
    """Record inside, in inference mode too: what ``func.grad`` and ``functional`` need to differentiate a function.

    Tensors made inside are normal ones. Inference tensors from outside may be saved and written to.
    """

    def __enter__(self) -> None:
        self._outer = state.inference, state.records_inference, state.enabled
        state.records_inference = state.inference or state.records_inference
        state.inference, state.enabled = False, True

    def __exit__(self, *error: Any) -> None:
        state.inference, state.records_inference, state.enabled = self._outer
