"""How tensors are printed: expected texts are PyTorch's."""

import doctest

import numpy as np
import pytest

from jitgrad.core import formatting
from jitgrad.core.formatting import printoptions, set_printoptions, tensor_repr

NAN, INF = float("nan"), float("inf")


@pytest.fixture(autouse=True)
def default_options():
    yield
    set_printoptions(profile="default")


def f32(values):
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    "values, text",
    [
        ([1.0, 2.0, 3.0], "tensor([1., 2., 3.])"),
        ([1.5, 2.0, 1000.0], "tensor([   1.5000,    2.0000, 1000.0000])"),
        ([1e-5, 1.0], "tensor([1.0000e-05, 1.0000e+00])"),
        ([1e7, 2e7], "tensor([10000000., 20000000.])"),
        ([2e8, 3e8], "tensor([2.0000e+08, 3.0000e+08])"),
        ([99999.0, 1.5], "tensor([9.9999e+04, 1.5000e+00])"),
        ([NAN, 1.0], "tensor([nan, 1.])"),
        ([NAN, 1.5], "tensor([   nan, 1.5000])"),
        ([INF, -INF, NAN], "tensor([inf, -inf, nan])"),
        ([INF, 1e10], "tensor([       inf, 1.0000e+10])"),
        ([-0.0, 1.0], "tensor([-0., 1.])"),
        ([-0.0, 1.5], "tensor([-0.0000, 1.5000])"),
        ([1.0000001], "tensor([1.0000])"),
        (1.5, "tensor(1.5000)"),
        (1e10, "tensor(1.0000e+10)"),
        (NAN, "tensor(nan)"),
        ([[1.5, 2.0], [3.0, 4.0]], "tensor([[1.5000, 2.0000],\n        [3.0000, 4.0000]])"),
        ([], "tensor([])"),
    ],
)
def test_floats(values, text):
    assert tensor_repr(f32(values)) == text


@pytest.mark.parametrize(
    "array, text",
    [
        (np.array([1, -2, 300]), "tensor([  1,  -2, 300])"),
        (np.array(3), "tensor(3)"),
        (np.array([True, False]), "tensor([ True, False])"),
        (np.array([1, 2], np.int32), "tensor([1, 2], dtype=torch.int32)"),
        (np.array([1.5]), "tensor([1.5000], dtype=torch.float64)"),
        (np.array([1.5], np.float16), "tensor([1.5000], dtype=torch.float16)"),
        (np.empty((0, 3), np.float32), "tensor([], size=(0, 3))"),
        (np.empty(0, np.int64), "tensor([], dtype=torch.int64)"),
        (np.empty((2, 0), bool), "tensor([], size=(2, 0), dtype=torch.bool)"),
        (np.empty(0, np.complex64), "tensor([], dtype=torch.complex64)"),
    ],
)
def test_dtypes(array, text):
    assert tensor_repr(array) == text


@pytest.mark.parametrize(
    "values, text",
    [
        ([1 + 2j, 3.5 - 1j], "tensor([1.0000+2.j, 3.5000-1.j])"),
        ([1e10 + 1j, 1], "tensor([1.0000e+10+1.j, 1.0000e+00+0.j])"),
        ([complex(NAN, 1), complex(1, INF)], "tensor([nan+1.j, 1.+infj])"),
        ([1 + 2j, -3.5 - 100j], "tensor([ 1.0000+2.j, -3.5000-100.j])"),
        (1 + 2j, "tensor(1.+2.j)"),
        ([complex(0.5, -0.0)], "tensor([0.5000-0.j])"),
    ],
)
def test_complex(values, text):
    assert tensor_repr(np.array(values, np.complex64)) == text


def test_summaries():
    assert tensor_repr(np.arange(1001)) == "tensor([   0,    1,    2,  ...,  998,  999, 1000])"
    rows = "tensor([[0., 0., 0.],\n" + " " * 8 + "...,\n" + " " * 8 + "[0., 0., 0.]])"
    with printoptions(edgeitems=1):
        assert tensor_repr(f32(np.zeros((400, 3)))) == rows.replace("0., 0., 0.", "0.,  ..., 0.")
    wide = "tensor([[0, 0, 0,  ..., 0, 0, 0],\n        [0, 0, 0,  ..., 0, 0, 0]])"
    assert tensor_repr(np.zeros((2, 1000), int)) == wide


def test_a_hidden_number_has_no_say_in_the_style():
    values = f32(np.ones(2000))
    values[1000] = 1e30
    assert tensor_repr(values) == "tensor([1., 1., 1.,  ..., 1., 1., 1.])"


def test_blocks_are_set_apart():
    text = "tensor([[[0., 0.],\n         [0., 0.]],\n\n        [[0., 0.],\n         [0., 0.]]])"
    assert tensor_repr(f32(np.zeros((2, 2, 2)))) == text


def test_long_lines_are_wrapped():
    lines = tensor_repr(f32(np.full(20, 2.5))).split("\n")
    assert [line.count("2.5000") for line in lines] == [9, 9, 2]
    assert lines[1].startswith("        2.5000, ")


def test_suffixes():
    x = f32([1.5])
    assert tensor_repr(x, requires_grad=True) == "tensor([1.5000], requires_grad=True)"
    text = "tensor([1.5000], grad_fn=<AddBackward0>)"
    assert tensor_repr(x, requires_grad=True, grad_fn_name="AddBackward0") == text
    text = "tensor([1.5000], device='cuda:0', dtype=torch.bfloat16)"
    assert tensor_repr(x, device="cuda:0", dtype_suffix="torch.bfloat16") == text
    assert tensor_repr(x, default_dtype="float64") == "tensor([1.5000], dtype=torch.float32)"
    text = "tensor([1.5000], dtype=torch.float64)"
    assert tensor_repr(x.astype(float)) == text
    assert tensor_repr(x.astype(float), default_dtype="float64") == "tensor([1.5000])"


def test_suffixes_that_do_not_fit_move_to_the_next_line():
    text = tensor_repr(np.zeros(14), requires_grad=True)
    assert text.endswith("0.],\n       dtype=torch.float64, requires_grad=True)")
    text = tensor_repr(np.zeros(11), requires_grad=True)
    assert text.endswith("0.], dtype=torch.float64,\n       requires_grad=True)")


def test_options():
    before = formatting.get_printoptions()
    assert before == {
        "precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None,
    }  # fmt: skip
    set_printoptions(profile="short", sci_mode=True)
    assert formatting.get_printoptions() == before | {
        "precision": 2, "edgeitems": 2, "sci_mode": True,
    }  # fmt: skip
    assert tensor_repr(f32([1.0, 2.0])) == "tensor([1.00e+00, 2.00e+00])"
    set_printoptions(sci_mode=False)
    assert tensor_repr(f32([1e10, 1.5])) == "tensor([10000000000.00,           1.50])"
    set_printoptions(profile="full")
    assert formatting.get_printoptions() == before | {"threshold": INF}
    assert "..." not in tensor_repr(np.arange(1001))


def test_printoptions_end_with_their_block():
    with pytest.raises(KeyError), printoptions(precision=1):
        assert tensor_repr(f32([1.25])) == "tensor([1.2])"
        raise KeyError
    assert tensor_repr(f32([1.25])) == "tensor([1.2500])"


def test_docstrings():
    assert doctest.testmod(formatting).failed == 0
