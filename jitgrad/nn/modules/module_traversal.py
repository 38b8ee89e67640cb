"""Walking through a module and its descendants: names, modes, conversions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import jitgrad
from jitgrad.core.device import device as device_type
from jitgrad.core.dtypes import bfloat16, float16
from jitgrad.core.dtypes import dtype as dtype_type
from jitgrad.core.errors import invalid_combination
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.tensor import Tensor
from jitgrad.nn.modules import conversion_flags
from jitgrad.nn.modules.module_attributes import ModuleAttributes
from jitgrad.nn.parameter import Parameter

__all__ = ["ModuleTraversal"]

M = TypeVar("M", bound="ModuleTraversal")
_COMPLEX = (
    "Complex modules are a new feature under active development whose design may change, and some modules might not "
    "work as expected when using complex tensors as parameters or buffers. Please file an issue at "
    "https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml if a complex module does not work as "
    "expected."
)


class ModuleTraversal(ModuleAttributes):
    """The part of Module that visits descendants."""

    # -- iterators ----------------------------------------------------------------------------

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """This module and all below it with their dotted names, parents first, each once."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, child in self._modules.items():
            if child is not None:
                yield from child.named_modules(memo, _joined(prefix, name), remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Any]:
        """This module and all below it."""
        return (module for _, module in self.named_modules(remove_duplicate=remove_duplicate))

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """The modules right below with their names, each once."""
        seen = set()
        for name, child in self._modules.items():
            if child is not None and child not in seen:
                seen.add(child)
                yield name, child

    def children(self) -> Iterator[Any]:
        """The modules right below."""
        return (child for _, child in self.named_children())

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Parameters with their dotted names; of this module alone unless ``recurse``."""
        return self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Parameters; of this module alone unless ``recurse``."""
        return (param for _, param in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Buffers with their dotted names; of this module alone unless ``recurse``."""
        return self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Buffers; of this module alone unless ``recurse``."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def _named_members(
        self, get_members_fn: Callable[[Any], Iterable[tuple[str, Any]]], prefix: str = "", recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:  # fmt: skip
        """What a function returns for each module, pairs of name and value, with dotted names."""
        seen = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, member in get_members_fn(module):
                if member is None or member in seen:
                    continue
                if remove_duplicate:
                    seen.add(member)
                yield _joined(path, name), member

    # -- modes --------------------------------------------------------------------------------

    def apply(self: M, fn: Callable[[Any], Any]) -> M:
        """Call ``fn`` on every module, children first, and return this one."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def train(self: M, mode: bool = True) -> M:
        """Set ``training`` here and below: it changes what dropout and the like do."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self: M) -> M:
        """Leave training mode, here and below."""
        return self.train(False)

    def requires_grad_(self: M, requires_grad: bool = True) -> M:
        """Record ops on the parameters, or don't."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the parameters' gradients; write zeros instead if not ``set_to_none``."""
        for param in self.parameters():
            if set_to_none:
                param.grad = None
            elif param.grad is not None:
                clear(param.grad)

    # -- conversions --------------------------------------------------------------------------

    def _apply(self: M, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> M:
        """Replace the values of parameters, gradients and buffers by what ``fn`` makes of them.

        Parameters stay the same objects, for optimisers hold on to them, unless a flag of ``jitgrad.__future__`` says
        otherwise or ``fn`` gives tensors of another layout.
        """
        for child in self.children() if recurse else ():
            child._apply(fn)
        for name, param in self._parameters.items():
            if param is not None:
                with no_grad():
                    self._convert(name, param, fn)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def _convert(self, name: str, param: Parameter, fn: Callable[[Tensor], Tensor]) -> None:
        grad, changed = param.grad, fn(param)
        other = None if grad is None else fn(grad)
        # ``data`` is asked for the layout, since a parameter whose shape is not known yet raises an error.
        if conversion_flags.overwrite or changed.data.layout is not param.data.layout:
            param = self._parameters[name] = Parameter(changed, param.requires_grad)
        else:
            param.grad = None
            param.data = changed
        if grad is None or other is None:
            return
        if conversion_flags.overwrite or other.layout is not grad.layout:
            param.grad = other.requires_grad_(grad.requires_grad)
        else:
            grad.data = other
            param.grad = grad

    def to(self: M, *args: Any, **kwargs: Any) -> M:
        """Move to a device and/or cast what is floating-point: ``to(device)``, ``to(dtype)``,
        ``to(tensor)``, in place."""
        device, dtype, memory_format = _parsed(args, kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )
        if dtype is not None and dtype.is_complex:
            warnings.warn(_COMPLEX, UserWarning, stacklevel=2)

        def converted(t: Tensor) -> Tensor:
            options = {"device": device, "dtype": dtype if _inexact(t) else None}
            if memory_format is not None and t.dim() in (4, 5):
                options["memory_format"] = memory_format
            try:
                return t.to(**{k: v for k, v in options.items() if v is not None})
            except NotImplementedError as error:
                if str(error) != "Cannot copy out of meta tensor; no data!":
                    raise
                raise NotImplementedError(
                    f"{error} Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving module "
                    "from meta to a different device."
                ) from None

        return self._apply(converted)

    def to_empty(self: M, *, device: Any, recurse: bool = True) -> M:
        """Move to a device without the values, which are not set then."""
        return self._apply(lambda t: jitgrad.empty_like(t, device=device), recurse=recurse)

    def share_memory(self: M) -> M:
        """Let other processes see the values: see ``Tensor.share_memory_``."""
        return self._apply(lambda t: t.share_memory_())

    def type(self: M, dst_type: Any) -> M:
        """Cast all parameters and buffers."""
        return self._apply(lambda t: t.type(dst_type))

    def float(self: M) -> M:
        """Cast what is floating-point to float32."""
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self: M) -> M:
        """Cast what is floating-point to float64."""
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self: M) -> M:
        """Cast what is floating-point to float16."""
        return self._apply(lambda t: t.to(float16) if t.is_floating_point() else t)

    def bfloat16(self: M) -> M:
        """Cast what is floating-point to bfloat16."""
        return self._apply(lambda t: t.to(bfloat16) if t.is_floating_point() else t)

    def cpu(self: M) -> M:
        """Move to the CPU."""
        return self._apply(lambda t: t.cpu())

    def cuda(self: M, device: Any = None) -> M:
        """Move to a CUDA device."""
        return self._apply(lambda t: t.cuda(device))


def _joined(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def _inexact(tensor: Tensor) -> bool:
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


_SIGNATURES = {  # of ``to``: {first argument: it and those behind it}
    "device": "torch.device device = None, torch.dtype dtype = None",
    "dtype": "torch.dtype dtype",
    "tensor": "Tensor tensor",
}
_KINDS: dict[str, Any] = {"dtype": dtype_type, "tensor": Tensor, "non_blocking": bool, "copy": bool}


def _is_device(value: Any) -> bool:
    return value is None or isinstance(value, (str, device_type)) or type(value) is int


def _parsed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, Any]:
    """(device, dtype, memory format) of the arguments of ``to``; TypeError for others."""
    first = args[0] if args else None
    kind = "dtype" if isinstance(first, dtype_type) else "tensor" if isinstance(first, Tensor) else "device"
    names = [kind, *(["dtype"] if kind == "device" else []), "non_blocking", "copy"]
    found = {**dict(zip(names, args, strict=False)), **kwargs}
    fits = len(args) <= len(names) and not set(names[: len(args)]) & kwargs.keys()
    for name, value in found.items():
        if name in _KINDS:
            fits = fits and (isinstance(value, _KINDS[name]) or (name == "dtype" and value is None))
        else:
            fits = fits and (name == "memory_format" or (name == "device" and _is_device(value)))
    if not fits:
        flags = "bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None"
        raise invalid_combination("to", args, *(f"({given}, {flags})" for given in _SIGNATURES.values()))
    if found.get("copy"):
        raise RuntimeError(".to() does not accept copy argument")
    other, device = found.get("tensor"), found.get("device")
    if other is not None:
        return other.device, other.dtype, found.get("memory_format")
    return None if device is None else device_type(device), found.get("dtype"), found.get("memory_format")


def clear(grad: Tensor) -> None:
    """Write zeros into a gradient, outside any graph."""
    if grad.grad_fn is not None:
        grad.detach_()
    else:
        grad.requires_grad_(False)
    grad.zero_()
