"""Lines of text: branches, indentation, and zeros that are not worth a line."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["if_lines", "indented", "tidy"]

_ZERO = re.compile(r"( *)(\w+) = 0\.0$")


def tidy(lines: list[str]) -> list[str]:
    """The lines with the first thing that is added to a zero assigned in its place, and no zeros that nobody reads."""
    kept: list[str | None] = list(lines)
    for k, line in enumerate(lines):
        if found := _ZERO.match(line):
            _merge_zero(kept, k, found[1], found[2])
    return [line for line in kept if line is not None]


def _merge_zero(lines: list[str | None], at: int, indent: str, name: str) -> None:
    word = re.compile(rf"\b{name}\b")
    for k in range(at + 1, len(lines)):
        line = lines[k]
        if line is None:
            continue
        if len(line) - len(line.lstrip()) < len(indent):
            return  # what follows may read it, in another iteration
        if word.search(line):
            start = f"{indent}{name} += "
            if line.startswith(start) and not word.search(line[len(start):]):
                lines[k] = f"{indent}{name} = {line[len(start):]}"
                lines[at] = None
            return


def if_lines(test: str, yes: Sequence[str], no: Sequence[str]) -> list[str]:
    """``if test: yes else: no``, without sides that are empty."""
    lines: list[str] = []
    if yes:
        lines += [f"if {test}:", *indented(yes)]
    if no:
        lines += ["else:" if yes else f"if not {test}:", *indented(no)]
    return lines


def indented(lines: Sequence[str]) -> list[str]:
    """The lines, one level further in."""
    return [f"    {line}" for line in lines]
