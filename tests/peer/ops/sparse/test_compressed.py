"""CSR, CSC, BSR and BSC beside PyTorch's: texts of results, gradients and their layouts, errors."""

import warnings

import pytest

import jitgrad

torch = pytest.importorskip("torch")

# Evaluated with ``torch`` meaning either library; results are compared as they are printed.
RESULTS = """
c | s | r | k | b | R | h | i | i.crow_indices() | i.col_indices().dtype | b.values() | R.to_dense() | h.to_dense()
c.to_sparse_csc() | c.to_sparse_bsr((2, 3)) | s.to_sparse_bsc((2, 3)) | r.to_sparse_bsc((2, 3)) | r.to_sparse_coo()
s.to_sparse_coo() | k.to_sparse() | b.to_sparse_csc() | b.to_sparse_coo() | R.to_sparse_bsc((2, 3)) | R.to_sparse()
h.to_sparse_csc() | h.to_sparse_bsr((2, 3)) | h.to_sparse() | z.to_sparse_bsr((1, 2)) | z.to_sparse_coo()
d.to_sparse_csc()
z.to_sparse_csc() | m.to_sparse_bsc((4, 1)) | b.to_sparse_coo().is_coalesced() | s.to_sparse_coo().is_coalesced()
i.to_sparse_csc().ccol_indices().dtype | i.to_sparse_bsr((2, 2)).col_indices().dtype | (i + i).crow_indices().dtype
i.t().row_indices().dtype | i.double().col_indices().dtype | i.clone().crow_indices().dtype
i.sin().col_indices().dtype
torch.zeros_like(i).crow_indices().dtype | (i * i).crow_indices().dtype | torch.mm(i, i.t()).crow_indices().dtype
i.sum(0, keepdim=True) | c.sum(1, keepdim=True) | c.sum((0, 1), keepdim=True) | c.sum() | r.sum() | b.sum()
torch.addmv(torch.ones(4), c, v, beta=2, alpha=3) | torch.addmv(torch.ones(1), s, v) | torch.mv(c, v) | q.mv(v[:4])
torch.addmv(torch.full((4,), float("nan")), c, v, beta=0) | c @ m.t() | s @ m.t() | q @ m | m.t() @ c | m.t() @ s
c @ s.t().to_sparse_csr() | s @ s.t() | torch.addmm(torch.ones(4, 4), c, c.t()) | torch.addmm(torch.ones(()), s, m.t())
torch.addmm(torch.ones(4, 4).to_sparse_csr(), s, c.t())
torch.addmm(torch.ones(4, 4).to_sparse_csc(), s, m.t().to_sparse_csc())
c + c | s + s | r + r | q + q | b + b | torch.add(c, m, alpha=3) | torch.add(m, c, alpha=3) | m + b.to_dense() | c * c
c * s | c * m | m * c | b * 2 | r * 2 | b.sin() | R.sin() | r.relu() | -k | c.abs() | b + b.to_dense()
c.select(0, 1) | c.select(1, 2) | s[0] | s.select(1, 0) | c[0, 2] | b[0] | b.select(0, -1) | h.select(2, 0) | R[1]
c.unbind() | torch.select_copy(r, 0, 1) | torch.select_copy(k, 1, 0) | torch.select_copy(b, 0, 1)
torch.select_copy(c, 0, 3)
c.t() | r.t() | k.transpose(0, 1) | b.mT | R.transpose(1, 2) | b.transpose(0, 0) | c.t()._is_view()
c.t().t()._base is c
c.clone().resize_(4, 7) | c.clone().resize_(2, 6) | c.clone().resize_(1, 6) | c.clone().resize_(6, 8).resize_(2, 8)
b.clone().resize_(2, 2, 6) | b.clone().resize_(4, 6) | c.clone().zero_() | R.clone().zero_()
torch.zeros(2, 4, 6, layout=torch.sparse_csc) | torch.zeros_like(r) | torch.empty_like(c).crow_indices()
torch.full_like(c, 3)
torch.ones_like(r) | torch.zeros_like(b) | torch.zeros_like(c, layout=torch.sparse_csc)
torch.ones_like(c, dtype=torch.float64)
c.clone().copy_(c * 2) | r.clone().copy_(r * 2) | c.clone().copy_(c.double()) | torch.randn_like(c).layout
m.sparse_mask(c) | m.sparse_mask(r) | m.to_sparse().sparse_mask(s) | m.to_sparse().sparse_mask(r)
torch.sparse.sampled_addmm(c, A, A.t(), beta=2, alpha=3) | torch.sparse.sampled_addmm(b, A2, A2.mT)
torch.sparse.sampled_addmm(c, A2, A2.mT)
torch.sparse.sampled_addmm(c, A, A.t(), out=torch.zeros(4, 4).to_sparse_csr())
torch.triangular_solve(A, q) | torch.triangular_solve(A, u, transpose=True) | torch.triangular_solve(A, u, upper=False)
torch.triangular_solve(A, u, unitriangular=True) | torch.triangular_solve(A, torch.zeros(4, 4).to_sparse_csr())
torch._convert_indices_from_coo_to_csr(torch.tensor([0, 1, 1]), size=3, out_int32=True)
torch._convert_indices_from_csr_to_coo(torch.tensor([[0, 1, 3], [0, 2, 3]]), torch.tensor([[0, 0, 1], [1, 2, 0]]))
torch._convert_indices_from_csr_to_coo(torch.tensor([0, 1, 3]), torch.tensor([0, 0, 1]), transpose=True)
torch._validate_compressed_sparse_indices(True, torch.tensor([0, 0]), torch.tensor([], dtype=torch.int64), 1, 1, 0)
torch.sparse_bsc_tensor([0, 1], [0], [[[1.0, 2]]]) | b.sparse_dim() | h.dense_dim() | R._nnz() | c.is_sparse_csr
s.is_sparse
"""
ERRORS = """
c.stride() | s.stride(0) | r.is_contiguous() | k.storage() | c.unsqueeze(0) | c[0:1] | b.select(1, 0) | c.select(0, 9)
b.transpose(0, 1) | b.transpose(2, 0) | h.transpose(0, 1) | c.clone().resize_(4) | c.clone().resize_(4, 2)
torch.zeros(4, 6, layout=torch.sparse_bsr)
c.clone().copy_(m) | c.clone().copy_(s) | c.clone().copy_(z) | m.clone().copy_(c)
c.clone().copy_(m.t().contiguous().to_sparse_csr())
torch.ones(4, 6).to_sparse_bsr((2, 3)).copy_(torch.ones(4, 6).to_sparse_bsr((1, 6)))
torch.empty_like(c, layout=torch.sparse_csc)
torch.empty(4, 6, layout=torch.sparse_bsc) | c.clone().resize_as_sparse_(s) | c.clone().resize_as_sparse_(m)
m.clone().resize_as_sparse_(c) | r.to_sparse_csr() | k.to_sparse_csc() | r.to_sparse_bsr((2, 2))
r.to_sparse_bsc((4, 3))
b.to_sparse_bsr((2, 3)) | torch.zeros(0, 4, 6).to_sparse_csr() | torch.stack([m, m * 0]).to_sparse_csr()
torch.stack([m, m]).to_sparse().to_sparse_csr() | m.to_sparse_csr(dense_dim=3) | c + s | c + z | z + c.t() | c.sum(0)
s.sum(0, keepdim=True) | torch.mv(c, torch.ones(5)) | c @ torch.ones(5) | torch.addmv(torch.ones(3), c, v)
torch.mm(b, m)
torch.mm(m, b) | torch.mm(c, torch.ones(2, 3)) | torch.addmm(torch.ones(1, 4, 4), c, m.t())
torch.bmm(c, torch.ones(2, 6, 3))
torch.addmm(torch.ones(2, 4), c, m.t()) | torch.sparse.sampled_addmm(s, A, A.t()) | torch.sparse.sampled_addmm(c, c, A)
torch.sparse.sampled_addmm(c, A[0], A) | torch.sparse.sampled_addmm(c, A, A)
torch.sparse.sampled_addmm(c, A[:3], A.t())
torch.sparse.sampled_addmm(c, A2, A.t()) | torch.sparse.sampled_addmm(c, A.double(), A.t())
torch.sparse.sampled_addmm(b, A, A.t()) | torch.triangular_solve(A, c) | torch.triangular_solve(A, u.double())
torch.triangular_solve(A, u.to_sparse_csc()) | torch._convert_indices_from_coo_to_csr(torch.ones(2, 2).long(), size=3)
torch._convert_indices_from_coo_to_csr(torch.tensor([0.0]), 3) | c.sparse_mask(m.to_sparse()) | m.sparse_mask(z)
torch._validate_sparse_csr_tensor_args(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(2), (1, 1))
torch._validate_sparse_csr_tensor_args(torch.tensor([0, 1]).short(), torch.tensor([0]).short(), torch.ones(1), (1, 1))
torch._validate_sparse_csr_tensor_args(torch.tensor([0, 5, 1])[::2], torch.tensor([0]), torch.ones(1), (1, 1))
torch._validate_sparse_csr_tensor_args(torch.tensor(0), torch.tensor([0]), torch.ones(1), (1, 1))
torch._validate_sparse_bsr_tensor_args(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1, 2), (1, 1))
torch._validate_sparse_bsr_tensor_args(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1, 1, 2), (1, 3))
torch._validate_sparse_csr_tensor_args(torch.tensor([[0, 1]]), torch.tensor([[0]]), torch.ones(1, 1), (2, 1, 1))
torch._validate_sparse_csc_tensor_args(torch.tensor([0, 2]), torch.tensor([0, 0]), torch.ones(2), (1, 1))
torch._validate_compressed_sparse_indices(True, torch.tensor([0, 1]), torch.tensor([], dtype=torch.int64), 1, 1, 0)
"""


