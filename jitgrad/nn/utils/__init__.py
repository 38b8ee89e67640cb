"""Functions on the parameters of a model, in PyTorch's files.

``clip_grad.py`` scales or cuts gradients before a step, ``convert_parameters.py`` joins parameters to a vector.
``rnn.py`` packs and pads sequences of several lengths.
``parametrize.py`` lets a parameter be computed of others whenever it is read, ``parametrizations.py`` has ready-made
ways; ``weight_norm.py``, ``spectral_norm.py`` and ``prune.py`` do such things by hooks before each forward. They work
by public ops; what needs a kernel of its own belongs to ``jitgrad/ops/``.
"""

from typing import TYPE_CHECKING

from jitgrad.core.lazy_import import set_lazy_attributes
from jitgrad.nn.utils.clip_grad import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from jitgrad.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters

# At once: their files have the functions' names, and are in the functions' place when imported later by others.
from jitgrad.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from jitgrad.nn.utils.weight_norm import remove_weight_norm, weight_norm

if TYPE_CHECKING:  # what is imported at its first use
    from jitgrad.nn.utils import parametrizations, parametrize, prune, rnn, stateless
    from jitgrad.nn.utils.fusion import (
        fuse_conv_bn_eval,
        fuse_conv_bn_weights,
        fuse_linear_bn_eval,
        fuse_linear_bn_weights,
    )
    from jitgrad.nn.utils.init import skip_init
    from jitgrad.nn.utils.memory_format import (
        convert_conv2d_weight_memory_format,
        convert_conv3d_weight_memory_format,
    )

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
    "convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format", "fuse_conv_bn_eval",
    "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights", "get_total_norm", "parameters_to_vector",
    "parametrizations", "parametrize", "prune", "remove_spectral_norm", "remove_weight_norm", "rnn", "skip_init",
    "spectral_norm", "stateless", "vector_to_parameters", "weight_norm",
]  # fmt: skip

_FILES = {
    "fusion": "fuse_conv_bn_eval fuse_conv_bn_weights fuse_linear_bn_eval fuse_linear_bn_weights",
    "init": "skip_init",
    "memory_format": "convert_conv2d_weight_memory_format convert_conv3d_weight_memory_format",
}
_SOURCES = {name: f"{__name__}.{file}" for file, names in _FILES.items() for name in names.split()}
_SUBMODULES = ("fusion", "init", "memory_format", "parametrizations", "parametrize", "prune", "rnn", "stateless")
set_lazy_attributes(__name__, {**_SOURCES, **{name: f"{__name__}.{name}" for name in _SUBMODULES}})
