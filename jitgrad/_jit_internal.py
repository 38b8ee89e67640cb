"""What libraries take from PyTorch's private module ``torch._jit_internal``: marks for TorchScript, without effect."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Dict, Final, List, Optional, Tuple, Union  # noqa: UP035  (re-exported under PyTorch's names)

from jitgrad.core.missing_names import explain_missing_names
from jitgrad.futures import Future
from jitgrad.jit.marks import export, ignore, interface, is_scripting, unused

__all__ = [
    "Dict", "Final", "Future", "List", "Optional", "Tuple", "Union", "boolean_dispatch", "export", "ignore",
    "interface", "is_scripting", "unused",
]  # fmt: skip

_overload = _overload_method = unused


class _Lists:
    """``BroadcastingList2[int]``: an annotation."""

    def __getitem__(self, types: Any) -> Any:
        return types


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = BroadcastingList4 = BroadcastingList5 = _Lists()
BroadcastingList6 = BroadcastingList1


def boolean_dispatch(
    arg_name: str, arg_index: int, default: bool, if_true: Callable[..., Any], if_false: Callable[..., Any],
    module_name: str, func_name: str,
) -> Callable[..., Any]:  # fmt: skip
    """A function that calls ``if_true`` or ``if_false`` by its argument ``arg_name``, at ``arg_index``."""

    @functools.wraps(if_true if default else if_false)
    def chosen(*args: Any, **kwargs: Any) -> Any:
        flag = args[arg_index] if arg_index < len(args) else kwargs.get(arg_name, default)
        return (if_true if flag else if_false)(*args, **kwargs)

    chosen.__module__, chosen.__name__ = module_name or chosen.__module__, func_name or chosen.__name__
    return chosen


explain_missing_names(__name__)
