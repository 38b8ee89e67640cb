"""Whether a function is being transformed, and what is refused there.

``func.grad``, ``vjp`` and ``jvp`` open a ``Scope`` (see scope.py) round the call of their function; ``vmap`` and
``jvp`` a level (see core/wrapped.py). Where writes in place begin, ``scopes`` is tested, and nothing more is
done while it is empty.
"""

from __future__ import annotations

from typing import Any

from jitgrad.core.grad_mode import state

__all__ = ["API", "check_capture", "refuse_inside", "scopes", "transforming"]

scopes: list[Any] = []  # those open in any thread
API = "(or perhaps using torch.autograd.functional.* APIs) "
_OVERLOADS = {"add": "add_.Tensor", "sub": "sub_.Tensor", "mul": "mul_.Tensor", "div": "div_.Tensor",
              "copy_from": "copy_", "fill": "fill_.Scalar"}  # fmt: skip


def check_capture(target: Any, name: str) -> None:
    """A RuntimeError if a function that is being differentiated writes to what it captures, by op ``name``."""
    scope = state.scope
    if scope is not None and not scope.unchecked and not scope.holds(target):
        raise RuntimeError(
            "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place operation "
            f"(aten::{_OVERLOADS.get(name, f'{name}_')}) that would mutate a captured Tensor. This is not supported; "
            "please rewrite the function being transformed to explicitly accept the mutated Tensor(s) as inputs."
        )


def transforming() -> bool:
    """Whether a function is being transformed: differentiated, or mapped over a batch other than of gradients."""
    if state.scope is not None:
        return True
    return any(level is not state.forward and level.randomness != "gradients" for level in state.levels)


def refuse_inside(call: str, hint: str = "") -> None:
    """A RuntimeError for a method of Tensor that has no meaning inside of a transform, if there is one at work."""
    if transforming():
        raise RuntimeError(
            f"You are attempting to call Tensor.{call}() {hint}inside of a function being transformed by a functorch "
            "transform. This is unsupported, please attempt to use the functorch transforms (e.g. grad, vjp, jacrev, "
            f"jacfwd, hessian) or call {call}() outside of a function being transformed instead."
        )
