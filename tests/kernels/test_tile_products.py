"""Products in tiles of registers against NumPy's: of all layouts and sizes, added or not, in loops and in programs."""

import ctypes

import numpy as np
import pytest

import jitgrad
from jitgrad.core.layout import forget_plans
from jitgrad.kernels import product_parts
from jitgrad.kernels.launch import prepared
from jitgrad.kernels.loops import matmul
from jitgrad.kernels.program import Builder, Place
from jitgrad.kernels.program.addresses import address_of
from jitgrad.kernels.tile_products import BLOCK, DEPTH, PANEL, ROWS, tiles_address

COLUMNS = PANEL // 4
SIZES = [(1, 1, 1), (1, 64, 64), (64, 1, 64), (10, 32, 128), (32, 128, 10), (13, 7, 17), (5, 3, 15), (7, 9, 33),
         (2, 512, 16), (37, 20, 40), (9 * ROWS + 1, 5, 3 * COLUMNS), (3 * ROWS + 2, 2 * DEPTH + 3, 5 * COLUMNS + 7),
         (17 * ROWS + 5, 4, 8 * COLUMNS), (3, 0, 5), (16, 40, 100), (48, 2 * DEPTH + 3, BLOCK + 5), (37, 300, 900),
         (40, 100, BLOCK + COLUMNS)]  # fmt: skip
LAYOUTS = pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)])
TOLERANCE = {"float32": {"rtol": 1e-4, "atol": 1e-3}, "float64": {"rtol": 1e-11, "atol": 1e-11}}


def matrix(rng, rows, columns, turned, dtype):
    shape = (columns, rows) if turned else (rows, columns)
    made = rng.standard_normal(shape).astype(dtype)
    return made.T if turned else made


