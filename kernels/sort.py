"""Sorting along the last axis of (rows, n) arrays, by NumPy. NaN counts as the largest."""

from __future__ import annotations

import numpy as np

from .launch import library

__all__ = ["select", "sort"]


@library("values", "index")
def sort(x, values, index, descending):
    """Sorted rows and where their elements came from; equal elements keep their order."""
    if descending:
        order = x.shape[1] - 1 - np.argsort(x[:, ::-1], axis=1, kind="stable")[:, ::-1]
    else:
        order = np.argsort(x, axis=1, kind="stable")
    index[...] = order
    values[...] = np.take_along_axis(x, order, axis=1)


@library("values", "index")
def select(x, values, index, largest):
    """The k largest or smallest elements of each row in order, k being the width of ``values``."""
    n, k = x.shape[1], values.shape[1]
    found = np.broadcast_to(np.arange(n), x.shape)
    if 4 * k < n:  # worth finding the set before sorting it
        cut = np.argpartition(x, n - k if largest else k, axis=1)
        found = np.sort(cut[:, n - k :] if largest else cut[:, :k], axis=1)
    part = np.take_along_axis(x, found, axis=1)
    width = part.shape[1]
    if largest:
        order = width - 1 - np.argsort(part[:, ::-1], axis=1, kind="stable")[:, ::-1]
    else:
        order = np.argsort(part, axis=1, kind="stable")
    index[...] = np.take_along_axis(found, order[:, :k], axis=1)
    values[...] = np.take_along_axis(part, order[:, :k], axis=1)
