"""Options given as tensors, NumPy's numbers and Python's types: what PyTorch takes for a number or a dtype."""

import pytest

import jitgrad

from ..expressions import check, evaluate, listed, plain, torch

SETUP = """
t = torch.tensor([0.5, -1.0, 2.0]); m = torch.ones(2, 3); F = torch.nn.functional
one = torch.tensor(1); half = torch.tensor(0.5); wide = torch.tensor(0.5, dtype=torch.float64)
leaf = torch.tensor(0.5, requires_grad=True); row = torch.ones(3); single = torch.ones(1); i = torch.tensor([0])
"""
# In the place of N: what counts as a number, and what doesn't.
NUMBERS = ("one", "half", "wide", "np.float32(0.5)", "np.int64(1)", "np.bool_(True)")
REFUSED = ("leaf", "row", "single", "None", "'a'")
CALLS = listed("""
F.leaky_relu(t, N)
F.elu(t, N)
F.celu(t, N)
F.softplus(t, N)
F.hardshrink(t, N)
F.hardtanh(t, 0, N)
F.threshold(t, N, N)
torch.logit(t.abs(), N)
torch.nan_to_num(t, N)
torch.addcmul(t, t, t, value=N)
torch.add(t, t, alpha=N)
torch.index_add(t, 0, i, t[:1], alpha=N)
torch.addmv(t, torch.ones(3, 3), t, alpha=N)
torch.isclose(t, t, atol=N)
torch.dropout(t, N, False)
torch.norm(t, N)
torch.full((2,), N, dtype=torch.float32)
torch.arange(0, N, dtype=torch.float32)
F.layer_norm(t, (3,), eps=N)
F.huber_loss(t, t + 2, delta=N)
torch.normal(N, N, (2,)).shape
torch.func.vmap(lambda x: F.leaky_relu(x, N))(t)
torch.func.grad(lambda x: F.elu(x, N).sum())(t)
torch.func.jvp(lambda x: F.leaky_relu(x, N), (t,), (t,))
""")
ACCEPTED_NONE = ("torch.norm(", "F.celu", "F.dropout", "torch.nan_to_num", "torch.logit")


@pytest.mark.parametrize("call", CALLS)
def test_numbers(call):
    for number in NUMBERS:
        check(call.replace("N", number), SETUP)


@pytest.mark.parametrize("call", CALLS)
def test_no_numbers(call):
    for number in REFUSED:
        expression = call.replace("N", number)
        if not (number == "None" and call.startswith(ACCEPTED_NONE)) and not (number == "'a'" and "norm(t, N)" in call):
            theirs = plain(evaluate(torch, expression, SETUP))[0]
            assert theirs in ("TypeError", "RuntimeError")
            assert plain(evaluate(jitgrad, expression, SETUP))[0] == "TypeError", expression


@pytest.mark.parametrize("expression", listed("""
torch.lerp(t, t + 1, one)
torch.lerp(t, t + 1, wide)
torch.lerp(t, t, 1j)
torch.addmv(t, torch.ones(3, 3), t, alpha=1j)
torch.add(t, t, alpha=True)
torch.add(i, i, alpha=1.0)
torch.norm(t, p=1j)
torch.norm(t, p='1')
torch.norm(t, dtype=int)
torch.norm(t, dtype=float)
torch.polygamma(half, t.abs())
torch.polygamma(True, t.abs())
torch.logit(t, 0.8)
torch.full((2,), wide)
torch.arange(2, dtype=bool)
torch.linspace(0, 1, 3, dtype=torch.bool)
t.sum(dtype=float)
t.sum(0, dtype=int)
t.mean(dtype=bool)
t.prod(dtype=float)
t.nansum(dtype=float)
t.cumsum(0, dtype=float)
t.cumprod(0, dtype=int)
t.softmax(0, dtype=float)
t.log_softmax(0, dtype=float)
t.clone().cumsum_(0, dtype=float)
t.clone().cumsum_(0, dtype=True)
t.cumsum_(0, dtype=torch.float32)
torch.as_strided(t, (1,), (1,), object)
torch.div(leaf, row, rounding_mode=None)
leaf.div(2, rounding_mode=None)
(leaf * 1).div_(2, rounding_mode=None)
torch.divide(3, leaf, rounding_mode=None)
t.clone().eq_(1j)
t.clone().ne_(t + 0j)
F.batch_norm(m, None, None, training=True, eps=half)
F.instance_norm(m[None], eps=half)
t.type(one)
t.type(object)
"""))  # fmt: skip
def test_agrees(expression):
    check(expression, SETUP)


@pytest.mark.parametrize("function", ["relu", "relu6", "hardtanh_unit", "clamp_min", "clamp_max", "clamp"])
def test_negative_zero_stays(function):
    calls = {
        "relu": "t.relu()", "relu6": "torch.nn.functional.relu6(t)", "clamp": "t.clamp(0, 1)",
        "hardtanh_unit": "torch.nn.functional.hardtanh(t, 0, 1)", "clamp_min": "t.clamp(min=0)",
        "clamp_max": "t.clamp(max=0)",
    }  # fmt: skip
    for dtype in ("float32", "float64"):
        for n in (3, 40):
            check(f"t = torch.full(({n},), -0.0, dtype=torch.{dtype}); {calls[function]}.signbit()")
