"""A temporal convolution net (Bai, Kolter and Koltun) on the adding problem: dilated, causal, weight-normed."""

import jitgrad as torch
import jitgrad.nn as nn
import jitgrad.nn.functional as F
from jitgrad.nn.utils import weight_norm


class Chomp1d(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return x[:, :, : -self.size].contiguous()


class TemporalBlock(nn.Module):
    def __init__(self, inputs, outputs, kernel, dilation):
        super().__init__()
        padding = (kernel - 1) * dilation
        self.conv1 = weight_norm(nn.Conv1d(inputs, outputs, kernel, padding=padding, dilation=dilation))
        self.conv2 = weight_norm(nn.Conv1d(outputs, outputs, kernel, padding=padding, dilation=dilation))
        self.net = nn.Sequential(self.conv1, Chomp1d(padding), nn.ReLU(), self.conv2, Chomp1d(padding), nn.ReLU())
        self.downsample = nn.Conv1d(inputs, outputs, 1) if inputs != outputs else None
        self.relu = nn.ReLU()

    def forward(self, x):
        out = self.net(x)
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


class TCN(nn.Module):
    def __init__(self, inputs, channels, kernel=3):
        super().__init__()
        sizes = [inputs, *channels]
        blocks = [TemporalBlock(a, b, kernel, 2**i) for i, (a, b) in enumerate(zip(sizes, sizes[1:]))]
        self.network = nn.Sequential(*blocks)
        self.linear = nn.Linear(channels[-1], 1)
        self.linear.weight.data.normal_(0, 0.01)

    def forward(self, x):
        return self.linear(self.network(x)[:, :, -1])


def adding_problem(count, length):
    """Numbers, marks on two of them, and the sum of those."""
    numbers, marks = torch.rand([count, 1, length]), torch.zeros([count, 1, length])
    for i in range(count):
        first, second = torch.randperm(length)[:2].tolist()
        marks[i, 0, first] = marks[i, 0, second] = 1
    return torch.cat((numbers, marks), dim=1), (numbers * marks).sum(dim=2)


def main(steps):
    torch.manual_seed(1111)
    x, y = adding_problem(64, 16)
    model = TCN(2, [8, 8])
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    losses = []
    for step in range(steps):
        i = (step * 16) % 64
        optimizer.zero_grad()
        loss = F.mse_loss(model(x[i : i + 16]), y[i : i + 16])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        losses.append(loss.item())
    return losses
