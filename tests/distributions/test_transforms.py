"""Transforms: inverses, Jacobians, caches, shapes; what constraints allow."""

import pytest

import jitgrad as torch
from jitgrad.distributions import biject_to, constraints, transform_to
from jitgrad.distributions import transforms as T


def t(*values):
    return torch.tensor(values, dtype=torch.float64)


NUMBERS = [
    T.ExpTransform(), T.SigmoidTransform(), T.TanhTransform(), T.SoftplusTransform(), T.AffineTransform(1.0, -2.0),
    T.ComposeTransform([T.ExpTransform(), T.PowerTransform(t(2.0)), T.AffineTransform(t(1.0), t(3.0))]),
]  # fmt: skip
VECTORS = [T.StickBreakingTransform(), T.CorrCholeskyTransform()]


@pytest.mark.parametrize("transform", NUMBERS, ids=lambda v: type(v).__name__)
def test_of_numbers(transform):
    x = t(-0.7, 0.1, 0.9).requires_grad_()
    y = transform(x)
    (slope,) = torch.autograd.grad(y.sum(), x)
    assert torch.allclose(transform.inv(y), x) and (transform.codomain.check(y)).all()
    assert torch.allclose(transform.log_abs_det_jacobian(x, y), slope.abs().log())
    assert torch.allclose(transform.inv.log_abs_det_jacobian(y, x), -slope.abs().log())
    assert (slope.sign() == transform.sign).all() and transform.inv.inv is transform


@pytest.mark.parametrize("transform", VECTORS, ids=lambda v: type(v).__name__)
def test_of_vectors(transform):
    x = t(-0.7, 0.1, 0.9)
    y = transform(x)
    assert torch.allclose(transform.inv(y), x) and transform.codomain.check(y)
    assert tuple(y.shape) == tuple(transform.forward_shape((3,))) and transform.inverse_shape(y.shape) == (3,)
    # The free elements of the result, as many as x has.
    free = (lambda v: transform(v)[:3]) if y.dim() == 1 else lambda v: transform(v)[[1, 2, 2], [0, 0, 1]]
    jacobian = torch.autograd.functional.jacobian(free, x)
    assert torch.allclose(transform.log_abs_det_jacobian(x, y), torch.linalg.slogdet(jacobian)[1])


def test_cache():
    transform = T.ExpTransform(cache_size=1)
    x = t(1.0)
    y = transform(x)
    assert transform(x) is y and transform.inv(y) is x and transform.with_cache(1) is transform
    assert T.AffineTransform(1.0, 2.0).with_cache()._cache_size == 1
    assert T.AffineTransform(1.0, 2.0) == T.AffineTransform(1.0, 2.0) != T.AffineTransform(1.0, 3.0)
    with pytest.raises(ValueError, match="cache_size must be 0 or 1"):
        T.ExpTransform(cache_size=2)


def test_pieces():
    transform = T.CatTransform([T.ExpTransform(), T.identity_transform], lengths=[1, 2])
    x = t(0.5, 1.0, 2.0)
    assert torch.allclose(transform(x), t(0.5, 1.0, 2.0).index_put((torch.tensor(0),), x[0].exp()))
    assert torch.allclose(transform.inv(transform(x)), x) and transform.log_abs_det_jacobian(x, transform(x))[0] == 0.5
    with pytest.raises(AssertionError, match=r"x.size\(0\) = 2 must equal length 3"):
        transform(x[:2])
    stacked = T.StackTransform([T.ExpTransform(), T.SigmoidTransform()], dim=1)
    x = torch.zeros(3, 2)
    assert torch.allclose(stacked(x), torch.tensor([1.0, 0.5]).expand(3, 2)) and stacked.bijective


ALLOWED = [
    constraints.real, constraints.positive, constraints.nonnegative, constraints.less_than(2.0), constraints.simplex,
    constraints.unit_interval, constraints.interval(-1.0, 3.0), constraints.corr_cholesky, constraints.real_vector,
]  # fmt: skip
SQUARE = [constraints.lower_cholesky, constraints.positive_definite, constraints.positive_semidefinite]


@pytest.mark.parametrize("constraint", ALLOWED + SQUARE, ids=repr)
def test_registries(constraint):
    x = t(*range(-4, 5)).reshape(3, 3) / 3
    assert constraint.check(transform_to(constraint)(x)).all()
    if constraint in ALLOWED:
        transform = biject_to(constraint)
        assert transform.bijective and torch.allclose(transform.inv(transform(x)), x)
    with pytest.raises(NotImplementedError, match="Cannot transform"):
        transform_to(constraints.one_hot)
    with pytest.raises(TypeError, match="Expected constraint to be either a Constraint subclass or instance"):
        transform_to.register(3, len)


def test_constraints():
    assert constraints.simplex.check(t(0.5, 0.5)) and not constraints.simplex.check(t(0.5, 0.6))
    assert constraints.integer_interval(0, 3).check(t(0.0, 1.5, 4.0)).tolist() == [True, False, False]
    assert constraints.independent(constraints.positive, 1).check(t(1.0, -1.0)).item() is False
    stacked = constraints.stack([constraints.positive, constraints.real])
    assert stacked.check(t(-1.0, -1.0)).tolist() == [False, True]
    joined = constraints.cat([constraints.positive, constraints.boolean], lengths=[1, 2])
    assert joined.check(t(-1.0, 1.0, 0.5)).tolist() == [False, True, False]
    assert repr(constraints.greater_than(1)) == "GreaterThan(lower_bound=1)"
    with pytest.raises(ValueError, match="Cannot determine validity of dependent constraint"):
        constraints.dependent.check(t(1.0))
    with pytest.raises(NotImplementedError, match="event_dim cannot be determined statically"):
        constraints.dependent.event_dim
