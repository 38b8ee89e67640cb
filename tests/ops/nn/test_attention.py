"""Attention: against the formula, in blocks, masks, dropout, several heads; gates, bags of embeddings."""

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.autograd import gradcheck, gradgradcheck
from jitgrad.kernels.launch import launch, observers
from jitgrad.kernels.loops import attention as kernels

F = torch.nn.functional
attend = F.scaled_dot_product_attention


def draw(*shape, seed=0):
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape), requires_grad=True)


def heads(*lead, length=5, keys=4):
    return draw(*lead, length, 3), draw(*lead, keys, 3, seed=1), draw(*lead, keys, 2, seed=2)


def formula(q, k, v, mask=0.0, scale=None):
    scores = q.detach().numpy() @ k.detach().numpy().swapaxes(-1, -2) * (3**-0.5 if scale is None else scale) + mask
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v.detach().numpy()


def test_masks_and_scale():
    q, k, v = heads(2, 3)
    np.testing.assert_allclose(attend(q, k, v).detach().numpy(), formula(q, k, v))
    np.testing.assert_allclose(attend(q, k, v, scale=0.2).detach().numpy(), formula(q, k, v, scale=0.2))
    seen = torch.tensor(np.tri(5, 4) > 0)
    added = np.where(np.tri(5, 4) > 0, 0, -np.inf)
    for made in (attend(q, k, v, seen), attend(q, k, v, torch.tensor(added)), attend(q, k, v, is_causal=True),
                 attend(q, k, v, seen.expand(2, 3, 5, 4).clone())):  # fmt: skip
        np.testing.assert_allclose(made.detach().numpy(), formula(q, k, v, added))
    nothing = attend(q, k, v, torch.zeros(5, 4, dtype=torch.bool))
    assert nothing.detach().abs().sum().item() == 0
    (gradient,) = torch.autograd.grad(nothing.sum(), q)
    assert gradient.abs().sum().item() == 0


@pytest.mark.parametrize("causal", [False, True])
def test_blocks_give_what_one_block_gives(causal):
    q, k, v = (t.numpy(force=True) for t in heads(2))
    mask = np.empty((0, 0, 0)) if causal else draw(1, 5, 4, seed=3).numpy(force=True)
    g, results = np.ones((2, 5, 2)), []
    # Two batches of one head; steps of q, k, v, of the result or its gradient, of the gradients.
    sizes = np.array([2, 1, 5, 4, 3, 2, *(15, 0, 3, 12, 0, 3, 8, 0, 2, 10, 0, 2), *(15, 0, 3, 12, 0, 3, 8, 0, 2)])
    q, k, v, g = (x.ravel() for x in (q, k, v, g))
    for block in (5, 2):  # all queries, two of them
        made = [np.empty_like(a) for a in (g, q, k, v)]
        launch(kernels.attend, q, k, v, mask, made[0], sizes, causal, 0.5, block)
        launch(kernels.attend_back, g, q, k, v, mask, *made[1:], sizes, causal, 0.5, block)
        results.append(made)
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("keys", [3, 16, 40, 70])
def test_shares_that_vanish_and_what_is_no_number(keys, dtype):
    """Scores that are hundreds apart, an infinite one, and NaN: in a row alone, whatever rows are filled up with."""
    k = torch.arange(keys, dtype=dtype)[:, None] * -100
    v = torch.arange(1, keys + 1, dtype=dtype)[:, None]
    out = attend(torch.tensor([[1.0], [-1.0], [np.nan], [np.inf], [0.0]], dtype=dtype), k, v, scale=1.0)
    assert out[:2, 0].tolist() == [1, keys] and out[2:4].isnan().all()
    np.testing.assert_allclose(out[4].item(), (keys + 1) / 2, rtol=1e-6)
    causal = attend(torch.tensor([[0.0], [np.nan], [-1.0]], dtype=dtype), k[:3], v[:3], is_causal=True, scale=1.0)
    assert causal[0].item() == 1 and causal[1].isnan() and causal[2].item() == 3


