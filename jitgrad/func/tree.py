"""Nests of containers as a flat list of leaves and a structure to put them back.

Containers are tuples, lists, dictionaries, named tuples, deques, and what users register; all else is a leaf,
also None. `jitgrad.utils._pytree` has the same under PyTorch's names.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

__all__ = ["KINDS", "LEAF", "Kind", "Structure", "flatten", "leaves_of", "map_leaves", "register", "spread",
           "unflatten"]  # fmt: skip

IsLeaf = Callable[[Any], bool] | None


# -- kinds of containers ------------------------------------------------------------------------------


class Kind(NamedTuple):
    """How containers of a type come apart, and are put together: ``parts(nest)`` is (children, context)."""

    parts: Callable[[Any], tuple[Iterable[Any], Any]]
    build: Callable[[Any, Any], Any]
    keyed: Callable[[Any], tuple[Any, Any]] | None = None  # the same with a key beside each child


KINDS: dict[Any, Kind] = {
    tuple: Kind(lambda nest: (list(nest), None), lambda children, _: tuple(children)),
    list: Kind(lambda nest: (list(nest), None), lambda children, _: list(children)),
    dict: Kind(
        lambda nest: (list(nest.values()), list(nest)), lambda children, keys: dict(zip(keys, children, strict=True))
    ),
    OrderedDict: Kind(
        lambda nest: (list(nest.values()), list(nest)),
        lambda children, keys: OrderedDict(zip(keys, children, strict=True)),
    ),
    defaultdict: Kind(
        lambda nest: (list(nest.values()), [nest.default_factory, list(nest)]),
        lambda children, context: defaultdict(context[0], zip(context[1], children, strict=True)),
    ),
    deque: Kind(lambda nest: (list(nest), nest.maxlen), lambda children, length: deque(children, maxlen=length)),
    # Stands for the types of all named tuples.
    namedtuple: Kind(lambda nest: (list(nest), type(nest)), lambda children, cls: cls(*children)),
}
_BUILT_IN = frozenset(KINDS)
_DICTIONARIES = (dict, OrderedDict, defaultdict)


def register(cls: type[Any], kind: Kind) -> None:
    """Make a type a kind of container. ValueError if it is one."""
    if cls in KINDS:
        raise ValueError(f"{cls} is already registered as pytree node.")
    KINDS[cls] = kind


def kind_of(nest: Any) -> Any:
    """What KINDS knows a container by; for leaves, what it doesn't know."""
    kind = type(nest)
    if kind in KINDS or not issubclass(kind, tuple):
        return kind
    named = isinstance(getattr(kind, "_fields", None), tuple) and hasattr(kind, "_make")
    return namedtuple if named else kind


# -- structures ---------------------------------------------------------------------------------------


class Structure:
    """How a nest is built: the type of its root, what the type needs, and the structures of its children.

    The type of a leaf is None.
    """

    __slots__ = ("_children", "context", "num_leaves", "num_nodes", "type")

    def __init__(self, type: Any, context: Any, children_specs: Sequence[Structure]):
        self.type, self.context, self._children = type, context, tuple(children_specs)
        self.num_leaves: int = 1 if type is None else sum([c.num_leaves for c in self._children])
        self.num_nodes: int = 1 + sum([c.num_nodes for c in self._children])

    @property
    def num_children(self) -> int:
        """The number of structures right below."""
        return len(self._children)

    def children(self) -> list[Structure]:
        """The structures right below."""
        return list(self._children)

    def child(self, index: int) -> Structure:
        """One of the structures right below."""
        return self._children[index]

    def is_leaf(self) -> bool:
        """Whether this is a leaf alone."""
        return self.type is None

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Structure) and self.type is other.type and self.context == other.context
            and self._children == other._children
        )  # fmt: skip

    def __hash__(self) -> int:
        return hash((self.type, len(self._children), self.num_leaves))

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The nest with these leaves. ValueError for too few or too many."""
        leaves = leaves if isinstance(leaves, (list, tuple)) else list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a pytree that "
                f"holds {self.num_leaves} items ({self})."
            )
        return self._built(iter(leaves))

    def _built(self, leaves: Iterator[Any]) -> Any:
        if self.type is None:
            return next(leaves)
        if self.type is tuple and self.num_nodes == self.num_leaves + 1:  # a tuple of leaves, as most are
            return tuple(itertools.islice(leaves, self.num_leaves))
        return KINDS[self.type].build([c._built(leaves) for c in self._children], self.context)

    def flatten_up_to(self, nest: Any) -> list[Any]:
        """What ``nest`` has in the places of the leaves, which may be nests. ValueError where it does not fit."""
        if self.type is None:
            return [nest]
        parts = zip(self._parts_of(nest), self._children, strict=True)
        return [found for part, child in parts for found in child.flatten_up_to(part)]

    def _parts_of(self, nest: Any) -> Any:
        kind = kind_of(nest)
        dictionaries = self.type in _DICTIONARIES and kind in _DICTIONARIES
        if kind is not self.type and not dictionaries:
            what = "Node type mismatch" if self.type in _BUILT_IN else "Type mismatch"
            raise ValueError(f"{what}; expected {self.type!r}, but got {kind!r}.")
        children, context = KINDS[kind].parts(nest)
        children = list(children)
        if len(children) != len(self._children):
            raise ValueError(f"Node arity mismatch; expected {len(self._children)}, but got {len(children)}.")
        if dictionaries:
            return self._values_of(nest)
        if kind is not deque and context != self.context:
            raise ValueError(
                f"Node context mismatch for node type {kind!r}; expected {self.context!r}, but got {context!r}."
                if kind in _BUILT_IN else f"Node context mismatch for custom node type {kind!r}."
            )  # fmt: skip
        return children

    def _values_of(self, nest: Any) -> list[Any]:
        """The values of any dictionary with the same keys, in this structure's order."""
        keys = self.context[1] if self.type is defaultdict else self.context
        missing, extra = set(keys) - set(nest), set(nest) - set(keys)
        if missing or extra:
            parts = [f"missing key(s): {missing}"] * bool(missing) + [f"extra key(s): {extra}"] * bool(extra)
            raise ValueError(f"Node keys mismatch; {'; '.join(parts)}.")
        return [nest[key] for key in keys]

    def outline(self) -> str:
        """The nest with stars for leaves."""
        return repr(unflatten(itertools.repeat(_STAR, self.num_leaves), self))

    def __repr__(self) -> str:
        return self._text(0)

    def _text(self, indent: int) -> str:
        if self.type is None:
            return "*"
        lines = (",\n" + " " * (indent + 2)).join(c._text(indent + 2) for c in self._children)
        return f"TreeSpec({self.type.__name__}, {self.context}, [{lines}])"


