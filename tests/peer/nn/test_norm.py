"""Normalisation and the lesser kinds of dropout against PyTorch: values, gradients, running averages, errors."""

import copy
import warnings

import numpy as np
import pytest
import torch

import jitgrad

LIBRARIES = (jitgrad, torch)


def numbers(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


def tensor(lib, array, dtype="float64", grad=True):
    return lib.tensor(array.tolist(), dtype=getattr(lib, dtype)).reshape(array.shape).requires_grad_(grad)


def close(ours, theirs, dtype="float64"):
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert tuple(a.shape) == tuple(b.shape) and str(a.dtype).split(".")[1] == str(b.dtype).split(".")[1]
            tolerance = {"rtol": 1e-9, "atol": 1e-10} if dtype == "float64" else {"rtol": 2e-4, "atol": 2e-5}
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), **tolerance)


def with_gradients(lib, function, tensors):
    """The result, gradients of a weighted sum, and gradients of these."""
    out = function(*tensors)
    weights = tensor(lib, numbers(*out.shape, seed=7), str(out.dtype).split(".")[1], grad=False)
    plain = lib.autograd.grad((out * weights).sum(), tensors, retain_graph=True)
    again = lib.autograd.grad((out * weights).sum(), tensors, create_graph=True)
    second = lib.autograd.grad(sum((g**2).sum() for g in again), tensors, allow_unused=True)
    return [out, *plain, *again, *second], type(out.grad_fn).__name__


# -- functions ----------------------------------------------------------------------------------------

FUNCTIONS = {
    "layer": ((4, 5), [(5,), (5,)], lambda F, x, w, b: F.layer_norm(x, (5,), w, b)),
    "layer, long rows": ((3, 4500), [(4500,), (4500,)], lambda F, x, w, b: F.layer_norm(x, (4500,), w, b)),
    "layer, many rows": ((70, 3), [(3,), (3,)], lambda F, x, w, b: F.layer_norm(x, (3,), w, b)),
    "layer, rows summed in chunks": ((528, 3), [(3,), (3,)], lambda F, x, w, b: F.layer_norm(x, (3,), w, b)),
    "layer over two dims": ((2, 3, 4), [(3, 4)], lambda F, x, w: F.layer_norm(x, (3, 4), w, eps=0.1)),
    "layer, no bias": ((2, 3, 4), [(4,)], lambda F, x, w: F.layer_norm(x, [4], w)),
    "layer, bare, transposed": ((4, 3), [], lambda F, x: F.layer_norm(x.t(), (4,))),
    "rms": ((4, 5), [(5,)], lambda F, x, w: F.rms_norm(x, (5,), w)),
    "group": ((2, 6, 5), [(6,), (6,)], lambda F, x, w, b: F.group_norm(x, 3, w, b)),
    "group, rows summed in chunks": ((528, 4, 3), [(4,), (4,)], lambda F, x, w, b: F.group_norm(x, 2, w, b)),
    "group of one place": ((4, 6), [(6,)], lambda F, x, w: F.group_norm(x, 2, w)),
    "group, bare": ((2, 4, 3, 2), [], lambda F, x: F.group_norm(x.transpose(2, 3), 1)),
    "batch": ((5, 3), [(3,), (3,)], lambda F, x, w, b: F.batch_norm(x, None, None, w, b, True)),
    "batch of places": ((2, 3, 4), [(3,), (3,)], lambda F, x, w, b: F.batch_norm(x, None, None, w, b, True)),
    "batch of many places": ((2, 2, 40, 30), [(2,)], lambda F, x, w: F.batch_norm(x, None, None, w, None, True)),
    "batch, permuted": ((2, 4, 3), [(3,)], lambda F, x, w: F.batch_norm(
        x.transpose(1, 2), None, None, w, None, True)),
    "batch, one sample": ((1, 3, 4), [], lambda F, x: F.batch_norm(x, None, None, training=True, eps=0.1)),
    "instance": ((2, 3, 5), [(3,), (3,)], lambda F, x, w, b: F.instance_norm(x, None, None, w, b)),
    "instance, bare": ((2, 3, 2, 2), [], lambda F, x: F.instance_norm(x)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients(name, dtype):
    shape, others, function = FUNCTIONS[name]
    found = []
    for lib in LIBRARIES:
        tensors = [tensor(lib, numbers(*s, seed=k), dtype) for k, s in enumerate([shape, *others])]
        found.append(with_gradients(lib, lambda *t, lib=lib: function(lib.nn.functional, *t), tensors))
    close(found[0][0], found[1][0], dtype)
    assert found[0][1] == found[1][1]


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5)])
def test_by_running_averages(shape):
    found = []
    for lib in LIBRARIES:
        tensors = [tensor(lib, numbers(*s, seed=k)) for k, s in enumerate([shape, (3,), (3,)])]
        mean, var = tensor(lib, numbers(3, seed=5), grad=False), tensor(lib, numbers(3, seed=6) ** 2, grad=False)
        call = lambda x, w, b, lib=lib, m=mean, v=var: lib.nn.functional.batch_norm(x, m, v, w, b)
        found.append(with_gradients(lib, call, tensors)[0])
    close(*found)


