"""Inference mode, and its tensors: what is made in it stays out of every graph.

Their version counter is one that does not count. Recording an op reads the versions of what it
saves, and writing in place advances one, so the counter itself refuses both outside of inference
mode: neither path has to ask what kind of tensor it meets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jitgrad.core.grad_mode import Mode, enable_grad, state
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
    """The version counter of inference tensors: silent in inference mode, refusing to be read outside."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        if not (state.inference or state.records_inference):
            raise RuntimeError(_SAVED)
        return 0

    def __setitem__(self, index: Any, value: Any) -> None:
        """Nothing is counted."""


def mark(tensor: Tensor) -> None:
    """Make a new tensor an inference tensor, if this thread is in inference mode."""
    if state.inference:
        tensor._counter = Untracked()


def is_inference(tensor: Tensor) -> bool:
    """Whether a tensor was made in inference mode, or shows the memory of one that was."""
    return type(tensor._counter) is Untracked


def check_write(tensor: Tensor) -> None:
    """A RuntimeError for inference tensors that are to be written to outside of inference mode."""
    if type(tensor._counter) is Untracked and not (state.inference or state.records_inference):
        raise RuntimeError(_WRITTEN) from None


def check_requires_grad(tensor: Tensor) -> None:
    """A RuntimeError for inference tensors that are to require grad outside of inference mode."""
    if type(tensor._counter) is Untracked and not (state.inference or state.records_inference):
        raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")


def version(tensor: Tensor) -> int:
    """How often a tensor's memory was written to."""
    if type(tensor._counter) is Untracked:
        raise RuntimeError("Inference tensors do not track version counter.")
    return tensor._counter[0]


def is_inference_mode_enabled() -> bool:
    """Return True if this thread is in inference mode."""
    return state.inference


class inference_mode(Mode):
    """Record nothing inside, and make tensors that never can be part of a graph. Also a decorator.

    Such inference tensors count no versions. Outside they can be read, and used by ops that need not
    save them; writing to them, saving them for backward and making them require grad are RuntimeErrors.
    ``clone()`` gives a normal tensor. ``mode=False`` is the ordinary state within inference mode.
    """

    def __new__(cls, mode: bool | Callable[..., Any] = True) -> Any:
        self = super().__new__(cls)
        return self if isinstance(mode, bool) else cls()(mode)

    def __init__(self, mode: bool = True):
        self.mode = mode

    def __enter__(self) -> None:
        self._before = state.inference, state.enabled, state.grad_requested, state.computes_tangents
        if self.mode:
            tensor_observers.append(mark)
        state.inference, state.grad_requested = self.mode, False
        state.enabled = state.computes_tangents = not self.mode

    def __exit__(self, *error: Any) -> None:
        state.inference, state.enabled, state.grad_requested, state.computes_tangents = self._before
        if self.mode:
            tensor_observers.remove(mark)

    def clone(self) -> inference_mode:
        """The same mode, to be entered once more."""
        return inference_mode(self.mode)


class differentiable(enable_grad):
    """Record inside, in inference mode too: for functions that are differentiated as a whole.

    What is made inside is no inference tensor; those that come from outside may take part.
    """

    def __enter__(self) -> None:
        self._outer = state.inference, state.records_inference, state.enabled
        state.records_inference = state.inference or state.records_inference
        state.inference, state.enabled = False, True

    def __exit__(self, *error: Any) -> None:
        state.inference, state.records_inference, state.enabled = self._outer
