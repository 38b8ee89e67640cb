"""The functions behind optimisers, such as ``torch.optim.adam.adam``: a step on lists that the caller keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.core.tensor import Tensor
from jitgrad.kernels.launch import Loop
from jitgrad.optim.fused_step import update
from jitgrad.optim.options import as_number

__all__ = ["stateless"]

# Flags of PyTorch's functions that say how to compute, and what is not left out by all callers.
_HINTS = {"foreach", "capturable", "fused", "has_complex", "has_sparse_grad", "grad_scale", "found_inf"}
_DEFAULTS = {"maximize": False, "decoupled_weight_decay": False, "differentiable": False}


def stateless(name: str, loop: Loop, columns: str, options: str) -> Callable[..., None]:
    """A function of the lists ``params``, ``grads`` and ``columns``, and of ``options`` by keyword.

    Both are in the loop's order. A list of state that is empty, since its option is off, is not used.
    TypeError for missing and unknown arguments.
    """
    lists, wanted = ("params", "grads", *columns.split()), options.split()

    def function(*args: Any, **kwargs: Any) -> None:
        given = {**_DEFAULTS, **kwargs, **dict(zip(lists, args, strict=False))}
        missing = [key for key in (*lists, *wanted) if key not in given]
        unknown = [key for key in given if key not in _HINTS and key not in (*_DEFAULTS, *lists, *wanted)]
        if missing or unknown or len(args) > len(lists):
            raise TypeError(f"{name}(): missing {missing}, unexpected {unknown or list(args[len(lists) :])[:1]}")
        tensors = [given[key] for key in lists]
        if not all(isinstance(step, Tensor) for step in given.get("state_steps", ())):
            raise RuntimeError("API has changed, `state_steps` argument must contain a list of singleton tensors")
        tensors = [column or tensors[3 if name.startswith("adam") else 2] for column in tensors]
        numbers = [n if n is True or n is False else as_number(n) for n in map(given.__getitem__, wanted)]
        update(loop, tensors, *numbers)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"One step of {name} on all parameters, in place: {', '.join(lists)}; {', '.join(wanted)}."
    return function
