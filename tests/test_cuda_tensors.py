"""CUDA tensors: sums, copies, devices, training. On a GPU, or in the simulator, where ``test_cuda.py`` runs them."""

import copy
import gc
import io
import pickle
import weakref

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.dispatch.elementwise import ElementwiseOp
from jitgrad.dispatch.registry import OPS
from jitgrad.kernels.cuda.driver import SIMULATED
from jitgrad.kernels.device_array import Pool
from jitgrad.kernels.launch import observers
from jitgrad.kernels.words import tanh
from jitgrad.testing import assert_close, op_samples

on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="neither a GPU nor the simulator is there")


on_gpu = pytest.mark.skipif(not torch.cuda.is_available() or SIMULATED, reason="too much for the simulator")


def compare(found, expected, **tolerances):
    for f, e in zip(found, expected, strict=True):
        assert f.device == torch.device("cuda", 0)
        assert_close(f.cpu(), e, equal_nan=True, **tolerances)


@on_cuda
def test_broadcasting_and_its_gradients():
    x, w, b = torch.randn(2, 3), torch.randn(3), torch.randn(2, 1)

    def graph(x, w, b):
        return x * w + b

    leaves = [t.clone().requires_grad_() for t in (x, w, b)]
    (graph(*leaves) ** 2).sum().backward()
    copies = [t.cuda().requires_grad_() for t in (x, w, b)]
    (graph(*copies) ** 2).sum().backward()
    compare([c.grad for c in copies], [t.grad for t in leaves])


@on_cuda
def test_second_order():
    x = torch.tensor([0.5, -1.5], device="cuda", requires_grad=True)
    (first,) = torch.autograd.grad((x.sin() * x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    v = x.detach().cpu().numpy()
    np.testing.assert_allclose(second.cpu().numpy(), 2 * np.cos(v) - v * np.sin(v), rtol=1e-5)


class Bent(torch.Elementwise, public=True):
    """x bent by tanh: an op that nothing but this file knows."""

    def forward(x, width):
        return width * tanh(x)

    def grad_x(g, x, width):
        return g * width * (1 - tanh(x) * tanh(x))

    def grad_width(g, x):
        return g * tanh(x)


@on_cuda
def test_a_newly_declared_op_has_cuda_kernels():
    x, width = torch.randn(3, 4), torch.randn(4)
    leaves = [t.clone().requires_grad_() for t in (x.t(), width[:, None])]
    copies = [t.cuda().requires_grad_() for t in (x.t(), width[:, None])]
    for tensors in (leaves, copies):
        torch.bent(*tensors).sum().backward()
    compare([torch.bent(*copies).detach()], [torch.bent(*leaves).detach()], rtol=1e-5, atol=1e-6)
    compare([c.grad for c in copies], [t.grad for t in leaves], rtol=1e-5, atol=1e-6)


# -- sums, fills, copies -----------------------------------------------------------------------------


@on_cuda
@pytest.mark.parametrize("dim", [None, 0, 1, 2, (0, 2), (1, 2), -1])
@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "complex64"])
def test_sum(dim, dtype):
    x = (torch.randn(3, 4, 2) * 3).to(getattr(torch, dtype))
    for keepdim in (False, True) if dim is not None else (False,):
        compare([x.cuda().sum(dim, keepdim)], [x.sum(dim, keepdim)])


@on_cuda
def test_sums_that_are_cut_into_parts(monkeypatch):
    from jitgrad.kernels.cuda import loops as cuda_loops

    monkeypatch.setattr(cuda_loops, "LENGTH", 8)
    monkeypatch.setattr(cuda_loops, "ENOUGH", 4)
    x = torch.arange(150, dtype=torch.float32).reshape(50, 3)
    compare([x.cuda().sum(), x.cuda().sum(0), x.cuda().t().sum(1)], [x.sum(), x.sum(0), x.t().sum(1)])


@on_cuda
def test_sums_of_nothing():
    assert torch.zeros(0, device="cuda").sum().item() == 0
    assert torch.zeros(2, 0, device="cuda").sum(1).tolist() == [0, 0]
    assert torch.zeros(0, 2, device="cuda").sum(1).tolist() == []


@on_cuda
def test_mean_and_its_gradient():
    x = torch.arange(6.0, device="cuda").reshape(2, 3).requires_grad_()
    x.mean(0).sum().backward()
    assert x.mean().item() == 2.5
    assert x.grad.tolist() == [[0.5] * 3] * 2


