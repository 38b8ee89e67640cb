"""Optimisers: each step is one fused kernel over all parameters of a dtype."""

from jitgrad.optim import lr_scheduler
from jitgrad.optim.adam import Adam, AdamW
from jitgrad.optim.optimizer import Optimizer
from jitgrad.optim.rmsprop import Adagrad, RMSprop
from jitgrad.optim.sgd import SGD

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop", "lr_scheduler"]
