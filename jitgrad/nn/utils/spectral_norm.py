"""Spectral normalisation by hooks: a weight over its largest singular value, in PyTorch's older form."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.missing_names import explain_missing_names
from jitgrad.core.tensor import Tensor
from jitgrad.nn import functional as F
from jitgrad.nn.parameter import Parameter
from jitgrad.nn.utils.weight_norm import _is_uninitialized

__all__ = [
    "SpectralNorm", "SpectralNormLoadStateDictPreHook", "SpectralNormStateDictHook", "remove_spectral_norm",
    "spectral_norm",
]  # fmt: skip

explain_missing_names(__name__)


def output_dim(module: Any, dim: int | None) -> int:
    """The dim of a module's outputs in its weight, where none is given."""
    transposed = any(kind.__name__.startswith("ConvTranspose") for kind in type(module).__mro__)
    return int(transposed) if dim is None else dim


class SpectralNorm:
    """The hook that computes ``name`` = w / sigma before each forward, of the parameter ``name_orig``.

    sigma = u' W v, with ``name_u`` and ``name_v`` that a few steps of the power method improve in training.
    """

    # Version 1 added v and made W v / |W v| part of the graph.
    _version = 1

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12):
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name, self.dim, self.n_power_iterations, self.eps = name, dim, n_power_iterations, eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """The weight with a row for each slice along ``dim``."""
        if self.dim != 0:
            weight = weight.permute(self.dim, *[d for d in range(weight.dim()) if d != self.dim])
        return weight.reshape(weight.size(0), -1)

    def compute_weight(self, module: Any, do_power_iteration: bool) -> Tensor:
        """The weight now; the power method writes its vectors in place, so that copies of the module share them."""
        weight, u, v = [getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v")]
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v = F.normalize(jitgrad.mv(matrix.t(), u), dim=0, eps=self.eps, out=v)
                    u = F.normalize(jitgrad.mv(matrix, v), dim=0, eps=self.eps, out=u)
                # Copies: the next forward writes u and v before the backward of this one may have run.
                u, v = u.clone(), v.clone()
        return weight / jitgrad.dot(u, jitgrad.mv(matrix, v))

    def remove(self, module: Any) -> None:
        """Make the weight a parameter again."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for name in (self.name, f"{self.name}_u", f"{self.name}_v", f"{self.name}_orig"):
            delattr(module, name)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    def _solve_v_and_rescale(self, matrix: Tensor, u: Tensor, target_sigma: Any) -> Tensor:
        """v with u' W v = target_sigma, for a state that was saved before there was v: from u = W v / |W v|."""
        inverse = matrix.t().mm(matrix).pinverse()
        v = jitgrad.linalg.multi_dot([inverse, matrix.t(), u.unsqueeze(1)]).squeeze(1)
        return v.mul_(target_sigma / jitgrad.dot(u, jitgrad.mv(matrix, v)))

    @staticmethod
    def apply(module: Any, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Normalise a parameter. RuntimeError if it is already, ValueError if it is None or has no values yet."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        fn = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if _is_uninitialized(weight):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. Make sure to run the dummy "
                "forward before applying spectral normalization"
            )
        with no_grad():
            height, width = fn.reshape_weight_to_matrix(weight).size()
            u = F.normalize(weight.new_empty(height).normal_(0, 1), dim=0, eps=eps)
            v = F.normalize(weight.new_empty(width).normal_(0, 1), dim=0, eps=eps)
        delattr(module, name)
        module.register_parameter(f"{name}_orig", weight)
        # A plain attribute until the first forward: module.weight may be read before.
        setattr(module, name, weight.data)
        module.register_buffer(f"{name}_u", u)
        module.register_buffer(f"{name}_v", v)
        module.register_forward_pre_hook(fn)
        module._register_state_dict_hook(SpectralNormStateDictHook(fn))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(fn))
        return fn


class SpectralNormLoadStateDictPreHook:
    """Computes ``name_v`` of a state that was saved without."""

    def __init__(self, fn: SpectralNorm):
        self.fn = fn

    def __call__(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        fn, key = self.fn, prefix + self.fn.name
        version = local_metadata.get("spectral_norm", {}).get(f"{fn.name}.version")
        if version is not None and version >= 1:
            return
        if version is None and all(f"{key}_{s}" in state_dict for s in ("orig", "u", "v")) and key not in state_dict:
            return
        missing = [name for name in (f"{key}_orig", key, f"{key}_u") if name not in state_dict]
        if missing:
            missing_keys += missing if strict else []
            return
        with no_grad():
            original, weight = state_dict[f"{key}_orig"], state_dict.pop(key)
            sigma = (original / weight).mean()
            matrix = fn.reshape_weight_to_matrix(original)
            state_dict[f"{key}_v"] = fn._solve_v_and_rescale(matrix, state_dict[f"{key}_u"], sigma)


class SpectralNormStateDictHook:
    """Notes the version in a saved state."""

    def __init__(self, fn: SpectralNorm):
        self.fn = fn

    def __call__(self, module: Any, state_dict: Any, prefix: str, local_metadata: dict[str, Any]) -> None:
        versions, key = local_metadata.setdefault("spectral_norm", {}), f"{self.fn.name}.version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.fn._version


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """Let a parameter be itself over its largest singular value, as a matrix with a row for each output.

    The parameter becomes ``name_orig``, beside the buffers ``name_u`` and ``name_v``. Returns the module.
    """
    SpectralNorm.apply(module, name, n_power_iterations, output_dim(module, dim), eps)
    return module


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Make the weight a parameter again. ValueError if it is not normalised."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            break
    else:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    kinds: tuple[Any, ...] = (SpectralNormStateDictHook, SpectralNormLoadStateDictPreHook)
    for hooks, kind in zip((module._state_dict_hooks, module._load_state_dict_pre_hooks), kinds, strict=True):
        for key, hook in hooks.items():
            # Modules keep a hook of loading within another object, which knows the module.
            hook = getattr(hook, "hook", hook)
            if isinstance(hook, kind) and hook.fn.name == name:
                del hooks[key]
                break
    return module
