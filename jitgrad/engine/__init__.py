"""Backward: runs nodes, accumulates gradients, keeps the history of writes in place."""
