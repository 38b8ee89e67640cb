"""vmap of every declared op against a loop over the samples, and vmap's own rules."""

import itertools

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.dispatch.elementwise import ElementwiseOp
from jitgrad.dispatch.registry import OPS
from jitgrad.func import grad, jvp, vjp, vmap
from jitgrad.func.tree import flatten
from jitgrad.testing import op_samples

SIZE = 3
# Random: what each sample gets is a matter of ``randomness``.
DRAWS = ("bernoulli", "multinomial", "_fill", "poisson_of", "binomial_of", "random_slopes", "gamma_of", "dirichlet_of")


def rows(x):
    """A batch of samples like ``x``, all within its domain."""
    if x.dtype.is_floating_point or x.dtype.is_complex:
        return torch.stack([x, x * 0.9, x * 0.8])
    return torch.stack([x, x.flip(-1) if x.ndim else x, x])


def is_tensor(value):
    return isinstance(value, torch.Tensor) or (
        isinstance(value, (list, tuple)) and len(value) > 0 and all(isinstance(v, torch.Tensor) for v in value)
    )


def batches(name):
    """(function, arguments, which of them are batched) for the op's samples and every choice of arguments."""
    for function, args, kwargs in op_samples(name):
        places = [k for k, a in enumerate(args) if is_tensor(a)]
        chosen = [c for n in range(1, len(places) + 1) for c in itertools.combinations(places, n)]
        for mapped in chosen if len(places) < 4 else [tuple(places), *[(p,) for p in places]]:
            yield function, args, kwargs, mapped


def stacked(args, mapped):
    return [
        (a if k not in mapped else [rows(v) for v in a] if isinstance(a, (list, tuple)) else rows(a))
        for k, a in enumerate(args)
    ]


def sample(args, mapped, n):
    return [
        (a if k not in mapped else [v[n] for v in a] if isinstance(a, (list, tuple)) else a[n])
        for k, a in enumerate(args)
    ]


def over(function, args, mapped):
    """vmap over the arguments named; the rest, which may be anything, is closed over."""
    leaves = [args[k] for k in mapped]

    def call(*values):
        given = dict(zip(mapped, values, strict=True))
        return function(*[given.get(k, a) for k, a in enumerate(args)])

    return vmap(call)(*leaves)


def compare(found, expected):
    found, expected = flatten(found)[0], flatten(expected)[0]
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype is b.dtype
        assert a.shape == b.shape
        np.testing.assert_allclose(a.numpy(force=True), b.numpy(force=True), rtol=1e-12, atol=1e-12)


def looped(function, args, mapped):
    results = [flatten(function(*sample(args, mapped, n))) for n in range(SIZE)]
    return [torch.stack(list(column)) for column in zip(*(leaves for leaves, _ in results), strict=True)]


def is_random(name):
    return any(word in name for word in DRAWS)


@pytest.mark.parametrize("name", [n for n in OPS if not is_random(n)])
def test_every_op(name):
    for function, args, kwargs, mapped in batches(name):
        given = stacked(args, mapped)

        def call(*values, function=function, kwargs=kwargs):
            return function(*values, **kwargs)

        try:
            expected = looped(call, given, mapped)
        except (RuntimeError, IndexError) as error:
            with pytest.raises(type(error)):
                over(call, given, mapped)
            continue
        compare(flatten(over(call, given, mapped))[0], expected)


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if hasattr(op, "into") and not is_random(n)])
def test_every_op_in_place(name):
    op = OPS[name]
    for _, args, kwargs, mapped in batches(name):
        if 0 not in mapped:
            continue

        def call(x, *rest, kwargs=kwargs):
            x = x.clone()
            assert op.into(x, *rest, **kwargs) is x
            return x

        given = stacked(args, mapped)
        compare(over(call, given, mapped), looped(call, given, mapped)[0])


def total(function, place, kwargs):
    """The sum of all that an op returns, as a function of one argument and of the others."""

    def summed(x, *rest):
        leaves = flatten(function(*rest[:place], x, *rest[place:], **kwargs))[0]
        return sum(out.real.sum() for out in leaves if out.dtype.is_floating_point or out.dtype.is_complex)

    return summed


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if (op.op if isinstance(op, ElementwiseOp) else op).grads
                                  and not is_random(n)])  # fmt: skip
def test_gradients_of_samples(name):
    """Of the first tensor, which may or may not be batched itself, beside others that are."""
    for function, args, kwargs, mapped in batches(name):
        place = next((k for k, a in enumerate(args) if isinstance(a, torch.Tensor) and a.dtype.is_floating_point), None)
        if place is None or any(isinstance(args[k], (list, tuple)) for k in mapped):
            continue
        given, summed = stacked(args, mapped), total(function, place, kwargs)
        places = [place, *(k for k in range(len(args)) if k != place)]

        def one(*values, places=places, given=given, summed=summed, mapped=mapped):
            found = dict(zip(mapped, values, strict=True))
            return grad(summed)(*[found.get(k, given[k]) for k in places])

        expected = [one(*[given[k][n] for k in mapped]) for n in range(SIZE)]
        compare(vmap(one)(*[given[k] for k in mapped]), torch.stack(expected))


