"""Denoising diffusion of images by a small U-Net: embeddings of times, skips, an average of weights, sampling."""

import math

import jitgrad as torch
import jitgrad.nn.functional as F
from jitgrad import nn
from jitgrad.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from tests.programs.data import digits


def timestep_embedding(timesteps, dim, max_period=10000):
    half = dim // 2
    freqs = torch.exp(-math.log(max_period) * torch.arange(start=0, end=half, dtype=torch.float32) / half)
    args = timesteps[:, None].float() * freqs[None]
    return torch.cat([torch.cos(args), torch.sin(args)], dim=-1)


class ResBlock(nn.Module):
    def __init__(self, inputs, outputs, emb):
        super().__init__()
        self.in_layers = nn.Sequential(nn.GroupNorm(2, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1))
        self.emb_layers = nn.Sequential(nn.SiLU(), nn.Linear(emb, 2 * outputs))
        self.out_norm = nn.GroupNorm(2, outputs)
        self.out_rest = nn.Sequential(nn.SiLU(), nn.Dropout2d(0.1), nn.Conv2d(outputs, outputs, 3, padding="same"))
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x, emb):
        h = self.in_layers(x)
        scale, shift = self.emb_layers(emb)[..., None, None].chunk(2, dim=1)
        h = self.out_rest(torch.addcmul(shift, self.out_norm(h), scale + 1))
        return self.skip(x) + h


class UNet(nn.Module):
    def __init__(self, width=8, emb=16):
        super().__init__()
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.stem = nn.Conv2d(1, width, 3, padding=1, padding_mode="circular")
        self.down = nn.ModuleList([ResBlock(width, width, emb), ResBlock(width, 2 * width, emb)])
        self.pool = nn.ModuleDict({"0": nn.Conv2d(width, width, 3, stride=2, padding=1), "1": nn.MaxPool2d(2)})
        self.middle = ResBlock(2 * width, 2 * width, emb)
        self.attn = nn.MultiheadAttention(2 * width, 2, batch_first=True)
        self.up = nn.ModuleList([ResBlock(4 * width, width, emb), ResBlock(2 * width, width, emb)])
        self.raise_ = nn.ModuleList([
            nn.ConvTranspose2d(2 * width, 2 * width, 2, stride=2), nn.Upsample(scale_factor=2, mode="nearest"),
        ])  # fmt: skip
        self.out = nn.Sequential(nn.GroupNorm(2, width), nn.SiLU(), nn.Conv2d(width, 1, 3, padding=1))
        nn.init.zeros_(self.out[-1].weight)
        nn.init.zeros_(self.out[-1].bias)

    def forward(self, x, t):
        emb, skips = self.time(timestep_embedding(t, self.width)), []
        h = self.stem(x)
        for i, block in enumerate(self.down):
            h = block(h, emb)
            skips.append(h)
            h = self.pool[str(i)](h)
        h = self.middle(h, emb)
        b, c, height, width = h.shape
        tokens = h.view(b, c, -1).swapaxes(1, 2)
        h = h + self.attn(tokens, tokens, tokens, need_weights=False)[0].mT.reshape(b, c, height, width)
        for block, lift in zip(self.up, self.raise_):
            h = block(torch.cat([lift(h), skips.pop()], dim=1), emb)
        return self.out(h)


class Diffusion(nn.Module):
    def __init__(self, model, timesteps=50):
        super().__init__()
        self.model, self.timesteps = model, timesteps
        s = torch.linspace(0, timesteps, timesteps + 1, dtype=torch.float64) / timesteps
        bar = torch.cos((s + 0.008) / 1.008 * math.pi * 0.5) ** 2
        betas = (1 - bar[1:] / bar[:-1]).clip(0, 0.999)
        bars = torch.cumprod(1.0 - betas, dim=0)
        self.register_buffer("betas", betas.to(torch.float32))
        self.register_buffer("bars", bars.to(torch.float32))
        self.register_buffer("before", F.pad(bars[:-1], (1, 0), value=1.0).float(), persistent=False)

    def loss(self, x0, weight=True):
        t = torch.randint(0, self.timesteps, (x0.shape[0],)).long()
        noise = torch.randn_like(x0)
        bar = self.bars.gather(0, t).reshape(-1, 1, 1, 1)
        found = self.model(bar.sqrt() * x0 + (1.0 - bar).sqrt() * noise, t)
        snr = (bar / (1 - bar)).flatten()
        loss = F.mse_loss(found, noise, reduction="none").mean(dim=list(range(1, x0.ndim)))
        return (loss * torch.clamp(snr, max=5.0) / snr).mean() if weight else loss.mean()

    @torch.no_grad()
    def sample(self, count, every=10):
        x = torch.randn(count, 1, 8, 8)
        for i in reversed(range(0, self.timesteps, every)):
            t = torch.full((count,), i, dtype=torch.long)
            bar, before, beta = self.bars[i], self.before[i], self.betas[i]
            start = ((x - (1 - bar).sqrt() * self.model(x, t)) * torch.rsqrt(bar)).clamp_(-1, 1)
            mean = beta * before.sqrt() / (1 - bar) * start + (1 - before) * (1 - beta).sqrt() / (1 - bar) * x
            x = mean + (beta * (1 - before) / (1 - bar)).clamp(min=1e-20).sqrt() * torch.randn_like(x) if i else mean
        return x


def main(steps):
    torch.manual_seed(3)
    images = torch.from_numpy(digits(96)[0]) * 2 - 1
    diffusion = Diffusion(UNet())
    ema = AveragedModel(diffusion, multi_avg_fn=get_ema_multi_avg_fn(0.95), use_buffers=True)
    optimizer = torch.optim.NAdam(diffusion.parameters(), lr=2e-3, decoupled_weight_decay=True, weight_decay=1e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / 5, 1.0))
    losses = []
    while len(losses) < steps:
        for batch in torch.randperm(len(images)).split(16):
            optimizer.zero_grad()
            loss = diffusion.loss(images[batch])
            loss.backward()
            torch.nn.utils.clip_grad_value_(diffusion.parameters(), 0.5)
            optimizer.step()
            scheduler.step()
            ema.update_parameters(diffusion)
            losses.append(loss.item())
        ema.eval()
        losses.append(ema.module.sample(2).square().mean().item())
    return losses[:steps]
