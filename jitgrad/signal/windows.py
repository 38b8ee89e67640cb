"""Windows: ``torch.signal.windows``."""

from jitgrad.dispatch.registry import module_names

__getattr__, __dir__ = module_names("signal.windows")
