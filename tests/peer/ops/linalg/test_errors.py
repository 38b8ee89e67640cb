"""What linear algebra refuses, in PyTorch's words: dtypes, orders and sizes."""

import functools
import math

import pytest
import torch

import jitgrad


def said(call, lib):
    try:
        call(lib)
    except (IndexError, NotImplementedError, RuntimeError, ValueError) as error:
        return type(error), str(error)
    return None


def alike(*calls):
    for call in calls:
        ours, theirs = said(call, jitgrad), said(call, torch)
        assert ours == theirs


def function(lib, name):
    return functools.reduce(getattr, name.split("."), lib)


A = {"A": lambda lib: lib.eye(3).expand(2, 3, 3).contiguous()}
ONE = (
    "linalg.cholesky linalg.inv linalg.det linalg.eigvalsh linalg.eigvals linalg.svdvals linalg.matrix_rank "
    "linalg.pinv linalg.cond linalg.matrix_norm linalg.vector_norm linalg.norm cholesky inverse cholesky_inverse"
)
SEVERAL = "linalg.eigh linalg.eig linalg.qr linalg.slogdet svd qr slogdet linalg.svd geqrf"


@pytest.mark.parametrize("name", ONE.split())
def test_dtype_of_out(name):
    for dtype in ("int32", "bool", "float64"):
        alike(lambda lib, dtype=dtype: function(lib, name)(
            lib.eye(3), out=lib.empty(0, dtype=getattr(lib, dtype))))  # fmt: skip
    alike(lambda lib: function(lib, name)(lib.eye(3).to(lib.complex64), out=lib.empty(0)))


@pytest.mark.parametrize("name", SEVERAL.split())
def test_dtypes_of_several_out(name):
    count = 3 if name.endswith("svd") else 2
    for place in range(count):
        def call(lib, place=place):
            dtypes = [lib.complex64 if name == "linalg.eig" else lib.float32] * count
            dtypes[place] = lib.int32
            return function(lib, name)(lib.eye(3), out=tuple(lib.empty(0, dtype=d) for d in dtypes))

        alike(call)


OF_TWO = {
    "cholesky_solve": lambda lib, a, out: lib.cholesky_solve(a, a, out=out),
    "solve": lambda lib, a, out: lib.linalg.solve(a, a, out=out),
    "solve_triangular": lambda lib, a, out: lib.linalg.solve_triangular(a, a, upper=True, out=out),
    "householder_product": lambda lib, a, out: lib.linalg.householder_product(a, a[0], out=out),
    "ormqr": lambda lib, a, out: lib.ormqr(a, a[0], a, out=out),
    "multi_dot": lambda lib, a, out: lib.linalg.multi_dot([a, a], out=out),
    "matrix_power": lambda lib, a, out: lib.linalg.matrix_power(a, 3, out=out),
    "tensorinv": lambda lib, a, out: lib.linalg.tensorinv(a, ind=1, out=out),
    "tensorsolve": lambda lib, a, out: lib.linalg.tensorsolve(a, a[0], out=out),
    "cross": lambda lib, a, out: lib.linalg.cross(a, a, out=out),
    "vecdot": lambda lib, a, out: lib.linalg.vecdot(a, a, out=out),
    "nuclear norm": lambda lib, a, out: lib.linalg.matrix_norm(a, "nuc", out=out),
    "addbmm": lambda lib, a, out: lib.addbmm(a, a[None], a[None], out=out),
    "tensordot": lambda lib, a, out: lib.tensordot(a, a, out=out),
    "renorm": lambda lib, a, out: lib.renorm(a, 1, 0, 1, out=out),
}


@pytest.mark.parametrize("name", OF_TWO)
def test_dtype_of_out_of_two(name):
    alike(lambda lib: OF_TWO[name](lib, lib.eye(3), lib.empty(0, dtype=lib.int32)))
    assert said(lambda lib: OF_TWO[name](lib, lib.eye(3), lib.empty(0)), jitgrad) is None


HALF = (
    f"{ONE} {SEVERAL} linalg.lu linalg.lu_factor linalg.cholesky_ex linalg.inv_ex linalg.ldl_factor "
    "linalg.matrix_exp det logdet"
)


@pytest.mark.parametrize("name", [n for n in HALF.split() if "." in n or n in ("svd", "geqrf")])
def test_matrices_of_16_bits_without_elements(name):
    """Most of PyTorch's routines return before they reach what refuses 16 bits."""
    for shape in ((0, 0), (2, 0, 0), (0, 3, 3)):
        def call(lib, shape=shape):
            return function(lib, name)(lib.zeros(shape, dtype=lib.float16))

        ours, theirs = said(call, jitgrad), said(call, torch)
        assert ours == theirs
        if theirs is None:
            found, wanted = ([t.dtype, t.shape] for t in map(first, (call(jitgrad), call(torch))))
            assert str(found).replace("jitgrad", "torch") == str(wanted)


def first(result):
    return result[0] if isinstance(result, tuple) else result


def test_distances_without_elements_take_any_floats():
    pairs = (("float16", "float32"), ("float32", "bfloat16"), ("float64", "float32"), ("int64", "float32"))
    for a, b in (((0, 3), (2, 3)), ((2, 3), (0, 3)), ((2, 0), (2, 0))):
        for one, other in pairs:
            alike(lambda lib, a=a, b=b, one=one, other=other: lib.cdist(
                lib.zeros(a, dtype=getattr(lib, one)), lib.zeros(b, dtype=getattr(lib, other))))  # fmt: skip
    x = jitgrad.zeros(0, 3, dtype=jitgrad.float16)
    assert jitgrad.cdist(x, jitgrad.zeros(2, 3)).dtype is jitgrad.float16


