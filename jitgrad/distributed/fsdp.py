"""Names of ``torch.distributed.fsdp``, which need several processes; see the package."""

from __future__ import annotations

from jitgrad.core.absent import absent_names

absent_names(__name__, "BackwardPrefetch CPUOffload FullStateDictConfig FullyShardedDataParallel MixedPrecision "
             "ShardingStrategy StateDictType fully_shard",
             "jitgrad runs in one process; torch.distributed.is_available() says so")  # fmt: skip
