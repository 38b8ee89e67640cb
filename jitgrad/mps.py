"""``torch.mps``: Apple's GPUs, for which there are no kernels."""

from __future__ import annotations

from jitgrad.core.no_device import no_device

globals().update(no_device(__name__, "Apple's GPUs"))
