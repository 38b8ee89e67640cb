"""Module, and the hooks of all modules."""

from jitgrad.nn import global_hooks
from jitgrad.nn.global_hooks import (
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)  # fmt: skip
from jitgrad.nn.module import Module

__all__ = [
    "Module", "register_module_backward_hook", "register_module_buffer_registration_hook",
    "register_module_forward_hook", "register_module_forward_pre_hook", "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook", "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]  # fmt: skip

_global_forward_hooks_with_kwargs = global_hooks.forward_hooks_with_kwargs
_global_forward_hooks_always_called = global_hooks.forward_hooks_always_called