@on_cuda
def test_creation_on_the_device():
    assert torch.zeros(2, device="cuda").tolist() == [0, 0]
    assert torch.full((2,), 3, device="cuda:0").tolist() == [3, 3]
    assert torch.arange(1, 7, 2, device="cuda").tolist() == [1, 3, 5]
    assert torch.ones_like(torch.zeros(2, 2).t().cuda()).tolist() == [[1, 1], [1, 1]]
    assert torch.zeros(2, device="cuda").new_full((1,), 5).device == torch.device("cuda:0")
    x = torch.zeros(2, 3, device="cuda")
    x[:, 1].fill_(2)
    assert x.tolist() == [[0, 2, 0], [0, 2, 0]]


@on_cuda
def test_copies_cast_broadcast_and_keep_strides():
    x = torch.arange(6).reshape(2, 3)
    assert x.cuda().to(torch.float64).cpu().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert x.t().cuda().stride() == x.t().stride()
    assert x[:, ::2].cuda().tolist() == [[0, 2], [3, 5]]
    target = torch.zeros(2, 3, device="cuda")
    assert target.copy_(torch.tensor([1, 2, 3])).tolist() == [[1, 2, 3], [1, 2, 3]]
    assert torch.zeros(2).copy_(torch.ones(2, device="cuda")).tolist() == [1, 1]
    assert x.to(target).device == target.device
    assert target.cuda() is target
    assert target.to("cuda:0") is target
    assert torch.tensor(5, device="cuda").item() == 5


@on_cuda
def test_views_share_memory():
    x = torch.zeros(2, 3, device="cuda")
    x.t()[1] += 1
    x.view(6)[0] = 7
    x[1, 2:].add_(2)
    assert x.tolist() == [[7, 1, 0], [0, 1, 2]]
    assert x.unsqueeze(0).expand(2, 2, 3).sum().item() == 22


# -- devices ----------------------------------------------------------------------------------------


@on_cuda
def test_device_attributes_and_printing():
    x = torch.tensor([1.0, 2.0], device="cuda")
    assert x.device == torch.device(type="cuda", index=0)
    assert repr(x.device) == "device(type='cuda', index=0)"
    assert x.is_cuda
    assert not x.is_cpu
    assert x.get_device() == 0
    assert repr(x) == "tensor([1., 2.], device='cuda:0')"
    assert repr(x.clone().requires_grad_()) == "tensor([1., 2.], device='cuda:0', requires_grad=True)"
    assert x.type() == "torch.cuda.FloatTensor"


@on_cuda
def test_the_cuda_module():
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 1
    assert torch.cuda.current_device() == 0
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    x = torch.zeros(128, device="cuda")
    assert torch.cuda.memory_allocated() - before == 512
    del x
    assert torch.cuda.memory_allocated() == before
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == before
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.zeros(2, device="cuda:1")


@on_cuda
def test_moving_a_leaf_is_recorded():
    x = torch.ones(2, requires_grad=True)
    y = x.cuda()
    assert not y.is_leaf
    assert y.grad_fn.name() == "ToCopyBackward0"
    (y * 3).sum().cpu().backward()
    assert x.grad.device == torch.device("cpu")
    assert x.grad.tolist() == [3, 3]


@on_cuda
def test_checkpoints_stay_on_the_device():
    x, file = torch.arange(6.0).view(2, 3).cuda(), io.BytesIO()
    torch.save([x, x[1:], x.t()], file)
    for place, device in ((None, "cuda:0"), ("cpu", "cpu"), (lambda storage, tag: storage.cpu(), "cpu")):
        file.seek(0)
        whole, part, turned = torch.load(file, map_location=place)
        whole[1, 0] = 9
        assert str(part.device) == device and part.tolist() == [[9, 4, 5]] and turned.tolist()[0] == [0, 9]
        again = io.BytesIO()  # a part before the whole, at one address
        torch.save([whole[:1].detach(), whole], again)
        again.seek(0)
        assert torch.load(again, map_location="cpu")[1].tolist() == whole.tolist()
    assert torch.load(io.BytesIO(file.getvalue()), map_location={"cuda:0": "cpu"})[0].device.type == "cpu"


