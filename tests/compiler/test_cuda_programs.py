"""Compiled functions on CUDA tensors: on a GPU, or in Numba's simulator, where ``test_cuda.py`` runs them."""

import functools
import gc

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.compiler import placeholders
from jitgrad.kernels.cuda import driver
from jitgrad.kernels.cuda import loops as cuda_loops
from jitgrad.kernels.cuda.driver import SIMULATED
from jitgrad.kernels.program import device_arrays
from jitgrad.testing import assert_close
from tests.compiler.alike import check, launches, normal, same

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="neither a GPU nor the simulator is there")


def cuda(*shape, seed=0):
    return normal(*shape, seed=seed).cuda()


def equal(one, other):
    return torch.equal(one.cpu(), other.cpu())


def step():
    w, b = cuda(3).requires_grad_(), cuda(4, 1, seed=1).requires_grad_()

    def train(x):
        y = torch.sigmoid(x * w + b)
        loss = (y * y).sum()
        w.grad = b.grad = None
        loss.backward()
        with torch.no_grad():
            for p in (w, b):
                p.sub_(p.grad, alpha=0.1)
        return loss.detach(), y.detach()

    return train, lambda k: (cuda(4, 3, seed=k),), lambda: (w, b, w.grad, b.grad)


def test_a_step_as_eager():
    compiled = check(step)
    assert "sum_rows" in compiled.explain().recordings[0].kernels


def test_elementwise_launches_are_one_kernel():
    function, arguments, _ = step()
    kernels = {}
    for fusion in (True, False):
        compiled = torch.compile(function, options={"fusion": fusion})
        compiled(*arguments(0))
        (recording,) = compiled.explain().recordings
        kernels[fusion] = recording.kernels
        # A row and a column of the matrix, which the loop goes through as a vector.
        assert ("= row0[np.uint32(np.uint32(i_) % np.uint32(width_))]" in compiled.source()) is fusion
        assert ("= column0[np.uint32(np.uint32(i_) // np.uint32(width_))]" in compiled.source()) is fusion
    first = next(iter(kernels[True]))
    assert first.startswith("fused(mul_forward, add_forward, sigmoid_forward, mul_forward, mul_backward")
    assert (sum(kernels[True].values()), sum(kernels[False].values())) == (6, 13)


def test_launches_that_are_repeated_or_unread_are_left_out():
    def function(x):
        unused = x.exp()
        return (x * 2).tanh() + (x * 2).tanh(), unused.shape[0]

    counts = []
    for passes in (True, False):
        options = {"fusion": False, "repeated": passes, "dead": passes}
        compiled = torch.compile(function, options=options)
        for k in range(3):
            same(compiled(cuda(2, 3, seed=k)), function(cuda(2, 3, seed=k)), k)
        counts.append(compiled.explain().recordings[0].launches)
    assert counts == [3, 6]


def random_op(kind, a, b):
    if kind < 2:
        return (torch.tanh, torch.relu)[kind](a)
    if kind < 5:
        return (torch.add, torch.mul, torch.maximum)[kind - 2](a, b)
    if kind == 5:
        return torch.where(a > b, a, -b)
    if kind == 6:
        return a.t() * 0.5 if a.dim() == 2 and a.shape[0] == a.shape[1] else a + 1
    if kind == 7:
        return a.sum(0) * 0.1 if a.dim() == 2 and a.shape[0] > 1 else a - 1
    target = a.expand(3, 3).clone()
    target[:, 1:].mul_(2)
    return target


def random_program(seed):
    """A function of two matrices, a row, a column and a number: of ops, broadcasts, views and writes in place."""
    draw = np.random.default_rng(seed)
    plan = tuple((int(draw.integers(9)), *map(int, draw.integers(5 + k, size=2))) for k in range(8))

    def function(x, y, row, column, number):
        values = [x, y.t(), row, column, number]
        for kind, first, second in plan:
            values.append(random_op(kind, values[first], values[second]))
        return values[-1], values[-3]

    return function


@pytest.mark.parametrize("seed", range(6))
def test_random_programs(seed):
    function = random_program(seed)

    def arguments(k):
        return [cuda(*s, seed=10 * seed + k + j) for j, s in enumerate([(3, 3), (3, 3), (3,), (3, 1), ()])]

    check(lambda: (function, arguments, lambda: None), calls=3, recordings=None)


def test_memory_of_tensors_that_are_freed_while_recording(monkeypatch):
    monkeypatch.setattr(placeholders, "MIN_BYTES", 1)
    check(step)


