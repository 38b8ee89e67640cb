"""Elements repeated in place, beside PyTorch: what is refused, and the dtype of the places."""

import pytest

from ...expressions import check, listed

EXPRESSIONS = listed("""
torch.repeat_interleave(i, L([1, 0, 2])), torch.repeat_interleave(i, L([2])), i.repeat_interleave(L(2))
torch.repeat_interleave(L([1, 2, 3])), torch.repeat_interleave(L([1, 2], dtype=torch.int32))
torch.repeat_interleave(x, L([2, 0], dtype=torch.int32), 0, output_size=2)
x.repeat_interleave(2, -1, output_size=8)
torch.repeat_interleave(i, L([1, -1, 2]))
torch.repeat_interleave(i, L(-1))
torch.repeat_interleave(i, -1)
torch.repeat_interleave(i, L([1., 2., 1.]))
torch.repeat_interleave(i, L(2.))
torch.repeat_interleave(i, L([True, False, True]))
torch.repeat_interleave(i, L([1, 2, 3], dtype=torch.uint8))
torch.repeat_interleave(i, L([[1, 2, 3]]))
torch.repeat_interleave(i, L([1, 2]))
torch.repeat_interleave(x, L([1, 2]), -1)
torch.repeat_interleave(i, L([1, 2, 3]), output_size=5)
torch.repeat_interleave(i, 2, output_size=5)
torch.repeat_interleave(L([1, -1]))
torch.repeat_interleave(L([1.5]))
torch.repeat_interleave(L([[1]]))
torch.repeat_interleave(L(2))
torch.repeat_interleave(3)
""")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_repeat_interleave(expression):
    check(expression)


@pytest.mark.parametrize("repeats", ["1.5", "None", "True", "'a'"])
def test_repeats_of_another_type(repeats):
    check(f"str(pytest.raises(TypeError, torch.repeat_interleave, i, {repeats}).value).split(' - got')[0]")
