"""vmap beside PyTorch's: random numbers by ``randomness``, shapes checked by sample, memory, and words."""

import numpy as np
import pytest

import jitgrad

from ..beside import outcome, same

torch = pytest.importorskip("torch")

X = np.linspace(0.15, 0.9, 12).reshape(3, 4)
CUBE = np.linspace(-1.0, 1.0, 24).reshape(2, 3, 4)


def seeded(m, function, *args, **kwargs):
    m.manual_seed(0)
    return m.func.vmap(function, **kwargs)(*args)


RANDOM = {
    "rand": lambda m, x, r: seeded(m, lambda a: m.rand(5) + a.sum() * 0, x, randomness=r),
    "randn many": lambda m, x, r: seeded(m, lambda a: m.randn(20) + a.sum() * 0, x, randomness=r),
    "randint": lambda m, x, r: seeded(m, lambda a: m.randint(0, 9, (5,)) + 0 * a.sum(), x, randomness=r),
    "randperm": lambda m, x, r: seeded(m, lambda a: m.randperm(6), x, randomness=r),
    "normal of numbers": lambda m, x, r: seeded(m, lambda a: m.normal(1.0, 2.0, (3,)), x, randomness=r),
    "rand_like": lambda m, x, r: seeded(m, m.rand_like, x, randomness=r),
    "randn_like, another dim": lambda m, x, r: seeded(m, m.randn_like, x, in_dims=1, randomness=r),
    "randint_like, transposed": lambda m, x, r: seeded(
        m, lambda a: m.randint_like(a.t(), 9), x.reshape(2, 3, 2), in_dims=1, randomness=r),
    "like of what is not mapped": lambda m, x, r: seeded(m, lambda a: m.rand_like(x), x, randomness=r),
    "bernoulli of samples": lambda m, x, r: seeded(m, m.bernoulli, x, randomness=r),
    "bernoulli of what is not mapped": lambda m, x, r: seeded(m, lambda a: m.bernoulli(x), x, randomness=r),
    "bernoulli of a number": lambda m, x, r: seeded(m, lambda a: m.bernoulli(a, 0.3), x, randomness=r),
    "bernoulli_ by a number": lambda m, x, r: seeded(m, lambda a: a.clone().bernoulli_(0.3), x, randomness=r),
    "bernoulli_ by samples": lambda m, x, r: seeded(m, lambda a: a.clone().bernoulli_(a), x, randomness=r),
    "bernoulli_ by what is not mapped": lambda m, x, r: seeded(
        m, lambda a: a.clone().bernoulli_(x[0]), x, randomness=r),
    "bernoulli_ of what is not mapped": lambda m, x, r: seeded(m, lambda a: x.bernoulli_(a), x, randomness=r),
    "normal_ of what is not mapped": lambda m, x, r: seeded(m, lambda a: m.ones(3).normal_(), x, randomness=r),
    "normal_ of a view": lambda m, x, r: seeded(
        m, lambda a: a.t().normal_(), x.reshape(2, 3, 2), in_dims=1, randomness=r),
    "normal of means": lambda m, x, r: seeded(m, lambda a: m.normal(a, 2.0), x, randomness=r),
    "normal of deviations": lambda m, x, r: seeded(m, lambda a: m.normal(1.0, a), x, randomness=r),
    "normal of both": lambda m, x, r: seeded(m, lambda a: m.normal(a[:, None], a[None]), x, randomness=r),
    "normal of what is not mapped": lambda m, x, r: seeded(m, lambda a: m.normal(x, x), x, randomness=r),
    "normal of negative deviations": lambda m, x, r: seeded(m, lambda a: m.normal(0.0, -a), x, randomness=r),
    "probabilities above one": lambda m, x, r: seeded(m, lambda a: m.bernoulli(a + 1), x, randomness=r),
    "multinomial": lambda m, x, r: seeded(m, lambda a: m.multinomial(a, 3), x, randomness=r),
    "multinomial, one": lambda m, x, r: seeded(m, lambda a: m.multinomial(a, 1), x, randomness=r),
    "multinomial, again": lambda m, x, r: seeded(m, lambda a: m.multinomial(a, 7, True), x, randomness=r),
    "multinomial of rows": lambda m, x, r: seeded(m, lambda a: m.multinomial(m.stack([a, a * a]), 2), x, randomness=r),
    "multinomial of what is not mapped": lambda m, x, r: seeded(m, lambda a: m.multinomial(x[0], 2), x, randomness=r),
    "multinomial of negatives": lambda m, x, r: seeded(m, lambda a: m.multinomial(-a, 2), x, randomness=r),
    "dropout": lambda m, x, r: seeded(m, lambda a: m.nn.functional.dropout(a, 0.4), x, in_dims=1, randomness=r),
    "dropout of a view": lambda m, x, r: seeded(
        m, lambda a: m.nn.functional.dropout(a.t(), 0.4), x.reshape(2, 3, 2), in_dims=2, randomness=r),
    "dropout of what is not mapped": lambda m, x, r: seeded(
        m, lambda a: m.nn.functional.dropout(x, 0.4) + a, x, randomness=r),
    "gradient through dropout": lambda m, x, r: seeded(
        m, m.func.grad(lambda a: m.nn.functional.dropout(a).sum()), x, randomness=r),
    "nested": lambda m, x, r: seeded(m, m.func.vmap(m.rand_like, randomness=r), x, in_dims=1, randomness=r),
    "different in this": lambda m, x, r: seeded(m, m.func.vmap(m.rand_like, randomness="different"), x, randomness=r),
    "this in different": lambda m, x, r: seeded(m, m.func.vmap(m.rand_like, randomness=r), x, randomness="different"),
    "out": lambda m, x, r: seeded(m, lambda a: m.randn(3, out=m.empty(3)), x, randomness=r),
    "normal into out": lambda m, x, r: seeded(m, lambda a: m.normal(x, x, out=m.empty(3, 4)), x, randomness=r),
    "jacfwd of bernoulli": lambda m, x, r: (m.manual_seed(0), m.func.jacfwd(m.bernoulli, randomness=r)(x))[1],
    "jacfwd of a product": lambda m, x, r: (
        m.manual_seed(0), m.func.jacfwd(lambda a: a * m.rand_like(a), randomness=r)(x))[1],
    "jacfwd of normal_": lambda m, x, r: (
        m.manual_seed(0), m.func.jacfwd(lambda a: a * a.clone().normal_(), randomness=r)(x))[1],
}  # fmt: skip


