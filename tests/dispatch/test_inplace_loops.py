"""Loops of ops in place on large tensors, which have kernels of their own."""

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.dispatch.launch_plan import INPLACE_SIZE
from jitgrad.kernels.codegen.emit_cpu import Argument, elementwise_text
from jitgrad.kernels.elementwise.arithmetic import Mul


def values(*shape, seed=0):
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


TARGETS = {
    "vector": lambda: values(2000), "matrix": lambda: values(40, 50), "transposed": lambda: values(50, 40).t(),
    "columns": lambda: values(40, 80)[:, 5:55], "every second": lambda: values(40, 100)[:, ::2],
    "wide": lambda: values(128, 96), "part of wide": lambda: values(128, 200)[:, :96],
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
def test_values(target):
    x = TARGETS[target]()
    shape = x.shape
    assert x.numel() >= INPLACE_SIZE
    for other in (values(*shape, seed=1), values(shape[-1], seed=2), values(*shape[::-1], seed=3).permute(
        *range(len(shape))[::-1]), values(1, seed=4).expand(shape)):  # fmt: skip
        wanted, address = x.numpy() * other.numpy(), x.data_ptr()
        assert x.mul_(other) is x and x.data_ptr() == address
        np.testing.assert_array_equal(x.numpy(), wanted)


def test_memory_of_the_target_itself():
    x = values(3000)
    wanted = x.numpy() * x.numpy()
    np.testing.assert_array_equal(x.clone().mul_(x).numpy(), wanted)
    np.testing.assert_array_equal(x.mul_(x).numpy(), wanted)
    with pytest.raises(RuntimeError, match="single memory location"):
        x[1:].mul_(x[:-1])


@pytest.mark.parametrize("count", [1, 2])
def test_threads(count):
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        x, y = values(1 << 18), values(1 << 18, seed=1)
        wanted = x.numpy() * y.numpy()
        np.testing.assert_array_equal(x.mul_(y).numpy(), wanted)
    finally:
        torch.set_num_threads(before)


def test_lazy_arrays():
    x = torch.complex(values(2000), values(2000, seed=1))
    y = x.clone()
    wanted = np.conj(x.numpy()) * 3
    x.conj().mul_(torch.full((2000,), 3.0))
    np.testing.assert_allclose(np.conj(x.numpy()), wanted, rtol=1e-6)
    part = y.conj().imag  # a real tensor with the negative bit
    assert part.is_neg()
    wanted = part.clone().numpy() * values(2000, seed=2).numpy()
    part.mul_(values(2000, seed=2))
    np.testing.assert_allclose(part.resolve_neg().numpy(), wanted, rtol=1e-6)
    np.testing.assert_allclose(y.numpy().imag, -wanted, rtol=1e-6)


def test_gradients_accumulate_in_place():
    x = values(4096).requires_grad_()
    (x * x + x * 2 + x * 3).sum().backward()
    (x * 5).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy() + 10, rtol=1e-5)


def test_the_text_has_one_name_for_target_and_result():
    arguments = [Argument("x", "array"), Argument("y", "array")]
    texts = [
        elementwise_text("mul", [(Mul.rule, "out")], arguments, ["float32"], "float32", False, False, inplace=inplace)
        for inplace in (False, True)
    ]
    assert ["x_array[i] = " in text for text in texts] == [False, True]


def test_strides_of_single_elements_mean_nothing():
    mask = torch.zeros(1)
    mask[::2] += 1  # reads and writes views whose strides differ
    rows = torch.zeros(1, 3)
    rows[::2].copy_(rows[:1] + 1)
    rows.as_strided((1, 3), (7, 1)).copy_(rows)
    assert mask.tolist() == [1] and rows.tolist() == [[1, 1, 1]]
    with pytest.raises(RuntimeError, match="single memory location"):
        rows.view(3)[1:].copy_(rows.view(3)[:2])
