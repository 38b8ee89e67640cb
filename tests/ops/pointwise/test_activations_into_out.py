"""Functions of ``nn.functional`` that write to ``out``, as the names of PyTorch's that are kernels do."""

import pytest

import jitgrad as torch

F = torch.nn.functional


@pytest.mark.parametrize("function", [
    F.gelu, F.softplus, F.logsigmoid, F.softshrink, F.hardshrink, lambda x, **out: F.avg_pool2d(x, 2, **out),
    lambda x, **out: F.avg_pool3d(x, (1, 2, 2), **out),
])  # fmt: skip
def test_out(function):
    x = torch.linspace(-2, 2, 32).reshape(1, 2, 4, 4)
    whole = torch.zeros(*function(x).shape, 2)
    out = whole[..., 1]
    assert function(x, out=out) is out
    assert torch.equal(whole[..., 1], function(x)) and not whole[..., 0].any()
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        function(x.requires_grad_(), out=out)
