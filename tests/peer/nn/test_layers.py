"""Layers, transformers and initial values beside PyTorch's: numbers from one seed, prints, errors, warnings."""

import itertools
import re
import warnings

import numpy as np
import pytest
import torch

import jitgrad

LIBRARIES = (jitgrad, torch)


def words(value):
    text = re.sub(r"0x\w+", "", str(value)).split(" (Triggered")[0]
    return text.replace("jitgrad.", "torch.").replace(".modules.", ".")


def run(call, t):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = words(call(t, t.nn))
        except Exception as error:
            found = type(error).__name__, words(error)
    return found, [(w.category.__name__, words(w.message)) for w in caught]


class Net:
    """A module of several kinds of members."""

    def __new__(cls, t):
        class Model(t.nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = t.nn.Linear(2, 3), t.nn.Sequential(t.nn.BatchNorm1d(3), t.nn.ReLU())
                self.register_buffer("seen", t.zeros(2))
                self.register_buffer("passing", t.zeros(1), persistent=False)
                self.p = t.nn.Parameter(t.ones(2))

        return Model()


CASES = [
    lambda t, nn: nn.functional.hinge_embedding_loss(t.zeros(2), t.ones(2, requires_grad=True)).requires_grad,
    lambda t, nn: Net(t).load_state_dict({"a.weight": t.ones(4, 4), "x.y": t.ones(1), "seen": 3, "p": t.ones(2, 1)}),
    lambda t, nn: Net(t).load_state_dict({"x.y": t.ones(1)}, strict=False),
    lambda t, nn: Net(t).load_state_dict([1]),
    lambda t, nn: list(Net(t).state_dict({}, "pre.")),
    lambda t, nn: Net(t).state_dict()._metadata,
    lambda t, nn: Net(t).get_submodule("a.x"),
    lambda t, nn: Net(t).get_parameter("seen"),
    lambda t, nn: Net(t).get_buffer("p"),
    lambda t, nn: Net(t).set_submodule("b.1", 3),
    lambda t, nn: Net(t).register_buffer("a", t.ones(1)),
    lambda t, nn: Net(t).register_buffer("q", 3),
    lambda t, nn: Net(t).register_parameter("q", t.ones(1)),
    lambda t, nn: Net(t).add_module("a.b", nn.ReLU()),
    lambda t, nn: setattr(Net(t), "p", t.ones(1)),
    lambda t, nn: setattr(Net(t), "a", 3),
    lambda t, nn: Net(t).train(3),
    lambda t, nn: Net(t).to(t.int32),
    lambda t, nn: Net(t).to("cpu", copy=True),
    lambda t, nn: Net(t).to(t.device("cpu"), True),
    lambda t, nn: Net(t).to(None, t.float64, True).p.dtype,
    lambda t, nn: Net(t).to(t.ones(1, dtype=t.float16)).p.dtype,
    lambda t, nn: Net(t).to(t.float32, t.float32),
    lambda t, nn: Net(t).to().p.dtype,
    lambda t, nn: nn.Linear(1, 1)(t.tensor(1.0)),
    lambda t, nn: nn.Fold((4, 5), (2, 2), dilation=8)(t.ones(1, 12, 12)),
    lambda t, nn: list(dict(Net(t).named_parameters(prefix="x", recurse=False))),
    lambda t, nn: nn.Linear(2, 3)(t.ones(4, 3)),
    lambda t, nn: nn.Linear(2, 3)(3),
    lambda t, nn: nn.Linear(0, 3).weight.shape,
    lambda t, nn: nn.Conv2d(3, 4, 3)(t.ones(1, 2, 5, 5)),
    lambda t, nn: nn.Conv2d(3, 4, 3)(t.ones(1, 3, 2, 2)),
    lambda t, nn: nn.Conv2d(3, 4, 3)(t.ones(0, 3, 5, 5)).shape,
    lambda t, nn: nn.Conv2d(3, 4, 3, groups=2),
    lambda t, nn: nn.Conv2d(4, 4, 3, padding="same", stride=2),
    lambda t, nn: nn.Conv2d(4, 4, (3, 5), padding="valid", bias=False, groups=2, dilation=2),
    lambda t, nn: nn.ConvTranspose2d(4, 4, 3, padding_mode="circular"),
    lambda t, nn: nn.ConvTranspose2d(4, 4, 3, 2, 1)(t.ones(1, 4, 3, 3), output_size=(9, 9)),
    lambda t, nn: nn.ConvTranspose2d(4, 4, 3, 2, 1)(t.ones(1, 4, 3, 3), output_size=(9,)),
    lambda t, nn: nn.BatchNorm1d(3)(t.ones(1, 3)),
    lambda t, nn: nn.BatchNorm1d(3)(t.ones(2, 4)),
    lambda t, nn: nn.BatchNorm2d(3)(t.ones(2, 3)),
    lambda t, nn: nn.InstanceNorm1d(3)(t.ones(2, 4, 5)).shape,
    lambda t, nn: nn.InstanceNorm1d(3, affine=True)(t.ones(2, 4, 5)),
    lambda t, nn: nn.GroupNorm(2, 3),
    lambda t, nn: nn.LayerNorm(3)(t.ones(2, 4)),
    lambda t, nn: nn.Embedding(3, 2)(t.tensor([3])),
    lambda t, nn: nn.Embedding(3, 2, padding_idx=5),
    lambda t, nn: nn.Embedding(-1, 2),
    lambda t, nn: nn.CrossEntropyLoss()(t.ones(2, 3), t.tensor([0, 3])),
    lambda t, nn: nn.CrossEntropyLoss()(t.ones(2, 3), t.tensor([0, 1, 1])),
    lambda t, nn: nn.CrossEntropyLoss()(t.ones(0, 3), t.ones(0, dtype=t.int64)),
    lambda t, nn: nn.CrossEntropyLoss(label_smoothing=2.0)(t.ones(2, 3), t.tensor([1, 1])),
    lambda t, nn: nn.MSELoss()(t.ones(2, 3), t.ones(4)),
    lambda t, nn: nn.HuberLoss(delta=1j)(t.ones(3), t.ones(3)),
    lambda t, nn: nn.BCELoss()(t.ones(3) * 2, t.ones(3)),
    lambda t, nn: nn.CTCLoss()(t.ones(3, 2, 4), t.tensor([[1, 2], [1, 2]]), t.tensor([3, 4]), t.tensor([2, 2])),
    lambda t, nn: nn.MultiMarginLoss()(t.ones(2, 3), t.tensor([0, 3])),
    lambda t, nn: nn.AdaptiveLogSoftmaxWithLoss(4, 10, []),
    lambda t, nn: nn.AdaptiveLogSoftmaxWithLoss(16, 10, [3, 5]),
    lambda t, nn: nn.AdaptiveLogSoftmaxWithLoss(16, 10, [3, 5])(t.ones(2, 16), t.tensor([1, 10])),
    lambda t, nn: nn.AdaptiveLogSoftmaxWithLoss(16, 10, [3, 5])(t.ones(2, 16), t.tensor(1)),
    lambda t, nn: nn.MaxPool2d(2, padding=2)(t.ones(1, 1, 4, 4)),
    lambda t, nn: nn.AdaptiveMaxPool2d((3,))(t.ones(1, 1, 3, 3)),
    lambda t, nn: nn.AdaptiveAvgPool2d((3,))(t.ones(1, 1, 3, 3)),
    lambda t, nn: nn.FractionalMaxPool2d(2, output_size=2, output_ratio=0.5),
    lambda t, nn: nn.ReflectionPad1d(3)(t.ones(1, 1, 2)),
    lambda t, nn: nn.ZeroPad2d((1, 2, 3, 4)),
    lambda t, nn: nn.PixelShuffle(2)(t.ones(1, 3, 2, 2)),
    lambda t, nn: nn.Unflatten(1, (2, 3))(t.ones(2, 5)),
    lambda t, nn: nn.Fold((4, 4), 2)(t.ones(1, 3, 9)),
    lambda t, nn: nn.Softmax()(t.ones(2, 2)),
    lambda t, nn: nn.Softmax2d()(t.ones(2, 2)),
    lambda t, nn: nn.Hardtanh(2, 1),
    lambda t, nn: nn.Hardtanh(min_value=-1),
    lambda t, nn: nn.Dropout(1.5),
    lambda t, nn: nn.CrossMapLRN2d(2)(t.ones(2)),
    lambda t, nn: nn.SyncBatchNorm.convert_sync_batchnorm(Net(t)),
    lambda t, nn: nn.MultiheadAttention(5, 2),
    lambda t, nn: nn.MultiheadAttention(4, 2)(*[t.ones(3, 2, 4)] * 3, attn_mask=t.ones(3, 3, dtype=t.int32)),
    lambda t, nn: nn.MultiheadAttention(4, 2)(*[t.ones(3, 2, 4)] * 3, is_causal=True),
    lambda t, nn: nn.TransformerEncoder(nn.TransformerEncoderLayer(3, 1, 8, batch_first=True), 1),
    lambda t, nn: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, norm_first=True), 1),
    lambda t, nn: nn.Sequential(nn.ReLU())[2],
    lambda t, nn: nn.ModuleList([nn.ReLU(), 3]),
    lambda t, nn: nn.ModuleDict({"keys": nn.ReLU()}),
    lambda t, nn: nn.ModuleDict([("a",)]),
    lambda t, nn: nn.ParameterList([t.ones(2), 3, "x", t.ones(2, 3)]),
    lambda t, nn: nn.ParameterDict({"b": t.ones(2)})["c"],
    lambda t, nn: nn.ParameterDict([("a", t.ones(1)), ("b",)]),
    lambda t, nn: nn.Parameter(t.ones(2, dtype=t.int64)),
    lambda t, nn: nn.Buffer(t.ones(2)),
    lambda t, nn: nn.LazyLinear(3).state_dict(),
    lambda t, nn: nn.LazyConv2d(3, 2),
    lambda t, nn: nn.LazyConv2d(3, 2)(t.ones(3)),
    lambda t, nn: nn.LazyBatchNorm2d()(t.ones(2, 3)),
    lambda t, nn: nn.DataParallel(nn.Linear(2, 1)),
    lambda t, nn: nn.init.dirac_(t.ones(3, 2, 2), 2),
    lambda t, nn: nn.init.eye_(t.ones(2)),
    lambda t, nn: nn.init.kaiming_normal_(t.ones(0, 2)),
    lambda t, nn: nn.init.kaiming_normal_(t.ones(3, 2), mode="foo"),
    lambda t, nn: nn.init.trunc_normal_(t.ones(3), mean=9).shape,
    lambda t, nn: nn.functional.embedding_bag(t.tensor([[-1, 1]]), t.ones(10, 2), padding_idx=0),
    lambda t, nn: [t.ones(2).new_zeros(-1)],
]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_prints_errors_and_warnings(number):
    ours, theirs = (run(CASES[number], t) for t in LIBRARIES)
    assert ours == theirs


