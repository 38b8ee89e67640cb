"""Reductions into places: scatter_reduce, index_reduce, segment_reduce, against NumPy and by differences."""

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.autograd import gradcheck, gradgradcheck
from jitgrad.func import jvp, vmap

RNG = np.random.default_rng(0)
REDUCTIONS = {"sum": np.sum, "prod": np.prod, "amax": np.max, "amin": np.min, "mean": np.mean}
INDEX = torch.tensor([[0, 2, 2, 1], [3, 3, 0, 3], [1, 1, 1, 1]])


def drawn(*shape):
    return torch.tensor(RNG.standard_normal(shape))


def expected_rows(x, index, src, reduce, include_self):
    """The result along the last dim of matrices."""
    out = x.copy()
    for r, place in np.ndindex(*x.shape):
        sent = src[r][index[r] == place]
        if len(sent):
            out[r, place] = REDUCTIONS[reduce]([*([x[r, place]] if include_self else []), *sent])
    return out


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_against_numpy(reduce, include_self):
    x, src = drawn(3, 5), drawn(3, 4)
    expected = expected_rows(x.numpy(), INDEX.numpy(), src.numpy(), reduce, include_self)
    for found in (
        x.scatter_reduce(1, INDEX, src, reduce, include_self=include_self),
        x.t().scatter_reduce(0, INDEX.t(), src.t(), reduce, include_self=include_self).t(),
        x.clone().scatter_reduce_(-1, INDEX, src, reduce, include_self=include_self),
    ):
        np.testing.assert_allclose(found.numpy(), expected)
    if reduce != "sum":
        rows = x.index_reduce(1, INDEX[0], src, reduce, include_self=include_self)
        index = np.broadcast_to(INDEX[0].numpy(), (3, 4))
        np.testing.assert_allclose(rows.numpy(), expected_rows(x.numpy(), index, src.numpy(), reduce, include_self))


def test_integers_and_bools():
    i = torch.tensor([5, -5, 7])
    at = torch.tensor([0, 0, 2, 2])
    assert i.scatter_reduce(0, at, torch.tensor([1, 1, -8, -8]), "mean").tolist() == [2, -5, -3]
    low = torch.iinfo(torch.int64).min
    assert i.scatter_reduce(0, at, torch.tensor([low, 3, 1, 2]), "amax", include_self=False).tolist() == [3, -5, 2]
    b = torch.tensor([True, False, True])
    assert b.scatter_reduce(0, at, torch.tensor([False, True, True, True]), "prod").tolist() == [False, False, True]


def test_nan_wins_and_infinities_count():
    x, at = torch.tensor([0.0, 0.0, 0.0]), torch.tensor([0, 0, 1])
    for reduce in ("amax", "amin"):
        found = x.scatter_reduce(0, at, torch.tensor([float("nan"), 1.0, -float("inf")]), reduce, include_self=False)
        assert np.isnan(found[0].item()) and found[1:].tolist() == [-float("inf"), 0]


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_gradients_to_second_order(reduce, include_self):
    x, src = (drawn(*s).requires_grad_() for s in ((3, 5), (3, 6)))  # src is larger than its index
    gradgradcheck(lambda x, s: x.scatter_reduce(1, INDEX, s, reduce, include_self=include_self), (x, src))
    if reduce != "sum":
        part = src.detach()[:, :4].clone().requires_grad_()
        gradgradcheck(lambda x, s: x.index_reduce(1, INDEX[0], s, reduce, include_self=include_self), (x, part))


def test_equal_elements_share_the_gradient():
    x, src = torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)
    x.scatter_reduce(0, torch.tensor([0, 0, 1]), src, "amax").backward(torch.tensor([6.0, 6.0]))
    assert x.grad.tolist() == [2, 3] and src.grad.tolist() == [2, 2, 3]


def test_zeros_in_a_product():
    x, at = torch.tensor([2.0, 3.0, 1.0]).double(), torch.tensor([0, 0, 1, 1, 2])
    src = torch.tensor([0.0, 4.0, 0.0, 0.0, 5.0]).double().requires_grad_()
    out = x.scatter_reduce(0, at, src, "prod")
    (g,) = torch.autograd.grad(out.sum(), src, create_graph=True)
    assert g.tolist() == [8, 0, 0, 0, 1]
    with pytest.raises(RuntimeError, match="Double backward is unsupported for src when >1 zeros"):
        g.sum().backward()


def test_transforms():
    x, src, at = drawn(2, 3, 5), drawn(2, 3, 4), INDEX[None].expand(2, 3, 4)
    found = vmap(lambda x, s: x.scatter_reduce(1, INDEX, s, "amax"))(x, src)
    np.testing.assert_array_equal(found.numpy(), x.scatter_reduce(2, at, src, "amax").numpy())
    rows = vmap(lambda x, s: x.index_reduce(1, INDEX[0], s, "prod"))(x, src)
    np.testing.assert_array_equal(rows.numpy(), x.index_reduce(2, INDEX[0], src, "prod").numpy())
    a, b = drawn(3, 5), drawn(3, 4)
    _, tangent = jvp(lambda s: a.scatter_reduce(1, INDEX, s, "mean"), (b,), (b,))
    np.testing.assert_allclose(tangent.numpy(), (a * 0).scatter_reduce(1, INDEX, b, "mean").numpy())
    compiled = torch.compile(lambda x, s: x.scatter_reduce(1, INDEX, s, "prod") * 2)
    for _ in range(3):
        a, b = drawn(3, 5), drawn(3, 4)
        np.testing.assert_allclose(compiled(a, b).numpy(), (a.scatter_reduce(1, INDEX, b, "prod") * 2).numpy())


def test_nothing_changes_on_error():
    x = drawn(3)
    before, version = x.tolist(), x._version
    for index in (torch.tensor([0, 3]), torch.tensor([0.0, 1.0])):
        with pytest.raises((RuntimeError, IndexError)):
            x.scatter_reduce_(0, index, drawn(2), "sum")
        with pytest.raises((RuntimeError, IndexError)):
            x.index_reduce_(0, index, drawn(2), "prod")
    assert x.tolist() == before and x._version == version


def test_segments():
    x = torch.arange(12.0).double().view(4, 3).requires_grad_()
    lengths = torch.tensor([1, 0, 3])
    for reduce, empty in (("sum", 0), ("prod", 1), ("max", -np.inf), ("min", np.inf), ("mean", np.nan)):
        found = torch.segment_reduce(x, reduce, lengths=lengths)
        rows = x.detach().numpy()
        last = getattr(np, reduce)(rows[1:], 0)
        np.testing.assert_array_equal(found.detach().numpy(), [rows[0], [empty] * 3, last])
        by_offsets = torch.segment_reduce(x, reduce, offsets=torch.tensor([0, 1, 1, 4]), unsafe=True)
        np.testing.assert_array_equal(by_offsets.detach().numpy(), found.detach().numpy())
    assert gradcheck(lambda x: torch.segment_reduce(x + 1, "prod", lengths=lengths), (x,))
    assert torch.segment_reduce(x, "mean", lengths=lengths, initial=6).tolist()[1] == [6, 6, 6]
    pairs = torch.segment_reduce(x, "sum", lengths=torch.tensor([[1, 2]] * 4), axis=1)
    np.testing.assert_array_equal(pairs.detach().numpy(), np.stack([rows[:, 0], rows[:, 1:].sum(1)], 1))
