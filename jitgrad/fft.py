"""Fourier transforms: ``torch.fft``. The ops are in ``jitgrad/ops/fft/``."""

from jitgrad.dispatch.registry import module_names

__getattr__, __dir__ = module_names("fft")
