"""A variational autoencoder of digits: reparameterised samples, binary cross entropy and a divergence."""

import jitgrad as torch
import jitgrad.utils.data
from jitgrad import nn, optim
from jitgrad.nn import functional as F
from tests.programs.data import digits


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 32)
        self.fc21 = nn.Linear(32, 4)
        self.fc22 = nn.Linear(32, 4)
        self.fc3 = nn.Linear(4, 32)
        self.fc4 = nn.Linear(32, 64)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 64))
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    bce = F.binary_cross_entropy(recon_x, x.view(-1, 64), reduction="sum")
    return bce - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())


def main(steps):
    torch.manual_seed(1)
    device = torch.device("cpu")
    images, _ = digits(640)
    loader = torch.utils.data.DataLoader(torch.from_numpy(images), batch_size=64, shuffle=True, drop_last=True)
    model = VAE().to(device)
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    while len(losses) < steps:
        for x in loader:
            x = x.to(device)
            optimizer.zero_grad()
            loss = loss_function(*(lambda y, m, v: (y, x, m, v))(*model(x)))
            loss.backward()
            optimizer.step()
            losses.append(loss.item() / len(x))
    with torch.no_grad():
        sample = model.decode(torch.randn(5, 4).to(device)).cpu()
    assert sample.shape == (5, 64) and 0 <= sample.min() <= sample.max() <= 1
    return losses[:steps]
