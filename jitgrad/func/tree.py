"""Nested tuples, lists and dictionaries as a flat list of leaves and a structure to put them back."""

from __future__ import annotations

import itertools
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

__all__ = ["Structure", "flatten", "map_leaves", "spread", "unflatten"]


class Structure:
    """How a nest is built: the kind of a node, what the kind needs, and the structures of its children."""

    __slots__ = ("children", "context", "kind")

    def __init__(self, kind: Any, context: Any, children: tuple[Structure, ...]):
        self.kind, self.context, self.children = kind, context, children

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Structure) and self.kind is other.kind and self.context == other.context
            and self.children == other.children
        )  # fmt: skip

    def __hash__(self) -> int:
        return hash((self.kind, len(self.children)))

    def count(self) -> int:
        """The number of leaves."""
        return 1 if self.kind is None else sum(c.count() for c in self.children)

    def outline(self) -> str:
        """The nest with stars for leaves."""
        return repr(unflatten(itertools.repeat(_STAR), self))

    def __repr__(self) -> str:
        return self._text(0)

    def _text(self, indent: int) -> str:
        if self.kind is None:
            return "*"
        lines = (",\n" + " " * (indent + 2)).join(c._text(indent + 2) for c in self.children)
        return f"TreeSpec({self.kind.__name__}, {self.context}, [{lines}])"


class _Star:
    def __repr__(self) -> str:
        return "*"


_STAR = _Star()
LEAF = Structure(None, None, ())


def _parts(nest: Any) -> tuple[Any, Any, list[Any]] | None:
    """(kind, context, children) of a node; None for a leaf."""
    kind = type(nest)
    if kind in (tuple, list):
        return kind, None, list(nest)
    if kind in (dict, OrderedDict):
        return kind, list(nest), list(nest.values())
    if kind is defaultdict:
        return kind, (nest.default_factory, list(nest)), list(nest.values())
    if kind is deque:
        return kind, nest.maxlen, list(nest)
    if isinstance(nest, tuple) and hasattr(nest, "_fields"):
        return kind, None, list(nest)
    return None


def flatten(nest: Any) -> tuple[list[Any], Structure]:
    """The leaves of a nest in order, and its structure. All but containers are leaves."""
    parts = _parts(nest)
    if parts is None:
        return [nest], LEAF
    kind, context, children = parts
    pairs = [flatten(c) for c in children]
    return [leaf for leaves, _ in pairs for leaf in leaves], Structure(kind, context, tuple(s for _, s in pairs))


def unflatten(leaves: Iterable[Any], structure: Structure) -> Any:
    """The nest of a structure with these leaves."""
    return _built(iter(leaves), structure)


def _built(leaves: Iterator[Any], structure: Structure) -> Any:
    kind, context = structure.kind, structure.context
    if kind is None:
        return next(leaves)
    children = [_built(leaves, c) for c in structure.children]
    if kind in (tuple, list):
        return kind(children)
    if kind in (dict, OrderedDict):
        return kind(zip(context, children, strict=True))
    if kind is defaultdict:
        return defaultdict(context[0], zip(context[1], children, strict=True))
    return deque(children, maxlen=context) if kind is deque else kind(*children)


def map_leaves(function: Callable[..., Any], nest: Any, *others: Any) -> Any:
    """The nest with ``function`` applied to each leaf, together with those of nests of the same structure."""
    leaves, structure = flatten(nest)
    rest = [flatten(o)[0] for o in others]
    return unflatten([function(*values) for values in zip(leaves, *rest, strict=True)], structure)


def spread(prefix: Any, structure: Structure) -> list[Any] | None:
    """A value for each leaf of ``structure``, from a nest that may stop early; None where they do not fit."""
    if structure.kind is None:
        return [prefix] if _parts(prefix) is None else None
    parts = _parts(prefix)
    if parts is None:
        return [prefix] * structure.count()
    kind, context, children = parts
    if kind is not structure.kind or context != structure.context or len(children) != len(structure.children):
        return None
    found = [spread(c, s) for c, s in zip(children, structure.children, strict=True)]
    if any(f is None for f in found):
        return None
    return [value for f in found for value in f or ()]
