"""Nests of containers against PyTorch: leaves, structures, how they print, paths, errors."""

from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest
from torch.utils import _pytree as theirs

from jitgrad.utils import _pytree as ours

Point = namedtuple("Point", "x y")
NESTS = [
    1, None, (), [], {}, (1, 2), [1, [2, (3,)]], {"b": 1, "a": [2, 3]}, OrderedDict(z=1, y=(2,)), Point(1, [2, 3]),
    deque([1, (2,)], maxlen=4), [Point(1, 2), {"k": Point((3,), None)}], "text", {1, 2}, [[], {}, ((),)],
]  # fmt: skip


@pytest.mark.parametrize("nest", NESTS, ids=repr)
def test_structures(nest):
    seen = []
    for lib in (ours, theirs):
        leaves, spec = lib.tree_flatten(nest)
        again = lib.tree_unflatten(leaves, spec)
        assert again == nest and type(again) is type(nest)
        assert lib.tree_structure(again) == spec and hash(lib.tree_structure(again)) == hash(spec)
        facts = spec.num_leaves, spec.num_nodes, spec.num_children, spec.is_leaf(), spec.type, spec.context
        paths = [(lib.keystr(p), lib.key_get(nest, p)) for p, _ in lib.tree_flatten_with_path(nest)[0]]
        seen.append([
            leaves, repr(spec), facts, list(map(repr, spec.children())), lib.treespec_pprint(spec), paths,
            lib.tree_leaves(nest), lib.tree_is_leaf(nest), lib.tree_any(bool, nest), lib.tree_all(bool, nest),
            lib.tree_map_only(int, lambda v: -v, nest), lib.tree_map(repr, nest, is_leaf=lambda n: type(n) is tuple),
            lib.tree_map_with_path(lambda p, v: lib.keystr(p), nest), lib.arg_tree_leaves(nest, key=nest),
        ])  # fmt: skip
    assert seen[0] == seen[1]


def test_default_dictionaries():
    for lib in (ours, theirs):
        nest = defaultdict(list, a=1)
        again = lib.tree_map(lambda v: v + 1, nest)
        assert again == {"a": 2} and again.default_factory is list
        assert lib.tree_structure(nest) != lib.tree_structure({"a": 1})


PAIRS = [
    ([1, 2], [3, 4]), ({"a": 1, "b": 2}, {"b": 3, "a": [4]}), ((1, 2), [1, 2]), ([1, 2], [1]), ({"a": 1}, {"b": 1}),
    ({"a": 1}, {"a": 1, "b": 2}), ({"a": 1}, OrderedDict(a=2)), ([(1,)], [3]), (1, [2, 3]), (Point(1, 2), (1, 2)),
    (deque([1]), deque([2], maxlen=3)), (Point(1, 2), namedtuple("Point", "x z")(1, 2)),
]  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS, ids=repr)
def test_several_nests(pair):
    results = []
    for lib in (ours, theirs):
        try:
            results.append(lib.tree_map(lambda a, b: (a, b), *pair))
        except ValueError as error:
            results.append(str(error))
    assert results[0] == results[1]


@pytest.mark.parametrize("call", [
    lambda lib: lib.tree_unflatten([1, 2], lib.tree_structure([1])),
    lambda lib: lib.tree_unflatten([1], 3),
    lambda lib: lib.map_only(3),
    lambda lib: lib.register_pytree_node(list, None, None),
])  # fmt: skip
def test_errors(call):
    texts = []
    for lib in (ours, theirs):
        with pytest.raises((ValueError, TypeError)) as error:
            call(lib)
        texts.append((type(error.value), str(error.value)))
    assert texts[0] == texts[1]


def test_registered_types():
    class Pair:
        def __init__(self, a, b, note=""):
            self.a, self.b, self.note = a, b, note

    results = []
    for lib in (ours, theirs):
        lib.register_pytree_node(Pair, lambda p: ([p.a, p.b], p.note), lambda c, note: Pair(*c, note))
        try:
            spec = lib.tree_structure([Pair(1, 2, "n")])
            doubled = lib.tree_map(lambda v: 2 * v, [Pair(1, [2], "n")])[0]
            results.append([repr(spec), doubled.a, doubled.b, doubled.note])
            with pytest.raises(ValueError, match="flatten_with_keys_fn") as error:
                lib.tree_flatten_with_path(Pair(1, 2))
            with pytest.raises(ValueError) as other:
                lib.tree_map(max, Pair(1, 2, "n"), Pair(1, 2, "m"))
            results[-1] += [str(error.value), str(other.value)]
        finally:
            lib._deregister_pytree_node(Pair)
    assert results[0] == results[1]
