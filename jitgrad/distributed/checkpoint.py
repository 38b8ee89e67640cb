"""Names of ``torch.distributed.checkpoint``, which need several processes; see the package."""

from __future__ import annotations

from jitgrad.core.absent import absent_names

absent_names(__name__, "FileSystemReader FileSystemWriter load save async_save",
             "jitgrad runs in one process; torch.distributed.is_available() says so")  # fmt: skip
