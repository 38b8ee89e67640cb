"""Generated from the table: what holds of every elementwise op, by its declaration alone."""

import zlib

import hypothesis.strategies as st
import numba
import numpy as np
import pytest
from hypothesis import given, settings

import jitgrad
from jitgrad.dispatch.elementwise_publish import OPERATIONS
from jitgrad.kernels.codegen.emit_cpu import Argument, elementwise_text
from jitgrad.kernels.elementwise.declaration import TABLE
from jitgrad.kernels.kernel_text import PRELUDE

EVERY = NAMES = [name for name, op in TABLE.items() if op.__module__.startswith("jitgrad.kernels")]
FIRST = {TABLE[name].rule.function: name for name in reversed(NAMES)}
NAMES = [name for name in NAMES if FIRST[TABLE[name].rule.function] == name]  # others share their kernels
# Words of hundreds of operations, which few programs use: tests/kernels/elementwise has fewer kernels for them.
NAMES = [name for name in NAMES if not TABLE[name].in_double]
DIFFERENTIABLE = [name for name in NAMES if TABLE[name].grads]
COMPLEX = [n for n in DIFFERENTIABLE if "complex" in TABLE[n].accepts.split()]
CATEGORIES = {"float32": "float", "float64": "float", "int64": "int", "bool": "bool", "complex128": "complex"}


def accepted(op):
    return [d for d, category in CATEGORIES.items() if category in op.accepts.split()]


def precise(op):
    """The dtype of flat kernels here: float64 where the op takes it."""
    return next(d for d in ("float64", "complex128", "int64") if d in accepted(op))


def single(op):
    """The dtype of strided kernels here: float32 where the op takes it. Each kernel costs 0.1 s or more."""
    return next(d for d in ("float32", "complex128", "int64") if d in accepted(op))


def draw(op, dtype, *shapes, seed=0):
    """Random arrays inside the op's domain, one for each input."""
    rng = np.random.default_rng([seed, zlib.crc32(op.name.encode())])
    shapes = shapes * len(op.inputs) if len(shapes) == 1 else shapes
    pairs = op.domain if isinstance(op.domain[0], tuple) else [op.domain] * len(op.inputs)
    drawn = []
    for name, (low, high), shape in zip(op.inputs, pairs, shapes, strict=True):
        values = rng.uniform(low, high, shape)
        if name in op.conditions:
            drawn.append(rng.random(shape) < 0.5)
        elif dtype == "complex128":
            drawn.append(values + 1j * rng.uniform(low, high, shape))
        elif dtype == "bool":
            drawn.append(rng.random(shape) < 0.5)
        elif dtype == "int64":
            drawn.append(np.rint(values).astype(dtype))
        else:
            drawn.append(np.asarray(values, dtype))
    return drawn


def operation(op):
    """The op called with Python numbers where it takes only those."""
    call = OPERATIONS[op.name]
    if not op.numbers_only:
        return call
    return lambda x, *rest: call(x, *(r.reshape(-1)[0].item() for r in rest))


def expected(op, arrays):
    """The reference, in float64 at least, then in the dtype that the op promises."""
    dtype = np.result_type(*(a for n, a in zip(op.inputs, arrays, strict=True) if n not in op.conditions))
    if op.kind == "float" and dtype.kind in "biu":
        dtype = np.dtype(np.float32)
    wide = [a.astype(np.float64) if a.dtype == np.float32 or (op.kind == "float" and a.dtype.kind in "biu") else a
            for a in arrays]  # fmt: skip
    if op.numbers_only:
        wide[1:] = [w.reshape(-1)[0] for w in wide[1:]]
    with np.errstate(all="ignore"):
        values = np.asarray(op.reference(*wide))
    if op.kind == "real" and dtype.kind == "c":
        dtype = np.dtype(np.float64)
    return values.astype(bool if op.kind == "bool" else dtype)


def tolerance(dtype):
    return 1e-5 if dtype in ("float32", "int64", "bool") else 1e-12


def assert_equals(op, arrays, tensors, rtol):
    before = [a.copy() for a in arrays]
    result = operation(op)(*tensors)
    wanted = expected(op, arrays)
    assert result.dtype.name == wanted.dtype.name
    assert tuple(result.shape) == wanted.shape
    np.testing.assert_allclose(result.numpy(), wanted, rtol=rtol, atol=rtol / 10)
    for tensor, values in zip(tensors, before, strict=True):
        np.testing.assert_array_equal(tensor.numpy(), values)


def tensor(array):
    return jitgrad.tensor(array)


