"""Losses with margins, distances, likelihoods and CTC: known values, errors, transforms."""

import itertools
import math

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.autograd import gradcheck, gradgradcheck

F = torch.nn.functional


def draw(*shape, seed=0):
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape), requires_grad=True)


def signs(*shape):
    return torch.tensor(np.random.default_rng(9).integers(0, 2, shape) * 2.0 - 1)


TWO = {
    "soft_margin_loss": lambda x: (x, signs(4, 3)),
    "hinge_embedding_loss": lambda x: (x, signs(4, 3)),
    "multilabel_soft_margin_loss": lambda x: (x, (signs(4, 3) + 1) / 2),
    "poisson_nll_loss": lambda x: (x, signs(4, 3) + 2),
    "margin_ranking_loss": lambda x: (x, draw(4, 3, seed=1).detach(), signs(4, 3)),
    "gaussian_nll_loss": lambda x: (x, draw(4, 3, seed=1).detach(), signs(4, 3) / 2 + 1),
    "multi_margin_loss": lambda x: (x, torch.tensor([0, 2, 1, 1])),
    "multilabel_margin_loss": lambda x: (x, torch.tensor([[0, -1, 1], [2, 1, -1], [-1, 0, 0], [1, 0, 2]])),
    "cosine_embedding_loss": lambda x: (x, draw(4, 3, seed=1).detach(), torch.tensor([1, -1, 1, -1])),
    "triplet_margin_loss": lambda x: (x, draw(4, 3, seed=1).detach(), draw(4, 3, seed=2).detach()),
}


@pytest.mark.parametrize("name", TWO)
def test_gradients_reductions_and_transforms(name):
    loss, arguments, x = getattr(F, name), TWO[name], draw(4, 3)

    def each(x):
        return loss(*arguments(x), reduction="none")

    assert gradcheck(each, (x,)) and gradgradcheck(each, (x,))
    values = each(x)
    torch.testing.assert_close(loss(*arguments(x)), values.mean())
    torch.testing.assert_close(loss(*arguments(x), reduction="sum"), values.sum())
    tangent = torch.ones_like(x)
    moved = torch.func.jvp(each, (x.detach(),), (tangent,))[1]
    (gradient,) = torch.autograd.grad(values, x, torch.ones_like(values))
    torch.testing.assert_close(moved.sum(), gradient.sum())
    stack = torch.stack([x.detach(), 2 * x.detach()])
    torch.testing.assert_close(torch.func.vmap(each)(stack), torch.stack([each(s) for s in stack]))
    with pytest.raises(ValueError, match="x is not"):
        loss(*arguments(x), reduction="x")


def test_old_arguments_of_reduction_warn_at_the_caller():
    with pytest.warns(UserWarning, match="reduction='sum'") as caught:
        F.soft_margin_loss(draw(2), signs(2), size_average=False)
    assert caught[0].filename == __file__


def test_compiled():
    def step(x, y, target):
        loss = F.margin_ranking_loss(x, y, target, 0.5) + F.cosine_embedding_loss(x, y, target[:, 0])
        return loss + F.triplet_margin_loss(x, y, target)

    args = draw(4, 3), draw(4, 3, seed=1), signs(4, 3)
    run = torch.compile(step)
    for _ in range(3):
        torch.testing.assert_close(run(*args), step(*args))


def test_distances_of_special_vectors():
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0]], requires_grad=True)
    assert F.normalize(x).tolist() == [pytest.approx([0.6, 0.8]), [0, 0]]
    assert F.cosine_similarity(x, torch.tensor([[3.0, 4.0], [1.0, 0.0]])).tolist() == [pytest.approx(1), 0]
    assert F.pairwise_distance(x[0], torch.zeros(2), eps=0).item() == 5
    (gradient,) = torch.autograd.grad(F.cosine_similarity(x, torch.ones(2, 2)).sum(), x)
    assert bool(gradient.isfinite().all())  # at the zero vector, too
    out = torch.empty(2, 2)
    assert F.normalize(x.detach(), out=out) is out


def test_cosines_are_the_same_whether_they_are_recorded():
    x = torch.tensor([[0.0, 0.0], [1e-12, 0.0], [3.0, 4.0], [math.nan, 1.0]])
    y = torch.tensor([1.0, 2.0]).expand(4, 2)
    for size in (1e-8, 1e-3, 10.0):
        plain = torch.cosine_similarity(x, y, 1, size)
        recorded = torch.cosine_similarity(x.clone().requires_grad_(), y, 1, size)
        assert plain.allclose(recorded.detach(), equal_nan=True) and recorded.requires_grad


def test_top_level_functions_take_the_reduction_as_a_number():
    x, y, target = draw(4, 3), draw(4, 3, seed=1), signs(4, 3)
    assert torch.margin_ranking_loss(x, y, target, 0.5, 0).shape == (4, 3)
    assert torch.hinge_embedding_loss(x, target, 1.0, 2).item() == F.hinge_embedding_loss(x, target, reduction="sum")
    assert torch.poisson_nll_loss(x, target, True, False, 1e-8, 1) == F.poisson_nll_loss(x, target)
    assert torch.triplet_margin_loss(x, y, target).item() == F.triplet_margin_loss(x, y, target)
    assert torch.cosine_embedding_loss(x, y, target[:, 0]) == F.cosine_embedding_loss(x, y, target[:, 0])


