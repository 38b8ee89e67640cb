"""Weight normalisation by hooks: a weight as length and direction, in PyTorch's older form."""

from __future__ import annotations

import warnings
from typing import Any

from jitgrad.core.missing_names import explain_missing_names
from jitgrad.core.tensor import Tensor
from jitgrad.nn.parameter import Parameter
from jitgrad.ops.nn.weight_norm import norm_except_dim
from jitgrad.ops.nn.weight_norm import weight_norm as of_length

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]

explain_missing_names(__name__)


class WeightNorm:
    """The hook that computes ``name`` = g v / |v| before each forward, of ``name_g`` and ``name_v``."""

    def __init__(self, name: str, dim: int | None):
        self.name, self.dim = name, -1 if dim is None else dim

    def compute_weight(self, module: Any) -> Tensor:
        """The weight now."""
        return of_length(getattr(module, f"{self.name}_v"), getattr(module, f"{self.name}_g"), self.dim)

    @staticmethod
    def apply(module: Any, name: str, dim: int | None) -> WeightNorm:
        """Split a parameter. RuntimeError if it is split already."""
        warnings.warn(
            "`torch.nn.utils.weight_norm` is deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`.",
            FutureWarning, stacklevel=3,
        )  # fmt: skip
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
        fn = WeightNorm(name, dim)
        weight = getattr(module, name)
        if _is_uninitialized(weight):
            raise ValueError(
                "The module passed to `WeightNorm` can't have uninitialized parameters. Make sure to run the dummy "
                "forward before applying weight normalization"
            )
        del module._parameters[name]
        lengths = norm_except_dim(weight, 2, fn.dim)
        module.register_parameter(f"{name}_g", Parameter(lengths.data))
        module.register_parameter(f"{name}_v", Parameter(weight.data))
        setattr(module, name, fn.compute_weight(module))
        module.register_forward_pre_hook(fn)
        return fn

    def remove(self, module: Any) -> None:
        """Make the weight a parameter again."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[f"{self.name}_g"], module._parameters[f"{self.name}_v"]
        setattr(module, self.name, Parameter(weight.data))

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def _is_uninitialized(parameter: Any) -> bool:
    """Whether a parameter of a lazy module has no values yet."""
    return any(kind.__name__ == "UninitializedParameter" for kind in type(parameter).__mro__)


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Let a parameter be g v / |v|, with lengths g of its slices along ``dim`` (None: one for all) and directions v.

    They become the parameters ``name_g`` and ``name_v``. Returns the module.
    """
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Make the weight a parameter again. ValueError if it is not split."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
