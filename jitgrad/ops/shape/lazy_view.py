"""Views with a conjugate or a negative bit: ``conj()``, ``imag`` of it, and what undoes the bits.

The bits belong to the tensor's array (kernels/lazy_array.py), not to its layout or class: views of a view have them
because they are views of that array, and a result, whose array is new, has none.
"""

from __future__ import annotations

import numpy as np

from jitgrad.core.tensor import Tensor, wrap
from jitgrad.core.wrapped import innermost_tensor
from jitgrad.dispatch.batch_rules import aligned
from jitgrad.dispatch.op_samples import cases, draw, draw_complex
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.structured import View
from jitgrad.dispatch.views import view_of
from jitgrad.kernels.lazy_array import LazyArray, conjugated, memory_of, negated
from jitgrad.ops.shape.copy import Clone

__all__ = ["Conj", "NegView", "conj", "is_conj", "is_neg", "resolve_conj", "with_bits", "without_bits"]


class Conj(View):
    """The conjugate of a complex tensor, as a view."""

    batch = aligned
    reference = np.conj
    samples = cases(lambda: (draw_complex(2, 3),), lambda: (draw_complex(3, 2).t(),))

    def forward(x):
        return view_of(x, conjugated(x._data), x._layout)

    def grad_x(g):
        return conj(g)


class NegView(View):
    """The tensor times -1, as a view."""

    batch = aligned
    reference = np.negative
    samples = cases(lambda: (draw(2, 3),), lambda: (draw_complex(3, 2).t(),))

    def forward(x):
        return view_of(x, negated(x._data), x._layout)

    def grad_x(g):
        return -g


@public
def conj(input: Tensor) -> Tensor:
    """The complex conjugate as a view, which computes nothing: ops see to it. A real tensor itself."""
    return Conj.apply(input) if input._layout.dtype.is_complex else input


@public
def _neg_view(input: Tensor) -> Tensor:
    """The tensor times -1 as a view."""
    return NegView.apply(input)


@public
def is_conj(input: Tensor) -> bool:
    """Whether the tensor has its conjugate bit set: it shows the conjugate of what its memory holds."""
    data = input._data if input._level is None else innermost_tensor(input)._data
    return type(data) is LazyArray and data.conjugate


@public
def is_neg(input: Tensor) -> bool:
    """Whether the tensor has its negative bit set: it shows what its memory holds, times -1."""
    data = input._data if input._level is None else innermost_tensor(input)._data
    return type(data) is LazyArray and data.negative


@public
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself, or a copy without conjugate bit if it has one."""
    return Clone.apply(input) if is_conj(input) else input


@public
def resolve_neg(input: Tensor) -> Tensor:
    """The tensor itself, or a copy without negative bit if it has one."""
    return Clone.apply(input) if is_neg(input) else input




def without_bits(x: Tensor) -> Tensor:
    """The memory of a tensor as it is, outside the graph."""
    return wrap(memory_of(x._data), x._layout)


def with_bits(x: Tensor, conjugate: bool, negative: bool) -> Tensor:
    """A tensor without history on the memory of ``x``, one without bits, that has these bits."""
    data = conjugated(x._data) if conjugate else x._data
    return wrap(negated(data) if negative else data, x._layout)
