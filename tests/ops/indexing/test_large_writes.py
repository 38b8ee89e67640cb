"""Writes into copies of many elements, which are made block by block."""

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.ops.indexing import gather


def large(dim, m, seed=0):
    """(x, index, source) of a write into so many elements that their copy is made as they are written to."""
    rng, shape = np.random.default_rng(seed), [64, 80, 64]
    shape_of_index = [m if d == dim else n for d, n in enumerate(shape)]
    index = rng.integers(0, shape[dim], shape_of_index)
    return rng.standard_normal(shape), index, rng.standard_normal(shape_of_index)


@pytest.mark.parametrize("name", ["scatter_add", "scatter"])
@pytest.mark.parametrize(("dim", "m"), [(1, 80), (1, 200), (2, 3), (2, 64), (0, 5)])
def test_writes_into_large_copies(name, dim, m):
    assert gather.BY_BLOCKS_SIZE <= 64 * 80 * 64
    x, index, source = large(dim, m)
    expected, places = x.copy(), list(np.indices(index.shape, sparse=True))
    places[dim] = index
    if name == "scatter":
        expected[tuple(places)] = source
    else:
        np.add.at(expected, tuple(places), source)
    given, before = torch.tensor(x), torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found = getattr(given, name)(dim, torch.tensor(index), torch.tensor(source))
            np.testing.assert_array_equal(found.numpy(), expected)
    finally:
        torch.set_num_threads(before)
    assert np.array_equal(given.numpy(), x)
    turned = torch.tensor(np.moveaxis(x, 0, 2).copy()).movedim(2, 0)  # the same numbers in another order
    np.testing.assert_array_equal(getattr(turned, name)(dim, torch.tensor(index), torch.tensor(source)), expected)


def test_wrong_indices_of_large_copies():
    x, index, source = (torch.tensor(a) for a in large(1, 80))
    for wrong in (-1, 80, 1 << 40):
        index[63, 79, 63] = wrong
        with pytest.raises(RuntimeError, match=f"index {wrong} is out of bounds for dimension 1 with size 80"):
            x.scatter_add(1, index, source)


def test_large_copies_are_compiled():
    add = torch.compile(lambda x, index, source: x.scatter_add(1, index, source) * 2)
    for seed in range(4):
        x, index, source = (torch.tensor(a) for a in large(1, 80, seed))
        assert torch.equal(add(x, index, source), x.scatter_add(1, index, source) * 2)


@pytest.mark.parametrize(("dim", "m"), [(1, 80), (1, 200), (2, 3), (2, 64), (0, 5)])
def test_gradients_of_elements_that_were_read(dim, m):
    x, index, g = large(dim, m)
    expected, places = np.zeros_like(x), list(np.indices(index.shape, sparse=True))
    places[dim] = index
    np.add.at(expected, tuple(places), g)
    leaf, before = torch.tensor(x, requires_grad=True), torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            (found,) = torch.autograd.grad(leaf.gather(dim, torch.tensor(index)), leaf, torch.tensor(g))
            np.testing.assert_array_equal(found.numpy(), expected)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", ["scatter_add_", "index_add_", "scatter_", "index_copy_"])
@pytest.mark.parametrize("inner", [1, 3, 100, 200, 1200])
def test_writes_into_what_no_cache_holds(name, inner):
    """Elements and rows of a single block, of which those that come later are asked for ahead."""
    rng, m = np.random.default_rng(inner), 150
    n = (3 << 17) // inner
    by_element = name.startswith("scatter")
    x, source = rng.standard_normal((n, inner)), rng.standard_normal((m, inner))
    index = rng.integers(0, n, (m, inner) if by_element else m)
    places = (index, np.arange(inner)[None]) if by_element else (index,)
    expected = x.copy()
    if "add" in name:
        np.add.at(expected, places, source)
    else:
        expected[places] = source
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found = getattr(torch.tensor(x), name)(0, torch.tensor(index), torch.tensor(source))
            np.testing.assert_array_equal(found.numpy(), expected)
    finally:
        torch.set_num_threads(before)
