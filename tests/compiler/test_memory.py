"""The memory of compiled functions: what a recording and its replays need at once."""

import gc
import weakref

import pytest

import jitgrad as torch
from jitgrad.compiler import placeholders
from jitgrad.compiler.recording import record
from jitgrad.core.block_pool import pool
from tests.compiler.alike import normal

SIZE = 1 << 19  # elements: arrays of 2 MB, more than an array of constants may have


class Peak:
    """The most bytes of the pool's blocks that arrays had at one time."""

    def __init__(self, monkeypatch):
        self.now = self.most = 0
        take, give_back = pool._take, pool._give_back

        def counted(size):
            self.now += size
            self.most = max(self.most, self.now)
            return take(size)

        def returned(loan):
            self.now -= len(loan.block)
            give_back(loan)

        monkeypatch.setattr(pool, "_take", counted)
        monkeypatch.setattr(pool, "_give_back", returned)

    def of(self, step):
        self.now = self.most = 0
        step()
        return self.most


@pytest.fixture
def peak(monkeypatch):
    return Peak(monkeypatch)


def test_a_recording_lets_go_of_temporaries(peak):
    x = torch.randn(SIZE)

    def chain():
        y = x * 2
        for _ in range(8):
            y = (y + 1).sin()
        return y.sum()

    wanted = peak.of(chain)
    assert wanted < 4 * x.nbytes
    compiled = torch.compile(chain, options={"fusion": False, "row_blocks": False})
    assert peak.of(compiled) <= wanted
    assert peak.of(compiled) <= wanted
    x.copy_(torch.randn(SIZE))
    assert torch.equal(compiled(), chain())
    assert len(compiled.explain().recordings) == 1


def test_what_temporaries_had_while_they_were_recorded_is_freed(peak):
    x = torch.randn(SIZE)
    function = lambda: ((x + 1).sin() + x.cos()).sum()
    compiled = torch.compile(function, options={"fusion": False, "row_blocks": False})
    pool.clear()
    function()
    before = peak.now + pool.kept_bytes
    assert before > 3 * x.nbytes
    compiled()
    compiled()
    assert peak.now > 2 * x.nbytes  # there is a block for temporaries now
    assert peak.now + pool.kept_bytes < 1.2 * before


def test_new_gradients_take_the_place_of_old_ones(peak):
    x = torch.randn(SIZE, requires_grad=True)

    def step():
        x.grad = None
        (x.sin() * x).sum().backward()

    step()
    wanted = peak.of(step)
    compiled = torch.compile(step)
    compiled()
    for _ in range(3):
        assert peak.of(compiled) <= wanted
    kept = x.grad  # someone else has it, so that the next run has to make another one
    kept_values = kept.clone()
    with torch.no_grad():
        x.mul_(0.5)
    compiled()
    assert x.grad is not kept and torch.equal(kept, kept_values)
    found = x.grad.clone()
    step()
    assert torch.allclose(found, x.grad)


@pytest.fixture
def every_size(monkeypatch):
    monkeypatch.setattr(placeholders, "MIN_BYTES", 1)


def agree(function, *shapes, requires_grad=False):
    compiled = torch.compile(function, fullgraph=True)
    for seed in range(4):
        torch.manual_seed(seed)
        given = [torch.randn(s, requires_grad=requires_grad) for s in shapes]
        found, wanted = compiled(*given), function(*given)
        if requires_grad:
            found, wanted = (torch.autograd.grad(r.square().sum(), given) for r in (found, wanted))
        else:
            found, wanted = [found], [wanted]
        for one, other in zip(found, wanted, strict=True):
            assert one.stride() == other.stride()
            assert torch.allclose(one, other)
    assert compiled._variants


@pytest.mark.parametrize("rows", [7, 300])
def test_constants_keep_their_values(rows, every_size):
    agree(lambda x: x.masked_fill(torch.ones(rows, rows).triu(1) > 0, -1.0).softmax(-1) * 2, (rows, rows))


def test_temporaries_in_any_order_of_memory(every_size):
    agree(lambda x: ((x.t() * 2).exp()[1:, ::2] + 1).t() * x.t().sin().t()[::2, 1:], (6, 5))
    agree(lambda x: (x.permute(2, 0, 1) * 2).cumsum(1).permute(1, 2, 0) + 1, (3, 4, 5))


