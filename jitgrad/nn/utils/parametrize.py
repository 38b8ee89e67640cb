"""Tensors of a module that are computed of others each time they are read, by modules.

``module.weight`` of a parametrised module is a property of a class made for that module alone; what it is computed of
is in ``module.parametrizations["weight"]``, a ``ParametrizationList``.
"""

from __future__ import annotations

import contextlib
import copyreg
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

from jitgrad.core.grad_mode import no_grad
from jitgrad.core.missing_names import explain_missing_names
from jitgrad.core.tensor import Tensor
from jitgrad.nn.modules.container import ModuleDict, ModuleList
from jitgrad.nn.parameter import Parameter

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
    "transfer_parametrizations_and_params", "type_before_parametrizations",
]  # fmt: skip

explain_missing_names(__name__)

_cache_enabled = 0
_cache: dict[tuple[int, str], Any] = {}


@contextlib.contextmanager
def cached() -> Iterator[None]:
    """A block in which a parametrised tensor is computed once; after it all that was kept is forgotten."""
    global _cache_enabled
    _cache_enabled += 1
    try:
        yield
    finally:
        _cache_enabled -= 1
        if not _cache_enabled:
            _cache.clear()


def _register_parameter_or_buffer(module: Any, name: str, value: Tensor) -> None:
    if isinstance(value, Parameter):
        module.register_parameter(name, value)
    else:
        module.register_buffer(name, value)


class ParametrizationList(ModuleList):
    """The parametrisations of one tensor, in the order in which they are applied, and what they start from.

    That is ``original``, or ``original0``, ``original1``, ... where the first one's ``right_inverse`` gives several.
    They start from ``right_inverse`` of the tensor's value, so that it stays, where there is such a method.
    ValueError unless the result has the tensor's shape and dtype, which ``unsafe`` waives.
    """

    original: Tensor

    def __init__(self, modules: Sequence[Any], original: Tensor, unsafe: bool = False):
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with no_grad():
            new: Any = original
            for module in reversed(self):
                if hasattr(module, "right_inverse"):
                    with contextlib.suppress(NotImplementedError):
                        new = module.right_inverse(new)
        if not isinstance(new, (Tensor, Sequence)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if isinstance(new, Tensor) else len(new)
        if isinstance(new, Tensor):
            self._take_one(original, new)
        else:
            self._take_several(original, new)
        if not unsafe:
            result = self()
            if not isinstance(result, Tensor):
                raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
            for what, before, after in (("dtype", dtype, result.dtype), ("shape", shape, result.shape)):
                if before != after:
                    raise ValueError(
                        f"Registering a parametrization may not change the {what} of the tensor, unless `unsafe` flag "
                        f"is enabled.\nunparametrized {what}: {before}\nparametrized {what}: {after}"
                    )

    def _take_one(self, original: Tensor, new: Tensor) -> None:
        for what in ("dtype", "device"):
            if getattr(original, what) != getattr(new, what):
                raise ValueError(
                    f"When `right_inverse` outputs one tensor, it may not change the {what}.\n"
                    f"original.{what}: {getattr(original, what)}\n"
                    f"right_inverse(original).{what}: {getattr(new, what)}"
                )
        # The tensor object stays: an optimiser that was made before goes on with it.
        with no_grad():
            original.set_(new)
        _register_parameter_or_buffer(self, "original", original)

    def _take_several(self, original: Tensor, values: Sequence[Any]) -> None:
        for k, value in enumerate(values):
            if not isinstance(value, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                    f"Got element {k} of the sequence with type {type(value).__name__}."
                )
            if isinstance(original, Parameter):
                value = Parameter(value, original.requires_grad)
            value.requires_grad_(original.requires_grad)
            _register_parameter_or_buffer(self, f"original{k}", value)

    @no_grad()
    def right_inverse(self, value: Any) -> None:
        """Set what the tensor is computed of, so that it becomes ``value``, by all ``right_inverse``."""
        for module in reversed(self):
            if not hasattr(module, "right_inverse"):
                raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
            value = module.right_inverse(value)
        if self.is_tensor:
            if not isinstance(value, Tensor):
                raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
            if value.dtype != self.original.dtype:
                raise ValueError(
                    f"The tensor returned by `right_inverse` has dtype {value.dtype} while `original` has dtype "
                    f"{self.original.dtype}"
                )
            self.original.set_(value)
            return
        if not isinstance(value, Sequence):
            raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}.")
        if len(value) != self.ntensors:
            raise ValueError(
                f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. "
                f"Got a sequence of length {len(value)}."
            )
        for k, tensor in enumerate(value):
            original = getattr(self, f"original{k}")
            if not isinstance(tensor, Tensor):
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors or reference-type opaques. "
                    f"Got element {k} of type {type(tensor).__name__}."
                )
            if original.dtype != tensor.dtype:
                raise ValueError(
                    f"Tensor {k} returned by `right_inverse` has dtype {tensor.dtype} while `original{k}` has dtype "
                    f"{original.dtype}"
                )
            original.set_(tensor)

    def forward(self) -> Any:
        """The tensor's value."""
        names = ["original"] if self.is_tensor else [f"original{k}" for k in range(self.ntensors)]
        first, *rest = self
        value = first(*[getattr(self, name) for name in names])
        for module in rest:
            value = module(value)
        return value


