"""Pictures of recorded graphs, and tables of modules, for notebooks and files."""

from jitgrad.debug.picture import Picture
from jitgrad.notebook.graph import draw
from jitgrad.notebook.table import Summary, summary

__all__ = ["Picture", "Summary", "draw", "summary"]
