"""The second call with the same layouts takes a shorter way than the first: it is as right, and as strict."""

import pytest

import jitgrad as torch

F = torch.nn.functional
HALVES = (torch.float16, torch.bfloat16)


# -- in-place methods of several operands -----------------------------------------------------------------

WRITES = {
    "add_": lambda x, y: x.add_(y, alpha=0.5),
    "sub_": lambda x, y: x.sub_(y, alpha=2),
    "addcmul_": lambda x, y: x.addcmul_(y, y, value=0.5),
    "addcdiv_": lambda x, y: x.addcdiv_(y, y),
    "lerp_": lambda x, y: x.lerp_(y, 0.25),
    "clamp_": lambda x, y: x.clamp_(-0.5, 1),
    "relu_": lambda x, y: x.relu_(),
    "pow_": lambda x, y: x.pow_(2),
    "pow_ 3": lambda x, y: x.pow_(3),
    "pow_ 1.5": lambda x, y: x.abs_().pow_(1.5),
    "leaky_relu_": lambda x, y: F.leaky_relu_(x, 0.1),
    "leaky_relu_ by default": lambda x, y: F.leaky_relu_(x),
}


@pytest.mark.parametrize("name", WRITES)
def test_values_of_writes(name):
    write, start = WRITES[name], torch.tensor([-2.0, -0.25, 0.75, 3.0])
    found = []
    for factor in (1, 1, 1.5):
        x, y = start * factor, torch.tensor([1.0, 2.0, 3.0, 4.0])
        before = x._version
        assert write(x, y) is x and x._version > before
        found.append((factor, x))
        history = (start * factor).requires_grad_() * 1  # recorded, so on the long way
        assert write(history, y).detach().equal(x) and history.grad_fn is not None
    assert found[0][1].equal(found[1][1])


def test_numbers_of_other_types_and_values():
    x = torch.ones(3, dtype=torch.int64)
    y = torch.full((3,), 4)
    for alpha, total in ((2, 9), (3, 13), (True, None)):
        if total is None:
            with pytest.raises(RuntimeError, match="Boolean alpha only supported"):
                x.clone().add_(y, alpha=alpha)
        else:
            assert x.clone().add_(y, alpha=alpha).tolist() == [total] * 3
    with pytest.raises(RuntimeError, match="alpha must not be a floating point number"):
        x.add_(y, alpha=2.5)
    z = torch.ones(3)
    for low, high in ((0, 0.5), (0, 2), (2.0, 3.0)):
        assert z.clone().clamp_(low, high).tolist() == [min(max(1.0, low), high)] * 3


