"""Factorisations and systems: values against NumPy, layouts, gradients, vmap, forward mode, compiled functions."""

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.autograd import gradcheck, gradgradcheck
from jitgrad.func import jvp, vmap

RNG = np.random.default_rng(0)
REAL, COMPLEX = np.float64, np.complex128


def draw(*shape, dtype=REAL):
    x = RNG.standard_normal(shape)
    return (x + 1j * RNG.standard_normal(shape) if dtype is COMPLEX else x).astype(dtype)


def definite(*shape, dtype=REAL):
    x = draw(*shape, dtype=dtype)
    return x @ x.conj().swapaxes(-1, -2) + np.eye(shape[-1])


def close(found, expected, rtol=1e-10):
    np.testing.assert_allclose(found.resolve_conj().numpy(force=True), expected, rtol=rtol, atol=1e-11)


def hermitian(x):
    return (x + x.mH) / 2


BOTH = pytest.mark.parametrize("dtype", (REAL, COMPLEX))


# -- values ---------------------------------------------------------------------------------------


@BOTH
def test_cholesky_and_what_it_solves(dtype):
    a, b = definite(2, 3, 3, dtype=dtype), draw(2, 3, 2, dtype=dtype)
    lower = torch.linalg.cholesky(torch.tensor(a))
    close(lower, np.linalg.cholesky(a))
    assert lower.stride() == (9, 1, 3)
    upper = torch.linalg.cholesky(torch.tensor(a), upper=True)
    close(upper, np.linalg.cholesky(a).conj().swapaxes(-1, -2))
    for factor, is_upper in ((lower, False), (upper, True)):
        close(torch.cholesky_solve(torch.tensor(b), factor, is_upper), np.linalg.solve(a, b))
        close(torch.cholesky_inverse(factor, is_upper), np.linalg.inv(a))
    close(torch.cholesky_solve(torch.tensor(b[0]), lower), np.linalg.solve(a, b[0]))
    assert torch.linalg.cholesky(torch.zeros(0, 3, 3)).shape == (0, 3, 3)


@BOTH
@pytest.mark.parametrize("shape", ((3, 3), (2, 4, 2), (2, 5)))
def test_lu(dtype, shape):
    x = draw(*shape, dtype=dtype)
    p, lower, upper = torch.linalg.lu(torch.tensor(x))
    close(p.to(lower.dtype) @ lower @ upper, x)
    assert not lower.triu(1).any() and not upper.tril(-1).any() and not (lower.diagonal(0, -2, -1) != 1).any()
    lu, pivots, info = torch.linalg.lu_factor_ex(torch.tensor(x))
    assert pivots.dtype is info.dtype is torch.int32 and not info.any()
    for found, expected in zip(torch.lu_unpack(lu, pivots), (p, lower, upper), strict=True):
        assert found.equal(expected)
    assert [t.numel() for t in torch.lu_unpack(lu, pivots, unpack_data=False)][1:] == [0, 0]


@BOTH
def test_systems(dtype):
    a, b = draw(2, 3, 3, dtype=dtype) + 3 * np.eye(3), draw(2, 3, 2, dtype=dtype)
    x, y = torch.tensor(a), torch.tensor(b)
    turned = np.swapaxes
    close(torch.linalg.solve(x, y), np.linalg.solve(a, b))
    close(torch.linalg.solve(x, y[0]), np.linalg.solve(a, b[0]))
    close(torch.linalg.solve(x[0], y), np.linalg.solve(a[0], b))
    close(torch.linalg.solve(x, y[..., 0]), np.linalg.solve(a, b[..., :1])[..., 0])
    right = turned(np.linalg.solve(turned(a, -1, -2), b), -1, -2)
    close(torch.linalg.solve(x, y.mT, left=False), right)
    lu, pivots = torch.linalg.lu_factor(x)
    close(torch.linalg.lu_solve(lu, pivots, y), np.linalg.solve(a, b))
    close(torch.linalg.lu_solve(lu, pivots, y, adjoint=True), np.linalg.solve(turned(a.conj(), -1, -2), b))
    close(torch.linalg.lu_solve(lu, pivots, y.mT, left=False), right)
    other = turned(np.linalg.solve(a.conj(), b), -1, -2)
    close(torch.linalg.lu_solve(lu, pivots, y.mT, left=False, adjoint=True), other)
    for upper in (True, False):
        triangle = np.triu(a) if upper else np.tril(a)
        for z in (x, x.mT.contiguous().mT):  # both orders in memory
            close(torch.linalg.solve_triangular(z, y, upper=upper), np.linalg.solve(triangle, b))
    ld, places = torch.linalg.ldl_factor(torch.tensor(a + turned(a, -1, -2)))
    close(torch.linalg.ldl_solve(ld, places, y), np.linalg.solve(a + turned(a, -1, -2), b))


