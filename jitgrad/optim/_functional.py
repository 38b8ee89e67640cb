"""PyTorch's path for the functions behind optimisers."""

from jitgrad.optim.adadelta import adadelta
from jitgrad.optim.adagrad import adagrad
from jitgrad.optim.adam import adam
from jitgrad.optim.adamax import adamax
from jitgrad.optim.adamw import adamw
from jitgrad.optim.asgd import asgd
from jitgrad.optim.nadam import nadam
from jitgrad.optim.radam import radam
from jitgrad.optim.rmsprop import rmsprop
from jitgrad.optim.rprop import rprop
from jitgrad.optim.sgd import sgd

__all__ = [
    "adadelta", "adagrad", "adam", "adamax", "adamw", "asgd", "nadam", "radam", "rmsprop", "rprop", "sgd",
]  # fmt: skip
