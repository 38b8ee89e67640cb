"""Scaled dot-product attention: softmax(scale query keyᵀ + mask) value.

Scores are computed for a block of queries at a time, and again in backward: what is kept is query, key and value, so
memory does not grow with the product of the lengths. Dropout, and masks that require grad, take the composed form.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from jitgrad.core.dtypes import bool_
from jitgrad.core.errors import cpp_type
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import CAPACITY, Layout, broadcast_shapes, intern
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.batch_rules import BatchedCall, one_by_one
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.sizes import as_flag, float_argument
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import attention as kernels
from jitgrad.ops.creation.constants import ones
from jitgrad.ops.linalg.matrix_products import multiply_stacks, turn
from jitgrad.ops.nn.dropout import dropout
from jitgrad.ops.nn.margin_losses import functional
from jitgrad.ops.nn.native import _safe_softmax
from jitgrad.ops.reduction.reduction_plan import unrecorded
from jitgrad.ops.shape.copy import contiguous

__all__ = ["Attention", "hidden"]

BLOCK = 1 << 20  # so many scores are in memory at a time, or those of one query of each stack


def hidden(kept: Tensor, like: Tensor) -> Tensor:
    """A mask that says which keys are seen as one that is added to scores: 0, and -inf where it is False."""
    return like.new_zeros(kept.shape).masked_fill(kept.logical_not(), float("-inf"))


def _blocks(q: Layout, k: Layout) -> range:
    """The first queries of blocks."""
    n, queries, keys = q.shape[0], q.shape[1], k.shape[1]
    return range(0, queries, max(1, min(queries, BLOCK // max(n * keys, 1))))


@functools.cache
def _nothing(dtype: np.dtype[Any]) -> Any:
    """The mask of the kernels where there is none."""
    return np.empty((0, 0, 0), dtype)


def _shares(q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, scale: float, first: int) -> Tensor:
    """The shares of keys for a block of queries, unrecorded."""
    scores = multiply_stacks(q, turn(k))
    added = _nothing(q._layout.numpy_dtype) if mask is None else contiguous(unrecorded(mask))._data
    if scores._layout.numel:
        launch(kernels.shares, scores._data, added, first, causal, scale)
    return scores


def _queries(x: Tensor, first: int, step: int) -> Tensor:
    """A block of rows of each of a stack of matrices, unrecorded."""
    rows = x._layout.shape[1]
    return unrecorded(x) if step >= rows else unrecorded(x).narrow(1, first, min(step, rows - first))


def _weights(q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, scale: float) -> Tensor:
    """The shares of keys in differentiable ops."""
    scores = (q @ k.transpose(-2, -1)) * scale
    if causal:
        seen = ones((q.shape[-2], k.shape[-2]), dtype=bool_).tril()
        mask = hidden(seen, q)
    return _safe_softmax(scores if mask is None else scores + mask, -1)


def _over_scores(mask: Tensor | None, q: Tensor) -> Tensor | None:
    """A mask in a shape that broadcasts to that of the scores of ``q``."""
    if mask is None:
        return None
    lead, n = q.shape[:-2], math.prod(q.shape[:-2])
    return mask if mask.shape[0] == 1 != n else mask.repeat(n // mask.shape[0], 1, 1).reshape(*lead, *mask.shape[1:])


def _score_gradient(g: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Any, causal: bool, scale: float) -> Tensor:
    shares, above = _weights(q, k, _over_scores(mask, q), causal, scale), g @ v.transpose(-2, -1)
    return shares * (above - (shares * above).sum(-1, True)) * scale


def _batched(call: BatchedCall) -> Any:
    """The batch as one more of the dims of stacks."""
    return one_by_one(call) if "mask" in call.batched else call.run(**{name: call.whole(name) for name in "qkv"})


def _stack(x: Tensor) -> Tensor:
    """(*, rows, columns) as a stack of matrices, unrecorded."""
    if x._layout.ndim == 3:
        return unrecorded(x)
    rows, layout = contiguous(unrecorded(x)), _as_stack(x._layout)
    return wrap(rows._data.reshape(layout.shape), layout)


@functools.lru_cache(CAPACITY)
def _as_stack(x: Layout) -> Layout:
    return intern(x.numpy_dtype, (math.prod(x.shape[:-2]), *x.shape[-2:]), None, x.device)


def _in_shape(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A new row-major tensor in another shape, unrecorded."""
    if x._layout.shape == shape:
        return x
    layout = intern(x._layout.numpy_dtype, shape, None, x._layout.device)
    return wrap(x._data.reshape(shape), layout)


