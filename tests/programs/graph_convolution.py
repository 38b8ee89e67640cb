"""Graph convolutions (Kipf and Welling): a sparse normalised adjacency matrix, half of the nodes have labels."""

import math

import numpy as np

import jitgrad as torch
import jitgrad.nn as nn
import jitgrad.nn.functional as F
from jitgrad.nn.parameter import Parameter
from tests.programs.data import communities


class GraphConvolution(nn.Module):
    def __init__(self, in_features, out_features, bias=True):
        super().__init__()
        self.weight = Parameter(torch.FloatTensor(in_features, out_features))
        if bias:
            self.bias = Parameter(torch.FloatTensor(out_features))
        else:
            self.register_parameter("bias", None)
        bound = 1.0 / math.sqrt(self.weight.size(1))
        self.weight.data.uniform_(-bound, bound)
        if self.bias is not None:
            self.bias.data.uniform_(-bound, bound)

    def forward(self, input, adj):
        output = torch.spmm(adj, torch.mm(input, self.weight))
        return output + self.bias if self.bias is not None else output


class GCN(nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        self.gc1, self.gc2 = GraphConvolution(features, hidden), GraphConvolution(hidden, classes)

    def forward(self, x, adj):
        return F.log_softmax(self.gc2(F.relu(self.gc1(x, adj)), adj), dim=1)


def main(steps):
    torch.manual_seed(42)
    edges, features, group = communities(60, 3)
    edges = edges + np.eye(len(edges), dtype=np.float32)
    edges /= edges.sum(1, keepdims=True)
    rows, columns = edges.nonzero()
    indices = torch.from_numpy(np.vstack((rows, columns)).astype(np.int64))
    adj = torch.sparse_coo_tensor(indices, torch.from_numpy(edges[rows, columns]), torch.Size(edges.shape))
    features, labels = torch.FloatTensor(features), torch.LongTensor(group)
    known = torch.arange(0, 60, 2)
    model = GCN(8, 16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    losses = []
    for _epoch in range(steps):
        model.train()
        optimizer.zero_grad()
        output = model(features, adj)
        loss = F.nll_loss(output[known], labels[known])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    right = output.max(1)[1].type_as(labels).eq(labels).double().sum()
    assert 0 <= right / len(labels) <= 1
    return losses
