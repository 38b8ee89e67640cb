"""Indexing, gathers and scatters against NumPy; repeated indices, gradients, errors that leave the state."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import jitgrad as torch
from jitgrad.autograd import gradcheck, gradgradcheck

RNG = np.random.default_rng(0)


def pair(shape):
    array = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    return array, torch.from_numpy(array)


def torch_key(key):
    return tuple(torch.from_numpy(k) if isinstance(k, np.ndarray) else k for k in key)


@st.composite
def advanced(draw):
    """(shape, key) with at least one index array or mask, and slices and ints beside them."""
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4))
    found = draw(hnp.array_shapes(min_dims=1, max_dims=2, min_side=1, max_side=3))
    kinds = draw(st.lists(st.sampled_from("aaism"), min_size=1, max_size=len(shape)))
    kinds[draw(st.integers(0, len(kinds) - 1))] = "a"
    key = []
    for n, kind in zip(shape, kinds, strict=False):
        if kind == "a" or kind == "m":
            cut = found[draw(st.integers(0, len(found) - 1)) :]
            key.append(draw(hnp.arrays(np.int64, cut, elements=st.integers(-n, n - 1))))
        elif kind == "i":
            key.append(draw(st.integers(-n, n - 1)))
        else:
            key.append(slice(draw(st.integers(0, n - 1)), None, draw(st.integers(1, 2))))
    return shape, tuple(key)


def expected_of(array, key):
    """What PyTorch gives: ints select first, then arrays are placed as NumPy places arrays."""
    dim, rest = 0, []
    for k in key:
        if isinstance(k, int):
            array = np.take(array, k, axis=dim)
        else:
            rest.append(k)
            dim += 1
    return array[tuple(rest)]


@given(advanced())
@settings(max_examples=120, deadline=None)
def test_index_arrays(case):
    shape, key = case
    array, tensor = pair(shape)
    expected = expected_of(array, key)
    found = tensor[torch_key(key)]
    assert tuple(found.shape) == expected.shape
    np.testing.assert_array_equal(found.numpy(), expected)


@given(advanced(), st.booleans())
@settings(max_examples=80, deadline=None)
def test_what_is_written_is_read(case, transposed):
    shape, key = case
    tensor = pair(shape)[1].clone()
    if transposed:
        tensor = tensor.permute(*range(len(shape))[::-1]).contiguous().permute(*range(len(shape))[::-1])
    before = tensor.clone()
    key = torch_key(key)
    tensor[key] = -1.0
    assert (tensor[key] == -1).all()
    assert ((tensor == -1) | (tensor == before)).all()
    tensor[key] = before[key]
    assert (tensor == before).all()


@given(st.data(), hnp.array_shapes(min_dims=1, max_dims=3, max_side=4))
@settings(max_examples=60, deadline=None)
def test_masks(data, shape):
    array, tensor = pair(shape)
    cover = data.draw(st.integers(1, len(shape)))
    mask = data.draw(hnp.arrays(bool, shape[:cover]))
    np.testing.assert_array_equal(tensor[torch.from_numpy(mask)].numpy(), array[mask])
    whole = data.draw(hnp.arrays(bool, shape))
    np.testing.assert_array_equal(tensor.masked_select(torch.from_numpy(whole)).numpy(), array[whole])
    np.testing.assert_array_equal(torch.from_numpy(whole).nonzero().numpy(), np.argwhere(whole))
    filled = tensor.masked_fill(torch.from_numpy(mask).view(*mask.shape, *(1,) * (len(shape) - cover)), -1)
    array[mask] = -1
    np.testing.assert_array_equal(filled.numpy(), array)


@given(st.data(), hnp.array_shapes(min_dims=1, max_dims=3, max_side=4))
@settings(max_examples=60, deadline=None)
def test_gather_and_scatter(data, shape):
    array, tensor = pair(shape)
    dim = data.draw(st.integers(0, len(shape) - 1))
    size = list(shape)
    size[dim] = data.draw(st.integers(1, 5))
    index = data.draw(hnp.arrays(np.int64, tuple(size), elements=st.integers(0, shape[dim] - 1)))
    places = torch.from_numpy(index)
    np.testing.assert_array_equal(tensor.gather(dim, places).numpy(), np.take_along_axis(array, index, dim))
    source = np.random.default_rng(0).standard_normal(size)
    expected = array.copy()
    where = list(np.indices(index.shape))
    where[dim] = index
    np.add.at(expected, tuple(where), source)
    added = tensor.scatter_add(dim, places, torch.from_numpy(source))
    np.testing.assert_allclose(added.numpy(), expected, rtol=1e-14)
    expected = array.copy()
    expected[tuple(where)] = source
    np.testing.assert_array_equal(tensor.scatter(dim, places, torch.from_numpy(source)).numpy(), expected)


@given(st.data(), hnp.array_shapes(min_dims=1, max_dims=3, max_side=4))
@settings(max_examples=40, deadline=None)
def test_rows(data, shape):
    array, tensor = pair(shape)
    dim = data.draw(st.integers(0, len(shape) - 1))
    index = data.draw(hnp.arrays(np.int64, st.integers(0, 5), elements=st.integers(0, shape[dim] - 1)))
    places = torch.from_numpy(index)
    chosen = array.take(index, axis=dim)
    np.testing.assert_array_equal(tensor.index_select(dim, places).numpy(), chosen)
    expected = np.moveaxis(array.copy(), dim, 0)
    np.add.at(expected, index, 2 * np.moveaxis(chosen, dim, 0))
    added = tensor.index_add(dim, places, torch.from_numpy(chosen), alpha=2)
    np.testing.assert_array_equal(added.numpy(), np.moveaxis(expected, 0, dim))
    flat = data.draw(hnp.arrays(np.int64, 3, elements=st.integers(-array.size, array.size - 1)))
    np.testing.assert_array_equal(tensor.take(torch.from_numpy(flat)).numpy(), array.take(flat))


@given(st.data(), hnp.array_shapes(min_dims=1, max_dims=3, max_side=4))
@settings(max_examples=40, deadline=None)
def test_joins_and_rearrangements(data, shape):
    array, tensor = pair(shape)
    dim = data.draw(st.integers(0, len(shape) - 1))
    other = np.flip(array, dim)
    np.testing.assert_array_equal(tensor.flip(dim).numpy(), other)
    joined = torch.cat([tensor, tensor.flip(dim)], dim)
    np.testing.assert_array_equal(joined.numpy(), np.concatenate([array, other], dim))
    stacked = torch.stack([tensor, tensor], dim)
    np.testing.assert_array_equal(stacked.numpy(), np.stack([array, array], dim))
    shift = data.draw(st.integers(-9, 9))
    np.testing.assert_array_equal(tensor.roll(shift, dim).numpy(), np.roll(array, shift, dim))
    np.testing.assert_array_equal(tensor.roll(shift).numpy(), np.roll(array, shift))
    times = data.draw(st.lists(st.integers(0, 3), min_size=len(shape), max_size=len(shape) + 1))
    np.testing.assert_array_equal(tensor.repeat(*times).numpy(), np.tile(array, times))
    np.testing.assert_array_equal(tensor.repeat_interleave(2, dim).numpy(), np.repeat(array, 2, dim))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float32", "complex64", "complex128"])
def test_every_dtype_is_gathered(dtype):
    array = np.arange(12).reshape(3, 4).astype(dtype)
    tensor = torch.from_numpy(array)
    np.testing.assert_array_equal(tensor[[2, 0]].numpy(), array[[2, 0]])
    np.testing.assert_array_equal(torch.cat([tensor, tensor], 1).numpy(), np.concatenate([array, array], 1))
    np.testing.assert_array_equal(tensor.flip(1).numpy(), array[:, ::-1])
    tensor[:, [0, 3]] = tensor[:, [3, 0]]
    np.testing.assert_array_equal(tensor.numpy(), np.arange(12).reshape(3, 4).astype(dtype)[:, [3, 1, 2, 0]])


def test_repeated_indices_add_up_in_gradients():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x[[0, 0, 2, 0]] * torch.tensor([1.0, 10.0, 100.0, 1000.0])).sum().backward()
    assert x.grad.tolist() == [1011, 0, 100]


X, Y = (torch.tensor(np.random.default_rng(k).standard_normal((3, 4))).requires_grad_() for k in (0, 1))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x[[2, 0, 2], 1:],
        lambda x, y: x[:, [[0, 1], [3, 3]]] * y[0, 0],
        lambda x, y: x[y.detach() > 0],
        lambda x, y: torch.cat([x[:1], y, x], 0),
        lambda x, y: torch.where(x.detach() > 0, x, y)[1:, None],
        lambda x, y: torch.stack(x.unbind(1)[::2] + y.split(1, 1)[0].unbind(1), 0),
        lambda x, y: x.scatter_add(0, torch.tensor([[0, 2, 2, 1], [0, 0, 0, 1]]), y),
        lambda x, y: x.index_put((torch.tensor([0, 2]), torch.tensor([1, 1])), y[0, :2]),
        lambda x, y: x.masked_scatter(x.detach() > 0, y),
        lambda x, y: (x * 1).index_put_((torch.tensor([0, 0]),), y[:2], accumulate=True),
    ],
)
def test_gradients_of_both_orders(function):
    squared = lambda x, y: function(x, y) ** 2
    assert gradcheck(squared, (X, Y))
    assert gradgradcheck(squared, (X, Y))


Z = torch.zeros(2, 3)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: Z[2], IndexError, "index 2 is out of bounds for dimension 0 with size 2"),
        (lambda: Z[:, 3], IndexError, "index 3 is out of bounds for dimension 1 with size 3"),
        (lambda: Z[[0, -3]], IndexError, "index -3 is out of bounds for dimension 0 with size 2"),
        (lambda: Z[0, 0, 0], IndexError, "too many indices for tensor of dimension 2"),
        (lambda: Z[1.5], IndexError, "only integers, slices (`:`), ellipsis (`...`), None and long or byte"),
        (lambda: Z[torch.tensor([1.0])], IndexError, "tensors used as indices must be long, int, byte or bool tensors"),
        (lambda: Z[[True, False, True]], IndexError, "The shape of the mask [3] at index 0 does not match"),
        (lambda: Z[[0, 1], [0, 1, 2]], IndexError, "shape mismatch: indexing tensors could not be broadcast together"),
        (lambda: Z[::-1], ValueError, "step must be greater than zero"),
        (lambda: torch.tensor(1.0)[0], IndexError, "invalid index of a 0-dim tensor"),
        (
            lambda: Z.gather(1, torch.tensor([[3]])),
            RuntimeError,
            "index 3 is out of bounds for dimension 1 with size 3",
        ),
        (lambda: Z.index_select(0, torch.tensor([2])), IndexError, "index out of range in self"),
        (
            lambda: Z.take(torch.tensor([6])),
            IndexError,
            "out of range: tried to access index 6 on a tensor of 6 elements.",
        ),
        (lambda: torch.cat([]), ValueError, "torch.cat(): expected a non-empty list of Tensors"),
        (lambda: torch.cat([Z, torch.zeros(3, 4)]), RuntimeError, "Sizes of tensors must match except in dimension 0."),
        (lambda: torch.stack([Z, Z[0]]), RuntimeError, "stack expects each tensor to be equal size"),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.__setitem__(5, 1),
        lambda x: x.__setitem__([0, 5], 1),
        lambda x: x.__setitem__(0, torch.ones(5)),
        lambda x: x.__setitem__(slice(None), "a"),
        lambda x: x.scatter_(1, torch.tensor([[0], [7]]), 1.0),
        lambda x: x.index_add_(0, torch.tensor([0, 2]), torch.ones(2, 3)),
        lambda x: x.index_put_((torch.tensor([0]),), torch.ones(2)),
        lambda x: x.masked_fill_(torch.ones(4, dtype=torch.bool), 1.0),
        lambda x: x.copy_(torch.ones(4)),
        lambda x: x.fill_(1j),
    ],
)
def test_a_refused_write_changes_nothing(write):
    x = torch.zeros(2, 3)
    with pytest.raises((IndexError, RuntimeError, TypeError)):
        write(x)
    assert (x == 0).all()
    assert x._version == 0


@pytest.mark.parametrize("shape", [(600_001,), (3000, 5), (700, 400)])
def test_writes_at_repeated_places_are_the_same_on_any_number_of_threads(shape):
    rng = np.random.default_rng(0)
    x, before = rng.standard_normal(shape).astype(np.float32), torch.get_num_threads()
    source = rng.standard_normal((300_000 // (x.size // len(x)) + 7, *shape[1:])).astype(np.float32)
    rows = rng.integers(0, len(x), len(source))
    index = np.broadcast_to(rows.reshape(-1, *[1] * (x.ndim - 1)), source.shape).copy()
    t, s, r, i = map(torch.tensor, (x, source, rows, index))
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append([
                t.index_select(0, r), t.gather(0, i), t.index_add(0, r, s), t.scatter_add(0, i, s), t.scatter(0, i, s),
                t.index_copy(0, r, s), t.scatter(0, i, 2.0), t.scatter(0, i, s, reduce="multiply"),
            ])  # fmt: skip
    finally:
        torch.set_num_threads(before)
    for results in found[1:]:
        assert all((a.numpy() == b.numpy()).all() for a, b in zip(found[0], results, strict=True))
    read, gathered, added, scattered_sums, put, copied, filled, _ = (a.numpy() for a in found[0])
    np.testing.assert_array_equal(read, x[rows])
    np.testing.assert_array_equal(gathered, x[rows])
    want, last = x.copy(), x.copy()
    np.add.at(want, rows, source)
    last[rows] = source  # NumPy, too, lets the last of several win
    for sums in (added, scattered_sums):
        np.testing.assert_array_equal(sums, want)
    for written in (put, copied):
        np.testing.assert_array_equal(written, last)
    assert (filled[np.unique(rows)] == 2).all()


def test_the_first_index_outside_is_named_on_any_number_of_threads():
    index = torch.zeros(1 << 18, dtype=torch.int64)
    index[200_000], index[200_700], index[3] = 7, 9, 2
    with pytest.raises((IndexError, RuntimeError), match="7"):
        torch.zeros(5).gather(0, index)


@pytest.mark.parametrize("dtype", ["float32", "int8", "complex128"])
def test_short_indices_are_read_directly_and_through_places_alike(dtype):
    array = (np.arange(24) % 7).reshape(2, 3, 4).astype(dtype)
    i, j = np.array([0, -1, 1, 1]), np.array([2, -3, 0, 1])
    for view in (array, array.transpose(1, 2, 0), array[:, :, ::2], array[:, :1].repeat(3, 1)):
        x = torch.from_numpy(view)
        for key in ((i,), (i, j % 2), (i[:, None], i[:, None])):
            for _ in range(3):  # the second call plans, the third one reads by the plan
                np.testing.assert_array_equal(x[torch_key(key)].numpy(), view[key])


def test_an_index_that_is_outside_is_named_with_and_without_a_plan():
    x, k = torch.zeros(2, 3), torch.tensor([0, 1])
    assert x[k, k].tolist() == x[k, k].tolist() == [0, 0]
    for bad, dim, size in ((torch.tensor([0, 3]), 1, 3), (torch.tensor([-4, 0]), 1, 3), (torch.tensor([2, 0]), 0, 2)):
        key = (k, bad) if dim else (bad, k)
        with pytest.raises(IndexError, match=f"is out of bounds for dimension {dim} with size {size}"):
            x[key]
    with torch.debug.tape() as launches:
        out = x[k, k]
    x.fill_(4.0)
    launches.replay()
    assert out.tolist() == [4, 4]


def test_conjugate_views_are_read_at_indices_as_their_numbers():
    x, k = torch.tensor([1 + 2j, 3 - 1j]), torch.tensor([1, 0])
    for _ in range(3):
        assert x.conj()[k].tolist() == [3 + 1j, 1 - 2j]


@pytest.mark.parametrize(
    ("shape", "dim"), [((5, 9000), 1), ((9000, 3), 0), ((3, 1500, 4), 1), ((9000,), 0), ((2000, 2), 1)]
)
def test_the_last_index_of_a_gather_is_checked_before_it_is_read(shape, dim):
    x, index = np.arange(np.prod(shape), dtype=np.float32).reshape(shape), RNG.integers(0, shape[dim], shape)
    given = torch.tensor(x, requires_grad=True)
    read = given.gather(dim, torch.tensor(index))
    np.testing.assert_array_equal(read.detach().numpy(), np.take_along_axis(x, index, dim))
    (g,) = torch.autograd.grad(read, given, torch.ones(shape))
    expected = torch.zeros(shape).scatter_add(dim, torch.tensor(index), torch.ones(shape))
    np.testing.assert_array_equal(g.numpy(), expected.numpy())
    for wrong in (shape[dim], -1, 1 << 62):
        index.reshape(-1)[-1] = wrong
        with pytest.raises(RuntimeError, match=f"index {wrong} is out of bounds for dimension {dim} with size"):
            given.gather(dim, torch.tensor(index))


def test_numbers_are_written_under_a_mask():
    """A mask of the tensor's shape is a fill; of memory in another order, and of 16 bits, writes go by places."""
    mask = torch.tensor([[True, False, True], [False, False, True]])
    for make in (lambda: torch.arange(6.0).reshape(2, 3), lambda: torch.arange(6.0).reshape(3, 2).t(),
                 lambda: torch.arange(6).reshape(2, 3), lambda: torch.arange(6.0).reshape(2, 3).half(),
                 lambda: torch.arange(6).reshape(2, 3) > 2):  # fmt: skip
        for value in (1.5, 7, True):
            x, before = make(), make()
            version = x._version
            x[mask] = value
            assert x._version == version + 1
            assert x.equal(torch.where(mask, torch.tensor(value).to(x.dtype), before))
    leaf = torch.zeros(2, 3, requires_grad=True)
    y = leaf * 2
    y[mask] = 1.0
    assert y.grad_fn.name() == "IndexPutBackward0"
    y.sum().backward()
    assert leaf.grad.equal(torch.where(mask, 0.0, 2.0))


