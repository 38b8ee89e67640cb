"""Random steps, compiled, against the same steps uncompiled: ops, views, writes in place, optimisers, several calls.

``JITGRAD_FUZZ_PROGRAMS`` sets how many programs are tried (40), ``JITGRAD_FUZZ_SEED`` the first one's seed (0).
"""

import os
import warnings

import numpy as np
import pytest

import jitgrad as torch
from jitgrad import nn
from jitgrad.utils._pytree import tree_leaves
from tests.compiler import programs, wider_programs
from tests.compiler.alike import same

F = nn.functional
PROGRAMS = int(os.environ.get("JITGRAD_FUZZ_PROGRAMS", "40"))
SEED = int(os.environ.get("JITGRAD_FUZZ_SEED", "0"))


# Each takes a matrix of N x M and a random one of them, and returns a matrix of N x M.
def reshaped(x, y):
    return (x.reshape(y.shape[1], y.shape[0]) * 2).reshape(y.shape)


def turned(x, y):
    return (x.t() * y.t()).t()


def sliced_write(x, y):
    z = x * 1
    z[1:] = y[:-1]
    z[:, 0] += y[:, 1]
    return z


def chained_writes(x, y):
    return (x * 0.5).add_(y).clamp_(-3, 3).mul_(y.detach())


def view_write(x, y):
    z = y.clone()
    z.view(-1)[::2].mul_(0.5)
    z.diagonal().add_(x.diagonal())
    return z


def product(x, y):
    return (x @ y.t() / 4) @ x


def normalised(x, y):
    return F.layer_norm(x, x.shape[1:]) + F.softmax(y, 1)


def joined(x, y):
    z = torch.cat([x, y], 1)
    return z[:, ::2][:, : x.shape[1]]


def stacked(x, y):
    return torch.stack([x, y, x * y]).sum(0)


def chosen(x, y):
    return torch.where(x > y, x, y.abs()) + torch.maximum(x, y)


def indexed(x, y):
    rows = torch.tensor([0, 1, 1, 0])
    return x.index_add(0, rows[: len(rows)], y[rows]) * 0.5


def sorted_rows(x, y):
    return x.sort(1)[0] + y.cumsum(0) * 0.1


def reduced(x, y):
    return x - x.mean(1, keepdim=True) + y.amax(0) + y.logsumexp(1, keepdim=True)


def activated(x, y):
    return F.gelu(x) * torch.sigmoid(y) + torch.tanh(x)


def powers(x, y):
    return x**2 / (1 + y**2) + (x.abs() + 0.1) ** 0.5


def random(x, y):
    return F.dropout(x, 0.3) + torch.rand(y.shape) * y


def expanded(x, y):
    return x[:1].expand(x.shape) * y + x[:, -1:]


def swapped(x, y):
    return torch.flip(x, (0,)) + torch.roll(y, 1, 1)


def detached(x, y):
    with torch.no_grad():
        scale = (y * y).mean()
    return x * scale


OPS = [
    reshaped, turned, sliced_write, chained_writes, view_write, product, normalised, joined, stacked, chosen, indexed,
    sorted_rows, reduced, activated, powers, random, expanded, swapped, detached,
]  # fmt: skip
OPTIMIZERS = [
    lambda p: torch.optim.SGD(p, lr=0.01),
    lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
    lambda p: torch.optim.Adam(p, lr=0.01),
    lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
    lambda p: torch.optim.RMSprop(p, lr=0.01),
]


def program(seed):
    """(step, forward, arguments(k), state()) of a random program: ops applied to two earlier values each.

    ``forward(x)`` returns what a step does before backward: the last value and the loss.
    """
    rng = np.random.default_rng(seed)
    n, m = (int(v) for v in rng.integers(2, 7, 2))
    dtype = torch.float64 if rng.random() < 0.3 else torch.float32
    chain = [(OPS[rng.integers(len(OPS))], *map(int, rng.integers(0, 3 + k, 2))) for k in range(rng.integers(1, 9))]
    weights = [torch.tensor(rng.standard_normal((n, m)), dtype=dtype).requires_grad_() for _ in range(2)]
    buffer = torch.zeros(n, m, dtype=dtype)
    optimizer = OPTIMIZERS[rng.integers(len(OPTIMIZERS))](weights)
    forget, writes, scale = rng.random() < 0.7, rng.random() < 0.3, float(rng.random())

    def forward(x):
        values = [*weights, x]
        for op, i, j in chain:
            values.append(op(values[i], values[j]))
        return values[-1], (values[-1] * scale).square().mean() + values[0].sum() * 0.1

    def step(x):
        if forget:
            optimizer.zero_grad()
        last, loss = forward(x)
        loss.backward()
        optimizer.step()
        if writes:
            buffer.mul_(0.5).add_(last.detach())
        return {"loss": loss, "last": last.detach()}

    def arguments(k):
        return (torch.tensor(np.random.default_rng(seed + k).standard_normal((n, m)), dtype=dtype),)

    def state():
        return [*weights, *(w.grad for w in weights), buffer, optimizer.state_dict()["state"]]

    return step, forward, arguments, state


@pytest.mark.parametrize("seed", range(SEED, SEED + PROGRAMS))
def test_a_random_step(seed):
    function, _, arguments, state = program(seed)
    other, _, other_arguments, other_state = program(seed)
    compiled = torch.compile(other, fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.compiler.CompileWarning)
        for k in range(5):
            torch.manual_seed(k)
            try:
                expected = function(*arguments(k))
            except (RuntimeError, IndexError) as error:
                torch.manual_seed(k)
                with pytest.raises(type(error)):
                    compiled(*other_arguments(k))
                return
            torch.manual_seed(k)
            same(compiled(*other_arguments(k)), expected, k)
            same(other_state(), state(), k)
    assert compiled._variants


