"""A small network."""

import jitgrad as torch
from jitgrad import nn


class Net(nn.Module):
    """A module with one of everything."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("cache", torch.zeros(2), persistent=False)
        self.nothing = None

    def forward(self, x):
        return self.body(x) * self.scale


NAMES = ["scale", "body.0.weight", "body.0.bias"]
