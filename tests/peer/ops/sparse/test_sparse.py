"""Sparse tensors beside PyTorch's: texts of results, gradients and their layouts, errors, steps of optimisers."""

import warnings

import pytest

import jitgrad

torch = pytest.importorskip("torch")

CHECK = {"check_invariants": True}
# Evaluated with ``torch`` meaning either library; results are compared as they are printed.
RESULTS = """
x | u | w | c | x.coalesce() | w.coalesce() | w.is_coalesced() | w.coalesce().indices() | w.coalesce().values()
torch.sparse_coo_tensor((2, 3), dtype=torch.float64) | torch.sparse_coo_tensor(i, v) | torch.zeros(2, 0).to_sparse()
torch.sparse_coo_tensor(i, torch.ones(3, 2)) | torch.tensor(3.).to_sparse() | d.to_sparse(1) | d.to_sparse_csr()
d.to_sparse_csc() | d.to_sparse_bsr((2, 1)) | d.to_sparse_bsr((2, 1)).to_dense() | x.to_sparse_csr().to_sparse_csc()
torch.sparse_csr_tensor([0, 1, 2], [0, 1], [1., 2.]) | x.double() | x.half() | x.to(torch.complex64) | x.bool()
x.type() | x.layout | c.layout | d.layout | x.is_sparse | c.is_sparse | c.is_sparse_csr | x.sparse_dim() | d.dense_dim()
x + u | w + x | w + w | x - w | d + x | d - x | x + x.long() | x * 2 | 2 * x | w * w | x * w | x * d | d * u | x / 2
x.long() / 2 | x.long() * 2.5 | x * torch.ones(1, 3, dtype=torch.float64) | torch.ones(2, 2, 3) * x | c * 2 | c + c
c * d | c + d | c * c | -w | w.abs() | w.sin() | w.relu() | w.sqrt() | x ** 2 | x.long().sin() | torch.isnan(w)
x.sum() | x.sum(0) | w.sum(1) | w.sum(1, keepdim=True) | torch.sparse.sum(w, (0,)) | x.long().sum(0) | x.norm()
torch.sparse.softmax(x, 1) | torch.sparse.log_softmax(x, 0) | x.any() | x.t() | x.transpose(0, 1) | c.t()
x.permute(1, 0) | x.unsqueeze(0) | x.unsqueeze(2) | x[0] | x[0, 2] | x[1] | x.index_select(1, torch.tensor([2, 2]))
x.index_select(0, torch.tensor([1, 0])) | torch.narrow_copy(x, 0, 0, 1) | x.unbind() | torch.cat([x, u])
torch.cat([x, u], 1) | torch.stack([x, u]) | torch.sparse.mm(x, d.t()) | torch.mm(d.t(), x) | torch.mm(x, x.t())
x @ torch.ones(3) | c @ d.t() | torch.addmm(torch.ones(2, 2), x, d.t(), beta=2, alpha=3)
torch.hspmm(w, torch.ones(3, 2)) | torch.sspaddmm(u, w, torch.ones(3, 3)) | torch.smm(x, d.t())
torch.sparse.mm(c, torch.ones(3, 2), "mean") | torch.sparse.mm(c, torch.ones(3, 2), "amax")
torch.sparse.sampled_addmm(torch.eye(2).to_sparse_csr(), d, d.t()) | torch.bmm(x.unsqueeze(0), d.t().unsqueeze(0))
d.sparse_mask(w) | x.sparse_mask(w) | torch.zeros_like(x) | torch.empty_like(x) | x.clone() | x.new_zeros(2)
torch.zeros(2, 3, layout=torch.sparse_coo) | torch.zeros(2, 3, layout=torch.sparse_csr) | len(x) | x.stride()
torch.sparse.spdiags(torch.arange(9.).reshape(3, 3), torch.tensor([0, -1, 1]), (3, 4)) | torch.nn.Parameter(x)
x.int() - w.byte() | torch.sub(x.long(), w.byte(), alpha=2)
torch.sparse.FloatTensor(i, v) | x.add(u, alpha=2) | x.clone().add_(u) | x.clone().mul_(2) | x.clone().zero_()
u.clone().copy_(w) | d.clone().add_(w, alpha=2) | d.clone().mul_(x) | torch.sparse_coo_tensor(i, v.requires_grad_())
"""
ERRORS = """
torch.sparse_coo_tensor(i, v, (1, 3), **K) | torch.sparse_coo_tensor(-i, v, (2, 3), **K)
torch.sparse_coo_tensor(-i, v)
torch.sparse_coo_tensor(i[0], v, (2, 3), **K) | torch.sparse_coo_tensor(i, v, (2, 3, 4))
torch.sparse_coo_tensor(i, v[:2], (2, 3)) | torch.sparse_coo_tensor(i, v[:, None], (2, 3, 4))
torch.sparse_coo_tensor(i.flip(1), v, (2, 3), is_coalesced=True, **K) | torch.sparse_coo_tensor(i, v, (2, -3))
torch.sparse_csr_tensor([0, 1, 3], [0, 1], [1., 2.], (2, 3), **K) | w.indices() | w.values() | d.values() | d.indices()
torch.sparse_csr_tensor([1, 1, 2], [0, 1], [1., 2.], (2, 3), **K) | x.crow_indices() | c.indices() | d.coalesce()
torch.sparse_csr_tensor([0, 1, 2], [0, 4], [1., 2.], (2, 3), **K) | x.numpy() | x.tolist() | x.storage() | x.nbytes
torch.sparse_csr_tensor([0, 2, 2], [1, 0], [1., 2.], (2, 3), **K) | x.data_ptr() | x.reshape(3, 2) | x.expand(2, 2, 3)
torch.sparse_csr_tensor([0, 1, 2], [0, 1], [1., 2.], (3, 3), **K) | torch.mm(x, torch.ones(2, 2)) | x.to_sparse(1)
torch.sparse_csr_tensor([0, 1, 2], [0, -1], [1., 2.], (2, 3), **K) | torch.mv(x, torch.ones(2)) | d.to_sparse(3)
torch.sparse_csr_tensor([0, 2, 1, 2], [0, 1], [1., 2.], (3, 3), **K) | x + d | x / d | torch.cat([x, d])
torch.sparse_csr_tensor([0, 1, 2], [0, 1, 2], [1., 2.], (2, 3), **K) | torch.mm(x, torch.ones(3, 2).double())
torch.sparse_csc_tensor([0, 1, 2], [0, 4], [1., 2.], (2, 2), **K) | w.clone().sqrt_() | d.sparse_mask(x.t())
torch.sparse_compressed_tensor([0, 1], [0], [1.], (1, 1)) | x.item() | x.bool() + x.bool() | x.pow(0)
"""
# What PyTorch has no op for either; the words after the op's name are our own.
REFUSED = """
x.exp() | x.cos() | x.sigmoid() | x.max() | x.sort() | x.cumsum(0) | x > 0 | x == x | x.masked_fill(d > 0, 1) | x[:1]
x.view(3, 2) | x.squeeze() | x.nonzero() | torch.softmax(x, 1) | torch.where(d > 0, x, x) | x.fill_(1) | x.mean()
x.as_strided((2,), (1,)) | torch.logsumexp(x, 0) | torch.equal(x, x) | torch.linalg.inv(x @ x.t()) | x.unfold(0, 1, 1)
torch.layer_norm(x, (3,))
"""


