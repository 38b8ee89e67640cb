"""Ways to prune, as hooks before each forward; their public home is ``prune``."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import jitgrad
from jitgrad.core.tensor import Tensor

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
    "RandomStructured", "RandomUnstructured",
]  # fmt: skip


class BasePruningMethod(ABC):
    """Base of ways to prune: a subclass gives ``compute_mask`` and ``PRUNING_TYPE``.

    That is "unstructured" (single elements), "structured" (slices along ``self.dim``) or "global" (the mask is made
    for the whole tensor), and says what of a tensor is looked at that is pruned already.
    """

    PRUNING_TYPE: str
    _tensor_name: str

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask for a tensor (of the scores of importance) of which ``default_mask`` was left so far."""

    def apply_mask(self, module: Any) -> Tensor:
        """The original parameter times the mask."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        mask, original = (getattr(module, f"{self._tensor_name}_{part}") for part in ("mask", "orig"))
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(cls, module: Any, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any) -> Any:
        """Prune a module's parameter by this method, after those that it was pruned by before.

        ``importance_scores``, of the parameter's shape, are looked at in its place. Returns the hook.
        """
        method = cls._after_those_before(module, name, *args, **kwargs)
        original = getattr(module, name)
        _check_scores(importance_scores, original, f"parameter {name} of {module}")
        scores = original if importance_scores is None else importance_scores
        first = not isinstance(method, PruningContainer)
        if first:
            module.register_parameter(f"{name}_orig", original)
            del module._parameters[name]
            default_mask = jitgrad.ones_like(original)
        else:
            default_mask = getattr(module, f"{name}_mask").detach().clone()
        try:
            mask = method.compute_mask(scores, default_mask=default_mask)
            module.register_buffer(f"{name}_mask", mask)
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception:
            if first:
                module.register_parameter(name, getattr(module, f"{name}_orig"))
                del module._parameters[f"{name}_orig"]
            raise
        return method

    @classmethod
    def _after_those_before(cls, module: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        """A new object of this class, or the container of it and of the hooks that are there, which are taken out."""
        hooks = module._forward_pre_hooks
        keys = [k for k, h in hooks.items() if isinstance(h, BasePruningMethod) and h._tensor_name == name]
        if len(keys) > 1:
            raise AssertionError(
                f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. "
                "Use a PruningContainer."
            )
        before = [hooks.pop(key) for key in keys]
        method = cls(*args, **kwargs)
        method._tensor_name = name
        if not before:
            return method
        container = before[0] if isinstance(before[0], PruningContainer) else PruningContainer(before[0])
        container.add_pruning_method(method)
        return container

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None
    ) -> Tensor:
        """A tensor times the mask that this method computes for it."""
        _check_scores(importance_scores, t, "tensor t")
        scores = t if importance_scores is None else importance_scores
        default_mask = jitgrad.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=default_mask)

    def remove(self, module: Any) -> None:
        """Make the pruned values the parameter's own. The zeros stay; what was there before is lost."""
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters.pop(f"{name}_orig")
        original.data = weight.data
        del module._buffers[f"{name}_mask"]
        setattr(module, name, original)


def _check_scores(scores: Tensor | None, like: Tensor, what: str) -> None:
    if scores is not None and scores.shape != like.shape:
        raise AssertionError(
            f"importance_scores should have the same shape as {what}, got {scores.shape} vs {like.shape}"
        )


