"""The registry of Kullback-Leibler divergences: by the classes of both distributions, or by classes above them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from jitgrad.distributions.distribution import Distribution

__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY: dict[tuple[type, type], Callable[[Any, Any], Any]] = {}
_KL_MEMOIZE: dict[tuple[type, type], Any] = {}  # what was looked up, of all pairs of classes that were asked for


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """A decorator that registers a function of (p, q) as KL(p || q) for two classes, and those derived from them.

    Where several fit, the one with the most derived p wins, and of those the one with the most derived q; a warning
    says so where the most derived q would have another. TypeError for what is no class.
    """
    for name, given in (("type_p", type_p), ("type_q", type_q)):
        # Any class, as in PyTorch: a library's distributions may have a base of their own.
        if not isinstance(given, type):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {given}")

    def decorator(function: Any) -> Any:
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function

    return decorator


def _below(first: tuple[type, type], second: tuple[type, type]) -> bool:
    """Whether ``first`` is as derived or more: in its first class, then in the next."""
    for a, b in zip(first, second):
        if not issubclass(a, b):
            return False
        if a is not b:
            return True
    return True


def _most_derived(matches: list[tuple[type, type]]) -> tuple[type, type]:
    best = matches[0]
    for match in matches[1:]:
        if match != best and _below(match, best):
            best = match
    return best


def _dispatch_kl(type_p: type, type_q: type) -> Any:
    """The function for two classes, NotImplemented if there is none."""
    matches = [pair for pair in _KL_REGISTRY if issubclass(type_p, pair[0]) and issubclass(type_q, pair[1])]
    if not matches:
        return NotImplemented
    left_p, left_q = _most_derived(matches)
    right_q, right_p = _most_derived([(q, p) for p, q in matches])
    function = _KL_REGISTRY[left_p, left_q]
    if function is not _KL_REGISTRY[right_p, right_q]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please register_kl({left_p.__name__}, "
            f"{right_q.__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return function


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """KL(p || q), the mean over p of log p(x) - log q(x), of shape ``batch_shape``.

    NotImplementedError where none is registered for their classes; see ``register_kl``.
    """
    pair = type(p), type(q)
    if pair not in _KL_MEMOIZE:
        _KL_MEMOIZE[pair] = _dispatch_kl(*pair)
    function = _KL_MEMOIZE[pair]
    if function is NotImplemented:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {pair[0].__name__} and q type {pair[1].__name__}"
        )
    return function(p, q)