def test_means_far_from_zero():
    x = (numbers(6, 4, 50) + 300).astype(np.float32)
    for call in (
        lambda lib, t: lib.nn.functional.layer_norm(t, (50,)), lambda lib, t: lib.nn.functional.group_norm(t, 2),
        lambda lib, t: lib.nn.functional.batch_norm(t, None, None, training=True),
    ):  # fmt: skip
        exact = call(torch, torch.tensor(x).double()).numpy()
        np.testing.assert_allclose(call(jitgrad, jitgrad.tensor(x)).numpy(), exact, atol=1e-4)


# -- layers -------------------------------------------------------------------------------------------

LAYERS = """
BatchNorm1d(3) | BatchNorm1d(3, momentum=None) | BatchNorm1d(3, affine=False) | BatchNorm1d(3, bias=False)
BatchNorm1d(3, track_running_stats=False) | BatchNorm1d(3, .1, .5) | LayerNorm(4) | LayerNorm((3, 4), bias=False)
LayerNorm([4], elementwise_affine=False) | GroupNorm(3, 3) | GroupNorm(1, 3, affine=False) | GroupNorm(1, 3, bias=False)
InstanceNorm1d(3) | InstanceNorm1d(3, affine=True) | InstanceNorm1d(3, track_running_stats=True) | RMSNorm(4)
InstanceNorm1d(3, affine=True, track_running_stats=True, momentum=.5) | RMSNorm(4, .1, False)
""".replace("\n", " | ").split(" | ")


@pytest.mark.parametrize("text", [t for t in LAYERS if t])
def test_layers(text):
    found = []
    for lib in LIBRARIES:
        layer = eval(text, dict(vars(lib.nn))).double()
        x = tensor(lib, numbers(2, 3, 4))
        seen = [layer(x * k) for k in range(1, 4)]
        layer.eval()
        seen.append(layer(x))
        sum(s.sum() * (k + 1) + (s * s * s).sum() for k, s in enumerate(seen)).backward()
        state = layer.state_dict()
        grads = [p.grad for p in layer.parameters()]
        found.append(([*seen, x.grad, *state.values(), *grads], repr(layer), list(state)))
    close(found[0][0], found[1][0])
    assert found[0][1:] == found[1][1:]


def test_layers_of_more_dims():
    for name, shape in (("BatchNorm2d", (2, 3, 2, 2)), ("BatchNorm3d", (2, 3, 2, 1, 2)), ("InstanceNorm2d", (3, 2, 2)),
                        ("InstanceNorm3d", (2, 3, 2, 1, 2))):  # fmt: skip
        close(*[[getattr(lib.nn, name)(3).double()(tensor(lib, numbers(*shape)))] for lib in LIBRARIES])


def test_state_from_before_batches_were_counted():
    for lib in LIBRARIES:
        layer = lib.nn.BatchNorm1d(2)
        state = {k: v for k, v in layer.state_dict().items() if "num" not in k}
        assert str(layer.load_state_dict(state)) == "<All keys matched successfully>"