def test_backward_outside():
    def make():
        w = cuda(3).requires_grad_()

        def function(x):
            return torch.tanh(x * w).exp(), (x * w).sum()

        def arguments(k):
            x = cuda(2, 3, seed=k)
            return (x.requires_grad_() if k % 2 else x,)

        return function, arguments, lambda: w

    function, arguments, weight = make()
    compiled = torch.compile(function)
    for k in range(6):
        found = []
        for called in (function, compiled):
            (x,) = arguments(k)
            y, total = called(x)
            weight().grad = None
            (y.sum() + 2 * total).backward()
            found.append([t for t in (y, total, weight().grad, x.grad) if t is not None])
        for one, other in zip(*found, strict=True):
            assert equal(one, other)
    assert len(compiled._variants) == 2


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
        lambda p: torch.optim.AdamW(p, lr=0.05),
    ],
    ids=["momentum", "adamw"],
)
def test_a_module_and_its_optimizer(make):
    def whole():
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.ReLU()).cuda()
        optimizer = make(model.parameters())

        def train(x, y):
            optimizer.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        def arguments(k):
            optimizer.param_groups[0]["lr"] = 0.1 / (k + 1)
            return cuda(2, 2, seed=k), cuda(2, 1, seed=k + 50)

        return train, arguments, lambda: (list(model.parameters()), optimizer.state_dict()["state"])

    check(whole, calls=4)


def test_both_sides_in_one_function():
    def make():
        scale = torch.tensor(2.0)

        def function(x):
            y = x.t().cuda() * scale + torch.tensor([1.0, 2.0]).cuda()
            return y, (y + 1).cpu() * 2

        return function, lambda k: (normal(2, 3, seed=k),), lambda: scale

    check(make)


def test_arguments_that_share_memory_in_one_call_only():
    def function(a, b):
        a.add_(1)
        b.mul_(2)
        return a * b

    compiled = torch.compile(function)
    for shared in ("", "", "", "same", "", "view"):
        a, other = cuda(6), cuda(6, seed=1)
        pairs = [(x, {"": other.clone(), "same": x, "view": x[:]}[shared]) for x in (a.clone(), a.clone())]
        assert equal(compiled(*pairs[0]), function(*pairs[1]))
        assert all(equal(x, y) for x, y in zip(*pairs, strict=True))


def test_views_and_parts_that_are_filled():
    def function(x):
        y = x * 2
        y[:, 1].fill_(7)
        y.t()[0] += x[0, 1:]
        return y[1] + 1, y[1:, ::2], torch.zeros(2, device="cuda")

    check(lambda: (function, lambda k: (cuda(3, 4, seed=k),), lambda: None))


def test_memory_is_the_tensors_alone():
    compiled = torch.compile(lambda x: (x * 2 + 1).sum(1))
    x = cuda(3, 40)
    for _ in range(3):
        compiled(x)
    assert len(compiled._variants) == 1
    gc.collect()
    before = torch.cuda.memory_allocated()
    kept = compiled(x)
    values = kept.tolist()
    assert torch.cuda.memory_allocated() - before == kept._data.allocation.nbytes
    compiled(x + 1)
    assert kept.tolist() == values
    del kept
    assert torch.cuda.memory_allocated() == before


def test_old_gradients_are_freed_before_there_are_new_ones():
    w = torch.ones(1024, device="cuda", requires_grad=True)

    def function(x):
        w.grad = None
        (w * x).sum().backward()

    compiled = torch.compile(function)
    x = torch.ones(1024, device="cuda")
    peaks = []
    for called in (function, compiled):
        for _ in range(3):
            called(x)
        gc.collect()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        called(x)
        peaks.append(torch.cuda.max_memory_allocated() - before)
    assert len(compiled._variants) == 1
    assert max(peaks) <= 1024  # bytes besides one gradient, which is there before as well
    assert w.grad.tolist() == [1.0] * 1024


def tables(compiled):
    (replay,) = compiled._variants
    (stretch,) = replay.program.device.stretches
    return stretch._tables


def test_launches_are_kept_for_places_that_come_again():
    function = lambda x: (x * 2 + 1).sum(0)
    compiled = torch.compile(function)
    given = [cuda(3, seed=k) for k in range(7)]
    for x in given[:2] * 4:
        assert equal(compiled(x), function(x))
    first = tables(compiled)
    assert 1 <= len(first) <= 3  # the first call was recorded, and results may lie in either of two places
    kept = [compiled(x) for x in given]
    assert all(equal(y, function(x)) for x, y in zip(given, kept, strict=True))
    assert len(tables(compiled)) == 4
    torch.cuda.empty_cache()
    assert not tables(compiled)
    assert equal(compiled(given[0]), kept[0])


