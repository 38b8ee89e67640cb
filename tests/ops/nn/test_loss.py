"""Losses against their formulas in NumPy: values, reductions, gradients, warnings, errors."""

# ruff: noqa: E501  (errors are quoted in full)

import warnings

import numpy as np
import pytest

import jitgrad as torch
import jitgrad.nn.functional as F
from jitgrad.autograd import gradcheck, gradgradcheck

RNG = np.random.default_rng(0)
REDUCE = {"none": lambda v: v, "mean": np.mean, "sum": np.sum}


def values(*shape, low=-2.0, high=2.0):
    return RNG.uniform(low, high, shape)


def logits(x, t):
    return np.maximum(x, 0) - x * t + np.log1p(np.exp(-abs(x)))


POINTWISE = {
    "mse_loss": (lambda x, t: (x - t) ** 2, {}),
    "l1_loss": (lambda x, t: abs(x - t), {}),
    "smooth_l1_loss": (lambda x, t: np.where(abs(x - t) < 0.5, (x - t) ** 2, abs(x - t) - 0.25), {"beta": 0.5}),
    "huber_loss": (
        lambda x, t: np.where(abs(x - t) <= 0.5, 0.5 * (x - t) ** 2, 0.5 * (abs(x - t) - 0.25)), {"delta": 0.5},
    ),
    "binary_cross_entropy": (lambda x, t: -t * np.log(x) - (1 - t) * np.log(1 - x), {}),
    "binary_cross_entropy_with_logits": (logits, {}),
    "kl_div": (lambda x, t: t * (np.log(t) - x), {}),
}  # fmt: skip
UNIT = ("binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div")


@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize("reduction", REDUCE)
@pytest.mark.parametrize("name", POINTWISE)
def test_losses_of_pairs(name, reduction):
    formula, options = POINTWISE[name]
    x = values(3, 4, low=0.1, high=0.9) if name == "binary_cross_entropy" else values(3, 4)
    t = values(3, 4, low=0.1, high=0.9) if name in UNIT else values(3, 4)
    expected = REDUCE[reduction](formula(x, t))
    call = lambda a, b: getattr(F, name)(a, b, reduction=reduction, **options)
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 2e-5)):
        a, b = torch.tensor(x, dtype=dtype), torch.tensor(t, dtype=dtype)
        assert call(a, b).dtype is dtype
        np.testing.assert_allclose(call(a, b).numpy(), expected, rtol=tolerance, atol=tolerance)
        turned = a.t().contiguous().t(), b.t().contiguous().t()
        np.testing.assert_allclose(call(*turned).numpy(), expected, rtol=tolerance, atol=tolerance)
    pair = torch.tensor(x, requires_grad=True), torch.tensor(t, requires_grad=True)
    assert gradcheck(call, pair) and gradgradcheck(call, pair)


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
def test_shapes_that_differ_broadcast_with_a_warning(name):
    x, t = torch.tensor(values(3, 1), requires_grad=True), torch.tensor(values(4), requires_grad=True)
    with pytest.warns(UserWarning, match=r"Using a target size \(torch.Size\(\[4\]\)\) that is different to the input size"):
        loss = getattr(F, name)(x, t)
    full = getattr(F, name)(x.expand(3, 4), t.expand(3, 4))
    assert loss.item() == pytest.approx(full.item())
    loss.backward()
    assert x.grad.shape == (3, 1) and t.grad.shape == (4,)


def test_long_losses_on_several_threads():
    x, t = values(1 << 18).astype(np.float32), values(1 << 18).astype(np.float32)
    a, b = torch.tensor(x, requires_grad=True), torch.tensor(t)
    for threads in (1, 2):
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            loss = F.mse_loss(a, b)
            (g,) = torch.autograd.grad(loss, a)
        finally:
            torch.set_num_threads(before)
        assert loss.item() == pytest.approx(np.mean((x.astype(float) - t) ** 2), rel=1e-6)
        np.testing.assert_allclose(g.numpy(), 2 * (x - t) / x.size, rtol=1e-5)


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy"])
def test_losses_of_nothing(name):
    e = torch.ones(0, requires_grad=True)
    assert np.isnan(getattr(F, name)(e, e).item()) and getattr(F, name)(e, e, reduction="sum").item() == 0
    getattr(F, name)(e, e.detach()).backward()
    assert e.grad.shape == (0,)


