"""Linear algebra on the device "meta" against PyTorch's: shapes and dtypes, which LAPACK is not asked for."""

import warnings

import pytest
import torch

import jitgrad


def empty(lib, *shape, dtype="float32"):
    return lib.empty(*shape, device="meta", dtype=getattr(lib, dtype))


def pivots(lib):
    return empty(lib, 2, 3, dtype="int32")


OF_ONE = (
    "cholesky cholesky_ex cond det eig eigh eigvals eigvalsh inv inv_ex ldl_factor ldl_factor_ex lu lu_factor "
    "lu_factor_ex matrix_exp matrix_norm matrix_rank norm pinv qr slogdet svd svdvals vector_norm"
)
CASES = {
    "solve": lambda lib: lib.linalg.solve(empty(lib, 2, 3, 3), empty(lib, 2, 3, 4)),
    "solve_triangular": lambda lib: lib.linalg.solve_triangular(empty(lib, 3, 3), empty(lib, 2, 3, 4), upper=True),
    "triangular_solve": lambda lib: lib.triangular_solve(empty(lib, 2, 3, 4), empty(lib, 2, 3, 3)),
    "lu_solve": lambda lib: lib.linalg.lu_solve(empty(lib, 2, 3, 3), pivots(lib), empty(lib, 2, 3, 4)),
    "ldl_solve": lambda lib: lib.linalg.ldl_solve(empty(lib, 2, 3, 3), pivots(lib), empty(lib, 2, 3, 4)),
    "lu_unpack": lambda lib: lib.lu_unpack(empty(lib, 2, 3, 3), pivots(lib)),
    "householder_product": lambda lib: lib.linalg.householder_product(empty(lib, 2, 5, 3), empty(lib, 2, 3)),
    "ormqr": lambda lib: lib.ormqr(empty(lib, 2, 5, 3), empty(lib, 2, 3), empty(lib, 2, 5, 4)),
    "cholesky_solve": lambda lib: lib.cholesky_solve(empty(lib, 2, 3, 4), empty(lib, 2, 3, 3)),
    "cholesky_inverse": lambda lib: lib.cholesky_inverse(empty(lib, 2, 3, 3)),
    "matrix_power": lambda lib: lib.linalg.matrix_power(empty(lib, 2, 3, 3), -3),
    "multi_dot": lambda lib: lib.linalg.multi_dot([empty(lib, 3, 4), empty(lib, 4, 5), empty(lib, 5, 2)]),
    "tensorinv": lambda lib: lib.linalg.tensorinv(empty(lib, 4, 6, 8, 3)),
    "tensorsolve": lambda lib: lib.linalg.tensorsolve(empty(lib, 2, 3, 6), empty(lib, 2, 3)),
    "nuclear norm": lambda lib: lib.linalg.matrix_norm(empty(lib, 2, 3, 3), "nuc"),
    "hermitian pinv": lambda lib: lib.linalg.pinv(empty(lib, 2, 3, 3), hermitian=True),
    "wide qr": lambda lib: lib.linalg.qr(empty(lib, 2, 3, 5), mode="r"),
    "low rank": lambda lib: lib.svd_lowrank(empty(lib, 8, 7), 3),
}
CASES |= {name: lambda lib, name=name: getattr(lib.linalg, name)(empty(lib, 2, 3, 3)) for name in OF_ONE.split()}
CASES |= {
    f"complex {name}": lambda lib, name=name: getattr(lib.linalg, name)(empty(lib, 2, 3, 3, dtype="complex128"))
    for name in OF_ONE.split()
}
CASES |= {
    f"{name} of rectangles": lambda lib, name=name: getattr(lib.linalg, name)(empty(lib, 2, 5, 3))
    for name in ("lu", "pinv", "qr", "svd", "svdvals")
}


def parts(found):
    if isinstance(found, tuple):
        return [parts(f) for f in found]
    return tuple(found.shape), str(found.dtype).rpartition(".")[2], found.is_meta


@pytest.mark.parametrize("case", CASES)
def test_shapes(case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert parts(CASES[case](jitgrad)) == parts(CASES[case](torch))


def test_gradients_have_shapes():
    for lib in (jitgrad, torch):
        x = empty(lib, 2, 5, 3).requires_grad_()
        square = x.mT @ x
        outs = lib.linalg.svdvals(x), lib.linalg.pinv(x), lib.linalg.solve(square, x.mT), lib.linalg.det(square)
        for out in outs:
            (g,) = lib.autograd.grad(out.sum(), x, retain_graph=True)
            assert g.is_meta and g.shape == x.shape


def test_losses_that_look_at_targets():
    for lib in (jitgrad, torch):
        x = empty(lib, 4, 3).requires_grad_()
        lib.nn.functional.cross_entropy(x, empty(lib, 4, dtype="int64")).backward()
        assert x.grad.is_meta and x.grad.shape == (4, 3)
