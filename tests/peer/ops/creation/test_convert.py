"""Conversions between tensors, Python, NumPy, dtypes and devices, beside PyTorch."""

import pytest
import torch

import jitgrad

from ...expressions import check, listed

EXPRESSIONS = listed("""
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


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_conversion(expression):
    check(expression)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32"])
def test_numbers_that_an_integer_does_not_hold(dtype):
    """The same for one number as for many, which vector instructions convert."""
    numbers = [-2.0, -1.5, 0.5, 254.5, 300.0, -257.0, 70000.0, 2.0]
    if dtype != "uint32":  # there PyTorch's depend on how many there are
        numbers += [float("inf"), -3e9]
    for count in (1, 9):
        ours, theirs = (lib.tensor(numbers * count).to(getattr(lib, dtype)).tolist() for lib in (jitgrad, torch))
        assert ours == theirs
        apart = jitgrad.tensor([n for n in numbers * count for _ in range(2)])[::2]
        assert apart.to(getattr(jitgrad, dtype)).tolist() == ours
