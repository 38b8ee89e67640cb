"""Expressions that mean the same in PyTorch: values, dtypes, strides, grad_fns, errors and their words."""

import copy
import pickle
import re
import warnings

import numpy as np
import pytest

import jitgrad

torch = pytest.importorskip("torch")

NAMES = {"np": np, "copy": copy, "pickle": pickle}
SETUP = """
r = torch.arange(6.).reshape(2, 3).requires_grad_()
x = torch.arange(24.).reshape(2, 3, 4)
s = torch.tensor(1.5, requires_grad=True)
c = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
i = torch.tensor([1, 0, 1])
"""


def evaluate(library, expression, setup=SETUP):
    scope = {"torch": library, "L": library.tensor, **NAMES}
    try:
        exec(setup, scope)
        *statements, last = expression.split("; ")
        exec("\n".join(statements), scope)
        return eval(last, scope)
    except Exception as error:
        return error


def plain(value):
    """A comparable form of a result."""
    if isinstance(value, (torch.Tensor, jitgrad.Tensor)):
        node = value.grad_fn
        history = (type(node).__name__ if node is not None else None, value.requires_grad)
        return (str(value.dtype), tuple(value.shape), tuple(value.stride()), *history, value.detach().cpu().numpy())
    if isinstance(value, Exception):
        text = re.sub(r" \(Triggered internally.*", "", str(value), flags=re.S)
        return type(value).__name__, text.replace("jitgrad.", "torch.")
    if isinstance(value, (tuple, list)) and not hasattr(value, "numel"):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return value
    return re.sub(r" at 0x\w+", "", repr(value)).replace("jitgrad.", "torch.")