@BOTH
def test_determinants_and_inverses(dtype):
    a = draw(2, 3, 3, dtype=dtype)
    x = torch.tensor(a)
    close(torch.linalg.inv(x), np.linalg.inv(a))
    close(torch.linalg.det(x), np.linalg.det(a))
    for found, expected in zip(torch.linalg.slogdet(x), np.linalg.slogdet(a), strict=True):
        close(found, expected)
    assert torch.det(torch.zeros(0, 0)).item() == 1 and torch.slogdet(torch.zeros(2, 2)).logabsdet.item() == -np.inf
    assert torch.logdet(-torch.eye(3)).isnan()
    close(torch.linalg.tensorinv(x.reshape(2, 9)[:, :4].reshape(2, 2, 2)[0].reshape(2, 2), ind=1),
          np.linalg.inv(a[0].reshape(-1)[:4].reshape(2, 2)))  # fmt: skip


@pytest.mark.parametrize("n", (3, 70))  # beside a small one, one that OpenBLAS cuts into blocks
def test_larger_matrices(n):
    a = draw(n, n) + n * np.eye(n)
    x = torch.tensor(a)
    close(torch.linalg.inv(x), np.linalg.inv(a))
    q, r = torch.linalg.qr(x)
    close(q @ r, a)
    close(torch.linalg.lstsq(x, x[:, :1]).solution, np.eye(n)[:, :1])


@BOTH
@pytest.mark.parametrize("shape", ((3, 3), (2, 4, 2), (2, 3)))
def test_qr(dtype, shape):
    a = draw(*shape, dtype=dtype)
    x = torch.tensor(a)
    for mode in ("reduced", "complete"):
        q, r = torch.linalg.qr(x, mode)
        close(q @ r, a)
        close(q.mH @ q, np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], q.shape[-1], q.shape[-1])))
    reduced = torch.linalg.qr(x)
    close(torch.linalg.qr(x, "r").R, reduced.R.detach().numpy())
    factors, tau = torch.geqrf(x)
    if shape[-2] >= shape[-1]:
        close(torch.orgqr(factors, tau), reduced.Q.numpy())
        whole = torch.ormqr(factors, tau, torch.eye(shape[-2], dtype=x.dtype).expand(*shape[:-2], -1, -1))
        close(whole[..., : shape[-1]], reduced.Q.numpy())


@BOTH
@pytest.mark.parametrize("driver", ("gels", "gelsy", "gelsd", "gelss"))
def test_least_squares(dtype, driver):
    for shape in ((5, 3), (2, 2, 4), (40, 30)):
        a, b = draw(*shape, dtype=dtype), draw(*shape[:-1], 2, dtype=dtype)
        found = torch.linalg.lstsq(torch.tensor(a), torch.tensor(b), driver=driver)
        close(found.solution, np.linalg.pinv(a) @ b, rtol=1e-8)
        if shape[-2] > shape[-1] and driver != "gelsy":
            close(found.residuals, (np.abs(b - a @ (np.linalg.pinv(a) @ b)) ** 2).sum(-2))
        if driver != "gels":
            assert (found.rank == min(shape[-2:])).all()
        if driver in ("gelsd", "gelss"):
            close(found.singular_values, np.linalg.svd(a, compute_uv=False))


def test_many_small_matrices_are_two_launches():
    with torch.debug.tape() as recorded:
        torch.linalg.inv_ex(torch.tensor(draw(1000, 4, 4)))
    launches = [e.kernel.name for e in recorded]
    assert launches == ["lu", "inverse"]


