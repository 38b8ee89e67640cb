"""Paths of leaves: the keys that lead to a leaf from the root of a tree, and functions that return or take them."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from jitgrad.func.tree import KINDS, IsLeaf, flatten, kind_of

__all__ = [
    "GetAttrKey", "MappingKey", "SequenceKey", "key_get", "keystr", "tree_flatten_with_path", "tree_leaves_with_path",
    "tree_map_with_path",
]  # fmt: skip

Path = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class SequenceKey:
    """A place in a tuple, list or deque."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """The element."""
        return sequence[self.idx]


@dataclass(frozen=True, slots=True)
class MappingKey:
    """A key of a dictionary."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """The element."""
        return mapping[self.key]


@dataclass(frozen=True, slots=True)
class GetAttrKey:
    """An attribute, of a named tuple for instance."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """The element."""
        return getattr(obj, self.name)


def _keyed(tree: Any) -> Any:
    """(key, child) of each child of a container."""
    kind = kind_of(tree)
    if kind in (tuple, list, deque):
        return [(SequenceKey(k), child) for k, child in enumerate(tree)]
    if kind in (dict, OrderedDict, defaultdict):
        return [(MappingKey(key), child) for key, child in tree.items()]
    if kind is namedtuple:
        return [(GetAttrKey(name), child) for name, child in zip(tree._fields, tree, strict=True)]
    keyed = KINDS[kind].flatten_with_keys
    if keyed is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {kind}. Please pass a flatten_with_keys_fn argument to "
            "register_pytree_node."
        )
    return keyed(tree)[0]


def _walk(path: Path, tree: Any, is_leaf: IsLeaf) -> Iterator[tuple[Path, Any]]:
    if (is_leaf is not None and is_leaf(tree)) or kind_of(tree) not in KINDS:
        yield path, tree
        return
    for key, child in _keyed(tree):
        yield from _walk((*path, key), child, is_leaf)


def tree_leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[Path, Any]]:
    """(path, leaf) of each leaf. ValueError for registered types that don't tell their keys."""
    return list(_walk((), tree, is_leaf))


def tree_flatten_with_path(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[tuple[Path, Any]], Any]:
    """(path, leaf) of each leaf, and the structure."""
    return tree_leaves_with_path(tree, is_leaf), flatten(tree, is_leaf)[1]


def tree_map_with_path(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """The tree with ``func(path, leaf, ...)`` for each leaf, with the subtrees of others at its place."""
    found, structure = tree_flatten_with_path(tree, is_leaf)
    others = [structure.flatten_up_to(r) for r in rests]
    return structure.unflatten([func(*pair, *rest) for pair, *rest in zip(found, *others, strict=True)])


def keystr(kp: Path) -> str:
    """A path as text: ``['a'][0].b``."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: Path) -> Any:
    """The element of ``obj`` at a path."""
    for key in kp:
        obj = key.get(obj)
    return obj
