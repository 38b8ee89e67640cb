"""Ops that look at memory in another shape, and those that join, split and copy it."""
