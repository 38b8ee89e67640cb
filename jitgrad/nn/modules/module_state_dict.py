"""state_dict and load_state_dict: a module's values by their dotted names."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jitgrad.core.grad_mode import no_grad
from jitgrad.core.handles import RemovableHandle, add_hook
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import user_level
from jitgrad.nn.modules.module_traversal import ModuleTraversal
from jitgrad.nn.parameter import Parameter, is_lazy

__all__ = ["ModuleStateDict"]

_EXTRA = _EXTRA_STATE_KEY_SUFFIX = "_extra_state"
_BY_POSITION = (
    "Positional args are being deprecated, use kwargs instead. Refer to "
    "https://pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.state_dict for details."
)
_NOTHING_COPIED = (
    "for {}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current model, which is a "
    "no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary to their corresponding key in "
    "the module instead of copying them in place?)"
)


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What ``load_state_dict`` did not find, and what it could not place."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


_NEVER = (
    "Reached a code path in Module.{}_extra_state() that should never be called. Please file an issue at "
    "https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml to report this bug."
)


class ModuleStateDict(ModuleTraversal):
    """The part of Module that saves and loads values."""

    _version = 1

    def get_extra_state(self) -> Any:
        """State besides tensors, for ``state_dict``; to be defined together with ``set_extra_state``."""
        raise RuntimeError(_NEVER.format("get"))

    def set_extra_state(self, state: Any) -> None:
        """Take over what ``get_extra_state`` returned."""
        raise RuntimeError(_NEVER.format("set"))

    def _own_state(self) -> dict[str, Tensor]:
        """Parameters and persistent buffers of this module alone."""
        buffers = {k: v for k, v in self._buffers.items() if k not in self._non_persistent_buffers_set}
        return {k: v for k, v in {**self._parameters, **buffers}.items() if v is not None}

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """Return {dotted name: tensor} of parameters and persistent buffers.

        The tensors share memory with the module and are detached unless ``keep_vars``.
        """
        if args:  # PyTorch still takes the three by position, in this order
            warnings.warn(_BY_POSITION, FutureWarning, stacklevel=2)
            destination, prefix, keep_vars = (*args, *(destination, prefix, keep_vars)[len(args) :])[:3]
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()  # by module, its version; PyTorch keeps it in this attribute, too
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):  # a user's own dictionary has none
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, child in self._modules.items():
            if child is not None:
                child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            changed = hook(self, destination, prefix, metadata)
            if changed is not None:
                if getattr(hook, "_from_public_api", False):
                    raise RuntimeError("state_dict post-hook must return None")
                destination = changed
        return destination

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        for name, value in self._own_state().items():
            destination[prefix + name] = value if keep_vars else value.detach()
        if type(self).get_extra_state is not ModuleStateDict.get_extra_state:
            destination[prefix + _EXTRA] = self.get_extra_state()

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Copy values in by their names; with ``assign`` take the given tensors themselves.

        Returns (missing_keys, unexpected_keys). With ``strict``, a RuntimeError that lists both, and
        always one for shapes that differ; what fits has been copied then, as in PyTorch.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        metadata, state = getattr(state_dict, "_metadata", None), OrderedDict(state_dict)
        if metadata is not None:
            state._metadata = metadata  # type: ignore[attr-defined]  # for hooks that run before loading
        report = _Report(_IncompatibleKeys([], []), [])
        self._load(state, "", metadata or {}, assign, report)
        keys = report.keys
        if strict:
            # Each goes to the front: missing keys are named first, then unexpected ones, then what did not fit.
            for label, names in (("Unexpected", keys.unexpected_keys), ("Missing", keys.missing_keys)):
                if names:
                    listed = ", ".join(f'"{name}"' for name in names)
                    report.errors.insert(0, f"{label} key(s) in state_dict: {listed}. ")
        if report.errors:
            lines = "\n\t".join(report.errors)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{lines}")
        return keys

    def _load(self, state: dict[str, Any], prefix: str, metadata: Any, assign: bool, report: _Report) -> None:
        local = dict(metadata.get(prefix[:-1], {}))
        if assign:
            local["assign_to_params_buffers"] = True
        keys = report.keys
        self._load_from_state_dict(state, prefix, local, True, keys.missing_keys, keys.unexpected_keys, report.errors)
        for name, child in self._modules.items():
            if child is not None:
                below = f"{prefix}{name}."
                child._load({k: v for k, v in state.items() if k.startswith(below)}, below, metadata, assign, report)
        for hook in self._load_state_dict_post_hooks.values():
            if hook(self, keys) is not None:
                raise AssertionError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new "
                    "values, if incompatible_keys need to be modified, it should be done inplace."
                )

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Load this module's own values; modules whose saved form has changed override it to convert older ones."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        own, assign = self._own_state(), local_metadata.get("assign_to_params_buffers", False)
        for name, value in own.items():
            if prefix + name in state_dict:
                error = self._load_value(name, value, state_dict[prefix + name], prefix + name, assign)
                error_msgs += [error] if error else []
            elif strict:
                missing_keys.append(prefix + name)
        if type(self).set_extra_state is not ModuleStateDict.set_extra_state:
            own[_EXTRA] = None  # type: ignore[assignment]
            if prefix + _EXTRA in state_dict:
                self.set_extra_state(state_dict[prefix + _EXTRA])
            elif strict:
                missing_keys.append(prefix + _EXTRA)
        for key in state_dict if strict else ():
            name, dot, _ = key.removeprefix(prefix).partition(".")
            if key.startswith(prefix) and name not in (self._modules if dot else own):
                unexpected_keys.append(key)

    def _load_value(self, name: str, value: Tensor, new: Any, key: str, assign: bool) -> str:
        """Copy one value in; return what went wrong, if anything."""
        if not isinstance(new, Tensor):
            return (
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from '
                f"checkpoint but received {type(new)}"
            )
        if not is_lazy(value):
            if value.ndim == 0 and new.shape == (1,):
                new = new[0]
            if new.shape != value.shape:
                return (
                    f"size mismatch for {key}: copying a param with shape {new.shape} from checkpoint, "
                    f"the shape in current model is {value.shape}."
                )
            if value.is_meta and not new.is_meta and not assign:
                warnings.warn(_NOTHING_COPIED.format(key), stacklevel=user_level())
        try:
            with no_grad():
                if assign:
                    self._assign(name, value, new)
                else:
                    value.copy_(new)
        except Exception as error:
            return (
                f'While copying the parameter named "{key}", whose dimensions in the model are {value.size()} and '
                f"whose dimensions in the checkpoint are {new.size()}, an exception occurred : {error.args}."
            )
        return ""

    def _assign(self, name: str, value: Tensor, new: Tensor) -> None:
        if isinstance(value, Parameter):
            if isinstance(new, Parameter):
                new.requires_grad_(value.requires_grad)
            else:
                new = Parameter(new, requires_grad=value.requires_grad)
        setattr(self, name, new)

    # -- hooks --------------------------------------------------------------------------------

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before ``state_dict`` collects."""
        return add_hook(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)``, which may change the dictionary in place."""
        hook._from_public_api = True  # type: ignore[attr-defined]  # PyTorch's mark: it may not return another one
        return add_hook(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The older ``register_state_dict_post_hook``: the hook may return another dictionary."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously registered via "
                "register_state_dict_post_hook"
            )
        return add_hook(self._state_dict_hooks, hook)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        """The older ``register_load_state_dict_pre_hook``: without the module unless asked for."""
        return add_hook(self._load_state_dict_pre_hooks, _WrappedHook(hook, self if with_module else None))

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook`` with the module and the arguments of ``_load_from_state_dict`` before loading."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after loading; it may change the lists."""
        return add_hook(self._load_state_dict_post_hooks, hook)


class _WrappedHook:
    """A hook, and the module that it gets first if it wants one; known weakly, since the module has the hook."""

    def __init__(self, hook: Callable[..., Any], module: Any = None):
        self.hook, self.with_module = hook, module is not None
        functools.update_wrapper(self, hook)
        if module is not None:
            self.module = weakref.ref(module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.with_module:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        state = {"hook": self.hook, "with_module": self.with_module}
        return state | {"module": self.module()} if self.with_module else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.hook, self.with_module = state["hook"], state["with_module"]
        if self.with_module:
            if state["module"] is None:
                raise RuntimeError("You are trying to revive the hook of a dead Module!")
            self.module = weakref.ref(state["module"])


class _Report(NamedTuple):
    keys: _IncompatibleKeys
    errors: list[str]
