"""For notebooks and files: pictures of recorded graphs, and tables of a module's layers.

``graph.py`` draws the nodes behind tensors, ``table.py`` lists the layers of a module with shapes and sizes. Both
return objects that show themselves in a notebook and give text when printed. How boxes are laid out and drawn is
the business of ``jitgrad/debug/``. Nothing here needs IPython.
"""

from jitgrad.debug.picture import Picture
from jitgrad.notebook.graph import draw
from jitgrad.notebook.table import Summary, summary

__all__ = ["Picture", "Summary", "draw", "summary"]
