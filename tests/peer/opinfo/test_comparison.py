"""What counts as agreement in 16 bits, where steps overflow of which the result does not."""

import numpy as np
import pytest

from .comparison import Seen, as_near

INF = float("inf")


def halves(*values):
    return Seen("float16", (len(values),), (1,), False, False, np.array(values, np.float16))


@pytest.mark.parametrize(
    ("ours", "theirs", "exact", "agree"),
    [(INF, INF, 3647.0, True), (-INF, -INF, -7e4, True), (INF, INF, 65515.0, True), (INF, -INF, 3647.0, False),
     (INF, 3648.0, 3647.0, False), (3648.0, INF, 3647.0, True), (1.0, INF, 3647.0, False)],
)  # fmt: skip
def test_infinities(ours, theirs, exact, agree):
    wide = Seen("float64", (2,), (1,), False, False, np.array([exact, 1.0]))
    assert as_near(halves(ours, 1.0), halves(theirs, 1.0), wide) is agree
