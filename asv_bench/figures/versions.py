"""Two checkouts of jitgrad in turns: whether a change made anything slower."""

from __future__ import annotations

from pathlib import Path

from .contenders import VERSIONS, Contender, turns_of_processes
from .table import Figure

__all__ = ["compare"]


def compare(other: str, seconds: float = 4.0) -> None:
    """Print the time of each work here and in the checkout ``other``, and the ratio."""
    contenders = {"this": Contender(), "other": Contender(checkout=Path(other))}
    figure = Figure("per call, this checkout and the other one", ("other",), limit=1.02, ours="this")
    for name in VERSIONS:
        figure.add(name, turns_of_processes(contenders, name, seconds))
    figure.show()
    for contender in contenders.values():
        contender.close()
