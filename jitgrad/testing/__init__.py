"""For tests: assert_close, make_tensor, samples of every declared op."""

from jitgrad.testing.comparison import assert_allclose, assert_close
from jitgrad.testing.creation import make_tensor
from jitgrad.testing.samples import elementwise_sample, op_samples

__all__ = ["assert_allclose", "assert_close", "make_tensor", "op_samples"]
