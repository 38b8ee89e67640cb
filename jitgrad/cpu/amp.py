"""``torch.cpu.amp``, under PyTorch's path: what is in ``jitgrad.amp.cpu``."""

from jitgrad.amp.cpu import *  # noqa: F403
from jitgrad.amp.cpu import __all__  # noqa: F401
