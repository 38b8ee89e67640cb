"""PyTorch's names for functions on nests of containers, ``tree_map`` and its kin; they live in ``func/tree.py``."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from jitgrad.func.tree import KINDS as SUPPORTED_NODES
from jitgrad.func.tree import (
    LEAF,
    IsLeaf,
    Kind,
    Structure,
    broadcast_prefix,
    flatten,
    kind_of,
    leaves_of,
    map_leaves,
    register,
)
from jitgrad.func.tree_paths import (
    GetAttrKey,
    MappingKey,
    SequenceKey,
    key_get,
    keystr,
    tree_flatten_with_path,
    tree_leaves_with_path,
    tree_map_with_path,
)  # fmt: skip

__all__ = [
    "SUPPORTED_NODES", "GetAttrKey", "MappingKey", "PyTreeSpec", "SequenceKey", "TreeSpec", "arg_tree_leaves",
    "key_get", "keystr", "map_only", "register_pytree_node", "tree_all", "tree_all_only", "tree_any", "tree_any_only",
    "tree_flatten", "tree_flatten_with_path", "tree_is_leaf", "tree_iter", "tree_leaves", "tree_leaves_with_path",
    "tree_map", "tree_map_", "tree_map_only", "tree_map_only_", "tree_map_with_path", "tree_structure",
    "tree_unflatten", "treespec_leaf", "treespec_pprint",
]  # fmt: skip

TreeSpec: TypeAlias = Structure
PyTreeSpec: TypeAlias = Structure
tree_flatten, tree_map, tree_iter = flatten, map_leaves, leaves_of
Types = type[Any] | tuple[type[Any], ...] | types.UnionType


def register_pytree_node(
    cls: type[Any], flatten_fn: Callable[[Any], Any], unflatten_fn: Callable[[Any, Any], Any], *,
    flatten_with_keys_fn: Callable[[Any], Any] | None = None, **serialization: Any,
) -> None:  # fmt: skip
    """Make a type a container: ``flatten_fn(nest)`` is (children, context), ``unflatten_fn(children, context)`` a nest.

    ``flatten_with_keys_fn(nest)``, for key paths, is ([(key, child), ...], context). Options that say how to
    serialise structures are accepted and have no effect. ValueError if the type is registered.
    """
    register(cls, Kind(flatten_fn, unflatten_fn, flatten_with_keys_fn))


_register_pytree_node = register_pytree_node  # an older name


def _deregister_pytree_node(cls: type[Any]) -> None:
    """Undo ``register_pytree_node``."""
    del SUPPORTED_NODES[cls]


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The nest of a structure with these leaves: the inverse of ``tree_flatten``. ValueError for the wrong number."""
    if not isinstance(treespec, TreeSpec):
        if not isinstance(leaves, TreeSpec):
            raise TypeError(
                f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}."
            )
        leaves, treespec = treespec, leaves  # PyTorch takes them in either order
    return treespec.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of a nest in order."""
    return list(leaves_of(tree, is_leaf))


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """The leaves of all arguments."""
    return tree_leaves((args, kwargs))


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeSpec:
    """The structure of a nest."""
    return flatten(tree, is_leaf)[1]


def tree_is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether a nest is a leaf, that is, no container or one that ``is_leaf`` takes for a leaf."""
    return bool(is_leaf is not None and is_leaf(tree)) or kind_of(tree) not in SUPPORTED_NODES


def treespec_leaf() -> TreeSpec:
    """The structure of a leaf."""
    return LEAF


def treespec_pprint(treespec: TreeSpec) -> str:
    """A structure as the nest with stars for leaves."""
    return treespec.outline()


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """Call ``func`` on each leaf, together with what other nests have in its place, and return the nest itself."""
    leaves, structure = flatten(tree, is_leaf)
    deque(map(func, leaves, *[structure.flatten_up_to(r) for r in rests]), maxlen=0)
    return tree


def map_only(types_or_pred: Types | Callable[[Any], bool], /) -> Callable[[Callable[[Any], Any]], Any]:
    """A decorator: the function is for values of these types, or that the predicate wants; others pass unchanged."""
    wanted: Any
    if isinstance(types_or_pred, (type, tuple, types.UnionType)):
        wanted = lambda value: isinstance(value, types_or_pred)
    elif callable(types_or_pred):
        wanted = types_or_pred
    else:
        raise TypeError("Argument must be a type, a tuple of types, or a callable.")
    return lambda func: lambda value: func(value) if wanted(value) else value


def tree_map_only(
    types_or_pred: Types | Callable[[Any], bool], /, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None
) -> Any:
    """The nest with ``func`` applied to the leaves of these types, or that the predicate wants."""
    return map_leaves(map_only(types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    types_or_pred: Types | Callable[[Any], bool], /, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None
) -> Any:
    """Call ``func`` on the leaves of these types, or that the predicate wants, and return the nest itself."""
    return tree_map_(map_only(types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether all leaves satisfy a predicate."""
    return all(map(pred, leaves_of(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether any leaf satisfies a predicate."""
    return any(map(pred, leaves_of(tree, is_leaf)))


def tree_all_only(types: Types, /, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether all leaves of these types satisfy a predicate."""
    return all(pred(leaf) for leaf in leaves_of(tree, is_leaf) if isinstance(leaf, types))


def tree_any_only(types: Types, /, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether any leaf of these types satisfies a predicate."""
    return any(pred(leaf) for leaf in leaves_of(tree, is_leaf) if isinstance(leaf, types))


def _broadcast_to_and_flatten(tree: Any, treespec: TreeSpec, is_leaf: IsLeaf = None) -> list[Any] | None:
    """A value for each leaf of a structure, from a nest that may stop early; None where they do not fit."""
    return broadcast_prefix(tree, treespec)
