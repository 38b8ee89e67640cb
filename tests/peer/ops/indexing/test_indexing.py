"""Indices, masks, gather and scatter, beside PyTorch."""

import pytest

from ...expressions import check, listed

EXPRESSIONS = listed("""
r[0]
r[0, 1]
r[0, 1].grad_fn.next_functions
r[0:1]
r[:, 1]
r[:]
r[:, :]
r[...]
r[()]
r[None, 0].grad_fn.next_functions
r[[0, 1]]
r[1:, [0, 1]].grad_fn.next_functions
r[0, [0, 1]].grad_fn.next_functions
r[r > 2]
r[True]
r[False]
r[torch.tensor(1)]
r[torch.tensor([1])]
r[5]
r[0, 5]
x[..., 5]
r[0, 0, 0]
r[0.5]
r['a']
r[{}]
r[::-1]
r[::0]
r[torch.tensor([1.])]
r[[0, 5]]
r[[0, -3]]
r[[-1, 0]]
r[torch.ones(3, dtype=torch.bool)]
r[torch.ones(2, 2, dtype=torch.bool)]
r[[0, 1], [0, 1, 2]]
r[[0, 1], [2, 0]]
r[torch.tensor([1, 0], dtype=torch.int32)]
x[[[0, 1], [1, 0]], :]
r[np.array([0, 1])]
r[np.int64(1)]
x[None, ..., None].shape
x[:, None, [0, 1]]
x[[0], :, None]
x[:, [0, 1], 1:3]
x[:, [0, 1], [2, 3]]
x[0, :, [0, 1]]
x[[0, 1], :, [3, 1]]
x[torch.tensor([[0, 1], [1, 0]]), 1:, [[0], [3]]]
x[x[:, :, 0] > 3]
x[x[:, :, 0] > 3, 1:]
x[x[:, :, 0] > 3, 1]
s[0]
s[None]
s[True]
r[[]]
r[[True, False]]
r[slice(0, 2.5)]
torch.ones(0, 3)[torch.tensor([0])]
torch.cat([r, r * 2], 1)
torch.cat([])
torch.cat([torch.ones(2), torch.ones(2, 2)])
torch.cat([torch.ones(2, 2), torch.ones(3, 3)])
torch.cat([torch.ones(2, 2), torch.ones(0), i[:0]])
torch.cat([i, torch.ones(2)])
torch.cat([s])
torch.cat([torch.ones(2), 1])
torch.cat(torch.ones(2))
torch.stack([r, r], 1)
torch.stack([])
torch.stack([torch.ones(2), torch.ones(3)])
torch.hstack([r, r])
torch.vstack([i, i])
torch.dstack([r, r])
torch.column_stack([torch.ones(2), r])
torch.atleast_2d(i)
r.repeat(2, 2)
r.repeat(2)
r.repeat(2, -1)
r.tile(2)
r.repeat_interleave(2)
r.repeat_interleave(2, dim=1)
r.repeat_interleave(torch.tensor([1, 2]), dim=0)
r.repeat_interleave(torch.tensor([1, 2, 3]), dim=0)
x.flip(0, 2)
r.flip(0, 0)
r.rot90()
x.rot90(-1, (1, 2))
r.roll(1)
x.roll((1, -2), (0, 2))
r.roll((1, 2), 0)
r.gather(1, L([[0, 2], [1, 1]]))
r.gather(1, L([[0]]))
r.gather(1, L([[0, 3], [1, 1]]))
r.gather(1, L([0, 1]))
r.gather(1, L([[0.]]))
r.gather(1, L([[0], [0], [0]]))
r.scatter(1, L([[0], [1]]), 5.)
r.scatter(1, L([[0], [1]]), torch.ones(2, 2))
r.scatter(1, L([[0], [7]]), 5.)
r.scatter(1, L([[0], [1]]), torch.ones(1, 1))
r.scatter_add(1, L([[0, 0], [1, 1]]), torch.ones(2, 3))
r.scatter_add(1, L([[0], [1]]), torch.ones(2, 1, dtype=torch.float64))
r.index_select(0, L([0, 1, 1]))
r.index_select(0, L([0, 2]))
r.index_select(0, L([[0]]))
r.index_select(0, L([0.]))
r.index_add(0, L([0, 0]), torch.ones(2, 3), alpha=2)
r.index_add(0, L([0, 5]), torch.ones(2, 3))
r.index_add(0, L([0, 1]), torch.ones(2, 2))
r.index_add(0, L([0, 1]), torch.ones(3, 3))
x.index_copy(1, L([2, 0]), torch.zeros(2, 2, 4))
r.index_fill(1, L([1]), 9.)
r.take(L([[0, -1]]))
r.take(L([0, 6]))
r.take(L([0.]))
r.masked_fill(r > 2, 9.)
r.masked_fill(r > 2, L(9.))
r.masked_fill(r > 2, L([9.]))
r.masked_fill(torch.ones(2, 3), 2.)
r.masked_fill(torch.ones(4, dtype=torch.bool), 2.)
r.masked_select(r > 2)
r.masked_select(L([True, False, True]))
r.masked_select(torch.ones(2, 3))
r.masked_scatter(r > 2, torch.ones(6))
r.masked_scatter(r > 2, torch.ones(2))
torch.nonzero(x > 20)
torch.nonzero(x > 20, as_tuple=True)
torch.nonzero(s)
torch.where(i)
torch.argwhere(x > 20)
torch.take_along_dim(r, L([[0], [1]]), 1)
torch.take_along_dim(r, L([0, 5]))
(r * 1).put_(L([0, 5]), torch.ones(2))
(r * 1).index_put_((L([0]),), torch.ones(3))
r.index_put((L([0, 0]),), torch.ones(3), accumulate=True)
torch.ones(3).index_put_((L([0]),), L([1.], dtype=torch.float64))
torch.ones(3).index_put_((L([0]), L([0])), L([1.]))
torch.ones(3).index_put_(L([0]), L([1.]))
torch.ones(3).index_put_((L([0]),), torch.ones(2))
r.select_scatter(torch.ones(3), 0, 0)
r.select_scatter(torch.ones(2), 0, 0)
r.slice_scatter(torch.ones(1, 3), 0, 0, 1)
r.diagonal_scatter(torch.ones(2))
torch.tril_indices(3, 4, 1)
torch.triu_indices(3, 3)
torch.isin(i, torch.tensor([1, 5])), torch.isin(i, 1), torch.isin(1, i)
torch.isin(x, i, invert=True), torch.isin(i, i[:0])
""")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_indexing(expression):
    check(expression)
