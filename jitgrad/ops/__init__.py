"""Differentiable ops, one family a file."""
from . import publish, arithmetic, choice, complex, activation, create, from_data, convert, view, part, split, reduction, extrema, moments, truth, softmax, matmul, products
