"""Differentiable ops, one family a file."""
from . import publish, create, reduction, matmul
