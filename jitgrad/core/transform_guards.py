"""What is refused inside of a function that is being transformed.

``func.grad``, ``vjp`` and ``jvp`` open a ``Scope`` (transforms/scope.py) for the call of their function; ``vmap`` and
``jvp`` open a level (core/wrapped.py). Inplace ops test ``scopes`` first and do no more while it is empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jitgrad.core.grad_mode import state

__all__ = ["API", "check_capture", "refuse_inside", "scopes", "transforming", "writing_captured"]

# The open scopes of all threads. A list that is mostly empty is quicker to test than a thread-local's attribute.
scopes: list[Any] = []
API = "(or perhaps using torch.autograd.functional.* APIs) "
# PyTorch's names of inplace ops in this error, where they are not the op's name and "_".
_OVERLOADS = {"add": "add_.Tensor", "sub": "sub_.Tensor", "mul": "mul_.Tensor", "div": "div_.Tensor",
              "copy_from": "copy_", "fill": "fill_.Scalar"}  # fmt: skip


def check_capture(target: Any, name: str) -> None:
    """RuntimeError if ``target``, which op ``name`` is about to write to, is captured by a differentiated function.

    Captured are tensors that exist since before the call and are no inputs. Writing to one would let the gradient
    depend on how often the function has run. A scope is ``unchecked`` while an inplace op that has passed this check
    writes to the tensors that its target wraps.
    """
    scope = state.scope
    if scope is not None and not scope.unchecked and not scope.holds(target):
        raise RuntimeError(
            "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place operation "
            f"(aten::{_OVERLOADS.get(name, f'{name}_')}) that would mutate a captured Tensor. This is not supported; "
            "please rewrite the function being transformed to explicitly accept the mutated Tensor(s) as inputs."
        )


@contextmanager
def writing_captured() -> Iterator[None]:
    """What ops remember beside their results, running averages say, may be written to where it is captured."""
    scope = state.scope
    before = scope is not None and scope.unchecked
    if scope is not None:
        scope.unchecked = True
    try:
        yield
    finally:
        if scope is not None:
            scope.unchecked = before


def transforming() -> bool:
    """Whether a function is being transformed in this thread: differentiated, or mapped over a batch.

    Not counted are the level of autograd.forward_ad, and the batch of gradients of ``is_grads_batched``: neither calls
    a function of the user's.
    """
    if state.scope is not None:
        return True
    if not state.levels:  # mostly so, and every backward asks: a generator would take longer
        return False
    return any(level is not state.forward and level.randomness != "gradients" for level in state.levels)


def refuse_inside(call: str, hint: str = "") -> None:
    """RuntimeError if a function is being transformed, in which Tensor method ``call`` has no meaning."""
    if transforming():
        raise RuntimeError(
            f"You are attempting to call Tensor.{call}() {hint}inside of a function being transformed by a functorch "
            "transform. This is unsupported, please attempt to use the functorch transforms (e.g. grad, vjp, jacrev, "
            f"jacfwd, hessian) or call {call}() outside of a function being transformed instead."
        )