def test_dims_that_are_no_tuple():
    for dims in (1, 1.5, "ab"):
        with pytest.raises(TypeError) as found:
            jitgrad.linalg.tensorsolve(jitgrad.ones(2, 3, 6), jitgrad.ones(2, 3), dims=dims)
        with pytest.raises(TypeError) as wanted:
            torch.linalg.tensorsolve(torch.ones(2, 3, 6), torch.ones(2, 3), dims=dims)
        assert str(found.value) == str(wanted.value)


@pytest.mark.parametrize("name", HALF.split())
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_floats_of_16_bits(name, dtype):
    alike(lambda lib: function(lib, name)((lib.eye(3) * 2).to(getattr(lib, dtype))))


PRODUCTS = {
    "addmm": ([3, 3], [3, 3], [3, 3]), "addmv": ([3], [3, 3], [3]), "addbmm": ([3, 3], [1, 3, 3], [1, 3, 3]),
    "baddbmm": ([1, 3, 3], [1, 3, 3], [1, 3, 3]),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32", "bool", "complex64"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_added_products_of_different_dtypes(name, dtype, place):
    alike(lambda lib: getattr(lib, name)(*[
        lib.ones(shape, dtype=getattr(lib, dtype) if k == place else lib.float32)
        for k, shape in enumerate(PRODUCTS[name])
    ]))  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_factors_of_addr(dtype):
    for beta, alpha in ((2.0, 1), (2, 1.0), (True, 1), (2, True), (True, True), (1, 2), (1j, 1)):
        alike(lambda lib, beta=beta, alpha=alpha: lib.addr(
            lib.ones(3, 3).to(getattr(lib, dtype)), *[lib.ones(3).to(getattr(lib, dtype))] * 2, beta=beta, alpha=alpha
        ))  # fmt: skip


def test_addr_of_float16_rounds_as_pytorch():
    found = []
    for lib in (jitgrad, torch):
        lib.manual_seed(0)
        m, a, b = lib.rand(9, 9).half(), lib.rand(9).half(), lib.rand(9).half()
        found.append(lib.addr(m, a, b, beta=0.3, alpha=1.7).tolist())
    assert found[0] == found[1]


@pytest.mark.parametrize("shape, dim", [
    ((0,), None), ((0, 3), 0), ((0, 3), 1), ((3, 0), None), ((0, 3), (0, 1)), ((0, 0), (0, 1)), ((2, 0, 3), (0, 1)),
])  # fmt: skip
def test_norms_of_nothing(shape, dim):
    for order in (0, 0.5, 1, 2, math.inf, -0.5, -1, -2, -math.inf, 1 + 2j):
        alike(
            lambda lib, order=order: lib.linalg.vector_norm(lib.ones(shape), order, dim),
            lambda lib, order=order: lib.linalg.norm(lib.ones(shape), order, dim),
        )
        if isinstance(dim, tuple):
            alike(lambda lib, order=order: lib.linalg.matrix_norm(lib.ones(shape), order, dim))


def test_matrix_norms_of_nothing_are_zero():
    for order in (1, 2, math.inf, "fro", "nuc"):
        assert jitgrad.linalg.matrix_norm(jitgrad.ones(0, 0), order).item() == 0
        assert jitgrad.linalg.matrix_norm(jitgrad.ones(2, 0, 0), order, keepdim=True).shape == (2, 1, 1)


def test_cond_of_rectangles():
    for order in ("fro", "nuc", "x", 1, 2):
        for shape in ((0, 3), (3, 2), (3,)):
            alike(lambda lib, order=order, shape=shape: lib.linalg.cond(lib.ones(shape), order))


def test_sizes():
    alike(
        lambda lib: lib.linalg.tensorsolve(lib.eye(24).reshape(6, 4, 2, 3, 4), lib.ones(8, 4)),
        lambda lib: lib.linalg.multi_dot([lib.ones(2), lib.ones(3)]),
        lambda lib: lib.linalg.multi_dot([lib.ones(2), lib.ones(3, 2), lib.ones(2)]),
        lambda lib: lib.linalg.multi_dot([lib.ones(2), lib.ones(2), lib.ones(2)]),
    )


@pytest.mark.parametrize("name", ["rcond", "atol", "rtol"])
def test_complex_tolerances(name):
    alike(lambda lib: lib.linalg.pinv(lib.eye(3), **{name: lib.tensor(1j)}))


def test_numbers_of_dims_of_tensordot():
    for dims in (-1, 3):
        alike(lambda lib, dims=dims: lib.tensordot(lib.ones(2, 2), lib.ones(2, 2), dims))


@pytest.mark.parametrize("arguments", [
    ("", []), ("a->... .", 1), ("a->..", 1), ("...,...", 1, 2), ("a..", 1), (1, [-1]), (1, [52]), (1, [0], [60]),
])  # fmt: skip
def test_einsum(arguments):
    def call(lib):
        shapes = {1: (2,), 2: (2, 3)}
        return lib.einsum(*[lib.ones(shapes[a]) if isinstance(a, int) else a for a in arguments])

    assert said(call, torch) is not None
    alike(call)


def test_an_inverse_of_a_factor_that_has_none():
    def call(lib, several):
        factor = lib.tensor([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [3.0, 1.0, 1.0]])
        try:
            lib.cholesky_inverse(lib.stack([lib.eye(3), factor]) if several else factor)
        except lib.linalg.LinAlgError as error:
            return str(error)

    for several in (False, True):
        assert call(jitgrad, several) == call(torch, several) is not None
