"""In-place forms of functions that have no kernel of that form: the result is computed anew, then written over ``x``.

Its node becomes the history of ``x``: what the node saved of the old values is a copy, which no write reaches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.node import node_of
from jitgrad.core.storage import count_write
from jitgrad.core.tensor import Tensor
from jitgrad.core.transform_guards import check_capture, scopes
from jitgrad.dispatch.copying import copy_before_write, copy_into
from jitgrad.dispatch.operand_checks import check_history, check_memory, check_result_cast

__all__ = ["inplace_form"]


def inplace_form(
    function: Callable[..., Tensor], name: str = "", check: Callable[..., None] | None = None
) -> Callable[..., Tensor]:
    """The in-place form of ``function(x, ...)``, called ``name`` or ``function``'s name and "_".

    ``check`` gets the same arguments first, and raises what the in-place form refuses.
    """

    def in_place(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if check is not None:
            check(self, *args, **kwargs)
        return _overwrite(self, function, args, kwargs)

    in_place.__name__ = in_place.__qualname__ = name or f"{function.__name__}_"
    in_place.__doc__ = f"In-place version of ``{in_place.__name__[:-1]}``."
    return in_place


def _overwrite(x: Tensor, function: Callable[..., Tensor], args: Any, kwargs: dict[str, Any]) -> Tensor:
    if scopes:
        check_capture(x, function.__name__)
    if grad_state.levels:
        return x.copy_(function(x.clone(), *args, **kwargs))  # of a clone, for what is saved must not be written over
    recorded = grad_state.enabled and any(isinstance(a, Tensor) and a._requires_grad for a in (x, *args))
    check_history(x, recorded)
    source = copy_before_write(x) if recorded else x
    result = function(source, *args, **kwargs)
    check_result_cast(result.dtype, x.dtype)
    if result._layout.shape != x._layout.shape:
        raise RuntimeError(
            f"Bad in-place call: input tensor size {list(x.shape)} and output tensor size {list(result.shape)} "
            "should match"
        )
    if result is source:
        return x
    check_memory(x._layout)
    edge = result._edge
    if edge is not None and node_of(edge).edges[:1] != (source._edge,):
        return x.copy_(result)  # several nodes made the result: the history of x goes on through CopyBackwards
    copy_into(x._data, x._layout, result)
    count_write(x)
    if edge is not None:
        x._rebase(edge)
    return x
