"""PyTorch's path to the grad modes, which live in ``jitgrad.core``."""

from jitgrad.core.grad_mode import enable_grad, no_grad, set_grad_enabled
from jitgrad.core.inference import inference_mode

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled"]
