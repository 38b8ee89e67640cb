"""``nn.utils`` beside PyTorch's: normalised, orthogonal and pruned weights, fused layers, their states and errors."""

import copy
import warnings

import numpy as np
import pytest
import torch
import torch.nn.utils.prune  # which torch itself does not import

import jitgrad

LIBRARIES = (jitgrad, torch)


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of the older weight_norm
        yield


def numbers(tensor):
    return tensor.detach().numpy()


def state_of(module):
    return {name: numbers(value) for name, value in module.state_dict().items()}


def same(ours, theirs, **tolerance):
    assert list(ours) == list(theirs)
    for name, value in theirs.items():
        assert ours[name] == pytest.approx(value, **({"rel": 1e-5, "abs": 1e-6} | tolerance)), name


def layer(lib, kind="Linear"):
    lib.manual_seed(3)
    return {"Linear": lambda: lib.nn.Linear(4, 3), "square": lambda: lib.nn.Linear(4, 4),
            "Conv2d": lambda: lib.nn.Conv2d(2, 3, 2)}[kind]()  # fmt: skip


def trained(lib, module, steps=3):
    """Some steps of a module that was changed: its state after them, and what it gives."""
    sgd = lib.optim.SGD(module.parameters(), lr=0.1)
    rng = np.random.default_rng(0)
    shape = (5, 2, 4, 4) if hasattr(module, "kernel_size") else (5, 4)
    for _ in range(steps):
        sgd.zero_grad()
        out = module(lib.tensor(rng.standard_normal(shape).astype("float32")))
        out.square().mean().backward()
        sgd.step()
    module.eval()
    return {**state_of(module), "out": numbers(module(lib.ones(shape)))}


NORMALISED = {
    "weight_norm": lambda lib, m: lib.nn.utils.weight_norm(m),
    "weight_norm, dim 1": lambda lib, m: lib.nn.utils.weight_norm(m, dim=1),
    "weight_norm of all": lambda lib, m: lib.nn.utils.weight_norm(m, dim=None),
    "spectral_norm": lambda lib, m: lib.nn.utils.spectral_norm(m, n_power_iterations=2),
    "spectral_norm, dim 1": lambda lib, m: lib.nn.utils.spectral_norm(m, dim=1),
    "new weight_norm": lambda lib, m: lib.nn.utils.parametrizations.weight_norm(m),
    "new weight_norm of all": lambda lib, m: lib.nn.utils.parametrizations.weight_norm(m, dim=None),
    "new spectral_norm": lambda lib, m: lib.nn.utils.parametrizations.spectral_norm(m),
    "new spectral_norm of bias": lambda lib, m: lib.nn.utils.parametrizations.spectral_norm(m, "bias"),
}


@pytest.mark.parametrize(("name", "kind"), [*((n, "Linear") for n in NORMALISED), ("weight_norm, dim 1", "Conv2d"),
                                           ("new spectral_norm", "Conv2d")])  # fmt: skip