def test_weights_of_pairs():
    x, t, w = values(3, 4), values(3, 4, low=0.1, high=0.9), values(4, low=0.1)
    tensors = [torch.tensor(v) for v in (x, t, w)]
    for reduction, reduce in REDUCE.items():
        result = F.binary_cross_entropy_with_logits(*tensors, reduction=reduction)
        np.testing.assert_allclose(result.numpy(), reduce(w * logits(x, t)))
        probability = 1 / (1 + np.exp(-x))
        result = F.binary_cross_entropy(torch.tensor(probability), *tensors[1:], reduction=reduction)
        np.testing.assert_allclose(result.numpy(), reduce(w * logits(x, t)))
        result = F.binary_cross_entropy_with_logits(*tensors[:2], pos_weight=tensors[2], reduction=reduction)
        expected = -w * t * np.log(probability) - (1 - t) * np.log(1 - probability)
        np.testing.assert_allclose(result.numpy(), reduce(expected))


def test_certain_mistakes_cost_a_finite_amount():
    x, t = torch.tensor([0.0, 1.0], requires_grad=True), torch.tensor([1.0, 0.0])
    loss = F.binary_cross_entropy(x, t, reduction="none")
    assert loss.tolist() == [100, 100]
    loss.sum().backward()
    assert x.grad.isfinite().all().item()
    far = torch.tensor([-1e4, 1e4, float("inf")], requires_grad=True)
    loss = F.binary_cross_entropy_with_logits(far, torch.tensor([1.0, 0.0, 0.0]), reduction="none")
    assert loss.tolist() == [1e4, 1e4, float("inf")]


def test_nan_in_losses():
    x = torch.tensor([float("nan"), 1.0])
    assert F.mse_loss(x, torch.ones(2)).isnan().item() and F.l1_loss(x, torch.ones(2)).isnan().item()
    assert F.huber_loss(x, torch.ones(2)).isnan().item() and F.smooth_l1_loss(x, torch.ones(2)).isnan().item()
    assert F.binary_cross_entropy_with_logits(x, torch.ones(2)).isnan().item()
    assert F.cross_entropy(x, torch.tensor(1)).isnan().item()