def same(ours, theirs):
    if isinstance(ours, np.ndarray):
        np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=1e-6)
        assert ours.dtype == theirs.dtype
    elif isinstance(ours, (tuple, list)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
    else:
        assert ours == theirs


def check(expression):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = plain(evaluate(jitgrad, expression)), plain(evaluate(torch, expression))
    try:
        same(ours, theirs)
    except AssertionError:
        pytest.fail(f"{expression}\n  jitgrad: {ours}\n  PyTorch: {theirs}", pytrace=False)


def listed(text):
    return [line for line in text.strip().splitlines() if line]


CREATION = listed("""
torch.tensor(np.float64(1.5))
torch.tensor(np.float32(1.5))
torch.tensor([np.float64(1.5)])
torch.tensor([np.int32(1), 2])
torch.tensor([np.int32(1), 2.5])
torch.tensor([torch.tensor(1.), torch.tensor(3)])
torch.tensor([torch.tensor(1., dtype=torch.float64), 2])
torch.tensor([[1, 2], [3]])
torch.tensor([[1], [3, 4]])
torch.tensor([1, [3, 4]])
torch.tensor([[3, 4], 1])
torch.tensor([])
torch.tensor([[], []])
torch.tensor('a')
torch.tensor(['a'])
torch.tensor(None)
torch.tensor([None])
torch.tensor({1: 2})
torch.tensor([1, 2], requires_grad=True)
torch.tensor(2**63)
torch.tensor(-2**63)
torch.tensor(300, dtype=torch.uint8)
torch.tensor(-1, dtype=torch.uint8)
torch.tensor([1.7], dtype=torch.int64)
torch.tensor([1 + 2j], dtype=torch.float32)
torch.tensor([1 + 2j])
torch.tensor([True, 2])
torch.tensor([True, 2.5])
torch.tensor([True, 1j])
torch.tensor([range(3), range(3)])
torch.tensor([1.0], dtype='float32')
torch.tensor([1.0], dtype=float)
torch.tensor(1e300)
torch.tensor(float('nan'), dtype=torch.int64)
torch.tensor([2.7], dtype=torch.bool)
torch.tensor(np.ones(4)[::-1])
torch.tensor(np.arange(6).reshape(2, 3).T)
torch.tensor([1], foo=1)
torch.tensor()
torch.zeros(2, 3)
torch.zeros((2, 3), dtype=torch.int32)
torch.zeros(size=(2, 3))
torch.zeros(())
torch.zeros()
torch.zeros(-1)
torch.zeros(2.5)
torch.zeros(2, (3,))
torch.zeros(2, foo=1)
torch.zeros(2, dtype='a')
torch.zeros(torch.tensor(2))
torch.zeros(2, requires_grad=True, dtype=torch.int64)
torch.ones(2, requires_grad=True)
torch.ones(2, out=torch.empty(3))
torch.full((2,), 3)
torch.full((2,), 3.)
torch.full((2,), True)
torch.full((2,), 1j)
torch.full((2,), 'a')
torch.full(2, 1)
torch.full((2,), torch.tensor(2.5))
torch.full((2,), 300, dtype=torch.uint8)
torch.full((2,), 1j, dtype=torch.float32)
torch.full((2,), 2.5, dtype=torch.int32)
torch.full((2,), 1e300)
torch.zeros_like(x.transpose(0, 2))
torch.zeros_like(x[:, 1:, ::2])
torch.zeros_like(x.permute(2, 0, 1)[::2, :, 1:])
torch.zeros_like(x[:, :, :1].expand(2, 3, 5).transpose(0, 1))
x.permute(2, 0, 1)[::2, :, 1:].clone()
torch.ones_like(i, dtype=torch.float64)
torch.full_like(i, 2.5)
torch.zeros_like([1])
torch.ones(2).new_tensor([1, 2])
torch.ones(2).new_zeros(2, 3)
torch.ones(2).new_full((2,), 3)
i.new_ones(2, 2)
torch.arange(5)
torch.arange(5.)
torch.arange(1, 5, 2)
torch.arange(0, 1, 0.25)
torch.arange(5, 1)
torch.arange(5, 1, -1)
torch.arange(0, 1, 0)
torch.arange(0.5, 3, dtype=torch.int64)
torch.arange(float('inf'))
torch.arange(0, 20, 0.1)
torch.arange(1j)
torch.linspace(0, 1, 5)
torch.linspace(0, 1, 1)
torch.linspace(0, 1, 0)
torch.linspace(0, 1, -1)
torch.linspace(0, 10, 5, dtype=torch.int64)
torch.linspace(0, 1j, 3)
torch.linspace(-3, 7, 101)
torch.logspace(0, 2, 3)
torch.logspace(0, 4, 3, base=2)
torch.logspace(0, 4, 3, base=2, dtype=torch.int64)
torch.eye(3)
torch.eye(2, 3, dtype=torch.int64)
torch.eye(-1)
torch.Tensor([1, 2])
torch.Tensor()
torch.Tensor(2, 3).shape
torch.Tensor(3.5)
torch.FloatTensor([1, 2])
torch.LongTensor([1.5])
torch.LongTensor(2, 3).shape
torch.scalar_tensor(3)
torch.as_tensor([1, 2])
torch.as_tensor(r) is r
torch.from_numpy([1])
torch.from_numpy(np.arange(6.).reshape(2, 3)[:, ::2])
torch.diag(torch.arange(3.), 1)
torch.diag(r)
torch.diag(x)
torch.diag_embed(r, 1)
torch.diagflat(torch.ones(2, 2))
torch.tril(r, -1)
torch.triu(x, 1)
torch.tril(torch.ones(3))
torch.device('cpu')
torch.device('cuda:1')
torch.device('foo')
torch.ones(1, device='cuda')
""")

CONVERSION = listed("""
torch.ones(1).cuda()
torch.ones(1).to('cuda')
torch.ones(1).to('foo')
s.item()
i.item()
torch.tensor([]).item()
x.tolist()
float(s)
float(i)
int(torch.tensor(3.7))
int(torch.tensor(float('nan')))
complex(c[0])
float(c[0])
bool(i)
bool(torch.tensor([]))
bool(torch.tensor(float('nan')))
torch.tensor(3).__index__()
s.__index__()
len(s)
len(x)
iter(s)
list(r)
1 in i
'a' in i
f"{s:.3f} {s}"
f"{i:.3f}"
reversed(i)
r.numpy()
np.asarray(r)
r.numpy(force=True)
x.numpy()
x.__array__(np.int32)
x.type()
i.type(torch.int32)
i.type('torch.DoubleTensor')
i.type('foo')
x.to(torch.int64)
r.to(torch.float64)
r.to(torch.int64)
r.to('cpu', torch.float64)
x.to(i)
x.to(torch.float32) is x
x.transpose(0, 1).to(torch.float64)
c.float()
r.double().float()
i.bool()
i.byte().short().char().int().long()
i.cfloat()
r.type_as(i)
x.size(5)
x.size(-1), x.stride(), x.stride(1), x.dim(), x.numel(), x.element_size(), x.nbytes
x[1].storage_offset(), x[:, 1:].storage_offset(), x.is_contiguous(), x.mT.is_contiguous()
x.is_floating_point(), i.is_complex(), c.is_complex(), i.is_signed(), x.get_device(), x.is_cuda
torch.is_tensor(3), torch.is_floating_point(x), torch.numel(x)
copy.deepcopy(r)
copy.deepcopy(r * 2)
copy.copy(r)
pickle.loads(pickle.dumps(r))
pickle.loads(pickle.dumps(x.transpose(0, 1))).tolist()
r.__dlpack__()
torch.from_dlpack(np.ones(2)).add_(1)
np.from_dlpack(x)
r
r * 2
repr(r), str(i), repr(c)
r.clone()
r.detach()
x.mT.contiguous()
x.mT.clone()
torch.ones(2, dtype=torch.int64).requires_grad_()
""")

VIEWS = listed("""
r.view(6)
r.view(3, -1)
r.view(5)
r.view(-1, -1)
r.view(-1, 4)
r.view(-2, 3)
torch.ones(0, 3).view(-1, 0)
r.t().view(6)
r.t().view(3, 1, 2)
r.t().reshape(6)
r.reshape(6)
r.reshape((3, -1))
x[:, 1:].view(2, 2, 2, 2)
x[:, 1:].reshape(4, 4)
x.transpose(0, 1).view(3, 2, 2, 2)
r.view_as(torch.ones(6))
r.reshape_as(torch.ones(6))
torch.ones(2, 4).view(torch.float64).shape
x.view(torch.int32)
torch.ones(2, 3).view(torch.float64)
torch.ones(1).view(()).shape
x.view(2, 12).unflatten(1, (3, -1))
x.unflatten(1, (2, 2))
x.flatten()
r.t().flatten()
x.flatten(1)
x.flatten(2, 1)
s.flatten()
r.ravel()
r.t().ravel()
r.transpose(0, 1)
r.transpose(0, 5)
r.swapaxes(0, 1)
r.movedim(0, 1)
x.movedim((0, 1), (1, 0))
x.movedim((0, 1), (1, 1))
r.permute(1, 0)
r.permute(1)
r.permute(1, 1)
r.permute(1, 5)
x.permute((2, 0, 1))
r.t()
x.t()
r.T
r.mT
c.H
torch.ones(2, 2, dtype=torch.cfloat).mul(1j).H.resolve_conj()
s.mT
r.adjoint()
r.expand(4, 2, 3)
r.expand(4, -1, 3)
r.expand(4, 3)
r.expand(3)
r.expand(-1, 2, 3)
r.expand_as(torch.ones(2, 2, 3))
r.broadcast_to((4, 2, 3))
torch.broadcast_tensors(torch.ones(3), torch.ones(2, 1))
torch.broadcast_shapes((3,), (2, 1))
torch.broadcast_shapes((3,), (2, 2))
r.view(1, 2, 3, 1).squeeze()
r.view(1, 2, 3, 1).squeeze(0)
r.view(1, 2, 3, 1).squeeze(1)
r.view(1, 2, 3, 1).squeeze((0, 3))
r.view(1, 2, 3, 1).squeeze(0, -1)
r.view(1, 2, 3, 1).squeeze(0, 4)
torch.cross(r.t(), (r * r).t(), dim=0).stride()
torch.cross(r, r * r, dim=1).grad_fn.name()
torch.cross(r > 0, r > 0, dim=1)
r.count_nonzero(0, -1)
r.squeeze(5)
r.unsqueeze(0)
r.t().unsqueeze(1)
r.unsqueeze(5)
r.narrow(1, 1, 2)
r.narrow(1, 2, 3)
r.narrow(1, -2, 2)
r.narrow(1, 7, 0)
r.narrow(1, 0, -1)
r.select(1, 2)
r.select(1, 7)
s.select(0, 0)
r.diagonal()
x.diagonal(1, 0, 2)
r.diagonal(7)
r.diagonal(0, 1, 1)
r.unfold(1, 2, 1)
r.unfold(1, 7, 2)
r.unfold(1, 2, 0)
r.as_strided((2, 2), (1, 2))
x[1].as_strided((2, 2), (1, 2))
x[0].as_strided((4, 4), (4, 1), 2)
r.as_strided((20,), (1,))
r.as_strided((2,), (-1,))
r.as_strided((2,), (1, 1))
c.real
c.imag
r.imag
torch.view_as_real(c)
torch.view_as_real(r)
torch.view_as_complex(r.t().contiguous())
torch.view_as_complex(r)
torch.view_as_complex(i)
torch.view_as_complex(x[..., :2])
torch.view_as_complex(x[..., :3][..., :2])
r.chunk(2, 1)
r.split(2, 1)
r.split([1, 2], 1)
r.split([1, 4], 1)
r.split(-1)
r.split(0)
r.chunk(0)
x.tensor_split(3, 2)
x.tensor_split((1, 3), 2)
x.tensor_split(0)
r.unbind(1)
s.unbind()
x.hsplit(3)
x.hsplit(2)
r.sum_to_size(1, 3)
r.sum_to_size(3)
r.sum_to_size(2)
r.reshape(6)._base is r, r.view(6)[1:]._base is r, r.t().reshape(6)._base is None
r.t_()
x.transpose_(0, 2)
x.swapaxes_(0, 2).shape, x._version
(r * 1).resize_(6)
x.resize_(2, 2)
x.resize_(5, 6).reshape(-1)[:24]
x.set_(torch.ones(3))
x.set_(i)
torch.meshgrid(i, torch.arange(2), indexing='xy')
torch.meshgrid(i, torch.arange(2), indexing='ij')
torch.can_cast(torch.float32, torch.int32), torch.can_cast(torch.int32, torch.uint8)
torch.result_type(i, 1.5), torch.result_type(x, 1j), torch.result_type(torch.tensor(1.), i)
x.layout, torch.strided, torch.contiguous_format
x.is_same_size(r), s.is_nonzero()
""")

INDEXING = listed("""
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
""")

WRITES = listed("""
y = r * 1; v = y[0]; v.mul_(2); (y, v, y._version)
y = r * 1; v = y[0]; y.mul_(2); (y, v)
y = r * 1; v = y[:, 1:]; w = v[0]; w.mul_(3); (y, v, w)
y = r * 1; a, b = y.unbind(0); a.mul_(2); a
y = r * 1; a = y.split(1)[0]; a.mul_(2); a
y = r * 1; a, b = y.unbind(0); y.mul_(2); a * 2
y = r * 1; v = torch.no_grad()(lambda: y[0])(); v.mul_(2); v
y = r * 1; v = torch.no_grad()(lambda: y[0])(); y.mul_(2); v * 2
y = r.detach() * 1; v = torch.no_grad()(lambda: y[0])(); v.mul_(s); v
torch.no_grad()(lambda: r[0])().requires_grad
r[0].mul_(2)
r.mul_(2)
r.zero_()
r.__setitem__(0, 1)
y = torch.zeros(3, 2); v = y[1]; y[0] = torch.ones(2, requires_grad=True); (y, v)
y = c * 1; v = torch.view_as_real(y); v.mul_(2); (y, v)
y = c * 1; y.real = torch.ones(2); y
(r * 1).zero_()
(r * 1).fill_(2)
(r * 1).fill_(L(2.))
(r * 1).fill_(torch.ones(2))
(r * 1).fill_(1j)
(r * 1).copy_(torch.ones(3))
torch.zeros(3).copy_(torch.ones(4))
torch.zeros(3).copy_(torch.ones(2, 3))
torch.zeros(2, 3, dtype=torch.int64).copy_(r)
torch.zeros(2, 3).copy_(r)
torch.zeros(1).expand(3).add_(1)
torch.zeros(1).expand(3).copy_(torch.ones(3))
torch.zeros(1).expand(3).zero_()
y = r * 1; v = y[0]; v.detach_(); v
y = r * 1; y.retain_grad(); y.mul_(2); y.sum().backward(); y.grad
y = r * 1; y[r > 2] = 9.; y
y = r * 1; y[[0, 1], [1, 2]] = s; y
y = r * 1; y[:, [1, 2]] = torch.ones(2, requires_grad=True); y
y = x.clone(); y[[0, 1], :, [3, 1]] = torch.ones(3); y
y = x.transpose(0, 2).clone(); y[[0, 1], :, 1] = torch.ones(3); y
y = x.clone(); y[0] = torch.ones(5)
y = x.clone(); y.__setitem__(0, torch.ones(5))
y = x.clone(); y.__setitem__(0, torch.ones(2, 3, 4))
y = x.clone(); y.__setitem__(0, torch.ones(1, 1, 1, 4)); y
y = x.clone(); y.__setitem__(5, 1)
y = x.clone(); y.__setitem__([0, 5], 1)
y = x.clone(); y.__setitem__(0, 'a')
y = x.clone(); y.__setitem__(0, [1, 2, 3])
y = x.clone(); y.__setitem__([0, 1], torch.ones(5))
y = x.clone(); y.__setitem__(y > 3, torch.ones(2))
y = x.clone(); y.__setitem__([0], torch.ones(3, 4, dtype=torch.float64))
y = x.clone(); y.__setitem__([0], 1j)
y = i.clone(); y[0] = 2.7; y[[1]] = 3.9; y
y = i.clone(); y[y > 0] = L([2.]); y
y = x.clone(); y[True] = 2; y[..., ::2] = 3; y[1:, L(1)] = 4; y
y = x.clone(); y[y > 30] = 1.; y[[]] = 2; y
x.__delitem__(0)
torch.ones(2, 3).masked_fill_(torch.ones(5, 2, 3, dtype=torch.bool), 2.)
(r * 1).masked_fill_(r > 2, 2.)
(r * 1).scatter_(1, L([[0], [1]]), 5.)
(r * 1).t().scatter_add_(1, L([[0], [1], [1]]), torch.ones(3, 1))
(r * 1).index_add_(1, L([0, 0]), torch.ones(2, 2))
(r * 1).tril_()
(r * 1).fill_diagonal_(2)
torch.zeros(7, 2).fill_diagonal_(2, wrap=True)
torch.zeros(5000, 1).fill_diagonal_(2, wrap=True).sum()
y = r * 1; (y[0] * y[0]).sum().backward() if y.add_(1) is None else None; y.mul_(2).sum().backward(); r.grad
y = r * 1; z = y * y; y.add_(1); z.sum().backward()
y = r * 1; z = y.exp(); z[0] = 2; z.sum().backward()
""")

RANDOM = listed("""
torch.manual_seed(-1).initial_seed()
torch.manual_seed(2**64)
torch.manual_seed('a')
torch.get_rng_state()
g = torch.Generator().manual_seed(7); torch.rand(5, generator=g), torch.randn(3, generator=g), g.initial_seed()
torch.rand(2, 3), torch.randn(20), torch.rand(7, dtype=torch.float64), torch.randn(17, dtype=torch.float64)
torch.rand(3, dtype=torch.cfloat), torch.randn(20, dtype=torch.cfloat)
torch.rand_like(r), torch.randn_like(x.transpose(0, 2)), torch.randn_like(x[:, :, ::2])
torch.randint(10, (5,)), torch.randint(-3, 3, (2, 3)), torch.randint(0, 5, (3,), dtype=torch.float32)
torch.randint(high=4, size=(3,)), torch.randint_like(x, 5), torch.randint_like(i, 2, 5)
torch.randperm(10), torch.randperm(5, dtype=torch.int32)
torch.bernoulli(torch.full((9,), 0.3)), torch.empty(9).bernoulli_(torch.full((9,), 0.3, dtype=torch.float64))
torch.normal(1., 2., (5,)), torch.normal(torch.arange(5.), 1.), torch.normal(0., torch.ones(5))
torch.normal(torch.arange(20.), torch.ones(20))
torch.multinomial(torch.tensor([1., 2., 3.]), 7, replacement=True)
torch.empty(20).uniform_(-1, 3), torch.empty(20).normal_(1, 2), torch.empty(5, 4).t().normal_(1, 2)
torch.empty(20, dtype=torch.int64).random_(), torch.empty(5).random_(3), torch.empty(5).random_(2, 9)
torch.empty(5).cauchy_(), torch.empty(5).log_normal_(), torch.empty(5).geometric_(0.3)
y = torch.zeros(4, 6); y[:, 1:3].uniform_(); y[::2].normal_(); y
torch.rand(2, dtype=torch.int64)
torch.randn(2, dtype=torch.int64)
torch.rand(-1)
torch.randint(3, 1, (2,))
torch.randint(0, 300, (2,), dtype=torch.uint8)
torch.randint(3, 2)
torch.randperm(-1)
torch.randperm(300, dtype=torch.uint8)
torch.bernoulli(torch.tensor([0.5, 2.]))
torch.bernoulli(i)
torch.bernoulli(torch.ones(2, requires_grad=True))
torch.ones(2).bernoulli_(2.)
torch.normal(0., -1., (2,))
torch.normal(torch.tensor([0.]), torch.tensor([-1.]))
torch.ones(2).uniform_(1, 0)
torch.ones(2, dtype=torch.int64).normal_()
torch.ones(2).random_(5, 2)
torch.ones(2).exponential_(-1)
torch.ones(2).geometric_(2)
torch.ones(2).cauchy_(0, -1)
torch.ones(2).log_normal_(0, -1)
torch.multinomial(torch.tensor([0., 0.]), 1)
torch.multinomial(torch.tensor([1., -1.]), 1)
torch.multinomial(torch.tensor([1., 1.]), 3)
torch.multinomial(torch.tensor(1.), 1)
torch.multinomial(i, 1)
torch.set_rng_state(torch.zeros(3, dtype=torch.uint8))
torch.set_rng_state(torch.zeros(3))
r.uniform_()
(r * 1).uniform_().grad_fn
(r * 1).normal_().grad_fn
(r * 1).bernoulli_().grad_fn
""")


PARTS = listed("""
torch.split_with_sizes(r, [1, 1]), r.split_with_sizes((1, 2), 1)
[(p, p._is_view()) for p in torch.unsafe_split(r, 2, 1)]
[p.detach() for p in r.unsafe_split_with_sizes([1, 1])], torch.unsafe_chunk(r, 2, 1)
p = (r * 1).unsafe_split(1); p[0].mul_(2); p[0]
torch.isin(i, torch.tensor([1, 5])), torch.isin(i, 1), torch.isin(1, i)
torch.isin(x, i, invert=True), torch.isin(i, i[:0])
torch.nanmedian(torch.tensor([1., float("nan"), 3., 0.])), torch.nanmedian(r), torch.nanmedian(r, 1)
r.nanmedian(0, True)
torch.nanmedian(x[:0]), x[:0].nanmedian(1).values.shape, torch.nanmedian(torch.tensor(float("nan")))
x[:0].nanmedian(0)
torch.nanmedian(torch.tensor([[float("nan")] * 2, [2., float("nan")]]), 1), torch.nanmedian(i), s.nanmedian()
torch.empty_strided((2, 3), (1, 4)).stride(), torch.empty_strided((2,), (3,), dtype=torch.int64).dtype
torch.empty_strided((2, 3), (1,))
torch.empty_strided((2, -3), (3, 1))
r.new_empty_strided((2, 3), (3, -1))
torch.normal(0.0, 1.0, (2, -1))
x.new(2, 3).shape, i.new([1, 2]), i.new().shape, x.new(torch.Size([2])).shape
""")


@pytest.mark.parametrize("expression", CREATION)
def test_creation(expression):
    check(expression)


@pytest.mark.parametrize("expression", CONVERSION)
def test_conversion(expression):
    check(expression)


@pytest.mark.parametrize("expression", VIEWS)
def test_views(expression):
    check(expression)


@pytest.mark.parametrize("expression", INDEXING)
def test_indexing(expression):
    check(expression)


@pytest.mark.parametrize("expression", WRITES)
def test_writes(expression):
    check(expression)


@pytest.mark.parametrize("expression", RANDOM)
def test_random(expression):
    check("torch.manual_seed(3); " + expression)


@pytest.mark.parametrize("expression", PARTS)
def test_parts(expression):
    check(expression)