def test_randomness():
    x = torch.ones(4, 3)
    with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
        vmap(lambda a: a + torch.rand(3))(x)
    for make in (lambda a: torch.randn(3), torch.rand_like, lambda a: a.clone().normal_(),
                 lambda a: torch.bernoulli(a / 2), lambda a: torch.nn.functional.dropout(a, 0.5),
                 lambda a: torch.randint(0, 100, (3,)),
                 lambda a: torch.randperm(3) + 0 * a):  # fmt: skip
        torch.manual_seed(3)
        different = vmap(make, randomness="different")(x)
        assert different.shape == (4, 3)
        assert len({tuple(row) for row in different.tolist()}) > 1
    for make in (lambda a: torch.randn(3), torch.rand_like, lambda a: a.clone().normal_(),
                 lambda a: torch.randint(0, 100, (3,))):  # fmt: skip
        same = vmap(make, randomness="same")(x)
        assert len({tuple(row) for row in same.tolist()}) == 1
    with pytest.raises(RuntimeError, match="different inplace randomness on an unbatched tensor"):
        vmap(lambda a: x.normal_(), randomness="different")(x)


def test_nesting_and_side_effects():
    x = torch.arange(6.0).reshape(2, 3)
    pairs = vmap(lambda a: vmap(lambda b: a * b)(x))(x)
    np.testing.assert_array_equal(pairs.numpy(), (x[:, None] * x[None]).numpy())
    y = x.clone()
    vmap(lambda a: a.add_(1))(y)  # writes show in what was passed
    assert y.tolist() == (x + 1).tolist()
    kept = []
    vmap(lambda a: kept.append(a) or a)(x)
    with pytest.raises(RuntimeError, match="escaped from inside a function being vmapped"):
        kept[0] + 1


def test_tensors_that_require_grad_pass():
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    out = vmap(lambda a: (a * a).sum())(x)
    assert out.requires_grad
    out.sum().backward()
    assert x.grad.tolist() == (2 * x.detach()).tolist()


def test_samples_see_their_own_shape():
    x = torch.zeros(5, 2, 3)

    def look(a):
        assert a.shape == (5, 3) and a.ndim == 2 and a.numel() == 15 and len(a) == 5
        assert a.dim() == 2 and a.size(0) == 5 and a.dtype is torch.float32
        return a.sum()

    assert vmap(look, in_dims=1)(x).shape == (2,)


def test_forward_and_reverse_inside():
    x, t = torch.linspace(0.1, 1.2, 6).reshape(2, 3), torch.ones(2, 3)
    found = vmap(lambda a, b: jvp(torch.sin, (a,), (b,))[1])(x, t)
    np.testing.assert_allclose(found.numpy(), np.cos(x.numpy()), rtol=1e-6)
    found = vmap(lambda a, b: vjp(torch.sin, a)[1](b)[0])(x, t)
    np.testing.assert_allclose(found.numpy(), np.cos(x.numpy()), rtol=1e-6)


@pytest.mark.parametrize("make", [
    torch.bernoulli, lambda a: a.clone().bernoulli_(a), lambda a: torch.normal(a, a), lambda a: torch.normal(0.0, a),
    lambda a: torch.multinomial(a, 2), lambda a: torch.bernoulli(a, 0.5),
])  # fmt: skip
def test_randomness_of_parameters_that_are_samples(make):
    x = torch.linspace(0.1, 0.9, 12).reshape(4, 3)
    with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
        vmap(make)(x)
    with pytest.raises(RuntimeError, match="does not currently support same randomness with a batched tensor input"):
        vmap(make, randomness="same")(x)
    torch.manual_seed(1)
    found = vmap(make, randomness="different")(x)
    torch.manual_seed(1)
    np.testing.assert_array_equal(found.numpy(), make(x).numpy())  # the whole batch is drawn at once


def test_numbers_are_drawn_in_the_order_of_the_batch_in_memory():
    x = torch.zeros(3, 4, 2)
    torch.manual_seed(1)
    found = vmap(torch.rand_like, in_dims=1, randomness="different")(x)
    torch.manual_seed(1)
    np.testing.assert_array_equal(found.numpy(), torch.rand(3, 4, 2).movedim(1, 0).numpy())


def test_dims_and_sizes_of_products_are_the_samples():
    for op, x, y, words in (
        (torch.mm, (2, 3), (2, 3, 4), r"Got incorrect dims for mm\(a, b\). a has dim 1"),
        (torch.bmm, (2, 2, 3), (2, 3, 4), "Got incorrect dims for bmm"),
        (torch.mv, (2, 2, 3), (2, 3, 3), "Got incorrect dims for mv"),
        (torch.dot, (2, 2, 3), (2, 2, 3), "Got wrong shapes for dot"),
        (torch.dot, (2, 3), (2, 1), r"to be: \[2, 3\] but got: \[2, 1\]"),
        (torch.addmv, (2, 3), (2, 3), "missing 1 required positional arguments"),
    ):
        with pytest.raises((RuntimeError, TypeError), match=words):
            vmap(op)(torch.ones(x), torch.ones(y))