@pytest.mark.parametrize("randomness", ["error", "same", "different"])
@pytest.mark.parametrize("name", RANDOM)
def test_randomness(name, randomness):
    def run(m, x):
        return RANDOM[name](m, x, randomness)

    same(outcome(run, jitgrad, X), outcome(run, torch, X))


def test_chunks_draw_the_same_numbers():
    def run(m, x):
        return seeded(m, lambda a: m.rand_like(a), x, in_dims=1, randomness="same", chunk_size=3)

    same(outcome(run, jitgrad, X), outcome(run, torch, X))


def write(m, x, change):
    """What is left in a tensor that a vmapped function wrote to."""
    target = x.clone()
    m.func.vmap(lambda a: (change(a), a)[1])(target)
    return target


SHAPES = {
    "mm": [((2, 3), (3, 4)), ((3,), (3, 4)), ((2, 2, 3), (3, 4)), ((2, 3), (2, 4))],
    "mv": [((2, 3), (3,)), ((2, 3), (3, 2)), ((3,), (3,)), ((2, 3), (4,)), ((2, 3), (1,))],
    "bmm": [((2, 2, 3), (2, 3, 4)), ((2, 3), (2, 3, 4)), ((2, 2, 3), (2, 4, 4))],
    "dot": [((3,), (3,)), ((3,), (1,)), ((3,), (4,)), ((2, 3), (3,))],
    "outer": [((2,), (3,)), ((2, 2), (3,))],
}


