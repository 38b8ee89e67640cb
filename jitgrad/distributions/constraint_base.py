"""The base of constraints, and those that depend on other values or are made of other constraints."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.tensor import Tensor

__all__ = ["Constraint", "MixtureSameFamilyConstraint", "is_dependent"]


class Constraint:
    """Base of constraints: a subclass gives ``check``.

    is_discrete: whether values are whole; event_dim: how many dims make an event.
    """

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Tensor) -> Tensor:
        """Whether each event is allowed, as a tensor of bools."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return type(self).__name__[1:] + "()"


# -- what is known of an instance only -----------------------------------------------------------------


class _Dependent(Constraint):
    """Stands for a constraint that depends on other values, so that it cannot be checked by itself."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented):
        self._is_discrete, self._event_dim = is_discrete, event_dim
        super().__init__()

    def _known(self, name: str) -> Any:
        value = getattr(self, f"_{name}")
        if value is NotImplemented:
            raise NotImplementedError(f".{name} cannot be determined statically")
        return value

    is_discrete = property(lambda self: self._known("is_discrete"))
    event_dim = property(lambda self: self._known("event_dim"))

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> Any:
        """The same with what is known: ``dependent(is_discrete=True, event_dim=1)``."""
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, x: Any) -> Tensor:
        """ValueError."""
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: Any) -> bool:
    """Whether ``constraint`` is ``dependent``, or a property that gives a constraint."""
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property that gives a constraint: ``dependent`` on the class, the constraint on an instance.

    ``@dependent_property`` or ``@dependent_property(is_discrete=False, event_dim=0)``.
    """

    def __init__(self, fn: Any = None, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented):
        super().__init__(fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Any) -> Any:
        """The decorator with what it was told."""
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


# -- made of other constraints --------------------------------------------------------------------------


def _check_base(base_constraint: Any) -> None:
    if not isinstance(base_constraint, Constraint):
        raise AssertionError(f"base_constraint must be a Constraint, got {type(base_constraint).__name__}")


def _all_of_rightmost(result: Tensor, dims_kept: int) -> Tensor:
    return result.reshape(result.shape[:dims_kept] + (-1,)).all(-1)


class _IndependentConstraint(Constraint):
    """Events of ``base_constraint`` along the last ``reinterpreted_batch_ndims`` batch dims make one event."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int):
        _check_base(base_constraint)
        if not isinstance(reinterpreted_batch_ndims, int):
            raise AssertionError(
                f"reinterpreted_batch_ndims must be an int, got {type(reinterpreted_batch_ndims).__name__}"
            )
        if reinterpreted_batch_ndims < 0:
            raise AssertionError(f"reinterpreted_batch_ndims must be >= 0, got {reinterpreted_batch_ndims}")
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims
        super().__init__()

    is_discrete = property(lambda self: self.base_constraint.is_discrete)
    event_dim = property(lambda self: self.base_constraint.event_dim + self.reinterpreted_batch_ndims)

    def check(self, value: Tensor) -> Tensor:
        """Whether all the events of an event are allowed."""
        result = self.base_constraint.check(value)
        dims_kept = result.dim() - self.reinterpreted_batch_ndims
        if dims_kept < 0:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return _all_of_rightmost(result, dims_kept)

    def __repr__(self) -> str:
        return f"{type(self).__name__[1:]}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """Values that all components of a mixture allow, each by ``base_constraint``."""

    def __init__(self, base_constraint: Constraint):
        _check_base(base_constraint)
        self.base_constraint = base_constraint
        super().__init__()

    is_discrete = property(lambda self: self.base_constraint.is_discrete)
    event_dim = property(lambda self: self.base_constraint.event_dim)

    def check(self, value: Tensor) -> Tensor:
        """Whether each event, put beside the dim of the components, is allowed by all of them."""
        result = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        if value.dim() < self.event_dim:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return _all_of_rightmost(result, value.dim() - self.event_dim)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_constraint!r})"


class _Sequence(Constraint):
    """Constraints of the pieces of a tensor along ``dim``."""

    cseq: list[Constraint]
    dim: int

    def _set(self, cseq: Any, dim: int) -> None:
        if not all(isinstance(c, Constraint) for c in cseq):
            raise AssertionError("All elements of cseq must be Constraint instances")
        self.cseq, self.dim = list(cseq), dim

    def _check_dim(self, value: Tensor) -> None:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"dim {self.dim} out of range for value with {value.dim()} dimensions")

    is_discrete = property(lambda self: any(c.is_discrete for c in self.cseq))


class _Cat(_Sequence):
    """One constraint for each part of a tensor, the parts of sizes ``lengths`` (ones by default) along ``dim``."""

    def __init__(self, cseq: Any, dim: int = 0, lengths: Any = None):
        self._set(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(f"lengths ({len(self.lengths)}) must match cseq ({len(self.cseq)})")
        super().__init__()

    event_dim = property(lambda self: max(c.event_dim for c in self.cseq))

    def check(self, value: Tensor) -> Tensor:
        """The verdicts of all parts, joined."""
        self._check_dim(value)
        starts = [sum(self.lengths[:i]) for i in range(len(self.lengths))]
        parts = [value.narrow(self.dim, *place) for place in zip(starts, self.lengths)]
        return jitgrad.cat([c.check(v) for c, v in zip(self.cseq, parts)], self.dim)


class _Stack(_Sequence):
    """One constraint for each slice of a tensor along ``dim``."""

    def __init__(self, cseq: Any, dim: int = 0):
        self._set(cseq, dim)
        super().__init__()

    @property
    def event_dim(self) -> int:
        """That of the slices, and one more where ``dim`` lies within an event."""
        dim: int = max(c.event_dim for c in self.cseq)
        return dim + (self.dim + dim < 0)

    def check(self, value: Tensor) -> Tensor:
        """The verdicts of all slices, stacked."""
        self._check_dim(value)
        slices = [value.select(self.dim, i) for i in range(value.size(self.dim))]
        return jitgrad.stack([c.check(v) for v, c in zip(slices, self.cseq)], self.dim)
