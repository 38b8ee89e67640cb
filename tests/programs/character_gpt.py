"""A character-level GPT: attention written out, shared embedding, AdamW with decay for matrices only."""

import math
from dataclasses import dataclass

import jitgrad as torch
import jitgrad.nn as nn
from jitgrad.nn import functional as F
from tests.programs.data import SONNET


@dataclass
class Config:
    block: int = 16
    vocabulary: int = 64
    layers: int = 2
    heads: int = 4
    width: int = 32
    dropout: float = 0.0


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        assert config.width % config.heads == 0
        self.attend = nn.Linear(config.width, 3 * config.width)
        self.project = nn.Linear(config.width, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.heads = config.heads
        mask = torch.tril(torch.ones(config.block, config.block))
        self.register_buffer("mask", mask.view(1, 1, config.block, config.block), persistent=False)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.attend(x).split(C, dim=2)
        q, k, v = (t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in (q, k, v))
        weights = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        weights = weights.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        y = self.dropout(F.softmax(weights, dim=-1)) @ v
        return self.project(y.transpose(1, 2).contiguous().view(B, T, C))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(config.width), nn.LayerNorm(config.width)
        self.attention = CausalSelfAttention(config)
        self.mlp = nn.ModuleDict({
            "up": nn.Linear(config.width, 4 * config.width), "act": nn.GELU(approximate="tanh"),
            "down": nn.Linear(4 * config.width, config.width), "dropout": nn.Dropout(config.dropout),
        })  # fmt: skip

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        m = self.mlp
        return x + m.dropout(m.down(m.act(m.up(self.norm2(x)))))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.transformer = nn.ModuleDict({
            "tokens": nn.Embedding(config.vocabulary, config.width),
            "places": nn.Embedding(config.block, config.width),
            "blocks": nn.ModuleList([Block(config) for _ in range(config.layers)]),
            "norm": nn.LayerNorm(config.width),
        })  # fmt: skip
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.transformer.tokens.weight = self.head.weight
        self.apply(self.initialise)
        for name, p in self.named_parameters():
            if name.endswith("project.weight"):
                torch.nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * config.layers))

    def initialise(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)
            if getattr(module, "bias", None) is not None:
                torch.nn.init.zeros_(module.bias)

    def optimizer(self, lr):
        grouped = {True: [], False: []}
        for p in self.parameters():
            grouped[p.dim() >= 2].append(p)
        groups = [{"params": grouped[True], "weight_decay": 0.1}, {"params": grouped[False], "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95))

    def forward(self, tokens, targets=None):
        T = tokens.shape[1]
        places = torch.arange(0, T, dtype=torch.long, device=tokens.device).unsqueeze(0)
        x = self.transformer.tokens(tokens) + self.transformer.places(places)
        for block in self.transformer.blocks:
            x = block(x)
        logits = self.head(self.transformer.norm(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)

    @torch.no_grad()
    def generate(self, tokens, count, temperature=1.0, top_k=None):
        for _ in range(count):
            logits, _ = self(tokens[:, -self.config.block :])
            logits = logits[:, -1, :] / temperature
            if top_k is not None:
                v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
                logits[logits < v[:, [-1]]] = -float("Inf")
            tokens = torch.cat((tokens, torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)), dim=1)
        return tokens


def main(steps):
    torch.manual_seed(1337)
    letters = sorted(set(SONNET))
    data = torch.tensor([letters.index(c) for c in SONNET], dtype=torch.long)
    model = GPT(Config(vocabulary=len(letters)))
    optimizer = model.optimizer(lr=3e-3)
    losses = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(1.0, (step + 1) / 10)
        starts = torch.randint(len(data) - model.config.block, (8,))
        x = torch.stack([data[i : i + model.config.block] for i in starts])
        y = torch.stack([data[i + 1 : i + 1 + model.config.block] for i in starts])
        _, loss = model(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    written = model.generate(data[:4].unsqueeze(0), 12, temperature=0.8, top_k=10)
    assert written.shape == (1, 16) and written.max() < len(letters)
    return losses
