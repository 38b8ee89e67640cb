"""Names of ``torch._subclasses``: tensors without memory that PyTorch's compiler runs programs on, not here."""

from jitgrad._subclasses.fake_tensor import FakeTensor, FakeTensorMode

__all__ = ["FakeTensor", "FakeTensorMode"]
