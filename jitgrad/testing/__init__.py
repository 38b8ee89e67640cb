"""For tests: assert_close, make_tensor, samples of every declared op."""

from .comparison import assert_allclose, assert_close
from .creation import make_tensor
from .samples import elementwise_sample, op_samples

__all__ = ["assert_allclose", "assert_close", "make_tensor", "op_samples"]
