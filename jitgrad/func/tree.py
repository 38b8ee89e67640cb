"""Pytrees: nested containers of leaves, flattened to a list of the leaves and a structure that puts them back.

Containers are tuples, lists, dictionaries, named tuples, deques, and what users register; all else is a leaf, None
too. jitgrad.utils._pytree has the same under PyTorch's names.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

__all__ = [
    "KINDS",
    "LEAF",
    "Kind",
    "Structure",
    "broadcast_prefix",
    "flatten",
    "leaves_of",
    "map_leaves",
    "register",
    "unflatten",
]  # fmt: skip

IsLeaf = Callable[[Any], bool] | None


# -- kinds of containers ------------------------------------------------------------------------------


class Kind(NamedTuple):
    """How containers of a type are taken apart, ``flatten(tree)`` is (children, context), and put together again."""

    flatten: Callable[[Any], tuple[Iterable[Any], Any]]
    unflatten: Callable[[Any, Any], Any]
    flatten_with_keys: Callable[[Any], tuple[Any, Any]] | None = None  # ((key, child) of each child, context)


KINDS: dict[Any, Kind] = {
    tuple: Kind(lambda tree: (list(tree), None), lambda children, _: tuple(children)),
    list: Kind(lambda tree: (list(tree), None), lambda children, _: list(children)),
    dict: Kind(
        lambda tree: (list(tree.values()), list(tree)), lambda children, keys: dict(zip(keys, children, strict=True))
    ),
    OrderedDict: Kind(
        lambda tree: (list(tree.values()), list(tree)),
        lambda children, keys: OrderedDict(zip(keys, children, strict=True)),
    ),
    defaultdict: Kind(
        lambda tree: (list(tree.values()), [tree.default_factory, list(tree)]),
        lambda children, context: defaultdict(context[0], zip(context[1], children, strict=True)),
    ),
    deque: Kind(lambda tree: (list(tree), tree.maxlen), lambda children, length: deque(children, maxlen=length)),
    # Stands for the types of all named tuples.
    namedtuple: Kind(lambda tree: (list(tree), type(tree)), lambda children, cls: cls(*children)),
}
_BUILT_IN = frozenset(KINDS)
_DICTIONARIES = (dict, OrderedDict, defaultdict)


def register(cls: type[Any], kind: Kind) -> None:
    """Make a type a kind of container. ValueError if it is one already."""
    if cls in KINDS:
        raise ValueError(f"{cls} is already registered as pytree node.")
    KINDS[cls] = kind


def kind_of(tree: Any) -> Any:
    """The type of an object, ``namedtuple`` for all named tuples: a key of KINDS for containers, none for leaves."""
    kind = type(tree)
    if kind in KINDS or not issubclass(kind, tuple):
        return kind
    named = isinstance(getattr(kind, "_fields", None), tuple) and hasattr(kind, "_make")
    return namedtuple if named else kind


# -- structures ---------------------------------------------------------------------------------------


class Structure:
    """A tree without its leaves: type and context (keys of a dictionary) of the root, structures of its children.

    The type of a leaf is None. PyTorch's TreeSpec; its ``repr`` is the same.
    """

    __slots__ = ("_children", "context", "num_leaves", "num_nodes", "type")

    def __init__(self, type: Any, context: Any, children_specs: Sequence[Structure]):
        self.type, self.context, self._children = type, context, tuple(children_specs)
        self.num_leaves: int = 1 if type is None else sum([c.num_leaves for c in self._children])
        self.num_nodes: int = 1 + sum([c.num_nodes for c in self._children])

    @property
    def num_children(self) -> int:
        """The number of children of the root."""
        return len(self._children)

    def children(self) -> list[Structure]:
        """The structures of the root's children."""
        return list(self._children)

    def child(self, index: int) -> Structure:
        """The structure of one of the root's children."""
        return self._children[index]

    def is_leaf(self) -> bool:
        """Whether the tree is a single leaf."""
        return self.type is None

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Structure) and self.type is other.type and self.context == other.context
            and self._children == other._children
        )  # fmt: skip

    def __hash__(self) -> int:
        return hash((self.type, len(self._children), self.num_leaves))

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree with these leaves. ValueError for too few or too many."""
        leaves = leaves if isinstance(leaves, (list, tuple)) else list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a pytree that "
                f"holds {self.num_leaves} items ({self})."
            )
        return self._built(iter(leaves))

    def _built(self, leaves: Iterator[Any]) -> Any:
        """The tree with the next leaves of an iterator."""
        if self.type is None:
            return next(leaves)
        if self.type is tuple and self.num_nodes == self.num_leaves + 1:  # a tuple of leaves, as most are
            return tuple(itertools.islice(leaves, self.num_leaves))
        return KINDS[self.type].unflatten([c._built(leaves) for c in self._children], self.context)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The subtrees of ``tree`` at the places of this structure's leaves. ValueError where the structures differ."""
        if self.type is None:
            return [tree]
        parts = zip(self._children_of(tree), self._children, strict=True)
        return [found for part, child in parts for found in child.flatten_up_to(part)]

    def _children_of(self, tree: Any) -> Any:
        """The children of a tree whose root must be like this structure's; dictionaries of any type are alike."""
        kind = kind_of(tree)
        dictionaries = self.type in _DICTIONARIES and kind in _DICTIONARIES
        if kind is not self.type and not dictionaries:
            what = "Node type mismatch" if self.type in _BUILT_IN else "Type mismatch"
            raise ValueError(f"{what}; expected {self.type!r}, but got {kind!r}.")
        children, context = KINDS[kind].flatten(tree)
        children = list(children)
        if len(children) != len(self._children):
            raise ValueError(f"Node arity mismatch; expected {len(self._children)}, but got {len(children)}.")
        if dictionaries:
            return self._values_of(tree)
        if kind is not deque and context != self.context:
            raise ValueError(
                f"Node context mismatch for node type {kind!r}; expected {self.context!r}, but got {context!r}."
                if kind in _BUILT_IN else f"Node context mismatch for custom node type {kind!r}."
            )  # fmt: skip
        return children

    def _values_of(self, tree: Any) -> list[Any]:
        """The values of any dictionary with the same keys, in this structure's order."""
        keys = self.context[1] if self.type is defaultdict else self.context
        missing, extra = set(keys) - set(tree), set(tree) - set(keys)
        if missing or extra:
            parts = [f"missing key(s): {missing}"] * bool(missing) + [f"extra key(s): {extra}"] * bool(extra)
            raise ValueError(f"Node keys mismatch; {'; '.join(parts)}.")
        return [tree[key] for key in keys]

    def outline(self) -> str:
        """The tree with ``*`` for leaves, as error messages show it."""
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