def test_writes_that_must_be_refused_still_are():
    y = torch.ones(3)
    x = torch.zeros(3)
    for _ in range(2):
        x.addcmul_(y, y)
    leaf = torch.zeros(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        leaf.addcmul_(y, y)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        leaf[:].addcmul_(y, y)
    with torch.no_grad():
        assert leaf.addcmul_(y, y).tolist() == [1, 1, 1]
    with torch.inference_mode():
        inside = torch.zeros(3)
        assert inside.addcmul_(y, y).tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        inside.addcmul_(y, y)
    assert inside.tolist() == [1, 1, 1]
    memory = torch.arange(4.0)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        memory[1:].addcmul_(memory[:-1], y)
    assert memory[1:].addcmul_(memory[1:], y).tolist() == [2, 4, 6]


def test_a_recorded_write_after_one_that_was_not():
    y = torch.tensor([2.0], requires_grad=True)
    x = torch.ones(1)
    x.addcmul_(torch.ones(1), torch.ones(1))
    x.addcmul_(y, y)
    x.backward()
    assert y.grad.item() == 4


# -- 16-bit floats ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", HALVES)
def test_values_and_gradients_of_halves(dtype):
    weight = torch.tensor([1.0, 2.0, 0.5, -1.0], dtype=dtype)
    calls = {
        "layer_norm": lambda x: F.layer_norm(x, (4,), weight, weight),
        "var": lambda x: x.var(1),
        "prod": lambda x: x.prod(1),
        "masked_fill": lambda x: x.masked_fill(x > 1, 0.5),
        "linear": lambda x: F.linear(x, x.detach(), weight[:3]),
        "index_add": lambda x: x.index_add(0, torch.tensor([1]), weight[None]),
    }
    for name, call in calls.items():
        results = []
        for scale in (1, 1, 2):
            x = (torch.arange(12.0).reshape(3, 4).sin() * scale).to(dtype)
            plain = call(x)
            recorded = call(leaf := x.clone().requires_grad_())
            assert recorded.equal(plain) and recorded.dtype is dtype and recorded.requires_grad, name
            recorded.sum().backward()
            assert leaf.grad.dtype is dtype and not plain.requires_grad, name
            results.append((plain, leaf.grad))
        assert all(map(torch.equal, *results[:2])), name
        assert not results[0][0].equal(results[2][0]) or name == "layer_norm", name


def test_what_halves_refuse_is_refused_again():
    x, y = torch.ones(2, 2, dtype=torch.float16), torch.ones(2, 2)
    for _ in range(3):
        assert x.masked_fill(x > 0, 2.0).sum() == 8
        with pytest.raises(RuntimeError, match="cannot be converted to type c10::Half without overflow"):
            x.masked_fill(x > 0, 1e6)
        assert torch.addmm(x, x, x).dtype is torch.float16
        with pytest.raises(RuntimeError):
            torch.addmm(x, x, y)


def test_parameters_of_halves():
    layer = torch.nn.Linear(4, 2).bfloat16()
    x = torch.ones(3, 4, dtype=torch.bfloat16)
    first, second = layer(x), layer(x)
    assert first.equal(second) and first.requires_grad
    with torch.no_grad():
        assert layer(x).equal(first) and not layer(x).requires_grad
    second.sum().backward()
    assert layer.bias.grad.tolist() == [3, 3] and layer.weight.grad.dtype is torch.bfloat16


# -- fills, copies and assignments ------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool, torch.complex64, *HALVES])
def test_fills_of_every_layout(dtype):
    for make in (lambda: torch.ones(3, 4), lambda: torch.ones(4, 3).t(), lambda: torch.ones(6, 8)[::2, ::2],
                 lambda: torch.ones(()), lambda: torch.ones(0, 3), lambda: torch.ones(1, 4)[:, None]):  # fmt: skip
        for value in (0, 1, True, 0.5):
            x = make().to(dtype)
            assert x.fill_(value).equal(torch.full(x.shape, torch.tensor(value).to(dtype).item(), dtype=dtype))
            assert not x.zero_().any() and x._version == 2


def test_a_fill_of_a_lazily_conjugated_tensor():
    x = torch.ones(3, dtype=torch.complex64)
    for value in (1 + 2j, 3 - 1j):
        x.conj().fill_(value)
        assert x.tolist() == [value.conjugate()] * 3


def test_assignments_at_one_index():
    x, row = torch.zeros(3, 2), torch.tensor([1.0, 2.0])
    for k in (0, -1):
        x[k] = row
        x[1] = k
    assert x.tolist() == [[1, 2], [-1, -1], [1, 2]]
    with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 0 with size 3"):
        x[3] = row
    with pytest.raises(IndexError, match="slice\\(\\) cannot be applied|invalid index|too many indices|0-dim"):
        torch.ones(())[0] = 1
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.zeros(1).expand(2, 3)[0] = 1.0
    x[0], x[1] = x[1], x[0]
    assert x.tolist() == [[-1, -1], [-1, -1], [1, 2]]
    x[1:][0] = x[2]
    assert x[1].tolist() == [1, 2]
    history = torch.zeros(2, 2, requires_grad=True) * 1
    history[0] = row.requires_grad_()
    assert type(history.grad_fn).__name__ == "CopySlices"
    part = torch.view_as_real(z := torch.zeros(2, dtype=torch.complex64))
    part.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert z.tolist() == [1 + 2j, 3 + 4j]
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        torch.zeros(2).copy_(z)
    for _ in range(2):
        assert torch.zeros(2, dtype=torch.bool).copy_(z).all()


@pytest.mark.parametrize("dtype", HALVES)
def test_ops_that_move_elements_move_their_bits(dtype):
    # Some NaNs and the signs of zeros would not survive a conversion; some calls on, kernels are called directly.
    x = torch.tensor([[float("nan"), -0.0, 1.5], [float("inf"), 0.0, -2.0]], dtype=dtype)
    x.view(torch.int16)[0, 0] |= 5
    moves = {
        "flip": lambda t: t.flip(0, 1),
        "flip of a transposed": lambda t: t.t().flip(0),
        "roll": lambda t: t.roll(1, 1),
        "roll of all": lambda t: t.roll(2),
        "tril": lambda t: t.tril(),
        "cat": lambda t: torch.cat([t, t[:1], t], 0),
        "stack": lambda t: torch.stack([t.t(), t.t()], 1),
        "diag_embed": torch.diag_embed,
        "rot90": lambda t: t.rot90(),
        "gather": lambda t: t.gather(1, torch.tensor([[2, 0], [1, 1]])),
        "rows": lambda t: t[torch.tensor([1, 0, 1])],
        "elements": lambda t: t[:, torch.tensor([2, 0])],
        "index_select": lambda t: t.index_select(1, torch.tensor([2, 0])),
        "index_copy": lambda t: t.index_copy(0, torch.tensor([1]), t[:1]),
        "embedding": lambda t: F.embedding(torch.tensor([1, 0, 1]), t),
        "take": lambda t: t.take(torch.tensor([5, 0])),
    }
    for name, move in moves.items():
        for _ in range(25):
            found = move(x)
            assert found.dtype is dtype and found.view(torch.int16).equal(move(x.view(torch.int16))), name
        leaf = torch.ones(2, 3, dtype=dtype, requires_grad=True)
        move(leaf).sum().backward()
        wide = torch.ones(2, 3, requires_grad=True)
        move(wide).sum().backward()
        assert leaf.grad.dtype is dtype and leaf.grad.float().equal(wide.grad), name
        assert move(torch.empty(2, 3, dtype=dtype, device="meta")).shape == found.shape, name


def test_joined_dtypes():
    half, brain, single, whole = (torch.ones(1, dtype=d) for d in (*HALVES, torch.float32, torch.int64))
    for tensors, dtype in (([half, brain], torch.float32), ([half, single], torch.float32), ([half, whole], half.dtype),
                           ([whole, brain], brain.dtype), ([brain, brain], brain.dtype)):  # fmt: skip
        leaves = [t.clone().requires_grad_() if t.is_floating_point() else t for t in tensors]
        for joined in (torch.cat(leaves), torch.stack(leaves)):
            assert joined.dtype is dtype and (joined == 1).all()
            grads = torch.autograd.grad(joined.sum(), [t for t in leaves if t.requires_grad])
            assert [g.dtype for g in grads] == [t.dtype for t in tensors if t.is_floating_point()]
    out = torch.empty(2, dtype=torch.float64)
    assert torch.hstack([single, single], out=out) is out and out.tolist() == [1, 1]
    assert torch.vstack([single, single], out=torch.empty(2, 1)).shape == (2, 1)


def test_equality_of_halves():
    for dtype in HALVES:
        x = torch.tensor([1.0, -0.0], dtype=dtype)
        for _ in range(25):
            assert x.equal(torch.tensor([1.0, 0.0], dtype=dtype)) and not x.equal(x + 1)
            assert not torch.equal(x * float("nan"), x * float("nan"))


def test_writes_at_an_index():
    index, places = torch.tensor([2, 0]), torch.tensor([[1, 0], [0, 1], [1, 1]])
    x = torch.zeros(3, 2)
    writes = {
        "rows": (lambda t, v: t.__setitem__(index, v[:2]), [[3, 4], [0, 0], [1, 2]]),
        "a row": (lambda t, v: t.__setitem__(index, v[0]), [[1, 2], [0, 0], [1, 2]]),
        "a number": (lambda t, v: t.__setitem__(index, 7), [[7, 7], [0, 0], [7, 7]]),
        "index_add_": (lambda t, v: t.index_add_(0, index, v[:2]), [[3, 4], [0, 0], [1, 2]]),
        "index_add_ alpha": (lambda t, v: t.index_add_(0, index, v[:2], alpha=2), [[6, 8], [0, 0], [2, 4]]),
        "index_copy_": (lambda t, v: t.index_copy_(0, index, v[:2]), [[3, 4], [0, 0], [1, 2]]),
        "index_fill_": (lambda t, v: t.index_fill_(0, index, 7), [[7, 7], [0, 0], [7, 7]]),
        "index_fill_ tensor": (lambda t, v: t.index_fill_(0, index, v[0, 0]), [[1, 1], [0, 0], [1, 1]]),
        "scatter_": (lambda t, v: t.scatter_(1, places, v), [[2, 1], [3, 4], [0, 6]]),
        "scatter_add_": (lambda t, v: t.scatter_add_(1, places, v), [[2, 1], [3, 4], [0, 11]]),
    }
    for name, (write, expected) in writes.items():
        for dtype in (torch.float32, torch.int64, torch.complex64, *HALVES):
            values = torch.tensor([[1, 2], [3, 4], [5, 6]], dtype=dtype)
            for _ in range(25 if dtype is torch.float32 else 2):
                x = torch.zeros(3, 2, dtype=dtype)
                write(x, values)
                assert x.tolist() == expected and x._version == 1, (name, dtype)
        lazy = torch.zeros(3, 2, dtype=torch.complex64)
        for _ in range(2):
            lazy.zero_()
            write(lazy.conj(), values.to(torch.complex64) * 1j)
            assert lazy.imag.tolist() == (-torch.tensor(expected)).tolist() or name in ("a number", "index_fill_"), name


def test_arguments_by_name_and_by_default():
    x, index, source = torch.zeros(3), torch.tensor([0, 0]), torch.ones(2)
    for _ in range(2):
        x.index_add_(dim=0, index=index, source=source, alpha=3)
        x.index_add_(0, index, source=source)
    assert x.tolist() == [16, 0, 0]
    with pytest.raises(TypeError, match="missing .*required argument|missing 1 required positional argument"):
        x.index_add_(0, index)
    with pytest.raises(TypeError, match="multiple values for argument 'dim'"):
        x.index_add_(0, index, source, dim=0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'beta'"):
        x.index_add_(0, index, source, beta=0)
    with pytest.raises(TypeError, match="too many positional arguments|takes"):
        x.index_add_(0, index, source, 1, 2)
    assert torch.softmax(torch.zeros(2, 2), axis=1).tolist() == [[0.5, 0.5]] * 2


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_repeated(dtype):
    x = torch.arange(6.0).reshape(2, 3).to(dtype)
    for times in ((2, 1), (1, 3), (2, 2), (1, 1), (3, 1, 2), (2, 0), (1, 1, 1)):
        leaf = x.clone().requires_grad_()
        out = leaf.repeat(*times)
        weights = torch.arange(float(out.numel())).reshape(out.shape).to(dtype)
        out.backward(weights)
        expected = [weights.float()[out.detach() == v].sum().item() for v in range(6)]
        assert out.dtype is dtype and leaf.grad.flatten().tolist() == pytest.approx(expected), times
