"""float16 and bfloat16 against PyTorch: creation, printing, values, gradients, errors."""

import copy
import io
import pickle

import pytest
import torch

import jitgrad

CASES = {
    "repr": lambda lib, d: lib.tensor([1.5, 2.25, -3, 1e-5, float("nan")], dtype=d),
    "item": lambda lib, d: lib.tensor(1.1, dtype=d).item(),
    "tolist": lambda lib, d: lib.tensor([1.1], dtype=d).tolist(),
    "numpy": lambda lib, d: lib.tensor([1.1], dtype=d).numpy(),
    "full": lambda lib, d: lib.full((2,), 3.3, dtype=d),
    "fills": lambda lib, d: lib.zeros(3, 3, dtype=d).fill_diagonal_(1.1),
    "arange": lambda lib, d: lib.arange(0, 1, 0.1, dtype=d),
    "linspace": lambda lib, d: lib.linspace(0, 1, 7, dtype=d),
    "logspace": lambda lib, d: lib.logspace(0, 1, 7, dtype=d),
    "rand": lambda lib, d: (lib.manual_seed(0), lib.rand(5, dtype=d))[1],
    "randn few": lambda lib, d: (lib.manual_seed(0), lib.randn(5, dtype=d))[1],
    "randn many": lambda lib, d: (lib.manual_seed(0), lib.randn(20, dtype=d))[1],
    "bernoulli": lambda lib, d: (lib.manual_seed(0), lib.bernoulli(lib.full((5,), 0.5, dtype=d)))[1],
    "type": lambda lib, d: lib.tensor([1.0], dtype=d).type(),
    "overflow": lambda lib, d: lib.full((2,), 1e39, dtype=d),
    "rounded to infinity": lambda lib, d: lib.tensor([70000.0, 3e-8]).to(d),
    "finfo": lambda lib, d: lib.finfo(d),
    "sum": lambda lib, d: lib.full((3000,), 0.1, dtype=d).sum(),
    "sum as float32": lambda lib, d: lib.full((30,), 0.1, dtype=d).sum(dtype=lib.float32),
    "sum to half": lambda lib, d: lib.full((3000,), 0.1).sum(dtype=d),
    "cumsum": lambda lib, d: lib.full((30,), 0.1, dtype=d).cumsum(0),
    "sort": lambda lib, d: lib.tensor([3.0, 1, 2], dtype=d).sort(),
    "max": lambda lib, d: lib.tensor([3.0, 1, 2], dtype=d).max(0),
    "index": lambda lib, d: lib.tensor([3.0, 1, 2], dtype=d)[lib.tensor([0, 2])],
    "mask": lambda lib, d: lib.tensor([3.0, 1, 2], dtype=d)[lib.tensor([True, False, True])],
    "cat": lambda lib, d: lib.cat([lib.ones(2, dtype=d), lib.ones(2)]),
    "matmul": lambda lib, d: lib.linspace(0, 3, 6, dtype=d).view(2, 3) @ lib.linspace(1, 2, 3, dtype=d),
    "product with complex numbers": lambda lib, d: lib.ones(2, 2, dtype=d) @ lib.ones(2, 2, dtype=lib.complex64),
    "cross entropy by chunks, layer of doubles": lambda lib, d: lib.nn.functional.linear_cross_entropy(
        lib.ones(2, 3, dtype=d), lib.arange(12.0).view(4, 3).double() / 8, lib.tensor([0, 3]), linear_bias=lib.ones(4),
        options=lib.nn.modules.LinearCrossEntropyOptions(),
    ),
    "cross entropy by chunks": lambda lib, d: lib.nn.functional.linear_cross_entropy(
        lib.linspace(-3, 5, 8, dtype=d).view(1, 8), lib.linspace(-1, 1, 32, dtype=d).view(4, 8).sin(), lib.tensor([1]),
        linear_bias=lib.linspace(-2, 3, 4, dtype=d), options=lib.nn.LinearCrossEntropyOptions(),
    ),
    "matmul of two dtypes": lambda lib, d: lib.ones(2, 2, dtype=d) @ lib.ones(2, 2),
    "with float32": lambda lib, d: lib.ones(2, dtype=d) + lib.ones(2),
    "with float32 without dims": lambda lib, d: lib.ones(2, dtype=d) + lib.ones(()),
    "with int": lambda lib, d: lib.ones(2, dtype=lib.int32) + lib.ones((), dtype=d),
    "both": lambda lib, d: lib.ones(2, dtype=lib.float16) + lib.ones(2, dtype=lib.bfloat16),
    "to int": lambda lib, d: lib.tensor([1.7, -1.7], dtype=d).to(lib.int64),
    "to bool": lambda lib, d: lib.tensor([1.7, 0], dtype=d).bool(),
    "to complex": lambda lib, d: lib.tensor([1.0, 2], dtype=d).cfloat(),
    "from float64": lambda lib, d: lib.tensor([1.0, 3e-8, 1 / 3], dtype=lib.float64).to(d),
    "bits": lambda lib, d: lib.tensor([1.0, 2], dtype=d).view(lib.int16),
    "where": lambda lib, d: lib.where(lib.tensor([True, False]), lib.tensor([1.0, 2], dtype=d), 0.0),
    "deepcopy": lambda lib, d: copy.deepcopy(lib.tensor([1.0, 2], dtype=d)),
    "pickle": lambda lib, d: pickle.loads(pickle.dumps(lib.tensor([1.0, 2], dtype=d))),
    "pickled dtype": lambda lib, d: pickle.loads(pickle.dumps(d)) is d,
    "module": lambda lib, d: lib.nn.Linear(2, 2).to(d).weight.dtype,
    "module's own casts": lambda lib, d: [getattr(lib.nn.Linear(2, 2), n)().bias.dtype for n in ("half", "bfloat16")],
    "vmap": lambda lib, d: lib.vmap(lambda x: x.sum() * 2)(lib.ones(2, 3, dtype=d)),
    "jvp": lambda lib, d: lib.func.jvp(lambda x: x.sin().sum(), (lib.ones(3, dtype=d),), (lib.ones(3, dtype=d),)),
    "jacrev": lambda lib, d: lib.func.jacrev(lambda x: x.sin())(lib.ones(2, dtype=d)),
}


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize("case", CASES)
def test_as_pytorch(case, name):
    found = []
    for lib in (jitgrad, torch):
        try:
            found.append(repr(CASES[case](lib, getattr(lib, name))).replace("jitgrad.", "torch."))
        except (RuntimeError, TypeError) as error:
            found.append((type(error), str(error)))
    assert found[0] == found[1]