def split(text):
    return [part.strip() for line in text.strip().splitlines() for part in line.split("|")]


def names(library):
    m = library.tensor([[1.0, 0, 2, 0, 3, 0], [0, 4, 0, 5, 0, 6], [7, 0, 8, 0, 9, 0], [0, 1, 0, 2, 0, 3]])
    c, u, A = m.to_sparse_csr(), library.arange(1.0, 17).reshape(4, 4).triu(), library.arange(8.0).reshape(4, 2)
    both = library.stack([m, m * 2])
    c4 = library.sparse_csr_tensor(c.crow_indices().int(), c.col_indices().int(), c.values(), c.shape)
    square = library.sparse_csr_tensor([0, 1, 2, 3, 4], [3, 1, 2, 0], [1.0, 2, 3, 4], (4, 4))
    return {
        "torch": library, "m": m, "d": both, "c": c, "s": m.to_sparse_csc(), "r": m.to_sparse_bsr((2, 3)),
        "k": m.to_sparse_bsc((2, 3)), "b": both.to_sparse_csr(), "R": both.to_sparse_bsr((2, 3)), "i": c4,
        "h": library.stack([m, m + 1], 2).to_sparse_csr(dense_dim=1), "v": library.arange(6.0), "A": A,
        "A2": library.stack([A, A + 1]), "q": u.to_sparse_bsr((2, 2)), "u": u.to_sparse_csr(),
        "z": library.sparse_csr_tensor([0, 1, 1], [0], [0.0], (2, 4)), "square": square,
    }  # fmt: skip


