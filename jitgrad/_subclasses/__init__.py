"""Names of ``torch._subclasses``: tensors without memory that PyTorch's compiler runs programs on, not here."""

from jitgrad._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from jitgrad.core.absent import absent_names

absent_names(__name__, "CrossRefFakeMode FakeTensorConverter", "tensors without memory are those of the meta device")

__all__ = ["FakeTensor", "FakeTensorMode"]
