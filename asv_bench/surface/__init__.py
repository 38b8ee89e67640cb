"""A time for every op of the surface, against torch: a file of cases a family, run by ``compare.py surface FAMILY``."""
