"""Transformers: encoder, decoder, their layers, and both in one, as Vaswani et al. describe them (2017)."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import jitgrad
from jitgrad.core.dtypes import bool_
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.tensor import Tensor
from jitgrad.nn import functional as F
from jitgrad.nn import init
from jitgrad.nn.modules.activation import GELU, ReLU
from jitgrad.nn.modules.attention import MultiheadAttention, without_keys_nan
from jitgrad.nn.modules.container import ModuleList
from jitgrad.nn.modules.dropout import Dropout
from jitgrad.nn.modules.linear import Linear
from jitgrad.nn.modules.module import Module
from jitgrad.nn.modules.normalization import LayerNorm
from jitgrad.ops.nn.multihead_attention import canonical_mask

__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer",
]  # fmt: skip

Activation = str | Callable[[Tensor], Tensor]


def _generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
    """The mask (sz, sz) that is added to scores so that no query sees a later key: -inf above the diagonal, else 0."""
    return jitgrad.full((sz, sz), float("-inf"), dtype=dtype, device=device).triu(1)


def _get_activation_fn(activation: str) -> Callable[[Tensor], Tensor]:
    if activation in ("relu", "gelu"):
        return getattr(F, activation)
    raise RuntimeError(f"activation should be relu/gelu, not {activation}")


def _get_clones(module: Any, N: int) -> ModuleList:
    """``N`` copies of a module, which start from the same values."""
    return ModuleList([copy.deepcopy(module) for _ in range(N)])


def _get_seq_len(src: Tensor, batch_first: bool) -> int:
    return src.shape[0] if src.dim() == 2 else src.shape[1 if batch_first else 0]


def _detect_is_causal_mask(mask: Tensor | None, is_causal: bool | None = None, size: int | None = None) -> bool:
    """``is_causal``; where that is None, whether the mask is the one that hides later keys."""
    if is_causal is not None or mask is None:
        return is_causal is True
    causal = _generate_square_subsequent_mask(
        mask.size(-2) if size is None else size, device=mask.device, dtype=mask.dtype
    )
    return mask.shape == causal.shape and bool((mask == causal).all())


def _added(mask: Tensor | None, padding: Tensor | None, name: str, like: Tensor) -> tuple[Any, Any]:
    """Mask and padding mask, called ``name`` and src_key_padding_mask in errors, as masks that are added to scores."""
    other = None if mask is None else mask.dtype
    padding = canonical_mask(padding, "src_key_padding_mask", other, like, name)
    return canonical_mask(mask, name, None, like), padding


class _Layer(Module):
    """What the layers of encoder and decoder share: attention, two linear layers, dropout, and ``norms`` norms."""

    __constants__ = ["norm_first"]

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = F.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__()
        made: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        for name in self._attentions:  # in the order in which PyTorch draws the weights
            setattr(self, name, MultiheadAttention(d_model, nhead, dropout, batch_first=batch_first, **made))
        self.linear1 = Linear(d_model, dim_feedforward, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **made)
        self.norm_first = norm_first
        numbers = range(1, len(self._attentions) + 2)
        for k in numbers:
            setattr(self, f"norm{k}", LayerNorm(d_model, layer_norm_eps, **made))
        for k in numbers:
            setattr(self, f"dropout{k}", Dropout(dropout))
        self.activation = _get_activation_fn(activation) if isinstance(activation, str) else activation

    _attentions: tuple[str, ...] = ()  # the names of the blocks of attention

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "activation"):  # pickled by a version that had only this one
            self.activation = F.relu

    def _fed_forward(self, x: Tensor, dropout: Dropout) -> Tensor:
        return dropout(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerEncoderLayer(_Layer):
    """x + attention(x), then x + linear2(activation(linear1(x))), each followed by a norm, or after it.

    norm_first: norms come before attention and the linear layers, and not after the sums. activation: "relu", "gelu" or
    a function. batch_first: inputs are (n, l, d_model), not (l, n, d_model); (l, d_model) is one sequence.
    """

    _attentions = ("self_attn",)

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = F.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__(
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, device,
            dtype,
        )  # fmt: skip
        kinds = ((F.relu, ReLU), (F.gelu, GELU))  # which activation PyTorch has fused kernels for, counted from 1
        found = [k for k, (f, kind) in enumerate(kinds, 1) if self.activation is f or isinstance(self.activation, kind)]
        self.activation_relu_or_gelu = found[0] if found else 0

    def forward(
        self, src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """Return the layer's output, of the shape of ``src``; masks as in ``MultiheadAttention``."""
        src_mask, padding = _added(src_mask, src_key_padding_mask, "src_mask", src)
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), src_mask, padding, is_causal=is_causal)
            x = x + self._ff_block(self.norm2(x))
        else:
            x = self.norm1(x + self._sa_block(x, src_mask, padding, is_causal=is_causal))
            x = self.norm2(x + self._ff_block(x))
        if (src_mask is not None or padding is not None) and self._runs_fast(src):
            x = without_keys_nan(x, *self.self_attn.merge_masks(src_mask, padding, src))
        return x

    def _runs_fast(self, src: Tensor) -> bool:
        """Whether PyTorch would take its fused kernel for inference."""
        if self.training or not self.activation_relu_or_gelu or self.norm1.eps != self.norm2.eps:
            return False
        if any(m._forward_hooks or m._forward_pre_hooks for m in self.modules()):
            return False
        return self.self_attn._runs_fast(src) and not (
            grad_state.enabled and any(p.requires_grad for p in self.parameters())
        )

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        attended, _ = self.self_attn(
            x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, need_weights=False, is_causal=is_causal
        )
        return self.dropout1(attended)

    def _ff_block(self, x: Tensor) -> Tensor:
        return self._fed_forward(x, self.dropout2)


