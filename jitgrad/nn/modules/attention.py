"""Attention of several heads, as a module."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.tensor import Tensor
from jitgrad.nn import functional as F
from jitgrad.nn import init
from jitgrad.nn.modules.linear import Linear
from jitgrad.nn.modules.module import Module
from jitgrad.nn.parameter import Parameter
from jitgrad.ops.nn.multihead_attention import canonical_mask

__all__ = ["MultiheadAttention"]


class NonDynamicallyQuantizableLinear(Linear):
    """A linear layer under the name that it has in PyTorch's prints."""


class MultiheadAttention(Module):
    """Attention with ``num_heads`` heads and learned projections of query, key, value and of the result.

    ``kdim`` and ``vdim`` are the sizes of key and value where they differ from ``embed_dim``. Projections start
    uniform as ``init.xavier_uniform_`` draws them, biases 0.
    """

    bias_k: Tensor | None
    bias_v: Tensor | None

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
        add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
        device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} "
                "instead"
            )
        super().__init__()

        def parameter(*sizes: int) -> Parameter:
            return Parameter(jitgrad.empty(sizes, device=device, dtype=dtype))

        self.embed_dim = embed_dim
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == self.vdim == embed_dim
        self.num_heads, self.dropout, self.batch_first = num_heads, dropout, batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        widths = {"q_proj_weight": embed_dim, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        if self._qkv_same_embed_dim:
            self.in_proj_weight = parameter(3 * embed_dim, embed_dim)
            for name in widths:
                self.register_parameter(name, None)
        else:
            for name, width in widths.items():
                setattr(self, name, parameter(embed_dim, width))
            self.register_parameter("in_proj_weight", None)
        if bias:
            self.in_proj_bias = parameter(3 * embed_dim)
        else:
            self.register_parameter("in_proj_bias", None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        if add_bias_kv:
            self.bias_k, self.bias_v = parameter(1, 1, embed_dim), parameter(1, 1, embed_dim)
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        """Draw the projections anew."""
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("_qkv_same_embed_dim", True)

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """(both masks, which are added to scores, in one; 1 for a mask of padding alone, else 2; None for neither)."""
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        n, length = query.shape[:2]
        if attn_mask.dim() == 3:
            mask = attn_mask.view(n, -1, length, length)
        else:
            mask = attn_mask.view(1, 1, length, length).expand(n, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            mask = mask + key_padding_mask.view(n, 1, 1, length).expand(-1, self.num_heads, -1, -1)
        return mask, 2

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None, average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Attend; see ``nn.functional.multi_head_attention_forward``. With ``batch_first`` tensors are (n, l, e)."""
        by_bools = all(m is None or not m.is_floating_point() for m in (attn_mask, key_padding_mask))
        fast = by_bools and query is key is value and self._runs_fast(query)
        other = None if attn_mask is None else attn_mask.dtype
        padding = canonical_mask(key_padding_mask, "key_padding_mask", other, query)
        mask = canonical_mask(attn_mask, "attn_mask", None, query)
        turned = self.batch_first and query.dim() == 3
        if turned:  # what is one tensor stays one
            same = key is query, value is key
            query = query.transpose(1, 0)
            key = query if same[0] else key.transpose(1, 0)
            value = key if same[1] else value.transpose(1, 0)
        out, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias,
            training=self.training, key_padding_mask=padding, need_weights=need_weights, attn_mask=mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim, q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight, v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights, is_causal=is_causal,
        )  # fmt: skip
        out = out.transpose(1, 0) if turned else out
        if fast:
            out = without_keys_nan(out, *self.merge_masks(mask, padding, query.transpose(1, 0)))
        return out, weights

    def _runs_fast(self, query: Tensor) -> bool:
        """Whether PyTorch would take its fused kernel for inference."""
        weight, bias, out = self.in_proj_weight, self.in_proj_bias, self.out_proj
        if self.training or not self.batch_first or query.dim() != 3 or weight is None or bias is None:
            return False
        if self.num_heads % 2 or self.bias_k is not None or self.bias_v is not None or self.add_zero_attn:
            return False
        if not query.dtype is weight.dtype is bias.dtype:
            return False
        return not (grad_state.enabled and any(t.requires_grad for t in (query, weight, bias, *out.parameters())))


def without_keys_nan(out: Tensor, mask: Tensor | None, kind: int | None) -> Tensor:
    """``out`` (n, l, e) with NaN for queries from which ``mask`` hides all keys, as PyTorch's fused kernel leaves them.

    mask, kind: what ``MultiheadAttention.merge_masks`` returns. Elsewhere such queries get 0 from attention.
    """
    if mask is None:
        return out
    hidden = mask.isinf().all(-1)  # (n,), or (n, heads, l)
    rows = hidden.view(-1, 1, 1) if kind == 1 else hidden.any(1).unsqueeze(-1)
    return out.masked_fill(rows, float("nan"))
