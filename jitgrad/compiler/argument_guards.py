"""Guards of arguments: what they are made of, by structure; which are one object, and which have to be the very same.

Structures of pytrees compare keys of dictionaries by ``==``, which 1, 1.0 and True are; a recording has read one of
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jitgrad.compiler.guards import Names, one_each
from jitgrad.compiler.notes import Notes, same
from jitgrad.compiler.recording import Recording
from jitgrad.core.tensor import Tensor
from jitgrad.func.tree import Structure

__all__ = ["argument_lines"]


def argument_lines(recording: Recording, numbers: Mapping[int, int], name: Names) -> list[str]:
    """Lines that take the arguments apart and compare their structure and all but tensors with the recording's.

    numbers: by id, which of the leaves one is.
    """
    leaves, notes = recording.leaves, recording.notes
    names = [f"a{k}" for k in range(len(leaves))]
    lines = _structure(recording.structure, names, name)
    pairs = list(zip(names, leaves, strict=True))
    plain = [(n, leaf) for n, leaf in pairs if not isinstance(leaf, Tensor)]
    twice = [(n, numbers[id(leaf)]) for n, leaf in pairs if isinstance(leaf, Tensor)]
    lines += [f"if {n} is not a{k}: return MISS" for n, k in twice if n != f"a{k}"]
    pinned = [leaf for leaf in leaves if id(leaf) in notes.found_elsewhere]
    lines += [f"if a{numbers[id(leaf)]} is not {name(leaf)}: return MISS" for leaf in pinned]
    lines += _containers(notes, name)
    lines += [f"if not ({name.equals(n, leaf)}): return MISS" for n, leaf in plain]
    others = frozenset(i for i, n in notes.tensors.items() if i not in numbers and n.owner is None)
    return lines + one_each([n for n, k in twice if n == f"a{k}"], name(others) if others else "")


def _structure(structure: Structure, names: list[str], name: Names) -> list[str]:
    """Lines that compare the structure, and bind the leaves to names."""
    positional, keywords = structure.children()
    if keywords.num_leaves == 0 and all(c.type is None for c in positional.children()):
        lines = [f"if len(args) != {len(names)} or kwargs: return MISS"]
        return [*lines, f"{', '.join(names)}, = args"] if names else lines
    lines = ["leaves, structure = flatten((args, kwargs))", f"if structure != {name(structure)}: return MISS"]
    if not all(type(key) is str for key in _keys_of(structure)):
        lines.append(f"if not {name(_alike)}(structure, {name(structure)}): return MISS")
    return [*lines, f"{', '.join(names)}, = leaves"] if names else lines


def _containers(notes: Notes, name: Names) -> list[str]:
    """Lines for containers that the function has found elsewhere too, or been given twice, or that are apart."""
    lines, apart = list[str](), list[str]()
    first: dict[int, str] = {}
    for container, (start, *keys) in notes.containers:
        here = start + "".join(f"[{name(key)}]" for key in keys)
        if id(container) in notes.found_elsewhere:
            lines.append(f"if {here} is not {name(container)}: return MISS")
        elif id(container) in first:
            lines.append(f"if {here} is not {first[id(container)]}: return MISS")
        elif not isinstance(container, tuple):  # equal tuples are as good as one
            apart.append(here)
        first.setdefault(id(container), here)
    kinds = {type(container) for container, _ in notes.containers}
    others = frozenset(i for i, known in notes.known.items() if i not in first and type(known) in kinds)
    return lines + one_each(apart, name(others) if others else "")


# -- keys of dictionaries ---------------------------------------------------------------------------------


def _keys_of(structure: Structure) -> Iterator[Any]:
    """The keys of all dictionaries in a structure."""
    context = structure.context
    if isinstance(context, list):
        yield from context[1] if len(context) == 2 and isinstance(context[1], list) else context
    for child in structure.children():
        yield from _keys_of(child)


def _alike(structure: Structure, other: Structure) -> bool:
    """Whether the keys of two structures that are equal can stand for each other."""
    return all(map(_same_key, _keys_of(structure), _keys_of(other)))


def _same_key(key: Any, other: Any) -> bool:
    if type(key) is tuple and type(other) is tuple and len(key) == len(other):
        return all(map(_same_key, key, other))
    return same(key, other)
