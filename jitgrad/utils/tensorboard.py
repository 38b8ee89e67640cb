"""``torch.utils.tensorboard``: SummaryWriter of the package tensorboardX, which needs no PyTorch."""

from __future__ import annotations

try:
    from tensorboardX import FileWriter, RecordWriter, SummaryWriter  # type: ignore[import-not-found]
except ImportError as error:
    raise ImportError("torch.utils.tensorboard writes by tensorboardX: pip install tensorboardX") from error

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]