@pytest.mark.parametrize("seed", range(SEED, SEED + PROGRAMS))
def test_gradients_asked_for_outside(seed):
    _, forward, arguments, state = program(seed)
    compiled, weights = torch.compile(forward, fullgraph=True), state()[:2]
    for k in range(5):
        found = []
        for function in (forward, compiled):
            torch.manual_seed(k)
            x = arguments(k)[0] + weights[k % 2]  # a history that ends in a leaf of the function
            try:
                last, loss = function(x)
            except (RuntimeError, IndexError) as error:
                found.append(type(error))
                continue
            found.append([last, loss, *torch.autograd.grad(loss + last.sum(), [x, *weights], allow_unused=True)])
        if isinstance(found[0], type):
            assert found[0] is found[1]
            return
        for e, f in zip(*found, strict=True):
            assert (e is None) == (f is None) and (e is None or (e.stride(), e.dtype) == (f.stride(), f.dtype))
            _assert_close(f, e, f"call {k}")


@pytest.mark.parametrize("seed", range(SEED, SEED + PROGRAMS))
def test_gradients_asked_for_inside(seed):
    """Toward a weight that the history of the argument may lead to, which may be a leaf or have none."""
    _, forward, arguments, state = program(seed)
    rng, weights = np.random.default_rng(seed), state()[:2]
    histories = [lambda x: x, lambda x: x.requires_grad_(), *(lambda x, w=w: x + w for w in weights)]
    frees, asked = rng.random() < 0.3, int(rng.integers(1, 4))  # bits: of the weights

    def function(x):
        last, loss = forward(x)
        wanted = [w for k, w in enumerate(weights) if asked >> k & 1]
        return last, *torch.autograd.grad(loss, wanted, allow_unused=True, retain_graph=not frees)

    def outcome(call, k, history):
        torch.manual_seed(k)
        left = []
        try:
            results = call(histories[history](arguments(k)[0]))
            left += [r if r is None else r.detach() for r in results]
            left += torch.autograd.grad(results[0].sum(), weights, allow_unused=True)
        except (RuntimeError, IndexError) as error:
            left.append(type(error))
        return left

    compiled = torch.compile(function)
    order = [int(k) for k in rng.integers(0, len(histories), 3)] * 2 + [0, 1, 2, 3]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k, history in enumerate(order):
            for e, f in zip(*(outcome(call, k, history) for call in (function, compiled)), strict=True):
                assert (e is None) == (f is None), f"call {k} of {order}"
                if isinstance(e, type):
                    assert e is f
                else:
                    _assert_close(f, e, f"call {k} of {order}")


@pytest.mark.parametrize("make", [programs.program, wider_programs.program], ids=["", "wider"])
@pytest.mark.parametrize("seed", range(SEED, SEED + PROGRAMS))
def test_programs_that_read(seed, make, capsys):
    ops = {op.__name__: op for op in OPS}
    step, arguments, state, text = make(seed, ops, OPTIMIZERS)
    other, other_arguments, other_state, _ = make(seed, ops, OPTIMIZERS)
    compiled = torch.compile(other)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(6):
            expected = _outcome(step, arguments(k), k, state, capsys)
            found = _outcome(compiled, other_arguments(k), k, other_state, capsys)
            assert len(found) == len(expected), text
            for f, e in zip(found, expected, strict=True):
                _same_leaf(f, e, f"call {k}\n{text}")


def _outcome(step, given, k, state, capsys):
    """What a call leaves: its error or results, what it prints, state, random numbers, gradients asked for later."""
    torch.manual_seed(k)
    try:
        results = step(*given)
    except Exception as error:
        return [type(error), capsys.readouterr().out, *tree_leaves(state())]
    left = [*tree_leaves(results), capsys.readouterr().out, *tree_leaves(state()), given[0], torch.rand(2)]
    graphs = [r for r in tree_leaves(results) if r.requires_grad and r.grad_fn is not None]
    if graphs:
        weights = state()[:2]
        try:
            found = torch.autograd.grad(sum(g.sum() for g in graphs), weights, allow_unused=True)
            left += [g if g is None else g.clone() for g in found]  # the engine may have summed in place
            left.append(capsys.readouterr().out)  # of hooks
        except RuntimeError as error:  # freed, or written to since
            left.append(type(error))
            capsys.readouterr()  # what ran before depends on how many nodes there are
    return left


def _same_leaf(found, expected, title):
    if not isinstance(expected, torch.Tensor):
        close = isinstance(expected, float) and isinstance(found, float)
        assert (np.isclose(found, expected, 1e-6, 1e-8, equal_nan=True) if close else found == expected), title
        return
    facts = [(t.shape, t.dtype, t.requires_grad, t._version, t.stride(), t.grad_fn is None) for t in (found, expected)]
    assert facts[0] == facts[1], title
    np.testing.assert_allclose(found.numpy(force=True), expected.numpy(force=True), 1e-6, 1e-8, err_msg=title)


def _assert_close(found, expected, title):
    """Equal up to rounding, which grows with the numbers that were added: what is left of these may be far smaller."""
    found, expected = _array(found), _array(expected)
    largest = np.nan_to_num(np.abs(expected), posinf=0).max(initial=0)
    np.testing.assert_allclose(found, expected, 1e-4, 1e-5 + 1e-6 * largest, err_msg=title)


def _array(tensor):
    return np.zeros(0) if tensor is None else tensor.numpy(force=True)