INITIAL = [
    lambda t, i: i.trunc_normal_(t.empty(20)),
    lambda t, i: i.trunc_normal_(t.empty(20), 0.0, 1.0, 1.5, 3.0),
    lambda t, i: i.trunc_normal_(t.empty(20), 0.0, 1.0, -0.1, 0.1, t.Generator().manual_seed(4)),
    lambda t, i: i.orthogonal_(t.empty(2, 4), 2.0),
    lambda t, i: i.orthogonal_(t.empty(4, 1, 2)),
    lambda t, i: i.sparse_(t.empty(5, 4), 0.3),
    lambda t, i: i.dirac_(t.empty(4, 2, 3), 2),
    lambda t, i: i.kaiming_uniform_(t.empty(4, 2, 3), generator=t.Generator().manual_seed(4)),
    lambda t, i: t.nn.AdaptiveLogSoftmaxWithLoss(8, 7, [2, 4]).log_prob(t.ones(1, 8)),
    lambda t, i: t.nn.LazyConv2d(3, 2)(t.ones(1, 4, 3, 3)),
    lambda t, i: t.nn.CrossMapLRN2d(3, 0.5, 0.7, 2.0)(t.rand(2, 7, 2, 2)),
]


@pytest.mark.parametrize("number", range(len(INITIAL)))
def test_the_same_numbers_from_the_same_seed(number):
    found = []
    for t in LIBRARIES:
        t.manual_seed(3)
        found.append(INITIAL[number](t, t.nn.init).detach().numpy())
    np.testing.assert_allclose(*found, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("batch_first, norm_first", list(itertools.product((False, True), (False, True))))
def test_transformers(batch_first, norm_first):
    found = []
    for t in LIBRARIES:
        t.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            net = t.nn.Transformer(8, 2, 1, 2, 16, 0.1, "gelu", batch_first=batch_first, norm_first=norm_first)
        src, tgt = t.randn(3, 4, 8), t.randn(3, 4, 8)
        mask = t.nn.Transformer.generate_square_subsequent_mask(4 if batch_first else 3)
        hidden = t.zeros((3, 4) if batch_first else (4, 3), dtype=t.bool)
        hidden[1, 2:] = True
        given = {"tgt_mask": mask, "src_key_padding_mask": hidden.float().masked_fill(hidden, float("-inf"))}
        out = net(src, tgt, **given)
        out.sum().backward()
        values = [*net.state_dict().values(), out, *(p.grad for p in net.parameters())]
        net.eval()
        with t.no_grad():
            values += [net(src, tgt, **given), net.encoder(src, src_key_padding_mask=hidden)]
        found.append((repr(net), list(net.state_dict()), [v.detach().numpy() for v in values]))
    (*ours, values), (*theirs, wanted) = found
    assert ours == theirs
    for a, b in zip(values, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-5)
