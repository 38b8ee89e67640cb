"""ScriptModule, and the functions of ``torch.jit`` that take modules: Python's own take their place."""

from __future__ import annotations

from typing import Any, TypeVar

from jitgrad.core.absent import absent
from jitgrad.core.tensor import Tensor
from jitgrad.jit.marks import Attribute
from jitgrad.nn import Module

__all__ = [
    "RecursiveScriptModule", "ScriptFunction", "ScriptModule", "freeze", "load", "optimize_for_inference", "save",
    "trace", "trace_module",
]  # fmt: skip

T = TypeVar("T")
_REASON = "there is no TorchScript, so a function that was scripted is a function of Python's"


class ScriptModule(Module):
    """A Module as others are; ``Attribute`` values that it is assigned are unwrapped."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value.value if isinstance(value, Attribute) else value)


RecursiveScriptModule = absent("jitgrad.jit", "RecursiveScriptModule", _REASON)
ScriptFunction = absent("jitgrad.jit", "ScriptFunction", _REASON)


def trace(func: Any, example_inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
    """``func`` itself, a function or module; nothing is recorded, so its branches stay branches.

    It is called once on ``example_inputs``, a tensor or a tuple of arguments, as PyTorch does, so that its errors are
    raised here.
    """
    if example_inputs is not None:
        given = (example_inputs,) if isinstance(example_inputs, (Tensor, dict)) else tuple(example_inputs)
        func(*given)
    return func


def trace_module(mod: T, inputs: Any, *args: Any, **kwargs: Any) -> T:
    """``mod`` itself."""
    return mod


def freeze(mod: T, preserved_attrs: Any = None, optimize_numerics: bool = True) -> T:
    """``mod`` itself, which has to be in evaluation mode, as in PyTorch."""
    if isinstance(mod, Module) and mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module "
            "before freezing."
        )
    return mod


def optimize_for_inference(mod: T, other_methods: Any = None) -> T:
    """``mod`` itself, in evaluation mode."""
    return mod.eval() if isinstance(mod, Module) else mod


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """NotImplementedError: a file of TorchScript holds a program."""
    raise NotImplementedError(
        "torch.jit.save: a TorchScript file holds a compiled program, which jitgrad has none of; save the module's "
        "state_dict() with torch.save"
    )


def load(f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False) -> Any:
    """NotImplementedError: a file of TorchScript holds a program."""
    raise NotImplementedError(
        "torch.jit.load: a TorchScript file holds a compiled program, which jitgrad can't run; load a state_dict into "
        "the module's Python class"
    )
