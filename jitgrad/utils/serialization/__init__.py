"""PyTorch's place for the options of `save` and `load`."""

from jitgrad.utils.serialization import config

__all__ = ["config"]
