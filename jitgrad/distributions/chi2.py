"""The chi-squared distribution."""

from __future__ import annotations

from typing import Any

from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import expands
from jitgrad.distributions.gamma import Gamma

__all__ = ["Chi2"]


class Chi2(Gamma):
    """The sum of the squares of ``df`` standard normals."""

    arg_constraints: Any = {"df": constraints.positive}
    expand = expands()

    def __init__(self, df: Any, validate_args: Any = None):
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self):
        """Degrees of freedom."""
        return self.concentration * 2
