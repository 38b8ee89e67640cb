"""Differentiable ops, one family a file."""
from . import publish, create, from_data, convert, reduction, matmul