class Capture:
    """Stands for what cuda.core captures graphs with; in the simulator launches are done meanwhile."""

    default_stream, handle = "default", 7

    def __init__(self, fails):
        self.fails, self.calls = fails, []

    create_graph_builder = end_building = complete = stream = property(lambda self: self)

    def __call__(self):
        return self

    def begin_building(self):
        self.calls.append("begin")
        if self.fails:
            raise RuntimeError("this device captures nothing")

    def close(self):
        self.calls.append("close")

    def launch(self, stream):
        self.calls.append(stream)


@pytest.mark.skipif(not SIMULATED, reason="the simulator's streams are numbers")
@pytest.mark.parametrize("fails", [False, True])
def test_how_graphs_are_captured(monkeypatch, fails):
    capture = Capture(fails)
    monkeypatch.setattr(driver, "device", lambda: capture)
    function = lambda x: (x * 2).sum(0) * 3
    compiled = torch.compile(function)
    x = cuda(4, 3)
    for _ in range(3):
        found = compiled(x)
        last = found.data_ptr()
        del found
    tables(compiled).clear()
    capture.calls.clear()
    for k in range(3):  # done, captured and done as a graph, done as a graph
        found = compiled(x)
        assert found.data_ptr() == last
        assert fails or k or not capture.calls
        assert not fails or equal(found, function(x))
        del found
    assert capture.calls == ["begin", "close"] + ([] if fails else ["default", "default"])


@pytest.mark.skipif(SIMULATED, reason="the simulator has no graphs")
def test_launches_that_come_again_become_a_graph():
    function = lambda x: (torch.sigmoid(x * 2 + 1).sum(0) @ x.t()).exp()
    compiled = torch.compile(function)
    given = [cuda(40, 30, seed=k) * 0.1 for k in range(2)]
    for k in range(12):
        x = given[k % 2]
        assert_close(compiled(x).cpu(), function(x).cpu(), rtol=1e-5, atol=1e-6)
    assert any(isinstance(t.run, functools.partial) for t in tables(compiled).values())


def graph_of(noted):
    """What a graph is: the launches, without the memory that they need."""
    launches = list(noted.launches)
    return lambda: [on()(*args) for on, args in launches]


def test_memory_that_kernels_need_for_themselves(monkeypatch):
    if SIMULATED:
        monkeypatch.setattr(device_arrays, "graph_of", graph_of)
    monkeypatch.setattr(cuda_loops, "LENGTH", 8)
    monkeypatch.setattr(cuda_loops, "ENOUGH", 4)
    function = lambda x: (x * 2).sum()
    compiled = torch.compile(function)
    given, others = [cuda(30, seed=k) for k in range(2)], []
    for k in range(16):
        x = given[k % 2]
        others.append(torch.full((4,), float(k), device="cuda"))  # as large as the sums of parts
        assert equal(compiled(x), function(x))
    assert [t.tolist() for t in others] == [[float(k)] * 4 for k in range(16)]


def test_numbers_that_are_read_are_not_compiled():
    def whole():
        w, history = cuda(3).requires_grad_(), []

        def train(x):
            loss = (x * w).square().sum()
            w.grad = None
            loss.backward()
            history.append(loss.item())
            with torch.no_grad():
                w.sub_(w.grad, alpha=0.1)

        return train, lambda k: (cuda(3, seed=k),), lambda: (w, history)

    compiled = check(whole, calls=5, recordings=None)
    assert "item() reads a number of a tensor on a device" in str(compiled.explain())
    assert launches(compiled) == [6, 1]


def test_arrays_without_data_fall_back():
    compiled = torch.compile(lambda x: x * 2)
    with pytest.warns(torch.compiler.CompileWarning, match="without data"):
        for _ in range(3):
            assert compiled(torch.ones(2, device="meta")).shape == (2,)


def test_an_op_without_a_kernel_is_refused_as_in_eager():
    compiled = torch.compile(lambda x: x.prod())
    for _ in range(2):
        with pytest.raises(NotImplementedError, match="^Could not run 'aten::prod.*' with arguments from the 'CUDA' b"):
            compiled(cuda(3))
