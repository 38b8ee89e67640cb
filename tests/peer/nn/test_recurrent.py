"""Recurrent layers, cells and packed sequences beside PyTorch's: values, gradients, parameters, words."""

import copy
import pickle

import numpy as np
import pytest

import jitgrad
from tests.peer.beside import Raised, leaves, outcome, same, torch

VALUES = np.random.default_rng(0).normal(size=(4, 3, 2)).tolist()
OPTIONS = {
    "plain": {},
    "layers": {"num_layers": 2, "bidirectional": True, "dropout": 0.5},
    "batch_first": {"batch_first": True, "bias": False, "bidirectional": True},
}
KINDS = [(kind, name) for kind in ("LSTM", "GRU", "RNN") for name in OPTIONS]


def both(run, values=VALUES):
    ours, theirs = outcome(run, jitgrad, values), outcome(run, torch, values)
    assert isinstance(ours, Raised) == isinstance(theirs, Raised), (ours, theirs)
    same(ours, theirs)


def flat(value):
    return [x for v in value for x in flat(v)] if isinstance(value, tuple) else [value]


def trained(library, layer, *args):
    """Results, their strides, and all gradients."""
    outs = flat(layer(*args))
    sum((o * o).sum() for o in outs).backward()
    grads = [p.grad for p in layer.parameters()] + [a.grad for a in flat(args) if getattr(a, "is_leaf", False)]
    return [(o, o.stride()) for o in outs], grads


def states(library, kind, *sizes):
    made = [library.linspace(-1, 1, int(np.prod(sizes)), dtype=library.float64).reshape(sizes).requires_grad_()
            for _ in range(2 if kind == "LSTM" else 1)]  # fmt: skip
    return tuple(made) if kind == "LSTM" else made[0]


@pytest.mark.parametrize("kind, name", KINDS)
def test_layers(kind, name):
    options = OPTIONS[name]

    def run(library, x):
        library.manual_seed(1)
        layer = getattr(library.nn, kind)(2, 3, dtype=library.float64, **options)
        shown = repr(layer), list(layer.state_dict().items()), [w.shape for ws in layer.all_weights for w in ws]
        x = x.double().requires_grad_()
        sizes = len(layer.all_weights), 4 if layer.batch_first else 3, 3
        found = trained(library, layer, x, states(library, kind, *sizes))
        return shown, found, x.grad, flat(layer(x.detach()[0]))

    both(run)


@pytest.mark.parametrize("kind, name", KINDS)
def test_packed(kind, name):
    options = OPTIONS[name]

    def run(library, x):
        library.manual_seed(1)
        layer = getattr(library.nn, kind)(2, 3, dtype=library.float64, **options)
        x = x.double().requires_grad_()
        lengths = [2, 1, 3, 3] if layer.batch_first else [2, 4, 1]
        packed = library.nn.utils.rnn.pack_padded_sequence(x, lengths, layer.batch_first, enforce_sorted=False)
        out, last = layer(packed)
        padded, found = library.nn.utils.rnn.pad_packed_sequence(out, layer.batch_first, 7.0, 6)
        (sum((s * s).sum() for s in flat((last,))) + (padded * padded).sum()).backward()
        return packed, padded, padded.stride(), found, last, x.grad, [p.grad for p in layer.parameters()]

    both(run)


def test_projections_and_relu():
    def run(library, x):
        library.manual_seed(1)
        x = x.double().requires_grad_()
        lstm = library.nn.LSTM(2, 3, 2, proj_size=2, bidirectional=True, dtype=library.float64)
        rnn = library.nn.RNN(2, 3, 1, "relu", dtype=library.float64)
        return repr(lstm), trained(library, lstm, x), repr(rnn), trained(library, rnn, x), x.grad

    both(run)


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
def test_cells(kind):
    def run(library, x):
        library.manual_seed(1)
        cell = getattr(library.nn, kind)(2, 3, dtype=library.float64)
        plain = getattr(library.nn, kind)(2, 3, False, dtype=library.float64)
        x = x.double()[0].requires_grad_()
        hx = states(library, kind[:-4], 3, 3)
        found = trained(library, cell, x, hx)
        return found, x.grad, repr(cell), repr(plain), plain(x[0]), list(cell.state_dict().items())

    both(run)


