"""``torch.distributed``: a process by itself. ``is_available()`` is False, and what needs others is refused.

Programs that ask first run as one process. What they ask without asking (``get_rank``) fails as in PyTorch without a
process group.
"""

from __future__ import annotations

import enum
from typing import Any

from jitgrad.core.absent import absent_names

__all__ = [
    "ReduceOp", "destroy_process_group", "get_rank", "get_world_size", "init_process_group", "is_available",
    "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available", "is_torchelastic_launched",
]  # fmt: skip

_REASON = "jitgrad runs in one process; torch.distributed.is_available() says so"


def is_available() -> bool:
    """Whether processes can work together: never."""
    return False


is_initialized = is_gloo_available = is_mpi_available = is_nccl_available = is_torchelastic_launched = is_available
is_ucc_available = is_xccl_available = is_available


class ReduceOp(enum.Enum):
    """How values of several processes would be made one."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)


def _without_group(*args: Any, **kwargs: Any) -> Any:
    """ValueError: there is no process group, nor can there be one."""
    raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")


def init_process_group(*args: Any, **kwargs: Any) -> None:
    """NotImplementedError: there are no process groups."""
    raise NotImplementedError(f"torch.distributed.init_process_group: {_REASON}")


get_rank = get_world_size = get_backend = barrier = broadcast = all_reduce = all_gather = reduce = gather = scatter = (
    _without_group
)
all_gather_into_tensor = all_gather_object = reduce_scatter = reduce_scatter_tensor = all_to_all = _without_group
broadcast_object_list = gather_object = scatter_object_list = destroy_process_group = send = recv = _without_group
isend = irecv = new_group = get_process_group_ranks = get_global_rank = get_group_rank = _without_group

absent_names(__name__, "Backend DeviceMesh FileStore GradBucket HashStore P2POp PrefixStore ProcessGroup Store "
             "TCPStore Work group init_device_mesh", _REASON)  # fmt: skip
