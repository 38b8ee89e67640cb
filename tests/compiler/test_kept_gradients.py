"""What a program does with a gradient between two calls stays with that gradient: the next one is as new."""

import numpy as np
import pytest

import jitgrad as torch


class Marked(torch.Tensor):
    pass


CHANGES = {
    "data": lambda grad: setattr(grad, "data", grad.data.clamp(-1.0, 1.0)),
    "other_data": lambda grad: setattr(grad, "data", torch.tensor([9.0])),
    "resized": lambda grad: grad.resize_(1),
    "enlarged": lambda grad: grad.resize_(50),
    "unsqueezed": lambda grad: grad.unsqueeze_(0),
    "transposed": lambda grad: grad.t_(),
    "written": lambda grad: grad.mul_(2.0),
    "written_often": lambda grad: [grad.mul_(2.0) for _ in range(300)],
    "requires_grad": lambda grad: grad.requires_grad_(),
    "hook": lambda grad: grad.requires_grad_().register_hook(lambda g: g * 2),
    "gradient": lambda grad: setattr(grad, "grad", torch.ones_like(grad)),
    "attribute": lambda grad: setattr(grad, "scale", 2.0),
    "attributes": lambda grad: setattr(grad, "__dict__", dict(grad.__dict__)),
    "class": lambda grad: setattr(grad, "__class__", Marked),
    "nothing": lambda grad: None,
}


def step_of(function, inside):
    w = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)

    def step():
        w.grad = None
        function(w).backward()
        if inside:
            w.grad.mul_(0.5)

    return w, step


def left_in(w):
    grad = w.grad
    own = set(vars(grad)) - {"_counter"}
    return grad.tolist(), grad.shape, grad.stride(), grad._version, grad.requires_grad, grad.grad, type(grad), own


@pytest.mark.parametrize("inside", [False, True], ids=["unwritten", "written"])
@pytest.mark.parametrize("name", CHANGES)
def test_the_next_gradient_is_as_new(name, inside):
    change = CHANGES[name]
    w, step = step_of(lambda w: (w * w).sum(), inside)
    other, compiled = step_of(lambda w: (w * w).sum(), inside)
    compiled, others = torch.compile(compiled), []
    for _ in range(6):
        step()
        compiled()
        assert left_in(other) == left_in(w)
        change(w.grad)
        change(other.grad)
        # What is freed now is soon somebody else's.
        others += [np.zeros(6, np.float32) for _ in range(10)]
    assert not any(made.any() for made in others)
    assert len(compiled._variants) == 1


def test_a_gradient_that_nobody_touches_is_written_to_again():
    w, step = step_of(lambda w: (w * w).sum(), False)
    compiled = torch.compile(step)
    for _ in range(3):
        compiled()
    first = w.grad
    place = first._data.ctypes.data, id(first)
    del first
    compiled()
    assert (w.grad._data.ctypes.data, id(w.grad)) == place
