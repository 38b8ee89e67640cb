"""Settings of PyTorch's compiler. Any name may be set and read; none has an effect."""

from __future__ import annotations

job_id = ""
cache_key_tag = ""
dynamic_sources = ""