class _Star:
    def __repr__(self) -> str:
        return "*"


_STAR = _Star()
LEAF = Structure(None, None, ())


# -- apart, and together ------------------------------------------------------------------------------


def flatten(nest: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], Structure]:
    """The leaves of a nest in order, and its structure. ``is_leaf(nest)`` may make leaves of containers."""
    leaves: list[Any] = []
    return leaves, _taken_apart(nest, leaves, is_leaf)


def _taken_apart(nest: Any, leaves: list[Any], is_leaf: IsLeaf) -> Structure:
    kind = kind_of(nest)
    if (is_leaf is not None and is_leaf(nest)) or kind not in KINDS:
        leaves.append(nest)
        return LEAF
    if kind is tuple:
        return _tuple_apart(nest, leaves, is_leaf)
    children, context = KINDS[kind].parts(nest)
    return Structure(kind, context, [_taken_apart(c, leaves, is_leaf) for c in children])


_TUPLES: dict[int, Structure] = {}  # of leaves, by their number


def _tuple_apart(nest: tuple[Any, ...], leaves: list[Any], is_leaf: IsLeaf) -> Structure:
    children = [_taken_apart(c, leaves, is_leaf) for c in nest]
    if len(children) > 8 or children.count(LEAF) < len(children):
        return Structure(tuple, None, children)
    found = _TUPLES.get(len(children))
    if found is None:
        found = _TUPLES[len(children)] = Structure(tuple, None, children)
    return found


def leaves_of(nest: Any, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """The leaves of a nest, one after the other."""
    kind = kind_of(nest)
    if (is_leaf is not None and is_leaf(nest)) or kind not in KINDS:
        yield nest
        return
    for child in KINDS[kind].parts(nest)[0]:
        yield from leaves_of(child, is_leaf)


def unflatten(leaves: Iterable[Any], structure: Structure) -> Any:
    """The nest of a structure with these leaves."""
    return structure.unflatten(leaves)


def map_leaves(function: Callable[..., Any], nest: Any, *others: Any, is_leaf: IsLeaf = None) -> Any:
    """The nest with ``function`` applied to each leaf, together with what other nests have in its place."""
    leaves, structure = flatten(nest, is_leaf)
    return structure.unflatten(list(map(function, leaves, *[structure.flatten_up_to(o) for o in others])))


def spread(prefix: Any, structure: Structure) -> list[Any] | None:
    """A value for each leaf of ``structure``, from a nest that may stop early; None where they do not fit."""
    kind = kind_of(prefix)
    if kind not in KINDS:
        return [prefix] * structure.num_leaves
    if structure.type is None:
        return None
    children, context = KINDS[kind].parts(prefix)
    children = list(children)
    if kind is not structure.type or context != structure.context or len(children) != structure.num_children:
        return None
    found = [spread(c, s) for c, s in zip(children, structure.children(), strict=True)]
    if any(f is None for f in found):
        return None
    return [value for f in found for value in f or ()]
