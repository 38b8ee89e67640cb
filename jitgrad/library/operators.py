"""Custom ops as they are called: ``torch.ops.NAMESPACE.NAME`` and its overloads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from jitgrad.autograd.graph import increment_version
from jitgrad.core import grad_mode
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.tensor import Tensor
from jitgrad.library.gradient import function_of
from jitgrad.library.schema import Schema

__all__ = ["Namespace", "Operator", "Packet", "find", "namespace"]


def tensors_in(values: Iterable[Any]) -> list[Tensor]:
    """Tensors among arguments, and in those that are lists."""
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += [x for x in value if isinstance(x, Tensor)]
    return found


class Operator:
    """One overload of a custom op: its schema, and the functions that were registered for it by key.

    Keys are device types in lower case, "default" for all devices, "fake" for the meta device, "composite" for a
    function of differentiable ops, "autograd" for one that sees to gradients itself.
    """

    def __init__(self, space: str, schema: Schema):
        self.namespace, self.schema = space, schema
        self.kernels: dict[str, Callable[..., Any]] = {}
        self.backward: Callable[..., Any] | None = None
        self.setup_context: Callable[..., Any] | None = None
        self.vmap: Callable[..., Any] | None = None
        self.tags: tuple[Any, ...] = ()
        self.__name__ = f"{schema.name}.{schema.overload or 'default'}"
        self._function: Any = None

    @property
    def _schema(self) -> str:
        return f"{self.namespace}::{self.schema.text}"

    @property
    def _qualname(self) -> str:
        return f"{self.namespace}::{self.schema.name}"

    def name(self) -> str:
        """The name with its namespace: ``mylib::mysin``."""
        return self._qualname + (f".{self.schema.overload}" if self.schema.overload else "")

    def has_kernel_for_dispatch_key(self, key: Any) -> bool:
        """Whether a function was registered for a key."""
        return str(key).lower() in self.kernels

    def __repr__(self) -> str:
        overload = self.schema.overload or "default"
        return f"<OpOverload(op='{self.namespace}.{self.schema.name}', overload='{overload}')>"

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def changed(self) -> None:
        """Forget the node's class, which is made of what was registered."""
        self._function = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function of the arguments' device, as one node of the graph if one of them requires grad."""
        try:
            bound = self.schema.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self._qualname}() {error}. Declaration: {self._schema}") from None
        for name, value in bound.arguments.items():
            kind = self.schema.signature.parameters[name].annotation
            if not isinstance(value, Tensor) and re.fullmatch(r"Tensor(\(.*\))?", kind):
                raise RuntimeError(
                    f"{self._qualname}() Expected a value of type 'Tensor' for argument '{name}' but instead found "
                    f"type '{type(value).__name__}'."
                )
        bound.apply_defaults()
        args, kwargs = bound.args, bound.kwargs
        tensors = tensors_in((*args, *kwargs.values()))
        recording = grad_mode.state.enabled and any(t.requires_grad for t in tensors)
        if recording and "autograd" in self.kernels:
            return self.kernels["autograd"](*args, **kwargs)
        if "composite" in self.kernels and self.backward is None:
            return self.kernels["composite"](*args, **kwargs)
        if (recording or grad_mode.state.levels) and not self._writes():
            if self._function is None:
                self._function = function_of(self)
            return self._function(args, kwargs)
        return self.compute(args, kwargs, tensors)

    def compute(self, args: Any, kwargs: Any, tensors: list[Tensor] | None = None) -> Any:
        """The result by the function of the tensors' device, which is not recorded."""
        tensors = tensors_in((*args, *kwargs.values())) if tensors is None else tensors
        kinds = {t.device.type for t in tensors}
        device = "fake" if "meta" in kinds else next((k for k in kinds if k != "cpu"), "cpu")
        kernel = self.kernels.get(device) or self.kernels.get("default") or self.kernels.get("composite")
        if kernel is None:
            backend = "Meta" if device == "fake" else device.upper()
            raise NotImplementedError(
                f"Could not run '{self.name()}' with arguments from the '{backend}' backend: no function was "
                "registered for it"
            )
        written = self._written(args, kwargs)
        before = [t._version for t in written]
        with no_grad():
            out = kernel(*args, **kwargs)
        # What the kernel wrote by other means than ops of tensors, through NumPy say, counts as a write, too.
        increment_version(t for t, version in zip(written, before, strict=True) if t._version == version)
        for x in tensors_in(out if isinstance(out, (list, tuple)) else [out]):
            if any(x is t for t in tensors):
                raise RuntimeError(
                    f"{self.name()} (with implementation in {kernel.__module__}): The output of this custom operator "
                    "(1) must not also be an input to this custom operator and (2) may not alias any inputs to this "
                    "custom operator or other returns. The most common way to trigger this error is if we have y = "
                    "custom_op(x) and y and x are the same Tensor. Please instead return a clone of the offending "
                    "output tensor(s) (e.g. return x.clone()) or refactor the custom operator to not return y."
                )
        return out

    def _written(self, args: Any, kwargs: Any) -> list[Tensor]:
        """The tensors among arguments that the schema says are written to, as far as they have versions."""
        if not self._writes():
            return []
        signature = self.schema.signature
        given = signature.bind(*args, **kwargs).arguments
        found = tensors_in(value for name, value in given.items() if "!" in signature.parameters[name].annotation)
        return [t for t in found if not t.is_inference()]

    def _writes(self) -> bool:
        return "!" in self.schema.text.partition("->")[0]