def test_long_sequences():
    """Several blocks of queries, with BLAS's products, in both precisions."""
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-13)):
        q, k, v = (t.detach().to(dtype).requires_grad_() for t in heads(2, length=700, keys=650))
        mask = torch.zeros(700, 650, dtype=dtype).masked_fill(torch.ones(700, 650).tril(-5).bool(), -2.0)
        out = attend(q, k, v, mask)
        np.testing.assert_allclose(out.numpy(force=True), formula(q, k, v, mask.numpy()), atol=tolerance)
        shares = torch.softmax(q @ k.mT * 3**-0.5 + mask, -1) @ v
        g = torch.linspace(-1, 1, out.numel(), dtype=dtype).reshape(out.shape)
        for ours, exact in zip(torch.autograd.grad(out, (q, k, v), g), torch.autograd.grad(shares, (q, k, v), g)):
            torch.testing.assert_close(ours, exact, rtol=tolerance, atol=10 * tolerance)


def test_gradients_vmap_and_compiled():
    q, k, v = heads(2)
    assert gradcheck(attend, (q, k, v)) and gradgradcheck(attend, (q, k, v))
    mask = draw(5, 4, seed=4)
    assert gradcheck(attend, (q, k, v, mask))
    stacks = [torch.stack([t.detach(), -t.detach()]) for t in (q, k, v)]
    one_by_one = torch.stack([attend(*each) for each in zip(*stacks)])
    torch.testing.assert_close(torch.func.vmap(attend)(*stacks), one_by_one)
    run = torch.compile(lambda q, k, v: attend(q, k, v, is_causal=True).sum())
    for _ in range(3):
        torch.testing.assert_close(run(q, k, v), attend(q, k, v, is_causal=True).sum())


def test_groups_of_heads_and_refusals():
    q, k, v = draw(4, 5, 3), draw(2, 4, 3, seed=1), draw(2, 4, 2, seed=2)
    out = attend(q, k, v, enable_gqa=True)
    torch.testing.assert_close(out[1], attend(q[1], k[0], v[0]))
    for call, words in (
        (lambda: attend(q, k, v), "must match"),
        (lambda: attend(q[:3], k, v, enable_gqa=True), "must divide"),
        (lambda: attend(q[0, 0], k, v), "at least 2 dimensional"),
        (lambda: attend(q, k.float(), v), "to have the same dtype"),
        (lambda: attend(q, q, q, torch.ones(5, 5), is_causal=True), "should not be set when is_causal"),
        (lambda: attend(q, q, q, torch.ones(5, 5, dtype=torch.int64)), "attn_mask dtype to be bool"),
    ):
        with pytest.raises(RuntimeError, match=words):
            call()


def test_long_sequences_keep_no_scores():
    q = torch.ones(1, 1, 3000, 4, requires_grad=True)
    out = attend(q, q, q)
    assert torch.autograd.grad(out.sum(), q)[0].shape == q.shape
    assert {t.numel() for t in (q, out)} == {12000}


def test_multihead_attention_with_one_head_is_attention():
    layer = torch.nn.MultiheadAttention(4, 1, bias=False, dtype=torch.float64)
    with torch.no_grad():
        layer.in_proj_weight.copy_(torch.eye(4, dtype=torch.float64).repeat(3, 1))
        layer.out_proj.weight.copy_(torch.eye(4, dtype=torch.float64))
    x = draw(5, 2, 4)
    for need_weights in (True, False):
        out, weights = layer(x, x, x, need_weights=need_weights)
        torch.testing.assert_close(out.transpose(0, 1), attend(*[x.transpose(0, 1)] * 3))
        assert (weights is None) != need_weights
    assert weights is None and layer(x[:, 0], x[:, 0], x[:, 0])[1].shape == (5, 5)
    with pytest.raises(AssertionError, match="expected `key` and `value` to be 3-D"):
        layer(x, x[0], x)
    with pytest.raises(RuntimeError, match="Need attn_mask"):
        layer(x, x, x, is_causal=True)


