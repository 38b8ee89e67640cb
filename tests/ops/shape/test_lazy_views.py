"""Views with a conjugate or negative bit, where no comparison with PyTorch is needed or none is possible."""

import io

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.debug.launch_tape import tape
from jitgrad.kernels.lazy_array import LazyArray, Unresolved


def values(*shape):
    rng = np.random.default_rng(0)
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def test_writes_reach_through_and_later_writes_show():
    x = torch.tensor(values(2, 3))
    start, view = x.clone(), x.mH
    view[0] += 2j
    assert x[:, 0].tolist() == (start[:, 0] - 2j).tolist()
    x.mul_(1j)
    assert view.is_conj() and view._base is x and view._version == x._version == 3
    np.testing.assert_array_equal(view.resolve_conj().numpy(), x.numpy().conj().T)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2), (700, 800)])
@pytest.mark.parametrize("part", ["conj", "imag", "transposed"])
def test_every_form_of_loop_reads_and_writes_numbers(shape, part):
    data = values(*shape)
    x = torch.tensor(data)
    view, wanted = {
        "conj": (x.conj(), data.conj()), "imag": (x.conj().imag, -data.imag),
        "transposed": (x.permute(*range(x.ndim)[::-1]).conj() if shape else x.conj(), data.conj().T),
    }[part]  # fmt: skip
    np.testing.assert_array_equal((view + view).numpy(), wanted + wanted)
    np.testing.assert_allclose(view.sum().item(), wanted.sum())
    np.testing.assert_allclose(torch.stack([view, view]).cumsum(0)[1].numpy(), wanted + wanted)
    view.mul_(2).add_(1)
    np.testing.assert_array_equal(view.numpy(force=True), 2 * wanted + 1)
    view.copy_(torch.tensor(wanted))
    np.testing.assert_array_equal(x.numpy(), data)
    view.fill_(2)
    assert view.numpy(force=True).tolist() == np.full_like(wanted, 2).tolist()


def test_a_tape_of_resolved_launches_replays():
    x = torch.tensor(values(4))
    with tape() as recorded:
        y = x.conj() * 2
        x.conj().imag.neg_()
    assert not any(type(a) is LazyArray for entry in recorded for a in entry.args)
    x.copy_(torch.tensor(values(8)[4:]))
    expected = x.numpy().conj() * 2
    recorded.replay()
    np.testing.assert_array_equal(y.numpy(), expected)
    np.testing.assert_array_equal(x.numpy(), expected / 2)


def test_code_that_forgets_the_bits_fails():
    lazy = torch.tensor(values(3)).conj()._data
    for use in (np.asarray, np.sum, lambda a: a + 1, lambda a: a.ravel(), lambda a: a.copy()):
        with pytest.raises(Unresolved):
            use(lazy)
    with pytest.raises(Unresolved):
        lazy[0] = 1


def test_optimizers_step_with_lazy_parameters_and_gradients():
    for complex_too in (False, True):
        z = torch.tensor(values(5))
        grad = z.conj() if complex_too else z.conj().imag
        weight = torch.ones(5, dtype=grad.dtype, requires_grad=True)
        weight.grad = grad
        torch.optim.SGD([weight], lr=1.0).step()
        np.testing.assert_allclose(weight.numpy(force=True), 1 - grad.numpy(force=True))
        assert grad.is_conj() == complex_too


def test_memory_is_shared_after_load():
    x = torch.tensor(values(3))
    file = io.BytesIO()
    torch.save([x, x.conj(), torch._neg_view(x.conj())], file)
    file.seek(0)
    memory, conjugate, both = torch.load(file)
    memory.mul_(2)
    assert conjugate.is_conj() and conjugate.tolist() == (2 * x).conj().tolist()
    assert both.is_neg() and both.is_conj() and both.tolist() == (-2 * x.conj()).tolist()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.conj() * x, lambda x: x.mH.imag * 2, lambda x: x.conj().imag.sin(),
        lambda x: torch._neg_view(x) * x, lambda x: (x * 1).conj().mul_(2j),
        lambda x: (x * 1).conj().imag.exp_(), lambda x: x.conj().real * x.imag,
    ],
)  # fmt: skip
def test_gradients_of_both_orders(function):
    x = torch.tensor(values(2, 2), requires_grad=True)
    assert torch.autograd.gradcheck(function, x)
    assert torch.autograd.gradgradcheck(function, x)
