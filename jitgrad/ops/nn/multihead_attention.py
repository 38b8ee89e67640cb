"""Attention of several heads, with the projections before and after it."""

from __future__ import annotations

import math
import warnings
from typing import Any

from jitgrad.core.dtypes import bool_
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import user_level
from jitgrad.ops.linalg.added_products import Baddbmm
from jitgrad.ops.linalg.matmul import linear
from jitgrad.ops.linalg.matrix_products import Bmm
from jitgrad.ops.nn.attention import scaled_dot_product_attention
from jitgrad.ops.nn.dropout import dropout
from jitgrad.ops.nn.margin_losses import functional
from jitgrad.ops.reduction.softmax import Softmax
from jitgrad.ops.shape.join import cat

__all__ = ["canonical_mask", "multi_head_attention_forward"]


def canonical_mask(mask: Tensor | None, name: str, other: Any, like: Tensor, other_name: str = "attn_mask") -> Any:
    """A mask as one that is added: -inf where a bool says that a key is hidden. ``other``: None, or another's dtype."""
    if mask is None:
        return None
    if mask.dtype is not bool_ and not mask.dtype.is_floating_point:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if other is not None and mask.dtype is not other:
        warnings.warn(
            f"Support for mismatched {name} and {other_name} is deprecated. Use same type for both instead.",
            stacklevel=user_level(),
        )
    if mask.dtype is bool_:
        return like.new_zeros(mask.shape).masked_fill_(mask, float("-inf"))
    return mask


def _check_dims(query: Tensor, key: Tensor, value: Tensor, padding: Any, mask: Any, heads: int) -> bool:
    """Whether there is a batch; AssertionError where numbers of dims do not fit."""
    batched = query.dim() == 3
    if query.dim() not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query tensor"
        )
    kind, n = ("batched", 3) if batched else ("unbatched", 2)
    given = f"For {kind} ({n}-D) `query`, expected"
    if key.dim() != n or value.dim() != n:
        raise AssertionError(
            f"{given} `key` and `value` to be {n}-D but found {key.dim()}-D and {value.dim()}-D tensors respectively"
        )
    if padding is not None and padding.dim() != n - 1:
        raise AssertionError(
            f"{given} `key_padding_mask` to be `None` or {n - 1}-D but found {padding.dim()}-D tensor instead"
        )
    if mask is not None and mask.dim() not in (2, 3):
        raise AssertionError(f"{given} `attn_mask` to be `None`, 2-D or 3-D but found {mask.dim()}-D tensor instead")
    if mask is not None and not batched and mask.dim() == 3:
        expected = (heads, query.shape[0], key.shape[0])
        if tuple(mask.shape) != expected:
            raise AssertionError(f"Expected `attn_mask` shape to be {expected} but got {mask.shape}")
    return batched


def _check_sizes(
    query: Tensor, key: Tensor, value: Tensor, embed_dim: int, heads: int, separate: bool
) -> None:  # fmt: skip
    if query.shape[2] != embed_dim:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim}, but got {query.shape[2]}")
    if embed_dim // heads * heads != embed_dim:
        raise AssertionError(f"embed_dim {embed_dim} not divisible by num_heads {heads}")
    if separate and key.shape[:2] != value.shape[:2]:
        raise AssertionError(
            f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
        )
    if not separate and key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")


def _projected(
    tensors: tuple[Tensor, Tensor, Tensor], weight: Tensor | None, weights: tuple[Any, Any, Any], bias: Tensor | None,
    separate: bool,
) -> list[Tensor]:  # fmt: skip
    """Query, key and value by their projections, whose weights are apart or in one."""
    names = ("q", "k", "v")
    biases = bias.chunk(3) if bias is not None else (None,) * 3
    if not separate:
        if weight is None:
            raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
        query, key, value = tensors
        if query is key is value:  # one product in the place of three
            return _by_rows(query, weight, bias, 3)
        weights = tuple(weight.chunk(3))  # type: ignore[assignment]
    else:
        for name, w in zip(names, weights, strict=True):
            if w is None:
                raise AssertionError(f"use_separate_proj_weight is True but {name}_proj_weight is None")
        _check_weights([t.shape[-1] for t in tensors], weights, biases)
    return [linear(t, w, b) for t, w, b in zip(tensors, weights, biases, strict=True)]


