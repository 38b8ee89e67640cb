"""Modules against PyTorch: initial weights, reprs, state, training curves, dropout, hooks, error texts."""

import warnings

import numpy as np
import pytest
import torch

import jitgrad
from jitgrad import nn

LIBRARIES = (jitgrad, torch)


def same_error(call):
    """Both libraries raise the same class with the same words."""
    caught = []
    for lib in LIBRARIES:
        with pytest.raises(Exception) as error:
            call(lib)
        text = str(error.value).replace("jitgrad.", "torch.").replace(".modules.", ".")
        caught.append((type(error.value).__name__, text))
    assert caught[0] == caught[1]


def values(tensor):
    return tensor.detach().numpy()


# -- repr ---------------------------------------------------------------------------------------------

MODULES = """
Linear(3, 4) | Linear(3, 4, bias=False) | Identity() | ReLU() | ReLU(True) | LeakyReLU(.2) | LeakyReLU(inplace=True)
Tanh() | Sigmoid() | GELU() | GELU("tanh") | SiLU() | ELU() | ELU(2., True) | CELU() | SELU() | Mish() | Softplus()
Softplus(2, 10) | Softmax(1) | Softmax() | LogSoftmax(-1) | Softmin(0) | LogSigmoid() | Hardtanh()
Hardtanh(-2, 2, True) | ReLU6()
Hardsigmoid() | Hardswish() | Hardshrink() | Softshrink(.3) | Softsign() | Tanhshrink() | Threshold(1, 2)
Threshold(1, 2, True) | Dropout() | Dropout(.2, True) | Flatten() | Flatten(0, 2) | Unflatten(1, (2, 3)) | MSELoss()
L1Loss() | SmoothL1Loss() | HuberLoss() | BCELoss() | BCEWithLogitsLoss() | CrossEntropyLoss() | NLLLoss() | KLDivLoss()
Sequential() | Sequential(Linear(2, 3), ReLU()) | Sequential(Sequential(ReLU()), Sequential()) | ModuleList()
ModuleList([ReLU(), ReLU(), Tanh(), Sequential(Linear(1, 2), ReLU()), Sequential(Linear(1, 2), ReLU())])
ModuleDict() | ModuleDict({"a": ReLU(), "b": Sequential(Tanh())}) | Embedding(5, 3) | Embedding(5, 3, padding_idx=-1)
""".replace("\n", " | ").split(" | ")


@pytest.mark.parametrize("text", [m for m in MODULES if m])
def test_repr(text):
    ours, theirs = (eval(text, dict(vars(lib.nn))) for lib in LIBRARIES)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())


@pytest.mark.parametrize("make", [
    lambda lib: lib.nn.Parameter(lib.ones(2, 2)), lambda lib: lib.nn.Parameter(lib.ones(2), requires_grad=False),
    lambda lib: lib.nn.ParameterList([lib.ones(2), lib.ones(3, 4)]),
    lambda lib: lib.nn.ParameterDict({"a": lib.ones(2)}),
])  # fmt: skip
def test_repr_of_parameters(make):
    assert repr(make(jitgrad)) == repr(make(torch))


# -- initial values -----------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(3, 2), (5, 7), (64, 128), (200, 10)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_linear_starts_with_the_same_weights(sizes, dtype):
    layers = []
    for lib in LIBRARIES:
        lib.manual_seed(7)
        layers.append(lib.nn.Linear(*sizes, dtype=getattr(lib, dtype)))
    for ours, theirs in zip(*(layer.parameters() for layer in layers), strict=True):
        assert (values(ours) == values(theirs)).all() and ours.shape == tuple(theirs.shape)