@on_cuda
def test_pickles_and_copies_stay_on_the_device():
    x = torch.tensor([1.0, 2.0], device="cuda", requires_grad=True)
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert y.device == x.device
        assert y.requires_grad
        assert y.tolist() == [1, 2]


@on_cuda
def test_numpy_needs_a_copy():
    with pytest.raises(TypeError, match="^can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu\\(\\)"):
        torch.ones(2, device="cuda").numpy()


@on_cuda
def test_devices_do_not_mix():
    x, y = torch.ones(2, device="cuda"), torch.ones(2)
    message = "^Expected all tensors to be on the same device, but found at least two devices, {} and {}!"
    with pytest.raises(RuntimeError, match=message.format("cuda:0", "cpu")):
        x + y
    with pytest.raises(RuntimeError, match=message.format("cpu", "cuda:0")):
        y + x
    with pytest.raises(RuntimeError, match=message.format("cpu", "cuda:0")):
        y.add_(x)
    assert y.tolist() == [1, 1]


@on_cuda
def test_cpu_tensors_without_dimensions_mix():
    x = torch.ones(2, device="cuda", requires_grad=True)
    scale = torch.tensor(3.0, requires_grad=True)
    y = x * scale
    assert y.device == x.device
    y.sum().backward()
    assert x.grad.tolist() == [3, 3]
    assert scale.grad.item() == 2
    assert scale.grad.device == torch.device("cpu")


@on_cuda
def test_an_op_without_a_cuda_kernel_is_named():
    x = torch.ones(2, 3, device="cuda")
    with pytest.raises(NotImplementedError, match="^Could not run 'aten::prod.*' with arguments from the 'CUDA' b"):
        x.prod()


@on_cuda
def test_floats_of_16_bits_have_no_kernels():
    x = torch.ones(2, dtype=torch.float16)
    assert x.cuda().cpu().dtype == torch.float16
    for call in (lambda: x.cuda() * 2, lambda: torch.ones(2, device="cuda").half(), lambda: x.cuda() > 0):
        with pytest.raises(NotImplementedError, match="^Could not run 'aten::[^ ]+' with .* for floats of 16 bits"):
            call()


# -- together ---------------------------------------------------------------------------------------


@on_cuda
def test_training_on_cuda():
    torch.manual_seed(0)
    x, target = torch.randn(4, 3), torch.randn(4)

    def train(device):
        w = torch.full((3,), 0.1, device=device, requires_grad=True)
        b = torch.zeros(1, device=device, requires_grad=True)
        losses = []
        for _ in range(5):
            loss = (((x.to(device) * w).sum(1) + b).relu() - target.to(device)).square().mean()
            w.grad = b.grad = None
            loss.backward()
            with torch.no_grad():
                w -= 0.1 * w.grad
                b.sub_(b.grad, alpha=0.1)
            losses.append(loss.item())
        return losses, w, b

    found, expected = train("cuda"), train("cpu")
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    assert found[0][-1] < found[0][0]
    compare([found[1].detach(), found[2].detach()], [expected[1].detach(), expected[2].detach()])


@on_cuda
def test_matrix_products():
    x, y = torch.randn(5, 3), torch.randn(3, 4)
    pairs = [(x, y), (x.t().contiguous().t(), y[:, ::2]), (x, y[:, 0]), (x[0], y), (x[0], y[:, 1]),
             (torch.randn(2, 5, 3), torch.randn(2, 3, 4)), (torch.randn(2, 5, 3), y)]  # fmt: skip
    for a, b in pairs:
        compare([a.cuda() @ b.cuda()], [a @ b])


@on_cuda
@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, lr=0.1),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
        lambda p: torch.optim.AdamW(p, lr=0.05),
    ],
    ids=["sgd", "momentum", "adamw"],
)
def test_modules_and_optimizers(make):
    def train(device):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)).to(device)
        optimizer, x, y = make(model.parameters()), torch.randn(5, 3).to(device), torch.randn(5, 2).to(device)
        for _ in range(3):
            optimizer.zero_grad()
            ((model(x) - y) ** 2).mean().backward()
            optimizer.step()
        return [p.detach() for p in model.parameters()]

    compare(train("cuda"), train("cpu"), rtol=1e-4, atol=1e-6)