def test_what_follows_may_write_in_place():
    for lib in LIBRARIES:
        net = lib.nn.Sequential(lib.nn.BatchNorm1d(3), lib.nn.ReLU(True), lib.nn.LayerNorm(3), lib.nn.ReLU(True))
        net(tensor(lib, numbers(4, 3), "float32")).sum().backward()
        assert net[0].weight.grad is not None


def test_two_batches_before_backward():
    for lib in LIBRARIES:
        layer = lib.nn.BatchNorm1d(3)
        x = tensor(lib, numbers(4, 3), "float32")
        (layer(x) * layer(x * 2)).sum().backward()
        assert x.grad is not None


# -- under transforms ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["layer", "group", "batch", "batch of places", "instance"])
def test_vmap_and_jvp(name):
    shape, others, function = FUNCTIONS[name]
    found = []
    for lib in LIBRARIES:
        call = lambda *t, lib=lib: function(lib.nn.functional, *t)
        stacks = [tensor(lib, numbers(3, *s, seed=k), grad=False) for k, s in enumerate([shape, *others])]
        first = tuple(s[0] for s in stacks)
        both = lib.func.vmap(call)(*stacks)
        one = lib.func.vmap(call, in_dims=(0, *[None] * len(others)))(stacks[0], *first[1:])
        grads = lib.func.vmap(lib.func.grad(lambda *t: (call(*t) ** 3).sum()))(*stacks)
        values, tangents = lib.func.jvp(call, first, tuple(s[1] for s in stacks))
        found.append([both, one, grads, values, tangents])
    close(*found)


def test_ensembles_of_running_averages():
    found = []
    for lib in LIBRARIES:
        nets = [lib.nn.BatchNorm1d(3).double() for _ in range(2)]
        params, buffers = lib.func.stack_module_state(nets)
        x = tensor(lib, numbers(2, 4, 3), grad=False)
        call = lambda p, b, x, net=nets[0], lib=lib: lib.func.functional_call(net, (p, b), (x,))
        out = lib.func.vmap(call)(params, buffers, x)
        with pytest.raises(RuntimeError) as error:
            lib.func.vmap(nets[0])(x)
        found.append(([out, buffers["running_mean"], buffers["running_var"]], str(error.value)))
    close(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]


# -- dropout ------------------------------------------------------------------------------------------

DROPS = [
    ("alpha_dropout", (5, 7)), ("feature_alpha_dropout", (3, 4, 5)), ("dropout1d", (3, 4, 5)), ("dropout1d", (4, 5)),
    ("dropout2d", (2, 3, 4, 2)), ("dropout2d", (2, 3, 4)), ("dropout3d", (2, 3, 2, 2, 2)), ("dropout3d", (3, 2, 2, 2)),
    ("dropout2d", (2, 3)), ("dropout1d", (2,)), ("feature_alpha_dropout", (3,)),
]  # fmt: skip


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("p", [0.0, 0.3, 1.0, 1.5])
@pytest.mark.parametrize(("name", "shape"), DROPS)
def test_kinds_of_dropout(name, shape, p, inplace):
    found = []
    for lib in LIBRARIES:
        lib.manual_seed(3)
        x = tensor(lib, numbers(*shape))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                out = getattr(lib.nn.functional, name)(x * 1, p, True, inplace)
                out.sum().backward()
                result = [out.tolist(), x.grad.tolist(), out.grad_fn.name()]
            except Exception as error:
                result = type(error).__name__, str(error)
        found.append((result, [str(w.message) for w in caught]))
    if isinstance(found[0][0], list):
        np.testing.assert_allclose(found[0][0][0], found[1][0][0], rtol=1e-9)
        np.testing.assert_allclose(found[0][0][1], found[1][0][1], rtol=1e-9)
        assert found[0][0][2] == found[1][0][2]
    else:
        assert found[0][0] == found[1][0]
    assert found[0][1] == found[1][1]


