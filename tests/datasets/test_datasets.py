"""The digits: their form, and that they are the ones that everybody else has."""

import numpy as np

from jitgrad.datasets import load_digits


def test_digits_have_the_promised_form():
    images, labels = load_digits()
    assert images.shape == (1797, 8, 8) and images.dtype == np.float32
    assert labels.shape == (1797,) and labels.dtype == np.int64
    assert (images.min(), images.max()) == (0, 16) and np.array_equal(images, np.rint(images))
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_first_digit_is_the_well_known_zero():
    images, labels = load_digits()
    assert labels[0] == 0
    assert images[0, :3].astype(int).tolist() == [
        [0, 0, 5, 13, 9, 1, 0, 0], [0, 0, 13, 15, 10, 15, 5, 0], [0, 3, 15, 2, 0, 11, 8, 0]
    ]  # fmt: skip
    assert int(images.sum()) == 561718


def test_callers_own_their_arrays():
    load_digits()[0][:] = -1
    assert load_digits()[0].min() == 0
