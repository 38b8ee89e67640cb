"""Numbers of the gamma and Dirichlet distributions, and their derivatives in the parameters.

The names begin with an underscore as in PyTorch, whose ``distributions`` are what calls them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core.errors import not_implemented_for, scalar_type
from jitgrad.core.settings import finfo
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.batch_randomness import draw_rule
from jitgrad.dispatch.drawing import drawn_by, generator_for, parameters_for_draw
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.structured import Structured
from jitgrad.dispatch.underived import underived
from jitgrad.kernels.elementwise import reparameterisation  # noqa: F401  (declares the ops)
from jitgrad.kernels.loops import random_gamma as kernels
from jitgrad.random import default_generator

__all__: list[str] = []


def _check_dtypes(error_name: str, x: Tensor, *others: Tensor) -> None:
    if x.dtype.name not in ("float32", "float64"):
        raise not_implemented_for(error_name, x.dtype)
    for t in others:
        if t.dtype is not x.dtype:
            raise RuntimeError(f"Found dtype {scalar_type(t.dtype)} but expected {scalar_type(x.dtype)}")


class StandardGamma(Structured):
    """Numbers of the gamma distributions of shapes ``x`` and rate 1; reparameterised: they have a derivative."""

    name, batch = "standard_gamma_of", draw_rule
    samples = cases(lambda: (draw(3, 4, low=0.3, high=9), default_generator))

    def refuse_tangents(names):
        raise NotImplementedError(
            "Trying to use forward AD with _standard_gamma that does not support it because it has not been "
            "implemented yet."
        )

    def forward(x, generator):
        return drawn_by(kernels.standard_gamma, x._layout, generator, finfo(x.dtype).tiny, of=(x,))

    def grad_x(g, x, out):
        return g * _standard_gamma_grad(x, out)


class SampleDirichlet(Structured):
    """Points of the simplex, along the last dim, of the Dirichlet distributions of concentrations ``x``."""

    name, batch = "sample_dirichlet_of", draw_rule
    samples = cases(lambda: (draw(3, 4, low=0.3, high=9), default_generator))

    def forward(x, generator):
        below_one = float(np.nextafter(x.dtype.numpy.type(1), x.dtype.numpy.type(0)))
        width = x._layout.shape[-1] if x._layout.ndim else 1
        scalars = max(width, 1), float(np.finfo(np.float64).tiny), below_one, finfo(x.dtype).tiny
        return drawn_by(kernels.dirichlet, x._layout, generator, *scalars, of=(x,))


def _standard_gamma(self: Tensor, generator: Any = None) -> Tensor:
    """Numbers of the gamma distributions of shapes ``self`` and rate 1, which have derivatives in ``self``."""
    _check_dtypes("gamma_cpu", self)
    return StandardGamma.apply(parameters_for_draw(self), generator_for("_standard_gamma", generator))


def _sample_dirichlet(self: Tensor, generator: Any = None) -> Tensor:
    """Points of the simplex of the Dirichlet distributions of concentrations ``self``; backward raises."""
    _check_dtypes("dirichlet", self)
    found = SampleDirichlet.apply(parameters_for_draw(self.detach()), generator_for("_sample_dirichlet", generator))
    return underived("aten::_sample_dirichlet", found, self)


def _standard_gamma_grad(self: Tensor, output: Tensor) -> Tensor:
    """The derivative of ``output``, which ``_standard_gamma(self)`` drew, in ``self``; backward raises."""
    _check_dtypes("_standard_gamma_grad_cpu", self, output)
    found = table.standard_gamma_grad(self.detach(), output.detach())
    return underived("_standard_gamma_grad", found, self, output, node_name="StandardGammaGradBackward0")


def _dirichlet_grad(x: Tensor, alpha: Tensor, total: Tensor) -> Tensor:
    """The derivative of ``x``, drawn from the beta distribution of shapes ``alpha`` and ``total - alpha``, in alpha.

    Over ``1 - x``; backward raises.
    """
    _check_dtypes("_dirichlet_grad_cpu", x, alpha, total)
    found = table.dirichlet_grad(x.detach(), alpha.detach(), total.detach())
    return underived("aten::_dirichlet_grad", found, x, alpha, total)


for _function in (_standard_gamma, _sample_dirichlet, _standard_gamma_grad, _dirichlet_grad):
    public(_function, method_too=False)