# -- errors ---------------------------------------------------------------------------------------


def test_what_lapack_refuses():
    broken = torch.stack([torch.eye(3), torch.zeros(3, 3)])
    with pytest.raises(torch.linalg.LinAlgError, match=r"linalg.cholesky: \(Batch element 1\): The factorization"):
        torch.linalg.cholesky(broken)
    with pytest.raises(torch.linalg.LinAlgError, match=r"linalg.inv: The diagonal element 1 is zero, the inversion"):
        torch.linalg.inv(broken[1])
    with pytest.raises(torch.linalg.LinAlgError, match=r"torch.linalg.solve: \(Batch element 1\): The solver failed"):
        torch.linalg.solve(broken, torch.ones(2, 3))
    with pytest.raises(RuntimeError, match=r"torch.linalg.lu_factor: U\[1,1\] is zero and using it on lu_solve"):
        torch.linalg.lu_factor(broken[1])
    assert torch.linalg.inv_ex(broken).info.tolist() == [0, 1]
    assert torch.linalg.cholesky_ex(broken).info.tolist() == [0, 1]
    assert torch.linalg.solve_ex(broken, torch.ones(2, 3)).info.tolist() == [0, 1]
    with pytest.raises(torch.linalg.LinAlgError, match="linalg.inv_ex"):
        torch.linalg.inv_ex(broken, check_errors=True)
    with pytest.raises(torch.linalg.LinAlgError, match="does not have full rank"):
        torch.linalg.lstsq(torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]), torch.ones(3, 2), driver="gels")


def test_pivots_that_are_no_rows():
    lu, pivots = torch.linalg.lu_factor(torch.eye(3))
    for value, words in ((0, "greater or equal to 1"), (4, "smaller or equal to")):
        wrong = pivots.clone()
        wrong[1] = value
        with pytest.raises(RuntimeError, match=words):
            torch.linalg.lu_solve(lu, wrong, torch.ones(3, 1))
        with pytest.raises(RuntimeError, match="must be between 1 and LU.size"):
            torch.lu_unpack(lu, wrong)
        with pytest.raises(RuntimeError, match="must all satisfy"):
            torch.linalg.ldl_solve(lu, wrong, torch.ones(3, 1))


def test_arguments_that_do_not_fit():
    for name in ("cholesky", "inv", "det", "slogdet", "solve", "cholesky_ex"):
        function = getattr(torch.linalg, name)
        more = (torch.ones(3),) if name == "solve" else ()
        with pytest.raises(RuntimeError, match="A must be batches of square matrices, but they are 2 by 3 matrices"):
            function(torch.ones(2, 3), *more)
        with pytest.raises(RuntimeError, match="must have at least 2 dimensions"):
            function(torch.ones(3), *more)
    with pytest.raises(RuntimeError, match="Expected a floating point or complex tensor as input. Got Long"):
        torch.linalg.inv(torch.eye(2, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="Incompatible shapes of A and B for the equation AX = B"):
        torch.linalg.solve(torch.eye(3), torch.ones(4, 2))
    with pytest.raises(RuntimeError, match="derivative for geqrf is not implemented"):
        torch.geqrf(torch.ones(2, 2, requires_grad=True)).a.sum().backward()


# -- gradients ------------------------------------------------------------------------------------

A, B, TAU = draw(3, 3) + 3 * np.eye(3), draw(3, 2), draw(2)
FUNCTIONS = {
    "cholesky": (lambda x: torch.linalg.cholesky(hermitian(x)), definite(3, 3, dtype=COMPLEX)),
    "cholesky upper": (lambda x: torch.linalg.cholesky(hermitian(x), upper=True), definite(2, 2)),
    "cholesky_solve": (lambda x, b: torch.cholesky_solve(b, x.tril()), A, B),
    "cholesky_inverse": (lambda x: torch.cholesky_inverse(x.triu(), upper=True), A),
    "logdet": (torch.logdet, definite(3, 3)),
    "solve, one factor for two": (lambda x, b: torch.linalg.solve(x, b), A, draw(2, 3, 1)),
    "triangular_solve": (lambda x, b: torch.triangular_solve(b, x)[0], A, B),
    "lstsq, tall": (lambda x, b: torch.linalg.lstsq(x, b).solution, draw(4, 2), draw(4, 1)),
    "lstsq, wide": (lambda x, b: torch.linalg.lstsq(x, b).solution, draw(2, 4), draw(2, 1)),
    "householder": (lambda x, tau: torch.linalg.householder_product(x, tau), draw(4, 3), TAU),
}


@pytest.mark.filterwarnings("ignore:torch.triangular_solve is deprecated")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_both_orders(name):
    function, *arrays = FUNCTIONS[name]
    inputs = tuple(torch.tensor(a, requires_grad=True) for a in arrays)
    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs)


