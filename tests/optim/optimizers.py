"""Every kind of optimizer, and leaves to move."""

import pytest

import jitgrad as torch
from jitgrad import optim

KINDS = {
    "SGD": (optim.SGD, {"lr": 0.1}),
    "SGD momentum": (optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    "Adam": (optim.Adam, {"lr": 0.1}),
    "AMSGrad": (optim.Adam, {"lr": 0.1, "amsgrad": True}),
    "AdamW": (optim.AdamW, {"lr": 0.1}),
    "RMSprop": (optim.RMSprop, {"lr": 0.1, "momentum": 0.5, "centered": True}),
    "Adagrad": (optim.Adagrad, {"lr": 0.1}),
    "Adadelta": (optim.Adadelta, {"lr": 1.0, "eps": 1e-2}),
    "Adamax": (optim.Adamax, {"lr": 0.1}),
    "NAdam": (optim.NAdam, {"lr": 0.1}),
    "RAdam": (optim.RAdam, {"lr": 0.1}),
    "Rprop": (optim.Rprop, {"lr": 0.1}),
    "ASGD": (optim.ASGD, {"lr": 0.1, "t0": 2}),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def leaf(values, grad=None, dtype=None):
    param = torch.tensor(values, dtype=dtype, requires_grad=True)
    if grad is not None:
        param.grad = torch.tensor(grad, dtype=param.dtype)
    return param


def numbers(tensor):
    return tensor.detach().numpy().copy()