@on_cuda
def test_everything_passes_launch():
    seen = []
    observers.append(lambda kernel, args, seconds: seen.append(kernel.name))
    try:
        x = torch.ones(2, 2, requires_grad=True).cuda()
        (x.t() * x + 1).sum().backward()
        x.detach().cpu()
    finally:
        observers.pop()
    assert seen[:2] == ["fill", "copy_to_device"]
    assert "mul_forward" in seen
    assert "sum_rows" in seen
    assert seen[-1] == "copy_to_host"


@on_gpu
def test_large_sums():
    x = torch.randn(1100, 1000)
    for dim in (None, 0, 1):
        compare([x.cuda().sum(dim), x.cuda().mean(dim)], [x.sum(dim), x.mean(dim)], rtol=1e-4, atol=1e-3)
    y = x.cuda().requires_grad_()
    (y * y).sum().backward()
    compare([y.grad], [2 * x])


@on_gpu
def test_large_products():
    for n, k, m in ((300, 500, 700), (1, 4000, 900), (900, 4000, 1), (2000, 1500, 10)):
        x, y = torch.randn(n, k), torch.randn(k, m)
        compare([x.cuda() @ y.cuda()], [x @ y], rtol=1e-3, atol=1e-3)
        compare([x.cuda().t().contiguous().t() @ y.cuda()], [x @ y], rtol=1e-3, atol=1e-3)
    x, y = torch.randn(3, 200, 300), torch.randn(3, 300, 100)
    compare([x.cuda() @ y.cuda()], [x @ y], rtol=1e-3, atol=1e-3)
    column, row = torch.randn(40, 200, 1), torch.randn(40, 1, 300)
    compare([column.cuda() @ row.cuda()], [column @ row])


# -- memory ------------------------------------------------------------------------------------------


class Memory:
    """Stands for an array of a provider's, whose memory a finalizer frees."""

    size, dtype, __array_interface__ = 4, np.dtype("float32"), {"data": (0, False)}

    def __init__(self):
        self.freed = []
        weakref.finalize(self, self.freed.append, True)


def test_memory_of_arrays_that_the_collector_frees_is_not_freed():
    pool = Pool(lambda count, dtype: Memory(), 1)
    taken = pool.take(np.dtype("float32"), 4)
    freed = taken.array.freed
    cycle = [taken]
    cycle.append(cycle)
    del taken, cycle
    gc.collect()
    assert pool.used == 0 and not freed
    pool.clear()
    assert freed and not pool.reserved


# -- every other op -----------------------------------------------------------------------------------

ON_CPU = {"strided_copy", "copy_slice"}  # whose samples name a layout, and with it the CPU
STRUCTURED = sorted(n for n, op in OPS.items() if not isinstance(op, ElementwiseOp) and n not in ON_CPU)


def moved(value):
    """The same arguments with tensors on the device; leaves that require grad where they can."""
    if isinstance(value, torch.Tensor):
        copy = value.detach().cuda()
        return copy.requires_grad_() if value.dtype.is_floating_point or value.dtype.is_complex else copy
    if isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value):
        return type(value)(moved(v) for v in value)
    return value


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for v in value for t in tensors_in(v)] if isinstance(value, (list, tuple)) else []


def forward_and_backward(function, args, kwargs):
    outs = tensors_in(function(*args, **kwargs))
    recorded = [o for o in outs if o.requires_grad]
    if recorded:
        torch.autograd.backward(recorded, [torch.ones_like(o) for o in recorded])
    return [o.detach() for o in outs] + [t.grad for t in tensors_in(list(args)) if t.grad is not None]


@on_cuda
@pytest.mark.parametrize("name", STRUCTURED)
def test_an_op_runs_as_on_the_cpu_or_says_that_it_cannot(name):
    for function, args, kwargs in op_samples(name):
        torch.manual_seed(0)
        try:
            found = forward_and_backward(function, [moved(a) for a in args], {k: moved(v) for k, v in kwargs.items()})
        except NotImplementedError as error:
            assert "arguments from the 'CUDA' backend" in str(error)
            continue
        for t in tensors_in(list(args)):
            if t.dtype.is_floating_point or t.dtype.is_complex:
                t.requires_grad_()
        torch.manual_seed(0)
        expected = forward_and_backward(function, args, kwargs)
        for f, e in zip(found, expected, strict=True):
            assert_close(f.cpu(), e, rtol=1e-5, atol=1e-6)