def test_determinants_of_singular_matrices_have_gradients():
    """Where a matrix is singular the gradient is the adjugate, which PyTorch has only with ``create_graph``."""
    x = torch.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=torch.float64, requires_grad=True)
    adjugate = np.array([[4.0, -2.0], [-2.0, 1.0]])
    close(torch.autograd.grad(torch.det(x), x)[0], adjugate)
    (grad,) = torch.autograd.grad(torch.det(x), x, create_graph=True)
    close(grad, adjugate)
    (again,) = torch.autograd.grad(grad[0, 0], x)
    close(again, [[0, 0], [0, 1]], rtol=1e-6)
    zeros = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
    close(torch.autograd.grad(torch.det(zeros), zeros)[0], np.zeros((3, 3)))


# -- transforms -----------------------------------------------------------------------------------

MAPPED = {
    "cholesky": lambda a, b: torch.linalg.cholesky(a @ a.mT + torch.eye(3)),
    "inv": lambda a, b: torch.linalg.inv(a),
    "det": lambda a, b: torch.linalg.det(a),
    "solve": lambda a, b: torch.linalg.solve(a, b),
    "solve for a vector": lambda a, b: torch.linalg.solve(a, b[:, 0]),
    "lu": lambda a, b: torch.linalg.lu(a)[1],
    "lu_solve": lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b),
    "qr": lambda a, b: torch.linalg.qr(a)[0],
    "householder": lambda a, b: torch.linalg.householder_product(b, b[0]),
    "lstsq": lambda a, b: torch.linalg.lstsq(b, a[:, :1]).solution,
    "triangular": lambda a, b: torch.linalg.solve_triangular(a, b, upper=True),
}


@pytest.mark.parametrize("name", MAPPED)
def test_transforms(name):
    function = MAPPED[name]
    a, b = torch.tensor(A + 0.1 * draw(2, 3, 3)).float(), torch.tensor(draw(2, 3, 2)).float()
    each = torch.stack([function(x, y) for x, y in zip(a, b, strict=True)])
    close(vmap(function)(a, b), each.numpy(), rtol=1e-4)
    close(vmap(function, (0, None))(a, b[0])[1], function(a[1], b[0]).numpy(), rtol=1e-4)
    close(vmap(vmap(function))(a[None], b[None])[0], each.numpy(), rtol=1e-4)
    x, y = a[0].double(), b[0].double()
    out, tangent = jvp(function, (x, y), (x * 0.5, y))
    h = 1e-6
    difference = (function(x + h * x * 0.5, y + h * y) - function(x - h * x * 0.5, y - h * y)) / (2 * h)
    np.testing.assert_allclose(tangent.numpy(), difference.numpy(), rtol=1e-5, atol=1e-7)


def test_compiled():
    @torch.compile
    def step(a, b):
        return torch.linalg.solve(a, b).sum() + torch.linalg.inv(a).sum() + torch.linalg.slogdet(a).logabsdet

    for k in range(3):
        a, b = torch.tensor(A + k, requires_grad=True), torch.tensor(B)
        expected = np.linalg.solve(A + k, B).sum() + np.linalg.inv(A + k).sum() + np.linalg.slogdet(A + k)[1]
        found = step(a, b)
        close(found, expected)
        found.backward()
        plain = torch.tensor(A + k, requires_grad=True)
        total = torch.linalg.solve(plain, b).sum() + torch.linalg.inv(plain).sum()
        (total + torch.linalg.slogdet(plain).logabsdet).backward()
        close(a.grad, plain.grad.numpy())
    for _ in range(2):
        with pytest.raises(torch.linalg.LinAlgError, match="torch.linalg.solve: The solver failed"):
            step(torch.zeros(3, 3, dtype=torch.float64, requires_grad=True), b)