INITS = [
    ("uniform_", (-2.0, 3.0)), ("normal_", (1.0, 2.0)), ("xavier_uniform_", (2.0,)), ("xavier_normal_", ()),
    ("kaiming_uniform_", (0.1, "fan_out")), ("kaiming_normal_", (0, "fan_in", "relu")), ("constant_", (0.3,)),
    ("ones_", ()), ("zeros_", ()), ("eye_", ()),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args"), INITS)
def test_init(name, args):
    filled = []
    for lib in LIBRARIES:
        lib.manual_seed(3)
        filled.append(values(getattr(lib.nn.init, name)(lib.nn.Parameter(lib.empty(17, 33)), *args)))
    assert (filled[0] == filled[1]).all()


def test_embedding_starts_and_learns_alike():
    grads, tables = [], []
    for lib in LIBRARIES:
        lib.manual_seed(3)
        table = lib.nn.Embedding(10, 4, padding_idx=2)
        out = table(lib.tensor([[1, 2, 2], [9, 1, 1]]))
        assert type(out.grad_fn).__name__ == "EmbeddingBackward0"
        (out * out).sum().backward()
        tables.append(values(table.weight).copy())
        grads.append(values(table.weight.grad))
    assert (tables[0] == tables[1]).all() and grads[0] == pytest.approx(grads[1], rel=1e-6)


# -- training -----------------------------------------------------------------------------------------

OPTIMIZERS = [
    ("SGD", {"lr": 0.05, "momentum": 0.9}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-3}),
    ("Adam", {"lr": 1e-2}),
    ("AdamW", {"lr": 1e-2}),
]


def curve(lib, name, options, steps=50):
    lib.manual_seed(0)
    nn = lib.nn
    model = nn.Sequential(
        nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 32), nn.Tanh(), nn.Dropout(0.1), nn.Linear(32, 5)
    )
    optimizer = getattr(lib.optim, name)(model.parameters(), **options)
    criterion = lib.nn.CrossEntropyLoss()
    x, y = lib.randn(40, 20), lib.randint(0, 5, (40,))
    losses = []
    for _ in range(steps):
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model.state_dict()


@pytest.mark.parametrize(("name", "options"), OPTIMIZERS)
def test_loss_curves(name, options):
    (ours, state), (theirs, expected) = (curve(lib, name, options) for lib in LIBRARIES)
    assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-5)
    assert list(state) == list(expected)
    for key in state:
        assert values(state[key]) == pytest.approx(expected[key].numpy(), rel=1e-3, abs=1e-4)