def test_float32_and_bfloat16():
    def run(library, x):
        library.manual_seed(1)
        layer = library.nn.GRU(2, 3)
        out, last = layer.bfloat16()(x.bfloat16())
        return out.dtype, last.dtype, [round(v, 1) for v in out.float().flatten().tolist()]

    both(run)


def test_second_gradients():
    def run(library, x):
        library.manual_seed(1)
        found = []
        for kind in ("LSTM", "GRU", "RNN"):
            layer = getattr(library.nn, kind)(2, 2, bidirectional=True, dtype=library.float64)
            y = x.double()[:2].requires_grad_()
            out, _ = layer(y)
            (g,) = library.autograd.grad((out**2).sum(), y, create_graph=True)
            (g**2).sum().backward()
            found += [y.grad, [p.grad for p in layer.parameters()]]
        return found

    both(run)


def test_packing():
    def run(library, x):
        rnn = library.nn.utils.rnn
        parts = [x[0], x[1, :1], x[2, :2]]
        packed = rnn.pack_sequence(parts, enforce_sorted=False)
        return [
            packed, packed.double(), rnn.unpack_sequence(packed), rnn.pad_sequence(parts),
            rnn.pad_sequence(parts, True, 5.0, "left"), rnn.pad_sequence([x[0], x[1, :1, :1]]),
            rnn.unpad_sequence(rnn.pad_sequence(parts, True), library.tensor([3, 1, 2]), True),
            rnn.invert_permutation(library.tensor([2, 0, 1])), rnn.invert_permutation(None),
            type(packed).__mro__[1].__name__, packed.is_cuda, packed.to(library.float32) is packed,
        ]  # fmt: skip

    both(run)


def lengths_of(library, *numbers):
    return library.tensor(numbers)


