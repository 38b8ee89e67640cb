"""Names of ``torch._subclasses.fake_tensor``."""

from __future__ import annotations

from jitgrad.core.absent import absent

__all__ = ["FakeTensor", "FakeTensorMode"]

_REASON = "tensors without memory are those of the meta device, which ops accept"
FakeTensor, FakeTensorMode = (absent("jitgrad._subclasses", n, _REASON) for n in ("FakeTensor", "FakeTensorMode"))