class PruningContainer(BasePruningMethod):
    """Several methods, of which each prunes what those before it left."""

    def __init__(self, *args: Any):
        self._pruning_methods: tuple[Any, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add a method for the same parameter. TypeError and ValueError for others."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to "
                f"PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> BasePruningMethod:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The last method's mask on what the mask so far leaves, beside that one."""
        method = self._pruning_methods[-1]
        part = _part_left(method, t, default_mask)
        mask = default_mask.to(dtype=t.dtype)
        mask[part] = method.compute_mask(t[part], default_mask=default_mask[part]).to(dtype=mask.dtype)
        return mask


def _part_left(method: BasePruningMethod, t: Tensor, mask: Tensor) -> Any:
    """The index of what a method may prune: elements, or slices with any element, that are left."""
    if method.PRUNING_TYPE == "unstructured":
        return mask == 1
    index: list[Any] = [slice(None)] * t.dim()
    if method.PRUNING_TYPE == "structured":
        if not hasattr(method, "dim"):
            raise AttributeError(
                'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.'
            )
        dim = method.dim + t.dim() if method.dim < 0 else method.dim
        if dim < 0:
            raise IndexError(f"Index is out of bounds for tensor with dimensions {t.dim()}")
        index[dim] = mask.sum(dim=[d for d in range(t.dim()) if d != dim]) != 0
    elif method.PRUNING_TYPE != "global":
        raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
    return tuple(index)


class Identity(BasePruningMethod):
    """Prunes nothing, but makes the parameter one with a mask of ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask so far."""
        return default_mask

    @classmethod
    def apply(cls, module: Any, name: str) -> Any:
        """Put the hook on a parameter."""
        return super().apply(module, name)


class _ByAmount(BasePruningMethod):
    """Methods that prune ``amount`` of the elements or slices: a number of them, or a part."""

    def __init__(self, amount: Any):
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def _count(self, size: int) -> int:
        """How many of ``size`` are pruned."""
        count = _compute_nparams_toprune(self.amount, size)
        _validate_pruning_amount(count, size)
        return count


def _without(mask: Tensor, chosen: Tensor) -> Tensor:
    """A copy of a mask with zeros at elements, which are counted row by row."""
    mask = mask.clone(memory_format=jitgrad.contiguous_format)
    mask.view(-1)[chosen] = 0
    return mask


def _only(t: Tensor, dim: int, chosen: Tensor, mask: Tensor) -> Tensor:
    """A mask times ones at the chosen slices along a dim, and zeros elsewhere."""
    kept = jitgrad.zeros_like(t)
    index: list[Any] = [slice(None)] * t.dim()
    index[dim] = chosen
    kept[tuple(index)] = 1
    return kept * mask.to(dtype=kept.dtype)


class RandomUnstructured(_ByAmount):
    """Prunes elements at random."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask without ``amount`` elements."""
        count = self._count(t.nelement())
        if count == 0:
            return default_mask.clone()
        return _without(default_mask, jitgrad.rand_like(t).view(-1).topk(k=count).indices)

    @classmethod
    def apply(cls, module: Any, name: str, amount: Any) -> Any:
        """Prune a parameter."""
        return super().apply(module, name, amount=amount)


class L1Unstructured(_ByAmount):
    """Prunes the elements with the smallest absolute values."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask without ``amount`` elements."""
        count = self._count(t.nelement())
        if count == 0:
            return default_mask.clone()
        return _without(default_mask, t.abs().view(-1).topk(k=count, largest=False).indices)

    @classmethod
    def apply(
        cls, module: Any, name: str, amount: Any, importance_scores: Tensor | None = None
    ) -> Any:
        """Prune a parameter."""
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class RandomStructured(_ByAmount):
    """Prunes slices along ``dim`` at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, dim: int = -1):
        super().__init__(amount)
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask without ``amount`` slices."""
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        count = self._count(t.shape[self.dim])
        if count == 0:
            return default_mask
        chances = jitgrad.rand(t.shape[self.dim])
        return _only(t, self.dim, chances > chances.kthvalue(k=count).values, default_mask)

    @classmethod
    def apply(cls, module: Any, name: str, amount: Any, dim: int = -1) -> Any:
        """Prune a parameter."""
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(_ByAmount):
    """Prunes the slices along ``dim`` with the smallest norms of order ``n``."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, n: Any, dim: int = -1):
        super().__init__(amount)
        self.n, self.dim = n, dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask without ``amount`` slices."""
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        size = t.shape[self.dim]
        count = self._count(size)
        if count == 0:
            return default_mask
        kept = _compute_norm(t, self.n, self.dim).topk(k=size - count, largest=True).indices
        return _only(t, self.dim, kept, default_mask)

    @classmethod
    def apply(
        cls, module: Any, name: str, amount: Any, n: Any, dim: int, importance_scores: Tensor | None = None
    ) -> Any:
        """Prune a parameter."""
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


class CustomFromMask(BasePruningMethod):
    """Prunes by a mask that is given."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor):
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The product of both masks."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module: Any, name: str, mask: Tensor) -> Any:
        """Prune a parameter."""
        return super().apply(module, name, mask=mask)


# -- checks --------------------------------------------------------------------------------------------


def _validate_pruning_amount_init(amount: Any) -> None:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    part = float(amount)
    if part < 0 or (part > 1.0 and not isinstance(amount, numbers.Integral)):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _validate_pruning_amount(amount: Any, tensor_size: int) -> None:
    if isinstance(amount, numbers.Integral) and int(amount) > tensor_size:
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to prune={tensor_size}"
        )


def _validate_structured_pruning(t: Tensor) -> None:
    if len(t.shape) <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. "
            f"Found tensor of shape {t.shape} with {len(t.shape)} dims"
        )


def _compute_nparams_toprune(amount: Any, tensor_size: int) -> int:
    """How many of ``tensor_size`` a number, or a part, is."""
    return int(amount) if isinstance(amount, numbers.Integral) else round(amount * tensor_size)


def _validate_pruning_dim(t: Tensor, dim: int) -> None:
    if dim >= t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


def _compute_norm(t: Tensor, n: Any, dim: int) -> Tensor:
    """The norms of all slices along a dim."""
    dims = list(range(t.dim()))
    dims.remove(dims[dim] if dim < 0 else dim)
    return jitgrad.norm(t, p=n, dim=dims)