class Packet:
    """An op by its name, with its overloads as attributes; a call takes the first that the arguments fit."""

    def __init__(self, space: str, name: str):
        self.__name__, self._namespace = name, space
        self._overloads: dict[str, Operator] = {}

    @property
    def _qualified_op_name(self) -> str:
        return f"{self._namespace}::{self.__name__}"

    def overloads(self) -> list[str]:
        """The names of the overloads."""
        return list(self._overloads)

    def __getattr__(self, name: str) -> Operator:
        found = vars(self).get("_overloads", {}).get(name)
        if found is None:
            raise AttributeError(
                f"The underlying op of '{self._namespace}.{self.__name__}' has no overload name '{name}'"
            )
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the op."""
        operators = list(self._overloads.values())
        for operator in operators[:-1]:
            try:
                operator.schema.signature.bind(*args, **kwargs)
            except TypeError:
                continue
            return operator(*args, **kwargs)
        return operators[-1](*args, **kwargs)

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self._namespace}.{self.__name__}')>"

    def __str__(self) -> str:
        return f"{self._namespace}.{self.__name__}"


class Namespace:
    """``torch.ops.NAME``: the packets of a namespace as attributes."""

    def __init__(self, name: str):
        self._name = name
        self._packets: dict[str, Packet] = {}

    def __getattr__(self, name: str) -> Packet:
        found = vars(self).get("_packets", {}).get(name)
        if found is None:
            raise AttributeError(f"'_OpNamespace' '{self._name}' object has no attribute '{name}'")
        return found

    def __dir__(self) -> list[str]:
        return sorted(self._packets)

    def add(self, operator: Operator) -> None:
        """Put an op in its packet. RuntimeError if its name is taken."""
        name = operator.schema.name
        packet = self._packets.setdefault(name, Packet(self._name, name))
        overload = operator.schema.overload or "default"
        if overload in packet._overloads:
            raise RuntimeError(
                f"Tried to register an operator ({operator._schema}) with the same name and overload name multiple "
                "times."
            )
        packet._overloads[overload] = operator

    def remove(self, operator: Operator) -> None:
        """Take an op away again."""
        packet = self._packets.get(operator.schema.name)
        if packet is not None:
            packet._overloads.pop(operator.schema.overload or "default", None)
            if not packet._overloads:
                del self._packets[operator.schema.name]


_namespaces: dict[str, Namespace] = {}


def namespace(name: str) -> Namespace:
    """``torch.ops.NAME``; empty until something is registered in it."""
    return _namespaces.setdefault(name, Namespace(name))


def find(op: Any) -> Operator:
    """The Operator of a name ``ns::name`` or ``ns::name.overload``, of a packet, an overload or a CustomOpDef."""
    if isinstance(op, Operator):
        return op
    if isinstance(op, Packet):
        return op.default
    if not isinstance(op, str):
        return op._opoverload
    space, _, name = op.partition("::")
    name, _, overload = name.partition(".")
    try:
        return getattr(getattr(namespace(space), name), overload or "default")
    except AttributeError:
        raise RuntimeError(f"operator {op} does not exist") from None
