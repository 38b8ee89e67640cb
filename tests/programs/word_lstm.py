"""A word-level language model: embedding, two LSTM layers whose state is carried on, tied output weights."""

import re

import jitgrad as torch
import jitgrad.nn as nn
from tests.programs.data import SONNET


class Dictionary:
    def __init__(self):
        self.word2idx, self.idx2word = {}, []

    def add_word(self, word):
        if word not in self.word2idx:
            self.idx2word.append(word)
            self.word2idx[word] = len(self.idx2word) - 1
        return self.word2idx[word]

    def __len__(self):
        return len(self.idx2word)


class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp, nhid, nlayers):
        super().__init__()
        self.ntoken, self.nhid, self.nlayers = ntoken, nhid, nlayers
        self.drop = nn.Dropout(0.0)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid, nlayers, dropout=0.0)
        self.decoder = nn.Linear(nhid, ntoken)
        self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, input, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(input)), hidden)
        decoded = self.decoder(self.drop(output)).view(-1, self.ntoken)
        return nn.functional.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        return weight.new_zeros(self.nlayers, bsz, self.nhid), weight.new_zeros(self.nlayers, bsz, self.nhid)


def repackage_hidden(h):
    """The same numbers without their history."""
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


def main(steps):
    torch.manual_seed(1111)
    dictionary = Dictionary()
    words = torch.tensor([dictionary.add_word(w) for w in re.findall(r"\w+|[^\w\s]", SONNET)])
    columns = 4
    rows = words.size(0) // columns
    data = words.narrow(0, 0, rows * columns).view(columns, -1).t().contiguous()
    model = RNNModel(len(dictionary), 16, 16, 2)
    criterion, lr, losses = nn.NLLLoss(), 5.0, []
    while len(losses) < steps:
        hidden = model.init_hidden(columns)
        for i in range(0, rows - 1, 8):
            length = min(8, rows - 1 - i)
            x, targets = data[i : i + length], data[i + 1 : i + 1 + length].view(-1)
            model.zero_grad()
            hidden = repackage_hidden(hidden)
            output, hidden = model(x, hidden)
            loss = criterion(output, targets)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            for p in model.parameters():
                p.data.add_(p.grad, alpha=-lr)
            losses.append(loss.item())
    return losses[:steps]