def test_kl_divergence():
    x, t = values(3, 4), values(3, 4, low=0.1, high=0.9)
    formula = t * (np.log(t) - x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batch = F.kl_div(torch.tensor(x), torch.tensor(t), reduction="batchmean")
    assert batch.item() == pytest.approx(formula.sum() / 3)
    logs = F.kl_div(torch.tensor(x), torch.tensor(np.log(t)), reduction="sum", log_target=True)
    assert logs.item() == pytest.approx(formula.sum())
    with pytest.warns(UserWarning, match="'batchmean' divides only by the batch size"):
        F.kl_div(torch.tensor(x), torch.tensor(t))
    assert F.kl_div(torch.tensor(0.0), torch.tensor(0.0), reduction="sum").item() == 0


# -- classes ----------------------------------------------------------------------------------------

SHAPES = [((5, 4), (5,)), ((4,), ()), ((2, 4, 3), (2, 3)), ((2, 4, 3, 2), (2, 3, 2)), ((2, 4, 1, 3, 2), (2, 1, 3, 2))]


def log_softmax(x, axis):
    return x - np.log(np.exp(x).sum(axis, keepdims=True))


def likelihood(x, t, weight, ignored, reduction):
    """Minus log-probabilities of classes, target by target."""
    axis = min(x.ndim, 2) - 1
    known = np.where(t == ignored, 0, t)
    picked = np.take_along_axis(x, np.expand_dims(known, axis), axis).squeeze(axis)
    w = np.where(t == ignored, 0, weight[known])
    losses = -picked * w
    return losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.sum() / w.sum()


@pytest.mark.parametrize("reduction", REDUCE)
@pytest.mark.parametrize("shapes", SHAPES)
def test_likelihood_of_classes(shapes, reduction):
    x, t = values(*shapes[0]), RNG.integers(0, 4, shapes[1])
    axis = min(x.ndim, 2) - 1
    ones, w = np.ones(4), values(4, low=0.1)
    for weight, ignored in ((ones, -100), (w, -100), (ones, 1), (w, int(t.flat[-1]))):
        options = {"reduction": reduction, "ignore_index": ignored}
        options |= {"weight": torch.tensor(weight)} if weight is w else {}
        for name, source in (("nll_loss", x), ("cross_entropy", log_softmax(x, axis))):
            with np.errstate(invalid="ignore"):
                expected = likelihood(source, t, weight, ignored, reduction)
            leaf = torch.tensor(x, requires_grad=True)
            call = lambda a, name=name, options=options: getattr(F, name)(a, torch.tensor(t), **options)
            np.testing.assert_allclose(call(leaf).detach().numpy(), expected, atol=1e-12)
            if np.all(np.isfinite(expected)):
                assert gradcheck(call, leaf) and gradgradcheck(call, leaf)


def test_no_gradient_where_all_targets_are_ignored():
    x = torch.tensor(values(2, 3), requires_grad=True)
    loss = F.cross_entropy(x, torch.tensor([1, 1]), ignore_index=1)
    assert loss.isnan().item()
    (fast,) = torch.autograd.grad(loss, x)
    (slow,) = torch.autograd.grad(F.cross_entropy(x, torch.tensor([1, 1]), ignore_index=1), x, create_graph=True)
    assert fast.abs().sum().item() == slow.abs().sum().item() == 0


@pytest.mark.parametrize("reduction", REDUCE)
@pytest.mark.parametrize("shapes", SHAPES[:4])
def test_smoothed_labels_are_probabilities(shapes, reduction):
    """Smoothing by e: classes give the same as the probabilities (1 - e) * one_hot + e / classes."""
    x, t = torch.tensor(values(*shapes[0])), RNG.integers(0, 4, shapes[1])
    axis = min(x.ndim, 2) - 1
    hot = np.moveaxis(np.eye(4)[t], -1, axis)
    by_class = F.cross_entropy(x, torch.tensor(t), reduction=reduction, label_smoothing=0.2)
    by_share = F.cross_entropy(x, torch.tensor(hot), reduction=reduction, label_smoothing=0.2)
    np.testing.assert_allclose(by_class.numpy(), by_share.numpy(), rtol=1e-10)
    leaf = x.detach().requires_grad_()
    assert gradcheck(lambda a: F.cross_entropy(a, torch.tensor(t), label_smoothing=0.2, reduction=reduction), leaf)


def test_probabilities_as_targets_have_gradients_too():
    x, p = torch.tensor(values(3, 4), requires_grad=True), torch.tensor(values(3, 4, low=0.1), requires_grad=True)
    w = torch.tensor(values(4, low=0.1))
    assert gradcheck(lambda a, b: F.cross_entropy(a, b, weight=w), (x, p))


def test_bytes_may_be_targets():
    x = torch.tensor(values(2, 3))
    expected = F.nll_loss(x, torch.tensor([2, 0]))
    assert F.nll_loss(x, torch.tensor([2, 0], dtype=torch.uint8)).item() == expected.item()


NODES = {
    "MseLossBackward0": lambda x, t, c: F.mse_loss(x, t),
    "SmoothL1LossBackward0": lambda x, t, c: F.smooth_l1_loss(x, t),
    "HuberLossBackward0": lambda x, t, c: F.huber_loss(x, t),
    "BinaryCrossEntropyBackward0": lambda x, t, c: F.binary_cross_entropy(x, t),
    "BinaryCrossEntropyWithLogitsBackward0": lambda x, t, c: F.binary_cross_entropy_with_logits(x, t),
    "NllLossBackward0": lambda x, t, c: F.cross_entropy(x, c),
    "NllLoss2DBackward0": lambda x, t, c: F.cross_entropy(x.unsqueeze(2), c.unsqueeze(1)),
    "MeanBackward0": lambda x, t, c: F.l1_loss(x, t),
}


@pytest.mark.parametrize("name", NODES)
def test_names_of_nodes(name):
    x = torch.tensor(values(3, 4, low=0.1, high=0.9), requires_grad=True)
    loss = NODES[name](x, x.detach(), torch.tensor([0, 1, 2]))
    assert loss.grad_fn.name() == name
    if name == "NllLossBackward0":
        assert loss.grad_fn.next_functions[0][0].name() == "LogSoftmaxBackward0"


def test_older_arguments_for_the_reduction():
    x, t = torch.tensor([1.0, 3.0]), torch.tensor([0.0, 0.0])
    with pytest.warns(UserWarning, match="please use reduction='sum' instead"):
        assert F.mse_loss(x, t, size_average=False).item() == 10
    with pytest.warns(UserWarning, match="please use reduction='none' instead"):
        assert F.mse_loss(x, t, reduce=False).tolist() == [1, 9]


X, C = torch.ones(3, 4) / 2, torch.tensor([0, 1, 2])


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: F.mse_loss(X, X, reduction="most"), ValueError, "most is not a valid value for reduction"),
        (lambda: F.smooth_l1_loss(X, X, beta=-1), RuntimeError, "smooth_l1_loss does not support negative values for beta."),
        (lambda: F.huber_loss(X, X, delta=0), RuntimeError, "huber_loss does not support non-positive values for delta."),
        (lambda: F.mse_loss(C, C), NotImplementedError, "\"mse_cpu\" not implemented for 'Long'"),
        (lambda: F.binary_cross_entropy(X * 3, X), RuntimeError, "all elements of input should be between 0 and 1"),
        (lambda: F.binary_cross_entropy(X, X * 3), RuntimeError, "all elements of target should be between 0 and 1"),
        (lambda: F.binary_cross_entropy(X, X[0]), ValueError, "Using a target size (torch.Size([4])) that is different to the input size (torch.Size([3, 4])) is deprecated."),
        (lambda: F.binary_cross_entropy(X[0, :3], C), RuntimeError, "Found dtype Long but expected Float"),
        (lambda: F.binary_cross_entropy_with_logits(X, X[0]), ValueError, "Target size (torch.Size([4])) must be the same as input size (torch.Size([3, 4]))"),
        (lambda: F.cross_entropy(X, torch.tensor([0, 5, 1])), IndexError, "Target 5 is out of bounds."),
        (lambda: F.cross_entropy(X, torch.tensor([0, -1, 1])), IndexError, "Target -1 is out of bounds."),
        (lambda: F.cross_entropy(X, C[:2]), ValueError, "Expected input batch_size (3) to match target batch_size (2)."),
        (lambda: F.cross_entropy(X, C.float()), RuntimeError, "expected target dtype to be Long or Byte, but got Float"),
        (lambda: F.cross_entropy(X, torch.ones(3, 5)), RuntimeError, "0D or 1D target tensor expected, multi-target not supported"),
        (lambda: F.cross_entropy(X, torch.ones(3, 4).long()), RuntimeError, "Expected floating point type for target with class probabilities, got Long"),
        (lambda: F.cross_entropy(X, torch.tensor([0, 1]), ignore_index="a"), TypeError, "must be int, not str"),
        (lambda: F.cross_entropy(X, X, ignore_index=1), RuntimeError, "ignore_index is not supported for floating point target"),
        (lambda: F.cross_entropy(X, C, label_smoothing=2), RuntimeError, "label_smoothing must be between 0.0 and 1.0. Got: 2"),
        (lambda: F.cross_entropy(X, C, weight=torch.ones(5)), RuntimeError, "weight tensor should be defined either for all 4 classes or no classes but got weight tensor of shape: [5]"),
        (lambda: F.nll_loss(X.double(), C, weight=torch.ones(4)), RuntimeError, "expected scalar type Double but found Float"),
        (lambda: F.nll_loss(X[0, 0], C), ValueError, "Expected 1 or more dimensions (got 0)"),
        (lambda: F.nll_loss(torch.ones(3, 4, 5), torch.ones(3, 4).long()), RuntimeError, "Expected target size [3, 5], got [3, 4]"),
    ],
)  # fmt: skip
def test_errors(call, kind, words):
    with pytest.raises(kind) as error:
        call()
    assert words in str(error.value)


