"""Layers, losses and what they are made of, under PyTorch's names.

Here live modules (``modules/``, a file a family, with PyTorch's file names), their functions (``functional.py``; those
of ``functional_dropout.py`` and its neighbours are imported at their first use), initial values (``init.py``),
parameters and buffers (``parameter.py``), and functions on the parameters of a model (``utils/``). Nothing here
computes on arrays or knows of kernels: a layer that needs a new computation gets an op in ``jitgrad/ops/nn/``. Checks
that PyTorch makes in ``torch.nn.functional`` are made in ``functional.py``; a module holds options, parameters and
buffers, and calls the function.

Read ``modules/module.py`` first, then ``modules/linear.py`` as an example of a layer.
"""

from typing import TYPE_CHECKING

from jitgrad.core.lazy_import import set_lazy_attributes
from jitgrad.nn import functional, init, modules, parameter, utils
from jitgrad.nn.modules import *  # noqa: F403  every layer and loss, as ``modules`` lists them
from jitgrad.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    "Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "functional", "init", "modules",
    "parameter", "utils",
]  # fmt: skip
__all__ += [*modules.__all__, *modules.LATER]

if TYPE_CHECKING:  # what is imported at its first use
    from jitgrad.nn import attention, common_types, grad, parallel
    from jitgrad.nn.factory_options import factory_kwargs
    from jitgrad.nn.modules.adaptive import *  # noqa: F403
    from jitgrad.nn.modules.attention import *  # noqa: F403
    from jitgrad.nn.modules.bilinear import *  # noqa: F403
    from jitgrad.nn.modules.channelshuffle import *  # noqa: F403
    from jitgrad.nn.modules.cross_map import *  # noqa: F403
    from jitgrad.nn.modules.distance import *  # noqa: F403
    from jitgrad.nn.modules.embedding_bag import *  # noqa: F403
    from jitgrad.nn.modules.fold import *  # noqa: F403
    from jitgrad.nn.modules.gate import *  # noqa: F403
    from jitgrad.nn.modules.lazy_layers import *  # noqa: F403
    from jitgrad.nn.modules.linear_cross_entropy import *  # noqa: F403
    from jitgrad.nn.modules.margin_loss import *  # noqa: F403
    from jitgrad.nn.modules.rnn import *  # noqa: F403
    from jitgrad.nn.modules.older import *  # noqa: F403
    from jitgrad.nn.modules.parameter_container import *  # noqa: F403
    from jitgrad.nn.modules.pixelshuffle import *  # noqa: F403
    from jitgrad.nn.modules.sync_batchnorm import *  # noqa: F403
    from jitgrad.nn.modules.transformer import *  # noqa: F403
    from jitgrad.nn.parallel import DataParallel

set_lazy_attributes(__name__, {
    **modules.LATER,
    **{name: f"{__name__}.{name}" for name in ("_reduction", "attention", "common_types", "grad", "parallel")},
    "DataParallel": "jitgrad.nn.parallel", "factory_kwargs": "jitgrad.nn.factory_options",
})  # fmt: skip
