"""LeNet on digits: convolutions, pooling, a learning rate that falls, accuracy on held-out images."""

import jitgrad as torch
import jitgrad.nn as nn
import jitgrad.nn.functional as F
import jitgrad.optim as optim
from jitgrad.optim.lr_scheduler import StepLR
from jitgrad.utils.data import DataLoader, TensorDataset
from tests.programs.data import digits


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 3)
        self.fc1 = nn.Linear(16 * 2 * 2, 40)
        self.fc2 = nn.Linear(40, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), (2, 2))
        x = torch.flatten(x, 1)
        return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)


def main(steps):
    torch.manual_seed(0)
    images, labels = map(torch.from_numpy, digits(1000, pad=2))
    loader = DataLoader(TensorDataset(images[:800], labels[:800]), batch_size=32, shuffle=True)
    model = Net()
    optimizer = optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
    losses = []
    while len(losses) < steps:
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.nll_loss(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
    model.eval()
    with torch.no_grad():
        right = model(images[800:]).argmax(dim=1, keepdim=True).eq(labels[800:].view(-1, 1)).sum().item()
    assert 0 <= right <= 200
    return losses[:steps]
