"""Differentiable ops, one family a file."""
from . import publish, arithmetic, choice, complex, create, from_data, convert, reduction, matmul
