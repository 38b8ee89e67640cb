"""Parts of complex tensors, and complex tensors of parts."""

from __future__ import annotations

from functools import partial

import numpy as np

from jitgrad.core.errors import scalar_type
from jitgrad.core.grad_mode import state
from jitgrad.core.layout import broadcast_shapes, intern, layout_of
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch import table
from jitgrad.dispatch.batch_rules import aligned
from jitgrad.dispatch.copying import copy_into
from jitgrad.dispatch.inplace_forms import inplace_form
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.strides import result_strides
from jitgrad.dispatch.structured import Structured
from jitgrad.ops.pointwise.arithmetic import apply
from jitgrad.ops.shape.expand import sum_to_size

__all__ = ["Complex", "Polar"]


@public
@partial(takes_out, iterated=True)
def conj_physical(input: Tensor) -> Tensor:
    """The complex conjugate in new memory; a real tensor is its own. ``conj`` is a view."""
    return apply(table.conj_physical, input) if input._layout.dtype.is_complex else input


public(inplace_form(conj_physical))


@public
@partial(takes_out, iterated=True)
def angle(input: Tensor) -> Tensor:
    """The argument of a complex number; of a real one pi below zero, else 0."""
    complex_input = isinstance(input, Tensor) and input._layout.dtype.is_complex
    return apply(table.angle if complex_input else table.angle_real, input)


def _assembled(real: Tensor, imag: Tensor) -> Tensor:
    """A new tensor with these parts."""
    shape = tuple(broadcast_shapes(real._layout.shape, imag._layout.shape))
    strides = result_strides([real._layout, imag._layout], shape)
    layout = intern(real._layout.dtype.to_complex().numpy, shape, strides, real._layout.device)
    out = wrap(empty_for(layout), layout)
    for part, source in ((out._data.real, real), (out._data.imag, imag)):
        copy_into(part, layout_of(part, layout.device), source)
    return out


def _check_parts(x: Tensor, y: Tensor) -> None:
    titles = [scalar_type(t._layout.dtype) for t in (x, y)]
    if not (x._layout.dtype.is_floating_point and y._layout.dtype.is_floating_point):
        raise RuntimeError(
            f"Expected both inputs to be Half, Float or Double tensors but got {titles[0]} and {titles[1]}"
        )
    if x._layout.dtype is not y._layout.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {titles[0]} but got scalar type {titles[1]} for second argument"
        )


class Complex(Structured, public="function"):
    """The complex tensor with these real and imaginary parts, both float32 or both float64."""

    jointly_linear = ("x", "imag")
    batch = aligned
    reference = lambda x, imag: x + 1j * imag
    samples = cases(
        lambda: (draw(2, 3), draw(2, 3, seed=1)),
        lambda: (draw(3, 2).t(), draw(3, seed=1)),
        lambda: (draw(), draw(seed=1)),
    )

    def forward(x, imag):
        _check_parts(x, imag)
        return _assembled(x, imag)

    def grad_x(g, x_layout):
        return sum_to_size(g.real, x_layout.shape)

    def grad_imag(g, imag_layout):
        return sum_to_size(g.imag, imag_layout.shape)


class Polar(Structured):
    """The complex tensor with these absolute values and angles: ``abs * exp(i * angle)``."""

    name, grad_name = "_polar", "PolarBackward0"
    batch = aligned
    reference = lambda x, angle: x * np.exp(1j * angle)
    samples = cases(
        lambda: (draw(2, 3, low=0.5), draw(2, 3, seed=1)),
        lambda: (draw(3, 2, low=0.5).t(), draw(3, seed=1)),
        lambda: (draw(low=0.5), draw(seed=1)),
    )

    def forward(x, angle):
        _check_parts(x, angle)
        size, turn = x.detach(), angle.detach()
        return _assembled(size * table.cos(turn), size * table.sin(turn))

    def grad_x(g, x_layout, angle):
        return sum_to_size(g.real * table.cos(angle) + g.imag * table.sin(angle), x_layout.shape)

    def grad_angle(g, out, angle_layout):
        return sum_to_size(g.imag * out.real - g.real * out.imag, angle_layout.shape)


@partial(public, method_too=False)
@takes_out
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """The complex tensor with these absolute values and angles: ``abs * exp(i * angle)``.

    Both are float32, or both float64; RuntimeError else. They broadcast, and may be written to before backward runs.
    """
    if isinstance(abs, Tensor) and isinstance(angle, Tensor) and abs.requires_grad and state.enabled:
        # PyTorch saves the result alone, whose direction is lost where ``abs`` is 0 and turned where it is negative.
        angle = angle.clone()
    return Polar.apply(abs, angle)
