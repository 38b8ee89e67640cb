"""Texts equal PyTorch's repr for many random arrays."""

import itertools

import numpy as np
import pytest

from jitgrad.core import formatting

torch = pytest.importorskip("torch")

SHAPES = [
    (), (1,), (2,), (5,), (7,), (9,), (13,), (30,), (200,), (1000,), (1001,), (0,), (0, 3),
    (2, 0, 3), (1, 1), (2, 3), (3, 17), (40, 2), (400, 3), (3, 400), (2, 2, 2), (1, 7, 1, 3),
    (7, 8, 30), (2, 7, 7, 12),
]  # fmt: skip
FLOATS = ["float32", "float64", "float16", "bfloat16"]
OPTIONS = [
    {},
    {"precision": 7},
    {"precision": 0},
    {"sci_mode": True},
    {"sci_mode": False},
    {"linewidth": 40},
    {"linewidth": 133},
    {"edgeitems": 1},
    {"edgeitems": 0},
    {"threshold": 10, "edgeitems": 2},
    {"profile": "short"},
    {"profile": "full"},
]


@pytest.fixture(autouse=True)
def default_options():
    yield
    torch.set_printoptions(profile="default")
    formatting.set_printoptions(profile="default")


def set_both(options):
    torch.set_printoptions(**options)
    formatting.set_printoptions(**options)
    assert formatting.get_printoptions() == torch._tensor_str.get_printoptions()


def ours(tensor):
    narrow = tensor.dtype == torch.bfloat16
    array = tensor.detach().resolve_conj().to(torch.float32 if narrow else tensor.dtype).numpy()
    return formatting.tensor_repr(
        array,
        requires_grad=tensor.requires_grad,
        grad_fn_name=tensor.grad_fn.name() if tensor.grad_fn is not None else None,
        default_dtype=str(torch.get_default_dtype()).removeprefix("torch."),
        dtype_suffix="torch.bfloat16" if narrow else None,
    )


def reals(rng, shape):
    """Values of some magnitude and spread, whole or not, with some special ones among them."""
    values = rng.standard_normal(shape) * 10.0 ** rng.integers(-9, 10)
    values = values * 10.0 ** (rng.random(shape) * rng.choice([0, 0, 1, 3, 12]))
    if rng.random() < 0.4:
        values = np.round(values)
    if rng.random() < 0.3:
        values = abs(values)
    if rng.random() < 0.3:
        special = rng.choice([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-310, 1e300], shape)
        values = np.where(rng.random(shape) < rng.choice([0.1, 0.6, 1.0]), special, values)
    return np.asarray(values)


def random_tensor(rng, shape, dtype):
    if dtype in FLOATS:
        return torch.from_numpy(reals(rng, shape)).to(getattr(torch, dtype))
    if dtype.startswith("complex"):
        values = np.empty(shape, complex)
        values.real, values.imag = reals(rng, shape), reals(rng, shape)
        return torch.from_numpy(values).to(getattr(torch, dtype))
    if dtype == "bool":
        return torch.from_numpy(np.asarray(rng.random(shape) < rng.choice([0, 0.5, 1])))
    bits = torch.iinfo(getattr(torch, dtype)).bits - 2
    least = 0 if dtype[0] == "u" else -(1 << int(rng.integers(1, bits)))
    values = np.asarray(rng.integers(least, 1 << int(rng.integers(1, bits)), shape))
    return torch.from_numpy(values).to(getattr(torch, dtype))


OTHERS = ["complex64", "complex128", "bool", "uint8", "int8", "int16", "int32", "int64", "uint64"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", FLOATS + OTHERS)
def test_random_arrays(dtype):
    rng = np.random.default_rng(sum(map(ord, dtype)))
    for shape, _ in itertools.product(SHAPES, range(12)):
        tensor = random_tensor(rng, shape, dtype)
        if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
            tensor.requires_grad_(bool(rng.integers(2)))
            tensor = tensor.view(tensor.shape) if rng.integers(2) else tensor
        assert ours(tensor) == repr(tensor)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options(options):
    rng = np.random.default_rng(1)
    set_both(options)
    for shape, dtype, _ in itertools.product(SHAPES, ("float32", "complex64", "int64"), range(4)):
        tensor = random_tensor(rng, shape, dtype)
        assert ours(tensor) == repr(tensor)


def test_several_suffixes_wrap():
    for width, n in itertools.product(range(30, 80), (0, 1, 4)):
        set_both({"linewidth": width})
        for shape in ((n,), (2, 0, n), (n, 2, n)):
            tensor = torch.ones(shape, dtype=torch.float64, requires_grad=True)
            for t in (tensor, tensor.view(shape), tensor.detach().int()):
                assert ours(t) == repr(t)


def test_a_suffix_moves_to_the_next_line_at_the_same_column():
    for n, digits in itertools.product(range(1, 14), range(1, 8)):
        tensor = torch.full(
            (n,), float("1." + "1" * digits), dtype=torch.float64, requires_grad=True
        )
        set_both({"precision": digits})
        for t in (tensor, tensor * 1, tensor.detach(), tensor.float(), tensor.view(-1, 1)):
            assert ours(t) == repr(t)


@pytest.mark.parametrize("default", [torch.float64, torch.float16, torch.float32])
def test_default_dtypes(default):
    torch.set_default_dtype(default)
    try:
        for dtype in ("float32", "float64", "float16", "complex64", "complex128", "int64", "int32"):
            for shape in ((), (0,), (2,)):
                tensor = torch.ones(shape, dtype=getattr(torch, dtype))
                assert ours(tensor) == repr(tensor)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    "values",
    [
        [1e8, 2e8], [1e8 + 16, 1e8], [1e5, 100], [1e5 + 1, 100], [1e-4, 1e-3], [9.99e-5, 1e-3],
        [0.1, 100], [0.1, 100.5], [99999999.5], [5e-324, 1e308], [5e-324], [1.5, 1500],
        [1.5, 1500.1], [0.5, 499.9999], [np.nextafter(1e-4, 1), 1e-2], [np.nextafter(1e8, 1e9)],
        [999.99999, 1.5], [-0.0], [-0.00001, 1],
    ],
)  # fmt: skip
def test_where_scientific_notation_begins(values):
    for dtype in (torch.float64, torch.float32):
        tensor = torch.tensor(values, dtype=dtype)
        assert ours(tensor) == repr(tensor)
