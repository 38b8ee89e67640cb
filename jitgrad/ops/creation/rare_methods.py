"""Methods of PyTorch's tensors that are left from earlier releases, or say little here."""

from __future__ import annotations

import warnings
from typing import Any

from jitgrad.core.stand_ins import eig, lstsq, solve, symeig
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import user_level
from jitgrad.dispatch.registry import method

__all__: list[str] = []


def _dim_order(self: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The dims from the one with the largest stride to that with the smallest."""
    strides = self.stride()
    return tuple(sorted(range(self.ndim), key=lambda d: (-strides[d], d)))


def _module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """What ``load_state_dict`` puts in the place of a parameter: this tensor with the values of ``other``, or that."""
    return other.detach() if assign else self.copy_(other).detach()


def _record_stream(self: Tensor, s: Any) -> None:
    """Nothing: there is one stream."""


def _reinforce(self: Tensor, reward: Any) -> None:
    """RuntimeError: what PyTorch has removed."""
    raise RuntimeError(
        "reinforce() was removed.\nUse torch.distributions instead.\nSee https://pytorch.org/docs/main/distributions.html"
    )


def _resize(self: Tensor, *sizes: Any) -> Tensor:
    """A view of another shape with as many elements, with PyTorch's warning: use ``reshape``."""
    warnings.warn("non-inplace resize is deprecated", UserWarning, stacklevel=user_level())
    return self.reshape(*sizes)


def _resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """``resize`` to another tensor's shape."""
    warnings.warn("non-inplace resize_as is deprecated", UserWarning, stacklevel=user_level())
    return self.reshape(tensor.shape)


for _name, _function in {
    "dim_order": _dim_order, "module_load": _module_load,
    "record_stream": _record_stream, "reinforce": _reinforce, "resize": _resize, "resize_as": _resize_as,
    "eig": eig, "lstsq": lstsq, "solve": solve, "symeig": symeig,
}.items():  # fmt: skip
    method(_function, _name)
