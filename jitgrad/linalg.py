"""Linear algebra: ``torch.linalg``. The ops are in ``jitgrad/ops/linalg/``."""

from jitgrad.core.errors import LinAlgError as LinAlgError
from jitgrad.dispatch.registry import module_names

__getattr__, __dir__ = module_names("linalg")
