"""Copies between the CPU and a device, recorded and not."""

from __future__ import annotations

from typing import Any

from jitgrad.core.device import move
from jitgrad.core.layout import Layout, intern
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.copying import copy_into, copy_to_layout, preserved_layout
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.kernels.cuda import provider as kernels
from jitgrad.kernels.launch import launch
from jitgrad.ops.shape.copy import Copying

__all__ = ["ToDevice", "Transfer"]


class Transfer:
    """Copies tensors of one layout into arrays of another, on another device.

    Between devices goes only row-major memory of one dtype. A tensor that is not contiguous is copied before;
    casts, broadcasts and other strides come after, on the device of the target.
    """

    def __init__(self, source: Layout, target: Layout):
        self.target = target
        self.kernel = kernels.copy_to_host if target.device == "cpu" else kernels.copy_to_device
        self.sent = intern(source.numpy_dtype, source.shape, None, source.device)
        self.landed = intern(source.numpy_dtype, source.shape, None, target.device)

    def write(self, source: Tensor, target: Any) -> None:
        """Copy ``source`` into the array ``target``."""
        data = source._data if source._layout.contiguous else copy_to_layout(source, self.sent)._data
        if self.landed is self.target:
            return launch(self.kernel, data, target)
        landed = empty_for(self.landed)
        launch(self.kernel, data, landed)
        return copy_into(target, self.target, wrap(landed, self.landed))


class ToDevice(Copying):
    """Copy to another device."""

    grad_name = "ToCopyBackward0"
    samples = cases(lambda: (draw(2, 3), "cpu"), lambda: (draw(2, 3).t(), "cpu"), lambda: (draw(), "cpu"))

    def forward(x, device):
        kept = preserved_layout(x._layout)
        return copy_to_layout(x, intern(kept.numpy_dtype, kept.shape, kept.strides, device))

    def grad_x(g, x_layout):
        return g if g._layout.device == x_layout.device else move(g, x_layout.device)