# -- declarations ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EVERY)
def test_is_declared_fully(name):
    op = TABLE[name]
    assert op.__doc__ and op.__doc__.strip().endswith(".")
    assert op.reference is not None
    assert op.kind in ("float", "same", "bool", "real")
    assert set(op.accepts.split()) <= {"bool", "int", "float", "complex"}
    if isinstance(op.public, str):
        module = getattr(jitgrad, op.public)
        assert all(getattr(module, n.removeprefix(f"{op.public}_")).__doc__ for n in (op.name, *op.aliases))
    elif op.public:
        assert all(getattr(jitgrad, n).__doc__ for n in (op.name, *op.aliases))
        assert hasattr(jitgrad.Tensor, op.name) and hasattr(jitgrad.Tensor, f"{op.name}_") == op.in_place


def test_there_are_many():
    assert len(EVERY) > 120
    assert len(NAMES) > 105


# -- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_values(name):
    op = TABLE[name]
    for dtype in accepted(op):
        if dtype == "float32" or (dtype in ("int64", "bool") and op.kind == "float"):
            continue  # test_layouts and test_integers_become_floats have these
        arrays = draw(op, dtype, (3, 5))
        assert_equals(op, arrays, [tensor(a) for a in arrays], tolerance(dtype))


@pytest.mark.parametrize("name", ("div", "exp", "sqrt", "atan2"))
def test_integers_become_floats(name):
    op = TABLE[name]
    for dtype in ("int64", "bool"):
        arrays = [np.maximum(a, a.dtype.type(1)) for a in draw(op, dtype, (3, 5))]
        assert_equals(op, arrays, [tensor(a) for a in arrays], 1e-5)


def layouts(arrays):
    """The same values transposed, in memory with gaps, and offset."""
    yield [tensor(a.T.copy()).t() for a in arrays]
    for kind in (slice(None, None, 2), slice(1, None, 2)):
        wide = [np.repeat(a, 2, axis=1) for a in arrays]
        yield [tensor(w)[:, kind] for w in wide]
    yield [tensor(a) if k else tensor(a.T.copy()).t() for k, a in enumerate(arrays)]


@pytest.mark.parametrize("name", NAMES)
def test_layouts(name):
    """All of these run through one strided kernel."""
    op = TABLE[name]
    dtype = single(op)
    arrays = draw(op, dtype, (3, 5))
    for tensors in layouts(arrays):
        assert_equals(op, arrays, tensors, tolerance(dtype))
    expanded = [tensor(a).expand(4, 5) for a in draw(op, dtype, (1, 5))]
    assert_equals(op, [t.numpy() for t in expanded], expanded, tolerance(dtype))


@pytest.mark.parametrize("name", NAMES)
def test_small_shapes(name):
    op = TABLE[name]
    for shape in ((), (1,), (0, 3)):
        arrays = draw(op, precise(op), shape)
        if shape != (0, 3) or not op.numbers_only:
            assert_equals(op, arrays, [tensor(a) for a in arrays], 1e-12)


@pytest.mark.parametrize("name", [n for n in NAMES if len(TABLE[n].inputs) > 1 and not TABLE[n].numbers_only])
def test_broadcasting(name):
    op = TABLE[name]
    shapes = ((4, 1, 3), (5, 1), (1, 3))[: len(op.inputs)]
    arrays = draw(op, single(op), *shapes)
    assert_equals(op, arrays, [tensor(a) for a in arrays], tolerance(single(op)))
    with pytest.raises(RuntimeError, match=r"The size of tensor a \(\d\) must match the size of tensor b"):
        OPERATIONS[name](*(tensor(a) for a in draw(op, precise(op), *((2, n) for n in (3, 4, 3)[: len(op.inputs)]))))


@pytest.mark.parametrize("name", ("mul", "where", "pow", "sin"))
@pytest.mark.parametrize("shape", ((), (1,), (1, 1)))
def test_single_elements_among_many(name, shape):
    """An input of one element is read once, also by the threads of a large kernel and by backward."""
    op = TABLE[name]
    for size in ((3, 5), (1 << 9, 1 << 9)):
        arrays = draw(op, "float64", *(size, shape, size)[: len(op.inputs)])
        tensors = [tensor(a) for a in arrays]
        assert_equals(op, arrays, tensors, 1e-12)
        wanted = [t.requires_grad_() for n, t in zip(op.inputs, tensors, strict=True) if n not in op.conditions]
        grads = jitgrad.autograd.grad(OPERATIONS[name](*tensors).sum(), wanted)
        full = [tensor(np.broadcast_to(a, size).copy()) for a in arrays]
        all_wanted = [t.requires_grad_() for n, t in zip(op.inputs, full, strict=True) if n not in op.conditions]
        dense = jitgrad.autograd.grad(OPERATIONS[name](*full).sum(), all_wanted)
        for grad, whole in zip(grads, dense, strict=True):
            np.testing.assert_allclose(grad.numpy().sum(), whole.numpy().sum(), rtol=1e-10)


