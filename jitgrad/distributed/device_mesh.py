"""Names of ``torch.distributed.device_mesh``, which need several processes; see the package."""

from __future__ import annotations

from jitgrad.core.absent import absent_names

absent_names(__name__, "DeviceMesh init_device_mesh",
             "jitgrad runs in one process; torch.distributed.is_available() says so")  # fmt: skip
