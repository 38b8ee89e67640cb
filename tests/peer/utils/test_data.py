"""Loaders, samplers and data sets beside PyTorch's: order, random numbers, batches of all kinds of samples, errors."""

import collections
import random
import types
import warnings

import numpy as np
import pytest

import jitgrad
from tests.peer.beside import leaves, same

torch = pytest.importorskip("torch")
LIBRARIES = jitgrad, torch


def beside(run):
    """Run a program under both libraries from the same seed: the same values, or the same class and words of error."""
    found = []
    for library in LIBRARIES:
        library.manual_seed(7)
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                result = leaves(run(library, library.utils.data))
            found.append([result, [(w.category.__name__, str(w.message)) for w in caught]])
        except Exception as error:
            found.append([type(error).__name__, str(error).replace("jitgrad.", "torch.")])
    same(*found)


Point = collections.namedtuple("Point", "x y")


class Words(list):
    pass


class Table(dict):
    pass


class Fixed(collections.abc.Mapping):
    """A mapping that can be made of a dict, and not changed."""

    def __init__(self, items):
        self.items_ = dict(items)

    __getitem__ = lambda self, key: self.items_[key]
    __iter__ = lambda self: iter(self.items_)
    __len__ = lambda self: len(self.items_)
    __repr__ = lambda self: f"Fixed({self.items_})"


class Closed(Fixed):
    """One that can't be made of a dict."""

    def __init__(self, *items):
        super().__init__(items)


SAMPLES = {
    "tensors": lambda t: [t.ones(2, 3), t.zeros(2, 3)], "other sizes": lambda t: [t.ones(2), t.ones(3)],
    "other dtypes": lambda t: [t.ones(2), t.arange(2)],
    "numbers": lambda t: [1.5, 2.5],
    "bools": lambda t: [True, False],
    "mixed": lambda t: [1, 2.5],
    "arrays": lambda t: [np.ones(2), np.zeros(2)],
    "names": lambda t: [np.array(["a"])] * 2,
    "numpy": lambda t: [np.float32(2), np.float32(3)], "numpy bools": lambda t: [np.bool_(1), np.bool_(0)],
    "strings": lambda t: ["a", "bc"], "bytes": lambda t: [b"a", b"b"], "numpy strings": lambda t: [np.str_("a")],
    "pairs": lambda t: [(1, "a"), (2, "b")],
    "lists": lambda t: [[1, [2.0]], [3, [4.0]]],
    "lengths": lambda t: [[1], [1, 2]],
    "dicts": lambda t: [{"a": 1, "b": t.ones(1)}, {"a": 2, "b": t.zeros(1)}], "keys": lambda t: [{"a": 1}, {"b": 2}],
    "named": lambda t: [Point(1, t.ones(1)), Point(2, t.zeros(1))], "words": lambda t: [Words("ab"), Words("cd")],
    "table": lambda t: [Table(a=1), Table(a=2)], "ordered": lambda t: [collections.OrderedDict(a=1)] * 2,
    "fixed": lambda t: [Fixed({"a": 1})] * 2, "closed": lambda t: [Closed(("a", 1))] * 2,
    "default": lambda t: [collections.defaultdict(int, a=1)] * 2, "ranges": lambda t: [range(2), range(2)],
    "none": lambda t: [None],
    "object": lambda t: [types.SimpleNamespace()],
    "sets": lambda t: [{1}],
    "empty": lambda t: [],
    "deques": lambda t: [collections.deque([1, 2])] * 2,
    "complex": lambda t: [1j],
    "scalars": lambda t: [t.tensor(1)] * 2,
}  # fmt: skip


@pytest.mark.parametrize("kind", SAMPLES)
def test_collate_and_convert(kind):
    def named(value):
        inner = value.values() if isinstance(value, collections.abc.Mapping) else value
        nested = isinstance(inner, (list, tuple, type({}.values()))) and not hasattr(value, "numel")
        return [type(value).__name__, value, [named(v) for v in inner] if nested else []]

    beside(lambda t, data: named(data.default_collate(SAMPLES[kind](t))))
    beside(lambda t, data: [named(data.default_convert(sample)) for sample in SAMPLES[kind](t)])


