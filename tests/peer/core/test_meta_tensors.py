"""Tensors on the device "meta" against PyTorch's: shapes and dtypes without values."""

import pytest
import torch

import jitgrad


def empty(lib, *shape, **options):
    return lib.empty(*shape, device="meta", **options)


def net(lib):
    module = lib.nn.Sequential(
        lib.nn.Linear(10, 20, device="meta"), lib.nn.ReLU(), lib.nn.LayerNorm(20, device="meta"),
        lib.nn.Linear(20, 3, device="meta"),
    )  # fmt: skip
    out = module(empty(lib, 7, 10))
    out.sum().backward()
    return out.shape, module[0].weight.grad.shape, module[0].weight.grad.is_meta


def default_device(lib):
    with lib.device("meta"):
        made = lib.nn.Linear(3, 4).weight.device, lib.zeros(2, 3), lib.tensor([1.0]), lib.arange(3), lib.randn(2)
    return *made, lib.zeros(2)


CASES = {
    "repr": lambda lib: empty(lib, 2, 3),
    "plus": lambda lib: lib.zeros(2, 3, device="meta") + 1,
    "matmul": lambda lib: empty(lib, 2, 3) @ empty(lib, 3, 4),
    "sum": lambda lib: empty(lib, 2, 3).sum(1),
    "softmax": lambda lib: empty(lib, 2, 3).softmax(0),
    "half": lambda lib: empty(lib, 2, 3, dtype=lib.float16) * 2,
    "view": lambda lib: empty(lib, 2, 3).t()[1:],
    "cat": lambda lib: lib.cat([empty(lib, 2, 3), empty(lib, 1, 3)]),
    "comparison": lambda lib: empty(lib, 2, 3) > 0,
    "sort": lambda lib: empty(lib, 4, 3).sort(1),
    "max": lambda lib: empty(lib, 4, 3).max(1),
    "cross_entropy": lambda lib: lib.nn.functional.cross_entropy(empty(lib, 4, 3), empty(lib, 4, dtype=lib.int64)),
    "index": lambda lib: empty(lib, 4, 3)[lib.tensor([0, 1])],
    "fills": lambda lib: empty(lib, 4, 3).fill_(2).normal_(),
    "cast": lambda lib: empty(lib, 4, 3).to(lib.bfloat16),
    "to": lambda lib: [lib.ones(2).to("meta"), lib.ones(2).is_meta, empty(lib, 3).is_meta, empty(lib, 3).device],
    "copy in": lambda lib: empty(lib, 3).copy_(lib.ones(3)),
    "copy out": lambda lib: lib.ones(3).copy_(empty(lib, 3)),
    "cpu": lambda lib: empty(lib, 3).cpu(),
    "item": lambda lib: empty(lib, ()).item(),
    "numpy": lambda lib: empty(lib, 3).numpy(),
    "with a number on the CPU": lambda lib: empty(lib, 2, 3) + lib.ones(()),
    "of any size": lambda lib: empty(lib, 10**6, 10**6).sum(),
    "module": net,
    "default device": default_device,
}


@pytest.mark.parametrize("case", CASES)
def test_as_pytorch(case):
    found = []
    for lib in (jitgrad, torch):
        try:
            found.append(repr(CASES[case](lib)).replace("jitgrad.", "torch."))
        except (RuntimeError, NotImplementedError, TypeError) as error:
            found.append((type(error), str(error)))
    assert found[0] == found[1]
