"""Functions on the parameters of a model, in PyTorch's files.

``clip_grad.py`` scales or cuts gradients before a step, ``convert_parameters.py`` joins parameters to a vector.
``rnn.py`` packs and pads sequences of several lengths.
They work on any iterable of tensors, by public ops under ``no_grad``; what needs a kernel of its own belongs to
``jitgrad/ops/``.
"""

from jitgrad.core.missing_names import explain_missing_names
from jitgrad.nn.utils.clip_grad import clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
from jitgrad.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters

__all__ = [
    "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm", "parameters_to_vector",
    "vector_to_parameters",
]  # fmt: skip

explain_missing_names(__name__, {"rnn": "jitgrad.nn.utils.rnn"})