# -- the class of a parametrised module ---------------------------------------------------------------


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    """As without this method: Python would ask for the state, which is refused."""
    if id(self) in memo:
        return memo[id(self)]
    replica = self.__new__(type(self))
    memo[id(self)] = replica
    replica.__dict__ = deepcopy(self.__dict__, memo)
    for slot in copyreg._slotnames(type(self)):  # type: ignore[attr-defined]
        if hasattr(self, slot):
            setattr(replica, slot, deepcopy(getattr(self, slot), memo))
    return replica


def _refuse_state(self: Any) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(). See:\n"
        "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
        "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
    )


def _inject_new_class(module: Any) -> None:
    """Give a module a class of its own, which properties can be added to."""
    cls = type(module)
    methods: dict[str, Any] = {"__getstate__": _refuse_state}
    if not hasattr(cls, "__deepcopy__"):
        methods["__deepcopy__"] = _deepcopy
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), methods)


def _inject_property(module: Any, tensor_name: str) -> None:
    if hasattr(module, tensor_name):
        raise AssertionError(f"Module already has an attribute named '{tensor_name}'")

    def get_parametrized(self: Any) -> Any:
        parametrization = self.parametrizations[tensor_name]
        if not _cache_enabled:
            return parametrization()
        key = (id(module), tensor_name)
        if _cache.get(key) is None:
            _cache[key] = parametrization()
        return _cache[key]

    def set_original(self: Any, value: Any) -> None:
        self.parametrizations[tensor_name].right_inverse(value)

    setattr(type(module), tensor_name, property(get_parametrized, set_original))


# -- functions on modules -------------------------------------------------------------------------------


def register_parametrization(module: Any, tensor_name: str, parametrization: Any, *, unsafe: bool = False) -> Any:
    """Let a parameter or buffer be ``parametrization`` of what it was, or of what it is parametrised as already.

    A ``right_inverse`` of the parametrisation lets it start from, and be assigned, a value. ValueError for names that
    the module does not have, and for changes of shape or dtype unless ``unsafe``. Returns the module.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_next(module, tensor_name, parametrization)
        module.parametrizations[tensor_name].append(parametrization)
        module.parametrizations[tensor_name].unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        # Made before the module is touched: it may refuse.
        parametrizations = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_new_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = parametrizations
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    return module


def _check_next(module: Any, name: str, parametrization: Any) -> None:
    """ValueError if one parametrisation more would change shape or dtype, or its ``right_inverse`` would."""
    before = getattr(module, name)
    after = parametrization(before)
    if not isinstance(after, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(after).__name__}.")
    for what in ("dtype", "shape"):
        if getattr(after, what) != getattr(before, what):
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless the `unsafe` flag is "
                f"enabled.\nmodule.{name}.{what}: {getattr(before, what)}\n"
                f"parametrization(module.{name}).{what}: {getattr(after, what)}"
            )
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(after)
    except NotImplementedError:
        return
    if not isinstance(back, Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}")
    for what in ("dtype", "shape"):
        if getattr(back, what) != getattr(before, what):
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {what} as module.{name}, "
                f"unless the `unsafe` flag is enabled.\nmodule.{name}.{what}: {getattr(before, what)}\n"
                f"returned {what}: {getattr(back, what)}"
            )


def is_parametrized(module: Any, tensor_name: str | None = None) -> bool:
    """Whether a module has parametrisations, or one of the tensor of this name."""
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Any:
    """Make a tensor a parameter or buffer again, with the value that it has now, or with ``original``'s.

    ValueError if it has no parametrisation, or if it has several originals and is not to keep its value. Returns the
    module.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parametrizations = module.parametrizations[tensor_name]
    if parametrizations.is_tensor:
        original = parametrizations.original
        if leave_parametrized:
            with no_grad():
                original.set_(getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register_parameter_or_buffer(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Any) -> type:
    """The class that a module had before it was parametrised."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module: Any, to_module: Any, tensor_name: str | None = None) -> Any:
    """Give a module another one's parametrisations, of all tensors or of one, and what they are computed of."""
    if not is_parametrized(from_module):
        return to_module
    for name in from_module.parametrizations if tensor_name is None else [tensor_name]:
        source = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        for parametrization in source:
            register_parametrization(to_module, name, parametrization)
        target = to_module.parametrizations[name]
        for original in [n for n in (*source._parameters, *source._buffers) if n.startswith("original")]:
            setattr(target, original, getattr(source, original))
    return to_module
