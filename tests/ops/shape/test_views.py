"""Views against NumPy: any shapes, orders and slices; shared memory, errors, histories."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import jitgrad as torch
from jitgrad.kernels.launch import observers

shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
several = hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4)


def pair(shape):
    """A NumPy array and a tensor with the same memory."""
    array = np.arange(math.prod(shape), dtype=np.float64).reshape(shape)
    return array, torch.from_numpy(array)


def permuted(data, shape):
    array, tensor = pair(shape)
    order = data.draw(st.permutations(range(len(shape))))
    return array.transpose(order), tensor.permute(*order) if shape else tensor


def same(tensor, array, view_of=None):
    assert tuple(tensor.shape) == array.shape
    np.testing.assert_array_equal(tensor.detach().numpy(), array)
    if view_of is not None and array.size:
        assert np.shares_memory(tensor.detach().numpy(), view_of)


@given(st.data(), several)
@settings(max_examples=80, deadline=None)
def test_permutations_and_their_inverses(data, shape):
    array, tensor = permuted(data, shape)
    same(tensor, array, array)
    order = data.draw(st.permutations(range(len(shape))))
    same(tensor.permute(order), array.transpose(order), array)
    a, b = data.draw(st.integers(-len(shape), len(shape) - 1)), data.draw(st.integers(0, len(shape) - 1))
    same(tensor.transpose(a, b), array.swapaxes(a, b), array)
    same(tensor.movedim(a, b), np.moveaxis(array, a, b), array)


@given(st.data(), several)
@settings(max_examples=80, deadline=None)
def test_reshapes_copy_only_where_they_must(data, shape):
    array, tensor = permuted(data, shape)
    factors = [f for n in shape for f in ((2, 2) if n == 4 else (n,))]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(factors)), max_size=3)))
    edges = [0, *cuts, len(factors)]
    target = tuple(math.prod(factors[a:b]) for a, b in zip(edges, edges[1:], strict=False))
    expected = array.reshape(target)
    same(tensor.reshape(target), expected)
    assert np.shares_memory(tensor.reshape(target).numpy(), array) == np.shares_memory(expected, array)
    if np.shares_memory(expected, array):
        same(tensor.view(target), expected, array)
    else:
        with pytest.raises(RuntimeError, match="view size is not compatible with input tensor's size and stride"):
            tensor.view(target)


@given(st.data(), several)
@settings(max_examples=80, deadline=None)
def test_expand_and_sum_to_size_are_inverse_up_to_counts(data, shape):
    small = tuple(data.draw(st.sampled_from([1, n])) for n in shape)
    lead = data.draw(st.integers(0, len(shape)))
    array, tensor = pair(small[lead:])
    same(tensor.expand(shape), np.broadcast_to(array, shape))
    ratio = math.prod(shape) // max(math.prod(small[lead:]), 1)
    same(tensor.expand(shape).sum_to_size(small[lead:]), array * ratio)


@given(shapes, st.data())
@settings(max_examples=60, deadline=None)
def test_dims_of_size_one(shape, data):
    array, tensor = pair(shape)
    same(tensor.squeeze(), array.squeeze(), array)
    at = data.draw(st.integers(-len(shape) - 1, len(shape)))
    same(tensor.unsqueeze(at), np.expand_dims(array, at), array)
    same(tensor.unsqueeze(at).squeeze(at), array, array)


@given(hnp.array_shapes(min_dims=1, max_dims=4, max_side=4), st.data())
@settings(max_examples=150, deadline=None)
def test_basic_indexing(shape, data):
    array, tensor = permuted(data, shape)
    bound = st.none() | st.integers(-6, 6)
    key = []
    for n in array.shape[: data.draw(st.integers(0, len(shape)))]:
        key.append(data.draw(st.integers(-n, n - 1) | st.builds(slice, bound, bound, st.none() | st.integers(1, 3))))
    for extra in data.draw(st.lists(st.just(None), max_size=2)):
        key.insert(data.draw(st.integers(0, len(key))), extra)
    if data.draw(st.booleans()):
        key.append(...)
    key = tuple(key)
    same(tensor[key], np.asarray(array[key]), array)
    value = data.draw(st.integers(-100, -1))
    tensor[key] = value
    assert (np.asarray(array[key]) == value).all()


@given(several, st.data())
@settings(max_examples=60, deadline=None)
def test_parts(shape, data):
    array, tensor = permuted(data, shape)
    dim = data.draw(st.integers(0, len(shape) - 1))
    n = array.shape[dim]
    size = data.draw(st.integers(1, n))
    parts = np.split(array, range(size, n, size), axis=dim)
    for part, expected in zip(tensor.split(size, dim), parts, strict=True):
        same(part, expected, array)
    for part, expected in zip(tensor.tensor_split(size, dim), np.array_split(array, size, axis=dim), strict=True):
        same(part, expected)
    for part, expected in zip(tensor.unbind(dim), np.moveaxis(array, dim, 0), strict=True):
        same(part, expected, array)
    windows = np.lib.stride_tricks.sliding_window_view(array, size, axis=dim)
    same(tensor.unfold(dim, size, 1), windows, array)
    if len(shape) > 1:
        k = data.draw(st.integers(-4, 4))
        same(tensor.diagonal(k), np.diagonal(array, k), None)


@given(st.data(), several)
@settings(max_examples=80, deadline=None)
def test_views_of_memory_with_gaps(data, shape):
    """Each dim twice as large as wanted and cut, so that no part of the memory is contiguous."""
    memory, whole = pair(tuple(2 * n + 1 for n in shape))
    cut = tuple(slice(1, 1 + n * step, step) for n, step in ((n, data.draw(st.sampled_from([1, 2]))) for n in shape))
    array, tensor = memory[cut], whole[cut]
    same(tensor.expand(3, *shape), np.broadcast_to(array, (3, *shape)), memory)
    same(tensor.unsqueeze(0).movedim(0, -1), array[..., None], memory)
    same(tensor.reshape(*shape[:-1], 1, shape[-1]), array[..., None, :], memory)
    same(tensor.unfold(0, 1, 1), array[..., None], memory)
    if len(shape) > 1:
        same(tensor.diagonal(), array.diagonal(), memory)
    strides = tuple(s // memory.itemsize for s in array.strides)
    same(tensor.as_strided(shape[1:], strides[1:]), array[0], memory)
    tensor.unsqueeze(0).expand(1, *shape).mul_(2)
    np.testing.assert_array_equal(whole.numpy(), memory)
    same(tensor.sum(), array.sum().reshape(()))


def test_one_window_of_a_huge_step():
    assert X.unfold(1, 2, 2**62).tolist() == [[[*row[:2]]] for row in X.tolist()]


def test_views_launch_nothing():
    x = torch.zeros(2, 3, 4)
    seen = []
    observers.append(lambda kernel, args, seconds: seen.append(kernel.name))
    try:
        x.view(6, 4).t()[1:, None].expand(3, 2, 6).unbind(1)[0].squeeze().diagonal()
        x.reshape(-1).unfold(0, 3, 1).permute(1, 0).as_strided((2, 2), (1, 1))
    finally:
        observers.pop()
    assert seen == []


def test_a_view_shares_version_and_base():
    x = torch.zeros(2, 3)
    v = x.t()[1:].unsqueeze(0)
    assert v._base is x
    v.add_(1)
    assert x._version == v._version == 1
    assert x.sum() == 4
    assert x.detach()._base is None


def test_unsafe_parts_may_be_written_to():
    x = torch.ones(4, requires_grad=True)
    y = x * 2
    first, second = y.unsafe_split(2)
    first.mul_(3)
    assert (first._base, y._version, y.tolist()) == (None, 0, [6, 6, 2, 2])
    (first.sum() + second.sum()).backward()
    assert x.grad.tolist() == [6, 6, 2, 2]
    for parts in (y.unsafe_chunk(2), y.unsafe_split_with_sizes([1, 3]), torch.split_with_sizes(y, [1, 3])):
        assert len(parts) == 2 and parts[1].sum() == y[4 - parts[1].numel() :].sum()


def test_complex_parts_are_views():
    z = torch.tensor([1 + 2j, 3 - 1j])
    z.imag.mul_(2)
    z.real = 7
    assert z.tolist() == [7 + 4j, 7 - 2j]
    pairs = torch.view_as_real(z)
    pairs[0, 0] = -1
    assert z[0] == -1 + 4j
    assert torch.view_as_complex(pairs)._base is z


def test_bits_as_another_dtype():
    x = torch.tensor([1.0, -2.0])
    assert x.view(torch.int32).tolist() == [0x3F800000, -0x40000000]
    assert x.view(torch.uint8).shape == (8,)
    assert x.view(torch.complex64).tolist() == [1 - 2j]


def test_graphs_name_the_views():
    x = torch.zeros(2, 3, 4, requires_grad=True)
    names = {
        x.view(6, 4): "ViewBackward0", x.mT.reshape(6, 4): "UnsafeViewBackward0", x.mT: "TransposeBackward0",
        x[0].t(): "TBackward0", x.permute(2, 0, 1): "PermuteBackward0", x.expand(2, 2, 3, 4): "ExpandBackward0",
        x.squeeze(): "SqueezeBackward0", x.squeeze(0): "SqueezeBackward1", x.squeeze((0, 1)): "SqueezeBackward2",
        x.unsqueeze(0): "UnsqueezeBackward0", x[1]: "SelectBackward0", x[1:]: "SliceBackward0",
        x[...]: "AliasBackward0", x[[0, 1]]: "IndexBackward0",
        x.unbind()[0]: "UnbindBackward0", x.split(1)[0]: "SplitBackward0",
        x.diagonal(): "DiagonalBackward0", x.as_strided((2,), (1,)): "AsStridedBackward0",
    }  # fmt: skip
    assert {type(t.grad_fn).__name__ for t in names} == set(names.values())
    assert all(type(t.grad_fn).__name__ == name for t, name in names.items())


X = torch.zeros(2, 3)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: X.view(5), RuntimeError, "shape '[5]' is invalid for input of size 6"),
        (lambda: X.view(-1, -1), RuntimeError, "only one dimension can be inferred"),
        (
            lambda: X.transpose(0, 2),
            IndexError,
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)",
        ),
        (lambda: X.permute(0, 0), RuntimeError, "permute(): duplicate dims are not allowed."),
        (lambda: X.expand(3, 3), RuntimeError, "The expanded size of the tensor (3) must match the existing size (2)"),
        (lambda: X.select(1, 3), IndexError, "select(): index 3 out of range for tensor of size [2, 3] at dimension 1"),
        (lambda: X.narrow(1, 2, 2), RuntimeError, "start (2) + length (2) exceeds dimension size (3)."),
        (lambda: X.unfold(1, 4, 1), RuntimeError, "maximum size for tensor at dimension 1 is 3 but size is 4"),
        (lambda: X.as_strided((9,), (1,)), RuntimeError, "are out of bounds for storage of size 24"),
        (lambda: X.split([1, 1], 1), RuntimeError, "split_with_sizes expects split_sizes to sum exactly to 3"),
        (lambda: X.imag, RuntimeError, "imag is not implemented for tensors with non-complex dtypes."),
        (lambda: torch.zeros(2, 3, 4).t(), RuntimeError, "t() expects a tensor with <= 2 dimensions, but self is 3D"),
        (lambda: X.sum_to_size(2), RuntimeError, "size {[2]} is not expandable to size {[2, 3]}."),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)


def test_view_of_floats_names_what_was_given():
    with pytest.raises(TypeError, match=r"view\(\) received an invalid combination of arguments - got \(float, int\)"):
        torch.ones(6).view(2.0, 3)


def test_more_parts_than_memory_holds():
    with pytest.raises(MemoryError):
        torch.tensor_split(torch.ones(5), 2**45)