@pytest.mark.parametrize(
    "key", ["[:, r]", "[:, r, :]", "[:, :, r]", "[:, r, r]", "[:, r, :, r]", "[:, :, r, r]", "[r]"]
)
def test_a_planned_index_behind_slices(key):
    """What the first call plans is what NumPy reads and writes, in further calls, too."""
    values, r = RNG.standard_normal((4, 5, 6, 7)), np.array([0, 2, -1, 3])
    for _ in range(3):
        x = torch.from_numpy(values.copy()).requires_grad_()
        found = eval(f"x{key}", {"x": x, "r": torch.from_numpy(r)})
        expected = eval(f"x{key}", {"x": values, "r": r})
        np.testing.assert_array_equal(found.detach().numpy(), expected)
        (found * found).sum().backward()
        where = np.zeros_like(values)
        np.add.at(where, eval(f"np.s_{key}", {"np": np, "r": r}), 2 * expected)
        np.testing.assert_allclose(x.grad.numpy(), where)
        written, wanted = torch.from_numpy(values.copy()), values.copy()
        exec(f"x{key} = 2.5", {"x": written, "r": torch.from_numpy(r)})
        exec(f"x{key} = 2.5", {"x": wanted, "r": r})
        np.testing.assert_array_equal(written.numpy(), wanted)


