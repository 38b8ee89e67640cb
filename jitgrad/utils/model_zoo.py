"""PyTorch's path for downloads of weights, which are refused: a program that computes opens no connections."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["load_url"]


def load_url(url: str, *args: Any, **kwargs: Any) -> NoReturn:
    """RuntimeError: nothing is downloaded."""
    raise RuntimeError(
        f"jitgrad downloads nothing. Fetch {url} by other means, and read the file with jitgrad.load(path)."
    )
