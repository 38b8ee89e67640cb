"""Empty tensors whose other sizes multiply beyond 64 bits, of which NumPy has no array, beside PyTorch."""

import pytest

from ..expressions import check, listed

SETUP = "z = torch.zeros(2**31, 2**31, 0); v = torch.tensor([])"
EXPRESSIONS = listed("""
z
z.shape, z.numel(), z.is_contiguous(), z.stride()
torch.ones(2**31, 2**31, 0), torch.full((2**31, 2**31, 0), 1.0), torch.empty(2**31, 2**31, 0).shape
torch.rand(2**31, 2**31, 0).shape, torch.zeros_like(z).shape
torch.zeros(0, 2**31, 2**31).stride(), torch.zeros(2**31, 0, 2**31).stride()
torch.zeros(2**62, 2, 0).stride()
torch.zeros(2**62, 8, 0)
torch.zeros(0, 2**62, 8)
torch.zeros(2**31, 2**31, 2**31, 0)
torch.zeros(2**31, 2**31, 1)
z.sum(), z.mean(), z.prod()
z + 1, z + z, z * torch.zeros(0), z.exp(), z == z
z.sum(2)
z.add_(1), z.fill_(2), z.copy_(z)
z[0], z[:, 0], z[3:5, 2], z[::2], z[None, ..., None]
z.select(0, 5), z.narrow(0, 1, 5), z.transpose(0, 2), z.permute(2, 0, 1).contiguous(), z.unsqueeze(0)
z.reshape(0), z.flatten(), z.view(-1, 2**31, 2**31), z.flatten(0, 1)
v.reshape(2**31, 2**31, 0), v.expand(2**31, 2**31, 0)
z.clone(), z.double(), z.detach(), copy.deepcopy(z)
z.requires_grad_().sum().backward(); z.grad
z.cumsum(2), z.softmax(0), z.index_select(2, torch.tensor([], dtype=torch.int64)), torch.cat([z, z], 2)
z.max()
z @ torch.zeros(2**31, 0, 3)
""")  # fmt: skip


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_agrees(expression):
    *statements, last = expression.split("; ")
    check("; ".join([*statements, f"repr(({last}))"]), SETUP)  # as text: NumPy has no such arrays