def test_views_of_numbers_show_the_batch():
    x = torch.arange(3.0)
    vmap(lambda a: a.squeeze(0).mul_(2))(x)
    vmap(lambda a: a.unfold(0, 1, 1).add_(1))(x)
    vmap(lambda a: a.transpose(0, -1).add_(1))(x)
    assert x.tolist() == [2.0, 4.0, 6.0]


def test_index_put_by_an_index_per_sample():
    x, i = torch.zeros(2, 3), torch.tensor([[0, 2], [1, 1]])
    assert vmap(lambda a, k: a.index_put((k,), a.new_ones(2), True))(x, i).tolist() == [[1.0, 0, 1], [0, 2, 0]]
    assert vmap(lambda k: x[0].index_put((k,), torch.ones(2)))(i).tolist() == [[1.0, 0, 1], [0, 1, 0]]
    assert x.tolist() == [[0.0] * 3] * 2


def test_what_comes_out_as_it_went_in_is_the_callers():
    x = torch.zeros(2, 3)
    assert vmap(lambda a: a, 1, 1)(x) is x and vmap(lambda a: a.add_(1), -1, -1)(x) is x
    assert x.tolist() == [[1.0] * 3] * 2


def test_compositions_that_read_no_values():
    x = torch.tensor([[3.0, 1.0, 2.0], [1.0, 3.0, 2.0]])
    assert vmap(torch.argsort)(x).tolist() == [[1, 2, 0], [0, 2, 1]]
    found = vmap(lambda a: a.masked_scatter(a > 1, a.new_tensor([7.0, 8.0, 9.0])))(x)
    assert found.tolist() == [[7.0, 1.0, 8.0], [1.0, 7.0, 8.0]]
    vmap(lambda a: a.masked_scatter_(a > 1, torch.zeros(3)))(x)
    assert x.tolist() == [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]


def test_products_of_samples_are_of_one_dtype():
    with pytest.raises(RuntimeError, match="expected both vectors to have same dtype, but found Double and Float"):
        vmap(lambda a: torch.dot(a, torch.ones(2)))(torch.ones(3, 2, dtype=torch.float64))


@pytest.mark.parametrize(("name", "args"), [("cumprod", (0,)), ("float_power", (2,)), ("polygamma", (1,))])
def test_writes_in_place_keep_what_gradients_need(name, args):
    x = torch.tensor([[1.0, 2.0], [3.0, 0.5]], dtype=torch.float64)
    found = vmap(grad(lambda a: getattr(a.clone(), f"{name}_")(*args).square().sum()))(x)
    expected = vmap(grad(lambda a: getattr(a, name)(*args).square().sum()))(x)
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_samples_of_views_made_under_no_grad_say_that_they_require_no_grad():
    with torch.no_grad():
        x = torch.ones(3, 2)[:2]
    assert torch.func.vmap(lambda a: a if a.requires_grad else a * 2)(x).tolist() == [[2, 2], [2, 2]]


def test_whole_numbers_are_divided_by_samples():
    x, seven = torch.tensor([[1, 2], [3, 4]]), torch.tensor([7, 8])
    for divide in (lambda a: 7 % a, lambda a: seven // a, lambda a: torch.fmod(seven, a), lambda a: a % seven):
        assert torch.equal(torch.func.vmap(divide)(x), divide(x))
    assert torch.func.vmap(lambda a: torch.div(seven, a, rounding_mode="trunc"))(x).tolist() == [[7, 4], [2, 2]]
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        torch.func.vmap(lambda a: seven % a)(x - 1)


def test_drawn_with_probabilities_under_several_transforms():
    p = torch.full((3, 4), 0.5)
    for randomness in ("same", "different"):
        for draw in (torch.bernoulli, torch.poisson):
            slope = torch.func.jacfwd(draw, randomness=randomness)(p)
            assert slope.shape == (3, 4, 3, 4) and not slope.any()
    with pytest.raises(RuntimeError, match="random operation while in randomness error mode"):
        torch.func.jacfwd(torch.bernoulli)(p)


def test_slopes_that_depend_on_the_sample_are_not_the_same_for_all():
    x = torch.tensor([[-1.0, 2.0], [3.0, -4.0]])

    def draw(t):
        return torch.nn.functional.rrelu(t, training=True)

    out = torch.vmap(draw, randomness="different")(x)
    assert ((out / x)[x > 0] == 1).all() and ((out / x)[x < 0] < 0.34).all()
    with pytest.raises(RuntimeError, match="do not yet support aten::rrelu"):
        torch.vmap(draw, randomness="same")(x)
