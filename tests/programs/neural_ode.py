"""A neural ordinary differential equation fitted to a spiral; gradients by the adjoint equation, solved backwards."""

import jitgrad as torch
import jitgrad.nn as nn


def runge_kutta(f, y, t0, t1):
    """One step of order four; y is a tuple of tensors."""
    h = t1 - t0
    add = lambda y, k, c: tuple(a + c * b for a, b in zip(y, k))
    k1 = f(t0, y)
    k2 = f(t0 + h / 2, add(y, k1, h / 2))
    k3 = f(t0 + h / 2, add(y, k2, h / 2))
    k4 = f(t1, add(y, k3, h))
    return tuple(a + h / 6 * (b + 2 * c + 2 * d + e) for a, b, c, d, e in zip(y, k1, k2, k3, k4))


def solve(f, y, times):
    states = [y]
    for t0, t1 in zip(times[:-1], times[1:]):
        states.append(runge_kutta(f, states[-1], t0, t1))
    return states


class OdeintAdjoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, func, y0, times, *params):
        ctx.func = func
        with torch.no_grad():
            ys = torch.stack([s[0] for s in solve(lambda t, y: (func(t, y[0]),), (y0,), times)])
        ctx.save_for_backward(times, ys, *params)
        return ys

    @staticmethod
    def backward(ctx, grad_ys):
        times, ys, *params = ctx.saved_tensors

        def augmented(t, state):
            y, adjoint = state[0], state[1]
            with torch.enable_grad():
                y = y.detach().requires_grad_(True)
                out = ctx.func(t, y)
                grads = torch.autograd.grad(out, (y, *params), -adjoint, allow_unused=True)
            grads = [torch.zeros_like(p) if g is None else g for p, g in zip((y, *params), grads)]
            return (out.detach(), *grads)

        with torch.no_grad():
            adjoint = grad_ys[-1]
            sums = [torch.zeros_like(p) for p in params]
            for i in range(len(times) - 1, 0, -1):
                state = runge_kutta(augmented, (ys[i], adjoint, *sums), times[i], times[i - 1])
                adjoint, sums = state[1] + grad_ys[i - 1], list(state[2:])
        return None, adjoint, None, *sums


class ODEFunc(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
        for m in self.net.modules():
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, mean=0, std=0.1)
                nn.init.constant_(m.bias, val=0)

    def forward(self, t, y):
        return self.net(y**3)


def main(steps):
    torch.manual_seed(0)
    times = torch.linspace(0.0, 1.0, 6)
    spiral = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
    with torch.no_grad():
        start = torch.randn(8, 2)
        true = torch.stack([s[0] for s in solve(lambda t, y: (torch.mm(y[0] ** 3, spiral),), (start,), times)])
    func = ODEFunc()
    optimizer = torch.optim.RMSprop(func.parameters(), lr=1e-3)
    losses = []
    for _step in range(steps):
        optimizer.zero_grad()
        predicted = OdeintAdjoint.apply(func, start, times, *func.parameters())
        loss = torch.mean(torch.abs(predicted - true))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
