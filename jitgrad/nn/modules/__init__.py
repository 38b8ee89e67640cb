"""Modules under the longer names that PyTorch has for them: ``nn.modules.module.Module``."""

from jitgrad.nn import container, linear, loss
from jitgrad.nn.modules import module
from jitgrad.nn.modules.module import Module

__all__ = ["Module", "container", "linear", "loss", "module"]
