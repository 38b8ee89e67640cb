"""Scaled dot-product attention: softmax(scale query keyᵀ + mask) value.

Scores are computed for a block of queries at a time, and again in backward: what is kept is query, key and value, so
memory does not grow with the product of the lengths. Dropout, and masks that require grad, take the composed form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.core.dtypes import bool_
from jitgrad.core.errors import cpp_type
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import Layout, broadcast_shapes, contiguous_strides, intern
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.batch_rules import BatchedCall, one_by_one
from jitgrad.dispatch.half_ops import widened
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.planned import Launches, Number, Read, Written, planned, row_major
from jitgrad.dispatch.sizes import as_flag, float_argument
from jitgrad.dispatch.strides import extent, restrided
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.loops import attention as kernels
from jitgrad.ops.creation.constants import ones
from jitgrad.ops.nn.dropout import dropout
from jitgrad.ops.nn.margin_losses import functional
from jitgrad.ops.nn.native import _safe_softmax
from jitgrad.ops.shape.copy import cast
from jitgrad.ops.shape.slicing import zeros_of

__all__ = ["Attention", "hidden"]

_FEW = 24  # causal queries at a time, at least: four tiles of rows
_SCORES, _ROWS = 1 << 15, 32  # so many scores are in memory at a time for each thread, but so many queries' at least


def hidden(kept: Tensor, like: Tensor) -> Tensor:
    """A mask that says which keys are seen as one that is added to scores: 0, and -inf where it is False."""
    return like.new_zeros(kept.shape).masked_fill(kept.logical_not(), float("-inf"))


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


def _taken(x: Layout) -> bool:
    """Whether kernels take an array as it is."""
    if x.contiguous:
        return True
    (rows, columns), (step, along) = x.shape[-2:], x.strides[-2:]
    return x.device == "cpu" and x.ndim <= 4 and (along == 1 or columns == 1) and (step >= columns or rows == 1)


def _like(x: Layout, columns: int) -> Layout:
    """The layout of a result (*, rows, columns) with the dims in the order that those of ``x`` have in memory.

    So heads that were taken out of rows lie in rows of the result, too, as in PyTorch.
    """
    shape, strides, step = (*x.shape[:-1], columns), [1] * x.ndim, columns
    if x.contiguous or not _taken(x):
        return intern(x.numpy_dtype, shape, None, x.device)
    for d in reversed(_order(x)):
        if d < x.ndim - 1:
            strides[d], step = step, step * shape[d]
    return intern(x.numpy_dtype, shape, tuple(strides), x.device)


def _vector(name: str, x: Layout) -> Any:
    """The memory of (*, rows, columns) from its first element to its last."""
    if x.contiguous or not _taken(x):
        return row_major(name, x, (x.numel,))
    if x.dense:  # quicker than by address
        order = _order(x)
        return Read(name, lambda tensor: tensor._data.transpose(order).reshape(-1))
    span = (extent(x.shape, x.strides),)
    return Read(name, lambda tensor: restrided(tensor._data, span, (1,)))


def _order(x: Layout) -> list[int]:
    """The dims in the order of memory, the outermost first."""
    return sorted(range(x.ndim), key=lambda d: (-x.strides[d], d))


def _sizes(q: Layout, k: Layout, v: Layout, *others: Layout) -> Any:
    """``sizes`` of the kernels for (*, rows, columns) as (batch, heads, rows, columns)."""
    lead = q.shape[:-2]
    found = [math.prod(lead[:-1]), lead[-1] if lead else 1, q.shape[-2], k.shape[-2], q.shape[-1], v.shape[-1]]
    for x in (q, k, v, *others):
        strides = x.strides if _taken(x) and not x.contiguous else contiguous_strides(x.shape)
        # More than two dims before rows are taken only if x is contiguous: then all but the last of them are one, whose
        # step is that of the second to last. BLAS wants a step between rows of at least their length, even of one row.
        found += (0, 0, *strides[:-2])[-2:]
        found.append(max(strides[-2], x.shape[-1]))
    return np.array(found, np.int64)


def _inputs(q: Layout, k: Layout, v: Layout, mask: Layout | None) -> tuple[Any, ...]:
    """What the kernels are told of q, k, v and mask."""
    added = np.empty((0, 0, 0), q.numpy_dtype) if mask is None else row_major("mask", mask, mask.shape)
    return _vector("q", q), _vector("k", k), _vector("v", v), added


def _launches(kernel: Any, arrays: Sequence[Any], results: Sequence[Layout], rest: Sequence[Any]) -> Launches:
    """A launch with results of these dense layouts: arrays are row-major in the order of memory, then permuted."""
    orders = [_order(x) for x in results]
    made = [
        x if x.contiguous else intern(x.numpy_dtype, tuple([x.shape[d] for d in order]), None, x.device)
        for x, order in zip(results, orders, strict=True)
    ]
    written = [Written(i, (x.numel,)) for i, x in enumerate(made)]
    launches = Launches([(kernel, *arrays, *written, *rest)], made, len(made))
    if all(x.contiguous for x in results):
        return launches
    axes = [tuple(np.argsort(order).tolist()) for order in orders]

    def shown(*tensors: Tensor) -> Any:
        turned = tuple([wrap(t._data.transpose(a), x) for t, a, x in zip(tensors, axes, results, strict=True)])
        return turned if len(turned) > 1 else turned[0]

    return launches._replace(results=shown)


def _block(q: Layout, k: Layout, causal: bool) -> int:
    """How many queries go at a time. Of causal ones fewer: all compute as many products as the last of them sees."""
    count = max(_SCORES // k.shape[-2], _ROWS)
    return min(max(k.shape[-2] // 4, _FEW) if causal else count, count, q.shape[-2])


@planned("g", "q", "k", "v", "mask?", numbers=("scale",))
def _gradients(g, q, k, v, mask, causal, scale):
    """The gradients in q, k and v, unrecorded."""
    layouts = [_like(t, t.shape[-1]) for t in (q, k, v)]
    if not g.numel or not q.numel or not k.numel:
        return lambda *_: tuple([zeros_of(layout) for layout in layouts])
    arrays = _vector("g", g), *_inputs(q, k, v, mask)
    rest = _sizes(q, k, v, g, *layouts), causal, Number("scale"), _block(q, k, causal)
    return _launches(kernels.attend_back, arrays, layouts, rest)


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

    def plan(q_layout, k_layout, v_layout, mask_layout=None, causal=False, scale=1.0):
        out = _like(q_layout, v_layout.shape[-1])
        if not out.numel or not k_layout.shape[-2]:
            return lambda *_: zeros_of(out)
        sizes, block = _sizes(q_layout, k_layout, v_layout, out), _block(q_layout, k_layout, causal)
        arrays = _inputs(q_layout, k_layout, v_layout, mask_layout)
        return _launches(kernels.attend, arrays, [out], (sizes, causal, scale, block))

    def grad_q(g, q, k, v, mask, causal, scale):
        return _score_gradient(g, q, k, v, mask, causal, scale) @ k

    def grad_k(g, q, k, v, mask, causal, scale):
        return _score_gradient(g, q, k, v, mask, causal, scale).transpose(-2, -1) @ q

    def grad_v(g, q, k, mask, causal, scale):
        return _weights(q, k, _over_scores(mask, q), causal, scale).transpose(-2, -1) @ g

    def kernels(wants, g, q, k, v, mask, causal, scale):
        return dict(zip("qkv", _gradients(g, q, k, v, mask, causal, scale), strict=True))


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
    if stacks is None:  # 16-bit floats are rounded once: scores of some hundreds have no digits left behind the point
        q, k, v, mask = map(widened, (query, key, value, mask))
        shares = _weights(q, k, mask, causal, factor)
        return cast((dropout(shares, dropout_p, True) if dropout_p else shares) @ v, query._layout.dtype)
    return Attention.apply(*stacks, causal, factor)