def multiply(x, y, out, x_turned, y_turned, keep):
    """Call the entry on matrices that are the transposes of row-major ones where they are ``turned``."""
    words = [0, 7, *(112 if t else 111 for t in (x_turned, y_turned)), *out.shape, x.shape[1], int(keep)]
    for a, turned in ((x, x_turned), (y, y_turned), (out, False)):
        words += [a.ctypes.data, a.strides[1 if turned else 0] // a.itemsize]
    table = np.array(words, np.int64)
    ctypes.CFUNCTYPE(None, ctypes.c_ssize_t)(tiles_address(out.dtype.char))(table.ctypes.data)
    assert table[1] == 0  # no error


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@LAYOUTS
def test_products_of_all_layouts(dtype, turned):
    rng = np.random.default_rng(0)
    for rows, inner, columns in SIZES:
        x, y = matrix(rng, rows, inner, turned[0], dtype), matrix(rng, inner, columns, turned[1], dtype)
        for keep in (False, True):
            around = np.full(rows * columns + 64, 7, dtype)
            out = around[32:-32].reshape(rows, columns)
            multiply(x, y, out, *turned, keep)
            exact = x.astype(np.float64) @ y.astype(np.float64) + 7 * keep
            np.testing.assert_allclose(out, exact, **TOLERANCE[dtype])
            assert (around[:32] == 7).all() and (around[-32:] == 7).all()  # nothing is written beside it


def test_parts_of_wider_matrices():
    wide = np.random.default_rng(0).standard_normal((2, 40, 50))
    into = np.zeros((17, 60))
    out = into[:, 4:25]
    multiply(wide[0, 3:20, 5:30], wide[1, :25, 7:28], out, False, False, False)
    np.testing.assert_allclose(out, wide[0, 3:20, 5:30] @ wide[1, :25, 7:28], rtol=1e-11)
    multiply(wide[0, 5:30, 3:20].T, wide[1, 7:28, :25].T, out, True, True, False)
    np.testing.assert_allclose(out, wide[0, 5:30, 3:20].T @ wide[1, 7:28, :25].T, rtol=1e-11)
    assert not into[:, :4].any() and not into[:, 25:].any()


def test_infinities_stay_in_their_rows_and_columns():
    x, y, out = np.ones((7, 4), "f"), np.ones((18, 4), "f"), np.empty((7, 18), "f")
    x[2, 1], y[17, 3] = np.inf, np.nan
    multiply(x, y.T, out, False, True, False)
    expected = np.full((7, 18), 4, "f")
    expected[2], expected[:, 17] = np.inf, np.nan
    np.testing.assert_array_equal(out, expected)


@pytest.fixture
def tiles(monkeypatch):
    """Leave all products to tiles, as where registers are wide; which kernel multiplies is part of an op's plan."""
    monkeypatch.setattr(product_parts, "_BY_TILES", 1 << 28)
    forget_plans()
    yield
    forget_plans()


@LAYOUTS
@pytest.mark.parametrize("threads", [1, 2])
def test_launches_and_programs_agree_to_the_bit(tiles, turned, threads, monkeypatch):
    monkeypatch.setattr("jitgrad.kernels.threads.get_num_threads", lambda: threads)
    rng = np.random.default_rng(0)
    for rows, inner, columns in [(200, 300, 40), (70, 130, 8 * COLUMNS), (30, 5, 7)]:
        x, y = matrix(rng, rows, inner, turned[0], "float32"), matrix(rng, inner, columns, turned[1], "float32")
        eager, replayed = (np.empty((rows, columns), "f") for _ in range(2))
        entry = matmul.tile_entry("f", rows * inner * columns)
        args = (x.T if turned[0] else x, y.T if turned[1] else y)
        matmul.tile_product.call(*args, eager, *turned, entry)
        np.testing.assert_allclose(eager, x @ y, rtol=1e-4, atol=1e-3)
        builder = Builder(lambda a: Place(None, address_of(a)))
        builder.launch(matmul.tile_product, (*args, replayed, *turned, entry))
        assert not builder.calls and not builder.uses_blas
        builder.finish().run()
        np.testing.assert_array_equal(eager, replayed)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_calls_that_are_prepared_know_the_size_of_an_element(dtype):
    """Pieces are counted once, before there are arrays: with the wrong size parts would write beside the result."""
    columns = 8 * PANEL // np.dtype(dtype).itemsize
    x, y = np.ones((3, 4), dtype), np.ones((4, columns), dtype)
    around = np.full(9 * columns, 7, dtype)
    out = around[3 * columns : 6 * columns].reshape(3, columns)
    run = prepared(matmul.tile_product, out.dtype, x.shape, y.shape, out.shape, None, None, None)
    run(x, y, out, False, False, matmul.tile_entry(out.dtype.char, 1))
    assert (out == 4).all() and (around[: 3 * columns] == 7).all() and (around[6 * columns :] == 7).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ops_and_their_gradients(tiles, dtype):
    rng = np.random.default_rng(0)
    for x_shape, y_shape in [((20, 33), (33, 14)), ((3, 20, 33), (3, 33, 14)), ((2, 5, 20, 33), (2, 5, 33, 14))]:
        values = [rng.standard_normal(s).astype(dtype) for s in (x_shape, y_shape)]
        x, y = (jitgrad.tensor(v, requires_grad=True) for v in values)
        out = x @ y
        np.testing.assert_allclose(out.detach().numpy(), values[0] @ values[1], **TOLERANCE[dtype])
        g = rng.standard_normal(out.shape).astype(dtype)
        dx, dy = jitgrad.autograd.grad(out, (x, y), jitgrad.tensor(g))
        np.testing.assert_allclose(dx.numpy(), g @ values[1].swapaxes(-1, -2), **TOLERANCE[dtype])
        np.testing.assert_allclose(dy.numpy(), values[0].swapaxes(-1, -2) @ g, **TOLERANCE[dtype])


def test_what_is_larger_is_left_to_blas(monkeypatch):
    monkeypatch.setattr(product_parts, "_BY_TILES", 1 << 18)
    assert matmul.tile_entry("f", 1 << 18) and not matmul.tile_entry("f", (1 << 18) + 1)
    assert not matmul.tile_entry("F", 1)


def test_where_blas_is_not_found_by_address(monkeypatch):
    """Large products are then NumPy's; loops, which can't call that, multiply by tiles."""
    monkeypatch.setattr(product_parts, "_BY_TILES", 100)
    monkeypatch.setattr(product_parts, "_blas_entry", lambda kind: 0)
    x, small = np.ones((50, 50), "f"), np.ones((2, 2), "f")
    assert product_parts.product_jobs(x, x, x.copy(), 2) is None
    assert product_parts.product_jobs(small, small, small.copy(), 1) is not None
    assert product_parts.inner_product_entry("f") == tiles_address("f") and not product_parts.inner_product_entry("F")
