"""CSR, CSC, BSR and BSC, batches and blocks of them: values, gradients, dtypes of indices, what ops refuse."""

import numpy as np
import pytest

import jitgrad as torch

KINDS = ("csr", "csc", "bsr", "bsc")
TURNED = {"csr": "csc", "csc": "csr", "bsr": "bsc", "bsc": "bsr"}


def dense(*batch, seed=0, others=()):
    """A batch of matrices (4, 6) that have their zeros at the same places."""
    source = np.random.default_rng(seed)
    there = source.random((4, 6)) < 0.4
    return torch.from_numpy(source.normal(size=(*batch, 4, 6, *others)) * there.reshape(4, 6, *[1] * len(others)))


def sparse(x, kind, dense_dim=None):
    """``x`` in a layout; of blocks (2, 3) if it is one of blocks."""
    block = (2, 3) if kind[0] == "b" else None
    return x.to_sparse(layout=getattr(torch, f"sparse_{kind}"), blocksize=block, dense_dim=dense_dim)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("kind", KINDS)
def test_batches_and_blocks_come_back(kind, batch):
    x, y = dense(*batch), dense(*batch, seed=0) * 3
    s, t = sparse(x, kind), sparse(y, kind)
    assert torch.equal(s.to_dense(), x)
    assert torch.equal(s.to_sparse_coo().to_dense(), x)
    assert torch.equal(sparse(s, TURNED[kind]).to_dense(), x)
    assert torch.equal(s.mT.to_dense(), x.mT) and s.mT._is_view() and s.mT.mT._base is s
    assert torch.equal((s + t).to_dense(), x + y)
    assert torch.equal((s * t).to_dense(), x * y)
    assert torch.equal((s * y).to_dense(), x * y)
    assert torch.equal(y + s, y + x)
    assert torch.equal(torch.add(s, y, alpha=2), y + 2 * x)  # alpha is the sparse one's, as in PyTorch
    assert torch.equal(y.sparse_mask(s).to_dense(), y * (s.to_dense() != 0) if kind[0] == "c" else y)
    for k in range(batch[0] if batch else 4):
        part = s.select(0, k)
        assert torch.equal(part.to_dense(), x[k])
    hybrid = dense(*batch, others=(2,))
    s = sparse(hybrid, kind, dense_dim=1)
    assert s.dense_dim() == 1 and torch.equal(s.to_dense(), hybrid)
    assert torch.equal(s.select(-1, 1).to_dense(), hybrid[..., 1])


@pytest.mark.parametrize("kind", ["csr", "csc"])
def test_elements_into_blocks(kind):
    x = dense()
    for target in ("bsr", "bsc"):
        blocks = sparse(sparse(x, kind), target)
        assert blocks.values().shape[1:] == (2, 3) and torch.equal(blocks.to_dense(), x)
    zero = torch.sparse_csr_tensor([0, 1, 1], [0], [0.0], (2, 4))
    assert zero.to_sparse_bsr((1, 2))._nnz() == 1  # what is stored stays stored, though it is zero


@pytest.mark.parametrize("kind", KINDS)
def test_int32_indices_stay(kind):
    s = sparse(dense(), kind)
    names = ("crow_indices", "col_indices") if kind[-1] == "r" else ("ccol_indices", "row_indices")
    first, second = (getattr(s, n)().int() for n in names)
    s = torch.sparse_compressed_tensor(first, second, s.values(), s.shape, layout=s.layout)
    turned = sparse(s, TURNED[kind])
    for y in (s, s + s, s * 2, s.sin(), s.clone(), s.float(), s.mT, turned, torch.zeros_like(s), torch.ones_like(s)):
        n = ("crow_indices", "col_indices") if str(y.layout)[-1] == "r" else ("ccol_indices", "row_indices")
        assert getattr(y, n[0])().dtype is torch.int32 and getattr(y, n[1])().dtype is torch.int32


