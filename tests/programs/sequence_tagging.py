"""A tagger: bidirectional LSTM over packed sequences of words, its last states and outputs, and a CRF."""

import re
from collections import Counter

import jitgrad as torch
from jitgrad import nn
from jitgrad.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from jitgrad.utils.data import DataLoader, Dataset
from tests.programs.data import SONNET

PAD = 0


class Lines(Dataset):
    def __init__(self):
        self.lines = [re.findall(r"\w+", line.lower()) for line in SONNET.splitlines()]
        words = Counter(w for line in self.lines for w in line)
        self.stoi = {w: i + 1 for i, (w, _) in enumerate(words.most_common())}

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, i):
        ids = torch.tensor([self.stoi[w] for w in self.lines[i]])
        return ids, torch.tensor([min(len(w), 5) - 1 for w in self.lines[i]])


def collate(batch):
    batch.sort(key=lambda pair: len(pair[0]))
    xs, ys = zip(*batch)
    return pad_sequence(xs, padding_value=PAD), pad_sequence(ys), torch.tensor([len(x) for x in xs])


class CRF(nn.Module):
    def __init__(self, tags):
        super().__init__()
        self.start, self.end = nn.Parameter(torch.empty(tags)), nn.Parameter(torch.empty(tags))
        self.transitions = nn.Parameter(torch.empty(tags, tags))
        for p in self.parameters():
            nn.init.uniform_(p, -0.1, 0.1)

    def forward(self, emissions, tags, mask):
        return (self._score(emissions, tags, mask) - self._normalizer(emissions, mask)).mean().neg()

    def _score(self, emissions, tags, mask):
        steps, rows = tags.shape[0], torch.arange(tags.shape[1])
        score = self.start[tags[0]] + emissions[0, rows, tags[0]]
        for i in range(1, steps):
            score = score + (self.transitions[tags[i - 1], tags[i]] + emissions[i, rows, tags[i]]) * mask[i]
        ends = mask.long().sum(dim=0) - 1
        return score + self.end[tags[ends, rows]]

    def _normalizer(self, emissions, mask):
        score = self.start + emissions[0]
        for i in range(1, emissions.shape[0]):
            step = score.unsqueeze(2) + self.transitions + emissions[i].unsqueeze(1)
            score = torch.where(mask[i].unsqueeze(1), torch.logsumexp(step, dim=1), score)
        return torch.logsumexp(score + self.end, dim=1)

    @torch.no_grad()
    def decode(self, emissions, mask):
        score, history = self.start + emissions[0], []
        for i in range(1, emissions.shape[0]):
            best, where = (score.unsqueeze(2) + self.transitions + emissions[i].unsqueeze(1)).max(dim=1)
            score = torch.where(mask[i].unsqueeze(1), best, score)
            history.append(where)
        paths = []
        for b, end in enumerate((mask.sum(0) - 1).tolist()):
            tag = (score[b] + self.end).argmax().item()
            path = [tag]
            for where in reversed(history[:end]):
                tag = where[b][tag].item()
                path.insert(0, tag)
            paths.append(path)
        return paths


class Tagger(nn.Module):
    def __init__(self, vocab, tags, dim=12, hidden=8):
        super().__init__()
        self.embedding = nn.Embedding(vocab, dim, padding_idx=PAD, max_norm=3.0)
        self.lstm = nn.LSTM(dim, hidden, num_layers=2, bidirectional=True, dropout=0.0)
        self.gate, self.drop = nn.Bilinear(2 * hidden, 2 * hidden, 2 * hidden), nn.Dropout(0.1)
        self.out = nn.utils.parametrizations.weight_norm(nn.Linear(2 * hidden, tags))
        self.crf = CRF(tags)

    def emissions(self, x, lengths):
        packed = pack_padded_sequence(self.embedding(x), lengths, enforce_sorted=False)
        out, (h, _) = self.lstm(packed)
        out, sizes = pad_packed_sequence(out)
        assert torch.equal(sizes, lengths)
        top = torch.cat([h[-2], h[-1]], dim=-1).expand_as(out)
        return self.out(self.drop(out + self.gate(out, top).tanh_()))

    def forward(self, x, y, lengths):
        mask = torch.arange(x.size(0))[:, None] < lengths[None]
        return self.crf(self.emissions(x, lengths), y, mask)


def main(steps):
    torch.manual_seed(11)
    data = Lines()
    loader = DataLoader(data, batch_size=5, shuffle=True, collate_fn=collate)
    model = Tagger(len(data.stoi) + 1, 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    losses = []
    while len(losses) < steps:
        model.train()
        epoch = []
        for x, y, lengths in loader:
            model.zero_grad()
            loss = model(x, y, lengths)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0, norm_type=float("inf"))
            optimizer.step()
            epoch.append(loss.item())
        model.eval()
        x, y, lengths = collate([data[i] for i in range(4)])
        mask = torch.arange(x.size(0))[:, None] < lengths[None]
        found = model.crf.decode(model.emissions(x, lengths), mask)
        right = sum(t == w for path, tags in zip(found, y.t().tolist()) for t, w in zip(path, tags))
        plateau.step(sum(epoch))
        losses += [*epoch, right / lengths.sum().item()]
    return losses[:steps]
