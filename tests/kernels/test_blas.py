"""NumPy's BLAS: one thread of it while jitgrad multiplies, large products in parts on jitgrad's pool."""

import functools
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.core.layout import forget_plans
from jitgrad.kernels import blas, lapack, product_parts, threads
from jitgrad.kernels.loops import matmul as products

needs_entries = pytest.mark.skipif(blas.entries() is None, reason="this BLAS has no setting that is known here")


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def three_of_blas():
    change, ask = blas.entries()
    before = ask()
    change(3)
    yield ask
    change(before)


@pytest.fixture
def by_blas(monkeypatch):
    """Leave all products to BLAS, on any processor; which kernel multiplies is part of an op's plan."""
    monkeypatch.setattr(product_parts, "_BY_TILES", 0)
    forget_plans()
    yield
    forget_plans()


@needs_entries
def test_one_thread_in_nested_blocks_and_the_setting_after(three_of_blas):
    inside, leave = threading.Event(), threading.Event()

    def other():
        with blas.one_thread:
            inside.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with blas.one_thread:
        thread.start()
        inside.wait()
        assert three_of_blas() == 1
    assert three_of_blas() == 1  # the other thread's block has not ended
    leave.set()
    thread.join()
    assert three_of_blas() == 3
    with pytest.raises(ZeroDivisionError), blas.one_thread:
        1 / 0
    assert three_of_blas() == 3


@needs_entries
@pytest.mark.parametrize(("x", "y"), [((65, 64), (64, 64)), ((128, 128), (128,)), ((20_000,), (20_000,)),
                                      ((3, 65, 64), (64, 64))])  # fmt: skip
def test_products_for_which_blas_would_start_threads(by_blas, three_of_blas, monkeypatch, x, y):
    used = []
    quiet = products._quiet.run
    monkeypatch.setattr(products._quiet, "run", lambda *args: (used.append(three_of_blas()), quiet(*args)))
    torch.ones(x) @ torch.ones(y)
    assert used == [1]
    assert three_of_blas() == 3


SHAPES = [
    ((300, 200), (200, 180)), ((180, 200), (200, 300)), ((300, 200), (200,)), ((7, 90, 50), (7, 50, 60)),
    ((1, 90, 50), (7, 50, 60)), ((90, 50), (7, 50, 60)), ((7, 90, 50), (50, 60)), ((5, 1, 90, 50), (3, 50, 60)),
    ((60, 200), (200, 180)),  # few rows: times a transposed matrix as the transposed product
]  # fmt: skip


