"""Ops on each element for itself: the public forms of the elementwise table, and what it cannot say."""