def outcome(library, text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = names(library)
        if "sampled" in text:  # of square matrices
            given["c"] = given["square"]
            given["b"] = library.stack([given["c"].to_dense()] * 2).to_sparse_csr()
            given["s"] = given["c"].to_sparse_csc()
        try:
            return repr(eval(text, given))
        except Exception as error:
            return type(error), str(error)


@pytest.mark.parametrize("text", split(RESULTS))
def test_results(text):
    ours, theirs = outcome(jitgrad, text), outcome(torch, text)
    assert isinstance(theirs, str), theirs
    assert ours == theirs


@pytest.mark.parametrize("text", split(ERRORS))
def test_errors(text):
    ours, theirs = outcome(jitgrad, text), outcome(torch, text)
    assert not isinstance(ours, str) and issubclass(ours[0], theirs[0])
    if "Could not run" not in theirs[1]:
        assert ours[1] == theirs[1]


# Of a sparse leaf x, compressed, and dense ones d, w and B; gradients are compared as they are printed.
PROGRAMS = """
torch.addmv(w, x, d[:, 0], beta=2, alpha=3) | x.mv(d[:, 0]) | x @ d | torch.sparse.mm(x, d) | x.to_dense()
torch.add(w.expand(6, 4).t(), x, alpha=3) | x.sum() | torch.sparse.sampled_addmm(x, B, d.t(), beta=2, alpha=3)
torch.triangular_solve(w.unsqueeze(1), t).solution | torch.triangular_solve(w.unsqueeze(1), t, upper=False).solution
torch.triangular_solve(w.unsqueeze(1), t, transpose=True).solution | x.values() | x * 2 | x.neg()
"""


def gradients(library, text):
    given = names(library)
    x, t = given["c"].requires_grad_(), given["u"].requires_grad_()
    d, w = (library.arange(float(n)).requires_grad_() for n in (12, 4))
    B = library.ones(4, 2).requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = eval(text, {"torch": library, "x": x, "t": t, "d": d.reshape(6, 2), "w": w, "B": B})
        y = y if str(y.layout).endswith("strided") else y.to_dense()
        y.sum().backward()
    return repr((x.grad, t.grad, d.grad, w.grad, B.grad))


@pytest.mark.parametrize("text", split(PROGRAMS))
def test_gradients(text):
    assert gradients(jitgrad, text) == gradients(torch, text)
