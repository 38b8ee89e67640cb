"""The figures that ``compare.py`` prints: the same work in jitgrad and its peers, side by side."""
