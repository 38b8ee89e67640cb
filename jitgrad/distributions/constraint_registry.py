"""Registries of the transforms from unconstrained numbers to what a constraint allows.

``biject_to(constraint)`` is bijective, ``transform_to(constraint)`` need not be: it suits optimisers, which don't mind
more coordinates than there are degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.distributions import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """{class of constraints: function of a constraint that gives a transform}; ``registry(constraint)`` looks it up."""

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], Any]] = {}
        super().__init__()

    def register(self, constraint: Any, factory: Any = None) -> Any:
        """Register ``factory`` for a constraint's class, or return the decorator that does so.

        TypeError for what is no constraint.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        if isinstance(constraint, constraints.Constraint):
            constraint = type(constraint)
        if not isinstance(constraint, type) or not issubclass(constraint, constraints.Constraint):
            raise TypeError(
                f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}"
            )
        self._registry[constraint] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        """A transform to what ``constraint`` allows. NotImplementedError where none is registered."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _beyond(bound: Any, scale: int) -> Any:
    return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(bound, scale)])


def _to_interval(constraint: Any) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    if all(isinstance(bound, (int, float)) for bound in (low, high)) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


def _to_parts(registry: ConstraintRegistry) -> dict[Any, Callable[[Any], Any]]:
    """Constraints that are made of others go by the registry itself."""
    return {
        constraints.independent: lambda c: transforms.IndependentTransform(
            registry(c.base_constraint), c.reinterpreted_batch_ndims
        ),
        constraints.cat: lambda c: transforms.CatTransform([registry(p) for p in c.cseq], c.dim, c.lengths),
        constraints.stack: lambda c: transforms.StackTransform([registry(p) for p in c.cseq], c.dim),
    }


# In this order: ``greater_than`` is the class of ``positive``, and its factory is that of both.
_BOTH: dict[Any, Callable[[Any], Any]] = {
    constraints.real: lambda c: transforms.identity_transform,
    constraints.greater_than: lambda c: _beyond(c.lower_bound, 1),
    constraints.greater_than_eq: lambda c: _beyond(c.lower_bound, 1),
    constraints.less_than: lambda c: _beyond(c.upper_bound, -1),
    constraints.interval: _to_interval,
    constraints.half_open_interval: _to_interval,
    constraints.corr_cholesky: lambda c: transforms.CorrCholeskyTransform(),
}
_EACH: list[tuple[ConstraintRegistry, dict[Any, Callable[[Any], Any]]]] = [
    (biject_to, {constraints.simplex: lambda c: transforms.StickBreakingTransform()}),
    (
        transform_to,
        {
            constraints.simplex: lambda c: transforms.SoftmaxTransform(),
            constraints.lower_cholesky: lambda c: transforms.LowerCholeskyTransform(),
            constraints.positive_definite: lambda c: transforms.PositiveDefiniteTransform(),
            constraints.positive_semidefinite: lambda c: transforms.PositiveDefiniteTransform(),
        },
    ),
]
for _target, _own in _EACH:
    for _constraint, _factory in (_BOTH | _to_parts(_target) | _own).items():
        _target.register(_constraint, _factory)
