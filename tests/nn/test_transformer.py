"""Transformers: shapes, masks, hints, and what PyTorch's way around padding shows."""

import warnings

import pytest

import jitgrad as torch
from jitgrad import nn

INF = float("inf")


def test_the_mask_of_later_positions():
    assert nn.Transformer.generate_square_subsequent_mask(3).tolist() == [[0, -INF, -INF], [0, 0, -INF], [0, 0, 0]]
    assert nn.Transformer.generate_square_subsequent_mask(2, dtype=torch.float64).dtype is torch.float64


def test_no_position_sees_what_a_causal_mask_hides():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True)
    x = torch.randn(1, 3, 4)
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    first = layer(x, src_mask=mask, is_causal=True)
    x[0, 2] += 1
    again = layer(x, src_mask=mask)
    assert torch.allclose(first[0, :2], again[0, :2], atol=1e-6) and not torch.allclose(first[0, 2], again[0, 2])


def test_layers_start_alike_and_layouts_agree():
    torch.manual_seed(0)
    net = nn.Transformer(4, 2, 2, 2, 8, 0.0)
    for stack in (net.encoder.layers, net.decoder.layers):
        assert stack[0].linear1.bias.tolist() == stack[1].linear1.bias.tolist()
    turned = nn.Transformer(4, 2, 2, 2, 8, 0.0, batch_first=True)
    turned.load_state_dict(net.state_dict())
    src, tgt = torch.randn(3, 2, 4), torch.randn(5, 2, 4)
    out = net(src, tgt)
    assert out.shape == (5, 2, 4)
    assert torch.allclose(turned(src.transpose(0, 1), tgt.transpose(0, 1)).transpose(0, 1), out, atol=1e-5)
    assert torch.allclose(net(src[:, 0], tgt[:, 0]), out[:, 0], atol=1e-5)  # one sequence


def test_hidden_ends_are_zeros_in_evaluation_only():
    torch.manual_seed(0)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True), 1)
    x, hidden = torch.randn(2, 3, 4), torch.tensor([[False, False, True], [False, False, False]])
    trained = encoder(x, src_key_padding_mask=hidden)
    encoder.eval()
    with torch.no_grad():
        out = encoder(x, src_key_padding_mask=hidden)
        assert out[0, 2].tolist() == [0.0] * 4 and trained[0, 2].abs().sum() > 0
        assert torch.allclose(out[0, :2], trained[0, :2], atol=1e-6)
        front = torch.tensor([[True, False, False], [False, False, False]])  # no end: nothing is left out
        assert encoder(x, src_key_padding_mask=front)[0, 0].abs().sum() > 0
    assert encoder(x, src_key_padding_mask=hidden)[0, 2].abs().sum() > 0  # with gradients


def test_why_padding_is_not_left_out_is_said():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 1)
    assert not encoder.use_nested_tensor and "self_attn.batch_first was not True" in str(caught[0].message)


def test_activations_by_name_and_as_functions():
    layer = nn.TransformerEncoderLayer(4, 2, 8, activation="gelu")
    assert layer.activation is nn.functional.gelu and layer.activation_relu_or_gelu == 2
    assert nn.TransformerEncoderLayer(4, 2, 8, activation=nn.ReLU()).activation_relu_or_gelu == 1
    decoder = nn.TransformerDecoderLayer(4, 2, 8, activation=torch.tanh)
    assert decoder(torch.ones(2, 4), torch.ones(3, 4)).shape == (2, 4)
    with pytest.raises(RuntimeError, match="activation should be relu/gelu, not foo"):
        nn.TransformerEncoderLayer(4, 2, activation="foo")


def test_sizes_that_do_not_fit():
    net = nn.Transformer(4, 2, 1, 1, 8)
    with pytest.raises(RuntimeError, match="the batch number of src and tgt must be equal"):
        net(torch.ones(3, 2, 4), torch.ones(3, 1, 4))
    with pytest.raises(RuntimeError, match="the feature number of src and tgt must be equal to d_model"):
        net(torch.ones(3, 2, 4), torch.ones(3, 2, 5))


@pytest.mark.parametrize("shape", [(0, 2, 4), (3, 0, 4)])
def test_attention_of_nothing(shape):
    x, net = torch.ones(shape), nn.MultiheadAttention(4, 2)
    for average in (True, False):
        out, weights = net(x, x, x, average_attn_weights=average)
        heads = () if average else (2,)
        assert out.shape == shape and weights.shape == (shape[1], *heads, shape[0], shape[0])


def test_settings_of_attention_are_kept():
    from jitgrad.nn import attention
    from jitgrad.nn.attention import SDPBackend, sdpa_kernel
    from jitgrad.nn.attention.bias import causal_lower_right, causal_upper_left

    with sdpa_kernel([SDPBackend.MATH, SDPBackend.MATH]):
        assert attention._cur_sdpa_kernel_backends() == [SDPBackend.MATH] and int(SDPBackend.MATH) == 0
    assert len(attention._cur_sdpa_kernel_backends()) == 5
    with pytest.raises(AssertionError, match="Backend must be an instance of SDPBackend"), sdpa_kernel("math"):
        pass
    assert repr(causal_upper_left(1, 2)) == "tensor([[ True, False]])"
    with torch.overrides.BaseTorchFunctionMode():  # results of ops are then of the class of their operands
        assert repr(causal_upper_left(1, 2)) == "tensor([[ True, False]])"
    assert causal_upper_left(2, 3).tolist() == [[True, False, False], [True, True, False]]
    assert causal_lower_right(2, 3).tolist() == [[True, True, False], [True, True, True]]
    q = torch.ones(1, 2, 4)
    keys = torch.ones(1, 3, 4)
    out = nn.functional.scaled_dot_product_attention(q, keys, keys, causal_lower_right(2, 3))
    assert out.tolist() == q.tolist()
