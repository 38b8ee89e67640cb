"""Names of ``torch.distributed.tensor``, which need several processes; see the package."""

from __future__ import annotations

from jitgrad.core.absent import absent_names

absent_names(__name__, "DTensor DeviceMesh Placement Replicate Shard Partial distribute_module distribute_tensor",
             "jitgrad runs in one process; torch.distributed.is_available() says so")  # fmt: skip
