"""Numbers, and tensors of other dtypes, beside float16 and bfloat16: rounded to these first, but as factors."""

import pytest

import jitgrad as torch

HALVES = (torch.float16, torch.bfloat16)


@pytest.mark.parametrize("dtype", HALVES)
def test_numbers_are_rounded(dtype):
    x = torch.tensor([0.1, 0.3, 0.7], dtype=dtype)
    for number, place in ((0.1, 0), (0.3, 1), (0.7, 2)):
        rounded = x[place].item()
        assert rounded != number and (x == number).tolist() == [k == place for k in range(3)]
        assert not (x > number)[place] and not (x < number)[place] and (x <= number)[place]
        for given in (number, torch.tensor(number), torch.tensor(number, dtype=torch.float64)):
            assert (x - given)[place] == 0 and (x + given).equal(x + rounded)
            assert torch.remainder(x, given)[place] == 0 and torch.fmod(x, given).equal(torch.fmod(x, rounded))
            assert x.clone().sub_(given)[place] == 0
        assert (number - x)[place] == 0 and torch.rsub(x, number)[place] == 0
    assert (x**0.3).equal(x ** x[1].item()) and (0.3**x).equal(x[1].item() ** x)
    assert torch.nn.functional.hardshrink(x, 0.3).tolist() == [0, 0, x[2].item()]
    assert (x[1] == 0.3).item() and torch.compile(lambda t: t == 0.3)(x).tolist() == [False, True, False]


@pytest.mark.parametrize("dtype", HALVES)
def test_factors_are_not_rounded(dtype):
    x = torch.linspace(0.5, 1.5, 1000).to(dtype)
    y = x.flip(0)
    for number in (0.3, torch.tensor(0.3)):
        assert (x * number).equal((x.float() * number).to(dtype)) and (x / number).equal((x.float() / number).to(dtype))
        assert torch.lerp(x, y, 0.3).equal(torch.lerp(x.float(), y.float(), 0.3).to(dtype))


def test_tensors_with_dims_are_rounded():
    x, y = torch.ones(2, dtype=torch.bfloat16), torch.tensor([257, 259])  # of bfloat16 the neighbours are 2 apart
    assert (x * y).tolist() == [256, 260] and (x + y).tolist() == [256, 260] and (x == torch.tensor([1, 1])).all()
    big = torch.tensor([2049, 2051], dtype=torch.int32)
    assert (torch.ones(2, dtype=torch.float16) - big).equal(1 - big.half())
    assert (x == y - 256).tolist() == [True, False] and (y.bfloat16() == y).all()


@pytest.mark.parametrize("dtype", HALVES)
def test_quotients_are_rounded_before_their_whole_part_is_taken(dtype):
    x, y = (torch.arange(-300, 300) * 0.37).to(dtype), (torch.arange(600) % 37 * 0.7 - 9.03).to(dtype)
    wanted = (x / y).trunc()
    assert not torch.div(x.float(), y.float(), rounding_mode="trunc").to(dtype).equal(wanted)
    assert torch.div(x, y, rounding_mode="trunc").equal(wanted)
    assert x.clone().div_(y, rounding_mode="trunc").equal(wanted)
    assert torch.div(x, y, rounding_mode="trunc", out=torch.empty_like(x)).equal(wanted)
    assert torch.div(x, 3.3, rounding_mode="trunc").equal((x / 3.3).trunc())
    assert torch.div(x, y.float(), rounding_mode="trunc").dtype is torch.float32


def test_heaviside_names_what_out_has():
    x = torch.ones(2)
    for dtype, words in ((torch.complex64, "complex tensors"), (torch.float64, "tensors with different dtypes")):
        with pytest.raises(RuntimeError, match=f"heaviside is not yet implemented for {words}."):
            torch.heaviside(x, x, out=torch.ones(2, dtype=dtype))


