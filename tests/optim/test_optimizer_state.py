"""Optimizers: their state, and arguments that are refused."""

import copy
import pickle

import pytest

import jitgrad as torch
from jitgrad import optim

from .optimizers import KINDS, every_kind, leaf, numbers

# -- state --------------------------------------------------------------------------------------------


@every_kind
def test_a_loaded_state_goes_on_as_the_original(kind):
    make, options = KINDS[kind]
    a = leaf([1.0, 2.0], [0.5, -1.0])
    first = make([a], **options)
    first.step()
    first.step()
    b = a.detach().clone().requires_grad_()
    second = make([b], **options)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for optimizer, p in ((first, a), (second, b)):
        p.grad = torch.tensor([1.0, 1.0])
        optimizer.step()
    assert (numbers(a) == numbers(b)).all()
    assert second.state_dict()["param_groups"] == first.state_dict()["param_groups"]


def test_state_is_cast_to_the_parameter_but_not_the_counter():
    a, b = leaf([1.0], [1.0]), leaf([1.0], [1.0], torch.float64)
    first, second = optim.Adam([a]), optim.Adam([b])
    first.step()
    second.load_state_dict(first.state_dict())
    state = second.state[b]
    assert state["exp_avg"].dtype is torch.float64 and state["step"].dtype is torch.float32
    second.step()
    assert state["step"].item() == 2


def test_pickle_keeps_state_and_groups():
    p = leaf([1.0], [1.0])
    adam = optim.Adam([p], lr=0.5)
    adam.step()
    again = pickle.loads(pickle.dumps(adam))
    q = again.param_groups[0]["params"][0]
    assert again.state[q]["step"].item() == 1 and again.defaults["lr"] == 0.5
    q.grad = torch.ones(1)
    again.step()


def test_foreign_state_is_refused_before_anything_is_written():
    p = leaf([1.0, 2.0], [1.0, 1.0])
    adam = optim.Adam([p])
    adam.step()
    adam.state[p]["exp_avg"] = torch.zeros(3)
    before = numbers(p)
    with pytest.raises(RuntimeError, match=r"shape \[2\].*gradient or state of shape \[3\]"):
        adam.step()
    assert (numbers(p) == before).all()


# -- bad input ----------------------------------------------------------------------------------------

BAD = [
    (lambda: optim.SGD([]), ValueError, "optimizer got an empty parameter list"),
    (lambda: optim.SGD(leaf([1.0])), TypeError, "should be an iterable of Tensors or dicts"),
    (lambda: optim.SGD([1.0]), TypeError, "can only optimize Tensors, but one of the params is float"),
    (lambda: optim.SGD([leaf([1.0]) * 2]), ValueError, "can't optimize a non-leaf Tensor"),
    (lambda: optim.SGD([leaf([1.0])], lr=-1), ValueError, "Invalid learning rate: -1"),
    (lambda: optim.SGD([leaf([1.0])], momentum=-1), ValueError, "Invalid momentum value: -1"),
    (lambda: optim.SGD([leaf([1.0])], nesterov=True), ValueError, "Nesterov momentum requires"),
    (lambda: optim.Adam([leaf([1.0])], betas=(1.0, 0.9)), ValueError, "beta parameter at index 0: 1.0"),
    (lambda: optim.Adam([leaf([1.0])], eps=-1), ValueError, "Invalid epsilon value: -1"),
    (lambda: optim.AdamW([leaf([1.0])], weight_decay=-1), ValueError, "Invalid weight_decay value: -1"),
    (lambda: optim.SGD([{"params": {leaf([1.0])}}]), TypeError, "ordering of tensors in sets"),
]


@pytest.mark.parametrize(("make", "error", "text"), BAD)
def test_bad_arguments(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_a_parameter_belongs_to_one_group():
    p = leaf([1.0])
    sgd = optim.SGD([p], lr=0.1)
    with pytest.raises(ValueError, match="some parameters appear in more than one parameter group"):
        sgd.add_param_group({"params": [p]})
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optim.SGD([p, p], lr=0.1)


def test_state_of_another_model_is_refused():
    one, two = leaf([1.0]), leaf([2.0])
    state = optim.Adam([one]).state_dict()
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        optim.Adam([one, two]).load_state_dict(state)
    with pytest.raises(ValueError, match="different number of parameter groups"):
        optim.Adam([{"params": [one]}, {"params": [two]}]).load_state_dict(state)


@every_kind
def test_forgotten_and_absent_state_starts_afresh(kind):
    """state.clear(), a state_dict without state, a group that comes later: each as a new optimizer's first step."""
    make, options = KINDS[kind]
    fresh = leaf([1.0, 2.0], grad=[0.5, -1.0])
    make([fresh], **options).step()
    for forget in ("clear", "load", "add"):
        param = leaf([1.0, 2.0], grad=[0.5, -1.0])
        optimizer = make([leaf([3.0], grad=[1.0])] if forget == "add" else [param], **options)
        if forget == "add":
            optimizer.step()
            optimizer.add_param_group({"params": [param]})
        elif forget == "clear":
            optimizer.state.clear()
        else:
            optimizer.load_state_dict({**optimizer.state_dict(), "state": {}})
        optimizer.step()
        assert numbers(param).tolist() == numbers(fresh).tolist()


@pytest.mark.parametrize("kind", ["Adam", "AMSGrad", "AdamW", "RMSprop", "Adagrad"])
def test_steps_counted_in_numbers_are_loaded_as_tensors(kind):
    """PyTorch before 1.12 saved them so."""
    make, options = KINDS[kind]
    param, other = leaf([1.0], grad=[0.5]), leaf([1.0], grad=[0.5])
    first, second = make([param], **options), make([other], **options)
    first.step()
    saved = copy.deepcopy(first.state_dict())
    saved["state"][0]["step"] = 1
    second.load_state_dict(saved)
    assert second.state[other]["step"].item() == 1
    with torch.no_grad():
        other.copy_(param)
    first.step()
    second.step()
    assert other.item() == param.item()
    second.state[other]["step"] = 3
    with pytest.raises(RuntimeError, match="`state_steps` argument must contain a list of singleton tensors"):
        second.step()
