"""assert_close and make_tensor."""

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.testing import assert_close, make_tensor


def test_what_is_close_passes():
    x = torch.tensor([1.0, float("inf"), -2.0], requires_grad=True)
    assert_close(x, x.detach() * (1 + 1e-7))
    assert_close({"a": [x, 1.0, None, True], "b": np.ones(2)}, {"b": np.ones(2), "a": (x, 1.0, None, True)})
    assert_close(torch.tensor([float("nan")]), torch.tensor([float("nan")]), equal_nan=True)
    assert_close(1, 1.0, check_dtype=False)
    assert_close(torch.ones(2), torch.ones(2, dtype=torch.float64), check_dtype=False)
    assert_close(torch.zeros(0), torch.zeros(0))


def test_the_report():
    with pytest.raises(AssertionError) as caught:
        assert_close(torch.tensor([[1.0, 4.0], [5.0, 0.5]]), torch.tensor([[1.0, 2.0], [5.0, 0.25]]))
    assert str(caught.value) == (
        "Tensor-likes are not close!\n\nMismatched elements: 2 / 4 (50.0%)\n"
        "Greatest absolute difference: 2.0 at index (0, 1) (up to 1e-05 allowed)\n"
        "Greatest relative difference: 1.0 at index (0, 1) (up to 1.3e-06 allowed)"
    )


@pytest.mark.parametrize(
    ("actual", "expected", "options", "words"),
    [
        (torch.ones(2), torch.ones(3), {}, "The values for attribute 'shape' do not match: torch.Size([2]) != torch"),
        (torch.ones(2), torch.ones(2).long(), {}, "The values for attribute 'dtype' do not match: torch.float32 != "),
        (torch.ones(2, 2).t(), torch.ones(2, 2), {"check_stride": True}, "attribute 'stride()' do not match: (1, 2)"),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), {}, "Tensor-likes are not equal!\n\nMismatched elements: 1 / 2"),
        (1.0, 2.0, {}, "Scalars are not close!\n\nExpected 2.0 but got 1.0.\nAbsolute difference: 1.0 (up to 1e-07"),
        (1.0, 1, {}, "The (d)types do not match: <class 'float'> != <class 'int'>."),
        (True, False, {}, "Booleans mismatch: True is not False"),
        (None, 1, {}, "None mismatch: None is not 1"),
        ([1, [2]], [1, [3]], {}, "The failure occurred for item [1][0]"),
        ([1], [1, 2], {}, "The length of the sequences mismatch: 1 != 2"),
        ({"a": 1}, {"b": 1}, {}, "Missing keys in the actual mapping: ['b']\nAdditional keys in the actual mapping: "),
        (1, 2, {"msg": "mine"}, "mine"),
        (1, 2, {"msg": lambda text: f"mine: {text}"}, "mine: Scalars are not equal!"),
    ],
)
def test_what_differs_is_told(actual, expected, options, words):
    with pytest.raises(AssertionError) as caught:
        assert_close(actual, expected, **options)
    assert words in str(caught.value).replace("jitgrad.", "torch.")


def test_what_cannot_be_compared():
    for pair in ((torch.ones(1), 1.0), (np.ones(1), torch.ones(1)), ("a", "b")):
        with pytest.raises(TypeError, match="No comparison pair was able to handle inputs of type"):
            assert_close(*pair)
    with pytest.raises(TypeError):
        assert_close(torch.nn.Parameter(torch.ones(1)), torch.ones(1), allow_subclasses=False)
    with pytest.raises(ValueError, match="but got no atol"):
        assert_close(1.0, 1.0, rtol=0.1)


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        (torch.float32, -9, 9), (torch.complex128, -9, 9), (torch.int8, -9, 10), (torch.uint8, 0, 10),
        (torch.bool, 0, 2),
    ],
)  # fmt: skip
def test_random_tensors(dtype, low, high):
    x = make_tensor(50, 4, dtype=dtype, device="cpu")
    values = torch.view_as_real(x) if dtype.is_complex else x
    assert x.dtype is dtype and x.shape == (50, 4) and x.is_contiguous()
    assert values.min() >= low and values.max() < high
    assert len(set(x.flatten().tolist())) > 1
    assert (make_tensor(50, dtype=dtype, device="cpu", low=0, high=2, exclude_zero=True) != 0).all()
    assert not make_tensor(3, 4, dtype=dtype, device="cpu", noncontiguous=True).is_contiguous()


def test_refused_tensors():
    with pytest.raises(ValueError, match="`low` must be less than `high`, but got 2 >= 1"):
        make_tensor(2, dtype=torch.float32, device="cpu", low=2, high=1)
    with pytest.raises(ValueError, match="`requires_grad=True` is not supported for boolean and integral dtypes"):
        make_tensor(2, dtype=torch.int64, device="cpu", requires_grad=True)
    assert make_tensor((2,), dtype=torch.float32, device="cpu", requires_grad=True).requires_grad
