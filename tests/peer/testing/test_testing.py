"""assert_close and make_tensor against PyTorch's: what passes, what is said, which values are drawn."""

import warnings
from collections import OrderedDict

import numpy as np
import pytest

import jitgrad

torch = pytest.importorskip("torch")

nan, inf = float("nan"), float("inf")


class Sub:
    """Makes a subclass of a library's tensors."""

    @staticmethod
    def of(library):
        return library.nn.Parameter(library.ones(2))


def outcome(library, call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = call(library)
            result = "passed" if result is None else result
        except Exception as error:
            text = str(error).replace("jitgrad.nn.parameter", "torch")
            text = text.replace("torch.nn.parameter", "torch").replace("jitgrad.", "torch.")
            result = type(error).__name__, text
    return result, [str(w.message) for w in caught]


def same(a, b, **options):
    """A comparison of what two functions make of a library."""
    return lambda t: t.testing.assert_close(a(t), b(t), **options)


def listed(*values, **options):
    return lambda t: t.tensor(list(values), **{k: getattr(t, v) for k, v in options.items()})


COMPARISONS = [
    same(listed(1.0, 2.0), listed(1.0, 2.0)),
    same(listed(1.0, 2.0, 3.0), listed(1.0, 4.0, 5.0)),
    same(listed(1.0, 2.0, 3.0), listed(1.0, 2.00001, 3.0)),
    same(listed(1.0, 2.0), listed(1.0, 2.1), rtol=0.1, atol=0.0),
    same(listed(1.0, 2.0), listed(1.0, 2.1), rtol=0, atol=0),
    same(listed(1.0, 2.0), listed(1.0, 2.1), rtol=0.1),
    same(listed(1.0, 2.0), listed(1.0, 2.1), atol=0.1),
    same(listed(1.0, 2.0), listed(1.0, 2.0, 3.0)),
    same(listed(1.0, dtype="float64"), listed(1.0)),
    same(listed(1.0, dtype="float64"), listed(1.5), check_dtype=False),
    same(listed(1.0, dtype="float64"), listed(1.0), check_dtype=False),
    same(listed(1, 2, 3), listed(1, 5, 3)),
    same(listed(1, 2, 0), listed(1, 5, 0)),
    same(listed(1, 2, 3), listed(0, 2, 3)),
    same(listed(200, 3, dtype="uint8"), listed(3, 200, dtype="uint8")),
    same(listed(True, False), listed(True, True)),
    same(listed(True, False), listed(1.0, 1.0), check_dtype=False),
    same(listed(1 + 2j, 3.0), listed(1 + 2j, 3.5)),
    same(listed(nan, 1.0), listed(nan, 1.0)),
    same(listed(nan, 1.0), listed(nan, 1.0), equal_nan=True),
    same(listed(nan, 1.0), listed(1.0, 1.0), equal_nan=True),
    same(listed(inf, 1.0), listed(inf, 1.0)),
    same(listed(inf, 1.0), listed(-inf, 1.0)),
    same(listed(0.0, 1.0), listed(0.5, 0.0)),
    same(lambda t: t.ones(2, 3), lambda t: t.ones(2, 3).index_fill(1, t.tensor([2]), 7.0)),
    same(lambda t: t.ones(2, 3).t(), lambda t: t.ones(3, 2), check_stride=True),
    same(lambda t: t.ones(2, 3).t(), lambda t: t.ones(3, 2)),
    same(lambda t: t.ones(0, 3), lambda t: t.ones(0, 3)),
    same(lambda t: t.ones(0, 3), lambda t: t.ones(3, 0)),
    same(lambda t: t.tensor(1.0), lambda t: t.tensor(2.0)),
    same(lambda t: t.tensor(nan), lambda t: t.tensor(nan)),
    same(lambda t: t.tensor(1), lambda t: t.tensor(2)),
    same(lambda t: t.tensor(1.0), lambda t: t.tensor([1.0])),
    same(lambda t: t.ones(2, requires_grad=True), lambda t: t.zeros(2, requires_grad=True)),
    same(lambda t: 1.0, lambda t: 1.0), same(lambda t: 1.0, lambda t: 1.1), same(lambda t: 1, lambda t: 2),
    same(lambda t: 1.0, lambda t: 1), same(lambda t: 1.0, lambda t: 1, check_dtype=False),
    same(lambda t: 1.0, lambda t: 1.5, rtol=0, atol=0), same(lambda t: 1.0, lambda t: 0.0),
    same(lambda t: 1j, lambda t: 2j), same(lambda t: nan, lambda t: nan), same(lambda t: inf, lambda t: -inf),
    same(lambda t: nan, lambda t: nan, equal_nan=True), same(lambda t: 1.0, lambda t: 1.0, rtol=1.0),
    same(lambda t: True, lambda t: False), same(lambda t: True, lambda t: True), same(lambda t: None, lambda t: None),
    same(lambda t: None, lambda t: 1), same(lambda t: t.ones(2), lambda t: None), same(lambda t: "a", lambda t: "a"),
    same(lambda t: t.ones(2), lambda t: 1.0), same(lambda t: np.ones(2), lambda t: t.ones(2)),
    same(lambda t: np.ones(2), lambda t: np.ones(2)), same(lambda t: np.ones(2), lambda t: np.zeros(2)),
    same(lambda t: np.float64(1), lambda t: np.float64(2)), same(lambda t: np.float32(1), lambda t: 1.0),
    same(lambda t: np.bool_(True), lambda t: False), same(lambda t: object, lambda t: object),
    same(lambda t: [1.0, t.ones(2)], lambda t: (1.0, t.ones(2))), same(lambda t: [1, 2], lambda t: [1, 2, 3]),
    same(lambda t: [1, [2, 3]], lambda t: [1, [2, 4]]), same(lambda t: [1, 2], lambda t: [3, 4]),
    same(lambda t: {"a": 1, "b": 2}, lambda t: OrderedDict(b=2, a=1)), same(lambda t: {"a": 1}, lambda t: {"b": 1}),
    same(lambda t: {"a": [t.ones(1)]}, lambda t: {"a": [t.zeros(1)]}), same(lambda t: {1: 2, 3: 4}, lambda t: {1: 2}),
    same(lambda t: [t.ones(1), "a"], lambda t: [t.zeros(1), "b"]), same(lambda t: [1], lambda t: {0: 1}),
    same(lambda t: [1.0], lambda t: [t.ones(1)]), same(lambda t: [], lambda t: []),
    same(lambda t: "ab", lambda t: "cd"),
    same(listed(1.0), listed(2.0), msg="no"), same(lambda t: [1], lambda t: [2], msg="no"),
    same(listed(1.0), listed(2.0), msg=lambda m: f"<{m}>"), same(lambda t: [1], lambda t: [2], msg=lambda m: f"<{m}>"),
    same(lambda t: [1], lambda t: [1, 2], msg="no"),
    same(Sub.of, lambda t: t.ones(2)), same(Sub.of, lambda t: t.ones(2), allow_subclasses=False),
    same(Sub.of, Sub.of, allow_subclasses=False),
    same(listed(1.0), listed(1.0), check_layout=False, check_device=False),
    lambda t: t.testing.assert_allclose(t.ones(2), [1.0, 1.00001]),
    lambda t: t.testing.assert_allclose(t.ones(2), [1.0, 1.1]),
]  # fmt: skip


@pytest.mark.parametrize("call", COMPARISONS)
def test_assert_close(call):
    ours, theirs = outcome(jitgrad, call), outcome(torch, call)
    assert ours == theirs


DTYPES = ["float32", "float64", "complex64", "complex128", "int64", "int32", "int16", "int8", "uint8", "bool"]


def plain(value):
    if not isinstance(value, (torch.Tensor, jitgrad.Tensor)):
        return value
    return (str(value.dtype).replace("jitgrad.", "torch."), tuple(value.shape), value.stride(), value.requires_grad,
            value.detach().tolist())  # fmt: skip


def made(library, *shape, dtype="float32", **options):
    library.manual_seed(3)
    call = lambda t: plain(t.testing.make_tensor(*shape, dtype=getattr(t, dtype), device="cpu", **options))
    return outcome(library, call)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "options",
    [
        {}, {"low": -2, "high": 3}, {"low": 0.3, "high": 0.8}, {"low": 1}, {"high": 1}, {"noncontiguous": True},
        {"exclude_zero": True, "low": 0, "high": 2}, {"low": 2, "high": 1}, {"low": 1, "high": 1}, {"low": nan},
        {"low": -1e60, "high": 1e60}, {"low": 1e60, "high": 1e61}, {"requires_grad": True},
    ],
)  # fmt: skip
def test_make_tensor(dtype, options):
    ours, theirs = (made(library, 3, 4, dtype=dtype, **options) for library in (jitgrad, torch))
    if dtype.startswith(("float", "complex")) and isinstance(ours[0], tuple) and len(ours[0]) == 5:
        np.testing.assert_allclose(ours[0][4], theirs[0][4], rtol=1e-6)
        ours, theirs = ((r[0][:4], r[1]) for r in (ours, theirs))
    assert ours == theirs


@pytest.mark.parametrize("shape", [(), (5,), ((2, 3),), ([2, 3],), (0,), (1,), (2, 0)])
def test_shapes(shape):
    for options in ({}, {"noncontiguous": True}):
        ours, theirs = (made(library, *shape, dtype="int64", **options) for library in (jitgrad, torch))
        assert ours == theirs


def test_exclusive_arguments():
    ours, theirs = (
        outcome(
            library,
            lambda t: t.testing.make_tensor(
                2, dtype=t.float32, device="cpu", noncontiguous=True, memory_format=t.contiguous_format
            ),
        )
        for library in (jitgrad, torch)
    )
    assert ours == theirs
