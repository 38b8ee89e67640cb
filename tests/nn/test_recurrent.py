"""Recurrent layers: one launch for all steps, against the steps one by one; transforms, and what is refused."""

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.kernels.launch import observers
from jitgrad.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence
from jitgrad.ops.nn.recurrent_steps import Gru, Lstm, Relu, Tanh, Weights, unrolled

KINDS = {
    "lstm": (torch.nn.LSTM, Lstm, {}), "projected": (torch.nn.LSTM, Lstm, {"proj_size": 2}),
    "gru": (torch.nn.GRU, Gru, {}), "tanh": (torch.nn.RNN, Tanh, {}), "relu": (torch.nn.RNN, Relu,
    {"nonlinearity": "relu"}),
}  # fmt: skip


def close(a, b, tolerance=1e-12):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_is_its_steps(kind):
    layer, cell, options = KINDS[kind]
    torch.manual_seed(0)
    model = layer(2, 3, dtype=torch.float64, **options)
    x = torch.randn(5, 2, 2, dtype=torch.float64, requires_grad=True)
    zeros = [torch.zeros(2, options.get("proj_size", 3), dtype=torch.float64), torch.zeros(2, 3, dtype=torch.float64)]
    weights = Weights(*model._flat_weights)
    states = zeros if cell is Lstm else zeros[1:]
    wanted, *_ = unrolled(cell, x.reshape(10, 2), states, weights, range(0, 11, 2), False)
    found, _ = model(x)
    close(found.reshape(wanted.shape), wanted)
    leaves = [x, *model.parameters()]
    ours = torch.autograd.grad((found**2).sum(), leaves)
    for a, b in zip(ours, torch.autograd.grad((wanted**2).sum(), leaves), strict=True):
        close(a, b)


def test_packed_weights_and_threads():
    before = torch.get_num_threads()
    torch.manual_seed(0)
    model = torch.nn.LSTM(24, 64)
    x = torch.randn(24, 13, 24, requires_grad=True)  # 13 rows are blocks of 8, 4 and 1
    results = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            out, _ = model(x)
            results.append([out, *torch.autograd.grad((out**2).sum(), [x, *model.parameters()])])
    finally:
        torch.set_num_threads(before)
    zeros = torch.zeros(13, 64)
    wanted, *_ = unrolled(Lstm, x.reshape(-1, 24), [zeros, zeros], Weights(*model._flat_weights), range(0, 313, 13),
                          False)  # fmt: skip
    exact = [wanted.reshape(24, 13, 64), *torch.autograd.grad((wanted**2).sum(), [x, *model.parameters()])]
    for one, two, right in zip(*results, exact, strict=True):
        close(one, right, 2e-4)
        close(two, right, 2e-4)


def test_packed_sequences_are_each_its_own():
    torch.manual_seed(0)
    model = torch.nn.GRU(2, 3, bidirectional=True, dtype=torch.float64)
    parts = [torch.randn(n, 2, dtype=torch.float64) for n in (2, 4, 1)]
    out, last = model(pack_sequence(parts, enforce_sorted=False))
    padded, lengths = pad_packed_sequence(out)
    assert lengths.tolist() == [2, 4, 1]
    for k, part in enumerate(parts):
        alone, end = model(part)
        close(padded[: len(part), k], alone)
        close(last[:, k], end)


def test_one_launch_forward_and_one_backward():
    model, names = torch.nn.LSTM(2, 3, dtype=torch.float64), []

    def seen(kernel, args, seconds):
        names.append(kernel.name)

    x = torch.randn(6, 2, 2, dtype=torch.float64)
    observers.append(seen)
    try:
        model(x)[0].sum().backward()
    finally:
        observers.remove(seen)
    assert [names.count(n) for n in ("lstm", "lstm_gradient")] == [1, 1]
    assert len(names) < 20


def test_transforms():
    torch.manual_seed(0)
    model = torch.nn.LSTM(2, 3, dtype=torch.float64)
    x = torch.randn(3, 2, 2, 2, dtype=torch.float64)
    close(torch.vmap(lambda a: model(a)[0])(x), torch.stack([model(a)[0] for a in x]))
    close(torch.func.jacfwd(lambda a: model(a)[0])(x[0]), torch.func.jacrev(lambda a: model(a)[0])(x[0]))
    params = dict(model.named_parameters())

    def loss(params, a):
        return torch.func.functional_call(model, params, (a,))[0].sum()

    each = torch.vmap(torch.func.grad(loss), (None, 0))(params, x)
    for name, g in torch.func.grad(loss)(params, x[1]).items():
        close(each[name][1], g)


@pytest.mark.filterwarnings("error")
def test_compiled_training():
    def trained(wrap):
        torch.manual_seed(0)
        model = torch.nn.GRU(2, 3, dtype=torch.float64)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        def step(x):
            optimizer.zero_grad()
            loss = (model(x)[0] ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss

        step = wrap(step)
        return [step(torch.full((4, 2, 2), 0.5 * k, dtype=torch.float64)).item() for k in range(4)]

    assert trained(torch.compile) == trained(lambda f: f)


def test_without_values():
    layer = torch.nn.LSTM(2, 3, 2, bidirectional=True, device="meta")
    out, (h, c) = layer(torch.empty(5, 4, 2, device="meta"))
    assert out.shape == (5, 4, 6) and h.shape == c.shape == (4, 4, 3)
    assert torch.nn.GRUCell(2, 3, device="meta")(torch.empty(4, 2, device="meta")).shape == (4, 3)


def test_packed_data_must_have_the_rows_of_its_sizes():
    model = torch.nn.GRU(2, 3)
    with pytest.raises(RuntimeError, match="say 4 rows of data, but there are 3"):
        model(PackedSequence(torch.zeros(3, 2), torch.tensor([2, 2])))
    with pytest.raises(RuntimeError, match="must not grow"):
        model(PackedSequence(torch.zeros(3, 2), torch.tensor([1, 2])))


def test_written_over_outputs_are_noticed():
    out, _ = torch.nn.RNN(2, 3)(torch.zeros(2, 1, 2))
    out.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_lengths_may_be_a_list_and_batches_first():
    x = torch.arange(12.0).reshape(2, 3, 2)
    packed = pack_padded_sequence(x, [3, 1], batch_first=True)
    assert packed.batch_sizes.tolist() == [2, 1, 1]
    assert packed.data.tolist() == [[0, 1], [6, 7], [2, 3], [4, 5]]
    padded, lengths = pad_packed_sequence(packed, batch_first=True, padding_value=-1)
    assert lengths.tolist() == [3, 1] and padded[1, 1:].tolist() == [[-1, -1], [-1, -1]]
