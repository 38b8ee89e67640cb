"""``torch.functional``: functions that ``torch`` has, too, under the module of PyTorch's that they are from."""

from __future__ import annotations

import jitgrad
from jitgrad.core.missing_names import explain_missing_names

_NAMES = [
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors",
    "cartesian_prod", "cdist", "chain_matmul", "einsum", "istft", "lu", "meshgrid", "norm", "pca_lowrank", "split",
    "stft", "svd_lowrank", "tensordot", "unique", "unique_consecutive", "unravel_index",
]  # fmt: skip

globals().update({name: getattr(jitgrad, name) for name in _NAMES if hasattr(jitgrad, name)})
__all__ = [name for name in _NAMES if name in globals()]
explain_missing_names(__name__)
