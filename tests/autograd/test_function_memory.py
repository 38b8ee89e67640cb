"""The memory of ``autograd.Function``: who frees a graph, and who holds a gradient."""

import gc
import weakref

import pytest

import jitgrad as torch
from jitgrad.autograd import Function

from .functions import Exp, Product, variable

# -- memory -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [Exp, Product], ids=lambda f: f.__name__)
def test_graph_dies_by_reference_count(function):
    gc.collect()
    gc.disable()
    try:
        x = variable(1.0)
        out = function.apply(*[x] * (1 if function is Exp else 2))
        outs = out if isinstance(out, tuple) else (out,)
        node, first = weakref.ref(outs[0].grad_fn), weakref.ref(outs[0])
        del out, outs
        assert node() is None and first() is None
    finally:
        gc.enable()


def test_graph_with_a_saved_view_that_was_written_dies():
    class Save(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x.mul_(3))
            ctx.save_for_backward(x)
            return x

    gc.collect()
    gc.disable()
    try:
        base = variable(1.0, 2.0).clone()
        part = base[1:]
        Save.apply(part)
        node = weakref.ref(base.grad_fn)
        del base, part
        assert node() is None
    finally:
        gc.enable()


def test_graph_of_a_vmapped_function_dies():
    class Cube(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return g * 3 * ctx.saved_tensors[0] ** 2

    x = variable(1.0, 2.0)
    out = torch.func.vmap(Cube.apply)(x)
    assert out.grad_fn.name() == "VmappedCubeBackward"
    out.sum().backward()
    assert x.grad.tolist() == [3, 12]
    gc.collect()
    gc.disable()
    try:
        out = torch.func.vmap(Cube.apply)(x)
        node = weakref.ref(out.grad_fn)
        del out
        assert node() is None
    finally:
        gc.enable()


def test_what_save_for_forward_kept_is_let_go():
    x = variable(1.0)
    out, _ = Product.apply(x * 1, x)
    saved = weakref.ref(out.grad_fn.saved_tensors[0])
    out.sum().backward()
    assert saved() is None


def test_backward_frees_what_was_saved():
    kept = []

    class Middle(Function):
        @staticmethod
        def forward(ctx, x):
            middle = x * 2
            kept.append(weakref.ref(middle))
            ctx.save_for_backward(middle)
            return middle + 1

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    out = Middle.apply(variable(1.0))
    assert kept[0]() is not None
    out.backward()
    assert kept[0]() is None
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        out.backward()


def test_saved_for_one_access():
    class Once(Exp):
        clear_saved_tensors_on_access = True

        @staticmethod
        def backward(ctx, g):
            (out,) = ctx.saved_tensors
            with pytest.raises(RuntimeError, match="saved_tensors can only be accessed once"):
                ctx.saved_tensors
            return g * out

    x = variable(1.0)
    Once.apply(x).backward()
    assert x.grad.item() == pytest.approx(2.718281828)


# -- who holds a gradient -----------------------------------------------------------------------------


class Given(Function):
    """Twice its input; what ``make`` returns counts as its gradient."""

    make = staticmethod(lambda g: g * 2)

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return Given.make(g)


def place_of(x):
    return x.numpy().ctypes.data


def test_a_gradient_that_nobody_else_holds_becomes_grad(monkeypatch):
    places = []

    def make(g):
        made = g * 2
        places.append(place_of(made))
        return made

    monkeypatch.setattr(Given, "make", make)
    x = variable(1.0, 2.0)
    Given.apply(x).sum().backward()
    assert [place_of(x.grad)] == places


KEPT = {
    "itself": lambda kept: kept, "detached": lambda kept: kept.detach(), "data": lambda kept: kept.data,
    "part": lambda kept: kept[:].detach(), "array": lambda kept: torch.from_numpy(kept.numpy()),
}  # fmt: skip


@pytest.mark.parametrize("how", KEPT)
def test_gradients_that_others_hold_stay_as_they_are(how, monkeypatch):
    kept = torch.tensor([5.0, 5.0])
    monkeypatch.setattr(Given, "make", lambda g: KEPT[how](kept))
    x = variable(1.0, 2.0).float().detach().requires_grad_()
    (Given.apply(x) + Given.apply(x)).sum().backward()
    assert kept.tolist() == [5.0, 5.0] and x.grad.tolist() == [10.0, 10.0]
    x.grad = None
    Given.apply(x).sum().backward()
    x.grad.mul_(3)
    assert kept.tolist() == [5.0, 5.0]


@pytest.mark.parametrize("place", [0, 1])
def test_so_they_do_where_the_function_wrote_to_a_part(place):
    kept = torch.tensor([5.0, 5.0])

    class Scaled(Function):
        @staticmethod
        def forward(ctx, *args):
            part, factor = args[place], args[1 - place].detach()
            ctx.mark_dirty(part)
            return part.mul_(factor)

        @staticmethod
        def backward(ctx, g):
            return (g * 1, kept) if place == 0 else (kept, g * 1)

    factor = torch.ones(2, requires_grad=True)
    whole = torch.ones(3, 2, requires_grad=True).clone()
    Scaled.apply(*((whole[0], factor) if place == 0 else (factor, whole[0])))
    whole.sum().backward()
    factor.grad.add_(1)
    assert kept.tolist() == [5.0, 5.0]