# -- flatten and unflatten ------------------------------------------------------------------------------


def flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], Structure]:
    """The leaves of a tree in order, and its structure. ``is_leaf(tree)`` may make leaves of containers."""
    leaves: list[Any] = []
    return leaves, _flatten_into(tree, leaves, is_leaf)


def _flatten_into(tree: Any, leaves: list[Any], is_leaf: IsLeaf) -> Structure:
    """Append the leaves of a tree to ``leaves`` and return its structure."""
    kind = kind_of(tree)
    if (is_leaf is not None and is_leaf(tree)) or kind not in KINDS:
        leaves.append(tree)
        return LEAF
    if kind is tuple:
        return _flatten_tuple(tree, leaves, is_leaf)
    children, context = KINDS[kind].flatten(tree)
    return Structure(kind, context, [_flatten_into(c, leaves, is_leaf) for c in children])


_TUPLES: dict[int, Structure] = {}  # structures of tuples of leaves, which most arguments are, by length


def _flatten_tuple(tree: tuple[Any, ...], leaves: list[Any], is_leaf: IsLeaf) -> Structure:
    """The same for a tuple; short tuples of leaves share one structure each."""
    children = [_flatten_into(c, leaves, is_leaf) for c in tree]
    if len(children) > 8 or children.count(LEAF) < len(children):
        return Structure(tuple, None, children)
    found = _TUPLES.get(len(children))
    if found is None:
        found = _TUPLES[len(children)] = Structure(tuple, None, children)
    return found


def leaves_of(tree: Any, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """The leaves of a tree, one after the other."""
    kind = kind_of(tree)
    if (is_leaf is not None and is_leaf(tree)) or kind not in KINDS:
        yield tree
        return
    for child in KINDS[kind].flatten(tree)[0]:
        yield from leaves_of(child, is_leaf)


def unflatten(leaves: Iterable[Any], structure: Structure) -> Any:
    """The tree of a structure with these leaves."""
    return structure.unflatten(leaves)


def map_leaves(function: Callable[..., Any], tree: Any, *others: Any, is_leaf: IsLeaf = None) -> Any:
    """The tree of ``function(leaf, *subtrees of others at the same place)`` for each leaf of ``tree``."""
    leaves, structure = flatten(tree, is_leaf)
    return structure.unflatten(list(map(function, leaves, *[structure.flatten_up_to(o) for o in others])))


def broadcast_prefix(prefix: Any, structure: Structure) -> list[Any] | None:
    """The leaves of ``prefix`` repeated for each leaf of ``structure``; None if it is no prefix.

    A prefix is a tree that ends earlier: one of its leaves stands for all leaves of the subtree at its place.
    """
    kind = kind_of(prefix)
    if kind not in KINDS:
        return [prefix] * structure.num_leaves
    if structure.type is None:
        return None
    children, context = KINDS[kind].flatten(prefix)
    children = list(children)
    if kind is not structure.type or context != structure.context or len(children) != structure.num_children:
        return None
    found = [broadcast_prefix(c, s) for c, s in zip(children, structure.children(), strict=True)]
    if any(f is None for f in found):
        return None
    return [value for f in found for value in f or ()]