def test_numbers_that_are_written():
    x, mask, first = torch.ones(2, dtype=torch.float16), torch.tensor([True, False]), torch.tensor([0])
    for write in (lambda v: x.masked_fill(mask, v), lambda v: torch.full_like(x, v), lambda v: x.clone().fill_(v),
                  lambda v: x.index_fill(0, first, v), lambda v: torch.nn.functional.pad(x, (1, 1), value=v),
                  lambda v: x.scatter(0, first, v), lambda v: x.clone().masked_fill_(mask, v)):  # fmt: skip
        assert write(-65504.0)[0] == -65504 and write(float("-inf"))[0] == float("-inf")
        for value in (-1e9, 65505):
            with pytest.raises(RuntimeError, match="value cannot be converted to type c10::Half without overflow"):
                write(value)
    for key in (0, slice(0, 1), mask, first):  # an assignment is of a tensor
        y = x.clone()
        y[key] = -1e9
        assert y.tolist() == [float("-inf"), 1]


@pytest.mark.parametrize("dtype", HALVES)
def test_tensors_that_are_written_have_the_dtype_of_the_result(dtype):
    x, mask = torch.ones(2, dtype=dtype), torch.tensor([True, False])
    value = torch.tensor(2.5, requires_grad=True)
    for out in (x.masked_fill(mask, value), x.index_fill(0, torch.tensor([0]), value)):
        assert out.dtype is dtype and out.tolist() == [2.5, 1]
        (out * 3).sum().backward()
        assert value.grad.item() == 3 and value.grad.dtype is torch.float32
        value.grad = None


def test_truths_in_place_of_half():
    for dtype in HALVES:
        x = torch.tensor([1.0, 0, 2, 0], dtype=dtype)
        assert x.logical_xor_(torch.tensor([1j, 1j, 0, 0])).tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_gradients_of_moves_are_moves(dtype):
    """Nothing is added up in them, so they need no copies of 32 bits; a sum's is one number, expanded."""
    x = torch.arange(6.0).reshape(2, 3).to(dtype).requires_grad_()
    g = torch.arange(6.0).reshape(2, 3).to(dtype)
    for op, wanted in ((lambda x: x.flip(0), g.flip(0)), (lambda x: torch.cat([x, x * 2]).narrow(0, 0, 2), g),
                       (lambda x: x.tril(), g.tril()), (lambda x: x.roll(1, 1), g.roll(-1, 1))):  # fmt: skip
        (found,) = torch.autograd.grad(op(x), x, g)
        assert found.dtype is dtype and found.equal(wanted)
    (found,) = torch.autograd.grad(x.sum(0), x, g[0])
    assert found.dtype is dtype and found.stride() == (0, 1) and found.tolist() == [g[0].tolist()] * 2
    (found,) = torch.autograd.grad(x.sum(dtype=torch.float32), x)
    assert found.dtype is dtype and found.equal(torch.ones_like(x))


def test_ways_of_sixteen_bit_arguments_are_kept_apart():
    """What is widened and rounded is kept by layouts and dtypes: other dtypes of the same shape are other calls."""
    x = torch.arange(6.0).reshape(2, 3)
    for dtype in (torch.float16, torch.float32, torch.bfloat16, torch.float16):
        assert torch.nn.functional.layer_norm(x.to(dtype), (3,)).dtype is dtype
        assert x.to(dtype).cumsum(1).dtype is dtype
        assert x.to(torch.float16).cumsum(1, dtype=dtype).dtype is dtype
        assert torch.stack([x.to(dtype), x.to(dtype)]).dtype is dtype
        assert x.to(torch.float16).scatter(1, torch.tensor([[0], [1]]), 1.5).dtype is torch.float16


def test_parameters_of_one_format_after_those_of_another():
    """How arguments are converted is kept by what they are: also of subclasses of Tensor the dtype is part of that."""
    for dtype in (torch.float16, torch.bfloat16, torch.float16):
        x = torch.nn.Parameter(torch.ones(3, 4, dtype=dtype))
        assert x.var(0).dtype is dtype and torch.nn.functional.layer_norm(x, (4,)).dtype is dtype
