"""``torch.cuda.amp``, under PyTorch's path: what is in ``jitgrad.amp.cuda``."""

from jitgrad.amp.cuda import *  # noqa: F403
from jitgrad.amp.cuda import __all__  # noqa: F401
