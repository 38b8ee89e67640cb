"""Random counts: poisson, binomial."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from jitgrad.core.errors import not_implemented_for, scalar_type
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.batch_randomness import draw_rule
from jitgrad.dispatch.drawing import drawn_by, generator_for, parameters_for_draw
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.structured import Structured
from jitgrad.dispatch.underived import underived
from jitgrad.kernels.launch import check
from jitgrad.kernels.loops import random_counts as kernels
from jitgrad.ops.creation.constants import filled_like
from jitgrad.ops.shape.expand import broadcast_tensors
from jitgrad.random import default_generator

__all__: list[str] = []


class Poisson(Structured):
    """Counts of Poisson's distribution, of the rates ``x``."""

    name, batch = "poisson_of", draw_rule
    grad_name = "PoissonBackward0"
    samples = cases(lambda: (draw(3, 4, low=0.5, high=20), default_generator))

    def forward(x, generator):
        if not x.dtype.is_floating_point:
            raise not_implemented_for("poisson_cpu", x.dtype)
        found = np.zeros(1, np.int64)
        out = drawn_by(kernels.poisson, x._layout, generator, found, of=(x,))
        check(found, _refuse_rate)
        return out

    def grad_x(g):
        return filled_like(g, 0)


def _refuse_rate(*_: Any) -> NoReturn:
    raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")


def poisson(input: Tensor, generator: Any = None) -> Tensor:
    """Counts of Poisson's distribution with the rates ``input``. RuntimeError for a negative rate."""
    return Poisson.apply(parameters_for_draw(input), generator_for("poisson", generator))


class Binomial(Structured):
    """How many of ``x`` trials succeed, each with probability ``prob``."""

    name, batch = "binomial_of", draw_rule
    samples = cases(lambda: (draw(2, 3, low=1, high=40).floor(), draw(2, 3, low=0.1, high=0.9), default_generator))

    def forward(x, prob, generator):
        x, prob = broadcast_tensors(x.detach(), prob.detach())
        return drawn_by(kernels.binomial, x._layout, generator, of=(x, prob))


def binomial(count: Tensor, prob: Tensor, generator: Any = None) -> Tensor:
    """How many of ``count`` trials succeed, each with probability ``prob``; both broadcast, and have one dtype.

    There is no gradient: backward raises.
    """
    for name, given in (("count", count), ("prob", prob)):
        if not given.dtype.is_floating_point:
            raise ValueError(
                f"binomial only supports floating-point dtypes for {name}, got: {scalar_type(given.dtype)}"
            )
    if count.dtype.name not in ("float32", "float64"):
        raise not_implemented_for("binomial_cpu", count.dtype)
    if count.dtype is not prob.dtype:
        raise RuntimeError(f"Found dtype {scalar_type(prob.dtype)} but expected {scalar_type(count.dtype)}")
    given = parameters_for_draw(count.detach(), prob.detach())
    found = Binomial.apply(*given, generator_for("binomial", generator))
    return underived("aten::binomial", found, count, prob)


for _function in (poisson, binomial):
    public(_function, method_too=False)