def written(lib, name):
    dtype = getattr(lib, name)
    x = lib.tensor([3.0, 1, 2], dtype=dtype)
    x[1] = 5
    x[lib.tensor([0, 2])] = lib.tensor([1.5, 2.5], dtype=dtype)
    x[x > 2] = 0
    return x.add_(1).mul_(lib.tensor(2.0)).clamp_(0, 3)


def gradients(lib, name):
    dtype = getattr(lib, name)
    x = lib.tensor([[1.5, 2.25, -3], [0.1, 0.2, 7]], dtype=dtype, requires_grad=True)
    w = lib.tensor([[1.5, 2.25], [0.1, 0.3], [3, 4]], dtype=dtype, requires_grad=True)
    y = (x @ w).softmax(1)
    z = lib.cat([y, y.exp() * 2], 0).sum(0)
    loss = (z * z).mean() + x.var() + x.t()[1:].sum() + x[:, [0, 2]].sum()
    loss.backward()
    assert {x.grad.dtype, w.grad.dtype} == {dtype}
    assert type(y.grad_fn).__name__ == "SoftmaxBackward0"
    return [t.detach().float().numpy() for t in (y, z, loss, x.grad, w.grad)]


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_writes_and_gradients(name):
    assert repr(written(jitgrad, name)) == repr(written(torch, name))
    eps = torch.finfo(getattr(torch, name)).eps
    for ours, theirs in zip(gradients(jitgrad, name), gradients(torch, name), strict=True):
        assert ours == pytest.approx(theirs, rel=4 * eps, abs=4 * eps)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_every_number_is_rounded_as_pytorch_does(name):
    words = torch.randint(-(2**31), 2**31, (100_000,), dtype=torch.int32, generator=torch.Generator().manual_seed(0))
    theirs = words.view(torch.float32).to(getattr(torch, name))
    ours = jitgrad.from_numpy(words.numpy()).view(jitgrad.float32).to(getattr(jitgrad, name))
    number = ~theirs.isnan()
    assert ours.isnan().tolist() == theirs.isnan().tolist()
    assert (ours.view(jitgrad.int16).numpy() == theirs.view(torch.int16).numpy())[number.numpy()].all()
    every = torch.arange(-(2**15), 2**15, dtype=torch.int16)
    wide = jitgrad.from_numpy(every.numpy()).view(getattr(jitgrad, name)).float().numpy()
    expected = every.view(getattr(torch, name)).float().numpy()
    assert ((wide == expected) | ((wide != wide) & (expected != expected))).all()


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "RMSprop"])
def test_optimizers(name, optimizer):
    def trained(lib):
        p = lib.tensor([1.0, 2.0, -1.0], dtype=getattr(lib, name), requires_grad=True)
        steps = getattr(lib.optim, optimizer)([p], lr=0.05)
        for _ in range(3):
            steps.zero_grad()
            (p.pow(2) + p.exp()).sum().backward()
            steps.step()
        return p.detach().float().numpy()

    eps = torch.finfo(getattr(torch, name)).eps
    assert trained(jitgrad) == pytest.approx(trained(torch), rel=8 * eps, abs=8 * eps)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_saved_and_loaded(name):
    x = jitgrad.arange(6, dtype=getattr(jitgrad, name)).view(2, 3)
    file = io.BytesIO()
    jitgrad.save({"x": x, "row": x[1]}, file)
    file.seek(0)
    found = jitgrad.load(file)
    assert found["x"].dtype is x.dtype and found["row"].tolist() == [3, 4, 5]
    found["row"][0] = 9
    assert found["x"].tolist() == [[0, 1, 2], [9, 4, 5]]