# -- CTC --------------------------------------------------------------------------------------------------


def spelled(path, blank):
    return [c for c, _ in itertools.groupby(path) if c != blank]


def by_enumeration(x, target, blank):
    """Minus the logarithm of the sum over all paths that spell the target."""
    paths = itertools.product(range(x.shape[1]), repeat=x.shape[0])
    total = sum(
        math.exp(sum(x[t, c] for t, c in enumerate(path))) for path in paths if spelled(path, blank) == list(target)
    )
    return -math.log(total) if total else math.inf


@pytest.mark.parametrize("blank", [0, 2])
@pytest.mark.parametrize("target", [[1], [1, 1], [], [1, 1, 1]])
def test_ctc_sums_over_all_paths(target, blank):
    x = draw(4, 1, 3).log_softmax(2)
    loss = F.ctc_loss(x, torch.tensor([target], dtype=torch.int64), (4,), (len(target),), blank, "none")
    assert loss.item() == pytest.approx(by_enumeration(x[:, 0].detach().numpy(), target, blank))


def test_ctc_gradients_are_right_below_a_softmax():
    lengths, counts = torch.tensor([5, 3]), torch.tensor([2, 1])

    def loss(x):
        return F.ctc_loss(x.log_softmax(2), torch.tensor([[1, 1], [2, 0]]), lengths, counts, reduction="none")

    assert gradcheck(loss, (draw(5, 2, 3),))


def test_ctc_layouts_of_targets_and_unbatched():
    x, lengths = draw(5, 2, 4).log_softmax(2), ([5, 4], [2, 1])
    rows = F.ctc_loss(x, torch.tensor([[1, 2], [3, 0]]), *lengths, reduction="none")
    joined = F.ctc_loss(x, torch.tensor([1, 2, 3]), *lengths, reduction="none")
    assert rows.tolist() == joined.tolist()
    one = F.ctc_loss(x[:, 0], torch.tensor([1, 2]), torch.tensor(5), torch.tensor(2), reduction="none")
    assert one.item() == pytest.approx(rows[0].item())
    assert F.ctc_loss(x, torch.tensor([1, 2, 3]), *lengths).item() == pytest.approx(
        (rows[0].item() / 2 + rows[1].item()) / 2
    )


def test_ctc_without_a_path():
    x, target = draw(2, 1, 3), torch.tensor([[1, 1]])
    lengths = (2,), (2,)
    assert F.ctc_loss(x.log_softmax(2), target, *lengths, reduction="none").item() == math.inf
    loss = F.ctc_loss(x.log_softmax(2), target, *lengths, zero_infinity=True)
    assert loss.item() == 0
    assert torch.autograd.grad(loss, x)[0].abs().sum().item() == 0


@pytest.mark.parametrize(("change", "words"), [
    ({"blank": 3}, "blank must be in label range"),
    ({"input_lengths": (6,)}, "at most 5, but got value 6"),
    ({"target_lengths": (3,)}, "size at least 3 at dimension 1"),
    ({"targets": torch.tensor([[1, 7]])}, "target 7 is no label"),
    ({"input_lengths": torch.tensor([5.0])}, "input_lengths must be integral"),
    ({"target_lengths": (1, 1)}, "target_lengths must be of size batch_size"),
])  # fmt: skip
def test_ctc_refuses(change, words):
    given = {"targets": torch.tensor([[1, 2]]), "input_lengths": (5,), "target_lengths": (2,)} | change
    with pytest.raises(RuntimeError, match=words):
        F.ctc_loss(draw(5, 1, 3), **given)


@pytest.mark.parametrize(("call", "kind", "words"), [
    (lambda x: F.multi_margin_loss(x, torch.tensor([0, 3])), RuntimeError, "target out of range"),
    (lambda x: F.multi_margin_loss(x, torch.tensor([0, 1]), p=3), ValueError, "only p == 1 and p == 2"),
    (lambda x: F.multilabel_margin_loss(x, torch.tensor([[0, 9, -1]] * 2)), RuntimeError, "'target' is out of range"),
    (lambda x: F.gaussian_nll_loss(x, x, -x.detach().abs()), ValueError, "var has negative"),
    (lambda x: F.gaussian_nll_loss(x, x, torch.ones(3)), ValueError, "var is of incorrect size"),
    (lambda x: F.triplet_margin_loss(x, x, x, margin=0), ValueError, "margin must be greater than 0, got 0"),
    (lambda x: F.cosine_embedding_loss(x, x, torch.ones(2, 3)), RuntimeError, "multi-target not supported"),
    (lambda x: F.soft_margin_loss(x, x), RuntimeError, "not differentiable with respect to argument 'target'"),
])  # fmt: skip
def test_refused(call, kind, words):
    with pytest.raises(kind, match=words):
        call(draw(2, 3))
