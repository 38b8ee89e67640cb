"""Walking through a module and its descendants: names, modes, conversions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from jitgrad.core.dtypes import bfloat16, float16
from jitgrad.core.dtypes import dtype as dtype_type
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.tensor import Tensor
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

    def modules(self) -> Iterator[Any]:
        """This module and all below it."""
        return (module for _, module in self.named_modules())

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
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Parameters; of this module alone unless ``recurse``."""
        return (param for _, param in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Buffers with their dotted names; of this module alone unless ``recurse``."""
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Buffers; of this module alone unless ``recurse``."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def _named(self, store: str, prefix: str, recurse: bool, once: bool) -> Iterator[tuple[str, Any]]:
        seen = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=once) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, member in getattr(module, store).items():
                if member is None or id(member) in seen:
                    continue
                if once:
                    seen.add(id(member))
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

        Parameters stay the same objects: optimisers hold on to them.
        """
        for child in self.children() if recurse else ():
            child._apply(fn)
        for param in self._parameters.values():
            if param is not None:
                with no_grad():
                    grad, changed = param.grad, fn(param)
                    param.grad = None
                    param.data = changed
                    if grad is not None:
                        param.grad = fn(grad).requires_grad_(grad.requires_grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self: M, *args: Any, **kwargs: Any) -> M:
        """Move to a device and/or cast what is floating-point: ``to(device)``, ``to(dtype)``,
        ``to(tensor)``, in place."""
        dtype = kwargs.get("dtype", next((a for a in args if isinstance(a, dtype_type)), None))
        other = next((a for a in args if isinstance(a, Tensor)), kwargs.get("tensor"))
        dtype = dtype or (other.dtype if other is not None else None)
        device = kwargs.get("device", next((a for a in args if not isinstance(a, (dtype_type, Tensor, bool))), None))
        device = other.device if other is not None else device
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )
        if dtype is not None and dtype.is_complex:
            warnings.warn(_COMPLEX, UserWarning, stacklevel=2)
        return self._apply(lambda t: _converted(t, device, dtype if _inexact(t) else None))

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


def _converted(tensor: Tensor, device: Any, dtype: Any) -> Tensor:
    options = {"device": device, "dtype": dtype}
    return tensor.to(**{k: v for k, v in options.items() if v is not None})


def clear(grad: Tensor) -> None:
    """Write zeros into a gradient, outside any graph."""
    if grad.grad_fn is not None:
        grad.detach_()
    else:
        grad.requires_grad_(False)
    grad.zero_()