@needs_entries
@pytest.mark.parametrize("compiled", [True, False], ids=["by address", "by NumPy"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("x", "y"), SHAPES)
def test_a_large_product_in_parts_is_the_product(by_blas, two_threads, monkeypatch, x, y, dtype, compiled):
    for name, value in {"SPLIT": 1000, "_SPLIT_BY_NUMPY": 1000, "_VECTOR_ON_ONE": 0, "_MATRIX_ON_ONE": 0}.items():
        monkeypatch.setattr(products, name, value)
    counts, run_jobs, together = [], threads.run_jobs, threads.run_together
    monkeypatch.setattr(threads, "run_together", lambda jobs: (counts.append(len(jobs)), together(jobs)))
    if compiled:
        monkeypatch.setattr(threads, "run_jobs", lambda table: (counts.append(len(table) // 2), run_jobs(table))[1])
    else:
        monkeypatch.setattr(products, "multiply_in_parts", lambda *args: False)
    generator, tolerance = np.random.default_rng(0), np.sqrt(np.finfo(dtype).eps)
    a, b = (generator.normal(size=s).astype(dtype) for s in (x, y))
    c, d = (np.asarray(m, order="F") for m in (a, b))
    for left, right in ((a, b), (c, b), (a, d), (c, d)):
        result = torch.from_numpy(left) @ torch.from_numpy(right)
        np.testing.assert_allclose(result.numpy(), left @ right, rtol=tolerance, atol=tolerance)
    assert max(counts, default=1) == (1 if len(y) == 1 else 2)


@needs_entries
def test_a_number_of_threads_reaches_numpys_own_products(three_of_blas):
    before = torch.get_num_threads()
    try:
        for count, given in ((1, 1), (2, 2), (3, 3)):
            torch.set_num_threads(count)
            assert three_of_blas() == given
            with blas.one_thread:
                assert three_of_blas() == 1
                torch.set_num_threads(4 - count)
                torch.set_num_threads(count)
                assert three_of_blas() == 1
            assert three_of_blas() == given
    finally:
        torch.set_num_threads(before)


MOST = min(3, threads._cores())  # OpenBLAS starts no more than there are cores


def counts_after(program: str, **environment: str) -> list[int]:
    """How many threads NumPy's and SciPy's BLAS have at the end, where each could have three."""
    program += "; from jitgrad.kernels import blas; print(*[blas.entries(m)[1]() for m in (blas._NUMPY, blas._SCIPY)])"
    kept = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                          env=kept | {"OPENBLAS_NUM_THREADS": "3"} | environment)  # fmt: skip
    return [int(word) for word in done.stdout.split()]


@needs_entries
@pytest.mark.parametrize(
    ("program", "count"),
    [
        ("import jitgrad, scipy.linalg; jitgrad.set_num_threads(1)", 1),
        ("import jitgrad; jitgrad.set_num_threads(1); import scipy.linalg", 1),
        ("import jitgrad; jitgrad.set_num_threads(1); import scipy.optimize; jitgrad.set_num_threads(2)", min(2, MOST)),
        ("import jitgrad, scipy.linalg; jitgrad.set_num_threads(1); jitgrad.set_num_threads(9)", MOST),
        ("import jitgrad, scipy.linalg", MOST),
    ],
)
def test_a_number_of_threads_reaches_scipy_whenever_it_is_imported(program, count):
    pytest.importorskip("scipy")
    assert counts_after(program) == [count, count]


@needs_entries
def test_a_number_of_threads_reaches_the_blas_of_a_users_loop(tmp_path):
    pytest.importorskip("scipy")
    (tmp_path / "loop.py").write_text("""
import numpy as np, jitgrad as torch
torch.set_num_threads(1)
def product(x, y, out):
    out[:] = np.dot(x, y)
torch.kernel_pair(product)(torch.ones(3, 3), torch.ones(3, 3))
""")
    assert counts_after(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import loop") == [1, 1]


@needs_entries
def test_the_environment_reaches_scipy_and_numpy():
    pytest.importorskip("scipy")
    program = "import jitgrad; jitgrad.get_num_threads(); import scipy.linalg"
    assert counts_after(program, JITGRAD_NUM_THREADS="1") == [1, 1]


@needs_entries
def test_lapack_of_scipy_runs_on_one_thread(monkeypatch):
    pytest.importorskip("scipy.linalg")
    change, ask = blas.entries(blas._SCIPY)
    before, used = ask(), []
    monkeypatch.setattr(lapack, "address_of", lambda *names: 0)
    monkeypatch.setattr(lapack, "_plans", {})
    monkeypatch.setattr(lapack, "_routine", functools.cache(lapack._routine.__wrapped__))
    monkeypatch.setattr(blas.one_thread, "pools", list(blas.one_thread.pools))
    change(3)
    try:
        with lapack.on_one(1000):
            lapack.each("potrf", np.dtype("d"), 1, "L", 2, np.eye(2), 2, np.zeros(1, np.int32))
            used.append(ask())
        assert used == [1]
        assert ask() == 3
    finally:
        change(before)


@needs_entries
def test_one_thread_means_no_parts(monkeypatch):
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        monkeypatch.setattr(threads, "run_together", lambda jobs: pytest.fail("a product in parts"))
        torch.ones(300, 300) @ torch.ones(300, 300)
    finally:
        torch.set_num_threads(before)


def test_infinities_travel_without_warning_on_every_thread(by_blas, two_threads, monkeypatch):
    monkeypatch.setattr(products, "SPLIT", 1000)
    monkeypatch.setattr(products, "_MATRIX_ON_ONE", 0)
    result = torch.full((200, 100), float("inf")) @ torch.zeros(100, 100)
    assert result.isnan().all()


@pytest.mark.parametrize("name", ["JITGRAD_NUM_THREADS", "OMP_NUM_THREADS"])
def test_the_environment_is_read_when_first_needed(name):
    program = f"import os, jitgrad; os.environ[{name!r}] = '3'; print(jitgrad.get_num_threads())"
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["3"]


@pytest.mark.parametrize("count", [0, -1, 2.5, "2", None, True])
def test_a_number_of_threads_is_a_positive_int(count):
    with pytest.raises(RuntimeError, match="set_num_threads expects a"):
        torch.set_num_threads(count)