@pytest.mark.parametrize("mapped", [(0, 0), (0, None), (None, 0)])
@pytest.mark.parametrize(("name", "shapes"), [(n, s) for n, pairs in SHAPES.items() for s in pairs])
def test_products_of_samples(name, shapes, mapped):
    def run(m, _):
        args = [m.ones((5, *s) if d == 0 else s) for s, d in zip(shapes, mapped, strict=True)]
        return m.func.vmap(getattr(m, name), mapped)(*args)

    same(outcome(run, jitgrad, X), outcome(run, torch, X))


@pytest.mark.parametrize("shapes", [((3,), (2, 3), (3,)), ((3,), (2, 3), (3, 1)), ((7,), (2, 3), (3,))])
def test_sums_with_products_of_samples(shapes):
    def run(m, _):
        return m.func.vmap(m.addmv)(*[m.ones(4, *s) for s in shapes])

    assert type(outcome(run, jitgrad, X)) is type(outcome(run, torch, X))


PROGRAMS = {
    "one tensor, out_dims in a tuple": lambda m, x: m.func.vmap(lambda a: a, out_dims=(1,))(x),
    "one tensor, None in a tuple": lambda m, x: m.func.vmap(lambda a: a, out_dims=(None,))(x),
    "a dictionary, out_dims in a tuple": lambda m, x: m.func.vmap(lambda a: {"k": a}, out_dims=(1,))(x),
    "two tensors, out_dims in a tuple": lambda m, x: m.func.vmap(lambda a: (a, a), out_dims=(1,))(x),
    "handed back": lambda m, x: [
        m.func.vmap(lambda a: a, d, e)(x) is x for d in (0, 1) for e in (0, 1)],
    "contiguous": lambda m, x: m.func.vmap(lambda a: a.contiguous(), 1, 1)(x) is x,
    "a clone in rows": lambda m, x: m.func.vmap(
        lambda a: a.clone(memory_format=m.contiguous_format), 1)(x.reshape(2, 3, 2)).stride(),
    "a clone": lambda m, x: m.func.vmap(lambda a: a.clone(), 1)(x.reshape(2, 3, 2)).stride(),
    "reading data": lambda m, x: m.func.vmap(lambda a: a.data)(x),
    "reading data where gradients are taken": lambda m, x: m.func.vmap(m.func.grad(lambda a: (a.data * a).sum()))(x),
    "setting data": lambda m, x: m.func.vmap(lambda a: setattr(a, "data", x[0]) or a)(x),
    "numpy": lambda m, x: m.func.vmap(lambda a: a.numpy())(x),
    "tolist": lambda m, x: m.func.vmap(lambda a: a.tolist())(x),
    "data_ptr": lambda m, x: m.func.vmap(lambda a: a.data_ptr())(x),
    "storage_offset": lambda m, x: m.func.vmap(lambda a: a * 0 + a[1:].storage_offset())(x[1:]),
    "is_contiguous": lambda m, x: m.func.vmap(lambda a: a.is_contiguous(memory_format=m.channels_last))(x),
    "contiguous in another format": lambda m, x: m.func.vmap(
        lambda a: a.contiguous(memory_format=m.channels_last))(x.reshape(3, 1, 1, 2, 2)),
    "in": lambda m, x: m.func.vmap(lambda a: a + (1.0 in a))(x),
    "is_nonzero": lambda m, x: m.func.vmap(lambda a: a + a.sum().is_nonzero())(x),
    "equal": lambda m, x: m.func.vmap(lambda a: a + m.equal(a, x[0]))(x),
    "equal of what is not mapped": lambda m, x: m.func.vmap(lambda a: a + m.equal(x, x))(x),
    "allclose": lambda m, x: m.func.vmap(lambda a: a + m.allclose(a, x[0]))(x),
    "where of a condition": lambda m, x: m.func.vmap(m.where)(x),
    "nonzero": lambda m, x: m.func.vmap(m.nonzero)(x),
    "masked_select": lambda m, x: m.func.vmap(lambda a: m.masked_select(a, a > 0.5))(x),
    "masked_select by what is not mapped": lambda m, x: m.func.vmap(lambda a: a.masked_select(x[0] > 0.2))(x),
    "a mask per sample": lambda m, x: m.func.vmap(lambda a: a[a > 0.5])(x),
    "a mask per sample of what is not mapped": lambda m, x: m.func.vmap(lambda a: x[0][a > 0.5])(x),
    "setting by a mask per sample": lambda m, x: write(m, x, lambda a: a.__setitem__(a > 0.5, 0.0)),
    "index_put": lambda m, x: m.func.vmap(lambda a, i: a.index_put((i,), a[:2]))(x, m.tensor([[0, 3], [1, 2], [3, 0]])),
    "index_put, accumulating": lambda m, x: m.func.vmap(lambda a, i: a.index_put((i,), a[:2], True))(
        x, m.tensor([[0, 0], [1, 2], [3, 3]])),
    "out": lambda m, x: m.func.vmap(lambda a: m.exp(a, out=x))(x),
    "out, batched": lambda m, x: m.func.vmap(lambda a: m.exp(x[0], out=a))(x),
    "out of what is not mapped": lambda m, x: m.func.vmap(lambda a: a + m.exp(x[0], out=m.zeros(4)))(x),
    "as_strided": lambda m, x: m.func.vmap(lambda a: a.as_strided((2, 3), (1, 1)))(x),
    "as_strided, another dim": lambda m, x: m.func.vmap(lambda a: m.as_strided(a, (2,), (8,), 0), 1)(x),
    "as_strided at an offset": lambda m, x: m.func.vmap(lambda a: a.as_strided((2,), (2,), 5))(x[1:]),
    "as_strided beyond a sample": lambda m, x: m.func.vmap(lambda a: a.as_strided((3,), (2,)))(x),
    "as_strided before a sample": lambda m, x: m.func.vmap(lambda a: a.as_strided((3,), (1,), 2))(x[1:]),
    "as_strided of nothing": lambda m, x: m.func.vmap(lambda a: a.as_strided((3,), (1,)))(x[:, :0]),
    "as_strided, lengths": lambda m, x: m.func.vmap(lambda a: a.as_strided((3, 1), (1,)))(x),
    "new_empty_strided": lambda m, x: m.func.vmap(
        lambda a: a.new_empty_strided((2, 3), (1, 4)))(x).stride(),
    "squeeze of a number": lambda m, x: (lambda y: m.func.vmap(lambda a: a.squeeze(0).mul_(2))(y) + y)(x[0].clone()),
    "a number's view": lambda m, x: (lambda y: [
        m.func.vmap(f)(y)._base is y for f in (lambda a: a.squeeze(), lambda a: a.unfold(0, 1, 1))])(x[0].clone()),
    "transpose of a number": lambda m, x: (lambda y: m.func.vmap(lambda a: a.transpose(0, -1))(y) is y)(x[0].clone()),
    "cat with empty vectors": lambda m, x: m.func.vmap(
        lambda a: m.cat([m.zeros(0, dtype=a.dtype), a, a], 1))(x.reshape(3, 2, 2)),
    "cat with empty samples": lambda m, x: m.func.vmap(lambda a, b: m.cat([b, a]))(x.reshape(3, 2, 2), x[:, :0]),
    "view_as_complex": lambda m, x: m.func.vmap(m.view_as_complex)(x.reshape(3, 2, 2)),
    "view_as_complex of numbers": lambda m, x: m.func.vmap(m.view_as_complex)(x[0]),
    "trace": lambda m, x: m.func.vmap(m.trace)(x.reshape(3, 2, 2)),
    "masked_fill by numbers of two batches": lambda m, x: m.func.vmap(m.func.vmap(
        lambda v: x[0].masked_fill(x[0] > 0.3, v)))(x),
    "jacobian of cross": lambda m, x: m.func.jacrev(lambda z: m.func.vmap(
        lambda a: m.cross(z, a, dim=-1))(x[:, :3]))(x[0, 1:]),
    "trace of vectors": lambda m, x: m.func.vmap(m.trace)(x),
    "fill_diagonal_": lambda m, x: m.func.vmap(lambda a: m.func.jvp(
        lambda z: z.clone().fill_diagonal_(0.5), (a,), (a,))[1])(x.reshape(3, 2, 2)),
    "fill_diagonal_ of vectors": lambda m, x: m.func.vmap(lambda a: a.fill_diagonal_(0.5))(x),
    "cross": lambda m, x: m.func.vmap(lambda a: m.cross(a, a * a, dim=0), 1)(x),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    same(outcome(PROGRAMS[name], jitgrad, X), outcome(PROGRAMS[name], torch, X))


IN_PLACE = {
    "copy_": lambda m, a: m.zeros(4).copy_(a), "add_": lambda m, a: m.zeros(4).add_(a),
    "mul_": lambda m, a: m.zeros(4).mul_(a), "div_": lambda m, a: m.zeros(4).div_(a),
    "pow_": lambda m, a: m.zeros(4).pow_(a), "lerp_": lambda m, a: m.zeros(4).lerp_(a.float(), 0.5),
    "clamp_": lambda m, a: m.zeros(4).clamp_(a), "masked_fill_": lambda m, a: m.zeros(4).masked_fill_(a > 0, 1.0),
    "fill_": lambda m, a: m.zeros(4).fill_(a[0]), "item": lambda m, a: m.zeros(4).__setitem__(0, a[0]),
    "items": lambda m, a: m.zeros(4).__setitem__(slice(0, 2), a[:2]),
    "index_fill_": lambda m, a: m.zeros(4).index_fill_(0, m.tensor([0]), a[0].float()),
    "index_put_": lambda m, a: m.zeros(4).index_put_((m.tensor([0, 1]),), a[:2].float()),
    "index_add_": lambda m, a: m.zeros(4).index_add_(0, m.tensor([0, 1]), a[:2].float()),
    "index_copy_": lambda m, a: m.zeros(4).index_copy_(0, m.tensor([0, 1]), a[:2].float()),
    "scatter_": lambda m, a: m.zeros(4).scatter_(0, m.tensor([0, 1]), a[:2].float()),
    "scatter_add_": lambda m, a: m.zeros(4).scatter_add_(0, m.tensor([0, 1]), a[:2].float()),
    "masked_scatter_": lambda m, a: m.zeros(4).masked_scatter_(m.ones(4) > 0, a.float()),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_PLACE)
def test_a_batch_into_what_is_not_mapped(name):
    def run(m, x):
        return m.func.vmap(lambda a: IN_PLACE[name](m, a))(x)

    same(outcome(run, jitgrad, X), outcome(run, torch, X))


@pytest.mark.parametrize("name", ["sin", "sum", "zeros_like", "rand_like", "clone"])
def test_escaped_samples(name):
    def run(m, x):
        kept = []
        m.func.vmap(lambda a: kept.append(a) or a)(x)
        return getattr(m, name)(kept[0])

    same(outcome(run, jitgrad, X)[1][:90], outcome(run, torch, X)[1][:90])


@pytest.mark.parametrize("name", ["i0e", "ndtr", "zeta", "chebyshev_polynomial_t"])  # computed in float64
@pytest.mark.parametrize("dtype", ["int16", "float32"])
def test_dtypes_of_samples_without_dims(name, dtype):
    def run(m, x):
        more = (m.tensor(1.0),) if name[0] in "zc" else ()
        return m.func.vmap(lambda a: getattr(m.special, name)(a, *more))(m.tensor([1, 2, 3], dtype=getattr(m, dtype)))

    same(outcome(run, jitgrad, X), outcome(run, torch, X))


@pytest.mark.parametrize("name", ["squeeze", "flip"])
@pytest.mark.parametrize("dims", [(), (0,), (0, -1)])
def test_no_dims_are_not_all(name, dims):
    def run(m, x):
        return m.func.vmap(lambda a: getattr(a, name)(dims))(x.reshape(2, 1, -1, 1))

    same(outcome(run, jitgrad, X), outcome(run, torch, X))
