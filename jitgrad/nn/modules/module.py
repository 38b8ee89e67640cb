"""Module: the base of every layer, loss and model."""

from __future__ import annotations

from collections import OrderedDict
from types import MethodType
from typing import Any

import jitgrad
from jitgrad.core.lazy_import import offer
from jitgrad.nn.modules import global_hooks
from jitgrad.nn.modules.global_hooks import (
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)  # fmt: skip
from jitgrad.nn.modules.module_attributes import HOOKS
from jitgrad.nn.modules.module_call import ModuleCall
from jitgrad.nn.modules.module_state_dict import (  # noqa: F401  names that programs import from here
    _EXTRA_STATE_KEY_SUFFIX,
    ModuleStateDict,
    _IncompatibleKeys,
    _WrappedHook,
)

__all__ = [
    "Module", "register_module_backward_hook", "register_module_buffer_registration_hook",
    "register_module_forward_hook", "register_module_forward_pre_hook", "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook", "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]  # fmt: skip

offer(__name__, _WrappedHook)

_forward_unimplemented = ModuleCall.forward
# PyTorch's names for them, which tests of programs empty.
_global_forward_hooks_with_kwargs = global_hooks.forward_hooks_with_kwargs
_global_forward_hooks_always_called = global_hooks.forward_hooks_always_called


class Module(ModuleStateDict, ModuleCall):
    """Base of everything that has parameters and a ``forward``.

    Assigning a Parameter, a Buffer or a Module to an attribute registers it: it is then found by
    ``parameters()``, saved by ``state_dict()`` and moved by ``to()``. A subclass calls
    ``super().__init__()`` first and defines ``forward``; the module is called like a function.
    """

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile ``forward`` of this module from now on, with the options of ``torch.compile``."""
        compiled = jitgrad.compile(MethodType(type(self).forward, self), *args, **kwargs)
        self.__dict__.update(forward=compiled, _compiled_call_impl=compiled)

    dump_patches = False
    _compiled_call_impl: Any = None

    def _replicate_for_data_parallel(self) -> Any:
        replica = type(self).__new__(type(self))
        replica.__dict__ = dict(self.__dict__, _parameters={}, _is_replica=True)
        replica._buffers, replica._modules = dict(self._buffers), dict(self._modules)
        return replica

    def extra_repr(self) -> str:
        """What ``repr`` shows between the parentheses besides the children."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {_addindent(repr(child), 2)}" for name, child in self._modules.items()]
        if len(lines) + len(children) == 0 or (len(lines) == 1 and not children):
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if state.pop("_compiled_call_impl", None) is not None:  # copies and pickles are not compiled
            del state["forward"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for hooks in HOOKS:  # a module that was pickled before it had them
            self.__dict__.setdefault(hooks, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())

    def __hash__(self) -> int:
        return id(self)


def _addindent(s_: str, numSpaces: int) -> str:
    """A text whose lines behind the first are indented."""
    first, *rest = s_.split("\n")
    return "\n".join([first, *(" " * numSpaces + line if line.strip() else "" for line in rest)])