def test_gradients_of_first_and_second_order():
    source = np.random.default_rng(1)
    make = lambda *shape: torch.from_numpy(source.normal(size=shape)).requires_grad_()
    pattern = [torch.tensor(i) for i in ([0, 2, 3, 4], [0, 2, 1, 0], [0, 1, 3, 4], [2, 0, 1, 2])]
    values, vec, add, left, right = make(4), make(3), make(3), make(2, 3, 2), make(2, 2, 3)

    def csr(v):
        return torch.sparse_csr_tensor(pattern[0], pattern[1], v, (3, 3))

    def batch(v):
        index = [torch.stack([pattern[k], pattern[k + 2]]) for k in (0, 1)]
        return torch.sparse_csr_tensor(*index, torch.stack([v, v * 2]), (2, 3, 3))

    def triangle(v):
        return torch.sparse_csr_tensor([0, 2, 3, 4], [0, 2, 1, 2], v + 3, (3, 3))

    def blocks(v):
        return torch.sparse_bsr_tensor([0, 1, 2], [1, 0], torch.stack([v, v * v]).reshape(2, 2, 2), (4, 4))

    functions = [
        lambda v, x, a, m, n: torch.addmv(a, csr(v), x, beta=2, alpha=3),
        lambda v, x, a, m, n: torch.addmm(a.unsqueeze(1), csr(v), x.unsqueeze(1)),
        lambda v, x, a, m, n: torch.sparse.sampled_addmm(batch(v), m, n, beta=2, alpha=3).values(),
        lambda v, x, a, m, n: torch.sparse.sampled_addmm(csr(v), m, n).to_dense(),
        lambda v, x, a, m, n: batch(v).to_dense(), lambda v, x, a, m, n: blocks(v).to_dense(),
        lambda v, x, a, m, n: blocks(v).to_sparse_bsc((2, 2)).values(),
        lambda v, x, a, m, n: blocks(v).to_sparse_coo().to_dense(),
        lambda v, x, a, m, n: csr(v).to_sparse_csc().values(), lambda v, x, a, m, n: torch.bmm(batch(v), m),
        lambda v, x, a, m, n: batch(v).mT.to_dense(), lambda v, x, a, m, n: (batch(v) + batch(v * v)).values(),
        lambda v, x, a, m, n: torch.add(csr(v), x.outer(a), alpha=3),
        lambda v, x, a, m, n: batch(v).select(0, 1).to_dense(), lambda v, x, a, m, n: csr(v).select(0, 0).to_dense(),
    ]  # fmt: skip
    for how in ({}, {"transpose": True}, {"unitriangular": True}, {"upper": False}):
        functions.append(
            lambda v, x, a, m, n, how=how: torch.triangular_solve(x.unsqueeze(1), triangle(v), **how).solution
        )
    given = values, vec, add, left, right
    for function in functions:
        assert torch.autograd.gradcheck(function, given)
        assert torch.autograd.gradgradcheck(function, given)


@pytest.mark.parametrize("block", [None, (2, 2)])
def test_triangular_systems(block):
    a = torch.rand(4, 4, dtype=torch.float64) + 2
    a[0, 3] = 0
    for upper in (True, False):
        s = (a.triu() if upper else a.tril()) + torch.eye(4)
        s = s.to_sparse_csr() if block is None else s.to_sparse_bsr(block)
        for transpose in (True, False):
            for unit in (True, False):
                b = torch.rand(4, 3, dtype=torch.float64)
                how = {"upper": upper, "transpose": transpose, "unitriangular": unit}
                found, copy = torch.triangular_solve(b, s, **how)
                expected = torch.triangular_solve(b, s.to_dense(), **how).solution
                np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12)
                assert copy.numel() == 0
    nothing = torch.zeros(4, 4).to_sparse_csr()
    assert torch.triangular_solve(torch.ones(4, 1), nothing).solution.isnan().all()


def test_gradients_outside_of_a_triangle_are_positive_zeros():
    a = torch.arange(1.0, 10).reshape(3, 3).requires_grad_()
    torch.linalg.solve_triangular(a, torch.ones(3, 1), upper=True).sum().backward()
    assert not torch.signbit(a.grad.tril(-1)).any()


def test_other_sizes():
    x = dense()
    s = sparse(x, "csr").clone()
    s.resize_(6, 8)
    assert torch.equal(s.to_dense(), torch.nn.functional.pad(x, (0, 2, 0, 2)))
    s.resize_(1, 8)
    assert s.shape == (1, 8) and s._nnz() == min(8, sparse(x, "csr")._nnz())
    with pytest.raises(RuntimeError, match="to a smaller value is not supported"):
        s.resize_(1, 7)
    for kind, size in (("bsr", (6, 6)), ("bsc", (4, 9))):
        t = sparse(x, kind).clone()
        t.resize_(size)
        assert torch.equal(t.to_dense(), torch.nn.functional.pad(x, (0, size[1] - 6, 0, size[0] - 4)))
        with pytest.raises(RuntimeError, match="whole blocks"):
            t.resize_(7, 9)
    t = sparse(x, "bsr").clone()
    t.resize_as_sparse_(sparse(dense(3), "bsr"))
    assert t.shape == (3, 4, 6) and torch.equal(t.to_dense(), torch.zeros(3, 4, 6).double())


