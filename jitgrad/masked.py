"""Reductions and normalisations of the elements that a mask names: ``torch.masked``."""

from jitgrad.dispatch.registry import module_names

__getattr__, __dir__ = module_names("masked")