REFUSED = {
    "dropout": lambda m, x: m.nn.LSTM(2, 3, dropout=2),
    "bias": lambda m, x: m.nn.LSTM(2, 3, bias=1),
    "sizes": lambda m, x: m.nn.GRU(0, 3),
    "types": lambda m, x: m.nn.GRU(2.0, 3),
    "layers": lambda m, x: m.nn.GRU(2, 3, 0),
    "projection": lambda m, x: m.nn.LSTM(2, 3, proj_size=3),
    "projected gru": lambda m, x: m.nn.GRU(2, 3, proj_size=1),
    "nonlinearity": lambda m, x: m.nn.RNN(2, 3, nonlinearity="sin"),
    "mode": lambda m, x: m.nn.RNNBase("XYZ", 2, 3),
    "input size": lambda m, x: m.nn.GRU(1, 3)(x),
    "input dims": lambda m, x: m.nn.RNN(2, 3)(x[None]),
    "lstm dims": lambda m, x: m.nn.LSTM(2, 3)(x[0, 0]),
    "dtype": lambda m, x: m.nn.LSTM(2, 3)(x.double()),
    "state size": lambda m, x: m.nn.GRU(2, 3)(x, m.zeros(1, 2, 3)),
    "lstm states": lambda m, x: m.nn.LSTM(2, 3)(x, (m.zeros(1, 3, 3), m.zeros(1, 3, 2))),
    "state dims": lambda m, x: m.nn.GRU(2, 3)(x, m.zeros(3, 3)),
    "unbatched": lambda m, x: m.nn.LSTM(2, 3)(x[0], (m.zeros(1, 1, 3), m.zeros(1, 1, 3))),
    "no steps": lambda m, x: m.nn.GRU(2, 3)(x[:0]),
    "packed": lambda m, x: m.nn.GRU(2, 3)(m.nn.utils.rnn.pack_sequence([x[0]]), m.zeros(1, 2, 3)),
    "cell dims": lambda m, x: m.nn.LSTMCell(2, 3)(x),
    "cell size": lambda m, x: m.nn.GRUCell(1, 3)(x[0]),
    "cell state": lambda m, x: m.nn.RNNCell(2, 3)(x[0], m.zeros(1, 3)),
    "cell hidden": lambda m, x: m.nn.LSTMCell(2, 3)(x[0], (m.zeros(3, 3), m.zeros(3, 4))),
    "cell kind": lambda m, x: m.nn.RNNCell(2, 3, nonlinearity="sin")(x[0]),
    "no arguments": lambda m, x: m.lstm(),
    "one state": lambda m, x: m.lstm(x, (x,), [x], True, 1, 0.0, True, False, False),
    "parameters": lambda m, x: m.gru(x, m.zeros(1, 3, 3), [x] * 3, True, 1, 0.0, True, False, False),
    "more weights": lambda m, x: m.gru(x, m.zeros(1, 3, 3), [], True, 1, 0.0, True, False, False),
    "unsorted": lambda m, x: m.nn.utils.rnn.pack_padded_sequence(x, [1, 3, 2]),
    "zero length": lambda m, x: m.nn.utils.rnn.pack_padded_sequence(x, [1, 1, 0]),
    "count": lambda m, x: m.nn.utils.rnn.pack_padded_sequence(x, [1, 1]),
    "empty": lambda m, x: m.nn.utils.rnn.pack_padded_sequence(x[:0], [1, 1, 1]),
    "lengths": lambda m, x: m.nn.utils.rnn.pack_padded_sequence(x, m.tensor([[1]])),
    "total": lambda m, x: m.nn.utils.rnn.pad_packed_sequence(m.nn.utils.rnn.pack_sequence([x]), total_length=1),
    "no sequences": lambda m, x: m.nn.utils.rnn.pad_sequence([]),
    "number": lambda m, x: m.nn.utils.rnn.pad_sequence(3),
    "side": lambda m, x: m.nn.utils.rnn.pad_sequence([x], padding_side="top"),
    "element": lambda m, x: m.nn.utils.rnn.pad_sequence([x, 1]),
    "pair": lambda m, x: m.nn.utils.rnn.PackedSequence(x),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    ours, theirs = (outcome(REFUSED[name], library, VALUES) for library in (jitgrad, torch))
    assert isinstance(theirs, Raised), theirs
    assert ours == theirs


def test_states_of_modules_move_both_ways():
    theirs = torch.nn.LSTM(2, 3, 2, bidirectional=True)
    ours = jitgrad.nn.LSTM(2, 3, 2, bidirectional=True)
    ours.load_state_dict({k: jitgrad.tensor(v.tolist()) for k, v in theirs.state_dict().items()})
    x = VALUES
    found, wanted = ours(jitgrad.tensor(x)), theirs(torch.tensor(x))
    for a, b in zip(flat(found), flat(wanted), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), atol=1e-6)


def test_copies_and_replaced_parameters():
    def run(library, x):
        library.manual_seed(1)
        layer = library.nn.GRU(2, 3)
        clone = pickle.loads(pickle.dumps(layer)) if library is jitgrad else copy.deepcopy(layer)
        again = copy.deepcopy(layer)
        again.weight_hh_l0 = library.nn.Parameter(again.weight_hh_l0.detach() * 2)
        names = dict(layer.named_parameters())
        called = library.func.functional_call(layer, {k: v * 0 for k, v in names.items()}, (x,))
        listed = [again._flat_weights[1] is again.weight_hh_l0, clone._flat_weights[0] is clone.weight_ih_l0]
        return [v.round(decimals=4) for v in (clone(x)[0], again(x)[0], called[0])], listed, leaves(layer(x)[1]) != []

    both(run)
