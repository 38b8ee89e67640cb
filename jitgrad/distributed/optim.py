"""Names of ``torch.distributed.optim``, which need several processes; see the package."""

from __future__ import annotations

from jitgrad.core.absent import absent_names

absent_names(__name__, "ZeroRedundancyOptimizer DistributedOptimizer PostLocalSGDOptimizer",
             "jitgrad runs in one process; torch.distributed.is_available() says so")  # fmt: skip
