"""An encoder-decoder Transformer that learns to turn short sequences round; its warm-up is a lambda."""

import math

import jitgrad as torch
from jitgrad import nn
from jitgrad.optim import Adam
from jitgrad.optim.lr_scheduler import LambdaLR

PAD, BEGIN, END, WORDS = 0, 1, 2, 12


class PositionalEncoding(nn.Module):
    def __init__(self, width, longest=32):
        super().__init__()
        position = torch.arange(longest).unsqueeze(1)
        frequency = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        table = torch.zeros(longest, 1, width)
        table[:, 0, 0::2] = torch.sin(position * frequency)
        table[:, 0, 1::2] = torch.cos(position * frequency)
        self.register_buffer("table", table)

    def forward(self, x):
        return x + self.table[: x.size(0)]


class Translator(nn.Module):
    def __init__(self, width=16, heads=2):
        super().__init__()
        self.embed = nn.Embedding(WORDS, width, padding_idx=PAD)
        self.places = PositionalEncoding(width)
        self.transformer = nn.Transformer(width, heads, 1, 1, dim_feedforward=32, dropout=0.0)
        self.out = nn.Linear(width, WORDS)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.size(0))
        padding = (source == PAD).transpose(0, 1)
        x = self.places(self.embed(source) * math.sqrt(16))
        y = self.places(self.embed(target) * math.sqrt(16))
        out = self.transformer(
            x, y, tgt_mask=mask, src_key_padding_mask=padding,
            tgt_key_padding_mask=(target == PAD).transpose(0, 1).float().masked_fill(
                (target == PAD).transpose(0, 1), float("-inf")),
            memory_key_padding_mask=padding,
        )  # fmt: skip
        return self.out(out)


def batch(count):
    """Sequences of 3 to 6 words and the same words backwards, as columns."""
    lengths = torch.randint(3, 7, (count,)).tolist()
    rows = [torch.randint(3, WORDS, (n,)) for n in lengths]
    begin, end = torch.tensor([BEGIN]), torch.tensor([END])
    source = nn.utils.rnn.pad_sequence([torch.cat([r, end]) for r in rows], padding_value=PAD)
    target = nn.utils.rnn.pad_sequence([torch.cat([begin, r.flip(0), end]) for r in rows], padding_value=PAD)
    return source, target


def main(steps):
    torch.manual_seed(0)
    model = Translator()
    optimizer = Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    scheduler = LambdaLR(optimizer, lambda step: 16**-0.5 * min((step + 1) ** -0.5, (step + 1) * 20**-1.5) * 0.1)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    losses = []
    for _step in range(steps):
        source, target = batch(8)
        logits = model(source, target[:-1, :])
        loss = criterion(logits.reshape(-1, logits.shape[-1]), target[1:, :].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return losses
