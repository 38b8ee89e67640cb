"""Sparse tensors: values against NumPy's, gradients, what ops refuse, and bad indices, which read no foreign memory."""

import copy
import pickle

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.core.sparse import SparseTensor
from jitgrad.dispatch.registry import FUNCTIONS, OPS


def matrix(seed=0, shape=(5, 4), uncoalesced=False):
    """(a sparse matrix, the same as an array)."""
    source = np.random.default_rng(seed)
    index = source.integers(0, shape, (7, 2)).T.copy()
    values = source.normal(size=7)
    full = np.zeros(shape)
    np.add.at(full, tuple(index), values)
    x = torch.sparse_coo_tensor(torch.from_numpy(index), torch.from_numpy(values), shape, check_invariants=True)
    return (x if uncoalesced else x.coalesce()), full


def near(x, expected):
    x = x.to_dense() if x.layout is not torch.strided else x
    np.testing.assert_allclose(x.detach().numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("uncoalesced", [False, True])
@pytest.mark.parametrize("kind", ["coo", "csr", "csc"])
def test_values(kind, uncoalesced):
    x, a = matrix(uncoalesced=uncoalesced)
    x = x if kind == "coo" else getattr(x, f"to_sparse_{kind}")()
    y = np.random.default_rng(1).normal(size=(4, 3))
    dense = torch.from_numpy(y)
    near(x, a)
    near(x @ dense, a @ y)
    near(dense.t() @ x.t(), y.T @ a.T)
    near(x @ dense[:, 0], a @ y[:, 0])
    near(x * 2, a * 2)
    near(-x, -a)
    near(x.sin(), np.sin(a))
    near(x + x, a + a)
    near(x * x, a * a)
    near(x * torch.from_numpy(y.sum(1)), a * y.sum(1))
    near(x.t(), a.T)
    near(x @ x.t(), a @ a.T)
    near(x.sum(), a.sum())
    near(x.to_sparse_csr(), a)
    near(x.clone(), a)


@pytest.mark.parametrize("masked", [False, True])
def test_gradients_of_first_and_second_order(masked):
    x, _ = matrix()
    x, y = x.requires_grad_(), torch.rand(4, 3, dtype=torch.float64, requires_grad=True)
    mask = matrix(3)[0]
    functions = [
        lambda x, y: x.to_dense(masked_grad=masked), lambda x, y: x * 2, lambda x, y: x + x, lambda x, y: x.t(),
        lambda x, y: x.clone(), lambda x, y: x.sum(),
    ]  # fmt: skip
    if masked:
        functions += [
            torch.sparse.mm, lambda x, y: x.coalesce().values().sin(), lambda x, y: torch.sparse.softmax(x, 1),
            lambda x, y: x.sparse_mask(mask), lambda x, y: torch.sparse.sum(x, 0), lambda x, y: x.to_sparse_csr(),
            lambda x, y: torch.sparse.mm(x, x.t()), lambda x, y: x.index_select(0, torch.tensor([1, 1, 4])),
            lambda x, y: torch.sparse.sampled_addmm(x.to_sparse_csr(), torch.ones(5, 3).double(), y.t()),
        ]  # fmt: skip
    for function in functions:
        assert torch.autograd.gradcheck(function, (x, y), masked=masked)
    assert torch.autograd.gradgradcheck(lambda x, y: torch.sparse.mm(x * x, y), (x, y), masked=True)
    assert torch.autograd.gradcheck(lambda x, y: x @ y, (x, y), masked=False)


def test_gradients_add_up():
    w = torch.ones(4, 2, requires_grad=True)
    torch.nn.functional.embedding(torch.tensor([1, 1]), w, sparse=True).sum().backward()
    first = w.grad
    assert first.is_sparse and first._nnz() == 2
    torch.nn.functional.embedding(torch.tensor([3]), w, sparse=True).sum().backward()
    assert w.grad is first and w.grad.is_sparse and w.grad._nnz() == 3
    w.sum().backward()
    assert w.grad.layout is torch.strided
    near(w.grad, [[1, 1], [3, 3], [1, 1], [2, 2]])
    torch.nn.functional.embedding(torch.tensor([0]), w, sparse=True).sum().backward()
    near(w.grad, [[2, 2], [3, 3], [1, 1], [2, 2]])
    both = torch.nn.functional.embedding(torch.tensor([0]), w, sparse=True).sum() + w.sum()
    (g,) = torch.autograd.grad(both, w)
    near(g, [[2, 2], [1, 1], [1, 1], [1, 1]])


OUTSIDE = [
    ([[0, 5], [0, 0]], "size is inconsistent with indices: for dim 0, size is 5 but found index 5"),
    ([[0, 1], [0, -1]], "found negative index -1 for dim 1"),
    ([[0, 1], [0, 1 << 40]], "for dim 1, size is 4"),
]


@pytest.mark.parametrize("index, words", OUTSIDE)
def test_indices_outside_are_found_at_their_first_use(index, words):
    x = torch.sparse_coo_tensor(index, torch.ones(2), (5, 4))
    y = torch.ones(4, 2)
    for use in (x.to_dense, x.coalesce, lambda: x @ y, lambda: x * x, lambda: torch.ones(5, 4) + x, lambda: x[0],
                x.to_sparse_csr, lambda: torch.ones(5, 4).add_(x), lambda: torch.ones(5, 4).sparse_mask(x),
                lambda: x.t().to_dense(), lambda: torch.sparse.sum(x, 0), lambda: torch.cat([x, x])):  # fmt: skip
        with pytest.raises(RuntimeError, match=r"size is inconsistent with indices|found negative index"):
            use()
    with pytest.raises(RuntimeError, match=words):
        x.to_dense()


BAD_ROWS = [([0, 9, 2], [0, 1]), ([0, 1, 9], [0, 1]), ([-4, 1, 2], [0, 1]), ([0, 1, 2], [0, 77]), ([0, 1, 2], [-1, 1]),
            ([0, 1], [0, 1])]  # fmt: skip


@pytest.mark.parametrize("crow, cols", BAD_ROWS)
def test_bad_compressed_indices_are_found_at_their_first_use(crow, cols):
    x = torch.sparse_csr_tensor(crow, cols, torch.ones(2), (2, 3))
    for use in (x.to_dense, lambda: x @ torch.ones(3, 2), x.to_sparse, lambda: x + x, lambda: x * x):
        with pytest.raises(RuntimeError):
            use()


def test_indices_that_are_written_to_are_looked_at_again():
    x = torch.sparse_coo_tensor([[0, 1]], torch.ones(2), (3,))
    near(x, [1, 1, 0])
    x._indices()[0, 1] = 2
    near(x, [1, 0, 1])
    x._indices()[0, 1] = 7
    with pytest.raises(RuntimeError, match="found index 7"):
        x.to_dense()


def test_a_wrong_promise_of_order_does_no_harm():
    x = torch.sparse_coo_tensor([[2, 0, 2]], torch.tensor([1.0, 2, 3]), (3,), is_coalesced=True)
    near(x + x, [4, 0, 8])
    near(x * x, [4, 0, 16])


def test_nothing_changes_on_errors():
    x, a = matrix()
    for change in (lambda: x.add_(torch.ones(5, 4)), lambda: x.copy_(torch.ones(5, 4)), lambda: x.div_(x),
                   lambda: x.sparse_resize_((2, 2), 2, 0), lambda: x.mul_(1j)):  # fmt: skip
        with pytest.raises(RuntimeError):
            change()
        near(x, a)


def test_copies_and_pickles():
    x, a = matrix()
    for y in (x, x.to_sparse_csr(), x.to_sparse_bsr((5, 2))):
        for made in (pickle.loads(pickle.dumps(y)), copy.deepcopy(y)):
            assert made.layout is y.layout
            near(made, a)
            made.mul_(2) if made.layout is torch.sparse_coo else None
            near(y, a)


def test_sizes_of_blocks():
    x = torch.eye(4)
    blocks = x.to_sparse_bsr((2, 2))
    for y, caller in ((x, "dense"), (x.to_sparse(), "sparse_coo"), (x.to_sparse_csr(), "sparse_compressed")):
        assert torch.equal(y.to_sparse(layout=torch.sparse_bsr, blocksize=2).to_dense(), x)
        for size, words in (
            ((1,), "blocksize needs to be a tuple of size 2, but got 1"),
            ((0, 1), r"blocksize needs to be positive, but got \[0, 1\]"),
            ((3, 3), r"tensor sparse size \(4,4\) must be divisible by given blocksize \(3,3\)"),
        ):
            with pytest.raises(RuntimeError, match=f"{caller}_to_sparse: {words}"):
                y.to_sparse(layout=torch.sparse_bsr, blocksize=size)
        with pytest.raises(RuntimeError, match="to SparseCsc with blocksize argument given is not supported"):
            y.to_sparse(layout=torch.sparse_csc, blocksize=(2, 2))
    with pytest.raises(RuntimeError, match="^to_sparse_bsr: blocksize needs to be a tuple of size 2, but got 3"):
        blocks.to_sparse_bsr((2, 2, 2))
    with pytest.raises(RuntimeError, match="^coo_to_sparse_bsr: blocksize needs to be positive"):
        x.to_sparse().to_sparse_bsr((-1, 1))


def test_the_class_is_a_tensor_to_users():
    x, _ = matrix()
    assert isinstance(x, torch.Tensor) and type(x).__name__ == "Tensor"
    p = torch.nn.Parameter(x)
    assert isinstance(p, torch.nn.Parameter) and p.requires_grad
    assert repr(p).startswith("Parameter containing:\ntensor(")


def test_invariants_switch():
    switch = torch.sparse.check_sparse_tensor_invariants
    assert not switch.is_enabled()
    with switch():
        assert switch.is_enabled()
        with pytest.raises(RuntimeError, match="found index 5"):
            torch.sparse_coo_tensor([[5]], [1.0], (2,))
        with switch(False):
            torch.sparse_coo_tensor([[5]], [1.0], (2,))
    assert not switch.is_enabled()
    with pytest.raises(RuntimeError, match="found index 5"):
        switch()(lambda: torch.sparse_coo_tensor([[5]], [1.0], (2,)))()


def test_vmap_over_the_dense_factor():
    x, a = matrix()
    y = torch.rand(3, 4, 2, dtype=torch.float64)
    near(torch.vmap(lambda m: torch.sparse.mm(x, m))(y), np.stack([a @ m for m in y.numpy()]))


def test_forward_mode_through_the_dense_factor():
    x, a = matrix()
    y, t = torch.rand(4, 2, dtype=torch.float64), torch.rand(4, 2, dtype=torch.float64)
    near(torch.func.jvp(lambda m: torch.sparse.mm(x, m), (y,), (t,))[1], a @ t.numpy())


def sparse_form(value):
    """A sample's argument with sparse tensors in the place of dense ones."""
    if isinstance(value, torch.Tensor) and value.ndim and value.numel():
        return value.detach().to_sparse()
    if isinstance(value, (list, tuple)):
        return type(value)(map(sparse_form, value)) if not hasattr(value, "_fields") else value
    return value


def as_array(value):
    value = value.detach()
    return (value.to_dense() if isinstance(value, SparseTensor) else value).resolve_conj().numpy()


@pytest.mark.parametrize("name", sorted(n for n, op in OPS.items() if n in FUNCTIONS and getattr(op, "samples", None)))
def test_ops_on_sparse_operands_are_right_or_refused(name):
    args = next(iter(OPS[name].samples()))
    given = [sparse_form(a) for a in args]
    if not any(isinstance(g, SparseTensor) or (isinstance(g, list) and g and isinstance(g[0], SparseTensor))
               for g in given):  # fmt: skip
        return
    try:
        found = FUNCTIONS[name](*given)
    except (NotImplementedError, RuntimeError, TypeError, IndexError, ValueError):
        return
    expected = FUNCTIONS[name](*args)
    for f, e in zip(*[r if isinstance(r, tuple) else (r,) for r in (found, expected)], strict=True):
        if isinstance(f, torch.Tensor):
            np.testing.assert_allclose(as_array(f), as_array(e), atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sparse_gradients_keep_their_indices(dtype):
    layer, index = torch.nn.Embedding(10, 3, sparse=True, dtype=dtype), torch.tensor([7, 1, 3])
    layer(index).sum().backward()
    index[0] = 8
    assert layer.weight.grad._indices().tolist() == [[7, 1, 3]]
    layer(index).sum().backward()
    assert layer.weight.grad._indices().tolist() == [[7, 1, 3, 8, 1, 3]]
    empty = torch.nn.Embedding(4, 0, sparse=True)
    empty(torch.tensor([1, 2])).sum().backward()
    assert empty.weight.grad.shape == (4, 0)


def test_a_transposed_tensor_has_values_of_its_own():
    x = torch.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3)).coalesce()
    for y in (x.t(), x.transpose(0, 1), x.mT):
        y.mul_(10)
    assert x.values().tolist() == [3.0, 4.0]
    x.permute(1, 0)._values().mul_(10)
    assert x.values().tolist() == [30.0, 40.0]
