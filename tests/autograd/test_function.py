"""``autograd.Function``: what peer tests don't see."""

import threading

import pytest

import jitgrad as torch
from jitgrad.autograd import Function, Variable, forward_ad, grad, gradcheck, gradgradcheck
from jitgrad.autograd.function import once_differentiable

from .functions import Exp, Product, variable


def test_derivatives_of_both_orders():
    x, y = variable(0.5, 1.5), variable(2.0, -1.0)
    assert gradcheck(Exp.apply, (x,)) and gradgradcheck(Exp.apply, (x,))
    assert gradcheck(Product.apply, (x, y)) and gradgradcheck(Product.apply, (x, y))


def test_third_order_through_a_saved_output():
    x = variable(0.3)
    out = Exp.apply(x)
    for _ in range(3):
        (out,) = grad(out, x, torch.ones(1, dtype=torch.float64), create_graph=True)
    assert out.item() == pytest.approx(x.exp().item())


# -- names --------------------------------------------------------------------------------------------


def test_attributes_with_the_names_of_the_nodes_own():
    class Named(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.saved, ctx.edges, ctx.versions, ctx.name, ctx.special, ctx.vjp = "s", "e", "v", "n", False, None
            return x * 2

        @staticmethod
        def backward(ctx, g):
            assert (ctx.saved, ctx.edges, ctx.versions, ctx.name, ctx.special, ctx.vjp) == (
                "s", "e", "v", "n", False, None)  # fmt: skip
            ctx.saved, ctx.count = "again", 1
            assert ctx.saved == "again" and len(ctx.saved_tensors) == 1 and ctx.needs_input_grad == (True,)
            return g * 2

    x = variable(1.0)
    out = Named.apply(x)
    node = out.grad_fn
    out.backward()
    assert x.grad.item() == 2 and node.count == 1 and node.name() == "NamedBackward"


def test_the_node_is_the_ctx_and_says_so():
    seen = []

    class Keeping(Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(ctx)
            return x * 2

    out = Keeping.apply(variable(1.0))
    assert out.grad_fn is seen.pop()
    assert repr(out.grad_fn).startswith("<jitgrad.autograd.function.KeepingBackward object at")
    assert repr(out) == "tensor([2.], dtype=torch.float64, grad_fn=<KeepingBackward>)"


def test_variable():
    x = variable(1.0)
    assert isinstance(x, Variable) and not isinstance(3, Variable)
    assert Variable(x * 2, requires_grad=True).is_leaf
    with pytest.raises(TypeError, match="Variable data has to be a tensor, but got list"):
        Variable([1.0])


# -- in place -----------------------------------------------------------------------------------------


class Write(Function):
    @staticmethod
    def forward(ctx, value, x):
        ctx.mark_dirty(x)
        return x.copy_(value * 3)

    @staticmethod
    def backward(ctx, g):
        return g * 3, g * 0


def test_view_written_to_that_is_not_the_first_input():
    x, y = variable(1.0, 2.0, 3.0), variable(1.0, 2.0)
    base = x.clone()
    part = base[1:]
    assert Write.apply(y, part) is part
    (base * base).sum().backward()
    assert x.grad.tolist() == [2, 0, 0]
    assert y.grad.tolist() == [18, 36]


def test_view_written_to_that_is_no_input():
    x, y = variable(1.0, 2.0, 3.0), variable(1.0, 2.0)
    base = x.clone()
    part = base[1:]

    class Closure(Function):
        @staticmethod
        def forward(ctx, value):
            ctx.mark_dirty(part)
            return part.copy_(value * 3)

        @staticmethod
        def backward(ctx, g):
            return g * 3

    with pytest.warns(UserWarning, match="received a tensor that was not an input"):
        Closure.apply(y)
    (base * base).sum().backward()
    assert x.grad.tolist() == [2, 0, 0]
    assert y.grad.tolist() == [18, 36]


def test_a_view_of_what_was_written_follows():
    x, y = variable(1.0, 2.0), variable(5.0, 7.0)
    base = x * 1
    view = base[:1]
    Write.apply(y, base)
    view.sum().backward()
    assert x.grad.tolist() == [0, 0] and y.grad.tolist() == [3, 0]


# -- errors leave everything as it was ------------------------------------------------------------------


def test_error_in_forward_restores_the_mode():
    class Broken(Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        Broken.apply(variable(1.0))
    assert torch.is_grad_enabled()


def test_error_deep_in_reentrant_backward_is_the_users_own():
    error = LookupError("mine")

    class Nested(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.rest = x.detach() - 1
            return x * 1

        @staticmethod
        def backward(ctx, g):
            if ctx.rest.item() < 0:
                raise error
            with torch.enable_grad():
                Nested.apply(ctx.rest.requires_grad_()).backward()
            return g

    with pytest.raises(LookupError) as caught:
        Nested.apply(torch.tensor(100.0, requires_grad=True)).backward()
    assert caught.value is error
    assert torch.is_grad_enabled()


def test_complex_gradient_of_a_real_input():
    class Wrong(Exp):
        @staticmethod
        def backward(ctx, g):
            return g * 1j

    with pytest.raises(RuntimeError, match="returned an invalid gradient at index 0 - got torch.complex128 but"):
        Wrong.apply(variable(1.0)).backward()


# -- nesting and threads --------------------------------------------------------------------------------


def test_backward_that_calls_backward_a_thousand_times_over():
    seen = []

    class Deep(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.rest = x.detach() - 1
            return x * 1

        @staticmethod
        def backward(ctx, g):
            seen.append(torch.is_grad_enabled())
            if ctx.rest.item() > 0:
                with torch.enable_grad():
                    Deep.apply(ctx.rest.requires_grad_()).backward()
            return g

    x = torch.tensor(1000.0, requires_grad=True)
    Deep.apply(x).backward()
    assert x.grad.item() == 1 and seen == [False] * 1000


def test_several_threads():
    shared = variable(1.0, 2.0)

    def work():
        for _ in range(20):
            (Exp.apply(shared) * 0 + shared).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shared.grad.tolist() == [80, 80]


def test_once_differentiable_ends_the_graph_of_each_gradient():
    class Ended(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return g * 2, g * 3

    x, y = variable(1.0), variable(2.0)
    first = grad((Ended.apply(x, y) ** 2).sum(), (x, y), create_graph=True)
    for gradient in first:
        with pytest.raises(RuntimeError, match="trying to differentiate twice a function that was marked with"):
            gradient.backward(retain_graph=True)
    (x * first[0].detach()).sum().backward()
    assert x.grad.item() == 8


def test_hand_written_tangents():
    x, y = variable(1.0, 2.0).detach(), variable(3.0, 4.0).detach()
    with forward_ad.dual_level():
        a = forward_ad.make_dual(x, torch.ones_like(x))
        product, total = Product.apply(a, y)
        assert forward_ad.unpack_dual(product).tangent.tolist() == [3, 4]
        assert forward_ad.unpack_dual(total).tangent.tolist() == [1, 1]
        assert forward_ad.unpack_dual(Product.apply(x, y)[0]).tangent is None


def test_tangents_are_part_of_the_graph():
    x, y = variable(1.0, 2.0), variable(3.0, 4.0)
    with forward_ad.dual_level():
        out = Product.apply(forward_ad.make_dual(x, torch.ones_like(x.detach())), y)[0]
        primal, tangent = forward_ad.unpack_dual(out)
    assert grad(tangent.sum(), y)[0].tolist() == [1, 1]
    assert grad(primal.sum(), x)[0].tolist() == [3, 4]


# -- edges ------------------------------------------------------------------------------------------


class ExpSin(Function):
    @staticmethod
    def forward(ctx, x):
        out = x.exp()
        ctx.save_for_backward(out, x)
        return out, x.sin()

    @staticmethod
    def backward(ctx, g, h):
        out, x = ctx.saved_tensors
        return g * out + h * x.cos()


@pytest.mark.parametrize("apply", [Exp.apply, lambda x: ExpSin.apply(x)[0]], ids=["one", "several"])
@pytest.mark.parametrize("hooked", [False, True])
def test_first_output_that_a_function_saved_leads_back_to_its_call(apply, hooked):
    x = torch.tensor([0.3, 0.7], requires_grad=True)
    y = apply(x)
    if hooked:
        y.register_hook(lambda g: None)
    found = y
    for _ in range(3):
        (found,) = grad(found.sum(), x, create_graph=True)
        assert torch.allclose(found, x.exp())


@pytest.mark.parametrize("requires_grad", [False, True])
def test_an_input_of_a_subclass_comes_out_as_one(requires_grad):
    class Named(torch.Tensor):
        pass

    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = torch.ones(2).as_subclass(Named).requires_grad_(requires_grad)
    y = Same.apply(x)
    assert type(y) is Named and y is not x and y.requires_grad == requires_grad
    if requires_grad:
        y.sum().backward()
        assert x.grad.tolist() == [2.0, 2.0]
