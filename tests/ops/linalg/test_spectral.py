"""Eigenvalues, singular values, pseudo-inverses, exponentials: against NumPy and SciPy, and what they satisfy."""

import numpy as np
import pytest
import scipy.linalg

import jitgrad as torch
from jitgrad.autograd import gradcheck, gradgradcheck


def draw(*shape, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else values).astype(dtype)


def hermitian(x):
    return (x + x.mH) / 2


def close(ours, wanted, dtype=np.float64):
    ours = ours.detach().resolve_conj().numpy() if isinstance(ours, torch.Tensor) else ours
    tolerance = 1e-4 if np.dtype(dtype).char in "fF" else 1e-10
    np.testing.assert_allclose(ours, wanted, rtol=tolerance, atol=tolerance)


DTYPES = [np.float64, np.float32, np.complex128]
SHAPES = [(4, 4), (2, 3, 5, 5), (0, 3, 3), (2, 0, 0)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_eigh_reads_one_triangle(dtype, shape):
    x = draw(*shape, dtype=dtype)
    for part in "LU":
        values, vectors = torch.linalg.eigh(torch.tensor(x), part)
        close(values, np.linalg.eigvalsh(x, part), dtype)
        close(torch.linalg.eigvalsh(torch.tensor(x), UPLO=part.lower()), np.linalg.eigvalsh(x, part), dtype)
        kept = np.tril(x) if part == "L" else np.triu(x)
        whole = kept + np.swapaxes(kept, -1, -2).conj()
        whole[..., range(shape[-1]), range(shape[-1])] = np.diagonal(x, 0, -2, -1).real
        close(vectors * values.unsqueeze(-2) @ vectors.mH, whole, dtype)
        close(vectors.mH @ vectors, np.broadcast_to(np.eye(shape[-1]), shape), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_eig_gives_complex_pairs(dtype, shape):
    x = torch.tensor(draw(*shape, dtype=dtype))
    values, vectors = torch.linalg.eig(x)
    assert values.dtype is vectors.dtype is x.dtype.to_complex()
    close(x.to(values.dtype) @ vectors, (vectors * values.unsqueeze(-2)).numpy(), dtype)
    close(torch.linalg.vector_norm(vectors, dim=-2), np.ones(shape[:-1]), dtype)
    close(np.sort_complex(torch.linalg.eigvals(x).numpy()), np.sort_complex(values.numpy()), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (2, 5, 3), (3, 4), (0, 3), (2, 3, 0)])
def test_svd_multiplies_to_the_matrix(dtype, shape):
    x = draw(*shape, dtype=dtype)
    m, n = shape[-2:]
    for full in (True, False):
        u, s, vh = torch.linalg.svd(torch.tensor(x), full_matrices=full)
        k = min(m, n)
        assert u.shape[-2:] == (m, m if full else k)
        assert vh.shape[-2:] == (n if full else k, n)
        close(u[..., :k] * s.unsqueeze(-2) @ vh[..., :k, :], x, dtype)
        close(u.mH @ u, np.broadcast_to(np.eye(u.shape[-1]), (*shape[:-2], u.shape[-1], u.shape[-1])), dtype)
        close(s, np.linalg.svd(x, compute_uv=False), dtype)
        old = torch.svd(torch.tensor(x), some=not full)
        close(old.V.mH, vh.numpy(), dtype)
    close(torch.linalg.svdvals(torch.tensor(x)), np.linalg.svd(x, compute_uv=False), dtype)


def test_svd_without_vectors_has_zeros_for_them():
    u, s, v = torch.svd(torch.tensor(draw(3, 2)), compute_uv=False)
    assert u.tolist() == torch.zeros(3, 3).tolist()
    assert v.tolist() == torch.zeros(2, 2).tolist()
    close(s, np.linalg.svd(draw(3, 2), compute_uv=False))


def test_large_stacks_are_shared_by_threads():
    x = draw(100, 16, 16)
    close(torch.linalg.svdvals(torch.tensor(x)), np.linalg.svd(x, compute_uv=False))
    values, vectors = torch.linalg.eigh(torch.tensor(x))
    close(values, np.linalg.eigvalsh(x))


def test_gradients_of_values_and_invariant_products():
    x = torch.tensor(draw(3, 3)).requires_grad_()
    z = torch.tensor(draw(3, 3, dtype=np.complex128)).requires_grad_()
    wide = torch.tensor(draw(2, 2, 4)).requires_grad_()
    weights = torch.tensor(draw(3, 3, seed=1))

    def projected(x):
        values, vectors = torch.linalg.eigh(hermitian(x))
        return values, (vectors * values.exp().unsqueeze(-2) @ vectors.mH).abs()

    def mixed(x):
        values, vectors = torch.linalg.eig(x)
        return values.abs(), (vectors.abs() * weights).sum()

    def rebuilt(x):
        u, s, vh = torch.linalg.svd(x, full_matrices=False)
        return s, (u * s.tanh().unsqueeze(-2) @ vh).abs()

    for function, given in [
        (projected, x), (projected, z), (mixed, x), (mixed, z), (rebuilt, x), (rebuilt, z), (rebuilt, wide),
        (lambda x: torch.linalg.eigvals(x).abs(), x), (lambda x: torch.linalg.eigvalsh(hermitian(x)), z),
        (torch.linalg.svdvals, wide.mT), (torch.linalg.pinv, wide), (torch.linalg.pinv, z), (torch.matrix_exp, z),
    ]:  # fmt: skip
        assert gradcheck(function, (given,))
    for function, given in [(projected, x), (rebuilt, wide), (torch.linalg.pinv, wide), (torch.matrix_exp, x)]:
        assert gradgradcheck(function, (given,))


def test_losses_that_depend_on_phases_are_refused():
    z = torch.tensor(draw(3, 3, dtype=np.complex128)).requires_grad_()
    words = "specified up to multiplication by e"
    with pytest.raises(RuntimeError, match=f"linalg_eig_backward: .*{words}"):
        torch.linalg.eig(z).eigenvectors.imag.sum().backward()
    with pytest.raises(RuntimeError, match=f"linalg_eigh_backward: .*{words}"):
        torch.linalg.eigh(hermitian(z)).eigenvectors.imag.sum().backward()
    with pytest.raises(RuntimeError, match=f"svd_backward: .*{words}"):
        torch.linalg.svd(z).U.imag.sum().backward()


def test_full_bases_have_gradients_of_what_belongs_to_values():
    x = torch.tensor(draw(4, 2)).requires_grad_()
    (full,) = torch.autograd.grad((torch.linalg.svd(x).U[:, :2] ** 3).sum(), x)
    (some,) = torch.autograd.grad((torch.linalg.svd(x, full_matrices=False).U ** 3).sum(), x)
    close(full, some.numpy())


def test_what_is_not_finite_is_an_error_that_names_the_matrix():
    x = torch.eye(2).repeat(3, 1, 1)
    x[1, 0, 0] = torch.nan
    with pytest.raises(torch.linalg.LinAlgError, match=r"linalg.svd: \(Batch element 1\): .* non-finite values"):
        torch.linalg.svd(x)
    with pytest.raises(torch.linalg.LinAlgError, match=r"linalg.svd: The algorithm failed"):
        torch.linalg.svdvals(x[1])
    with pytest.raises(torch.linalg.LinAlgError, match=r"linalg.eigh: \(Batch element 1\): The algorithm failed"):
        torch.linalg.eigh(x)
    with pytest.raises(RuntimeError, match="should not contain infs or NaNs"):
        torch.linalg.eig(x)
    with pytest.raises(RuntimeError, match="must be batches of square matrices, but they are 2 by 3 matrices"):
        torch.linalg.eigh(torch.ones(2, 3))
    with pytest.raises(RuntimeError, match="Expected UPLO argument to be 'L' or 'U', but got x"):
        torch.linalg.eigh(x, UPLO="x")
    with pytest.raises(RuntimeError, match="`driver=` is only supported on CUDA"):
        torch.linalg.svd(x, driver="gesvd")


def test_results_into_out():
    x = torch.tensor(draw(3, 3))
    values, vectors = torch.empty(0, dtype=torch.float64), torch.empty(0, dtype=torch.float64)
    found = torch.linalg.eigh(x, out=(values, vectors))
    assert found.eigenvalues is values
    assert vectors.shape == (3, 3)
    assert repr(found).startswith("torch.return_types.linalg_eigh(\neigenvalues=")


# -- pseudo-inverses, ranks ------------------------------------------------------------------------------


def test_pinv_of_any_rank():
    x = draw(2, 4, 2) @ draw(2, 2, 3, seed=1)
    close(torch.linalg.pinv(torch.tensor(x)), np.linalg.pinv(x, rcond=1e-12))
    assert torch.linalg.pinv(torch.ones(2, 0, 3)).shape == (2, 3, 0)
    symmetric = draw(3, 3) + draw(3, 3).T
    close(torch.linalg.pinv(torch.tensor(symmetric), hermitian=True), np.linalg.inv(symmetric))
    diagonal = torch.diag(torch.tensor([4.0, 1.0, 0.1], dtype=torch.float64))
    for options in [{"atol": 2.0}, {"rtol": 0.5}, {"rcond": torch.tensor(0.5)}, {"atol": torch.tensor(2.0)}]:
        assert torch.linalg.pinv(diagonal, **options).diag().tolist() == [0.25, 0, 0]
        rank_options = {"rtol": 0.5} if "rcond" in options else options
        assert torch.linalg.matrix_rank(diagonal, **rank_options).item() == 1
    assert torch.linalg.matrix_rank(torch.tensor(x)).tolist() == [2, 2]
    assert torch.linalg.matrix_rank(diagonal, 0.5).item() == 2
    assert torch.linalg.matrix_rank(torch.ones(3, 3), hermitian=True).item() == 1
    assert torch.linalg.matrix_rank(torch.ones(2, 0, 3)).tolist() == [0, 0]


def test_tolerances_that_broadcast_and_those_that_are_no_numbers():
    x = torch.tensor(np.diag([1.0, 0.1]), requires_grad=True)
    for name in ("atol", "rtol"):
        found = torch.linalg.pinv(x, **{name: torch.tensor([[0.5], [0.01], [2.0]])})
        assert found.shape == (3, 1, 2, 2)
        assert found.diagonal(dim1=-2, dim2=-1).tolist() == [[[1, 0]], [[1, 10]], [[0, 0]]]
        assert torch.autograd.grad(found.sum(), x)[0].shape == (2, 2)
        with pytest.raises(RuntimeError, match=r"size of tensor a \(2\) must match the size of tensor b \(3\)"):
            torch.linalg.pinv(x.expand(2, 2, 2), **{name: torch.ones(3)})
        for function, op in ((torch.linalg.pinv, "pinv"), (torch.linalg.matrix_rank, "matrix_rank")):
            for wrong in ([], "a", 1j):
                with pytest.raises(TypeError, match=rf"{op}\(\): argument '{name}' must be float"):
                    function(x, **{name: wrong})


def test_low_rank_approximations():
    torch.manual_seed(0)
    x = torch.tensor(draw(8, 2) @ draw(2, 5, seed=1))
    u, s, v = torch.svd_lowrank(x, q=3)
    close(u * s @ v.mT, x.numpy())
    u, s, v = torch.pca_lowrank(x)
    close(u * s @ v.mT, x.numpy() - x.numpy().mean(0))
    with pytest.raises(ValueError, match="not greater than min"):
        torch.pca_lowrank(x, q=6)


# -- exponentials ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1e-3, 0.05, 0.3, 1.0, 30.0])
def test_matrix_exp_of_all_sizes(dtype, scale):
    x = draw(3, 4, 4, dtype=dtype) * np.array([1, 0.01, 0]).reshape(3, 1, 1) * scale / 4
    wanted = scipy.linalg.expm(x.astype(np.complex128))
    ours = torch.matrix_exp(torch.tensor(x.astype(dtype))).numpy() / np.abs(wanted).max()
    close(ours, wanted / np.abs(wanted).max(), dtype)


def test_matrix_exp_of_large_matrices_of_single_precision():
    x = (draw(130, 130) / 40).astype(np.float32)
    close(torch.matrix_exp(torch.tensor(x)), scipy.linalg.expm(x.astype(np.float64)), np.float32)


def test_matrix_exp_spreads_nan():
    x = torch.zeros(2, 2, 2)
    x[0, 0, 0] = torch.inf
    found = torch.linalg.matrix_exp(x)
    assert found[0].isnan().all()
    assert found[1].tolist() == [[1, 0], [0, 1]]
    assert torch.matrix_exp(torch.ones(0, 3, 3)).shape == (0, 3, 3)


# -- transforms ------------------------------------------------------------------------------------------


def test_vmap_forward_mode_and_compile():
    x = torch.tensor(draw(3, 4, 4))
    for function in [
        lambda x: torch.linalg.eigvalsh(hermitian(x)), torch.linalg.svdvals, torch.linalg.pinv, torch.matrix_exp,
        lambda x: torch.linalg.eig(x).eigenvalues.abs(),
    ]:  # fmt: skip
        close(torch.func.vmap(function)(x), torch.stack([function(a) for a in x]).numpy())
        reverse, forward = torch.func.jacrev(function)(x[0]), torch.func.jacfwd(function)(x[0])
        close(forward, reverse.numpy())
    compiled = torch.compile(lambda x: torch.linalg.svd(x, full_matrices=False).S.log().sum())
    for k in range(3):
        a = x[k].clone().requires_grad_()
        compiled(a).backward()
        close(a.grad, np.linalg.inv(x[k].numpy()).T)