@pytest.mark.parametrize("text", ["AlphaDropout(.2)", "FeatureAlphaDropout()", "Dropout1d(.2, True)", "Dropout2d()",
                                  "Dropout3d()", "AlphaDropout(2)"])  # fmt: skip
def test_layers_that_drop(text):
    found = []
    for lib in LIBRARIES:
        try:
            layer = eval(text, dict(vars(lib.nn)))
            lib.manual_seed(1)
            x = tensor(lib, numbers(2, 3, 2, 2, 2), grad=False)
            found.append((repr(layer), np.round(layer(x.clone()).tolist(), 9).tolist(), layer.eval()(x).tolist()))
        except (ValueError, RuntimeError) as error:
            found.append(str(error))
    assert found[0] == found[1]


# -- errors -------------------------------------------------------------------------------------------


def x(lib, *shape, dtype="float32"):
    return lib.ones(*shape, dtype=getattr(lib, dtype))


WRONG = [
    lambda lib, F: lib.nn.BatchNorm1d(4)(x(lib, 4, 3)), lambda lib, F: lib.nn.BatchNorm2d(3)(x(lib, 4, 3)),
    lambda lib, F: lib.nn.BatchNorm1d(3)(x(lib, 4, 3, 1, 1)), lambda lib, F: lib.nn.BatchNorm1d(3)(x(lib, 1, 3)),
    lambda lib, F: F.batch_norm(x(lib, 4, 3), None, None),
    lambda lib, F: F.batch_norm(x(lib, 4, 3), None, None, x(lib, 2), training=True),
    lambda lib, F: F.batch_norm(x(lib, 4, 3), x(lib, 3), None, training=True),
    lambda lib, F: F.batch_norm(x(lib, 4, 3), None, None, training=True, eps=0.0),
    lambda lib, F: F.batch_norm(x(lib, 4, 3), x(lib, 3), x(lib, 3), eps=-1.0),
    lambda lib, F: F.batch_norm(x(lib, 3), None, None, training=True),
    lambda lib, F: lib.nn.BatchNorm1d(3)(x(lib, 4, 3, dtype="float64")),
    lambda lib, F: lib.nn.BatchNorm1d(3)(x(lib, 4, 3, dtype="int64")),
    lambda lib, F: F.batch_norm(x(lib, 4, 3), None, None, x(lib, 3, dtype="float64"), training=True),
    lambda lib, F: F.layer_norm(x(lib, 4, 3), [4]), lambda lib, F: F.layer_norm(x(lib, 4, 3), []),
    lambda lib, F: F.layer_norm(x(lib, 4, 3), 3), lambda lib, F: F.layer_norm(x(lib, 4, 3), [3], x(lib, 4)),
    lambda lib, F: F.layer_norm(x(lib, 4, 3), [3], None, x(lib, 4)), lambda lib, F: F.layer_norm(x(lib, 3), [4, 3]),
    lambda lib, F: F.layer_norm(x(lib, 4, 3, dtype="int64"), [3]),
    lambda lib, F: F.layer_norm(x(lib, 4, 3), [3], x(lib, 3), x(lib, 3, dtype="float64")),
    lambda lib, F: lib.nn.GroupNorm(2, 3), lambda lib, F: F.group_norm(x(lib, 4, 3), 2),
    lambda lib, F: F.group_norm(x(lib, 3), 1), lambda lib, F: F.group_norm(x(lib, 1, 3), 3),
    lambda lib, F: F.group_norm(x(lib, 4, 3), 3, x(lib, 2)), lambda lib, F: F.rms_norm(x(lib, 4, 3), [4]),
    lambda lib, F: lib.nn.InstanceNorm1d(3)(x(lib, 1, 1, 4, 3)), lambda lib, F: F.instance_norm(x(lib, 4, 3, 1)),
    lambda lib, F: lib.nn.InstanceNorm1d(4, affine=True)(x(lib, 1, 3, 4)),
    lambda lib, F: F.instance_norm(x(lib, 2, 3, 4), use_input_stats=False),
    lambda lib, F: F.rms_norm(x(lib, 4, 3), []), lambda lib, F: F.rms_norm(x(lib, 4, 3), 3),
    lambda lib, F: F.rms_norm(x(lib, 4, 3), [3], x(lib, 4)), lambda lib, F: F.rms_norm(x(lib, 3), [4, 3]),
    lambda lib, F: F.group_norm(x(lib, 4, 3), -1),
    lambda lib, F: F.layer_norm(x(lib, 4, 3, dtype="float64"), [3], x(lib, 3, dtype="int64")),
    lambda lib, F: F.layer_norm(x(lib, 4, 3, dtype="float64"), [3], x(lib, 3, dtype="float32")),
    lambda lib, F: F.batch_norm(x(lib, 4, 3), lib.ones(3, requires_grad=True), lib.ones(3)),
    lambda lib, F: F.batch_norm(x(lib, 4, 3), lib.zeros(3), lib.ones(3), training=True, momentum=None),
    lambda lib, F: F.instance_norm(x(lib, 3), lib.ones(3), lib.ones(3), use_input_stats=False),
    lambda lib, F: lib.alpha_dropout(x(lib, 2), 2.0, True), lambda lib, F: lib.feature_dropout(x(lib, 2), 0.5, True),
    lambda lib, F: F.alpha_dropout(x(lib, 2, dtype="int64"), 0.5, True),
]  # fmt: skip


