"""Errors for arguments of a wrong type speak of the function that the user has called."""

import re
import traceback
import warnings

import numpy as np
import pytest

import jitgrad as torch

X = torch.ones(3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: torch.div(X, "a"), "div(): argument 'other' (position 2) must be Tensor, not str"),
        (lambda: torch.addcmul(X, X, X, value="a"), "addcmul(): argument 'value' must be Number, not str"),
        (lambda: torch.add(X, X, alpha="a"), "add(): argument 'alpha' must be Number, not str"),
        (lambda: X.sub_(X, alpha="a"), "sub_(): argument 'alpha' must be Number, not str"),
    ],
)
def test_ops_that_are_not_published_are_not_named(call, message):
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value) == message


IMAGE = torch.ones(1, 4, 8, 8)
PLACES = torch.ones(3, dtype=torch.bool)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: torch.channel_shuffle(IMAGE, {}),
         "channel_shuffle(): argument 'groups' (position 2) must be int, not dict"),
        (lambda: torch.pixel_shuffle(IMAGE, "a"),
         "pixel_shuffle(): argument 'upscale_factor' (position 2) must be int, not str"),
        (lambda: torch.nn.functional.max_pool2d(IMAGE, "a"),
         "max_pool2d(): argument 'kernel_size' (position 2) must be tuple of ints, not str"),
        (lambda: torch.nn.functional.fractional_max_pool2d(IMAGE, 2, 2.5),
         "fractional_max_pool2d(): argument 'output_size' (position 3) must be tuple of ints, not float"),
        (lambda: torch.nn.functional.adaptive_avg_pool2d(IMAGE, True),
         "adaptive_avg_pool2d(): argument 'output_size' (position 2) must be tuple of ints, not bool"),
        (lambda: torch.nn.functional.interpolate(IMAGE, scale_factor="a"),
         "interpolate(): argument 'scale_factor' must be tuple of floats, not str"),
        (lambda: torch.alias_copy([]), "alias_copy(): argument 'input' (position 1) must be Tensor, not list"),
        (lambda: torch.dist(-7, X), "dist(): argument 'input' (position 1) must be Tensor, not int"),
        (lambda: torch.nn.functional.pad(X, "a"), "pad(): argument 'pad' (position 2) must be tuple of ints, not str"),
        (lambda: torch.lstm_cell(X, 3, X, X),
         "lstm_cell(): argument 'hx' (position 2) must be tuple of Tensors, not int"),
        (lambda: torch._native_batch_norm_legit(IMAGE, None, None, 3, X, True, 0.5, 1e-5),
         "_native_batch_norm_legit(): argument 'running_mean' (position 4) must be Tensor, not int"),
        (lambda: torch._unsafe_masked_index(X, PLACES, 0, 1.0),
         "_unsafe_masked_index(): argument 'indices' (position 3) must be tuple of Tensors, not int"),
        (lambda: torch._unsafe_masked_index(X, PLACES, [0], 1.0),
         "expected Tensor as element 0 in argument 2, but got int"),
    ],
)  # fmt: skip
def test_arguments_that_no_step_checks_are_named(call, message):
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value) == message


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_too_few_dims_for_fractional_pooling(shape):
    with pytest.raises(IndexError, match="^Dimension"):
        torch.nn.functional.fractional_max_pool3d(torch.ones(shape), 2, output_ratio=[0.5] * 3)


@pytest.mark.parametrize("name", ["add_", "bitwise_or_", "mul_", "neg_", "atan2_"])
@pytest.mark.parametrize("target", [None, 2.5, np.ones(3)])
def test_methods_in_place_of_what_is_no_tensor(name, target):
    others = () if name == "neg_" else (X,)
    with pytest.raises(TypeError, match=f"^descriptor '{name}' for 'torch._C.TensorBase' objects doesn't apply to a "):
        getattr(torch.Tensor, name)(target, *others)


def test_xlogy_in_place_of_a_number():
    with pytest.raises(TypeError, match="^descriptor 'xlogy_' for 'torch._C.TensorBase' objects doesn't apply to a 'f"):
        torch.Tensor.xlogy_(np.float64(0.5), X)


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


