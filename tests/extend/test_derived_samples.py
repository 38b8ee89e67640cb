"""vmap of derived ops: a batch is one launch, and gives what its samples give one by one, in any threads."""

import math

import numpy as np
import pytest

import jitgrad
from jitgrad.extend import derived_samples
from jitgrad.func import grad, hessian, jacfwd, jacrev, jvp, vmap
from jitgrad.kernels.launch import observers


@pytest.fixture(params=[1, 2], autouse=True)
def number_of_threads(request, monkeypatch):
    before = jitgrad.get_num_threads()
    monkeypatch.setattr(derived_samples, "_WORTH_A_THREAD", 0.0)
    jitgrad.set_num_threads(request.param)
    yield
    jitgrad.set_num_threads(before)


@jitgrad.differentiable
def smoothing(x, a):
    level, total = x[0], 0.0
    for t in range(1, x.shape[0]):
        total += (x[t] - level) ** 2
        level = math.sin(a * x[t]) + (1.0 - a) * level
    return total


@jitgrad.differentiable
def several(x, a, places):
    out = np.zeros((places.shape[0], 2))
    count = 0
    for k in range(places.shape[0]):
        out[k, 0] = x[places[k]] * a
        out[k, 1] = out[k, 0] * x[k]
        count += places[k]
    return out, out[0, 1] * a, count


@jitgrad.differentiable(shape="x")
def powers(x, a, out):
    out[0] = x[0]
    for i in range(1, x.shape[0]):
        out[i] = out[i - 1] * x[i] * a


@jitgrad.differentiable
def cut(x, n):
    out = np.zeros(n)
    for i in range(n):
        out[i] = x[i] * 2.0
    return out


@jitgrad.differentiable
def refusing(x):
    if x[0] > 2.0:
        raise ValueError("too large")
    return x[0] * x[1]


def draw(*shape, dtype=jitgrad.float64):
    return jitgrad.tensor(np.random.default_rng(len(shape)).normal(size=shape), dtype=dtype)


def one_by_one(f, in_dims, *args):
    """Each sample's results, stacked."""
    size = next(a.shape[d] for a, d in zip(args, in_dims, strict=True) if d is not None)
    rows = [f(*[a if d is None else a.select(d, k) for a, d in zip(args, in_dims, strict=True)]) for k in range(size)]
    return [jitgrad.stack(list(c)) for c in zip(*(r if isinstance(r, tuple) else (r,) for r in rows), strict=True)]


def check(f, in_dims, *args, out_dims=0, exactly=True):
    found = vmap(f, in_dims, out_dims)(*args)
    wanted = one_by_one(f, in_dims, *args)
    for a, b in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        b = b.movedim(0, out_dims) if out_dims else b
        assert a.dtype is b.dtype and a.shape == b.shape
        assert jitgrad.equal(a, b) if exactly else jitgrad.allclose(a, b, rtol=1e-12)


CASES = [
    (smoothing, (0, None), (draw(5, 7), draw())), (smoothing, (1, 0), (draw(7, 5), draw(5))),
    (smoothing, (None, 0), (draw(7), draw(9))), (smoothing, (0, 0), (draw(1, 7), draw(1))),
    (several, (0, None, None), (draw(6, 3), draw(), jitgrad.tensor([2, 0]))),
    (several, (None, None, 1), (draw(3), draw(), jitgrad.tensor([[2, 0, 1], [1, 1, 0]]))),
    (powers, (0, 0), (draw(5, 4), draw(5))), (powers, (1, None), (draw(4, 5), draw())),
]  # fmt: skip


@pytest.mark.parametrize("f, in_dims, args", CASES)
def test_values_are_those_of_samples(f, in_dims, args):
    check(f, in_dims, *args)


def test_results_along_other_dims_and_parts_of_a_batch():
    check(powers, (0, None), draw(5, 4), draw(), out_dims=1)
    x, a = draw(5, 7), draw()
    assert jitgrad.equal(vmap(smoothing, (0, None), chunk_size=2)(x, a), vmap(smoothing, (0, None))(x, a))


@pytest.mark.parametrize("f, in_dims, args", CASES)
def test_gradients_are_those_of_samples(f, in_dims, args):
    def loss(*given):
        found = f(*given)
        parts = [v for v in (found if isinstance(found, tuple) else (found,)) if v.is_floating_point()]
        return sum((v * v).sum() for v in parts)

    floats = tuple(k for k, a in enumerate(args) if a.is_floating_point())
    check(grad(loss, floats), in_dims, *args)
    leaves = [a.detach().requires_grad_(k in floats) for k, a in enumerate(args)]

    def total(results):
        return sum((v * jitgrad.cos(v)).sum() for v in results if v.is_floating_point())

    found = vmap(f, in_dims)(*leaves)
    batch = jitgrad.autograd.grad(total(found if isinstance(found, tuple) else (found,)), [leaves[k] for k in floats])
    single = jitgrad.autograd.grad(total(one_by_one(f, in_dims, *leaves)), [leaves[k] for k in floats])
    for a, b in zip(batch, single, strict=True):
        assert a.dtype is b.dtype and jitgrad.allclose(a, b, rtol=1e-12)


