"""The tensors of an op's sample, and other values for them."""

import numpy as np

import jitgrad as torch


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in tensors_in(v)]
    return []


def refill(tensors, seed):
    """Write other values of the same kind, in place and outside of any op."""
    rng = np.random.default_rng(seed)
    for t in tensors:
        order = rng.permutation(t._data.size)
        t._data[...] = t._data.ravel()[order].reshape(t._data.shape)
        if t.dtype.is_floating_point or t.dtype.is_complex:
            t._data[...] = t._data * (1 + 0.05 * rng.random(t._data.shape))
