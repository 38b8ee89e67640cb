"""Errors for arguments of a wrong type speak of the function that the user has called."""

import traceback
import warnings

import pytest

import jitgrad as torch

X = torch.ones(3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: torch.clamp(X, min="a"), "clamp(): argument 'min' (position 2) must be Tensor, not str"),
        (lambda: X.pow("a"), "pow(): argument 'exponent' (position 2) must be Tensor, not str"),
        (lambda: X.lerp_(X, "a"), "lerp_(): argument 'weight' (position 2) must be Tensor, not str"),
        (lambda: torch.div(X, "a"), "div(): argument 'other' (position 2) must be Tensor, not str"),
        (lambda: torch.where(X > 0, X, "a"), "where(): argument 'other' (position 3) must be Tensor, not str"),
        (lambda: torch.lerp(X, X, "a"), "lerp(): argument 'weight' (position 3) must be Tensor, not str"),
        (lambda: torch.addcmul(X, X, X, value="a"), "addcmul(): argument 'value' (position 4) must be Number, not str"),
        (lambda: torch.add(X, X, alpha="a"), "add(): argument 'alpha' must be Number, not str"),
        (lambda: X.sub_(X, alpha="a"), "sub_(): argument 'alpha' must be Number, not str"),
    ],
)
def test_ops_that_are_not_published_are_not_named(call, message):
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value) == message


def test_a_traceback_shows_one_error():
    with pytest.raises(TypeError) as caught:
        torch.gather(X, 0, [1, 2])
    assert "During handling" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("text", ["x.std()", "torch.std(x)", "torch.var_mean(x, 0)", "x.var(0, keepdim=True)"])
def test_warnings_are_about_the_users_line(text):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        eval(compile(text, "program.py", "eval"), {"x": torch.ones(1), "torch": torch})
    assert [w.filename for w in caught] == ["program.py"]
