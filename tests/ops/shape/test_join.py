"""cat and stack against NumPy: any strides, ranks and numbers of tensors, conjugate views, observed launches."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jitgrad as torch
from jitgrad.debug import tape


@st.composite
def tensors(draw):
    """(tensors that agree in all sizes but one, that dim): views with steps, expanded ones and transposed ones."""
    shape = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    dim = draw(st.integers(0, len(shape) - 1))
    name = draw(st.sampled_from(["float32", "float64", "bool", "int16", "complex128"]))
    return [_drawn(draw, shape, dim, name) for _ in range(draw(st.integers(1, 10)))], dim


def _drawn(draw, shape, dim, name):
    sizes = [draw(st.integers(0, 4)) if d == dim else n for d, n in enumerate(shape)]
    order = draw(st.permutations(range(len(sizes))))
    steps = [draw(st.integers(1, 2)) for _ in sizes]
    memory = np.arange(np.prod([sizes[d] * steps[d] for d in order], dtype=int)) % 7
    whole = torch.tensor(memory.astype(name).reshape([sizes[d] * steps[d] for d in order]))
    view = whole.permute(*(order.index(d) for d in range(len(order))))[tuple(slice(None, None, s) for s in steps)]
    return view[:1].expand(sizes) if sizes[0] and draw(st.booleans()) else view


@settings(max_examples=150, deadline=None)
@given(tensors())
def test_cat_of_any_strides(given_tensors):
    parts, dim = given_tensors
    np.testing.assert_array_equal(torch.cat(parts, dim).numpy(), np.concatenate([p.numpy() for p in parts], dim))


@settings(max_examples=100, deadline=None)
@given(tensors(), st.integers(0, 4))
def test_stack_of_any_strides(given_tensors, dim):
    parts = [p for p in given_tensors[0] if p.shape == given_tensors[0][0].shape]
    dim = min(dim, parts[0].ndim)
    np.testing.assert_array_equal(torch.stack(parts, dim).numpy(), np.stack([p.numpy() for p in parts], dim))


def test_a_conjugate_view_is_joined_as_its_numbers():
    x = torch.tensor([1 + 2j, 3 - 1j])
    for _ in range(2):  # the second call finds the plan
        np.testing.assert_array_equal(torch.cat([x, x.conj()]).numpy(), [1 + 2j, 3 - 1j, 1 - 2j, 3 + 1j])
        np.testing.assert_array_equal(torch.stack([x.conj(), x], 1).numpy()[:, 0], [1 - 2j, 3 + 1j])


def test_a_recorded_join_reads_its_tensors_again():
    x, y = torch.zeros(2), torch.ones(2)
    torch.cat([x, y])
    with tape() as launches:
        out = torch.cat([x, y])
    x.fill_(5.0)
    launches.replay()
    assert out.tolist() == [5, 5, 1, 1]


@pytest.mark.parametrize("name", ["float32", "int64", "bool", "complex64"])
def test_zeros_are_positive_and_written_again_by_a_replay(name):
    with tape() as launches:
        x = torch.zeros(3, dtype=getattr(torch, name))
    x.fill_(1)
    launches.replay()
    assert not x.numpy().any()
    assert not np.signbit(torch.zeros(3).numpy()).any() and np.signbit(torch.full((3,), -0.0).numpy()).all()


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("other", [torch.int64, torch.uint8, torch.bool])
@pytest.mark.parametrize("join", [torch.cat, torch.stack])
def test_integers_beside_16_bit_floats_are_converted(half, other, join):
    parts = [torch.ones(2, dtype=other), torch.tensor([2.0, 3.0], dtype=half)]
    for made, expected in ((parts, [1, 1, 2, 3]), (parts[::-1], [2, 3, 1, 1])):
        joined = join(made)
        assert joined.dtype is half
        assert joined.flatten().tolist() == expected
