"""Gaussian process regression: a Cholesky factor of the kernel matrix, LBFGS on the marginal likelihood."""

import math

import jitgrad as torch
from jitgrad.nn import Module, Parameter


class GP(Module):
    def __init__(self):
        super().__init__()
        self.log_length = Parameter(torch.tensor(0.0, dtype=torch.float64))
        self.log_scale = Parameter(torch.zeros((), dtype=torch.float64))
        self.log_noise = Parameter(torch.as_tensor(-2.0).double())

    def kernel(self, a, b):
        squares = torch.cdist(a / self.log_length.exp(), b / self.log_length.exp()).pow(2)
        return self.log_scale.exp() * torch.exp(-0.5 * squares)

    def negative_log_likelihood(self, x, y):
        covariance = self.kernel(x, x) + self.log_noise.exp() * torch.eye(len(x), dtype=x.dtype)
        factor = torch.linalg.cholesky(covariance)
        alpha = torch.cholesky_solve(y.unsqueeze(-1), factor).squeeze(-1)
        return 0.5 * y.dot(alpha) + factor.diagonal().log().sum() + 0.5 * len(x) * math.log(2 * math.pi)

    def predict(self, x, y, new):
        factor = torch.linalg.cholesky(self.kernel(x, x) + self.log_noise.exp() * torch.eye(len(x), dtype=x.dtype))
        cross = self.kernel(x, new)
        mean = cross.mT @ torch.cholesky_solve(y[:, None], factor)
        v = torch.linalg.solve_triangular(factor, cross, upper=False)
        return mean.squeeze(-1), self.log_scale.exp() - (v**2).sum(0)


def main(steps):
    torch.manual_seed(0)
    x = torch.linspace(0, 5, 30, dtype=torch.float64).reshape(-1, 1)
    y = torch.sin(2 * x).squeeze() + 0.1 * torch.randn(30, dtype=torch.float64)
    model = GP()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=1, history_size=5)
    losses = []

    def closure():
        optimizer.zero_grad()
        loss = model.negative_log_likelihood(x, y)
        loss.backward()
        return loss

    for _step in range(steps):
        losses.append(float(optimizer.step(closure)))
    mean, variance = model.predict(x, y, x + 0.05)
    assert mean.shape == variance.shape == (30,) and (variance > -1e-8).all()
    return losses
