"""Differentiable ops, one family a file."""
from . import publish, arithmetic, choice, complex, activation, create, from_data, convert, view, expand, part, split, fill, join, rearrange, gather, mask, indexing, random, reduction, extrema, moments, truth, softmax, matmul, products, loss, binary_loss, nll, embedding, dropout, scan, sort