def _check_weights(widths: list[int], weights: tuple[Any, ...], biases: Any) -> None:
    for what, parameters in (("weights", weights), ("bias", biases)):
        for name, p, width in zip(("query", "key", "value"), parameters, widths, strict=True):
            expected = (widths[0], width) if what == "weights" else (widths[0],)
            if p is not None and tuple(p.shape) != expected:
                raise AssertionError(f"expecting {name} {what} shape of {expected}, but got {p.shape}")


def _one_more(mask: Tensor | None) -> Tensor | None:
    """A mask with a key more, which all see."""
    return None if mask is None else cat([mask, mask.new_zeros((*mask.shape[:-1], 1))], -1)


def _mask_of_heads(mask: Tensor, target: int, source: int, stacks: int) -> Tensor:
    """``attn_mask`` as three dims, the first of 1 or of all batches' heads; RuntimeError where it does not fit."""
    expected = (target, source) if mask.dim() == 2 else (stacks, target, source)
    if mask.dim() not in (2, 3):
        raise RuntimeError(f"attn_mask's dimension {mask.dim()} is not supported")
    if tuple(mask.shape) != expected:
        raise RuntimeError(f"The shape of the {mask.dim()}D attn_mask is {mask.shape}, but should be {expected}.")
    return mask.unsqueeze(0) if mask.dim() == 2 else mask


def _by_rows(x: Tensor, weight: Tensor, bias: Tensor | None, parts: int = 1) -> list[Tensor]:
    """The ``parts`` of ``linear`` of (length, batch, width), whose rows are taken in the order of their memory."""
    turned = x.transpose(0, 1)
    in_order = turned.is_contiguous()
    rows = linear(turned if in_order else x, weight, bias)
    found = rows.chunk(parts, -1) if parts > 1 else [rows]
    return [part.transpose(0, 1) for part in found] if in_order else list(found)


def _heads(x: Tensor, heads: int, width: int) -> Tensor:
    """(length, batch, heads * width) as (batch, heads, length, width)."""
    length, n = x.shape[:2]
    return x.reshape(length, n, heads, width).permute(1, 2, 0, 3)


def _static(name: str, given: Tensor | None, x: Tensor, heads: int, width: int) -> Tensor:
    """Keys or values that were given for all heads, or those of ``x``."""
    if given is None:
        return _heads(x, heads, width)
    n = x.shape[1]
    for d, size in ((0, n * heads), (2, width)):
        if given.shape[d] != size:
            raise AssertionError(f"expecting {name}.size({d}) of {size}, but got {given.shape[d]}")
    return given.view(n, heads, *given.shape[1:])


def _with_biases(k: Tensor, v: Tensor, bias_k: Any, bias_v: Any, static: tuple[Any, Any]) -> tuple[Tensor, Tensor]:
    for name, one, other in (("k", bias_k, bias_v), ("v", bias_v, bias_k)):
        if one is not None and other is None:
            raise AssertionError(f"bias_{name} is set but bias_{'v' if name == 'k' else 'k'} is None")
    for name, given in zip(("key", "value"), static, strict=True):
        if given is not None:
            raise AssertionError(f"bias cannot be added to static {name}.")
    n = k.shape[1]
    return cat([k, bias_k.repeat(1, n, 1)]), cat([v, bias_v.repeat(1, n, 1)])


def _merged(mask: Tensor | None, padding: Tensor | None, n: int, heads: int, source: int) -> Tensor | None:
    """The sum of both masks, for all batches' heads."""
    if padding is None:
        return mask
    for d, size in ((0, n), (1, source)):
        if padding.shape[d] != size:
            raise AssertionError(f"Expected key_padded_mask.shape[{d}] to be {size}, but got {padding.shape[d]}")
    each = padding.view(n, 1, 1, source).expand(-1, heads, -1, -1).reshape(n * heads, 1, source)
    return each if mask is None else mask + each


