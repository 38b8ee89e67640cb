"""Stochastic variational inference: a regression with unknown noise, its posterior as normal and log-normal."""

import jitgrad as torch
import jitgrad.distributions as dist
from jitgrad import nn
from jitgrad.distributions import constraints, kl_divergence, transform_to


class Guide(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.location = nn.Parameter(torch.zeros(size))
        self.raw_scale = nn.Parameter(torch.zeros(size))
        self.noise_location = nn.Parameter(torch.tensor(0.0))
        self.raw_noise_scale = nn.Parameter(torch.tensor(-1.0))

    def weights(self):
        scale = transform_to(constraints.positive)(self.raw_scale)
        return dist.Independent(dist.Normal(self.location, scale), 1)

    def noise(self):
        return dist.LogNormal(self.noise_location, torch.nn.functional.softplus(self.raw_noise_scale))


def elbo(guide, x, y, particles):
    weights, noise = guide.weights(), guide.noise()
    w, sigma = weights.rsample((particles,)), noise.rsample((particles,))
    likelihood = dist.Normal(w @ x.T, sigma.unsqueeze(-1)).log_prob(y).sum(-1)
    prior = dist.Independent(dist.Normal(torch.zeros_like(guide.location), 1.0), 1)
    divergence = kl_divergence(weights, prior)
    noise_part = noise.log_prob(sigma) - dist.HalfNormal(1.0).log_prob(sigma)
    return (likelihood - noise_part).mean() - divergence


def main(steps):
    torch.manual_seed(0)
    x = torch.randn(40, 3)
    y = x @ torch.tensor([1.0, -2.0, 0.5]) + 0.3 * torch.randn(40)
    guide = Guide(3)
    optimizer = torch.optim.Adam(guide.parameters(), lr=0.02)
    losses = []
    for _step in range(steps):
        optimizer.zero_grad()
        loss = -elbo(guide, x, y, particles=4)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
