"""Differentiable ops, one family a file."""
from . import elementwise, create
