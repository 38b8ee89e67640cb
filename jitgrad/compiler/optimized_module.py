"""The module that ``compile`` makes of a module."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sized
from typing import Any

import jitgrad
from jitgrad.nn.modules.global_hooks import call_hooks
from jitgrad.nn.modules.module import Module

__all__ = ["OptimizedModule"]

_OWN = {"_orig_mod", "dynamo_ctx"}
_GLOBAL_HOOKS = (
    "Using `torch.compile(module)` when there are global hooks on modules (e.g., from "
    "`register_module_forward_hook`); this will cause the hooks to fire an extra time for the `OptimizedModule` "
    "created by `torch.compile(module)`. If this causes undesired behavior, please try using `module.compile()`, or "
    "use the per-module hooks instead"
)


class OptimizedModule(Module):
    """A module whose one child, ``_orig_mod``, is the module that was compiled; calls run it compiled.

    Attributes are read from that one, set in it and deleted there, ``training`` as well. ``parameters()``,
    ``state_dict()``, ``to()`` and whatever else goes through a module's children finds it under the name ``_orig_mod``.
    Hooks that are registered here run uncompiled, around the call. Copies and pickles are of the module and of how it
    is compiled. TypeError from ``len()``, and from ``bool()``, if the module itself has no length.

    dynamo_ctx: what makes a compiled function of the module.
    """

    def __init__(self, mod: Module, dynamo_ctx: Callable[[Module], Any]):
        super().__init__()
        del self.__dict__["training"]
        self._orig_mod = mod
        self.dynamo_ctx = dynamo_ctx
        self.forward = dynamo_ctx(mod)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile with other options of ``torch.compile`` from now on."""
        made = jitgrad.compile(self._orig_mod, *args, **kwargs)
        vars(self).update({name: vars(made)[name] for name in ("dynamo_ctx", "forward")})

    def explain(self) -> Any:
        """`Compiled.explain` of the module's calls."""
        return self.forward.explain()

    def source(self) -> str:
        """`Compiled.source` of the module's calls."""
        return self.forward.source()

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if call_hooks:
            warnings.warn(_GLOBAL_HOOKS, stacklevel=3)
        return super()._call_with_hooks(args, kwargs)

    def __len__(self) -> int:
        if isinstance(self._orig_mod, Sized):
            return len(self._orig_mod)
        raise TypeError(f"{type(self._orig_mod).__name__} does not support len()")

    def __reduce__(self) -> Any:
        return type(self), (self._orig_mod, self.dynamo_ctx)

    @property
    def training(self) -> bool:
        """Whether the module is in training mode."""
        return self._orig_mod.training

    @training.setter
    def training(self, value: bool) -> None:
        self._orig_mod.training = value

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN or hasattr(type(self), name):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if name in _OWN or hasattr(type(self), name):
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._orig_mod), *super().__dir__()})
