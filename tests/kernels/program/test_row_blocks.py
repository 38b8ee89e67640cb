"""Launches that work row by row, done on some rows at a time."""

import pytest

import jitgrad as torch
from jitgrad.kernels.program import Passes, row_blocks
from jitgrad.kernels.program.row_blocks import RowBlocks

F = torch.nn.functional


def step(recorded, rows, length, dtype=torch.float32):
    x = torch.randn(rows, length, dtype=dtype, requires_grad=True)
    w, b = (torch.rand(length, dtype=dtype, requires_grad=True) for _ in range(2))
    with recorded() as launches:
        loss = torch.log_softmax(F.layer_norm(x, (length,), w, b), 1).mean()
        loss.backward()
    return launches, [], [loss._data, x.grad._data, w.grad._data, b.grad._data]


def blocks_of(launches):
    return [m.kernel for m in launches if isinstance(m.kernel, RowBlocks)]


@pytest.mark.parametrize(("rows", "length"), [(64, 16), (67, 5), (1, 8), (2, 1), (300, 7), (528, 6)])
@pytest.mark.parametrize("compiled", [True, False])
def test_layer_norm_and_log_softmax(rows, length, compiled, any_size, one_thread, recorded, check):
    made = check(*step(recorded, rows, length), passes=Passes(fusion=False), compiled=compiled)
    if rows > 2:
        (kernel,) = blocks_of(made)
        assert kernel.block < kernel.rows and len(kernel.members) >= 5 and kernel.inside
    assert not blocks_of(check(*step(recorded, rows, length), passes=Passes(row_blocks=False)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("block_bytes", [1, 2000, 10_000, 1 << 30])
def test_on_threads(block_bytes, dtype, any_size, one_thread, monkeypatch, recorded, check):
    torch.set_num_threads(2)
    monkeypatch.setattr(row_blocks, "BLOCK_BYTES", block_bytes)
    check(*step(recorded, 103, 12, dtype), passes=Passes(fusion=False), compiled=True)


def test_sums_of_columns(any_size, one_thread, recorded, check):
    x = torch.randn(40, 6, requires_grad=True)
    b = torch.zeros(6, requires_grad=True)
    g = torch.randn(40, 6)
    with recorded() as launches:
        (torch.softmax(x + b, 1) * g).sum().backward()
    assert blocks_of(check(launches, [], [x.grad._data, b.grad._data], passes=Passes(fusion=False), compiled=True))


@pytest.mark.parametrize("everything", [False, True])
def test_what_others_need_is_stored(everything, any_size, one_thread, recorded, check):
    x = torch.randn(40, 6)
    with recorded() as launches:
        a = torch.softmax(x, 1)
        b = torch.log_softmax(a, 1)
        c = torch.softmax(b, 1)
        d = b.t().contiguous()  # reads another way
    kept = [a, b, c, d] if everything else [c, d]
    (kernel,) = blocks_of(check(launches, [], [t._data for t in kept], compiled=True))
    assert len(kernel.inside) == (0 if everything else 1)


def test_in_place(any_size, one_thread, recorded, check):
    x = torch.randn(40, 6)
    before = [(x._data, x._data.copy())]
    with recorded() as launches:
        a = torch.softmax(x, 1)
        x.mul_(a)
        b = torch.log_softmax(x, 1)
        x.add_(b)
    assert blocks_of(check(launches, before, [x._data, b._data], passes=Passes(fusion=False), compiled=True))


def test_weights_computed_from_all_rows_end_a_group(any_size, one_thread, recorded, check):
    x = torch.randn(40, 6)
    with recorded() as launches:
        a = torch.softmax(x, 1)
        total = a.sum(0)
        b = torch.log_softmax(a * total, 1)
    check(launches, [], [b._data, total._data], passes=Passes(fusion=False), compiled=True)
