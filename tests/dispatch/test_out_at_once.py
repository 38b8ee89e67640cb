"""``out=`` of elementwise ops: what is written at once has the same effects and errors as what is copied."""

import pytest

import jitgrad as torch

N = 40


def twice(function, *operands, **options):
    """The op with ``out=``, first as it is planned, then at once; both results, new tensors."""
    found = []
    for _ in range(2):
        out = torch.empty(N)
        assert function(*operands, out=out, **options) is out
        found.append(out)
    return found


@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: (torch.neg, x), lambda x, y: (torch.add, x, y), lambda x, y: (torch.mul, x, 2.5),
        lambda x, y: (torch.pow, x, 2), lambda x, y: (torch.clamp, x, -0.5, 0.5), lambda x, y: (torch.sub, x, 1),
        lambda x, y: (torch.maximum, x, y), lambda x, y: (torch.div, x, y), lambda x, y: (torch.pow, x.abs(), y),
    ],
)  # fmt: skip
def test_values(call):
    function, *operands = call(torch.randn(N), torch.randn(N))
    for found in twice(function, *operands):
        assert torch.equal(found, function(*operands))


def test_nothing_else_is_launched():
    x, out = torch.randn(N), torch.empty(N)
    torch.neg(x, out=out)
    with torch.debug.tape() as tape:
        torch.neg(x, out=out)
    assert [(e.kernel.name, e.args[1] is out._data) for e in tape] == [("neg_forward", True)]


def test_writes_are_counted():
    x, out = torch.randn(N, requires_grad=True), torch.ones(N)
    torch.neg(x.detach(), out=out)
    y = x * out
    torch.neg(x.detach(), out=out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("which", ["operand", "out"])
def test_gradients_would_be_lost(which):
    x, out = torch.randn(N), torch.empty(N)
    torch.neg(x, out=out)
    (x if which == "operand" else out).requires_grad_()
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        torch.neg(x, out=out)
    with torch.no_grad():
        assert torch.equal(torch.neg(x, out=out), -x)


def test_memory_that_operands_share():
    x, y = torch.randn(N), torch.randn(N)
    torch.add(x, y, out=torch.empty(N))
    want = x + y
    assert torch.equal(torch.add(x, y, out=x), want)
    long = torch.arange(N + 1.0)
    torch.neg(long[:-1], out=torch.empty(N))
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        torch.neg(long[:-1], out=long[1:])
    assert long.tolist() == list(range(N + 1))


def test_other_layouts_are_copied_to():
    x = torch.randn(4, 10)
    for out in (torch.empty(10, 4).t(), torch.empty(4, 10, dtype=torch.float64), torch.empty(0)):
        for _ in range(2):
            assert torch.equal(torch.exp(x, out=out).float(), torch.exp(x))


def test_views_keep_their_history():
    base = torch.zeros(2, N, requires_grad=True) * 1
    torch.neg(torch.ones(N), out=torch.empty(N))
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        torch.neg(torch.ones(N), out=base[0])


def test_inference_tensors_are_refused():
    x = torch.randn(N)
    torch.neg(x, out=torch.empty(N))
    with torch.inference_mode():
        out = torch.zeros(N)
    with pytest.raises(RuntimeError, match="[Ii]nference tensor"):
        torch.neg(x, out=out)
    assert not out.any()


def test_compiled_steps_write_at_once():
    out = torch.empty(N)

    @torch.compile
    def step(x):
        torch.neg(x, out=out)
        return out + 1

    for k in range(4):
        x = torch.full((N,), float(k))
        assert torch.equal(step(x), 1 - x)
        assert torch.equal(out, -x)


@pytest.mark.parametrize("other", [lambda: torch.randn(N), lambda: 2.5], ids=["tensor", "number"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow"])
def test_out_is_an_operand(name, other):
    function, y = getattr(torch, name), other()
    for _ in range(3):
        x = torch.rand(N) + 1
        expected, version = function(x, y), x._version
        assert function(x, y, out=x) is x
        assert torch.equal(x, expected) and x._version == version + 1
        if isinstance(y, torch.Tensor):
            x, z = torch.rand(N) + 1, y.clone()
            expected = function(x, z)
            assert torch.equal(function(x, z, out=z), expected)
    x = torch.rand(N, requires_grad=True)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        function(x, y, out=x)
