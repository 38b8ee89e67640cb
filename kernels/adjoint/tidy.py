"""Lines of text: branches, indentation, and zeros that are not worth a line."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["add_last", "if_lines", "indented", "tidy"]

_ZERO = re.compile(r"( *)(\w+(?:\[[^\[\]]+\])?) = 0\.0$")
_SET = re.compile(r" *(?:for ([\w, ]+?) in |([\w, ]+?) (?:\+|-|\*|/)?= )")


def tidy(lines: list[str]) -> list[str]:
    """The lines with the first thing that is added to a zero assigned in its place, and no zeros that nobody reads."""
    kept: list[str | None] = list(lines)
    for k, line in enumerate(lines):
        if found := _ZERO.match(line):
            _merge_zero(kept, k, found[1], found[2])
    return [line for line in kept if line is not None]


def _merge_zero(lines: list[str | None], at: int, indent: str, target: str) -> None:
    name, _, index = target.partition("[")
    word = re.compile(rf"\b{name}\b")
    for k in range(at + 1, len(lines)):
        line = lines[k]
        if line is None:
            continue
        if len(line) - len(line.lstrip()) < len(indent):
            return  # what follows may read it, in another iteration
        if word.search(line):
            start = f"{indent}{target} += "
            if line.startswith(start) and not word.search(line[len(start):]):
                lines[k] = f"{indent}{target} = {line[len(start):]}"
                lines[at] = None
            return
        if _sets(line) & _names(index):
            return  # the same text is another element from here on


def add_last(lines: Sequence[str], target: str, more: str) -> list[str]:
    """The lines with ``target += more``, an element, behind them: with what is last added to it, if that can wait."""
    kept = list(lines)
    word = re.compile(rf"\b{target.partition('[')[0]}\b")
    mentions = [k for k, line in enumerate(kept) if word.search(line) and not line.lstrip().startswith("#")]
    last = kept[mentions[-1]] if mentions else ""
    for sign in ("=", "+="):
        amount = last.removeprefix(f"{target} {sign} ")
        if amount != last and "[" not in amount:  # memory may change meanwhile
            later = [name for line in kept[mentions[-1] + 1 :] for name in _sets(line)]
            if not _names(f"{target} {amount}") & {*later}:
                del kept[mentions[-1]]
                amount = amount if amount.isidentifier() else f"({amount})"
                return [*kept, f"{target} {sign} {amount} + {more}"]
    return [*kept, f"{target} += {more}"]


def _sets(line: str) -> set[str]:
    """The names that a line gives values to."""
    found = _SET.match(line)
    return _names(found[1] or found[2]) if found else set()


def _names(text: str) -> set[str]:
    return {*re.findall(r"[A-Za-z_]\w*", text)}


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