def split(text):
    return [part.strip() for line in text.strip().splitlines() for part in line.split("|")]


def names(library):
    i = library.tensor([[0, 1, 1], [2, 0, 2]])
    v, d = library.tensor([3.0, 4, 5]), library.arange(6.0).reshape(2, 3)
    x, u = library.sparse_coo_tensor(i, v, (2, 3)).coalesce(), library.tensor([[0, 1.0, 2], [0, 0, 0]]).to_sparse()
    w = library.sparse_coo_tensor(library.tensor([[0, 0, 0], [2, 1, 2]]), library.tensor([1.0, 2, 5]), (2, 3))
    return {"torch": library, "i": i, "v": v, "d": d, "x": x, "u": u, "w": w, "c": d.to_sparse_csr(), "K": CHECK}


def outcome(library, text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return repr(eval(text, names(library)))
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
    assert ours[1] == theirs[1]


@pytest.mark.parametrize("text", split(REFUSED))
def test_refused(text):
    ours, theirs = outcome(jitgrad, text), outcome(torch, text)
    assert not isinstance(theirs, str) and not isinstance(ours, str), (ours, theirs)
    assert issubclass(ours[0], (NotImplementedError, RuntimeError))


# Of a sparse leaf x and a dense one d; gradients are compared as they are printed, so in their layouts.
PROGRAMS = """
torch.sparse.mm(x, d) | x @ d | x.to_dense() | x.to_dense(masked_grad=False) | x.coalesce().values() | -x | x * 2
x * x | x + x | d.t() + x | torch.sparse.sum(x, 0) | torch.sparse.sum(x) | x.sum() | torch.sparse.softmax(x, 1)
torch.sparse.log_softmax(x, 0) | x.to_sparse_csr().to_dense() | x.to_sparse_csr().values()
d.t().sparse_mask(x.detach())
x.sparse_mask(torch.eye(3)[:2].to_sparse()) | torch.sparse.addmm(torch.ones(2, 2), x, d) | d.to_sparse() | x.double()
x.clone() | torch.sparse.sampled_addmm(x.to_sparse_csr(), d.t(), d @ d.t())
"""


def gradients(library, text):
    x = library.sparse_coo_tensor(library.tensor([[0, 1, 1], [2, 0, 2]]), library.tensor([3.0, 4, 5]), (2, 3))
    x, d = x.coalesce().requires_grad_(), library.arange(6.0).reshape(3, 2).requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = eval(text, {"torch": library, "x": x, "d": d})
        y = y if str(y.layout).endswith("strided") else y.to_dense()
        y.pow(2).sum().backward()
    return repr((x.grad, d.grad))


@pytest.mark.parametrize("text", split(PROGRAMS))
def test_gradients(text):
    assert gradients(jitgrad, text) == gradients(torch, text)


def rows_of_table(library, how):
    w = library.arange(10.0).reshape(5, 2).requires_grad_()
    index, F = library.tensor([1, 3, 1]), library.nn.functional
    found = []
    for k in range(2):
        out = how(library, F, index, w)
        (out**2).sum().backward()
        found.append(repr(w.grad))
        index = library.tensor([0, 4, k])
    (w * 2).sum().backward()
    return [*found, repr(w.grad)]


TABLES = {
    "embedding": lambda t, F, i, w: F.embedding(i, w, sparse=True),
    "padding": lambda t, F, i, w: F.embedding(i, w, padding_idx=1, sparse=True),
    "bag sum": lambda t, F, i, w: F.embedding_bag(i, w, t.tensor([0, 2]), mode="sum", sparse=True),
    "bag mean": lambda t, F, i, w: F.embedding_bag(i, w, t.tensor([0, 2]), mode="mean", sparse=True),
}


@pytest.mark.parametrize("how", TABLES.values(), ids=TABLES)
def test_sparse_gradients_of_tables(how):
    assert rows_of_table(jitgrad, how) == rows_of_table(torch, how)


STEPS = {
    "sgd": lambda O, p: O.SGD(p, lr=0.01), "momentum": lambda O, p: O.SGD(p, lr=0.01, momentum=0.9),
    "nesterov": lambda O, p: O.SGD(p, lr=0.01, momentum=0.9, nesterov=True),
    "adagrad": lambda O, p: O.Adagrad(p, lr=0.01, lr_decay=0.1), "sparse adam": lambda O, p: O.SparseAdam(p, lr=0.01),
    "adam": lambda O, p: O.Adam(p, lr=0.01), "rmsprop": lambda O, p: O.RMSprop(p, lr=0.01),
}  # fmt: skip


def trained(library, make):
    w = library.nn.Parameter(library.arange(12.0).reshape(6, 2) / 10)
    optimizer = make(library.optim, [w])
    try:
        for k in range(4):
            optimizer.zero_grad()
            index = library.tensor([[1, 3, 1], [k, 2, 5]])
            (library.nn.functional.embedding(index, w, sparse=True) ** 2).sum().backward()
            optimizer.step()
    except RuntimeError as error:
        return str(error)
    return repr(w.detach())


@pytest.mark.parametrize("make", STEPS.values(), ids=STEPS)
def test_optimizers(make):
    assert trained(jitgrad, make) == trained(torch, make)
