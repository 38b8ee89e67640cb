"""Modules run on several devices, of which there is one: what programs wrap a model in still runs it.

``DataParallel`` calls the module, as PyTorch's does on a CPU. ``DistributedDataParallel`` is refused: there are no
process groups.
"""

from jitgrad.core.missing_names import explain_missing_names
from jitgrad.nn.parallel.data_parallel import DataParallel, data_parallel
from jitgrad.nn.parallel.distributed import DistributedDataParallel
from jitgrad.nn.parallel.parallel_apply import parallel_apply

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel", "parallel_apply"]

explain_missing_names(__name__)
