"""Custom ops: calls, gradients, schemas, what is refused."""

import math

import numpy as np
import pytest

import jitgrad as torch
from jitgrad import Tensor
from jitgrad.library import Library


@torch.library.custom_op("tests::scaled_sin", mutates_args=())
def scaled_sin(x: Tensor, scale: float = 1.0) -> Tensor:
    return torch.from_numpy(np.sin(x.numpy() * scale))


def keep(ctx, inputs, output):
    x, ctx.scale = inputs
    ctx.save_for_backward(x)


def backward(ctx, grad):
    (x,) = ctx.saved_tensors
    assert ctx.needs_input_grad == (True, False)
    return grad * torch.cos(x * ctx.scale) * ctx.scale, None


scaled_sin.register_autograd(backward, setup_context=keep)
scaled_sin.register_fake(lambda x, scale=1.0: torch.empty_like(x))


def test_a_function_as_op():
    x = torch.tensor([0.0, 0.5], dtype=torch.float64, requires_grad=True)
    y = scaled_sin(x, 2.0)
    assert y.tolist() == [0, math.sin(1.0)]
    assert type(y.grad_fn).__name__.startswith("GeneratedBackwardFor_tests_scaled_sin")
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx([2, 2 * math.cos(1.0)])
    assert torch.autograd.gradcheck(lambda x: torch.ops.tests.scaled_sin(x, scale=3.0), x.detach().requires_grad_())
    assert not torch.ops.tests.scaled_sin.default(x.detach()).requires_grad
    assert scaled_sin(torch.empty(3, device="meta")).shape == (3,)
    assert str(torch.ops.tests.scaled_sin.default) == "tests.scaled_sin.default"


def test_lists_and_keywords():
    @torch.library.custom_op("tests::times", mutates_args=())
    def times(xs: list[Tensor], *, n: int = 2) -> list[Tensor]:
        return [x * n for x in xs]

    def remember(ctx, inputs, keyword_only_inputs, output):
        ctx.n = keyword_only_inputs["n"]

    def times_backward(ctx, grads):
        assert isinstance(grads, list) and ctx.needs_input_grad == ([True, False],)
        return [g * ctx.n for g in grads]

    times.register_autograd(times_backward, setup_context=remember)
    a, b = torch.ones(2, requires_grad=True), torch.ones(2)
    out = times([a, b], n=3)
    assert isinstance(out, list) and out[1].tolist() == [3, 3]
    out[0].sum().backward(retain_graph=True)
    out[0].sum().backward()
    assert a.grad.tolist() == [6, 6]


def test_writing_to_an_argument():
    @torch.library.custom_op("tests::add_one_", mutates_args={"x"})
    def add_one_(x: Tensor) -> None:
        x.add_(1)

    x = torch.zeros(2)
    version = x._version
    assert add_one_(x) is None and x.tolist() == [1, 1] and x._version > version
    assert "Tensor(a0!) x" in add_one_._opoverload._schema


