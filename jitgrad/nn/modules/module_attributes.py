"""What a module owns: parameters, buffers and children, found by attribute assignment."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from typing import Any

from jitgrad.core.tensor import Tensor, typename
from jitgrad.nn.modules.global_hooks import registered, registration_hooks
from jitgrad.nn.parameter import Buffer, Parameter

__all__ = ["HOOKS", "ModuleAttributes"]

_STORES = ("_parameters", "_buffers", "_modules")


class ModuleAttributes:
    """The part of Module that keeps parameters, buffers and children apart from plain attributes.

    Each kind has a dictionary of its own (``_parameters``, ``_buffers``, ``_modules``) from name to value or None.
    Reading an attribute finds plain ones as in any object, and these by ``__getattr__``.
    """

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]

    call_super_init = False  # whether the next class in the order of bases is to be initialised, with the arguments

    def __init__(self, *args: Any, **kwargs: Any):
        if kwargs and not self.call_super_init:
            name = next(iter(kwargs))
            raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument '{name}'")
        if args and not self.call_super_init:
            raise TypeError(
                f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given"
            )
        values = self.__dict__  # set directly: __setattr__ looks into the dictionaries that are made here
        values["training"] = True
        for store in _STORES:
            values[store] = {}
        values["_non_persistent_buffers_set"] = set()
        for hooks in HOOKS:
            values[hooks] = OrderedDict()
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    # -- registering --------------------------------------------------------------------------

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, or None, under ``name``."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name, self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{typename(param)}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. "
                f"To express '{name}' as a function of another Tensor, compute the value in the forward() method."
            )
        if registration_hooks and param is not None:
            param = registered("parameter", self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add state that is no parameter; in ``state_dict`` if ``persistent``."""
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        if registration_hooks:
            tensor = registered("buffer", self, name, tensor)
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Any) -> None:
        """Add a child, or None, under ``name``."""
        if module is not None and not isinstance(module, ModuleAttributes):
            raise TypeError(f"{typename(module)} is not a Module subclass")
        if not isinstance(name, str):
            raise TypeError(f"module name should be a string. Got {typename(name)}")
        if hasattr(self, name) and name not in self._modules:
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            raise KeyError(f'module name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError('module name can\'t be empty string ""')
        self._modules[name] = registered("module", self, name, module) if registration_hooks else module

    def register_module(self, name: str, module: Any) -> None:
        """Another name of ``add_module``."""
        self.add_module(name, module)

    def _check_name(self, what: str, name: Any, store: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {typename(name)}")
        if "." in name:
            raise KeyError(f'{what} name can\'t contain "."')
        if name == "":
            raise KeyError(f'{what} name can\'t be empty string ""')
        if hasattr(self, name) and name not in store:
            raise KeyError(f"attribute '{name}' already exists")

    # -- attributes ---------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        """Python calls it for names that are no plain attributes, so a call of a method never comes here."""
        values = self.__dict__
        if "_parameters" in values:  # Module.__init__ has run; a loop over the three would take 1.3 of the time
            if name in (found := values["_parameters"]):
                return found[name]
            if name in (found := values["_modules"]):
                return found[name]
            if name in (found := values["_buffers"]):
                return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        values = self.__dict__
        # None before Module.__init__ has run, which a subclass may have forgotten.
        params, buffers, children = (values.get(store) for store in _STORES)
        if isinstance(value, Parameter):
            if params is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, values, self._buffers, self._modules)  # a name is of one kind
            self.register_parameter(name, value)
        elif params is not None and name in params:
            _check_none(value, "parameter", name, "torch.nn.Parameter or None expected")
            self.register_parameter(name, value)
        elif isinstance(value, ModuleAttributes):
            if children is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, values, self._parameters, self._buffers)
            children[name] = registered("module", self, name, value) if registration_hooks else value
        elif children is not None and name in children:
            _check_none(value, "child module", name, "torch.nn.Module or None expected")
            children[name] = registered("module", self, name, value) if registration_hooks else value
        elif isinstance(value, Buffer) or (buffers is not None and name in buffers):
            self._set_buffer(name, value)
        else:
            super().__setattr__(name, value)

    def _set_buffer(self, name: str, value: Any) -> None:
        """Register a buffer; a plain tensor that replaces one stays as persistent as that was."""
        if not isinstance(value, Tensor):
            _check_none(value, "buffer", name, "torch.nn.Buffer, torch.Tensor or None expected")
        persistent = name not in self.__dict__.get("_non_persistent_buffers_set", ())
        if isinstance(value, Buffer):
            persistent = value.persistent
        own = type(self).register_buffer is ModuleAttributes.register_buffer
        if own or "persistent" in inspect.signature(self.register_buffer).parameters:
            self.register_buffer(name, value, persistent)
        elif persistent:  # a subclass has the method as it was before it had this argument
            self.register_buffer(name, value)
        else:
            raise RuntimeError(
                "Registering a non-persistent buffer on a Module subclass that implements register_buffer() without "
                "the persistent argument is not allowed."
            )

    def _forget(self, name: str, *stores: dict[str, Any]) -> None:
        """Remove a name from the stores that a new value does not go to."""
        for store in stores:
            store.pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name: str) -> None:
        for store in _STORES:
            if name in self.__dict__.get(store, ()):
                del self.__dict__[store][name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        own = [key for store in _STORES for key in self.__dict__[store]]
        keys = {*dir(type(self)), *self.__dict__, *own}
        return sorted(key for key in keys if not key[:1].isdigit())  # "0" of a Sequential is no attribute

    # -- by dotted name -----------------------------------------------------------------------

    def get_submodule(self, target: str) -> Any:
        """The descendant with this dotted name; this module for the empty one."""
        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, ModuleAttributes):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Any, strict: bool = False) -> None:
        """Put a module in the place of the descendant with this dotted name, or with ``strict`` false a new one."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, ModuleAttributes):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), ModuleAttributes):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter with this dotted name."""
        found = self._member(target)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{target.rpartition('.')[2]}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer with this dotted name."""
        path, _, name = target.rpartition(".")
        found = self._member(target)
        if name not in self.get_submodule(path)._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return found

    def _member(self, target: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        return getattr(module, name)


# Dictionaries that every module has: handle number to hook, or to True where a hook wants more. They are PyTorch's,
# because programs look into them, and copy and pickle modules that have them.
HOOKS = (
    "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs", "_backward_hooks", "_backward_pre_hooks", "_state_dict_hooks",
    "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
)  # fmt: skip


def _check_none(value: Any, what: str, name: str, expected: str) -> None:
    if value is not None:
        raise TypeError(f"cannot assign '{typename(value)}' as {what} '{name}' ({expected})")
