"""Looking inside: the tape of launches, and pictures of what depends on what.

``launch_tape.py`` records the launches of a block and prints them as they happen (``JITGRAD_DEBUG``);
``picture.py`` writes boxes and arrows as SVG, DOT or Mermaid; ``graph_layout.py`` decides where they go, which is
geometry alone. Read ``launch_tape.py`` first. What looks at a program from outside lives here: it observes
launches, and changes nothing.

A tape holds the arrays that kernels ran on, not copies. So it can be replayed, on new values in the same memory,
and tests compare a replay with what eager execution gives: nothing else than a launch may compute on a tensor's
data.
"""

from jitgrad.debug.launch_tape import Entry, Tape, dial, tape

__all__ = ["Entry", "Tape", "dial", "tape"]
