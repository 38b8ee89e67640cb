"""Parts of PyTorch's functions that programs call by their private names in ``torch.nn.functional``."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import jitgrad
from jitgrad.core.tensor import Tensor
from jitgrad.nn import _reduction as _Reduction
from jitgrad.nn.modules.utils import _list_with_default, _pair, _single, _triple
from jitgrad.ops.linalg.matmul import linear
from jitgrad.ops.nn.multihead_attention import canonical_mask

__all__ = [
    "GRID_SAMPLE_INTERPOLATION_MODES", "GRID_SAMPLE_PADDING_MODES", "_Reduction", "_canonical_mask",
    "_get_softmax_dim", "_in_projection", "_in_projection_packed", "_list_with_default", "_none_or_dtype", "_pair",
    "_single", "_triple", "_verify_batch_size",
]  # fmt: skip

GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}  # as numbers, which PyTorch's ops take
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}


def _canonical_mask(
    mask: Tensor | None, mask_name: str, other_type: Any, other_name: str, target_type: Any, check_other: bool = True
) -> Tensor | None:
    """A mask as one that is added to scores: -inf where a bool hides a key. Another dtype than other's warns."""
    like = jitgrad.empty(0, dtype=target_type, device=None if mask is None else mask.device)
    return canonical_mask(mask, mask_name, other_type if check_other else None, like, other_name)


def _none_or_dtype(input: Tensor | None) -> Any:
    """A tensor's dtype, or None for none."""
    if input is not None and not isinstance(input, Tensor):
        raise RuntimeError("input to _none_or_dtype() must be None or torch.Tensor")
    return None if input is None else input.dtype


def _get_softmax_dim(name: str, ndim: int, stacklevel: int) -> int:
    """The dim that softmax and its kin took before they had the argument; it warns."""
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if ndim in (0, 1, 3) else 1


def _verify_batch_size(size: Sequence[int]) -> None:
    """ValueError unless each channel, dim 1, has more than one value."""
    if size[0] * math.prod(size[2:]) == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")


def _in_projection(
    q: Tensor, k: Tensor, v: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, b_q: Tensor | None = None,
    b_k: Tensor | None = None, b_v: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Query, key and value of attention, each by its linear layer."""
    return linear(q, w_q, b_q), linear(k, w_k, b_k), linear(v, w_v, b_v)


def _in_projection_packed(q: Tensor, k: Tensor, v: Tensor, w: Tensor, b: Tensor | None = None) -> list[Tensor]:
    """Query, key and value of attention by linear layers whose weights, and biases, are in one tensor."""
    biases = (None,) * 3 if b is None else b.chunk(3)
    return list(_in_projection(q, k, v, *w.chunk(3), *biases))
