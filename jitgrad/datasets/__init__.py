"""Small real data sets that ship with the package, as NumPy arrays.

A data set is a file beside this one, with its licence, and a function that reads it. Nothing is downloaded.
Batches, shuffling and splits are the business of ``jitgrad/utils/data/``.
"""

from pathlib import Path

import numpy as np

__all__ = ["load_digits"]


def load_digits() -> tuple[np.ndarray, np.ndarray]:
    """Handwritten digits of 13 writers: images and what each one shows.

    Returns:
        ``images``, float32 of shape (1797, 8, 8), whole numbers in 0..16 (how much of a 4x4 block
        is ink), and ``labels``, int64 of shape (1797,), in 0..9.

    The order is the source's, where neighbours come from one hand: a slice makes a harder test set
    than a shuffled sample. CC BY 4.0; ``digits.LICENSE`` beside the data says whose work it is.
    """
    with np.load(Path(__file__).with_name("digits.npz")) as data:
        return data["images"].astype(np.float32), data["labels"].astype(np.int64)
