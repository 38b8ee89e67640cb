"""Samples of every declared op: operands inside its domain, for generated tests."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import jitgrad
from jitgrad.core import dtypes
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.elementwise import ElementwiseOp
from jitgrad.dispatch.registry import OPS, publish_rest

__all__ = ["elementwise_sample", "op_samples"]

publish_rest()
Sample = tuple[Callable[..., Any], list[Any], dict[str, Any]]


def op_samples(name: str, dtype: Any = dtypes.float64) -> Iterator[Sample]:
    """Yield (function, arguments, keywords) for the declared op ``name``; tensors do not require grad."""
    op = OPS[name]
    seed = zlib.crc32(name.encode())  # the same in each process, unlike hash()
    if isinstance(op, ElementwiseOp):
        # An op that does not take the wanted dtype is sampled in one that it takes.
        kinds = op.op.accepts.split()
        usable = dtype if "float" in kinds else dtypes.complex128 if "complex" in kinds else dtypes.int64
        yield op, elementwise_sample(op, usable, (2, 3), seed), {}
        return
    for args, kwargs in op.samples() if op.samples is not None else ():
        yield op.apply, list(args), dict(kwargs)


def elementwise_sample(op: Any, dtype: Any, shape: tuple[int, ...], seed: int = 0) -> list[Tensor]:
    """Random operands of an elementwise op, inside its domain."""
    domain = op.op.domain
    pairs = domain if isinstance(domain[0], tuple) else [domain] * len(op.op.inputs)
    rng = np.random.default_rng(seed)
    tensors = []
    for name, (low, high) in zip(op.op.inputs, pairs, strict=True):
        if name in op.op.conditions:
            tensors.append(jitgrad.tensor(rng.random(shape) < 0.5))
            continue
        values = rng.uniform(low, high, shape)
        values = values + 1j * rng.uniform(low, high, shape) if dtype.is_complex else values
        tensors.append(jitgrad.tensor(values.astype(dtype.numpy)))
    return tensors