def test_training_of_normalised_weights(name, kind):
    results = []
    for lib in LIBRARIES:
        module = NORMALISED[name](lib, layer(lib, kind))
        names = [n for n, _ in module.named_parameters()]
        results.append((names, repr(module), trained(lib, module)))
    assert results[0][:2] == results[1][:2]
    same(results[0][2], results[1][2], rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("name", NORMALISED)
def test_taken_back(name):
    results = []
    for lib in LIBRARIES:
        module = NORMALISED[name](lib, layer(lib))
        utils, tensor = lib.nn.utils, "bias" if "bias" in name else "weight"
        if name.startswith("new"):
            utils.parametrize.remove_parametrizations(module, tensor)
        else:
            (utils.remove_weight_norm if "weight_norm" in name else utils.remove_spectral_norm)(module)
        results.append((type(module).__name__, [n for n, _ in module.named_parameters()], state_of(module)))
        assert not module._forward_pre_hooks
    assert results[0][:2] == results[1][:2]
    same(results[0][2], results[1][2])


@pytest.mark.parametrize("trivial", [True, False])
@pytest.mark.parametrize("map_name", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("kind", ["Linear", "square"])
def test_orthogonal_weights(kind, map_name, trivial):
    if not trivial and kind == "Linear" and map_name == "householder":
        pytest.skip("the same as of square ones")
    results = []
    for lib in LIBRARIES:
        module = layer(lib, kind)
        if not trivial and map_name == "householder":  # which then have to start from an orthogonal matrix
            with lib.no_grad():
                module.weight.copy_(lib.eye(4).flip(0))
        lib.nn.utils.parametrizations.orthogonal(module, orthogonal_map=map_name, use_trivialization=trivial)
        results.append(trained(lib, module))
        weight = numbers(module.weight)
        assert weight @ weight.T == pytest.approx(np.eye(len(weight)), abs=1e-5)
    same(*results, rel=1e-3, abs=1e-4)


def assigned(lib, module):
    lib.nn.utils.parametrizations.weight_norm(module)
    module.weight = lib.arange(12.0).reshape(3, 4) + 1
    return state_of(module) | {"weight": numbers(module.weight)}


def shared(lib, module):
    """A model with a parametrised layer: copied, cached, loaded."""
    parametrize = lib.nn.utils.parametrize

    class Symmetric(lib.nn.Module):
        calls = 0

        def forward(self, x):
            type(self).calls += 1
            return x.triu() + x.triu(1).transpose(-1, -2)

        def right_inverse(self, x):
            return x.triu()

    model = lib.nn.Sequential(lib.nn.Linear(3, 3), lib.nn.Tanh())
    with lib.no_grad():
        model[0].weight.copy_(lib.arange(9.0).reshape(3, 3))
    parametrize.register_parametrization(model[0], "weight", Symmetric())
    with parametrize.cached():
        first = model[0].weight is model[0].weight
    twin = copy.deepcopy(model)
    twin.load_state_dict(model.state_dict())
    before = parametrize.type_before_parametrizations(model[0]).__name__
    words = [repr(model), str(first), before, str(parametrize.is_parametrized(twin[0], "weight")), str(Symmetric.calls)]
    parametrize.transfer_parametrizations_and_params(model[0], target := lib.nn.Linear(3, 3))
    assert words == words[:] and target.parametrizations.weight.original is model[0].parametrizations.weight.original
    return {"words": np.array([len(w) for w in words]), "twin": numbers(twin[0].weight)}


def chained(lib, module):
    parametrize = lib.nn.utils.parametrize

    class Doubled(lib.nn.Module):
        def forward(self, x):
            return 2 * x

        def right_inverse(self, x):
            return x / 2

    parametrize.register_parametrization(module, "weight", Doubled())
    parametrize.register_parametrization(module, "weight", Doubled())
    kept = numbers(module.weight).copy()
    parametrize.remove_parametrizations(module, "weight", leave_parametrized=False)
    return {"kept": kept, **state_of(module)}


def older_state(lib, module):
    """A state of the older weight_norm goes into the new one."""
    old = lib.nn.utils.weight_norm(layer(lib))
    lib.nn.utils.parametrizations.weight_norm(module)
    module.load_state_dict(old.state_dict())
    return state_of(module)


def fused_convolution(lib, module):
    module, norm = lib.nn.Conv2d(2, 3, 2, bias=False), lib.nn.BatchNorm2d(3)
    with lib.no_grad():
        norm.running_mean.copy_(lib.arange(3.0))
        norm.weight.copy_(lib.arange(3.0) + 1)
        module.weight.copy_(lib.arange(24.0).reshape(3, 2, 2, 2))
    return state_of(lib.nn.utils.fuse_conv_bn_eval(module.eval(), norm.eval()))


def fused_linear(lib, module):
    norm = lib.nn.BatchNorm1d(3)
    with lib.no_grad():
        norm.running_var.copy_(lib.arange(3.0) + 1)
    return state_of(lib.nn.utils.fuse_linear_bn_eval(module.eval(), norm.eval()))


@pytest.mark.parametrize(
    "program", [assigned, shared, chained, older_state, fused_convolution, fused_linear], ids=lambda p: p.__name__
)
def test_programs(program):
    same(*[program(lib, layer(lib)) for lib in LIBRARIES])


PRUNED = {
    "identity": lambda p, m: p.identity(m, "weight"),
    "random": lambda p, m: p.random_unstructured(m, "weight", 0.3),
    "smallest": lambda p, m: p.l1_unstructured(m, "weight", 4),
    "random rows": lambda p, m: p.random_structured(m, "weight", 1, dim=0),
    "short columns": lambda p, m: p.ln_structured(m, "weight", 2, n=2, dim=1),
    "again": lambda p, m: p.l1_unstructured(p.ln_structured(m, "weight", 1, n=1, dim=-1), "weight", 0.5),
    "again, rows": lambda p, m: p.ln_structured(p.random_structured(m, "weight", 1, dim=0), "weight", 1, n=2, dim=0),
    "two at once": lambda p, m: p.global_unstructured([(m, "weight"), (m, "bias")], p.L1Unstructured, amount=0.4),
}


@pytest.mark.parametrize("name", PRUNED)
def test_pruned_weights(name):
    results = []
    for lib in LIBRARIES:
        module, prune = layer(lib), lib.nn.utils.prune
        PRUNED[name](prune, module)
        assert prune.is_pruned(lib.nn.Sequential(module))
        lib.manual_seed(1)
        after = trained(lib, module)
        prune.remove(module, "weight")
        results.append(after | {f"{k} at last": v for k, v in state_of(module).items()})
    same(*results)


WRONG = [
    lambda lib, m: lib.nn.utils.remove_weight_norm(m),
    lambda lib, m: lib.nn.utils.remove_spectral_norm(m),
    lambda lib, m: lib.nn.utils.weight_norm(lib.nn.utils.weight_norm(m)),
    lambda lib, m: lib.nn.utils.spectral_norm(lib.nn.utils.spectral_norm(m)),
    lambda lib, m: lib.nn.utils.spectral_norm(m, n_power_iterations=0),
    lambda lib, m: lib.nn.utils.parametrizations.spectral_norm(m, n_power_iterations=0),
    lambda lib, m: lib.nn.utils.parametrizations.spectral_norm(m, dim=3),
    lambda lib, m: lib.nn.utils.parametrizations.orthogonal(m, "bias"),
    lambda lib, m: lib.nn.utils.parametrizations.orthogonal(m, "nothing"),
    lambda lib, m: lib.nn.utils.parametrizations.orthogonal(m, orthogonal_map="no"),
    lambda lib, m: lib.nn.utils.parametrize.remove_parametrizations(m, "weight"),
    lambda lib, m: lib.nn.utils.parametrize.register_parametrization(m, "nothing", lib.nn.Identity()),
    lambda lib, m: lib.nn.utils.parametrize.register_parametrization(m, "weight", lib.nn.Flatten(0)),
    lambda lib, m: lib.nn.utils.parametrize.ParametrizationList([], m.weight),
    lambda lib, m: copy.copy(lib.nn.utils.parametrizations.weight_norm(m)),
    lambda lib, m: lib.nn.utils.prune.remove(m, "weight"),
    lambda lib, m: lib.nn.utils.prune.l1_unstructured(m, "weight", 100),
    lambda lib, m: lib.nn.utils.prune.l1_unstructured(m, "weight", 1.5),
    lambda lib, m: lib.nn.utils.prune.l1_unstructured(m, "weight", "half"),
    lambda lib, m: lib.nn.utils.prune.random_structured(m, "bias", 1, 0),
    lambda lib, m: lib.nn.utils.prune.random_structured(m, "weight", 1, 2),
    lambda lib, m: lib.nn.utils.prune.custom_from_mask(m, "weight", lib.ones(2)),
    lambda lib, m: lib.nn.utils.prune.global_unstructured(3, None),
    lambda lib, m: lib.nn.utils.fuse_linear_bn_eval(m, lib.nn.BatchNorm1d(3)),
    lambda lib, m: lib.nn.utils.fuse_linear_bn_eval(m.eval(), lib.nn.BatchNorm1d(2).eval()),
    lambda lib, m: lib.nn.utils.skip_init(lib.nn.Flatten),
    lambda lib, m: lib.nn.utils.stateless.functional_call(m, {"weight": 3}, lib.ones(1, 4)),
    lambda lib, m: lib.nn.utils.stateless.functional_call(m, {"no.weight": lib.ones(1)}, lib.ones(1, 4)),
    lambda lib, m: lib.nn.utils.stateless.functional_call(m, {"in_features": lib.ones(1)}, lib.ones(1, 4)),
    lambda lib, m: lib.nn.utils.stateless.functional_call(m, {"weight.x": lib.ones(1)}, lib.ones(1, 4)),
]


@pytest.mark.parametrize("call", WRONG)
def test_errors(call):
    """The class and the words, and the module's state, which is what it was."""
    caught = []
    for lib in LIBRARIES:
        module = layer(lib)
        with pytest.raises(Exception) as error:
            call(lib, module)
        text = str(error.value).replace("jitgrad.", "torch.").split("\n")[0].split("Parameter containing")[0]
        caught.append((type(error.value), text, list(module.state_dict())))
    assert caught[0] == caught[1]