def test_collate_with_types_of_a_program():
    def run(t, data):
        kinds = {str: lambda batch, *, collate_fn_map: "+".join(batch)}
        kinds[Point] = lambda batch, *, collate_fn_map: len(batch)
        collate = data._utils.collate.collate
        known = {**data._utils.collate.default_collate_fn_map, **kinds}
        return [collate(["a", "b"], collate_fn_map=kinds), collate([Point(1, 2)], collate_fn_map=known),
                collate([{"a": ("x", 1)}, {"a": ("y", 2)}], collate_fn_map=known)]  # fmt: skip

    beside(run)
    beside(lambda t, data: data._utils.collate.collate([1]))


SAMPLERS = {
    "random": lambda t, d: d.RandomSampler(range(10)), "few": lambda t, d: d.RandomSampler(range(10), num_samples=4),
    "many": lambda t, d: d.RandomSampler(range(3), num_samples=8),
    "again": lambda t, d: d.RandomSampler(range(5), True, num_samples=70),
    "subset": lambda t, d: d.SubsetRandomSampler([3, 5, 9], t.Generator().manual_seed(1)),
    "weights": lambda t, d: d.WeightedRandomSampler([0.1, 0.0, 2, 0.5], 9),
    "weights once": lambda t, d: d.WeightedRandomSampler([0.1, 1, 2, 0.5], 3, False),
    "batches": lambda t, d: d.BatchSampler(d.SequentialSampler(range(7)), 3, False),
    "full batches": lambda t, d: d.BatchSampler(range(7), 3, True),
    "batches of none": lambda t, d: d.BatchSampler([], 3, False),
    "distributed": lambda t, d: d.DistributedSampler(range(10), 3, 1),
    "distributed in order": lambda t, d: d.DistributedSampler(range(10), 4, 3, shuffle=False),
    "distributed full": lambda t, d: d.DistributedSampler(range(10), 3, 2, drop_last=True),
    "distributed few": lambda t, d: d.DistributedSampler(range(2), 7, 6, shuffle=False),
    "wrong rank": lambda t, d: d.DistributedSampler(range(2), 7, 7),
    "wrong size": lambda t, d: d.BatchSampler(range(7), 0, True),
    "wrong drop": lambda t, d: d.BatchSampler(range(7), 1, 1),
    "wrong number": lambda t, d: d.WeightedRandomSampler([1], True), "no number": lambda t, d: d.RandomSampler([]),
    "wrong replacement": lambda t, d: d.WeightedRandomSampler([1], 1, 1),
    "replacement": lambda t, d: d.RandomSampler([1], 1),
    "wrong weights": lambda t, d: d.WeightedRandomSampler([[1]], 1),
}  # fmt: skip


@pytest.mark.parametrize("kind", SAMPLERS)
def test_samplers(kind):
    def run(t, data):
        sampler = SAMPLERS[kind](t, data)
        first = list(sampler)
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(2)
        return first, list(sampler), len(sampler), t.rand(1)

    beside(run)


DATASETS = {
    "stack": lambda t, d: d.StackDataset([1, 2], t.arange(2)),
    "stack by name": lambda t, d: d.StackDataset(a=[1], b=[2]),
    "stack none": lambda t, d: d.StackDataset(), "stack both": lambda t, d: d.StackDataset([1], a=[1]),
    "stack sizes": lambda t, d: d.StackDataset([1], [1, 2]), "concat": lambda t, d: d.ConcatDataset([[1, 2], [3]]),
    "concat none": lambda t, d: d.ConcatDataset([]), "sum": lambda t, d: d.TensorDataset(t.arange(2)) + [(5,)],
    "tensors": lambda t, d: d.TensorDataset(t.arange(3), t.ones(3, 2)),
    "subset": lambda t, d: d.Subset([5, 6, 7], [2, 0]),
    "sizes": lambda t, d: d.TensorDataset(t.arange(3), t.ones(2)),
    "split": lambda t, d: d.random_split(range(9), [4, 5])[0],
    "fractions": lambda t, d: d.random_split(range(10), [0.25, 0.25, 0.5])[1],
    "empty part": lambda t, d: d.random_split(range(3), [0.1, 0.9], t.Generator().manual_seed(2))[1],
    "wrong sum": lambda t, d: d.random_split(range(3), [1, 1]),
    "not all": lambda t, d: d.random_split(range(3), [0.5, 0.2]),
    "wrong part": lambda t, d: d.random_split(range(3), [1.5, -0.5]), "nothing": lambda t, d: d.Dataset(),
}  # fmt: skip