def test_a_write_through_numpy_counts_as_one():
    @torch.library.custom_op("tests::numpy_sin_", mutates_args={"x"})
    def numpy_sin_(x: Tensor, y: Tensor) -> None:
        np.sin(x.numpy(), out=x.numpy())

    x, y, weight = torch.ones(2), torch.ones(2), torch.ones(2, requires_grad=True)
    product = weight * x
    numpy_sin_(x, y)
    assert (x._version, y._version) == (1, 0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_what_is_refused():
    @torch.library.custom_op("tests::same", mutates_args=())
    def same(x: Tensor) -> Tensor:
        return x

    @torch.library.custom_op("tests::copied", mutates_args=(), device_types="cuda")
    def copied(x: Tensor) -> Tensor:
        return x.clone()

    x = torch.ones(1, requires_grad=True)
    with pytest.raises(RuntimeError, match="must not also be an input"):
        same(x.detach())
    with pytest.raises(NotImplementedError, match="'CPU' backend"):
        copied(x)
    copied.register_kernel("cpu", lambda x: x.clone())
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        copied(x).sum().backward()
    with pytest.raises(RuntimeError, match="type 'Tensor' for argument 'x' but instead found type 'int'"):
        copied(3)
    with pytest.raises(TypeError, match="too many positional"):
        copied(x, 1)
    with pytest.raises(AttributeError, match="'_OpNamespace' 'tests' object has no attribute 'nothing'"):
        torch.ops.tests.nothing
    with pytest.raises(RuntimeError, match="does not exist"):
        torch.library.register_fake("tests::nothing", lambda x: x)
    with pytest.raises(ValueError, match="namespace::name"):
        torch.library.custom_op("nothing", lambda x: x, mutates_args=())
    with pytest.raises(NotImplementedError, match="compiled against PyTorch"):
        torch.ops.load_library("x.so")


def test_libraries_and_overloads():
    library = Library("tests_library", "DEF")
    library.define("double(Tensor x, int k=2) -> Tensor")
    library.impl("double", lambda x, k=2: x * k, "CompositeImplicitAutograd")
    x = torch.ones(2, requires_grad=True)
    torch.ops.tests_library.double(x).sum().backward()
    assert x.grad.tolist() == [2, 2]
    library.define("scale.Scalar(Tensor x, float k) -> Tensor")
    library.define("scale.Both(Tensor x, Tensor y, Tensor z) -> Tensor")
    library.impl("scale.Scalar", lambda x, k: x * k, "CPU")
    library.impl("scale.Both", lambda x, y, z: x + y + z, "CPU")
    scale = torch.ops.tests_library.scale
    y = x.detach()
    assert scale.overloads() == ["Scalar", "Both"]
    assert scale(y, 3.0).tolist() == [3, 3] and scale(y, y, y).tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="multiple times"):
        library.define("double(Tensor x) -> Tensor")
    library._destroy()
    assert dir(torch.ops.tests_library) == []
    with pytest.raises(ValueError, match="reserved"):
        Library("aten", "IMPL")


def test_functions_of_the_library():
    torch.library.define("tests::sine", "(Tensor x) -> Tensor")
    torch.library.impl("tests::sine", "cpu")(lambda x: x.sin())
    torch.library.register_autograd(
        "tests::sine", lambda ctx, g: g * ctx.saved_tensors[0].cos(),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )  # fmt: skip
    x = torch.tensor([0.5], requires_grad=True)
    torch.ops.tests.sine(x).sum().backward()
    assert x.grad.item() == pytest.approx(math.cos(0.5))
    batch = torch.tensor([[0.0], [0.5]])
    assert torch.func.vmap(torch.ops.tests.sine)(batch).tolist() == batch.sin().tolist()
    torch.library.register_vmap("tests::sine", lambda info, in_dims, x: (x * 0, in_dims[0]))
    assert torch.func.vmap(torch.ops.tests.sine)(batch).tolist() == [[0], [0]]


def test_schemas():
    def function(
        x: Tensor, y: Tensor | None, z: list[int], w: float = 1.0, *, s: str = "a"
    ) -> tuple[Tensor, Tensor]: ...  # fmt: skip

    schema = "(Tensor(a0!) x, Tensor? y, SymInt[] z, float w=1.0, *, str s=\"a\") -> (Tensor, Tensor)"
    assert torch.library.infer_schema(function, mutates_args={"x"}) == schema
    signature = torch.library.schema.parse("f" + schema).signature
    assert signature.parameters["w"].default == 1.0 and signature.parameters["s"].default == "a"
    with pytest.raises(ValueError, match="must have a type annotation"):
        torch.library.infer_schema(lambda x: x, mutates_args=())
    with pytest.raises(ValueError, match="not found in the custom op's signature"):
        torch.library.infer_schema(function, mutates_args={"q"})
    with pytest.raises(RuntimeError, match="expected a schema"):
        torch.library.schema.parse("no schema")
