"""A Wasserstein GAN with gradient penalty: the critic's gradient at mixtures of images is itself differentiated."""

import jitgrad as torch
import jitgrad.autograd as autograd
import jitgrad.nn as nn
from jitgrad.nn.utils.parametrizations import spectral_norm
from tests.programs.data import digits


class Upsampled(nn.Module):
    """A residual block that doubles the image."""

    def __init__(self, in_ch, out_ch):
        super().__init__()
        self.up = nn.ConvTranspose2d(in_ch, out_ch, 4, stride=2, padding=1)
        self.norm = nn.InstanceNorm2d(out_ch, affine=True)
        self.skip = nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False),
                                  nn.Conv2d(in_ch, out_ch, 1))  # fmt: skip

    def forward(self, x):
        return nn.functional.softplus(self.norm(self.up(x))) + self.skip(x)


class Generator(nn.Module):
    def __init__(self, latent=8):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(latent, 64), nn.Unflatten(1, (16, 2, 2)))
        self.net = nn.Sequential(Upsampled(16, 8), Upsampled(8, 8), nn.ReflectionPad2d(1), nn.Conv2d(8, 1, 3))

    def forward(self, z):
        return torch.sigmoid(self.net(self.fc(z)))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.SiLU(), nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.GroupNorm(4, 16),
            nn.ELU(), nn.Conv2d(16, 16, 3, padding=1, groups=4), nn.Mish(), nn.AvgPool2d(2), nn.Flatten(),
        )  # fmt: skip
        self.out = spectral_norm(nn.Linear(64, 1))

    def forward(self, x):
        return self.out(self.net(x)).squeeze(1)


def compute_gradient_penalty(critic, real, fake):
    alpha = torch.rand(real.size(0), 1, 1, 1)
    mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    score = critic(mixed)
    gradients = autograd.grad(outputs=score, inputs=mixed, grad_outputs=torch.ones_like(score), create_graph=True,
                              retain_graph=True, only_inputs=True)[0]  # fmt: skip
    return ((gradients.flatten(1).norm(2, dim=1) - 1) ** 2).mean()


def main(steps):
    torch.manual_seed(7)
    images = torch.from_numpy(digits(128)[0])
    generator, critic = Generator(), Critic()
    opt_g = torch.optim.RMSprop(generator.parameters(), lr=5e-4)
    opt_c = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))
    losses = []
    for step in range(steps):
        real = images[torch.randint(len(images), (16,))]
        opt_c.zero_grad()
        with torch.no_grad():
            fake = generator(torch.randn(16, 8))
        loss = critic(fake).mean() - critic(real).mean() + 10.0 * compute_gradient_penalty(critic, real, fake)
        loss.backward()
        opt_c.step()
        losses.append(loss.item())
        if step % 5 == 4:
            for p in critic.parameters():
                p.requires_grad_(False)
            opt_g.zero_grad()
            (-critic(generator(torch.randn(16, 8))).mean()).backward()
            opt_g.step()
            for p in critic.parameters():
                p.requires_grad_(True)
    return losses
