"""Which dtypes ``out=`` may have: those that PyTorch takes, and its words for others."""

import pytest

from ..expressions import check, listed

SETUP = """
t = torch.tensor([0.5, -1.0, 2.0]); m = torch.ones(3, 3); i = torch.tensor([0, 2])
f, d, n, b = (torch.empty(0, dtype=getattr(torch, k)) for k in ("float32", "float64", "int64", "bool"))
"""
CALLS = listed("""
torch.add(t, t, out=OUT)
torch.sum(m, 0, out=OUT)
torch.exp(t, out=OUT)
torch.floor(t, out=OUT)
torch.mm(m, m, out=OUT)
torch.dot(t, t, out=OUT)
torch.softmax(m, 1, out=OUT)
torch.argmax(m, 1, out=OUT)
torch.gather(t, 0, i, out=OUT)
torch.scatter(t, 0, i, t, out=OUT)
torch.scatter(t, 0, i, 0.25, reduce="add", out=OUT)
torch.polygamma(1, m, out=OUT)
torch.take(t, i, out=OUT)
torch.index_select(t, 0, i, out=OUT)
torch.amax(m, 0, out=OUT)
torch.norm(m, out=OUT)
torch.tril(m, out=OUT)
torch.cat([t, t], out=OUT)
torch.stack([t, t], out=OUT)
torch.all(m, out=OUT)
torch.signbit(t, out=OUT)
torch.nan_to_num(t, out=OUT)
torch.nonzero(t, out=OUT).sum(0)
torch.cumsum(t, 0, out=OUT)
torch.cumprod(t, 0, out=OUT)
torch.prod(m, 0, out=OUT)
torch.zeros(2, dtype=torch.float32, out=OUT)
torch.sort(t, out=(OUT, n))
torch.kthvalue(t, 1, out=(OUT, n))
""")


NO_PAIRS = listed("""
torch.kthvalue(t, 1, out=f)
torch.linalg.qr(m, out=f)
torch.linalg.qr(m, out=(f,))
torch.sort(t, out=(f,))
torch.sort(t, out=[f, n, n])
torch.aminmax(t, out=(f,))
torch.unbind_copy(m, out=f)
torch.unbind_copy(m, out=[f])
""")


@pytest.mark.parametrize("call", NO_PAIRS)
def test_numbers_of_tensors(call):
    check(call, SETUP)


@pytest.mark.parametrize("call", CALLS)
def test_dtypes(call):
    for out in "fdnb":
        check(call.replace("OUT", out), SETUP)