def test_out():
    out = torch.empty(3, 3, dtype=torch.float64)
    assert torch.linalg.inv(torch.tensor(A), out=out) is out
    close(out, np.linalg.inv(A))
    q, r = torch.empty(0, dtype=torch.float64), torch.empty(0, dtype=torch.float64)
    torch.linalg.qr(torch.tensor(A), out=(q, r))
    close(q @ r, A)


def test_triangular_systems_of_a_conjugate():
    """A routine that is given the address of lazy numbers gets them written out."""
    a, b = draw(3, 3, dtype=COMPLEX), draw(2, 3, dtype=COMPLEX)
    upper = np.tril(a).conj().T
    found = torch.linalg.solve_triangular(torch.tensor(np.tril(a)).mH, torch.tensor(b), upper=True, left=False)
    close(found @ torch.tensor(upper), b)


def test_small_systems_are_solved_on_one_thread(monkeypatch):
    """OpenBLAS starts threads in some routines however small the matrix is, which takes a thousand times as long."""
    from jitgrad.kernels.loops import factorisations

    entered = []

    class Counted:
        def __enter__(self):
            entered.append(True)

        def __exit__(self, *error):
            pass

    monkeypatch.setattr(factorisations, "one_thread", Counted())
    a = torch.tensor(draw(3, 3, dtype=COMPLEX))
    torch.linalg.lu_solve(*torch.linalg.lu_factor(a), a, adjoint=True)
    torch.cholesky_inverse(torch.linalg.cholesky(a @ a.mH))
    assert len(entered) == 2


@pytest.mark.parametrize("batch", ((), (1,), (3,), (2, 3)))
@pytest.mark.parametrize("n", (1, 5, 32, 33))  # of 33 x 33 LAPACK is called
def test_small_and_large_matrices_agree(n, batch):
    """Loops compute small matrices, of any order in memory; NumPy computes with LAPACK."""
    whole, sides = definite(*batch, n, n), draw(*batch, n, 2)
    general = draw(*batch, n, n) + 3 * n * np.eye(n)
    lower = np.linalg.cholesky(whole)
    for turned in (False, True):
        w, s, g, low = (torch.tensor(np.ascontiguousarray(a.swapaxes(-1, -2))).mT if turned else torch.tensor(a)
                        for a in (whole, sides, general, lower))  # fmt: skip
        close(torch.linalg.cholesky(w), lower)
        close(torch.linalg.cholesky(w, upper=True), lower.swapaxes(-1, -2))
        for upper in (False, True):
            factor = low.mT if upper else low
            close(torch.cholesky_solve(s, factor, upper), np.linalg.solve(whole, sides))
            close(torch.cholesky_inverse(factor, upper), np.linalg.inv(whole))
        close(torch.linalg.inv(g), np.linalg.inv(general))
        close(torch.linalg.solve(g, s[..., 0]), np.linalg.solve(general, sides)[..., 0])
        for adjoint in (False, True):
            matrix = general.swapaxes(-1, -2) if adjoint else general
            found = torch.linalg.lu_solve(*torch.linalg.lu_factor(g), s, adjoint=adjoint)
            close(found, np.linalg.solve(matrix, sides))


def test_info_of_small_matrices():
    singular = torch.tensor([[[1.0, 2.0], [2.0, 4.0]], [[1.0, 0.0], [0.0, 2.0]]])
    inverse, info = torch.linalg.inv_ex(singular)
    assert info.tolist() == [2, 0] and inverse[0].isnan().all() and not inverse[1].isnan().any()
    assert torch.linalg.cholesky_ex(singular - torch.eye(2) * 3).info.tolist() == [1, 1]
    with pytest.raises(torch.linalg.LinAlgError, match=r"\(Batch element 0\)"):
        torch.linalg.inv(singular)
    with pytest.raises(torch.linalg.LinAlgError, match="cholesky_inverse"):
        torch.cholesky_inverse(torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
