"""For notebooks and files: pictures of recorded graphs, and tables of a module's layers.

``graph_drawing.py`` draws the nodes behind tensors, ``module_summary.py`` lists the layers of a module with shapes
and sizes. Both return objects that show themselves in a notebook and give text when printed. How boxes are laid out
and drawn is the business of ``jitgrad/debug/``. Nothing here needs IPython.
"""

from jitgrad.debug.picture import Picture
from jitgrad.notebook.graph_drawing import draw
from jitgrad.notebook.module_summary import Summary, summary

__all__ = ["Picture", "Summary", "draw", "summary"]
