"""Modules under the longer names that PyTorch has for them: ``nn.modules.module.Module``."""

from .. import container, linear, loss
from . import module
from .module import Module

__all__ = ["Module", "container", "linear", "loss", "module"]