def test_temporaries_that_are_written_in_part(every_size):
    def function(x):
        made = torch.empty_like(x)
        made[:2] = x[:2] * 3
        made[2:] = 1.0
        made[1:3] += x[1:3]
        return made.expand(2, *x.shape).sum(0) + torch.cat([made[2:], made[:2]])

    agree(function, (4, 5))


def test_temporaries_that_backward_reads(every_size):
    agree(lambda x, w: ((x @ w).sigmoid() * (x @ w).tanh()).exp(), (4, 5), (5, 6), requires_grad=True)


def test_what_was_recorded_is_freed_without_the_collector():
    weight = normal(4, 4).requires_grad_()

    def step(x):
        weight.grad = None
        y = torch.tanh(x @ weight)
        y.sum().backward()
        return y.detach()

    for function in (step, lambda x: torch.tanh(x @ weight)):
        compiled = torch.compile(function, fullgraph=True)
        gc.collect()
        gc.disable()
        try:
            found = [weakref.ref(compiled(normal(3, 4, seed=k))) for k in range(4)]
            assert [reference() for reference in found] == [None] * 4
        finally:
            gc.enable()


def test_what_is_written_part_by_part_has_no_first_contents():
    """A launch for each part of what is joined, and none reads what was there before."""
    x, y = torch.randn(SIZE, 2), torch.randn(SIZE, 3)
    step = lambda: torch.cat([x, y], 1) * 2
    assert record(step, (), {}).initial == {}
    compiled = torch.compile(step)
    for k in range(3):
        x.fill_(k)
        assert torch.equal(compiled(), step())


def test_what_is_written_in_part_and_then_as_a_whole_has_no_first_contents():
    x = torch.randn(4, 3)

    def step():
        made = torch.empty(8, 3)
        made[::2] = x
        made.copy_(x.repeat(2, 1))
        return made

    assert record(step, (), {}).initial == {}


@pytest.mark.parametrize("size", [6, SIZE])
def test_what_is_read_before_all_of_it_is_written(size):
    """Python's numbers that launches write over in part, and those that are returned so."""
    x = torch.randn(size)

    def given():
        made = torch.tensor([7.0]).expand(size).clone()
        numbers = torch.tensor([0.0, 1.0, 2.0, 3.0])
        made[::2] = x[::2]
        numbers[1] = x[0]
        return made * 2, numbers

    compiled = torch.compile(given)
    for k in range(4):
        x.fill_(k)
        assert all(map(torch.equal, compiled(), given()))


def test_launches_are_freed_without_the_collector():
    x = torch.randn(SIZE)
    gc.collect()
    gc.disable()
    try:
        made = record(lambda: (x * 2).sin().sum(), (), {})
        launches = weakref.ref(made.placeholders)
        del made
        assert launches() is None
    finally:
        gc.enable()


def test_old_gradients_are_freed_while_a_step_is_recorded(peak):
    weights = [torch.randn(SIZE, requires_grad=True) for _ in range(4)]
    optimiser = torch.optim.SGD(weights, lr=0.1)

    def step():
        optimiser.zero_grad()
        sum((w * 2).sum() for w in weights).backward()
        optimiser.step()

    for _ in range(2):
        step()
    wanted = peak.of(step)
    compiled = torch.compile(step)
    for _ in range(3):  # recorded, and replayed
        assert peak.of(compiled) <= wanted
    assert all(w.grad is not None for w in weights)


def test_the_text_of_a_step_is_no_longer_for_more_parameters():
    def text_of(count):
        weights = [torch.randn(3, requires_grad=True) for _ in range(count)]
        optimiser = torch.optim.Adam(weights)

        def step():
            optimiser.zero_grad()
            sum((w * w).sum() for w in weights).backward()
            optimiser.step()

        compiled = torch.compile(step)
        for _ in range(3):
            compiled()
        return compiled._variants[0].text

    assert text_of(9).count("\n") == text_of(3).count("\n")
    assert len(text_of(9)) < len(text_of(3)) + 20  # longer names of constants


def test_products_that_are_turned_share_memory(monkeypatch):
    from jitgrad.kernels.program.builder import Builder

    made = []
    monkeypatch.setattr(Builder, "finish", lambda self, finish=Builder.finish: made.append(self) or finish(self))
    x, weights = torch.randn(32, 512), [torch.randn(512, 1024) for _ in range(3)]
    compiled = torch.compile(lambda: [x @ w for w in weights])
    for _ in range(3):
        results = compiled()
    for result, w in zip(results, weights, strict=True):
        torch.testing.assert_close(result, x @ w)
    assert all(b.scratch.nbytes <= 32 * 1024 * 4 for b in made)
