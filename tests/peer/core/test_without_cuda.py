"""What a build without CUDA says of that device. PyTorch's for Linux on PyPI has CUDA, and says other things."""

import pytest
import torch

import jitgrad

from ..expressions import check

pytestmark = pytest.mark.skipif(torch.backends.cuda.is_built(), reason="this PyTorch is built with CUDA")


@pytest.mark.parametrize(
    "expression",
    [
        "torch.backends.cuda.is_built()",
        "torch.backends.cudnn.is_available(), torch.backends.cudnn.version()",
        "torch.ones(1).cuda()",
        "torch.ones(1).to('cuda')",
        "torch.ones(1, device='cuda')",
        "torch.autograd.profiler.emit_nvtx().__enter__()",
    ],
)
def test_as_pytorch(expression):
    check(expression)


def test_no_device_is_found():
    assert jitgrad.cuda.is_available() is torch.cuda.is_available() is False
    assert jitgrad.cuda.device_count() == torch.cuda.device_count() == 0
