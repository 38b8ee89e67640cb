"""What takes probabilities or log-odds, one computed from the other when it is read."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import Distribution, attribute
from jitgrad.distributions.utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits

__all__ = ["ByCategorical", "ProbsOrLogits", "one_of"]


def one_of(probs: Any, logits: Any) -> str:
    """The name of the one that is given. ValueError for both or neither."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return "logits" if probs is None else "probs"


class ProbsOrLogits(Distribution):
    """Of ``probs`` or ``logits``, their log-odds."""

    arg_constraints: Any = {"probs": constraints.unit_interval, "logits": constraints.real}
    _is_binary = True
    _param: Any

    def _set(self, probs: Any, logits: Any, total_count: Any = None) -> None:
        """Keep what is given as a tensor, and as ``_param``; counts broadcast with it, in its dtype."""
        name = one_of(probs, logits)
        given = probs if logits is None else logits
        if total_count is None:
            (self._param,) = broadcast_all(given)
        else:
            count, self._param = broadcast_all(total_count, given)
            self.total_count = count.type_as(self._param)
        setattr(self, name, self._param)

    @lazy_property
    def logits(self) -> Any:
        """Log-odds, or log-probabilities."""
        return probs_to_logits(self.probs, is_binary=self._is_binary)

    @lazy_property
    def probs(self) -> Any:
        """Probabilities."""
        return logits_to_probs(self.logits, is_binary=self._is_binary)

    @property
    def param_shape(self) -> Any:
        """The shape of ``probs``."""
        return self._param.size()

    def _new(self, *args: Any, **kwargs: Any) -> Any:
        return self._param.new(*args, **kwargs)

    def _bce(self, logits: Any, value: Any) -> Any:
        return jitgrad.nn.functional.binary_cross_entropy_with_logits(logits, value, reduction="none")


class ByCategorical(Distribution):
    """Of vectors whose elements are the classes of the distribution ``_categorical``."""

    arg_constraints: Any = {"probs": constraints.simplex, "logits": constraints.real_vector}
    _categorical: Any

    probs = attribute("_categorical.probs", "Probabilities, which sum to 1.")
    logits = attribute("_categorical.logits", "Log-probabilities.")
    param_shape = attribute("_categorical.param_shape", "The shape of ``probs``.")

    def _new(self, *args: Any, **kwargs: Any) -> Any:
        return self._categorical._new(*args, **kwargs)

    def _init_over(self, categorical: Any, validate_args: Any) -> None:
        self._categorical = categorical
        super().__init__(categorical.batch_shape, categorical.param_shape[-1:], validate_args=validate_args)