def _reference(q: Any, k: Any, v: Any, mask: Any = None, causal: bool = False, scale: float = 1.0) -> Any:
    scores = q @ k.swapaxes(-2, -1) * scale + (0 if mask is None else mask)
    scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf) if causal else scores
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


class Attention(Structured):
    """softmax(scale * q kᵀ + mask) v, for stacks of matrices q (*, l, e), k (*, s, e), v (*, s, f).

    mask: (m, l, s), where m divides their number, without a gradient. causal: query i sees no key after the i-th.
    """

    name, grad_name, batch, reference = "_attention", "ScaledDotProductAttentionBackward0", _batched, _reference
    samples = cases(
        lambda: (draw(2, 3, 2), draw(2, 4, 2, seed=1), draw(2, 4, 3, seed=2), None, False, 0.7),
        lambda: (draw(2, 3, 2), draw(2, 4, 2, seed=1), draw(2, 4, 3, seed=2), draw(1, 3, 4).detach()),
        lambda: (draw(1, 2, 3, 2), draw(1, 2, 4, 2, seed=1), draw(1, 2, 4, 3, seed=2), draw(2, 3, 4).detach()),
        lambda: (draw(3, 2, 2).transpose(0, 1), draw(2, 3, 2, seed=1), draw(2, 3, 3, seed=2), None, True, 0.5),
    )

    def forward(q, k, v, mask=None, causal=False, scale=1.0):
        shape = (*q._layout.shape[:-1], v._layout.shape[-1])
        return _in_shape(_attended(_stack(q), _stack(k), _stack(v), mask, causal, scale), shape)

    def grad_q(g, q, k, v, mask, causal, scale):
        return _score_gradient(g, q, k, v, mask, causal, scale) @ k

    def grad_k(g, q, k, v, mask, causal, scale):
        return _score_gradient(g, q, k, v, mask, causal, scale).transpose(-2, -1) @ q

    def grad_v(g, q, k, mask, causal, scale):
        return _weights(q, k, _over_scores(mask, q), causal, scale).transpose(-2, -1) @ g

    def kernels(wants, g, q, k, v, mask, causal, scale):
        with no_grad():
            found = _gradients(*map(_stack, (g, q, k, v)), mask, causal, scale)
        return {name: _in_shape(found[name], t._layout.shape) for name, t in (("q", q), ("k", k), ("v", v))}


def _attended(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float) -> Tensor:
    blocks = _blocks(q._layout, k._layout)
    if len(blocks) == 1:
        return multiply_stacks(_shares(q, k, mask, causal, scale, 0), v)
    layout = intern(q._layout.numpy_dtype, (*q._layout.shape[:2], v._layout.shape[2]), None, q._layout.device)
    out = wrap(empty_for(layout), layout)
    for first in blocks:
        shares = _shares(_queries(q, first, blocks.step), k, mask, causal, scale, first)
        _queries(out, first, blocks.step).copy_(multiply_stacks(shares, v))
    return out


def _gradients(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float
) -> dict[str, Tensor]:  # fmt: skip
    """The gradients in query, key and value, by the blocks of forward."""
    blocks = _blocks(q._layout, k._layout)
    found: dict[str, Tensor] = {}
    for first in blocks:
        rows, above = (_queries(t, first, blocks.step) for t in (q, g))
        shares = _shares(rows, k, mask, causal, scale, first)
        slopes = multiply_stacks(above, turn(v))
        if slopes._layout.numel:
            launch(kernels.shares_gradient, shares._data, slopes._data, scale)
        parts = {"k": multiply_stacks(turn(slopes), rows), "v": multiply_stacks(turn(shares), above)}
        part = multiply_stacks(slopes, k)
        if len(blocks) == 1:
            return {"q": part, **parts}
        if not found:
            layout = intern(q._layout.numpy_dtype, q._layout.shape, None, q._layout.device)
            found = {"q": wrap(empty_for(layout), layout), **parts}
        else:
            for name in parts:
                found[name].add_(parts[name])
        _queries(found["q"], first, blocks.step).copy_(part)
    return found or {name: t.new_zeros(t.shape) for name, t in (("q", q), ("k", k), ("v", v))}