@pytest.mark.parametrize("name", [n for n in NAMES if "float64" in accepted(TABLE[n]) and not TABLE[n].numbers_only])
def test_numbers_are_tensors(name):
    """A Python number operand gives what a tensor filled with it gives."""
    op = TABLE[name]
    arrays = draw(op, "float64", (6,))
    taken = op.inputs[1:] if op.numbers is None else op.numbers
    for input_name in taken[-1:]:
        k = op.inputs.index(input_name)
        given = [tensor(a) for a in arrays]
        given[k] = number = float(arrays[k][0])
        result = OPERATIONS[name](*given)
        given[k] = jitgrad.full((6,), number, dtype=jitgrad.float64)
        np.testing.assert_allclose(result.numpy(), OPERATIONS[name](*given).numpy(), rtol=1e-12)


SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.0])
# The references are NumPy's; PyTorch, which these follow, differs (tests/peer compares them with it).
OTHERWISE = {"softshrink", "hardshrink", "remainder", "div_floor", "sinc", "lgamma", "angle_real", "heaviside"}


@pytest.mark.parametrize("name", [n for n in NAMES if "float64" in accepted(TABLE[n]) and n not in OTHERWISE])
def test_special_values(name):
    op = TABLE[name]
    if op.numbers_only or op.conditions or len(op.inputs) > 2:
        return
    grid = np.meshgrid(*[SPECIAL] * len(op.inputs), indexing="ij")
    arrays = [g.reshape(-1) for g in grid]
    with np.errstate(all="ignore"):
        wanted = np.asarray(op.reference(*arrays))
    np.testing.assert_allclose(OPERATIONS[name](*(tensor(a) for a in arrays)).numpy(), wanted, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", NAMES)
def test_in_place(name):
    op = TABLE[name]
    arrays = draw(op, precise(op), (3, 5))
    if op.conditions or (op.kind == "real" and precise(op) == "complex128"):
        return
    call = OPERATIONS[name]
    rest = [float(a.flat[0]) if op.numbers_only else tensor(a) for a in arrays[1:]]
    wanted = call(tensor(arrays[0]), *rest)
    target = tensor(arrays[0])
    view = target[1:]
    assert call(target, *rest, inplace=True) is target
    assert (target._version, view._version) == (1, 1)
    assert target.dtype.name == arrays[0].dtype.name
    np.testing.assert_array_equal(target.numpy(), wanted.numpy().astype(arrays[0].dtype))
    np.testing.assert_array_equal(view.numpy(), target.numpy()[1:])


# -- gradients ------------------------------------------------------------------------------------


def inner(a, b):
    """The real inner product, of lists of arrays."""
    return sum(float(np.real(np.vdot(x, y))) for x, y in zip(a, b, strict=True))


def directions(rng, arrays):
    return [rng.normal(size=a.shape) + (1j * rng.normal(size=a.shape) if a.dtype.kind == "c" else 0) for a in arrays]


def check_gradients(function, arrays, order, rng, rtol=2e-5):
    """Reverse mode against central differences along one random direction, recursively.

    ``function`` maps a list of tensors to one. The next order checks the function that maps these
    and an output gradient to the input gradients.
    """
    moves, h = directions(rng, arrays), 1e-6
    moved = [[tensor(a + s * h * m) for a, m in zip(arrays, moves, strict=True)] for s in (1, -1)]
    plus, minus = (function(tensors).detach().numpy() for tensors in moved)
    (seed,) = directions(rng, [plus])

    def pulled_back(tensors):
        *inputs, g = tensors
        inputs = [t if t.requires_grad else t.requires_grad_() for t in inputs]
        out = function(inputs)
        if not out.requires_grad:  # a derivative that is zero everywhere
            return [jitgrad.zeros_like(t) for t in inputs]
        grads = jitgrad.autograd.grad(out, inputs, g, create_graph=True, allow_unused=True)
        return [jitgrad.zeros_like(t) if d is None else d for t, d in zip(inputs, grads, strict=True)]

    difference = (plus - minus) / (2 * h)
    grads = [g.detach().numpy() for g in pulled_back([*(tensor(a) for a in arrays), tensor(seed)])]
    numeric, exact = inner([seed], [difference]), inner(grads, moves)
    assert abs(numeric - exact) <= rtol * max(1, abs(numeric), abs(exact)), f"order {order}: {numeric} != {exact}"
    if order > 1:
        for k in range(len(arrays)):
            check_gradients(lambda tensors, k=k: pulled_back(tensors)[k], [*arrays, seed], order - 1, rng, rtol)


def differentiable(op, dtype):
    """(function of the tensors that get gradients, their arrays)."""
    arrays = draw(op, dtype, (2, 3))
    chosen = [k for k, n in enumerate(op.inputs) if n in op.grads and (k == 0 or not op.numbers_only)]

    def function(tensors):
        operands = [a.flat[0].item() if op.numbers_only else tensor(a) for a in arrays]
        for k, t in zip(chosen, tensors, strict=True):
            operands[k] = t
        return OPERATIONS[op.name](*operands)

    return function, [arrays[k] for k in chosen]


@pytest.mark.parametrize("name", [n for n in DIFFERENTIABLE if "float64" in accepted(TABLE[n])])
def test_gradients(name):
    function, arrays = differentiable(TABLE[name], "float64")
    check_gradients(function, arrays, 2, np.random.default_rng(zlib.crc32(name.encode())))


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_gradients(name):
    op = TABLE[name]
    function, arrays = differentiable(op, "complex128")
    arrays = [a.real if n == "weight" else a for n, a in zip(op.inputs, arrays, strict=False)]
    check_gradients(function, arrays, 1, np.random.default_rng(zlib.crc32(name.encode())))


def masks(count):
    """Which inputs want gradients: all, and each alone; for two inputs these are all the masks."""
    alone = [tuple(k == j for k in range(count)) for j in range(count)]
    return alone if count == 1 else [(True,) * count, *alone]


@pytest.mark.parametrize("name", [n for n in DIFFERENTIABLE if "float64" in accepted(TABLE[n])])
def test_kernel_and_rule_agree(name):
    """The fused backward kernel against the rules applied to tensors, for each set of wanted gradients."""
    op = TABLE[name]
    function, arrays = differentiable(op, "float64")
    for wants in masks(len(arrays)):
        tensors = [tensor(a).requires_grad_(w) for a, w in zip(arrays, wants, strict=True)]
        inputs = [t for t in tensors if t.requires_grad]
        out = function(tensors)
        assert type(out.grad_fn).__name__ == op.grad_name
        seed = tensor(np.random.default_rng(0).normal(size=tuple(out.shape)))
        rule = jitgrad.autograd.grad(out, inputs, seed, create_graph=True)
        kernel = jitgrad.autograd.grad(out, inputs, seed)
        for a, b in zip(kernel, rule, strict=True):
            assert a.dtype is b.dtype and a.shape == b.shape
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("name", ("add", "mul", "div", "maximum", "where", "pow"))
def test_broadcast_gradients_have_the_inputs_shapes(name):
    op = TABLE[name]
    arrays = draw(op, "float32", *((4, 1, 3), (5, 1), (1, 3))[: len(op.inputs)])
    tensors = [tensor(a) for a in arrays]
    wanted = [t.requires_grad_() for n, t in zip(op.inputs, tensors, strict=True) if n not in op.conditions]
    grads = jitgrad.autograd.grad(OPERATIONS[name](*tensors).sum(), wanted)
    assert [g.shape for g in grads] == [w.shape for w in wanted]


# -- kernels --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ("add", "div", "exp", "log", "tanh", "sigmoid", "sqrt", "relu", "maximum", "gelu"))
def test_float32_stays_float32(name):
    op = TABLE[name]
    arguments = [Argument(n, "array") for n in op.inputs]
    text = elementwise_text("kernel", [(op.rule, "out")], arguments, ["float32"], "float32", False, False)
    scope = {}
    exec(PRELUDE + text, scope)
    kernel = numba.njit(error_model="numpy", no_cpython_wrapper=True)(scope["kernel"])
    kernel.compile((numba.float32[::1],) * (len(op.inputs) + 1))
    (text,) = kernel.inspect_llvm().values()
    assert "float" in text
    assert "double" not in text


shapes = st.lists(st.integers(0, 3), max_size=4).map(tuple)


@st.composite
def broadcastable(draw_from):
    """Two arrays that broadcast: dims dropped or set to 1, permuted in memory, sliced."""
    shape = draw_from(shapes)
    arrays = []
    for seed in (1, 2):
        own = tuple(draw_from(st.sampled_from((n, 1))) for n in shape)[draw_from(st.integers(0, len(shape))) :]
        step = draw_from(st.sampled_from((1, 2)))
        order = draw_from(st.permutations(range(len(own))))
        memory = np.random.default_rng(seed).normal(size=[own[d] * step for d in order])
        arrays.append(memory.transpose(np.argsort(order))[tuple(slice(None, None, step) for _ in own)])
    return arrays


@settings(deadline=None, max_examples=150)
@given(broadcastable())
def test_any_layout(arrays):
    x, y = (jitgrad.from_numpy(np.asarray(a)) for a in arrays)
    np.testing.assert_array_equal((x + y).numpy(), np.add(*arrays))
    np.testing.assert_array_equal(jitgrad.maximum(x, y).numpy(), np.maximum(*arrays))
    np.testing.assert_array_equal((-x).numpy(), -arrays[0])
