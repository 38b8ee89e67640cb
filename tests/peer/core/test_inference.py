"""Inference mode and grad modes against PyTorch: the same cases, what each returns or raises."""

import threading
import warnings

import pytest
import torch

import jitgrad


def told(lib, call):
    """What a case gives: its value in plain Python, or the error's class and words, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = plain(call(lib))
        except Exception as error:
            result = type(error).__name__, str(error).replace("jitgrad.", "torch.")
    own = [w for w in caught if "torch.jit" not in str(w.message)]  # PyTorch's forward mode, of its own doing
    return result, [(w.category.__name__, str(w.message)) for w in own]


def plain(value):
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        return value.tolist(), value.requires_grad, value.is_leaf, value.is_inference()
    return value.replace("jitgrad.", "torch.") if isinstance(value, str) else value


def same(call):
    ours, theirs = told(jitgrad, call), told(torch, call)
    assert ours == theirs
    return ours[0]


def inferred(lib):
    with lib.inference_mode():
        return lib.arange(3.0)


def leaf(lib):
    return lib.arange(3.0).requires_grad_()


def inside(call):
    def run(lib):
        with lib.inference_mode():
            return call(lib)

    return run


# -- inference tensors outside ------------------------------------------------------------------------

READ = {
    "itself": lambda lib, x: x,
    "view": lambda lib, x: (x.view(3, 1), x[0], x[1:], x.detach(), x.data, x.unbind()[0], x.contiguous()),
    "new": lambda lib, x: (x.clone(), x + 1, x * x, x.sum(), x.new_zeros(2), lib.zeros_like(x), x.double()),
    "with a leaf": lambda lib, x: (x + leaf(lib), leaf(lib) - x, lib.cat([x, leaf(lib)])),
    "in a condition": lambda lib, x: lib.where(x > 0, leaf(lib), lib.zeros(3)),
    "as the other": lambda lib, x: (lib.ones(3).add_(x), (leaf(lib) * 1).add_(x), (leaf(lib) * 1).copy_(x)),
    "stays false": lambda lib, x: x.requires_grad_(False),
    "function": lambda lib, x: (lib.is_inference(x), lib.is_inference(x.clone()), lib.is_inference_mode_enabled()),
    "clone": lambda lib, x: (x.clone().requires_grad_() ** 2).sum(),
    "as data": lambda lib, x: setattr(leaf(lib), "data", x),
    "buffer": lambda lib, x: lib.nn.Parameter(x, requires_grad=False).is_inference(),
}


@pytest.mark.parametrize("name", READ)
def test_reading(name):
    same(lambda lib: READ[name](lib, inferred(lib)))


REFUSED = {
    "version": lambda lib, x: x._version,
    "saved": lambda lib, x: x * leaf(lib),
    "saved second": lambda lib, x: leaf(lib) * x,
    "saved by a product": lambda lib, x: leaf(lib) @ x,
    "saved in place": lambda lib, x: (leaf(lib) * 1).mul_(x),
    "requires_grad_": lambda lib, x: x.requires_grad_(),
    "requires_grad": lambda lib, x: setattr(x, "requires_grad", True),
    "of a view": lambda lib, x: x[0].requires_grad_(),
    "parameter": lambda lib, x: lib.nn.Parameter(x),
    "retain_grad": lambda lib, x: x.retain_grad(),
    "hook": lambda lib, x: x.register_hook(print),
    "create_graph": lambda lib, x: grad_of(lib, x, create_graph=True),
    "not a tensor": lambda lib, x: lib.is_inference(3),
}
WRITES = {
    "add_": lambda lib, x: x.add_(1), "mul_": lambda lib, x: x.mul_(lib.ones(3)),
    "of a view": lambda lib, x: x[0].add_(1), "by a leaf": lambda lib, x: x.add_(leaf(lib)),
    "zero_": lambda lib, x: x.zero_(), "fill_": lambda lib, x: x.fill_(2), "item": lambda lib, x: x.__setitem__(0, 1),
    "slice": lambda lib, x: x.__setitem__(slice(2), lib.ones(2)), "copy_": lambda lib, x: x.copy_(lib.ones(3)),
    "normal_": lambda lib, x: x.normal_(), "exp_": lambda lib, x: x.exp_(),
    "index_add_": lambda lib, x: x.index_add_(0, lib.tensor([0]), lib.ones(1)),
    "resize_": lambda lib, x: x.resize_(5), "t_": lambda lib, x: x.t_(), "unsqueeze_": lambda lib, x: x.unsqueeze_(0),
    "set_": lambda lib, x: x.set_(lib.ones(3)), "out": lambda lib, x: lib.add(lib.ones(3), 1, out=x),
    "clamp_": lambda lib, x: x.clamp_(0, 1), "relu_": lambda lib, x: lib.relu_(x),
    "masked_fill_": lambda lib, x: x.masked_fill_(x > 0, 1.0),
}  # fmt: skip


def grad_of(lib, gradient, **options):
    x = leaf(lib)
    return lib.autograd.grad(x * x, x, gradient, **options)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    assert len(same(lambda lib: REFUSED[name](lib, inferred(lib)))) == 2


@pytest.mark.parametrize("name", WRITES)
def test_writes_are_refused_outside(name):
    kind, text = same(lambda lib: WRITES[name](lib, inferred(lib)))
    assert text.startswith("Inplace update to inference tensor")


def test_a_refused_write_changes_nothing():
    x = inferred(jitgrad)
    for write in WRITES.values():
        with pytest.raises(RuntimeError, match="Inplace update"):
            write(jitgrad, x)
    assert x.tolist() == [0, 1, 2]


def test_incoming_gradients_may_be_inference_tensors():
    same(lambda lib: grad_of(lib, inferred(lib)))


def test_gradients_of_backward_inside():
    def case(lib):
        x = leaf(lib)
        y = (x * x).sum()
        with lib.inference_mode():
            y.backward()
        return x.grad, (x * x).sum().backward()

    assert "Inplace update" in same(case)[1]


def test_grad_inside_records_nothing():
    def case(lib):
        x = leaf(lib)
        y = (x * x).sum()
        with lib.inference_mode():
            return lib.autograd.grad(y, x, create_graph=True)

    same(case)


# -- inside -------------------------------------------------------------------------------------------

INSIDE = {
    "modes": lambda lib: (lib.is_grad_enabled(), lib.is_inference_mode_enabled()),
    "made": lambda lib: (lib.ones(2), lib.rand(2).is_inference(), lib.tensor([1.0]), lib.zeros(2, requires_grad=True)),
    "computed": lambda lib: (leaf(lib) * 2, lib.ones(3) + 1, lib.ones(3).sum(), lib.cat([lib.ones(1), lib.ones(1)])),
    "written": lambda lib: lib.ones(3).add_(1).mul_(lib.ones(3) * 3),
    "written view": lambda lib: lib.zeros(3)[1:].add_(1),
    "requires grad": lambda lib: lib.ones(2).requires_grad_(),
    "version": lambda lib: lib.ones(2)._version,
    "version of a view": lambda lib: lib.ones(2)[0]._version,
    "enable_grad": lambda lib: within(lib, lib.enable_grad()),
    "no_grad": lambda lib: within(lib, lib.no_grad()),
    "set_grad_enabled": lambda lib: within(lib, lib.set_grad_enabled(True)),
    "off": lambda lib: within(lib, lib.inference_mode(False)),
    "on": lambda lib: within(lib, lib.inference_mode()),
    "backward": lambda lib: (leaf(lib) * 2).sum().backward(),
    "parameters": lambda lib: [p.is_inference() and p.requires_grad for p in lib.nn.Linear(2, 2).parameters()],
    "copy_": lambda lib: lib.zeros(3).requires_grad_().copy_(lib.ones(3)),
}


def within(lib, mode):
    with mode:
        x = leaf(lib) * 2
        return lib.is_grad_enabled(), lib.is_inference_mode_enabled(), x


@pytest.mark.parametrize("name", INSIDE)
def test_inside(name):
    same(inside(INSIDE[name]))


@pytest.mark.parametrize("made", [lambda lib: lib.ones(3), lambda lib: leaf(lib), lambda lib: leaf(lib) * 1])
def test_normal_tensors_inside(made):
    def case(lib):
        x = made(lib)
        with lib.inference_mode():
            views = x.view(3, 1), x[0], x[1:], x.detach(), x.expand(2, 3), x.unbind()[1], x.contiguous(), x.float()
            versions = [v._version for v in views], x.add_(1)._version, views[0]._version
            return [v.is_inference() for v in views], versions, x

    same(case)


def test_views_of_normal_tensors_outside():
    for made in (lambda lib: lib.ones(3), leaf, lambda lib: leaf(lib) * 1):

        def case(lib, made=made):
            x = made(lib)
            with lib.inference_mode():
                view = x.view(3, 1)
            return view.requires_grad, view.add_(1), view._version

        same(case)


def test_a_view_made_inside_whose_base_is_written_outside():
    def case(lib):
        x = leaf(lib) * 1
        with lib.inference_mode():
            view = x.view(3, 1)
        x.mul_(2)
        return view * 2

    assert "A view was created in inference mode" in same(case)[1]


def test_nested_modes():
    def case(lib):
        said = []

        def say():
            said.append((lib.is_grad_enabled(), lib.is_inference_mode_enabled()))

        with lib.no_grad():
            with lib.inference_mode(False):
                say()
            with lib.inference_mode():
                lib.set_grad_enabled(True)
                say()
                with lib.inference_mode(False):
                    say()
                    with lib.no_grad():
                        say()
                say()
            say()
        say()
        return said

    same(case)


def test_decorators_of_inference_mode():
    def case(lib):
        def f(x):
            "words"
            return lib.is_inference_mode_enabled(), x * 2

        bare, called, off = lib.inference_mode(f), lib.inference_mode()(f), lib.inference_mode(False)(f)
        return bare(leaf(lib)), called(leaf(lib)), off(leaf(lib)), bare.__name__, bare.__doc__, off.__name__

    same(case)


# -- grad modes ---------------------------------------------------------------------------------------

MODES = {
    "no_grad": lambda lib: lib.no_grad(), "enable_grad": lambda lib: lib.enable_grad(),
    "off": lambda lib: lib.set_grad_enabled(False), "on": lambda lib: lib.set_grad_enabled(True),
    "inference": lambda lib: lib.inference_mode(), "none": lambda lib: lib.inference_mode(mode=False),
}  # fmt: skip


@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize("outer", MODES)
def test_modes_within_modes(name, outer):
    def case(lib):
        said = [modes(lib)]
        with MODES[outer](lib):
            said.append(modes(lib))
            with MODES[name](lib):
                said += [modes(lib), leaf(lib) * 2]
            said.append(modes(lib))
        return [*said, modes(lib)]

    same(case)


def modes(lib):
    return lib.is_grad_enabled(), lib.is_inference_mode_enabled()


@pytest.mark.parametrize("name", MODES)
def test_generators(name):
    def case(lib):
        said = []

        @MODES[name](lib)
        def generate():
            try:
                said.append(("sent", (yield modes(lib)), modes(lib)))
                yield modes(lib)
            except ValueError as error:
                said.append(("thrown", str(error), modes(lib)))
            try:
                yield "last"
            finally:
                said.append(("closed", modes(lib)))
            return "end"

        generator = generate()
        said += [next(generator), modes(lib), generator.send(3), modes(lib), generator.throw(ValueError("x"))]
        generator.close()
        said.append(modes(lib))
        generator = generate()
        said += [next(generator), generator.send(1)]
        generator.close()

        def outer():
            said.append((yield from generate()))

        said += list(outer())
        return said

    same(case)


def test_a_generator_that_raises():
    def case(lib):
        @lib.no_grad()
        def generate():
            yield 1
            raise KeyError("inside")

        generator = generate()
        next(generator)
        try:
            next(generator)
        except KeyError:
            return modes(lib), list(generator)

    same(case)


@pytest.mark.parametrize("name", MODES)
def test_classes_are_decorated_with_a_warning(name):
    def case(lib):
        said = []

        class Thing:
            def __init__(self, x):
                said.append((x, modes(lib)))

        made = MODES[name](lib)(Thing)
        made(3)
        return said, type(made).__name__

    assert same(case)


def test_coroutines_run_outside_of_the_mode():
    def case(lib):
        @lib.no_grad()
        async def ask():
            return modes(lib)

        coroutine = ask()
        try:
            coroutine.send(None)
        except StopIteration as stop:
            return stop.value

    same(case)


def resized(lib, resize):
    with lib.inference_mode():
        x = lib.ones(1, 2, 3, requires_grad=True)
        resize(x, lib)
        return tuple(x.shape), x.is_inference(), x.requires_grad


def differentiated(lib, transform):
    """Numbers only: what transforms return is an inference tensor here, and is none in PyTorch."""
    captured = lib.tensor([1.0, 3.0], dtype=lib.float64)
    with lib.inference_mode():
        x, made = captured * 2, captured + 1

        def f(x):
            y = x * made
            y.add_(1)
            return (y.softmax(0) * captured * x.sin()).sum()

        found = getattr(lib.func, transform)(f)(x)
        later = (x + 1).is_inference(), lib.is_grad_enabled(), lib.is_inference_mode_enabled()
        return [float(f"{v:.9g}") for v in found.reshape(-1).tolist()], later


GRAD_MODES = {
    **{name: lambda lib, name=name: differentiated(lib, name) for name in ("grad", "jacrev", "hessian", "jacfwd")},
    "resize_": lambda lib: resized(lib, lambda x, lib: x.resize_(1, 2)),
    "resize_as_": lambda lib: resized(lib, lambda x, lib: x.resize_as_(lib.ones(4))),
    "repr": lambda lib: (repr(lib.set_grad_enabled(True)), str(lib.set_grad_enabled(True))),
    "not a bool": lambda lib: lib.set_grad_enabled("yes"),
    "a number": lambda lib: lib.set_grad_enabled(1),
    "bare": lambda lib: (lib.no_grad(modes)(lib), lib.no_grad()(modes)(lib), lib.enable_grad(modes)(lib), modes(lib)),
    "decorated by a flag": lambda lib: (lib.set_grad_enabled(False)(modes)(lib), modes(lib)),
    "raising": lambda lib: raising(lib),
    "method": lambda lib: Decorated(lib).ask(),
    "thread": lambda lib: in_thread(lib),
}


class Decorated:
    def __init__(self, lib):
        self.lib = lib
        self.ask = lib.no_grad()(self._ask)

    def _ask(self):
        return modes(self.lib)


def raising(lib):
    @lib.no_grad()
    def fail():
        raise ValueError(modes(lib))

    try:
        fail()
    except ValueError as error:
        return error.args, modes(lib)


def in_thread(lib):
    said = []

    def ask():
        said.append((modes(lib), (leaf(lib) * 2).requires_grad, lib.ones(1).is_inference()))

    with lib.no_grad(), lib.inference_mode():
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        ask()
    return said


@pytest.mark.parametrize("name", GRAD_MODES)
def test_grad_modes(name):
    same(GRAD_MODES[name])
