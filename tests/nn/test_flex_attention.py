"""flex_attention and block masks, against attention whose scores and masks are written out."""

import math

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.autograd import gradcheck
from jitgrad.nn.attention import flex_attention as flex

BATCH, HEADS, ROWS, COLUMNS = 2, 4, 5, 7


def inputs(heads=HEADS, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    shapes = (BATCH, HEADS, ROWS, 3), (BATCH, heads, COLUMNS, 3), (BATCH, heads, COLUMNS, 2)
    return [torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes]


def positions():
    return np.ogrid[:BATCH, :HEADS, :ROWS, :COLUMNS]


def attention(q, k, v, change=lambda s, b, h, i, j: s, scale=None):
    scores = q.numpy() @ k.numpy().swapaxes(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    weights = np.exp(change(scores, *positions()))
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total, total, 1) @ v.numpy()


BIAS = torch.arange(12.0, dtype=torch.float64)


@pytest.mark.parametrize("change", [
    lambda s, b, h, i, j: s + 0.1 * (i - j), lambda s, b, h, i, j: s * (h + 1) + b,
    lambda s, b, h, i, j: s + (BIAS if isinstance(s, torch.Tensor) else BIAS.numpy())[i - j + 6],
])  # fmt: skip
def test_scores_are_changed(change):
    q, k, v = inputs()
    assert np.allclose(flex.flex_attention(q, k, v, change).numpy(), attention(q, k, v, change))


MASKS = {
    "causal": lambda b, h, i, j: i >= j,
    "rows without anything": lambda b, h, i, j: (i > 2) & (j < 4),
    "by sample and head": lambda b, h, i, j: (b == 0) | (h % 2 == 0),
}


@pytest.mark.parametrize("size", [128, 2, (3, 4)])
@pytest.mark.parametrize("name", MASKS)
def test_masks(name, size):
    q, k, v = inputs()
    mask = MASKS[name]
    blocks = flex.create_block_mask(mask, BATCH, HEADS, ROWS, COLUMNS, BLOCK_SIZE=size)
    wanted = attention(q, k, v, lambda s, *at: np.where(mask(*at), s, -np.inf))
    assert np.allclose(flex.flex_attention(q, k, v, block_mask=blocks).numpy(), wanted)


def test_blocks_without_a_function_mask_too():
    numbers, order = torch.tensor([[[1, 2]]], dtype=torch.int32), torch.tensor([[[[1, 0], [0, 1]]]], dtype=torch.int32)
    blocks = flex.BlockMask.from_kv_blocks(numbers, order, BLOCK_SIZE=(3, 4), seq_lengths=(ROWS, COLUMNS))
    assert blocks.to_dense().tolist() == [[[[0, 1], [1, 1]]]]
    q, k, v = inputs()
    wanted = attention(q, k, v, lambda s, b, h, i, j: np.where((i >= 3) | (j >= 4), s, -np.inf))
    assert np.allclose(flex.flex_attention(q, k, v, block_mask=blocks).numpy(), wanted)


def test_parts_of_block_masks():
    mask = flex.create_block_mask(MASKS["causal"], None, None, 10, 12, BLOCK_SIZE=4)
    assert (mask.shape, mask.numel(), round(mask.sparsity(), 3)) == ((1, 1, 10, 12), 120, 20)
    assert mask.kv_num_blocks.tolist() == [[[1, 1, 3]]] and mask.full_kv_num_blocks.tolist() == [[[0, 1, 0]]]
    assert mask.q_num_blocks.tolist() == [[[2, 2, 1]]] and mask.full_kv_indices.dtype is torch.int32
    smaller = mask._adjust(6, 7)
    assert smaller.shape == (1, 1, 6, 7) and smaller.to_dense().tolist() == [[[[1, 0], [1, 1]]]]
    assert mask[:, :, -1].kv_indices.shape == (1, 1, 1, 3) and "BlockMask(shape=(1, 1, 10, 12)" in str(mask)
    both = flex.create_mask(flex.and_masks(MASKS["causal"], lambda b, h, i, j: i - j < 2), None, None, 3, 3)
    assert both.int().tolist() == [[[[1, 0, 0], [1, 1, 0], [0, 1, 1]]]]
    either = flex.create_mask(flex.or_masks(lambda b, h, i, j: i == 0, lambda b, h, i, j: j == 0), None, None, 2, 2)
    assert either.int().tolist() == [[[[1, 1], [1, 0]]]]
    assert flex.create_mask(flex.noop_mask, None, 2, 1, 1).tolist() == [[[[True]], [[True]]]]


def test_grouped_heads_and_statistics():
    q, k, v = inputs(heads=2)
    out, aux = flex.flex_attention(q, k, v, scale=0.5, enable_gqa=True, return_aux=flex.AuxRequest(lse=True))
    k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
    assert np.allclose(out.numpy(), attention(q, k, v, scale=0.5)) and aux.max_scores is None
    assert torch.allclose(aux.lse, (q @ k.mT * 0.5).logsumexp(-1))
    with pytest.warns(FutureWarning, match="return_lse is deprecated"):
        assert torch.equal(flex.flex_attention(q, k, v, scale=0.5, return_lse=True)[1], aux.lse)


def test_gradients():
    bias = torch.randn(HEADS, dtype=torch.float64).requires_grad_()
    q, k, v = (t.requires_grad_() for t in inputs())
    mask = flex.create_block_mask(MASKS["rows without anything"], None, None, ROWS, COLUMNS)

    def function(q, k, v, bias):
        return flex.flex_attention(q, k, v, lambda s, b, h, i, j: s * bias[h], mask)

    assert gradcheck(function, (q, k, v, bias))


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda q, k, v: (q, k[:, :2], v[:, :2]), ValueError, "same number of heads but got Hq=4 and Hkv=2"),
    (lambda q, k, v: (q, k[:1], v[:1]), ValueError, "non-none block_mask, but got block_mask=None, Bq=2, and Bkv=1"),
    (lambda q, k, v: (q[0], k[0], v[0]), NotImplementedError, "query, key, and value must be 4D"),
    (lambda q, k, v: (q, k[..., :2], v), ValueError, "embedding dimension but got E=3 and E=2"),
    (lambda q, k, v: (q[0, 0, 0], k, v), ValueError, "at least 2 dimensional, but got query.dim: 1"),
    (lambda q, k, v: (q[:, :, :2], k, v, None, MASK), ValueError, "created for a larger length"),
    (lambda q, k, v: (q.repeat(1, 1, 9, 1), k, v, None, MASK), ValueError, "created for a smaller length"),
    (lambda q, k, v: (q, k, v, None, MASK[0]), RuntimeError, "Cannot use mask_mod from a sliced BlockMask"),
])  # fmt: skip
def test_what_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        flex.flex_attention(*call(*inputs()))


MASK = flex.create_block_mask(MASKS["causal"], None, None, ROWS, COLUMNS)


def test_functions_that_are_no_masks():
    with pytest.raises(AssertionError, match="create-block_mask requires a mask_mod function"):
        flex.create_block_mask(lambda s, b, h, i, j: s, None, None, 2, 2)
    with pytest.raises(AssertionError, match="Expected 4 or 5 positional args, got 1"):
        flex.create_mask(lambda s: s, None, None, 2, 2)
    with pytest.raises(RuntimeError, match="All inputs should be callable mask_mods"):
        flex.or_masks(flex.noop_mask, 3)
