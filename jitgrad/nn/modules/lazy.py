"""Modules that learn the shapes of their parameters from their first input."""

from __future__ import annotations

from typing import Any

from jitgrad.core.grad_mode import no_grad
from jitgrad.nn.parameter import is_lazy

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """To inherit from before the module's class: parameters may be uninitialised until the first call.

    The subclass defines ``initialize_parameters``, which gets the arguments of ``forward`` and gives parameters their
    shapes. After it the module is one of the class ``cls_to_become``. Loading a state with shapes gives them, too.
    """

    cls_to_become: type[Any] | None = None

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        module: Any = self
        module._load_hook = module._register_load_state_dict_pre_hook(module._lazy_load_hook)
        module._initialize_hook = module.register_forward_pre_hook(module._infer_parameters, with_kwargs=True)

    def _members(self: Any) -> list[tuple[str, Any]]:
        return [*self._parameters.items(), *self._buffers.items()]

    def _lazy_load_hook(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: Any, unexpected_keys: Any,
        error_msgs: Any,
    ) -> None:  # fmt: skip
        """Give what is loaded from a tensor with a shape that shape first."""
        for name, member in self._members():
            new = state_dict.get(prefix + name)
            if new is not None and is_lazy(member) and not is_lazy(new):
                with no_grad():
                    member.materialize(new.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give parameters their shapes by the arguments of ``forward``; every subclass defines it."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether a shape is still unknown."""
        return any(is_lazy(member) for _, member in self._members())

    def _infer_parameters(self: Any, module: Any, args: Any, kwargs: Any = None) -> None:
        """Before the first call: shapes, and then an ordinary module."""
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        for name in ("_initialize_hook", "_load_hook"):
            getattr(module, name).remove()
            delattr(module, name)
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self) -> Any:
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy forward pass to "
            "correctly initialize the modules"
        )