def test_tangents_jacobians_and_second_derivatives():
    x, a, d = draw(5, 4), draw(), draw(5, 4)
    check(lambda x, d: jvp(lambda x: smoothing(x, a), (x,), (d,)), (0, 0), x, d)
    check(lambda x, a: jvp(smoothing, (x, a), (d[0], a)), (0, None), x, a)
    for transform in (hessian, jacfwd, jacrev):
        check(transform(smoothing, 0), (0, None), x, a, exactly=False)
        check(transform(powers, 1), (0, None), x, a, exactly=False)
    both = vmap(vmap(smoothing, (0, None)), (None, 0))(x, draw(3))
    assert jitgrad.equal(both, jitgrad.stack([vmap(smoothing, (0, None))(x, s) for s in draw(3)]))
    assert jitgrad.autograd.gradgradcheck(vmap(smoothing, (0, None)), (x.requires_grad_(), a.requires_grad_()))


@pytest.mark.parametrize("dtype", [jitgrad.float32, jitgrad.float16, jitgrad.bfloat16])
def test_dtypes(dtype):
    check(smoothing, (0, None), draw(4, 3, dtype=dtype), jitgrad.tensor(0.5, dtype=dtype))
    check(smoothing, (0, 0), draw(4, 3, dtype=dtype), draw(4))
    check(grad(smoothing), (0, None), draw(4, 3, dtype=dtype), jitgrad.tensor(0.5, dtype=dtype))


def messages(*calls):
    found = []
    for call in calls:
        with pytest.raises(Exception) as error:
            call()
        found.append((type(error.value), str(error.value)))
    return found


def test_errors_are_those_of_samples():
    x = jitgrad.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    batch, single = messages(lambda: vmap(refusing)(x), lambda: refusing(x[1]))
    assert batch == single
    numbers = jitgrad.tensor([2, 1, 2])
    batch, single = messages(lambda: vmap(cut)(x, numbers), lambda: one_by_one(cut, (0, 0), x, numbers))
    assert batch == single
    fresh = jitgrad.differentiable(cut.py_func)
    batch, single = messages(lambda: vmap(fresh, (0, None))(x, 3), lambda: fresh(x[0], 3))
    assert batch == single and batch[0] is IndexError
    always = jitgrad.differentiable(several.py_func, check=True)
    places = jitgrad.tensor([[0, 1], [1, 0], [0, 2]])
    batch, single = messages(lambda: vmap(always, (0, None, 0))(x, 1.0, places), lambda: always(x[2], 1.0, places[2]))
    assert batch == single and batch[0] is IndexError
    with pytest.raises(RuntimeError, match="batch of size 0"):
        vmap(refusing)(x[:0])


def test_a_batch_is_one_launch_each_way():
    x, a = draw(5, 4), draw()
    seen = []
    observers.append(lambda kernel, args, seconds: seen.append(kernel.name))
    try:
        vmap(grad(smoothing), (0, None))(x, a)
    finally:
        observers.pop()
    assert [seen.count(n) for n in ("smoothing", "smoothing_gradient")] == [1, 1]


def test_what_has_no_batch_is_not_copied():
    op = derived_samples.over_samples(smoothing.op, frozenset({"a"}))
    x = np.zeros(7)
    assert all(op.samples([x, np.zeros(3)], [])(k)[0] is x for k in range(3))
    expanded = np.lib.stride_tricks.as_strided(np.zeros((4, 4)).T, (9, 4, 4), (0, 8, 32))
    rows = derived_samples.over_samples(smoothing.op, frozenset({"x"})).samples([expanded, 1.0], [])
    assert rows(0)[0].ctypes.data == rows(8)[0].ctypes.data and rows(0)[0].flags.c_contiguous


def test_results_may_be_written_into():
    x, a = draw(5, 4).requires_grad_(), draw()
    (wanted,) = jitgrad.autograd.grad(vmap(powers, (0, None))(x, a).sum(), x)
    out = vmap(powers, (0, None))(x, a)
    with jitgrad.no_grad():
        out.fill_(7.0)
    (found,) = jitgrad.autograd.grad(out.sum(), x)
    assert jitgrad.equal(found, wanted)


def test_in_a_compiled_function():
    def step(x, a):
        values = vmap(lambda x: powers(x, a))(x)
        return values, vmap(grad(lambda x, a: smoothing(x, a), (0, 1)), (0, None))(x, a)

    compiled = jitgrad.compile(step, fullgraph=True)
    for scale in (1.0, 0.5, 0.25):
        (values, pair), (wanted, others) = (f(draw(5, 4) * scale, draw() * scale) for f in (compiled, step))
        assert jitgrad.equal(values, wanted) and all(map(jitgrad.equal, pair, others))
