"""A normalising flow of affine couplings (Dinh et al.) fitted to two moons by maximum likelihood."""

import jitgrad as torch
import jitgrad.distributions as distributions
import jitgrad.nn as nn
from tests.programs.data import two_moons


class Coupling(nn.Module):
    def __init__(self, mask, hidden=16):
        super().__init__()
        self.register_buffer("mask", mask)
        net = lambda: nn.Sequential(nn.Linear(2, hidden), nn.LeakyReLU(), nn.Linear(hidden, 2))
        self.scale, self.shift = net(), net()

    def forward(self, x):
        kept = x * self.mask
        s, t = torch.tanh(self.scale(kept)) * (1 - self.mask), self.shift(kept) * (1 - self.mask)
        return kept + (1 - self.mask) * (x - t) * torch.exp(-s), -s.sum(dim=1)

    def inverse(self, z):
        kept = z * self.mask
        s, t = torch.tanh(self.scale(kept)) * (1 - self.mask), self.shift(kept) * (1 - self.mask)
        return kept + (1 - self.mask) * (z * torch.exp(s) + t)


class Flow(nn.Module):
    def __init__(self, layers=4):
        super().__init__()
        masks = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).repeat(layers // 2, 1)
        self.layers = nn.ModuleList(Coupling(m) for m in masks)
        self.prior = distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))

    def log_prob(self, x):
        total = x.new_zeros(x.shape[0])
        for layer in reversed(self.layers):
            x, log_det = layer(x)
            total = total + log_det
        return self.prior.log_prob(x) + total

    @torch.no_grad()
    def sample(self, count):
        z = self.prior.sample((count,))
        for layer in self.layers:
            z = layer.inverse(z)
        return z


def main(steps):
    torch.manual_seed(0)
    points = torch.from_numpy(two_moons(256))
    flow = Flow()
    optimizer = torch.optim.Adam([p for p in flow.parameters() if p.requires_grad], lr=1e-3)
    losses = []
    for _step in range(steps):
        loss = -flow.log_prob(points[torch.randint(256, (64,))]).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward(retain_graph=True)
        optimizer.step()
        losses.append(loss.item())
    x = flow.sample(7)
    y = x
    for layer in reversed(flow.layers):
        y = layer(y)[0]
    for layer in flow.layers:
        y = layer.inverse(y)
    assert torch.allclose(x, y, atol=1e-4)
    return losses