def test_torch_weights_give_torch_results():
    theirs = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 3), torch.nn.LogSoftmax(1))
    ours = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3), nn.LogSoftmax(1))
    state = {key: jitgrad.from_numpy(value.numpy()) for key, value in theirs.state_dict().items()}
    assert repr(ours.load_state_dict(state)) == "<All keys matched successfully>"
    x = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    assert values(ours(jitgrad.tensor(x))) == pytest.approx(values(theirs(torch.tensor(x))), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("shape", [(5,), (1000,), (7, 33), (3, 4, 5)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dropout_draws_the_same_mask(shape, dtype):
    results = []
    for lib in LIBRARIES:
        lib.manual_seed(5)
        x = lib.ones(*shape, dtype=getattr(lib, dtype), requires_grad=True)
        y = lib.nn.functional.dropout(x, 0.3)
        assert type(y.grad_fn).__name__ == "MulBackward0"
        y.sum().backward()
        z = lib.nn.functional.dropout(lib.ones(*shape, dtype=getattr(lib, dtype)), 0.9, inplace=True)
        results.append([values(y), values(x.grad), values(z)])
    assert all((a == b).all() for a, b in zip(*results, strict=True))


def test_dropout_without_dropping():
    for lib in LIBRARIES:
        x = lib.ones(4, requires_grad=True)
        assert lib.nn.functional.dropout(x, 0.5, training=False) is not None
        assert lib.nn.functional.dropout(x, 0.0).tolist() == [1, 1, 1, 1]
        y = lib.nn.functional.dropout(x, 1.0)
        assert y.tolist() == [0, 0, 0, 0] and type(y.grad_fn).__name__ == "MulBackward0"


def test_implicit_softmax_dim_warns_alike():
    texts = []
    for lib in LIBRARIES:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            lib.nn.functional.softmax(lib.ones(2, 3))
        texts.append([str(w.message) for w in caught])
    assert texts[0] == texts[1]


# -- hooks --------------------------------------------------------------------------------------------


def test_backward_hooks():
    seen = []
    for lib in LIBRARIES:
        lib.manual_seed(0)
        events, layer = [], lib.nn.Linear(3, 2)

        class Two(lib.nn.Module):
            def __init__(self, layer):
                super().__init__()
                self.layer = layer

            def forward(self, x, factor, y):
                return self.layer(x) * factor, y + 1

        net = Two(layer)
        net.register_full_backward_pre_hook(lambda m, go, e=events: e.append(lists(go)))
        net.register_full_backward_hook(lambda m, gi, go, e=events: e.append(lists((*gi, *go))))
        x, y = lib.ones(1, 3, requires_grad=True), lib.ones(2)
        a, b = net(x, 2.0, y)
        (a.sum() * 3 + b.sum()).backward()
        seen.append(events)
    assert len(seen[0]) == len(seen[1]) == 2
    assert str(seen[0]) == str(seen[1]) or np.allclose(flat(seen[0]), flat(seen[1]))


def lists(grads):
    return [None if g is None else g.tolist() for g in grads]


def flat(nested):
    if isinstance(nested, list):
        return [v for item in nested for v in flat(item)]
    return [] if nested is None else [nested]


# -- errors -------------------------------------------------------------------------------------------


def with_state(change):
    def call(lib):
        net = lib.nn.Sequential(lib.nn.Linear(2, 3), lib.nn.Linear(3, 1))
        state = net.state_dict()
        change(lib, state)
        net.load_state_dict(state)

    return call


STATES = [
    lambda lib, s: s.pop("0.weight"),
    lambda lib, s: [s.pop("0.weight"), s.pop("1.bias")],
    lambda lib, s: s.update({"2.weight": lib.ones(1), "0.scale": lib.ones(1)}),
    lambda lib, s: s.update({"0.weight": lib.ones(3, 3)}),
    lambda lib, s: [s.update({"0.weight": lib.ones(3, 3), "x": lib.ones(1)}), s.pop("1.bias")],
]


@pytest.mark.parametrize("change", STATES)
def test_state_errors(change):
    same_error(with_state(change))


def assign(name, first, second):
    def call(lib):
        module = lib.nn.Module()
        setattr(module, name, first(lib))
        setattr(module, name, second(lib))

    return call


WRONG = [
    lambda lib: lib.nn.Module()(1),
    lambda lib: lib.nn.Module(3),
    lambda lib: lib.nn.Module(a=3),
    lambda lib: lib.nn.Module().weight,
    lambda lib: lib.nn.Module().register_parameter("a.b", None),
    lambda lib: lib.nn.Module().register_parameter("", None),
    lambda lib: lib.nn.Module().register_parameter("train", None),
    lambda lib: lib.nn.Module().register_parameter("p", lib.ones(1)),
    lambda lib: lib.nn.Module().register_parameter(3, None),
    lambda lib: lib.nn.Module().register_buffer("b.c", None),
    lambda lib: lib.nn.Module().register_buffer("b", 3),
    lambda lib: lib.nn.Module().add_module("m", 3),
    lambda lib: lib.nn.Module().add_module("m", lib.ones(1)),
    lambda lib: lib.nn.Module().add_module("", None),
    lambda lib: lib.nn.Module().train(1),
    lambda lib: lib.nn.Module().to(lib.int64),
    lambda lib: lib.nn.Module().get_submodule("a"),
    lambda lib: lib.nn.Module().get_parameter("a"),
    lambda lib: lib.nn.Sequential(lib.nn.ReLU()).get_parameter("0"),
    lambda lib: lib.nn.Module().load_state_dict(3),
    lambda lib: lib.nn.Sequential(lib.nn.ReLU())[1],
    lambda lib: lib.nn.Sequential(lib.nn.ReLU()).insert(3, lib.nn.ReLU()),
    lambda lib: lib.nn.Sequential(lib.nn.ReLU()) * 0,
    lambda lib: lib.nn.Sequential(3),
    lambda lib: lib.nn.ModuleList().extend(3),
    lambda lib: lib.nn.ModuleDict().update(3),
    lambda lib: lib.nn.ModuleDict()["a"],
    lambda lib: lib.nn.ParameterList().extend(3),
    lambda lib: lib.nn.ParameterList()(3),
    lambda lib: lib.nn.Parameter(lib.arange(3)),
    lambda lib: lib.nn.Dropout(1.5),
    lambda lib: lib.nn.functional.dropout(lib.ones(2), -0.5),
    lambda lib: lib.dropout(lib.ones(2), -0.5, True),
    lambda lib: lib.nn.Unflatten(1, 3),
    lambda lib: lib.nn.Unflatten(1, (2, 3.0)),
    lambda lib: lib.nn.Linear(2, 3)(lib.ones(2, 3)),
    lambda lib: lib.nn.Embedding(3, 2)(lib.tensor([3])),
    lambda lib: lib.nn.Embedding(3, 2)(lib.tensor([0.5])),
    lambda lib: lib.nn.Embedding(3, 2, padding_idx=3),
    lambda lib: lib.nn.init.xavier_uniform_(lib.ones(3)),
    lambda lib: lib.nn.init.kaiming_normal_(lib.ones(3, 2), mode="fan"),
    lambda lib: lib.nn.init.calculate_gain("gelu"),
    lambda lib: lib.nn.init.eye_(lib.ones(3)),
    lambda lib: lib.nn.utils.clip_grad_norm_([_with_nan_grad(lib)], 1.0, error_if_nonfinite=True),
    assign("w", lambda lib: lib.nn.Parameter(lib.ones(1)), lambda lib: lib.ones(1)),
    assign("w", lambda lib: lib.nn.Parameter(lib.ones(1)), lambda lib: 3),
    assign("w", lambda lib: lib.nn.ReLU(), lambda lib: lib.ones(1)),
    assign("w", lambda lib: lib.nn.Buffer(lib.ones(1)), lambda lib: 3),
]  # fmt: skip


def _with_nan_grad(lib):
    param = lib.nn.Parameter(lib.ones(1))
    param.grad = lib.tensor([float("nan")])
    return param


@pytest.mark.parametrize("call", WRONG)
def test_errors(call):
    same_error(call)


# -- loaders ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"drop_last": True}, {"generator": True}])
def test_loaders_shuffle_alike(options):
    orders = []
    for lib in LIBRARIES:
        from importlib import import_module

        data = import_module(f"{lib.__name__}.utils.data")
        lib.manual_seed(11)
        kwargs = dict(options)
        if "generator" in kwargs:
            kwargs["generator"] = lib.Generator().manual_seed(4)
        first, second = data.random_split(data.TensorDataset(lib.arange(23), lib.arange(23) * 2), [0.7, 0.3])
        loader = data.DataLoader(first, batch_size=4, shuffle=True, **kwargs)
        batches = [[b.tolist() for b in batch] for _ in range(2) for batch in loader]
        orders.append([batches, list(second.indices), len(loader)])
    assert orders[0] == orders[1]


def test_collate():
    batch = [{"a": 1, "b": (2.0, "x")}, {"a": 3, "b": (4.0, "y")}]
    ours, theirs = jitgrad.utils.data.default_collate(batch), torch.utils.data.default_collate(batch)
    assert ours["a"].tolist() == theirs["a"].tolist() and str(ours["b"][0].dtype) == str(theirs["b"][0].dtype)
    assert list(ours["b"][1]) == list(theirs["b"][1])
