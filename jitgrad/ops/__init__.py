"""Differentiable ops, one family a file."""
from . import (
    publish, arithmetic, choice, complex, activation, create, from_data, convert, exchange, view, expand,
    part, split, fill, join, rearrange, gather, take, mask, indexing, view_inplace, part_scatter, kinds,
    random_fill, random, reduction, extrema, moments, truth, softmax, matmul, products, matrices, einsum, loss,
    binary_loss, nll, embedding, dropout, norm, batch_norm, scan, sort, in_place, aten,
)  # fmt: skip
