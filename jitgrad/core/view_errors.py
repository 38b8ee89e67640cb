"""Errors for views whose history cannot be rewritten when they, or their base, are written to.

A recorded write to a view gives its base, and every other view of it, a new node. A view that was made while nothing
was recorded, by a Function, or as one of several outputs has no place in that history, and PyTorch refuses the write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitgrad.core.edge import node_of, number_of
from jitgrad.core.saved_versions import short_name

if TYPE_CHECKING:
    from jitgrad.core.tensor import Tensor

__all__ = ["check_view_kind", "stale_message"]

_MULTI = (
    "This view is the output of a function that returns multiple views. Such functions do not allow the output views "
    "to be modified inplace. You should replace the inplace operation by an out-of-place one."
)
_INFERENCE = (
    "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both "
    "the view and the inplace either both inside the inference_mode block (if you don't want the inplace to be "
    "tracked) or both outside (if you want the inplace to be tracked)."
)
_CUSTOM = (
    "This view was created inside a custom Function (or because an input was returned as-is) and the autograd logic to "
    "handle view+inplace would override the custom backward associated with the custom Function, leading to incorrect "
    "gradients. This behavior is forbidden. You can fix this by cloning the output of the custom Function."
)
_NO_GRAD = (
    "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both "
    "the view and the inplace either both inside the no_grad block (if you don't want the inplace to be tracked) or "
    "both outside (if you want the inplace to be tracked)."
)


def _message(view: Tensor, event: str) -> str:
    edge = view.__dict__.get("_edge")  # not through a property: that of a stale view would raise this very error
    name = short_name(node_of(edge)) if edge is not None else ""
    if view._view_kind == "inference":
        which = "A view" if edge is None else f"Output {number_of(edge)} of {name} is a view of a view which"
        return f"{which} was created in inference mode and {event} in normal mode. {_INFERENCE}"
    if edge is not None and view._view_kind == "no_grad":
        origin = (
            f"Output {number_of(edge)} of {name} is a view of a view which was created in no_grad mode and {event} "
            "with grad mode enabled. "
        )
    elif edge is not None:
        origin = f"Output {number_of(edge)} of {name} is a view and {event}. "
    else:
        origin = f"A view was created in no_grad mode and {event} with grad mode enabled. "
    return origin + {"multi": _MULTI, "custom": _CUSTOM}.get(view._view_kind, _NO_GRAD)


def stale_message(view: Tensor) -> str:
    """The error for a view made while nothing was recorded, whose base was written to since."""
    return _message(view, "its base or another view of its base has been modified inplace")


def check_view_kind(view: Tensor) -> None:
    """RuntimeError if a recorded write is about to go through a view whose history cannot be rewritten."""
    if view._view_kind:
        raise RuntimeError(_message(view, "is being modified inplace"))
