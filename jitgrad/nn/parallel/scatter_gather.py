"""Tensors cut into parts for several devices, which there are not: the functions are there to be imported."""

from jitgrad.core.absent import absent_names

absent_names(__name__, "gather is_namedtuple scatter scatter_kwargs", "there is one device")