class TransformerDecoderLayer(_Layer):
    """``TransformerEncoderLayer`` with a second attention between: to ``memory``, the output of an encoder."""

    _attentions = ("self_attn", "multihead_attn")

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """Return the layer's output, of the shape of ``tgt``; masks as in ``MultiheadAttention``."""
        x = tgt
        own = tgt_mask, tgt_key_padding_mask, tgt_is_causal
        other = memory, memory_mask, memory_key_padding_mask, memory_is_causal
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *own)
            x = x + self._mha_block(self.norm2(x), *other)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *own))
        x = self.norm2(x + self._mha_block(x, *other))
        return self.norm3(x + self._ff_block(x))

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        attended, _ = self.self_attn(
            x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, is_causal=is_causal, need_weights=False
        )
        return self.dropout1(attended)

    def _mha_block(
        self, x: Tensor, mem: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        attended, _ = self.multihead_attn(
            x, mem, mem, attn_mask=attn_mask, key_padding_mask=key_padding_mask, is_causal=is_causal, need_weights=False
        )
        return self.dropout2(attended)

    def _ff_block(self, x: Tensor) -> Tensor:
        return self._fed_forward(x, self.dropout3)


# -- stacks of layers -----------------------------------------------------------------------------------------------


def _why_not_nested(layer: Any) -> str:
    """Why PyTorch does not leave padding out when it runs copies of this layer; "" if it does."""
    if not isinstance(layer, TransformerEncoderLayer):
        return "encoder_layer was not TransformerEncoderLayer"
    attention = layer.self_attn
    reasons = {
        ".norm_first was True": layer.norm_first,
        ".self_attn.batch_first was not True(use batch_first for better inference performance)":
            not attention.batch_first,
        ".self_attn._qkv_same_embed_dim was not True": not attention._qkv_same_embed_dim,
        ".self_attn was passed bias=False": attention.in_proj_bias is None,
        ".activation_relu_or_gelu was not True": not layer.activation_relu_or_gelu,
        ".norm1.eps was not equal to encoder_layer.norm2.eps": layer.norm1.eps != layer.norm2.eps,
        ".self_attn.num_heads is odd": attention.num_heads % 2 == 1,
    }  # fmt: skip
    return next((f"encoder_layer{reason}" for reason, holds in reasons.items() if holds), "")


class TransformerEncoder(Module):
    """``num_layers`` copies of ``encoder_layer`` one after the other, and ``norm`` after the last.

    In evaluation without gradients, PyTorch's computes on nested tensors where ``src_key_padding_mask`` hides ends of
    sequences, and leaves them out: outputs there are 0 before ``norm``. So they are here, unless
    ``enable_nested_tensor`` is False, or the layers are such that PyTorch doesn't. mask_check: look first whether only
    ends are hidden.
    """

    __constants__ = ["norm"]

    def __init__(
        self, encoder_layer: Any, num_layers: int, norm: Module | None = None, enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ):  # fmt: skip
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm
        self.enable_nested_tensor, self.use_nested_tensor, self.mask_check = (
            enable_nested_tensor, enable_nested_tensor, mask_check,
        )  # fmt: skip
        why_not = _why_not_nested(encoder_layer)
        if enable_nested_tensor and why_not:
            warnings.warn(
                f"enable_nested_tensor is True, but self.use_nested_tensor is False because {why_not}", stacklevel=2
            )
            self.use_nested_tensor = False

    def forward(
        self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:  # fmt: skip
        """Return the encoded ``src``. is_causal: a hint that ``mask`` hides what comes later; None: look."""
        mask, padding = _added(mask, src_key_padding_mask, "mask", src)
        first = self.layers[0]
        causal = _detect_is_causal_mask(mask, is_causal, _get_seq_len(src, first.self_attn.batch_first))
        output = src
        for layer in self.layers:
            output = layer(output, src_mask=mask, is_causal=causal, src_key_padding_mask=padding)
        if padding is not None and mask is None and self._leaves_padding_out(first, src, padding):
            output = output.masked_fill(_hidden(padding).unsqueeze(-1), 0.0)
        return output if self.norm is None else self.norm(output)

    def _leaves_padding_out(self, layer: Any, src: Tensor, padding: Tensor) -> bool:
        """Whether PyTorch would compute on nested tensors."""
        if not getattr(self, "use_nested_tensor", False) or layer.training or src.dim() != 3:
            return False
        weights = [src, *layer.parameters()]
        if grad_state.enabled and any(w.requires_grad for w in weights):
            return False
        return not self.mask_check or _hides_ends(padding)


def _hidden(padding: Tensor) -> Tensor:
    """A mask that is added to scores as one that says what is hidden."""
    return padding if padding.dtype is bool_ else padding != 0


def _hides_ends(padding: Tensor) -> bool:
    """Whether, in each sequence, nothing is seen behind what is hidden."""
    seen = _hidden(padding).logical_not().long()
    return bool((seen[:, 1:] <= seen[:, :-1]).all())


class TransformerDecoder(Module):
    """``num_layers`` copies of ``decoder_layer`` one after the other, and ``norm`` after the last."""

    __constants__ = ["norm"]

    def __init__(self, decoder_layer: Any, num_layers: int, norm: Module | None = None):
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """Return the decoded ``tgt``. tgt_is_causal: a hint that ``tgt_mask`` hides what comes later; None: look."""
        causal = _detect_is_causal_mask(
            tgt_mask, tgt_is_causal, _get_seq_len(tgt, self.layers[0].self_attn.batch_first)
        )
        output = tgt
        for layer in self.layers:
            output = layer(
                output, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )  # fmt: skip
        return output if self.norm is None else self.norm(output)


class Transformer(Module):
    """An encoder of ``src`` and a decoder of ``tgt`` that attends to what it encoded.

    custom_encoder and custom_decoder take the place of the usual ones. Matrices start uniform as
    ``init.xavier_uniform_`` draws them.
    """

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6,
        dim_feedforward: int = 2048, dropout: float = 0.1, activation: Activation = F.relu,
        custom_encoder: Any = None, custom_decoder: Any = None, layer_norm_eps: float = 1e-5,
        batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__()
        options = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, device,
            dtype,
        )  # fmt: skip
        made: dict[str, Any] = {"eps": layer_norm_eps, "bias": bias, "device": device, "dtype": dtype}
        if custom_encoder is None:
            layer: Any = TransformerEncoderLayer(*options)
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, LayerNorm(d_model, **made))
        self.encoder = custom_encoder
        if custom_decoder is None:
            layer = TransformerDecoderLayer(*options)
            custom_decoder = TransformerDecoder(layer, num_decoder_layers, LayerNorm(d_model, **made))
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None, tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """Return the decoder's output, of the shape of ``tgt``; RuntimeError where batches or features differ."""
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and src.size(batch) != tgt.size(batch):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        return self.decoder(
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )  # fmt: skip

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """The mask (sz, sz) that is added to scores so that no query sees a later key."""
        return _generate_square_subsequent_mask(sz, device, dtype)

    def _reset_parameters(self) -> None:
        """Draw all matrices anew."""
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)
