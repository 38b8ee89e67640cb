"""Published programs under both libraries: the first fifty losses agree to 1e-4."""

import pytest

import jitgrad
from tests.programs.running import run
from tests.programs.test_programs import LOSSES

torch = pytest.importorskip("torch")

PRECISE = {"dcgan"}  # in double precision: two nets that train each other enlarge roundings


@pytest.mark.parametrize("program", LOSSES)
def test_first_losses(program):
    both = []
    for library in (jitgrad, torch):
        before = library.get_default_dtype()
        if program in PRECISE:
            library.set_default_dtype(library.float64)
        try:
            both.append(run(program, library.__name__, 50))
        finally:
            library.set_default_dtype(before)
    # Losses that are sums of both signs, REINFORCE's, come near zero: roundings count by the size of their terms.
    assert both[0] == pytest.approx(both[1], rel=1e-4, abs=2e-5)