def test_nothing_changes_on_errors():
    x = dense()
    s = sparse(x, "csr").clone()
    for change in (lambda: s.copy_(x), lambda: s.copy_(sparse(x, "csc")), lambda: s.copy_(sparse(x * 0, "csr")),
                   lambda: s.resize_(4, 2), lambda: s.resize_(4), lambda: s.resize_as_sparse_(x)):  # fmt: skip
        with pytest.raises(RuntimeError):
            change()
        assert torch.equal(s.to_dense(), x)


BAD_BATCHES = [
    ([[0, 1], [0, 2]], [[0], [0]]), ([[0, 1], [1, 1]], [[0], [0]]), ([[0, 1], [0, 1]], [[0], [7]]),
    ([[0, 1], [0, 1]], [[0], [-1]]), ([[0, 1]], [[0], [0]]), ([[0, 1, 1], [0, 1, 1]], [[0], [0]]),
]  # fmt: skip


@pytest.mark.parametrize("crow, cols", BAD_BATCHES)
def test_bad_indices_of_batches_are_found_at_their_first_use(crow, cols):
    s = torch.sparse_csr_tensor(torch.tensor(crow), torch.tensor(cols), torch.ones(2, 1), (2, 1, 3))
    for use in (s.to_dense, s.to_sparse_csc, lambda: s + s, lambda: torch.bmm(s, torch.ones(2, 3, 2)), s.to_sparse):
        with pytest.raises(RuntimeError):
            use()


def test_as_many_values_as_indices():
    for values in (torch.ones(1), torch.ones(3), torch.ones(2, 2)):
        with pytest.raises(RuntimeError):
            torch.sparse_csr_tensor([0, 1, 2], [0, 1], values, (2, 3))


def test_indices_alone():
    crow, cols = torch.tensor([[0, 1, 3], [0, 2, 3]]), torch.tensor([[0, 0, 1], [1, 2, 0]])
    found = torch._convert_indices_from_csr_to_coo(crow, cols, out_int32=True)
    assert found.dtype is torch.int32
    assert found.tolist() == [[0, 0, 0, 1, 1, 1], [0, 1, 1, 0, 0, 1], [0, 0, 1, 1, 2, 0]]
    assert torch._convert_indices_from_coo_to_csr(torch.tensor([0, 1, 1]), 3).tolist() == [0, 1, 3, 3]
    with pytest.raises(RuntimeError, match="found index 5"):
        torch._convert_indices_from_coo_to_csr(torch.tensor([0, 5]), 3)
    with pytest.raises(RuntimeError, match="== nnz"):
        torch._validate_compressed_sparse_indices(True, torch.tensor([0, 1]), torch.tensor([]).long(), 1, 1, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_a_view(kind):
    s = sparse(dense(), kind)
    assert s.values()._base is s and s.mT.values()._base is s
    s.values().mul_(2)
    assert torch.equal(s.to_dense(), dense() * 2) and s._version == 1
    s.requires_grad_()
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        s.values().mul_(2)
    with torch.no_grad():
        values = s.values()
    with pytest.raises(RuntimeError, match="created in no_grad mode"):
        values.mul_(2)
    with pytest.raises(RuntimeError, match="as_strided"):  # a write that no history of the sparse tensor could tell
        (s * 2).values().mul_(2)


def test_gradients_of_a_product_have_the_places_of_the_other_factor():
    x, y, g = (sparse(dense(seed=k), "csr") for k in range(3))
    x.requires_grad_(), y.requires_grad_()
    (x * y).backward(g)
    assert torch.equal(x.grad.to_dense(), dense(seed=1) * dense(seed=2))
    assert torch.equal(y.grad.to_dense(), dense(seed=0) * dense(seed=2))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("kind", ("coo", *KINDS))
def test_gradcheck_of_all_elements(kind, masked):
    check = torch.sparse.as_sparse_gradcheck(torch.autograd.gradcheck)
    x = sparse(dense(), kind).requires_grad_()
    for function in (torch.Tensor.to_dense, torch.Tensor.sum, torch.Tensor.values, lambda y: y):
        assert check(function, x, masked=masked, fast_mode=True)
    assert check(lambda y, z: y @ z, (x, torch.ones(6, 2, dtype=torch.float64, requires_grad=True)), masked=masked)