@pytest.mark.parametrize("kind", DATASETS)
def test_datasets(kind):
    def run(t, data):
        made = DATASETS[kind](t, data)
        rows = [made[k] for k in range(len(made))]
        return rows, made[-1] if "stack" not in kind else 0, list(data.DataLoader(made, 2))

    beside(run)
    beside(lambda t, data: DATASETS[kind](t, data)[-100])


def test_iterable_datasets():
    def run(t, data):
        class Count(data.IterableDataset):
            def __init__(self, stop):
                self.stop = stop

            def __iter__(self):
                return iter(range(self.stop))

            def __len__(self):
                return self.stop

        chain = Count(3) + Count(2)
        loaders = [data.DataLoader(chain, 2, drop_last=drop) for drop in (False, True)]
        wrong = []
        for options in ({"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}):
            try:
                data.DataLoader(chain, **options)
            except ValueError as error:
                wrong.append(str(error))
        return [list(loader) for loader in loaders], [len(loader) for loader in loaders], len(chain), wrong

    beside(run)
    beside(lambda t, data: list(data.ChainDataset([[1]])))


@pytest.mark.parametrize("options", [
    {}, {"batch_size": 4, "shuffle": True}, {"batch_size": None, "shuffle": True}, {"batch_size": 4, "drop_last": True},
])  # fmt: skip
@pytest.mark.parametrize("workers", [{}, {"num_workers": 2}, {"num_workers": 1, "persistent_workers": True}])
def test_batches_and_random_numbers(options, workers):
    def run(t, data):
        class Noise(data.Dataset):
            def __len__(self):
                return 10

            def __getitem__(self, k):
                return k, t.rand(1), random.random(), np.random.rand(), t.initial_seed()

        random.seed(1)
        np.random.seed(1)
        loader = data.DataLoader(Noise(), multiprocessing_context="fork" if workers else None, **options, **workers)
        first = [list(loader), list(loader), len(loader)]
        own = data.DataLoader(Noise(), generator=t.Generator().manual_seed(5), **options)
        return first, t.rand(1), [batch[0] for batch in own], t.rand(1)

    beside(run)


def test_errors_of_workers():
    def run(t, data):
        class Broken(data.Dataset):
            def __len__(self):
                return 2

            def __getitem__(self, k):
                raise KeyError("sample")

        try:
            list(data.DataLoader(Broken(), num_workers=1, multiprocessing_context="fork"))
        except Exception as error:
            return [type(error), str(error).splitlines()[:2], str(error).splitlines()[-1]]

    beside(run)


def test_worker_info():
    def run(t, data):
        return list(data.DataLoader([0, 1], 1, num_workers=2, multiprocessing_context="fork", collate_fn=Info(data)))

    beside(run)


class Info:
    """What a worker knows of itself."""

    def __init__(self, data):
        self.data = data

    def __call__(self, batch):
        return repr(self.data.get_worker_info())


def test_wrapped_exceptions():
    wrappers = [jitgrad._utils.ExceptionWrapper, torch._utils.ExceptionWrapper]
    found = []
    for wrapper in wrappers:
        try:
            {}["lost"]
        except KeyError:
            wrapped = wrapper(where="here")
        with pytest.raises(KeyError) as caught:
            wrapped.reraise()
        found.append([str(caught.value), wrapped.exc_type, wrapped.where])
    assert found[0] == found[1]
