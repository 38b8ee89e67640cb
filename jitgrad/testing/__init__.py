"""For tests of programs: ``assert_close`` and ``make_tensor``, which PyTorch has, and samples of every declared op.

``comparison.py`` compares nests of tensors, ``random_tensors.py`` draws tensors of any dtype and shape,
``samples.py`` yields operands inside an op's domain, for tests that are generated from declarations; ``pair_check.py``
compares what the loops of a kernel_pair compute (``JITGRAD_CHECK``). What only jitgrad's own tests need belongs to
``tests/``. The wording of failures is PyTorch's where PyTorch has the function.
"""

from jitgrad.core.missing_names import explain_missing_names
from jitgrad.testing.comparison import assert_allclose, assert_close
from jitgrad.testing.pair_check import check_pair
from jitgrad.testing.random_tensors import make_tensor
from jitgrad.testing.samples import elementwise_sample, op_samples

__all__ = ["assert_allclose", "assert_close", "check_pair", "make_tensor", "op_samples"]

explain_missing_names(__name__)