@pytest.mark.parametrize(
    "call",
    [
        "x.sum(0, keepdim=1)", "x.mean(0, keepdim=1)", "x.prod(0, keepdim=1)", "x.max(0, keepdim=1)",
        "x.amax(0, keepdim=1)", "x.argmax(0, keepdim=1)", "x.any(0, keepdim=1)", "x.var(0, keepdim=1)",
        "x.median(0, keepdim=1)", "x.kthvalue(1, keepdim=1)", "x.logsumexp(0, keepdim=1)", "x.norm(2, 0, keepdim=1)",
        "x.topk(1, largest=1)", "x.topk(1, sorted=1)", "x.sort(descending=1)", "x.sort(stable=1)",
        "x.argsort(descending=1)", "torch.isclose(x, x, equal_nan=1)", "torch.allclose(x, x, equal_nan=1)",
        "torch.multinomial(x, 1, replacement=1)", "torch.nn.functional.kl_div(x, x, reduction='sum', log_target=1)",
        "x.put(i, x[:1], accumulate=1)", "x.index_put((i,), i * 1.0, accumulate=1)",
        "x.index_put_((i,), i * 1.0, accumulate=1)", "torch.nn.functional.dropout(x, training=1)",
        "torch.zeros(3, requires_grad=1)", "torch.tensor([1.0], requires_grad=1)", "torch.rand(3, requires_grad=1)",
        "torch.zeros_like(x, requires_grad=1)", "x.new_ones(3, requires_grad=1)",
        "torch.full((3,), 1.0, requires_grad=1)", "x.std(0, unbiased=1)", "x.to(torch.float64, copy=1)",
        "torch.nn.functional.batch_norm(torch.ones(2, 3), x * 1, x * 1, training=1)",
    ],
)  # fmt: skip
def test_numbers_are_no_flags(call):
    """True and 1 are equal, and so are keys of plans that hold them: both are looked for."""
    flag = re.search(r"(\w+)=1\)", call)[1]
    variables = {"torch": torch, "x": torch.ones(3), "i": torch.tensor([0])}
    eval(call.replace("=1)", "=True)"), variables)
    name = re.search(r"(\w+)\(", call.removeprefix("torch."))[1]
    one_form = rf"{name}\(\): argument '{flag}'( \(position \d\))? must be bool, not int"
    several = rf"{name}\(\) received an invalid combination of arguments - got \(.*{flag}=int"
    with pytest.raises(TypeError, match=f"{one_form}|{several}"):
        eval(call, variables)


@pytest.mark.parametrize(
    ("call", "given"),
    [
        ("torch.clamp(x, min='a')", "(Tensor, min=str)"), ("x.clamp(min='a')", "(min=str, )"),
        ("x.pow('a')", "(str)"), ("x.lerp_(x, 'a')", "(Tensor, str)"), ("torch.eq(x, 'a')", "(Tensor, str)"),
        ("torch.where(x > 0, x, 'a')", "(Tensor, Tensor, str)"), ("x.dsplit('a')", "(str)"),
        ("x.multiply('a')", "(str)"), ("x.sum(foo=1)", "(foo=int, )"), ("torch.sum()", "()"),
        ("torch.linalg.pinv(x[None], 'a')", "(Tensor, str)"), ("x.bernoulli(p='a')", "(p=str, )"),
    ],
)  # fmt: skip
def test_of_several_forms_all_are_listed(call, given):
    with pytest.raises(TypeError, match=r"^\w+\(\) received an invalid combination of arguments - got ") as caught:
        eval(call, {"torch": torch, "x": X})
    head, _, forms = str(caught.value).partition("got ")
    assert head.split("(")[0].removeprefix("linalg_") in call
    assert forms.startswith(f"{given}, but expected one of:\n * (")


@pytest.mark.parametrize("call", ["torch.empty(2**63)", "x.view(2**63)", "x.new_zeros(2, 2**63)", "x.reshape(2**63)"])
def test_sizes_beyond_64_bits(call):
    words = r"\(\): argument '(size|shape)' failed to unpack the object at pos \d with error \"Overflow when unpacking"
    with pytest.raises(TypeError, match=words):
        eval(call, {"torch": torch, "x": X})
    with pytest.raises(ValueError, match="^Overflow when unpacking long long"):
        X.sum(2**63)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("x.flip(dims=1)", "flip(): argument 'dims' must be tuple of ints, not int"),
        ("torch.flip(x, 1)", "flip(): argument 'dims' (position 2) must be tuple of ints, not int"),
        ("torch.permute(x, 0)", "permute(): argument 'dims' (position 2) must be tuple of ints, not int"),
        ("torch.zeros(size=2)", "zeros(): argument 'size' must be tuple of ints, not int"),
        ("torch.zeros(2, foo=1)", "zeros() got an unexpected keyword argument 'foo'"),
        ("torch.rand(2, size=(2,))", "rand() got multiple values for argument 'size'"),
        ("x.unsqueeze(dim='a')", "unsqueeze(): argument 'dim' must be int, not str"),
        ("x.unsqueeze('a')", "unsqueeze(): argument 'dim' (position 1) must be int, not str"),
        ("torch.permute_copy(x, 0)", "permute_copy(): argument 'dims' (position 2) must be tuple of ints, not int"),
        ("torch.nn.functional.batch_norm(torch.ones(2, 3), x, x, 2)",
         "batch_norm(): argument 'weight' (position 2) must be Tensor, not int"),
    ],
)  # fmt: skip
def test_how_an_argument_was_given(call, message):
    with pytest.raises(TypeError) as caught:
        eval(call, {"torch": torch, "x": X})
    assert str(caught.value) == message


