"""A generator and a discriminator of digits, trained against each other."""

import jitgrad as torch
import jitgrad.nn as nn
import jitgrad.optim as optim
from tests.programs.data import digits


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        torch.nn.init.normal_(m.weight, 0.0, 0.02)
    elif classname.find("BatchNorm") != -1:
        torch.nn.init.normal_(m.weight, 1.0, 0.02)
        torch.nn.init.zeros_(m.bias)


def generator(latent, width):
    return nn.Sequential(
        nn.ConvTranspose2d(latent, 2 * width, 2, 1, 0, bias=False),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(True),
        nn.ConvTranspose2d(2 * width, width, 4, 2, 1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(True),
        nn.ConvTranspose2d(width, 1, 4, 2, 1, bias=False),
        nn.Tanh(),
    )


def discriminator(width):
    return nn.Sequential(
        nn.Conv2d(1, width, 4, 2, 1, bias=False),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(width, 2 * width, 4, 2, 1, bias=False),
        nn.BatchNorm2d(2 * width),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(2 * width, 1, 2, 1, 0, bias=False),
        nn.Sigmoid(),
        nn.Flatten(0),
    )


def main(steps):
    torch.manual_seed(3)
    images = torch.tensor(digits(256)[0]).mul(2).sub_(1).to(torch.get_default_dtype())
    netG, netD = generator(8, 8).apply(weights_init), discriminator(8).apply(weights_init)
    criterion = nn.BCELoss()
    optimizerD = optim.Adam(netD.parameters(), lr=2e-3, betas=(0.5, 0.999))
    optimizerG = optim.Adam(netG.parameters(), lr=2e-3, betas=(0.5, 0.999))
    losses = []
    for _step in range(steps):
        netD.zero_grad()
        real = images[torch.randint(0, len(images), (16,))]
        label = torch.full((16,), 1.0, dtype=real.dtype)
        errD_real = criterion(netD(real), label)
        errD_real.backward()
        fake = netG(torch.randn(16, 8, 1, 1))
        label.fill_(0)
        errD_fake = criterion(netD(fake.detach()), label)
        errD_fake.backward()
        optimizerD.step()

        netG.zero_grad()
        label.fill_(1)
        errG = criterion(netD(fake), label)
        errG.backward()
        optimizerG.step()
        losses.append((errD_real + errD_fake + errG).item())
    return losses