def test_divergences_of_whole_numbers_are_refused():
    with pytest.raises(RuntimeError, match="kl_div: Integral inputs not supported"):
        F.kl_div(torch.ones(2), torch.ones(2, dtype=torch.int64), reduction="sum")


@pytest.mark.parametrize(("dtype", "title"), [(torch.complex64, "ComplexFloat"), (torch.int64, "Long")])
def test_binary_cross_entropy_is_of_real_floats(dtype, title):
    x = torch.ones(2, 3, dtype=dtype)
    with pytest.raises(NotImplementedError, match=f'"binary_cross_entropy" not implemented for \'{title}\''):
        F.binary_cross_entropy(x, x)


def test_wrong_targets():
    x = torch.tensor([0.2, 0.5, 0.3])
    for loss in (F.nll_loss, F.cross_entropy):
        for count in (0, 2):
            with pytest.raises(ValueError, match=f"For 1D input, 1D target must have size 1, but got target size: {count}"):
                loss(x, torch.ones(count, dtype=torch.int64))
        assert loss(x, torch.tensor([1])).tolist() == loss(x, torch.tensor(1)).tolist()
        with pytest.raises(IndexError, match="Target 3 is out of bounds"):
            loss(x, torch.tensor([3]))
    with pytest.raises(ValueError, match="must have size 1, but got target size: 3"):  # of as many as there are classes
        F.nll_loss(x, torch.ones(3, dtype=torch.int64))
    smoothed = F.cross_entropy(x, torch.tensor([1]), reduction="none", label_smoothing=0.1)
    assert smoothed.tolist() == F.cross_entropy(x, torch.tensor(1), label_smoothing=0.1).tolist()
    for pair in ((x, x > 0.25), (x > 0.25, x)):
        with pytest.raises(RuntimeError, match="Subtraction, the `-` operator, with a bool tensor is not supported"):
            F.l1_loss(*pair)
    assert F.hinge_embedding_loss(x, torch.tensor([1.0, -1, 1], dtype=torch.float64)).dtype is torch.float32