# -- gates ------------------------------------------------------------------------------------------------


def test_gates():
    x = draw(4, 6)
    a, b = x.detach().numpy()[:, :3], x.detach().numpy()[:, 3:]
    np.testing.assert_allclose(F.glu(x).detach().numpy(), a / (1 + np.exp(-b)))
    assert F.glu(x, 0).shape == (2, 6) and F.glu(torch.zeros(0, 2)).shape == (0, 1)
    weight = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], dtype=torch.float64, requires_grad=True)
    assert gradcheck(F.prelu, (x, weight)) and gradgradcheck(F.prelu, (x, weight))
    assert gradcheck(F.bilinear, (draw(2, 3), draw(2, 2, seed=1), draw(4, 3, 2, seed=2), draw(4, seed=3)))
    for call, words in (
        (lambda: F.glu(x[:, :3]), "Halving dimension must be even"),
        (lambda: F.prelu(x, weight[:2]), "Mismatch of parameter numbers"),
        (lambda: F.rrelu(x, 0.5, 0.1), "less than or equal to the upper"),
        (lambda: F.bilinear(x, x, draw(1, 2, 6)), "input1 size does not match weight size"),
    ):
        with pytest.raises(RuntimeError, match=words):
            call()


def test_random_slopes():
    x = -torch.ones(1000, requires_grad=True)
    torch.manual_seed(0)
    out = F.rrelu(x, 0.25, 0.5, training=True)
    assert -0.5 <= out.min().item() < -0.49 and -0.26 < out.max().item() <= -0.25
    (gradient,) = torch.autograd.grad(out.sum(), x)
    assert (gradient == -out).all()
    assert F.rrelu(torch.tensor([-1.0, 2.0]), 0.25, 0.75).tolist() == [-0.5, 2]
    y = torch.tensor([-1.0, 3.0])
    assert F.rrelu_(y, training=True) is y and y[1].item() == 3
    hard = F.gumbel_softmax(torch.zeros(5, 3), hard=True)
    assert hard.sum(1).tolist() == pytest.approx([1] * 5)


def test_activations_in_place():
    for name, given in (("celu_", ()), ("elu_", ()), ("hardtanh_", ()), ("leaky_relu_", ()), ("relu_", ()),
                        ("selu_", ()), ("threshold_", (0.5, 2.0))):  # fmt: skip
        x = torch.tensor([-2.0, 0.3, 1.5])
        wanted = getattr(F, name[:-1])(x, *given)
        assert getattr(F, name)(x, *given) is x and x.tolist() == wanted.tolist()


# -- bags of embeddings -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode):
    weight, index = draw(6, 3), torch.tensor([0, 5, 2, 2, 1])
    bags = F.embedding_bag(index, weight, torch.tensor([0, 2, 2]), mode=mode)
    reduce = {"sum": lambda rows: rows.sum(0), "mean": lambda rows: rows.mean(0), "max": lambda rows: rows.max(0)[0]}
    wanted = [reduce[mode](weight[[0, 5]]), torch.zeros(3, dtype=torch.float64), reduce[mode](weight[[2, 2, 1]])]
    torch.testing.assert_close(bags, torch.stack(wanted))
    assert gradcheck(lambda w: F.embedding_bag(index.view(1, 5), w, mode=mode), (weight,))
    left = F.embedding_bag(index, weight, torch.tensor([0, 2, 5]), mode=mode, padding_idx=2, include_last_offset=True)
    torch.testing.assert_close(left, torch.stack([wanted[0], weight[1]]))