DTYPES = [
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128",
]  # fmt: skip


def answer(call):
    try:
        return str(call())
    except RuntimeError as error:
        return str(error)


@pytest.mark.parametrize("first", DTYPES)
def test_promotion_of_all_pairs(first):
    for second in DTYPES:
        pairs = [[getattr(lib, n) for n in (first, second)] for lib in (jitgrad, torch)]
        for ask in ("promote_types", "can_cast"):
            ours, theirs = (answer(lambda m=m, p=p: getattr(m, ask)(*p)) for m, p in zip((jitgrad, torch), pairs))
            assert ours == theirs, (ask, first, second)
        if "complex" in first + second and "float16" in (first, second):
            continue  # complex32, which is not here
        for shapes in (((2,), (2,)), ((2,), ()), ((), (2,)), ((), ())):
            ours, theirs = (
                answer(lambda m=m, p=p: m.result_type(*[m.zeros(s, dtype=d) for s, d in zip(shapes, p)]))
                for m, p in zip((jitgrad, torch), pairs)
            )
            assert ours == theirs, (shapes, first, second)
    for number in (True, 2, 0.5, 2j):
        if number == 2j and first == "float16":
            continue
        ours, theirs = (answer(lambda m=m: m.result_type(m.zeros(2, dtype=getattr(m, first)), number))
                        for m in (jitgrad, torch))  # fmt: skip
        assert ours == theirs, (number, first)


@pytest.mark.parametrize("name", DTYPES)
def test_limits(name):
    for ask in ("finfo", "iinfo"):
        found = []
        for lib in (jitgrad, torch):
            try:
                info = getattr(lib, ask)(getattr(lib, name))
                found.append({k: getattr(info, k) for k in ("min", "max", "bits", "dtype")} | (
                    {k: getattr(info, k) for k in ("eps", "tiny", "resolution", "smallest_normal")}
                    if ask == "finfo" else {}))  # fmt: skip
            except TypeError as error:
                found.append(str(error))
        assert found[0] == found[1]


def unsigned(lib, name):
    dtype = getattr(lib, name)
    a, b = lib.tensor([3, 5], dtype=dtype), lib.tensor([2, 7], dtype=dtype)
    calls = [
        lambda: a, lambda: a * b, lambda: a / b, lambda: a * 2.5, lambda: a + b, lambda: a < b, lambda: a == b,
        lambda: a & b, lambda: a ^ 1, lambda: ~a, lambda: -a, lambda: a // b, lambda: a**2, lambda: a % b,
        lambda: a.sum(), lambda: a.prod(), lambda: a.exp(), lambda: a.sort(), lambda: a.to(lib.int8),
        lambda: a.view(lib.int16), lambda: a[lib.tensor([1, 0])], lambda: lib.cat([a, b]), lambda: a.type(),
        lambda: lib.where(lib.tensor([True, False]), a, b), lambda: lib.full((2,), -1, dtype=dtype),
        lambda: lib.tensor([-1, 2]).to(dtype), lambda: lib.tensor([1.7, 2]).to(dtype), lambda: a.fill_(4).copy_(b),
        lambda: lib.tensor([2**64 - 1], dtype=dtype), lambda: lib.tensor([2**64], dtype=dtype), lambda: a.is_signed(),
        lambda: lib.from_numpy(b.numpy()), lambda: a + lib.ones(2, dtype=lib.int32), lambda: a[0].item(),
    ]  # fmt: skip
    for call in calls:
        try:
            yield repr(call())
        except (RuntimeError, NotImplementedError, TypeError, ValueError, OverflowError) as error:
            yield type(error), str(error)


@pytest.mark.parametrize("name", ["uint16", "uint32", "uint64"])
def test_wide_unsigned(name):
    assert list(unsigned(jitgrad, name)) == list(unsigned(torch, name))


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_the_gradient_of_softmax_is_rounded_once(name):
    g, out = (jitgrad.linspace(a, b, 60, dtype=getattr(jitgrad, name)).view(3, 20) for a, b in ((-3, 5), (0.1, 0.4)))
    exact = jitgrad._softmax_backward_data(g.double(), out.double(), 1, jitgrad.float64)
    found = jitgrad._softmax_backward_data(g, out, 1, g.dtype)
    assert found.dtype is g.dtype and found.equal(exact.to(g.dtype))


def test_attention_with_a_mask_that_requires_grad_is_rounded_once():
    x, mask = jitgrad.linspace(-30, 30, 32, dtype=jitgrad.bfloat16).view(4, 8).sin() * 20, jitgrad.zeros(4, 4)
    attend = jitgrad.nn.functional.scaled_dot_product_attention
    found = attend(x, x, x, mask.bfloat16().requires_grad_())
    assert found.equal(attend(*[x.double()] * 3, mask.double()).bfloat16())
