"""Settings of PyTorch's ahead-of-time autograd. Any name may be set and read; none has an effect."""

from jitgrad._dynamo.config import patch

__all__ = ["patch"]

donated_buffer = functionalize_rng_ops = False
activation_memory_budget = 1.0
