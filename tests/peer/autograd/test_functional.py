"""autograd.functional under PyTorch and here: values, structure, what is in the graph, errors and their words."""

import re
import warnings

import pytest

import jitgrad

torch = pytest.importorskip("torch")

# Each takes the library and returns a function with inputs for it.
FUNCTIONS = {}


def function(make):
    FUNCTIONS[make.__name__] = make
    return make


def tensor(torch, *values):
    return torch.tensor(values, dtype=torch.float64)


@function
def one(torch):
    return lambda x: (x.exp() * x[0]), tensor(torch, 0.5, -1.0, 2.0)


@function
def number(torch):
    return lambda x: (x**3).sum() * x[1], tensor(torch, 0.5, -1.0, 2.0)


@function
def number_of_one(torch):
    return lambda x: x**3, torch.tensor(2.0)


@function
def one_element(torch):
    return lambda x: (x**3).reshape(1, 1), torch.tensor([2.0])


@function
def two_inputs(torch):
    return lambda x, y: (x * y.sum(0)).sum(), (tensor(torch, 1.0, 2.0), tensor(torch, 3.0, 4.0).reshape(2, 1) ** 2)


@function
def tuple_of_one(torch):
    return lambda x: (x.sin().sum(),), (tensor(torch, 1.0, 2.0),)


@function
def two_outputs(torch):
    return lambda x, y: (x * y, (x - y).sum(), y[:1] ** 2), (tensor(torch, 1.0, 2.0), tensor(torch, 3.0, 4.0))


@function
def unused_input(torch):
    return lambda x, y: (x**2).sum(), (tensor(torch, 1.0, 2.0), tensor(torch, 3.0))


@function
def constant_output(torch):
    return lambda x: (x**2, tensor(torch, 5.0, 6.0)), tensor(torch, 1.0, 2.0)


@function
def constant_number(torch):
    return lambda x: tensor(torch, 5.0).sum(), tensor(torch, 1.0, 2.0)


@function
def detached(torch):
    return lambda x: (x.detach() ** 2).sum(), tensor(torch, 1.0, 2.0)


@function
def linear(torch):
    return lambda x: (2 * x).sum(), tensor(torch, 1.0, 2.0)


@function
def linear_in_one(torch):
    return lambda x, y: (x * 2 + y**2).sum(), (tensor(torch, 1.0, 2.0), tensor(torch, 3.0, 4.0))


@function
def quadratic(torch):
    return lambda x: (x**2).sum(), tensor(torch, 1.0, 2.0)


@function
def matrix(torch):
    return lambda x: x.t() @ x, torch.arange(6.0).reshape(2, 3)


@function
def no_tensor(torch):
    return lambda x: 3.0, tensor(torch, 1.0)


@function
def list_of_tensors(torch):
    return lambda x: [x, x], tensor(torch, 1.0)


@function
def tuple_with_number(torch):
    return lambda x: (x, 3), tensor(torch, 1.0)


@function
def number_as_input(torch):
    return lambda x: x, 3.0


@function
def list_as_input(torch):
    return lambda x: x, [tensor(torch, 1.0)]


@function
def tuple_of_number_as_input(torch):
    return lambda x, y: x, (tensor(torch, 1.0), 3.0)


@function
def failing(torch):
    def func(x):
        raise KeyError("mine")

    return func, tensor(torch, 1.0)


def plain(value):
    if isinstance(value, (torch.Tensor, jitgrad.Tensor)):
        return (str(value.dtype).split(".")[1], tuple(value.shape), value.requires_grad, value.detach().numpy())
    if isinstance(value, Exception):
        text = str(value).replace("jitgrad.", "torch.").replace("isonly", "is only")
        # There PyTorch gives the number of the output.
        return type(value).__name__, re.sub(r"(The jacobian .* of input )\d(.*graph=True)", r"\1k\2", text)
    return ["tuple", *[plain(v) for v in value]]  # PyTorch returns lists in forward mode


def run(library, name, call, grad_input=False):
    func, inputs = FUNCTIONS[name](library)
    if grad_input:
        for x in inputs if isinstance(inputs, (tuple, list)) else [inputs]:
            if isinstance(x, library.Tensor):
                x.requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return plain(call(library, func, inputs)), library.is_grad_enabled()
        except Exception as error:
            return plain(error)


def same(ours, theirs, where):
    assert type(ours) is type(theirs), where
    if isinstance(ours, (list, tuple)):
        assert len(ours) == len(theirs), where
        for a, b in zip(ours, theirs, strict=True):
            same(a, b, where)
    elif hasattr(ours, "dtype"):
        assert ours == pytest.approx(theirs), where
    else:
        assert ours == theirs, where


def without_history(value):
    if isinstance(value, (list, tuple)):
        return [without_history(v) for v in value if v is not True and v is not False]
    return value


def compare(name, call, grad_input=False, history=True):
    ours, theirs = run(jitgrad, name, call, grad_input), run(torch, name, call, grad_input)
    if not history:
        ours, theirs = without_history(ours), without_history(theirs)
    same(ours, theirs, f"{ours}\n{theirs}")