def test_bags_with_factors_and_frequencies():
    weight, index, factors = draw(4, 2), torch.tensor([[0, 1], [1, 1]]), draw(2, 2, seed=1)
    assert gradcheck(lambda w, f: F.embedding_bag(index, w, mode="sum", per_sample_weights=f), (weight, factors))
    assert gradgradcheck(lambda w, f: F.embedding_bag(index, w, mode="sum", per_sample_weights=f), (weight, factors))
    out = F.embedding_bag(index, weight, mode="sum", scale_grad_by_freq=True)
    assert torch.autograd.grad(out.sum(), weight)[0][:, 0].tolist() == pytest.approx([1, 1, 0, 0])
    for call, words in (
        (lambda: F.embedding_bag(torch.tensor([[9]]), weight), "takes value 9"),
        (lambda: F.embedding_bag(torch.tensor([1, 2]), weight, torch.tensor([1])), "has to be 0"),
        (lambda: F.embedding_bag(torch.tensor([1, 2]), weight, torch.tensor([0, 3])), "can not be greater"),
        (lambda: F.embedding_bag(torch.tensor([1, 2]), weight, torch.tensor([0, 2, 1])), "must not decrease"),
    ):
        with pytest.raises(RuntimeError, match=words):
            call()


def test_rows_are_kept_to_a_norm():
    weight = torch.nn.Parameter(torch.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]]))
    out = F.embedding(torch.tensor([0, 1, 0]), weight, max_norm=1.0)
    assert out[0].tolist() == pytest.approx([0.6, 0.8]) and weight[2].tolist() == [6, 8]
    assert out.grad_fn is not None and weight[1].tolist() == pytest.approx([0.3, 0.4])
    before = weight.tolist()
    with pytest.raises(IndexError, match="index 7 out of range"):
        torch.embedding_renorm_(weight.detach(), torch.tensor([2, 7]), 1.0, 2.0)
    assert weight.tolist() == before


def split_heads(*, joint):
    """Query, key and value as heads of rows: of one joint projection with gaps, or of one each."""
    rows = draw(2, 5, 3 * 4 * 3 if joint else 4 * 3, seed=1)
    parts = rows.chunk(3, -1) if joint else (rows, draw(2, 5, 4 * 3, seed=2), draw(2, 5, 4 * 3, seed=3))
    return [part.view(2, 5, 4, 3).transpose(1, 2) for part in parts]


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dims", [3, 4])
def test_heads_of_rows_are_taken_as_they_are(joint, causal, dims):
    heads_of_rows = [t.detach()[0] if dims == 3 else t.detach() for t in split_heads(joint=joint)]
    results = []
    for given in (heads_of_rows, [t.contiguous() for t in heads_of_rows]):
        given = [t.requires_grad_() for t in given]
        names = []
        observers.append(lambda kernel, args, seconds: names.append(kernel.name))
        try:
            out = attend(*given, is_causal=causal)
            gradients = torch.autograd.grad(out.sin().sum(), given)
        finally:
            observers.pop()
        assert "copy" not in names
        results.append([out, *gradients])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)
    assert results[0][0].transpose(-3, -2).is_contiguous()  # rows of all heads, as PyTorch has it


def test_what_kernels_do_not_take_as_it_is_is_copied():
    q, k, v = split_heads(joint=False)
    turned = [t.transpose(-1, -2).contiguous().transpose(-1, -2) for t in (q, k, v)]  # columns, not rows
    few = [t[:, :, :1].expand(2, 4, 5, 3) for t in (q, k, v)]
    nested = [t.unsqueeze(0).expand(3, 2, 4, 5, 3) for t in (q, k, v)]
    for given in (turned, few, nested):
        torch.testing.assert_close(attend(*given), attend(*[t.contiguous() for t in given]))


@pytest.mark.parametrize("batch_first", [False, True])
def test_a_step_of_multihead_attention_copies_no_heads(batch_first):
    layer, x = torch.nn.MultiheadAttention(12, 4, batch_first=batch_first), draw(2, 5, 12).float()
    expected = layer(x, x, x, need_weights=True)[0]
    names = []
    observers.append(lambda kernel, args, seconds: names.append(kernel.name))
    try:
        out = layer(x, x, x, need_weights=False)[0]
        out.sum().backward()
    finally:
        observers.pop()
    torch.testing.assert_close(out, expected)
    assert names.count("copy") <= 3  # those that join the gradients of query, key and value
