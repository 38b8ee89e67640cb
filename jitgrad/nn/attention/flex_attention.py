"""Attention whose scores a function of the user's changes: PyTorch's flex_attention, composed of other ops.

``score_mod`` and ``mask_mod`` are written for one position and run for all by ``vmap``; the matrix of scores is made as
a whole, and blocks that a BlockMask leaves out are computed and then masked. PyTorch does so too outside of
``torch.compile``, and warns of it, and has no gradients on CPU; here they are as for other ops.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import jitgrad
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import user_level
from jitgrad.nn.attention.block_mask import (
    ONE_BLOCK,
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    noop_mask,
    or_masks,
    over_positions,
    sliced_mask,
)

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "and_masks", "create_block_mask", "create_mask", "flex_attention",
    "noop_mask", "or_masks",
]  # fmt: skip


class AuxRequest(NamedTuple):
    """What ``flex_attention`` is to return besides: the logsumexp of scores, their maxima."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for by an AuxRequest, else None: (B, H, L)."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def flex_attention(
    query: Tensor, key: Tensor, value: Tensor, score_mod: Any = None, block_mask: BlockMask | None = None,
    scale: float | None = None, enable_gqa: bool = False, return_lse: bool = False, kernel_options: Any = None, *,
    return_aux: AuxRequest | None = None,
) -> Any:  # fmt: skip
    """softmax(score_mod(scale * query @ key^T)) @ value, of query (B, Hq, L, E), key (B, H, S, E), value (B, H, S, Ev).

    score_mod: ``f(score, b, h, q_idx, kv_idx)`` of one position. block_mask: what counts; a row without anything gives
    zeros. scale: 1 / sqrt(E) if not given. enable_gqa: each head of key and value serves Hq / H of the query. Returns
    (B, Hq, L, Ev), with ``return_aux`` and an AuxOutput, or with ``return_lse`` and the logsumexp of the scores.
    ValueError, NotImplementedError where shapes do not fit. kernel_options change nothing.
    """
    _check_inputs(query, key, value, enable_gqa, block_mask)
    if block_mask is not None:
        _check_mask(block_mask, query.size(-2), key.size(-2))
    if return_lse and return_aux is not None:
        raise ValueError(
            "Cannot specify both return_lse and return_aux. return_lse is deprecated, please use "
            "return_aux=AuxRequest(lse=True) instead."
        )
    if return_lse:
        warnings.warn(
            "return_lse is deprecated and will be removed in v2.10. Please use return_aux=AuxRequest(lse=True) "
            "instead.", FutureWarning, stacklevel=user_level(),
        )  # fmt: skip
    groups = query.size(1) // key.size(1)
    key, value = (t.repeat_interleave(groups, 1).expand(query.size(0), -1, -1, -1) for t in (key, value))
    scores = _scores(query, key, score_mod, block_mask, 1 / math.sqrt(query.size(-1)) if scale is None else scale)
    out = jitgrad._safe_softmax(scores, -1).to(query.dtype) @ value.to(query.dtype)
    if return_aux is None:
        return (out, scores.logsumexp(-1)) if return_lse else out
    lse = scores.logsumexp(-1) if return_aux.lse else None
    return out, AuxOutput(lse, scores.amax(-1) if return_aux.max_scores else None)


def _scores(query: Tensor, key: Tensor, score_mod: Any, block_mask: BlockMask | None, scale: float) -> Tensor:
    """The changed scores, -inf where nothing counts; in float32 at least."""
    precision = jitgrad.float64 if query.dtype is jitgrad.float64 else jitgrad.float32
    scores = query.to(precision) @ key.to(precision).transpose(-2, -1) * scale
    if score_mod is not None:
        positions = [jitgrad.arange(n, device=query.device) for n in scores.shape]
        scores = over_positions(score_mod, True)(scores, *positions)
    counting = None if block_mask is None else block_mask.counting(scores.shape)
    return scores if counting is None else scores.masked_fill(~counting, -math.inf)


def _check_inputs(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool, block_mask: BlockMask | None) -> None:
    if min(query.dim(), key.dim(), value.dim()) < 2:
        raise ValueError(
            f"Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: {query.dim()}, "
            f"key.dim: {key.dim()} and value.dim: {value.dim()} instead."
        )
    if query.size(-1) != key.size(-1):
        raise ValueError(
            f"Expect query and key/value to have the same embedding dimension but got E={query.size(-1)} and "
            f"E={key.size(-1)}."
        )
    if (query.dim(), key.dim(), value.dim()) != (4, 4, 4):
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    heads, own = query.size(1), key.size(1)
    if not enable_gqa and heads != own:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq={heads} and Hkv={own}. Try "
            "setting enable_gqa=True for GQA."
        )
    if heads % own:
        raise ValueError(
            f"Expect number of query heads to be a multiple of kv heads for GQA but got Hq={heads} and Hkv={own}."
        )
    samples, others = query.size(0), key.size(0)
    if samples == others:
        return
    if block_mask is None:
        raise ValueError(
            "Expect query and key/value to have the same batch size, or non-none block_mask, but got block_mask=None, "
            f"Bq={samples}, and Bkv={others}."
        )
    if block_mask.kv_num_blocks.size(0) != samples:
        raise ValueError(
            "Expect query and key/value to have the same batch size, or block_mask and query to have the same batch "
            f"size, but got Bq={samples}, Bkv={others}, B_block_mask={block_mask.kv_num_blocks.size(0)}."
        )
    if others != 1:
        raise RuntimeError(f"Bq and Bkv must broadcast. Got Bq={samples} and Bkv={others}")


def _check_mask(mask: BlockMask, q_len: int, kv_len: int) -> None:
    if mask.mask_mod is sliced_mask:
        raise RuntimeError("Cannot use mask_mod from a sliced BlockMask")
    if mask.BLOCK_SIZE == (ONE_BLOCK, ONE_BLOCK) or mask.shape[-2:] == (q_len, kv_len):
        return
    made = f"block_mask was created for block_mask.shape={mask.shape} but got q_len={q_len} and kv_len={kv_len}. "
    if q_len > mask.shape[-2] or kv_len > mask.shape[-1]:
        raise ValueError(
            f"{made}As the block mask was created for a smaller length than you're using it for, you likely need to "
            "create a new block mask."
        )
    raise ValueError(
        f"{made}As the block mask was created for a larger length than you're using it for, you can either 1. create "
        "a new block mask with the correct length, or 2. 'adjust' the existing block mask to the correct length by "
        "calling block_mask._adjust(q_len, kv_len). This essentially 'crops' the block mask to the upper left corner, "
        "which does not work for all mask_mods!"
    )
