"""Names of ``torch.distributed.nn``, which need several processes; see the package."""

from __future__ import annotations

from jitgrad.core.absent import absent_names

absent_names(__name__, "RemoteModule all_gather all_reduce broadcast",
             "jitgrad runs in one process; torch.distributed.is_available() says so")  # fmt: skip