# -- arguments --------------------------------------------------------------------------------------------


def _check(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> None:
    dtypes = [cpp_type(t._layout.dtype) for t in (q, k, v)]
    if len(set(dtypes)) > 1:
        raise RuntimeError(
            f"Expected query, key, and value to have the same dtype, but got query.dtype: {dtypes[0]} key.dtype: "
            f"{dtypes[1]} and value.dtype: {dtypes[2]} instead."
        )
    if min(q.ndim, k.ndim, v.ndim) < 2:
        raise RuntimeError(
            f"Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: {q.ndim} key.dim: "
            f"{k.ndim} and value.dim: {v.ndim} instead."
        )
    if mask is None:
        return
    if mask.dtype is not bool_ and mask.dtype is not q.dtype and mask.dtype.name != "float32":
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
            f"{cpp_type(mask.dtype)} and  query.dtype: {dtypes[0]} instead."
        )
    if causal:
        raise RuntimeError("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")


def _grouped(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values of groups of heads, one for each head of the queries."""
    heads = q.shape[-3]
    for t in (k, v):
        if heads % t.shape[-3]:
            raise RuntimeError("Number of heads in key and value must divide the number of heads in ")
    return k.repeat_interleave(heads // k.shape[-3], -3), v.repeat_interleave(heads // v.shape[-3], -3)


def _stacks(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> tuple[Any, ...] | None:
    """(query, key, value, mask) as Attention takes them; None if it does not.

    That decides by errors, too: whatever does not fit is left to products and sums, which say so.
    """
    a, b, c = (t._layout.shape for t in (q, k, v))
    lead = a[:-2]
    if not lead == b[:-2] == c[:-2] or a[-1] != b[-1] or b[-2] != c[-2] or not q._layout.dtype.is_floating_point:
        return None
    n, sizes = math.prod(lead), (a[-2], b[-2])
    if mask is not None:
        shape = mask._layout.shape
        if mask._requires_grad or grad_state.levels or broadcast_shapes(shape, (*lead, *sizes)) != (*lead, *sizes):
            return None
        single = math.prod(shape[:-2]) == 1
        mask = mask.expand(*((1,) * len(lead) if single else lead), *sizes).reshape(1 if single else n, *sizes)
    return q, k, v, mask


@functional
def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """softmax(scale * query keyᵀ + attn_mask) value, for query (*, l, e), key (*, s, e), value (*, s, f): (*, l, f).

    attn_mask: added to the scores, or bools that say which keys a query sees; a query that sees none gets 0.
    is_causal: query i sees the keys up to the i-th. scale: by default 1 / sqrt(e). dropout_p: the chance of each share
    to be dropped. enable_gqa: key and value may have fewer heads, dim -3, each for a group of the query's.
    RuntimeError for sizes and dtypes that do not fit.
    """
    causal, dropout_p = as_flag(is_causal), float_argument("scaled_dot_product_attention", "dropout_p", 5, dropout_p)
    _check(query, key, value, attn_mask, causal)
    factor = float_argument("scaled_dot_product_attention", "scale", 7, scale) if scale is not None else (
        1 / math.sqrt(query.shape[-1]) if query.shape[-1] else math.inf
    )
    if as_flag(enable_gqa):
        key, value = _grouped(query, key, value)
    mask = attn_mask
    if mask is not None:
        mask = hidden(mask, query) if mask.dtype is bool_ else mask.to(query.dtype)
    stacks = None if dropout_p else _stacks(query, key, value, mask)
    if stacks is None:
        shares = _weights(query, key, mask, causal, factor)
        return (dropout(shares, dropout_p, True) if dropout_p else shares) @ value
    return Attention.apply(*stacks, causal, factor)
