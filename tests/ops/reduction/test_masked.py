"""jitgrad.masked: each function is that of the elements which the mask names, and agrees with numpy.ma."""

import numpy as np
import pytest

import jitgrad as torch

RNG = np.random.default_rng(0)
A = RNG.standard_normal((3, 4, 2))
MASK = RNG.random((3, 4, 2)) < 0.7
MASK[0, :, 0] = False
MASKED = np.ma.array(A, mask=~MASK)
X, M = torch.from_numpy(A), torch.from_numpy(MASK)


@pytest.mark.parametrize(("name", "there", "empty"), [
    ("sum", "sum", 0), ("prod", "prod", 1), ("amax", "max", -np.inf), ("amin", "min", np.inf), ("mean", "mean", np.nan),
    ("var", "var", np.nan), ("std", "std", np.nan),
])  # fmt: skip
def test_reductions(name, there, empty):
    for dim, keepdim in ((1, False), ((0, 2), True), (None, False), (-1, True), ((), False)):
        given = {"ddof": 1} if name in ("var", "std") else {}
        axis = None if dim == () else dim
        expected = np.ma.filled(getattr(MASKED, there)(axis, keepdims=keepdim, **given), np.nan)
        found = getattr(torch.masked, name)(X, dim, keepdim=keepdim, mask=M).numpy()
        assert found.shape == np.shape(expected)
        named = ~np.isnan(expected)
        np.testing.assert_allclose(found[named], np.asarray(expected)[named])
    row = getattr(torch.masked, name)(X, 1, mask=M)[0, 0].item()
    assert row == empty or (np.isnan(empty) and np.isnan(row))
    plain = getattr(A, there)(1, **given)
    np.testing.assert_allclose(getattr(torch.masked, name)(X, 1).numpy(), plain)


def test_norms_and_logsumexp():
    zero = np.where(MASK, A, 0)
    for order in (1, 2.0, 3, np.inf, 0):
        found = torch.masked.norm(X, order, 1, mask=M).numpy()
        expected = [[np.linalg.norm(zero[i, :, k], order) for k in range(2)] for i in range(3)]
        np.testing.assert_allclose(found, expected)
    assert torch.masked.norm(X, -np.inf, 1, mask=M)[0, 0].item() == np.inf
    found = torch.masked.logsumexp(X, 1, mask=M).numpy()
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(found, np.log(np.where(MASK, np.exp(A), 0).sum(1)))
    torch.testing.assert_close(torch.masked.normalize(X, 2.0, 1), X / X.norm(2, 1, True))
    assert (torch.masked.normalize(X, 2.0, 1, mask=M)[~M] == 0).all()
    other = torch.from_numpy(A[::-1].copy())
    both = torch.masked.logaddexp(X, other, input_mask=M)
    torch.testing.assert_close(both[M], X.logaddexp(other)[M])
    torch.testing.assert_close(both[~M], other[~M])


def test_along_a_dim():
    first = torch.tensor([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]])
    mask = torch.tensor([[True, False, True], [False, False, False]])
    assert torch.masked.cumsum(first, 1, mask=mask)[0].tolist() == [1, 1, 4]
    assert torch.masked.cumprod(first, 1, mask=mask)[0].tolist() == [1, 1, 3]
    for name, least in (("softmax", 0), ("softmin", 0), ("log_softmax", -np.inf)):
        found = getattr(torch.masked, name)(first, 1, mask=mask)
        kept = first[0, [0, 2]]
        expected = (-kept).softmax(0) if name == "softmin" else getattr(kept, name)(0)
        torch.testing.assert_close(found[0, [0, 2]], expected)
        assert found[0, 1].item() == least and found[1].isnan().all()
    assert torch.masked.argmax(first, 1, mask=mask)[0].item() == 2
    assert torch.masked.argmin(first, mask=mask).item() == 0
    assert torch.masked.median(first, 1, mask=mask)[0].item() == 1
    assert torch.masked.median(first, 1, mask=mask)[1].isnan()


def test_dtypes_and_broadcast_masks():
    whole = torch.tensor([[1, 2], [3, 4]], dtype=torch.int8)
    mask = torch.tensor([True, False])
    assert torch.masked.sum(whole, 1, mask=mask).dtype is torch.int64
    assert torch.masked.sum(whole, 1, mask=mask).tolist() == [1, 3]
    assert torch.masked.amax(whole, 1, mask=~mask).dtype is torch.int8
    assert torch.masked.amax(whole, 1, mask=mask & ~mask).tolist() == [-128, -128]
    assert torch.masked.amin(whole, 1, mask=mask & ~mask).tolist() == [127, 127]
    assert torch.masked.mean(whole, 1, dtype=torch.float64, mask=mask).tolist() == [1, 3]
    assert torch.masked.median(whole, 1, mask=mask).dtype is torch.int8
    assert torch.masked.var(whole, unbiased=False).item() == 1.25
    assert torch.masked.sum(whole.float(), dtype=torch.float64).dtype is torch.float64
    assert torch.masked.sum(torch.tensor(3.0), mask=torch.tensor(False)).item() == 0


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "std", "logsumexp", "amax"])
def test_gradients_and_vmap(name):
    def function(x, mask=M[1]):
        return getattr(torch.masked, name)(x, 0, mask=mask)

    x = X[1].clone().requires_grad_()
    torch.autograd.gradcheck(function, x, check_forward_ad=True)
    torch.autograd.gradgradcheck(function, x)
    found = torch.vmap(function)(X, M)
    torch.testing.assert_close(found, getattr(torch.masked, name)(X, 1, mask=M), equal_nan=True)


def test_errors():
    for call, error, words in (
        (lambda: torch.masked.mean(torch.tensor([1])), ValueError, "Could not infer output dtype. Input dtype must be"),
        (lambda: torch.masked.sum(X, (0, 0)), RuntimeError, "dim=0 appears multiple times in the list of dims"),
        (lambda: torch.masked.sum(X, 3), IndexError, "Dimension out of range"),
        (lambda: torch.masked.sum(X[0, 0], mask=M), IndexError, "got mask dimensionality higher than of the input"),
        (lambda: torch.masked.amax(M, mask=M), NotImplementedError, "identity of amax on torch.bool input"),
        (lambda: torch.masked.var(X, 0, True, correction=1), AssertionError, "Only one of unbiased and correction"),
        (lambda: torch.masked.median(torch.tensor([1]), mask=torch.tensor([False])), ValueError, "no fully masked out"),
    ):
        with pytest.raises(error, match=words):
            call()
