"""Empty inputs, sizes of 1, arguments of another kind: one call each, compared with PyTorch."""

import numpy as np
import pytest

import jitgrad

from ..beside import outcome, same, torch


def set_item(key, value):
    """x[key] = value, each made by a function of the library and x."""

    def run(t, x):
        x[key(t, x)] = value(t, x)
        return x

    return run


CASES = {
    "mean of no complex numbers": lambda t, x: t.zeros(0, dtype=t.complex64).mean(),
    "means of no complex numbers": lambda t, x: t.zeros(0, 3, dtype=t.complex128).mean(0),
    "variance of no complex numbers": lambda t, x: t.zeros(0, 3, dtype=t.complex64).var(0),
    "deviation of no complex numbers": lambda t, x: t.zeros(0, dtype=t.complex128).std(),
    "places that differ, with NaN among them": lambda t, x: t.cdist(
        t.tensor([[1.0, np.inf], [2.0, np.nan]]), t.tensor([[1.0, np.inf], [0.0, 3.0]]), p=0.0),
    "distinct elements of a negated view": lambda t, x: t.unique(t._neg_view(t.tensor([1.0, -2.0, 1.0]))),
    "counts between negated edges": lambda t, x: t.histogram(x, t._neg_view(t.tensor([3.0, 1.0, -4.0]))).hist,
    "hash of a negated view": lambda t, x: t.hash_tensor(t._neg_view(t.tensor([1.0, -2.0, 1.0]))),
    "gradient of means of no samples in a batch": lambda t, x: t.func.grad(
        lambda v: t.func.vmap(lambda w: t.nn.functional.adaptive_avg_pool1d(w, 5))(v).sum())(t.ones(3, 0, 8, 8)),
    "strides of a sum with an outer product": lambda t, x: t.addr(
        t.ones(5, 3).t(), t.ones(3), t.ones(5), beta=0.4, alpha=0.3).stride(),
    "strides of a sum of bools with an outer product": lambda t, x: [
        t.addr(t.ones(5, 3).t() > 0, t.ones(3) > 0, t.ones(5) > 0, beta=beta).stride() for beta in (1, 3, 0)],
    "sums without NaN of integers into bools": lambda t, x: t.nansum(x.int(), 0, out=t.empty((), dtype=t.bool)),
    "sums without NaN into integers": lambda t, x: t.nansum(x, 0, out=t.empty((), dtype=t.int64)),
    "tangents of extrema beside infinite ones": lambda t, x: [t.func.jvp(f, (m,), (m,)) for f in (
        lambda v: t.amax(v, 1), lambda v: t.amin(v, 1), lambda v: t.aminmax(v, dim=1),
        lambda v: v.scatter_reduce(1, t.zeros(2, 2, dtype=t.int64), v, "amax"))
        for m in [t.tensor([[1.0, np.inf], [-np.inf, 3.0]])]],
    "dtype of a loss of 16 bits with a whole target": lambda t, x: t.nn.functional.poisson_nll_loss(
        x.half(), x.to(t.uint8), full=True, reduction="none").dtype,
    "sums as integers without grad mode": lambda t, x: t.no_grad()(lambda v: [
        v.sum(dtype=t.int64), v.cumsum(0, dtype=t.int8), v.nansum(), t.cumsum(v, 0, out=t.empty(3, dtype=t.int16))])(
        t.tensor([1.0, 2.0, 3.5], requires_grad=True)),
    "places of no complex numbers": lambda t, x: [
        t.searchsorted(t.zeros(0, dtype=dtype), t.zeros(0, dtype=t.int64), out_int32=short)
        for dtype in (t.complex64, t.bool) for short in (False, True)],
    "eigenvalues of no integers": lambda t, x: [
        *t.linalg.eigh(t.zeros(2, 0, 0, dtype=t.int16)), t.linalg.eigvalsh(t.zeros(0, 0, dtype=t.int64))],
    "hashes of a batch": lambda t, x: t.func.vmap(t.hash_tensor)(t.ones(2, 3)),
    "normal numbers in conjugates": lambda t, x: t.manual_seed(0) and t.ones(3, dtype=t.complex64).conj().normal_(),
    "uniform numbers in conjugates": lambda t, x: t.manual_seed(0) and t.ones(3, dtype=t.complex64).conj().uniform_(),
    "x[None] = x": set_item(lambda t, x: None, lambda t, x: x),
    "x[True] = x": set_item(lambda t, x: True, lambda t, x: x),
    "x[True] = ints": set_item(lambda t, x: True, lambda t, x: t.tensor([4, 5, 6])),
    "x[False] = x": set_item(lambda t, x: False, lambda t, x: x),
    "x[True, 1] = 1": set_item(lambda t, x: (True, 1), lambda t, x: 1),
    "strides of expand": lambda t, x: x.expand(1, 1, 3).stride(),
    "clamp between a tensor without dims and a number": lambda t, x: x.clamp(t.tensor(1.5), 1.7),
    "clamp between a number and a tensor without dims": lambda t, x: x.clone().clamp_(1.2, t.tensor(1.5)),
    "add int, alpha float": lambda t, x: t.add(t.tensor([1, 2]), 1.5, alpha=1.5),
    "sub int, alpha float": lambda t, x: t.sub(t.tensor([1, 2]), 1.5, alpha=1.5),
    "add ints, alpha float": lambda t, x: t.add(t.tensor([1, 2]), 2, alpha=1.5),
    "add_ int, alpha float": lambda t, x: t.tensor([1, 2]).add_(1.5, alpha=1.5),
    "add floats, alpha complex": lambda t, x: t.add(x, 1.5, alpha=1.5j),
    "add floats, alpha bool": lambda t, x: t.add(x, 1.5, alpha=False),
    "cross entropy, weight of less precision": lambda t, x: t.nn.functional.cross_entropy(
        x.reshape(1, 3), t.ones(1, 3, dtype=t.float64) / 3, weight=t.tensor([1.0, 2, 3])
    ),
    "cross entropy of a class, weight of less precision": lambda t, x: t.nn.functional.cross_entropy(
        x.double().reshape(1, 3), t.tensor([1]), weight=t.tensor([1.0, 2, 3])
    ),
    "huber loss of two dtypes": lambda t, x: t.nn.functional.huber_loss(t.ones(2), t.zeros(2, dtype=t.float64)),
    "huber loss of integers": lambda t, x: t.nn.functional.huber_loss(t.tensor([1, 2]), t.zeros(2)),
    "no bools % 0": lambda t, x: t.remainder(t.zeros(0, dtype=t.bool), 0),
    "no ints % 0": lambda t, x: t.fmod(t.zeros(0, dtype=t.int64), 0),
    "no ints // 0": lambda t, x: t.zeros(0, dtype=t.int64) // 0,
    "no ints // a tensor": lambda t, x: t.zeros(0, dtype=t.int64) // t.tensor(0),
    "no ints.floor_divide_(0)": lambda t, x: t.zeros(0, dtype=t.int64).floor_divide_(0),
    "ints // 0": lambda t, x: t.ones(2, dtype=t.int64) // 0,
    **{
        f"{name} of no {dtype}s": lambda t, x, name=name, dtype=dtype: getattr(
            t.zeros(0, dtype=getattr(t, dtype)), name
        )()
        for dtype in ("int64", "int32", "int8", "uint8", "bool", "float32")
        for name in ("median", "nanmedian")
    },
    **{
        f"{name} of no complex numbers, recorded": lambda t, x, name=name: getattr(
            t.zeros(0, dtype=t.complex128, requires_grad=True), name
        )()
        for name in ("median", "nanmedian")
    },
    "fill_ bools, complex": lambda t, x: t.zeros(2, dtype=t.bool).fill_(1j),
    "topk(0) of a number": lambda t, x: t.tensor(3.0).topk(0),
    "topk(0)": lambda t, x: x.topk(0),
    "tensordot, size 1 on the left": lambda t, x: t.tensordot(t.ones(1, 3), t.ones(5, 2), dims=([0], [1])),
    "tensordot, size 1 on the right": lambda t, x: t.tensordot(t.ones(3, 2), t.ones(3, 1), dims=2),
    "tensordot, other sizes": lambda t, x: t.tensordot(t.ones(3, 4), t.ones(5, 2), dims=([0], [1])),
    "gather with an empty index of bytes": lambda t, x: t.gather(x, 0, t.zeros(0, dtype=t.uint8)),
    "masked_scatter of a smaller tensor": lambda t, x: x.masked_scatter(t.ones(2, 3, dtype=t.bool), t.ones(2, 3)),
    "logsumexp of complex numbers": lambda t, x: t.tensor([1000 + 2j, 1001 + 3j], dtype=t.complex128).logsumexp(0),
    "logsumexp of complex infinities": lambda t, x: t.tensor([complex("inf"), 3j]).logsumexp(0),
    "logsumexp of no complex numbers": lambda t, x: t.zeros(0, dtype=t.complex64).logsumexp(0),
    "scatter(reduce=) of integers": lambda t, x: t.ones(3, dtype=t.int64).scatter(
        0, t.tensor([0, 0]), t.tensor([3, 4]), reduce="multiply"
    ),
    "scatter(reduce=) of a number": lambda t, x: x.scatter_(0, t.tensor([0, 0]), 2, reduce="add"),
    "scatter(reduce=) with gradient": lambda t, x: x.requires_grad_().scatter(
        0, t.tensor([0]), 2, reduce="add").backward(t.ones(3)),
    "take_along_dim modulo": lambda t, x: t.take_along_dim(x, t.tensor([-1, 4]), 0),
    "storage of a detached view": lambda t, x: x[1:].detach().as_strided((2,), (1,), 0),
    "storage offset of a detached view": lambda t, x: (x[1:].detach().storage_offset(), x[2:].data.storage_offset()),
    "storage of a part of an array": lambda t, x: t.from_numpy(np.arange(5.0)[2:])[1:].data.as_strided((2,), (1,), 0),
    "channels last": lambda t, x: [
        made.stride()
        for image in [t.zeros(2, 3, 4, 5)]
        for made in (
            image.contiguous(memory_format=t.channels_last),
            image.to(t.float64, memory_format=t.channels_last),
            image.bool(memory_format=t.channels_last),
            t.rand_like(image, memory_format=t.channels_last),
            t.empty(2, 3, 4, 5, memory_format=t.channels_last),
            t.cat([image.to(memory_format=t.channels_last)] * 2),
            image.to(memory_format=t.channels_last).contiguous(),
        )
    ],
    "channels last of a vector": lambda t, x: x.to(memory_format=t.channels_last),
    "to(..., copy) by position": lambda t, x: x.to("cpu", t.float64, False, True) is x,
    "batch norm of nothing": lambda t, x: t.nn.functional.batch_norm(t.zeros(0), t.zeros(0), t.zeros(0), training=True),
    "normal of parameters that require grad": lambda t, x: t.autograd.grad(
        t.normal(p := t.ones(2).requires_grad_(), p).sum(), p
    ),
    "strides of select_scatter": lambda t, x: t.zeros(4, 6)[:, ::2].select_scatter(x, 0, 1).stride(),
    "sum_to_size of a bool": lambda t, x: t.tensor(True).sum_to_size(()),
    "flip(dims=)": lambda t, x: x.flip(dims=(0,)),
    "permute(dims=)": lambda t, x: t.permute(x, dims=(0,)),
    "reshape(shape=)": lambda t, x: x.reshape(shape=(3, 1)),
    "view(size=)": lambda t, x: x.view(size=(3, 1)),
    "view(dtype=)": lambda t, x: x.view(dtype=t.int32),
    "expand(size=)": lambda t, x: x.expand(size=(2, 3)),
    "repeat(repeats=)": lambda t, x: x.repeat(repeats=(2, 2)),
    "tile(dims=)": lambda t, x: t.tile(x, dims=(2,)),
    "sum_to_size(size=)": lambda t, x: x.sum_to_size(size=(1,)),
    "correction in a tensor": lambda t, x: (x.var(0, correction=t.tensor(0)), x.std(correction=t.tensor(0.5))),
    "index in an array without dims": lambda t, x: (x.view(1, 3)[np.array(0)], x.view(1, 3)[:, np.array(2)]),
    "written at an array without dims": set_item(lambda t, x: np.array(1), lambda t, x: 7),
    "indices out of range that read nothing": lambda t, x: t.zeros(2, 0)[t.tensor([5, 0])],
    "indices out of range that write nothing": lambda t, x: t.zeros(2, 0).index_put((t.tensor([5]),), t.zeros(0)),
    "indices that read nothing of no elements": lambda t, x: t.zeros(0, 0)[t.tensor([0])],
    "flip of a number": lambda t, x: (t.tensor(2.0).flip(0), t.tensor(2.0, requires_grad=True).flip(-1)),
    "gather from a number": lambda t, x: (t.tensor(2.0).gather(0, t.tensor([0])), t.tensor(2).gather(-1, t.tensor(0))),
    "scatter into a number": lambda t, x: t.tensor(2.0).scatter(0, t.tensor([0]), t.tensor([3.0])),
    "scatter_add into a number": lambda t, x: t.tensor(2.0).scatter_add(0, t.tensor([0]), t.tensor([3.0])),
    "scatter a number into a vector": lambda t, x: x.scatter(0, t.tensor([1]), t.tensor(3.0)),
    "scatter a vector into a number": lambda t, x: t.tensor(2.0).scatter_add(0, t.tensor(0), t.tensor([3.0])),
    "narrow of a number": lambda t, x: t.tensor(2.0).narrow(0, 0, 1),
    **{
        f"{name} of {a!r} and {b!r}": lambda t, x, name=name, a=a, b=b: getattr(t, name)(a, b)
        for name in ("add", "sub", "mul", "div", "floor_divide", "true_divide")
        for a, b in ((7, 2), (2.5, 2), (True, True), (3, 4j))
        if not (name == "floor_divide" and b == 4j)
    },
    "add of two numbers with a factor": lambda t, x: (t.add(1, 2, alpha=3), t.add(1, 1, alpha=True)),
    "div of two numbers, rounded": lambda t, x: t.div(7, 2, rounding_mode="floor"),
    "max of complex numbers and others": lambda t, x: t.max(t.ones(1, dtype=t.complex64), t.ones(1)),
    "index by a number of a small dtype": lambda t, x: (x[t.tensor(1).short()], x[t.tensor(-1).to(t.int8)]),
    "mask that does not fit its values' shape and dtype": set_item(lambda t, x: x > 9, lambda t, x: t.ones(2).long()),
    "tensor_split at tensors": lambda t, x: [
        t.tensor_split(x, where) for where in (t.tensor([1, 2]), t.tensor(2), t.tensor([], dtype=t.int64))
    ],
    "tensor_split at a matrix": lambda t, x: t.tensor_split(x, t.tensor([[1]])),
    "tensor_split at a float": lambda t, x: t.tensor_split(x, t.tensor(1.1)),
    "tensor_split beyond both ends": lambda t, x: [
        t.tensor_split(x, where, dim) for where in ((7,), (-1,), (-9, 1), (1, 0), (1, 9)) for dim in (0, -1)
    ],
    "vsplit beyond the end": lambda t, x: (t.ones(2, 3).vsplit((7,)), t.ones(2, 3).hsplit((-1,))),
    "hsplit in no parts": lambda t, x: t.ones(2, 3).hsplit(0),
    "dsplit of a matrix": lambda t, x: t.ones(2, 3).dsplit(1),
    "name of a node without a derivative": lambda t, x: (x.float().requires_grad_() // 2).grad_fn.name(),
    "scatter of a source and a number": lambda t, x: x.scatter(0, t.tensor([0]), src=t.ones(1), value=1),
    "cross entropy by chunks of complex numbers": lambda t, x: t.nn.functional.linear_cross_entropy(
        t.ones(2, 3, dtype=t.complex64), t.ones(4, 3), t.tensor([0, 3]),
        options=t.nn.modules.LinearCrossEntropyOptions(),
    ),
    "slope of sinc at 0": lambda t, x: [
        t.func.vjp(t.sinc, t.tensor(at))[1](t.tensor(g))[0].signbit() for at in (0.0, -0.0) for g in (1.0, -1.0)
    ],
    "tensor_split of a number": lambda t, x: t.tensor_split(x[0], 2),
    "narrow from a float": lambda t, x: x.narrow(0, t.tensor(0.0), 1),
    "narrow from a vector": lambda t, x: x.narrow(0, t.tensor([0]), 1),
    "cat of nothing along any dim": lambda t, x: t.cat([t.zeros(0), t.zeros(0)], 1),
    "channels last, parts joined and stacked": lambda t, x: [
        made.stride()
        for image in [t.zeros(2, 3, 4, 5).to(memory_format=t.channels_last)]
        for made in (t.cat([image[:, :, :2], image[:, :, 2:]], 2), *(t.stack([image, image], d) for d in range(5)))
    ],
    "resize_(size=)": lambda t, x: x.clone().resize_(size=(1, 3)),
}


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_pytorch(name):
    ours, theirs = (outcome(CASES[name], library, [0.5, 1.5, -2.0]) for library in (jitgrad, torch))
    same(ours, theirs)
