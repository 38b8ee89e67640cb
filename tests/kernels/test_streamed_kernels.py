"""Plain arithmetic on arrays that no cache holds, whose kernels write past the caches: the same numbers as others."""

import pytest

import jitgrad as torch
from jitgrad.kernels.elementwise import declaration


@pytest.fixture
def streamed(monkeypatch):
    """A function that calls another one with kernels that write past the caches; it fails where none does."""

    def call(function, *args):
        texts = []
        text = declaration.elementwise_text
        with monkeypatch.context() as patch:
            patch.setattr(declaration, "STREAMED_BYTES", 1)
            patch.setattr(declaration, "_kernels", {})
            patch.setattr(declaration, "elementwise_text", lambda *a: texts.append(text(*a)) or texts[-1])
            result = function(*args)
        assert any("stream(" in t for t in texts)
        return result

    return call


# Layouts that no other test has, or their plans would be kept from there.
@pytest.mark.parametrize("size", [1, 1023, 5003, 70001])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64, torch.int16])
def test_results_are_those_of_other_kernels(streamed, size, dtype):
    x, y = (torch.randint(-9, 9, (size + 11 + dtype.itemsize,)).to(dtype) for _ in range(2))
    product, same = streamed(lambda: (x * y, x == y))
    pieces = [slice(k, k + 700) for k in range(0, len(x), 700)]
    assert torch.equal(product, torch.cat([x[p] * y[p] for p in pieces]))
    assert torch.equal(same, torch.cat([x[p] == y[p] for p in pieces]))


@pytest.mark.parametrize("offset", [0, 1, 8, 13])
def test_memory_that_begins_anywhere(streamed, offset):
    x = torch.randn(3, 1709 + offset)
    room = torch.full((x.numel() + offset + 8,), -1.0)
    out = room[offset : offset + x.numel()].view(x.shape)
    streamed(lambda: torch.sub(x, 2, out=out))
    assert torch.equal(out, torch.stack([row - 2 for row in x]))
    assert (room[:offset] == -1).all() and (room[offset + x.numel() :] == -1).all()


def test_several_results_and_orders(streamed):
    x, y = (torch.randn(31, 127).t().requires_grad_() for _ in range(2))
    g = torch.randn(31, 127).t()
    found = streamed(lambda: torch.autograd.grad(x * y, (x, y), g))
    assert torch.equal(found[0], g * y) and torch.equal(found[1], g * x)
    assert found[0].stride() == (1, 127)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("start", "end"), [(0, 1), (1, -1), (-3, None), (7, 7), (40_000, 70_000)])
def test_gradients_of_large_slices(threads, start, end):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        for columns in (1, 51):
            x = torch.zeros((1 << 22) // columns + 9, columns, requires_grad=True)
            part = x[start:end]
            g = torch.randn(part.shape)
            (found,) = torch.autograd.grad(part, x, g)
            assert torch.equal(found[start:end], g)
            assert found.count_nonzero() == g.count_nonzero()
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("columns", [128, 131, 640])
def test_large_rows_by_an_index(columns):
    x = torch.randn(500, columns)
    index = torch.randint(0, 500, ((1 << 22) // columns + 3,))
    found = x.index_select(0, index)
    assert torch.equal(found, x.gather(0, index[:, None].expand(-1, columns)))