@pytest.mark.parametrize("call", WRONG)
def test_errors(call):
    found = []
    for lib in LIBRARIES:
        with pytest.raises(Exception) as error:
            call(lib, lib.nn.functional)
        found.append((type(error.value).__name__, str(error.value).replace("jitgrad.", "torch.")))
    assert found[0] == found[1]


def test_training_between_forward_and_backward():
    layer, values = jitgrad.nn.BatchNorm1d(2, dtype=jitgrad.float64), tensor(jitgrad, numbers(4, 2))
    layer(values)
    weights, known = tensor(jitgrad, numbers(4, 2, seed=1)), copy.deepcopy(layer.state_dict())
    wanted = jitgrad.autograd.grad(
        ((values - known["running_mean"]) / (known["running_var"] + layer.eps).sqrt() * weights).sum(), values
    )
    for create_graph in (False, True):
        out = layer.eval()(values)
        layer.train()(values * 3)  # moves what the result above was computed by
        close(jitgrad.autograd.grad((out * weights).sum(), values, create_graph=create_graph), wanted)
        layer.load_state_dict(known)


def test_a_checkpoint_may_end_with_batch_norm():
    found = []
    for lib in LIBRARIES:
        layer = lib.nn.BatchNorm1d(2, dtype=lib.float64)
        out = lib.utils.checkpoint.checkpoint(layer, tensor(lib, numbers(4, 2)), use_reentrant=False)
        out.square().sum().backward()
        found.append([layer.running_mean, layer.running_var, layer.num_batches_tracked])
    close(*found)


def test_nothing_to_normalise():
    for lib in LIBRARIES:
        F = lib.nn.functional
        for groups in (1, 3):
            nothing, weight = lib.ones(0, 3, 5, requires_grad=True), lib.ones(3, requires_grad=True)
            out = F.group_norm(nothing, groups, weight)
            (slope,) = lib.autograd.grad(out.sum(), weight, create_graph=True)
            assert tuple(out.shape) == (0, 3, 5) and slope.tolist() == [0, 0, 0]
        assert tuple(F.batch_norm(lib.ones(4, 0), None, None, training=True).shape) == (4, 0)
        empty = lib.ones(0, 3, requires_grad=True)
        for out in (F.layer_norm(empty, [3]), F.layer_norm(lib.ones(4, 0), [0]), F.batch_norm(empty, None, None,
                    training=True)):  # fmt: skip
            assert out.numel() == 0
        weight = lib.ones(3, requires_grad=True)
        F.layer_norm(empty, [3], weight).sum().backward()
        assert weight.grad.tolist() == [0, 0, 0] and tuple(empty.grad.shape) == (0, 3)
