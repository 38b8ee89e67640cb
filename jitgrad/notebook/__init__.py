"""Pictures of recorded graphs, and tables of modules, for notebooks and files."""

from ..drawing import Picture
from .graph import draw
from .table import Summary, summary

__all__ = ["Picture", "Summary", "draw", "summary"]
