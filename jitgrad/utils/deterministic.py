"""``torch.utils.deterministic``: a flag of programs, without effect; memory that isn't written is never read."""

from __future__ import annotations

fill_uninitialized_memory = True
