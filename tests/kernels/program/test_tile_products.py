"""Small products in tiles, as rows of a program, against NumPy's."""

import numpy as np
import pytest

from jitgrad.kernels.blas import product_address
from jitgrad.kernels.loops import matmul
from jitgrad.kernels.program import Builder, Place, products
from jitgrad.kernels.program.program import address_of

SIZES = [(1, 1, 1), (1, 64, 64), (64, 1, 64), (10, 32, 128), (32, 128, 10), (13, 7, 17), (5, 3, 15), (7, 9, 33),
         (2, 512, 16), (37, 20, 40)]  # fmt: skip
pytestmark = pytest.mark.skipif(not product_address("f"), reason="BLAS is not one that programs know")


def run(kernel, *args):
    builder = Builder(lambda a: Place(None, address_of(a)))
    builder.launch(kernel, args)
    assert not builder.calls and not builder.uses_blas
    builder.finish().run()


def matrix(rng, rows, columns, turned, dtype):
    shape = (columns, rows) if turned else (rows, columns)
    made = rng.standard_normal(shape).astype(dtype)
    return made.T if turned else made


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)])
def test_products_of_all_layouts(dtype, turned):
    rng = np.random.default_rng(0)
    for rows, inner, columns in SIZES:
        x, y = matrix(rng, rows, inner, turned[0], dtype), matrix(rng, inner, columns, turned[1], dtype)
        around = np.full(rows * columns + 64, 7, dtype)
        out = around[32:-32].reshape(rows, columns)
        assert not products.by_blas(x, y, out)
        run(matmul.dot_on_one, x, y, out)
        exact = x.astype(np.float64) @ y.astype(np.float64)
        np.testing.assert_allclose(out, exact, rtol=1e-4 if dtype == "float32" else 1e-11, atol=1e-4)
        assert (around[:32] == 7).all() and (around[-32:] == 7).all()  # nothing is written beside it


def test_parts_of_wider_matrices():
    wide = np.random.default_rng(0).standard_normal((2, 40, 50))
    x, y, out = wide[0, 3:20, 5:30], wide[1, :25, 7:28], np.empty((17, 21))
    run(matmul.dot_on_one, x, y, out)
    np.testing.assert_allclose(out, x @ y, rtol=1e-11)
    run(matmul.dot_on_one, wide[0, 5:30, 3:20].T, wide[1, 7:28, :25].T, out)
    np.testing.assert_allclose(out, wide[0, 5:30, 3:20].T @ wide[1, 7:28, :25].T, rtol=1e-11)


def test_infinities_stay_in_their_rows_and_columns():
    x, y, out = np.ones((7, 4), "f"), np.ones((18, 4), "f"), np.empty((7, 18), "f")
    x[2, 1], y[17, 3] = np.inf, np.nan
    run(matmul.dot_on_one, x, y.T, out)
    expected = np.full((7, 18), 4, "f")
    expected[2], expected[:, 17] = np.inf, np.nan
    np.testing.assert_array_equal(out, expected)


def test_what_is_larger_is_left_to_blas():
    def by_blas(rows, inner, columns):
        return products.by_blas(np.empty((rows, inner)), np.empty((inner, columns)), np.empty((rows, columns)))

    assert by_blas(65, 64, 64) and by_blas(1, 513, 1) and not by_blas(64, 64, 64)
