"""Inference mode: what is made in it, who may write to it, and that nothing of it is left behind."""

import threading

import numpy as np
import pytest

import jitgrad
from jitgrad.core.tensor_observers import tensor_observers
from jitgrad.dispatch.registry import OPS
from jitgrad.testing import op_samples


def inferred():
    with jitgrad.inference_mode():
        return jitgrad.arange(3.0)


def test_results_are_inference_tensors_and_record_nothing():
    w = jitgrad.ones(3, requires_grad=True)
    with jitgrad.inference_mode():
        made = [jitgrad.ones(3), w * 2, w.sum(), jitgrad.cat([w, w]), w.softmax(0), jitgrad.rand(2), w @ w]
        assert jitgrad.is_inference_mode_enabled() and not jitgrad.is_grad_enabled()
    assert all(t.is_inference() and not t.requires_grad and t.grad_fn is None for t in made)
    assert not (w * 2).is_inference() and (w * 2).requires_grad


def test_views_are_what_their_memory_is():
    x, normal = inferred(), jitgrad.ones(3)
    assert x[0].is_inference() and x.view(3, 1).is_inference() and x.detach().is_inference() and x.data.is_inference()
    with jitgrad.inference_mode():
        views = [normal[0], normal.view(3, 1), normal.detach(), normal.data]
        normal.add_(1)
    assert not any(v.is_inference() for v in views)
    assert normal._version == 1 and views[0]._version == 1


def test_a_clone_is_an_ordinary_tensor():
    x = inferred().clone().requires_grad_()
    (x * x).sum().backward()
    assert x.grad.tolist() == [0, 2, 4]


@pytest.mark.parametrize("write", [
    lambda x: x.add_(1), lambda x: x.mul_(jitgrad.ones(3)), lambda x: x[1:].exp_(), lambda x: x.zero_(),
    lambda x: x.__setitem__(0, 5.0), lambda x: x.resize_(7), lambda x: x.t_(), lambda x: x.normal_(),
    lambda x: jitgrad.add(x, 1, out=x), lambda x: jitgrad.zeros(3, out=x), lambda x: x.set_(jitgrad.zeros(3)),
])  # fmt: skip
def test_a_refused_write_changes_nothing(write):
    x = inferred()
    for _ in range(2):  # the second time on the fast path
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode") as error:
            write(x)
        assert error.value.__suppress_context__ or error.value.__context__ is None
    assert x.tolist() == [0, 1, 2]
    with jitgrad.inference_mode():
        write(x)


def test_optimizers_refuse_parameters_that_are_inference_tensors():
    with jitgrad.inference_mode():
        layer = jitgrad.nn.Linear(2, 1)
        before = layer.weight.tolist()
    layer.weight.grad = jitgrad.ones(1, 2)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        jitgrad.optim.SGD([layer.weight], 0.1).step()
    assert layer.weight.tolist() == before


def test_backward_refuses_to_add_to_an_inference_gradient():
    x = jitgrad.ones(3, requires_grad=True)
    for _ in range(3):  # the engine knows how to add to such a gradient
        (x * x).sum().backward()
    x.grad = None
    y = (x * x).sum()
    with jitgrad.inference_mode():
        y.backward()
    assert x.grad.is_inference()
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        (x * x).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_other_threads_are_not_in_inference_mode():
    inside, outside, made = threading.Event(), threading.Event(), []

    def work():
        inside.wait(10)
        x = jitgrad.ones(3, requires_grad=True)
        made.extend([x, x * x, x[0], jitgrad.cat([x, x])])
        outside.set()

    thread = threading.Thread(target=work)
    thread.start()
    with jitgrad.inference_mode():
        inside.set()
        assert outside.wait(10)
    thread.join()
    assert not any(t.is_inference() for t in made) and made[1].grad_fn is not None


def test_nothing_is_left_behind_by_errors():
    assert not tensor_observers
    for mode in (True, False):
        with pytest.raises(KeyError), jitgrad.inference_mode(), jitgrad.inference_mode(mode):
            raise KeyError
    assert not tensor_observers and jitgrad.is_grad_enabled() and not jitgrad.is_inference_mode_enabled()


def test_generators_keep_their_mode_to_themselves():
    @jitgrad.inference_mode()
    def generate():
        for _ in range(2):
            yield jitgrad.ones(1)

    generator = generate()
    assert next(generator).is_inference() and not jitgrad.ones(1).is_inference()
    generator.close()
    assert not tensor_observers


def tensors_in(value):
    values = value if isinstance(value, (tuple, list)) else [value]
    return [v for v in values if isinstance(v, jitgrad.Tensor)]


@pytest.mark.parametrize("name", sorted(OPS))
def test_every_op_inside_and_on_inference_tensors_outside(name):
    for function, args, kwargs in op_samples(name):
        jitgrad.manual_seed(0)
        plain = tensors_in(function(*args, **kwargs))
        with jitgrad.inference_mode():
            copies = [a.clone() if isinstance(a, jitgrad.Tensor) else a for a in args]
            jitgrad.manual_seed(0)
            inside = tensors_in(function(*copies, **kwargs))
        jitgrad.manual_seed(0)
        outside = tensors_in(function(*copies, **kwargs))
        for one, two, three in zip(plain, inside, outside, strict=True):
            np.testing.assert_array_equal(one.numpy(force=True), two.numpy(force=True))
            np.testing.assert_array_equal(one.numpy(force=True), three.numpy(force=True))
            assert two.is_inference() and not two.requires_grad and two.grad_fn is None


def writers():
    """Every method of Tensor that writes in place, with arguments that suit a matrix of ones."""
    x, index = jitgrad.ones(2, 2), jitgrad.zeros(2, 2, dtype=jitgrad.int64)
    row, mask = jitgrad.zeros(2, dtype=jitgrad.int64), jitgrad.ones(2, 2, dtype=jitgrad.bool)
    choices = [(), (0.5,), (x,), (0, 1), (0.1, 0.9), (x, x), (0, index, x), (0, row, x), (0, row, 1.0), (mask, 1.0)]
    choices += [(mask, x), (x, 0.5), (0,), (0, index, 1.0), ((row,), x[0]), (1, 0), ([2, 2],), ([2, 2], [2, 1])]
    names = [n for n in dir(jitgrad.Tensor) if n.endswith("_") and not n.startswith("_")]
    for name in sorted({*names} - {"requires_grad_", "detach_", "share_memory_"}):
        for args in choices:
            try:
                getattr(jitgrad.ones(2, 2), name)(*args)
            except Exception:
                continue
            yield name, args
            break


def test_every_method_that_writes_is_refused_outside():
    tried = []
    for name, args in writers():
        tried.append(name)
        with jitgrad.inference_mode():
            x = jitgrad.ones(2, 2)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
                getattr(x, name)(*args)
        assert x.tolist() == [[1, 1], [1, 1]], name
        with jitgrad.inference_mode():
            getattr(x, name)(*args)
    assert len(tried) >= 130


def test_views_of_inference_tensors_are_not_tracked():
    with jitgrad.inference_mode():
        x = jitgrad.ones(2, 3)
        assert not x.view(-1)._is_view()
    view = x.view(-1)
    assert jitgrad.is_inference(view) and not view._is_view() and view.is_leaf
    assert jitgrad.ones(2, 3).view(-1)._is_view()
