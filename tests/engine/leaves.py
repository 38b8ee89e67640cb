"""Leaves to differentiate."""

import jitgrad as torch


def leaf(*values):
    return torch.tensor(list(values), requires_grad=True)
