"""Constraints: which values a parameter or a sample may have.

``check(value)`` says so for each element, or for each event where the last ``event_dim`` dims make one. Those without
parameters are instances (``positive``), the others classes (``interval(0, 1)``). One that depends on other parameters
is ``dependent``, or a ``dependent_property`` of a distribution.
"""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.distributions.constraint_base import (
    Constraint,
    MixtureSameFamilyConstraint,
    _Cat,
    _Dependent,
    _DependentProperty,
    _IndependentConstraint,
    _Stack,
    is_dependent,
)  # fmt: skip

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property",
    "greater_than", "greater_than_eq", "half_open_interval", "independent", "integer_interval", "interval",
    "is_dependent", "less_than", "lower_cholesky", "lower_triangular", "multinomial", "nonnegative",
    "nonnegative_integer", "one_hot", "positive", "positive_definite", "positive_integer", "positive_semidefinite",
    "real", "real_vector", "simplex", "square", "stack", "symmetric", "unit_interval",
]  # fmt: skip


# -- of single values --------------------------------------------------------------------------------


class _Boolean(Constraint):
    """0 or 1."""

    is_discrete = True

    def check(self, value):
        """Whether it is."""
        return (value == 0) | (value == 1)


class _Real(Constraint):
    """Any number, but NaN."""

    def check(self, value):
        """Whether it is none."""
        return value == value


class _Bounded(Constraint):
    """Shows its bounds, numbers or tensors: they are all of its attributes."""

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name}={bound}" for name, bound in vars(self).items())
        return f"{type(self).__name__[1:]}({bounds})"


class _BoundedBelow(_Bounded):
    def __init__(self, lower_bound: Any):
        self.lower_bound = lower_bound
        super().__init__()


class _BoundedAbove(_Bounded):
    def __init__(self, upper_bound: Any):
        self.upper_bound = upper_bound
        super().__init__()


class _BoundedTwice(_Bounded):
    def __init__(self, lower_bound: Any, upper_bound: Any):
        self.lower_bound, self.upper_bound = lower_bound, upper_bound
        super().__init__()


class _IntegerInterval(_BoundedTwice):
    """Whole numbers between bounds, which are allowed."""

    is_discrete = True

    def check(self, value):
        """Whether it is one."""
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerLessThan(_BoundedAbove):
    """Whole numbers up to a bound, which is allowed."""

    is_discrete = True

    def check(self, value):
        """Whether it is one."""
        return (value % 1 == 0) & (value <= self.upper_bound)


class _IntegerGreaterThan(_BoundedBelow):
    """Whole numbers from a bound on, which is allowed."""

    is_discrete = True

    def check(self, value):
        """Whether it is one."""
        return (value % 1 == 0) & (value >= self.lower_bound)


class _GreaterThan(_BoundedBelow):
    """Numbers above a bound."""

    def check(self, value):
        """Whether it is one."""
        return self.lower_bound < value


class _GreaterThanEq(_BoundedBelow):
    """Numbers no less than a bound."""

    def check(self, value):
        """Whether it is one."""
        return self.lower_bound <= value


class _LessThan(_BoundedAbove):
    """Numbers below a bound."""

    def check(self, value):
        """Whether it is one."""
        return value < self.upper_bound


class _Interval(_BoundedTwice):
    """Numbers between bounds, which are allowed."""

    def check(self, value):
        """Whether it is one."""
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_BoundedTwice):
    """Numbers between bounds, the lower one of which is allowed."""

    def check(self, value):
        """Whether it is one."""
        return (self.lower_bound <= value) & (value < self.upper_bound)


# -- of vectors and matrices ---------------------------------------------------------------------------


class _OneHot(Constraint):
    """Vectors of zeros and a single one."""

    is_discrete, event_dim = True, 1

    def check(self, value):
        """Whether it is one."""
        return boolean.check(value).all(-1) & value.sum(-1).eq(1)


class _Simplex(Constraint):
    """Vectors of numbers >= 0 that sum to 1, up to a millionth."""

    event_dim = 1

    def check(self, value):
        """Whether it is one."""
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    """Vectors of counts that sum to at most a bound."""

    is_discrete, event_dim = True, 1

    def __init__(self, upper_bound: Any):
        self.upper_bound = upper_bound

    def check(self, x):
        """Whether it is one."""
        return (x >= 0).all(-1) & (x.sum(-1) <= self.upper_bound)


class _Matrix(Constraint):
    event_dim = 2


class _LowerTriangular(_Matrix):
    """Square matrices of zeros above the diagonal."""

    def check(self, value):
        """Whether it is one."""
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_Matrix):
    """Lower triangular matrices with a positive diagonal."""

    def check(self, value):
        """Whether it is one."""
        return lower_triangular.check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_Matrix):
    """Factors of correlation matrices: lower triangular, a positive diagonal, rows of length 1."""

    def check(self, value):
        """Whether it is one, up to rounding."""
        tolerance = jitgrad.finfo(value.dtype).eps * value.size(-1) * 10
        length = jitgrad.linalg.norm(value.detach(), dim=-1)
        return lower_cholesky.check(value) & ((length - 1).abs() <= tolerance).all(-1)


class _Square(_Matrix):
    """Square matrices."""

    def check(self, value):
        """Whether they are."""
        is_square = value.shape[-2] == value.shape[-1]
        return jitgrad.full(value.shape[:-2], is_square, dtype=jitgrad.bool, device=value.device)


class _Symmetric(_Square):
    """Symmetric matrices, up to a millionth."""

    def check(self, value):
        """Whether it is one."""
        is_square = super().check(value)
        if not is_square.all():
            return is_square
        return jitgrad.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without negative eigenvalues."""

    def check(self, value):
        """Whether it is one."""
        is_symmetric = super().check(value)
        return jitgrad.linalg.eigvalsh(value).ge(0).all(-1) if is_symmetric.all() else is_symmetric


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices with positive eigenvalues."""

    def check(self, value):
        """Whether it is one: whether it has a Cholesky factor."""
        is_symmetric = super().check(value)
        return jitgrad.linalg.cholesky_ex(value).info.eq(0) if is_symmetric.all() else is_symmetric


dependent: _Dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean: Constraint = _Boolean()
one_hot: Constraint = _OneHot()
nonnegative_integer: Constraint = _IntegerGreaterThan(0)
positive_integer: Constraint = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real: Constraint = _Real()
real_vector: Constraint = independent(real, 1)
positive: Constraint = _GreaterThan(0.0)
nonnegative: Constraint = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval: Constraint = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex: Constraint = _Simplex()
lower_triangular: Constraint = _LowerTriangular()
lower_cholesky: Constraint = _LowerCholesky()
corr_cholesky: Constraint = _CorrCholesky()
square: Constraint = _Square()
symmetric: Constraint = _Symmetric()
positive_semidefinite: Constraint = _PositiveSemidefinite()
positive_definite: Constraint = _PositiveDefinite()
cat = _Cat
stack = _Stack