def options(*names):
    return [dict(zip(names, (bool(k >> i & 1) for i in range(len(names))))) for k in range(1 << len(names))]


def title(value):
    return "-".join(k for k, v in value.items() if v) if isinstance(value, dict) else str(value)


def like(torch, shape):
    """Weights for outputs or inputs of that structure."""
    if isinstance(shape, tuple):
        return tuple(like(torch, s) for s in shape)
    return (torch.arange(float(shape.numel()), dtype=shape.dtype) - 0.5).reshape(shape.shape)


NO_TENSORS = ("no_tensor", "list_of_tensors", "tuple_with_number")
GIVEN_OUTPUTS = ["one", "number", "two_outputs", "constant_output", "unused_input", "matrix", "linear_in_one",
                 "tuple_of_one"]  # fmt: skip


@pytest.mark.parametrize("grad_input", [False, True])
@pytest.mark.parametrize("settings", options("create_graph", "strict"), ids=title)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_products(name, settings, grad_input):
    for kind in ("vjp", "jvp", "vhp", "hvp"):
        compare(name, lambda lib, f, x: getattr(lib.autograd.functional, kind)(f, x, **settings), grad_input)

        def weighted(lib, f, x):
            return getattr(lib.autograd.functional, kind)(f, x, v=like(lib, x if kind != "vjp" else f(*listed(x))),
                                                          **settings)  # fmt: skip

        if kind != "vjp" or name in GIVEN_OUTPUTS:
            compare(name, weighted, grad_input)


def listed(x):
    return x if isinstance(x, tuple) else (x,)


@pytest.mark.parametrize("grad_input", [False, True])
@pytest.mark.parametrize("settings", options("create_graph", "strict", "vectorize"), ids=title)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_matrices(name, settings, grad_input):
    # At once, PyTorch finds the gradients of all outputs together, and some zeros then have a history.
    exact = not (settings["vectorize"] and settings["create_graph"])
    compare(name, lambda lib, f, x: lib.autograd.functional.jacobian(f, x, **settings), grad_input, exact)
    compare(name, lambda lib, f, x: lib.autograd.functional.hessian(f, x, **settings), grad_input, exact)


@pytest.mark.parametrize("settings", [*options("create_graph", "strict"), {"vectorize": True}], ids=title)
@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in NO_TENSORS])
def test_forward_mode(name, settings):
    compare(name, lambda lib, f, x: lib.autograd.functional.jacobian(f, x, strategy="forward-mode", **settings))
    compare(name, lambda lib, f, x: lib.autograd.functional.hessian(
        f, x, outer_jacobian_strategy="forward-mode", **settings), history=False)  # fmt: skip


WRONG_WEIGHTS = {
    "shape": lambda torch, x: torch.ones(7),
    "count": lambda torch, x: (torch.ones(2), torch.ones(2), torch.ones(2), torch.ones(2)),
    "type": lambda torch, x: 3,
    "type in tuple": lambda torch, x: (3, 4),
    "list": lambda torch, x: [torch.ones(2)],
}


@pytest.mark.parametrize("wrong", WRONG_WEIGHTS)
@pytest.mark.parametrize("name", ["one", "number", "two_inputs", "two_outputs", "tuple_of_one"])
def test_wrong_weights(name, wrong):
    for kind in ("vjp", "jvp", "vhp", "hvp"):
        compare(name, lambda lib, f, x: getattr(lib.autograd.functional, kind)(f, x, WRONG_WEIGHTS[wrong](lib, x)))


def test_unknown_strategy():
    compare("one", lambda lib, f, x: lib.autograd.functional.jacobian(f, x, strategy="sideways"))
    compare("one", lambda lib, f, x: lib.autograd.functional.hessian(f, x, outer_jacobian_strategy="sideways"))


def test_complex():
    for vectorize in (False, True):
        compare("one", lambda lib, f, x: lib.autograd.functional.jacobian(
            lambda z: z * z, lib.tensor([1 + 2j, 3 - 1j]), vectorize=vectorize))  # fmt: skip
    compare("one", lambda lib, f, x: lib.autograd.functional.vjp(
        lambda z: z * z, lib.tensor([1 + 2j, 3 - 1j]), lib.tensor([1j, 2 + 0j])))  # fmt: skip
    compare("one", lambda lib, f, x: lib.autograd.functional.jvp(
        lambda z: z * z, lib.tensor([1 + 2j, 3 - 1j]), lib.tensor([1j, 2 + 0j])))  # fmt: skip


def test_in_no_grad():
    for kind in ("vjp", "jvp", "vhp", "hvp", "jacobian", "hessian"):

        def call(lib, f, x):
            with lib.no_grad():
                found = getattr(lib.autograd.functional, kind)(f, x, create_graph=True)
                assert not lib.is_grad_enabled()
                return found

        compare("number_of_one", call, grad_input=True)
