"""Pruning: parameters times masks of zeros and ones, by hooks before each forward.

A pruned parameter is kept as the parameter ``name_orig``, its mask as the buffer ``name_mask``, and ``name`` is their
product. Pruning again cuts more out of what the mask left.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jitgrad
from jitgrad.core.lazy_import import offer
from jitgrad.core.missing_names import explain_missing_names
from jitgrad.core.tensor import Tensor
from jitgrad.nn.utils.convert_parameters import parameters_to_vector
from jitgrad.nn.utils.pruning_methods import (
    BasePruningMethod,
    CustomFromMask,
    Identity,
    L1Unstructured,
    LnStructured,
    PruningContainer,
    RandomStructured,
    RandomUnstructured,
    _compute_nparams_toprune,
    _validate_pruning_amount,
    _validate_pruning_amount_init,
)

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
    "RandomStructured", "RandomUnstructured", "_compute_nparams_toprune", "_validate_pruning_amount",
    "_validate_pruning_amount_init", "custom_from_mask", "global_unstructured", "identity", "is_pruned",
    "l1_unstructured", "ln_structured", "random_structured", "random_unstructured", "remove",
]  # fmt: skip

explain_missing_names(__name__)
offer(__name__, BasePruningMethod, CustomFromMask, Identity, L1Unstructured, LnStructured, PruningContainer,
      RandomStructured, RandomUnstructured)  # fmt: skip


def identity(module: Any, name: str) -> Any:
    """Put a mask of ones on a parameter."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: Any) -> Any:
    """Prune ``amount`` elements of a parameter at random: a number of them, or a part."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Any, name: str, amount: Any, importance_scores: Tensor | None = None) -> Any:
    """Prune the ``amount`` elements of a parameter that are, or whose scores are, the smallest in absolute value."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: Any, dim: int) -> Any:
    """Prune ``amount`` slices of a parameter along ``dim`` at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Any, name: str, amount: Any, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Any:
    """Prune the ``amount`` slices of a parameter along ``dim`` with the smallest norms of order ``n``."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Any, name: str, mask: Tensor) -> Any:
    """Prune a parameter by a mask of its shape."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Any, pruning_method: Any, importance_scores: dict[Any, Tensor] | None = None, **kwargs: Any
) -> None:
    """Prune several parameters, pairs (module, name), as if they were one vector.

    importance_scores: {(module, name): scores}. TypeError for methods that are not "unstructured".
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    importance_scores = {} if importance_scores is None else importance_scores
    if not isinstance(importance_scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    pairs = list(parameters)
    values = [getattr(module, name) for module, name in pairs]
    scores = [importance_scores.get(pair, value) for pair, value in zip(pairs, values, strict=True)]
    masks = [
        getattr(module, f"{name}_mask", jitgrad.ones_like(value))
        for (module, name), value in zip(pairs, values, strict=True)
    ]
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. '
            f"Found method {pruning_method} of type {method.PRUNING_TYPE}"
        )
    container.add_pruning_method(method)
    final = container.compute_mask(parameters_to_vector(scores), parameters_to_vector(masks))
    start = 0
    for (module, name), value in zip(pairs, values, strict=True):
        custom_from_mask(module, name, mask=final[start : start + value.numel()].view_as(value))
        start += value.numel()


def remove(module: Any, name: str) -> Any:
    """Make a pruned parameter's values its own. ValueError if it is not pruned."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Any) -> bool:
    """Whether a module or one within it is pruned."""
    return any(
        isinstance(hook, BasePruningMethod) for part in module.modules() for hook in part._forward_pre_hooks.values()
    )