def test_methods_take_sizes_one_by_one_functions_do_not():
    x = torch.arange(6.0).reshape(2, 3)
    assert x.flip(0, 1).tolist() == torch.flip(x, (0, 1)).tolist() == x.flip(dims=(0, 1)).tolist()
    assert x.permute(1, 0).tolist() == torch.permute(x, [1, 0]).tolist() == torch.permute(x, dims=(1, 0)).tolist()
    assert x.tile(2, 1).tolist() == torch.tile(x, (2, 1)).tolist()
    assert x[:1].broadcast_to(4, 3).tolist() == torch.broadcast_to(x[:1], (4, 3)).tolist()


def test_flags_of_numpy_are_flags():
    assert X.sum(0, keepdim=np.bool_(True)).shape == (1,)
    assert torch.ones(3, requires_grad=np.bool_(True)).requires_grad is True


def test_more_operands_than_an_op_has():
    for call in (lambda: X.abs_(X), lambda: X.exp_(torch.ones(2)), lambda: X.neg_(2.0)):
        with pytest.raises(TypeError, match=r"TensorBase.\w+_\(\) takes no arguments \(1 given\)"):
            call()


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        ("torch.amax(x, 'a')", TypeError, "amax(): argument 'dim' (position 2) must be tuple of ints, not str"),
        ("torch.amax(x, [1.5])", TypeError,
         "amax(): argument 'dim' (position 2) must be tuple of ints, but found element of type float at pos 0"),
        ("torch.promote_types('a', torch.int8)", TypeError,
         "promote_types(): argument 'type1' (position 1) must be torch.dtype, not str"),
        ("torch.from_dlpack(3)", RuntimeError,
         "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once, so you might "
         "have already constructed a tensor from it once."),
        ("torch.set_default_dtype('a')", TypeError,
         "invalid dtype object: only floating-point types are supported as the default type"),
        ("torch.eye(2).to_sparse().__dlpack__()", BufferError,
         "Can't export tensors with layout other than torch.strided"),
        ("torch.vmap(lambda v: v[v > 1])(x)", RuntimeError,
         "vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over indexing "
         "with a boolean mask."),
        ("torch.finfo({})", TypeError, "finfo(): argument 'type' (position 1) must be torch.dtype, not dict"),
        ("torch.addcdiv(x, x, x, value=1j)", RuntimeError, "value cannot be converted to type float without overflow"),
        ("torch.repeat_interleave(x, 2**63)", ValueError, "Overflow when unpacking long long"),
        ("torch.scatter_reduce(x, 0, x.long(), x, [1])", TypeError,
         "scatter_reduce(): argument 'reduce' (position 5) must be str, not list"),
        ("torch.tensor([None], dtype=torch.float32)", TypeError, "must be real number, not NoneType"),
        ("torch.tensor([None], dtype=torch.int64)", TypeError,
         "'NoneType' object cannot be interpreted as an integer"),
        ("torch.logsumexp(x, None)", TypeError,
         "logsumexp(): argument 'dim' (position 2) must be tuple of ints, not NoneType"),
        ("torch.normal(x, float('nan'))", RuntimeError, "normal expects std >= 0.0, but found std nan"),
        ("torch.nn.functional.huber_loss(x, x, delta=float('nan'))", RuntimeError,
         "huber_loss does not support non-positive values for delta."),
        ("torch.cosine_similarity(x, x, 0, float('nan'))", RuntimeError, "eps must be non-negative, got: nan"),
        ("torch.nn.Linear(2**63, 3)", TypeError,
         "empty(): argument 'size' failed to unpack the object at pos 2 with error "
         '"Overflow when unpacking long long"'),
    ],
)  # fmt: skip
def test_of_any_kind(call, kind, message):
    with pytest.raises(kind) as caught:
        eval(call, {"torch": torch, "x": X})
    assert str(caught.value) == message


def test_bools_count_as_sizes_behind_the_first():
    assert torch.empty(2, True).shape == (2, 1)
    with pytest.raises(TypeError, match="must be tuple of ints, but found element of type bool at pos 0"):
        torch.empty((True, 2))


def test_dtypes_of_python():
    assert torch.finfo(float).dtype == "float64" and torch.iinfo(int).bits == 64
    assert torch.promote_types(float, torch.int32) is torch.float64 and not torch.can_cast(float, torch.int8)