@pytest.mark.parametrize("shape", [(7, 5), (3, 70), (2, 1, 9), (4, 3, 2, 5), (40,)])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
def test_places_of_true_elements(shape, share):
    mask = RNG.random(shape) < share
    np.testing.assert_array_equal(torch.from_numpy(mask).nonzero().numpy(), np.argwhere(mask))
    large = np.zeros((300, 50), bool)
    large[-1, -1] = large[0, 0] = large[7, 3] = True
    np.testing.assert_array_equal(torch.from_numpy(large).nonzero().numpy(), np.argwhere(large))


def test_objects_that_stand_for_integers():
    class Two:
        def __index__(self):
            return 2

    array, x = pair((4, 5))
    for key in (Two(), slice(Two()), (slice(None), Two()), (Two(), Two())):
        np.testing.assert_array_equal(x[key].numpy(), array[key])
    x[Two()] = -7.0
    assert (x[2] == -7).all() and (x[1] != -7).all()
    with pytest.raises(IndexError, match="only integers"):
        x[2.0]


def test_several_writes_of_numbers_at_places_under_vmap():
    """The second write finds how the first one's places are resolved: it has to be one to the whole batch as well."""
    places = torch.tensor([0, 2])

    def write(x):
        x = x.clone()
        for number in (1.0, 2.0, 3.0):
            x[places] = number
        return x

    x = torch.arange(12.0).reshape(3, 4)
    wanted = torch.stack([write(row) for row in x])
    assert torch.equal(torch.func.vmap(write)(x), wanted)
    assert torch.func.grad(lambda x: (write(x) * x).sum())(x[0]).tolist() == [3, 2, 3, 6]
