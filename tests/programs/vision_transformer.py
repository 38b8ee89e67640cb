"""A vision transformer: patches, a class token, checkpointed blocks, mixed images, accumulated gradients, warm-up."""

import copy
import math

import jitgrad as torch
import jitgrad.nn as nn
import jitgrad.nn.functional as F
from jitgrad.utils.checkpoint import checkpoint
from jitgrad.utils.data import DataLoader, TensorDataset, WeightedRandomSampler, random_split
from tests.programs.data import digits


class DropPath(nn.Module):
    """Leaves out whole samples of a branch."""

    def __init__(self, drop_prob=0.0):
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x):
        if self.drop_prob == 0.0 or not self.training:
            return x
        keep = 1 - self.drop_prob
        shape = (x.shape[0],) + (1,) * (x.ndim - 1)
        mask = x.new_empty(shape).bernoulli_(keep)
        return x.div(keep) * mask

    def extra_repr(self):
        return f"drop_prob={self.drop_prob:.3f}"


class Attention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads, self.scale = num_heads, (dim // num_heads) ** -0.5
        self.qkv, self.proj = nn.Linear(dim, dim * 3), nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        attn = ((q @ k.transpose(-2, -1)) * self.scale).softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))


class LayerScale(nn.Module):
    def __init__(self, dim, init_values=1e-1):
        super().__init__()
        self.gamma = nn.Parameter(init_values * torch.ones(dim))

    def forward(self, x):
        return x.mul(self.gamma)


class Block(nn.Module):
    def __init__(self, dim, num_heads, drop_path):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps=1e-6), nn.LayerNorm(dim, eps=1e-6)
        self.attn = Attention(dim, num_heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(approximate="tanh"), nn.Linear(2 * dim, dim))
        self.ls1, self.ls2, self.drop_path = LayerScale(dim), LayerScale(dim), DropPath(drop_path)

    def forward(self, x):
        x = x + self.drop_path(self.ls1(self.attn(self.norm1(x))))
        return x + self.drop_path(self.ls2(self.mlp(self.norm2(x))))


class VisionTransformer(nn.Module):
    def __init__(self, img_size=8, patch_size=2, dim=16, depth=3, num_heads=2, num_classes=10):
        super().__init__()
        self.patch_embed = nn.Conv2d(1, dim, kernel_size=patch_size, stride=patch_size)
        num_patches = (img_size // patch_size) ** 2
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, num_patches + 1, dim))
        rates = [r.item() for r in torch.linspace(0, 0.2, depth)]
        self.blocks = nn.ModuleList([Block(dim, num_heads, rate) for rate in rates])
        self.norm, self.head = nn.LayerNorm(dim, eps=1e-6), nn.Linear(dim, num_classes)
        nn.init.trunc_normal_(self.pos_embed, std=0.02)
        nn.init.normal_(self.cls_token, std=1e-6)
        self.apply(self._init_weights)

    def _init_weights(self, m):
        if isinstance(m, nn.Linear):
            nn.init.trunc_normal_(m.weight, std=0.02)
            if m.bias is not None:
                nn.init.zeros_(m.bias)

    @torch.jit.ignore
    def no_weight_decay(self):
        return {"pos_embed", "cls_token"}

    def forward(self, x):
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), dim=1) + self.pos_embed
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.training else block(x)
        return self.head(self.norm(x)[:, 0])


def param_groups(model, weight_decay):
    skip = model.no_weight_decay()
    decay = [p for n, p in model.named_parameters() if p.ndim > 1 and n not in skip]
    rest = [p for n, p in model.named_parameters() if p.ndim <= 1 or n in skip]
    return [{"params": rest, "weight_decay": 0.0}, {"params": decay, "weight_decay": weight_decay}]


class ModelEma:
    def __init__(self, model, decay):
        self.module, self.decay = copy.deepcopy(model).eval(), decay
        self.module.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for e, m in zip(self.module.state_dict().values(), model.state_dict().values()):
            e.copy_(e * self.decay + m.detach() * (1.0 - self.decay))


def mixup(x, y, alpha, num_classes):
    lam = torch.distributions.Beta(alpha, alpha).sample().item()
    target = F.one_hot(y, num_classes).float()
    return x.mul(lam).add(x.flip(0), alpha=1 - lam), target.lerp(target.flip(0), 1 - lam)


def main(steps):
    torch.manual_seed(42)
    images, labels = digits(160)
    dataset = TensorDataset(torch.from_numpy(images), torch.as_tensor(labels).long())
    train, valid = random_split(dataset, [0.8, 0.2], generator=torch.Generator().manual_seed(0))
    counts = torch.bincount(torch.stack([y for _, y in train]), minlength=10)
    weights = [1.0 / counts[y].item() for _, y in train]
    loader = DataLoader(train, batch_size=16, sampler=WeightedRandomSampler(weights, len(train)), drop_last=True)
    model = VisionTransformer()
    ema, accumulate = ModelEma(model, 0.9), 2
    optimizer = torch.optim.AdamW(param_groups(model, 0.05), lr=3e-3, betas=(0.9, 0.98))
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=4)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=30, eta_min=1e-4)
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, cosine], milestones=[4])
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=8)
    criterion, losses, step = nn.CrossEntropyLoss(label_smoothing=0.05), [], 0
    while len(losses) < steps:
        model.train()
        for x, y in loader:
            x, target = mixup(x, y, 0.4, 10)
            loss = criterion(model(x), target)
            scaler.scale(loss / accumulate).backward()
            step += 1
            if step % accumulate == 0:
                scaler.unscale_(optimizer)
                norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0, error_if_nonfinite=True)
                assert math.isfinite(norm)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad(set_to_none=True)
                scheduler.step()
                ema.update(model)
            losses.append(loss.item())
        with torch.inference_mode():
            x, y = next(iter(DataLoader(valid, batch_size=len(valid))))
            losses.append(F.cross_entropy(ema.module(x), y).item())
    return losses[:steps]