def _attended(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float, heads: int, average: bool
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(results (n, heads, target, width), shares (n, heads, target, source) or their average over heads)."""
    n = q.shape[0]
    q, k, v = (t.reshape(n * heads, *t.shape[2:]) for t in (q, k, v))
    scaled = q * math.sqrt(1.0 / q.shape[2])
    turned = k.transpose(-2, -1)
    scores = Bmm.apply(scaled, turned) if mask is None else Baddbmm.apply(mask, scaled, turned)
    shares = Softmax.apply(scores, -1)
    if dropout_p > 0.0:
        shares = dropout(shares, dropout_p, True)
    weights, out = shares.view(n, heads, *shares.shape[1:]), Bmm.apply(shares, v)
    return out.view(n, heads, *out.shape[1:]), weights.mean(1) if average else weights


@functional
def multi_head_attention_forward(
    query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int,
    in_proj_weight: Tensor | None, in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None,
    add_zero_attn: bool, dropout_p: float, out_proj_weight: Tensor, out_proj_bias: Tensor | None,
    training: bool = True, key_padding_mask: Tensor | None = None, need_weights: bool = True,
    attn_mask: Tensor | None = None, use_separate_proj_weight: bool = False, q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None, static_k: Tensor | None = None,
    static_v: Tensor | None = None, average_attn_weights: bool = True, is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Attention of each of ``num_heads`` heads, a part of the projected query (l, n, e), key and value (s, n, e).

    Returns (the projection of the heads' results (l, n, e), the shares of keys (n, l, s) or None unless
    ``need_weights``). key_padding_mask (n, s) and attn_mask (l, s) or (n * heads, l, s): bools that hide keys, or
    numbers that are added to scores. bias_k, bias_v, add_zero_attn: further keys and values. AssertionError and
    RuntimeError for what does not fit.
    """
    batched = _check_dims(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = _unsqueezed(query, key, value)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    target, n, embed_dim = query.shape
    other = None if attn_mask is None else attn_mask.dtype
    padding = canonical_mask(key_padding_mask, "key_padding_mask", other, query)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    hint = is_causal and padding is None
    mask = None if hint and not need_weights else canonical_mask(attn_mask, "attn_mask", None, query)
    _check_sizes(query, key, value, embed_dim_to_check, num_heads, use_separate_proj_weight)
    stacks, width = n * num_heads, embed_dim // num_heads
    q, k, v = _projected((query, key, value), in_proj_weight, (q_proj_weight, k_proj_weight, v_proj_weight),
                         in_proj_bias, use_separate_proj_weight)  # fmt: skip
    mask = None if mask is None else _mask_of_heads(mask, target, key.shape[0], stacks)
    if bias_k is not None or bias_v is not None:
        k, v = _with_biases(k, v, bias_k, bias_v, (static_k, static_v))
        mask, padding = _one_more(mask), _one_more(padding)
    q, k, v = (_heads(q, num_heads, width), _static("static_k", static_k, k, num_heads, width),
               _static("static_v", static_v, v, num_heads, width))  # fmt: skip
    if add_zero_attn:
        zeros = k.new_zeros((n, num_heads, 1, width))
        k, v = cat([k, zeros], 2), cat([v, zeros], 2)
        mask, padding = _one_more(mask), _one_more(padding)
    mask = _merged(mask, padding, n, num_heads, k.shape[2])
    dropout_p = dropout_p if training else 0.0
    if need_weights:
        out, weights = _attended(q, k, v, mask, dropout_p, num_heads, average_attn_weights)
    else:
        out, weights = _without_shares(q, k, v, mask, dropout_p, hint), None
    (result,) = _by_rows(_joined(out), out_proj_weight, out_proj_bias)
    result = result if result._is_view() else result.view(result.shape)  # as in PyTorch, whose result is a view of rows
    if batched:
        return result, weights
    return result.squeeze(1), None if weights is None else weights.squeeze(0)


def _unsqueezed(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """All with a batch dim of 1; those that are one tensor stay one."""
    q = query.unsqueeze(1)
    k = q if key is query else key.unsqueeze(1)
    return q, k, k if value is key else value.unsqueeze(1)


def _joined(x: Tensor) -> Tensor:
    """(batch, heads, length, width) as (length, batch, heads * width), in the order of its memory if that has one."""
    n, heads, length, width = x.shape
    rows = x.transpose(1, 2)
    if rows.is_contiguous():
        return rows.view(n, length, heads * width).transpose(0, 1)
    return rows.transpose(0, 1).reshape(length, n, heads * width)


def _without_shares(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float, causal: bool
) -> Tensor:  # fmt: skip
    """The heads' results by ``scaled_dot_product_attention``, as (n, heads, target, width)."""
    if mask is not None:
        mask = mask.unsqueeze(0) if mask.shape[0] == 1 else mask.view(*q.shape[:2], -1, k.shape[2])
    return scaled_dot_product_attention(q, k, v, mask, dropout_p, causal)
