"""Strides of results, whose dims lie in the order that PyTorch gives them (TensorIterator, for elementwise ops)."""

import random

import numpy as np
import pytest

import jitgrad

torch = pytest.importorskip("torch")

PROGRAMS = [
    "t.T * 2",
    "t.T + y",
    "y + t.T",
    "t.T * scalar",
    "torch.maximum(t.T, y[0])",
    "torch.maximum(y[0], t.T)",
    "torch.where(t.T > 0, y, scalar)",
    "torch.addcmul(y[:, :1], t.T, y)",
    "torch.lerp(t.T, y, t.T)",
    "cube[:, ::2].permute(2, 0, 1) * 2",
    "cube.permute(1, 2, 0) + cube.permute(1, 2, 0)[:, :1]",
    "y[:1].expand(4, 3).T + t",
    "t.T[:, ::2].exp()",
    "2 ** t.T",
    "t.T.flip(0)",
    "t.T.sort(0)[0]",
    "t.T.argsort(1)",
    "cube.permute(2, 0, 1).sort(1)[0]",
    "cube.permute(2, 0, 1)[:, ::2].sort(2)[1]",
    "cube.permute(2, 0, 1).topk(2, 1)[0]",
    "cube.permute(2, 0, 1).flip(0, 1)",
    "cube.permute(2, 0, 1)[:, ::2].flip(2)",
    "torch.complex(t.T, t.T)",
    "torch.complex(y, t.T)",
    "torch.polar(t.T, t.T)",
    "torch.bernoulli(t.T)",
    "t.T.bernoulli(0.5)",
    "torch.nn.functional.one_hot(t.T.long().abs())",
    "torch.nn.functional.logsigmoid(t.T)",
    "torch.nn.functional.rms_norm(t.T, t.shape[:1])",
    "torch._softmax_backward_data(t.T, t.T, 1, t.dtype)",
    "torch._softmax_backward_data(y, t.T, 1, t.dtype)",
    "torch.view_copy(t.T, (-1, 2))",
    "t.T.masked_fill(y > 0, 2.0)",
    "t.T.masked_fill(y > 0, scalar)",
    "t.T.masked_scatter(y > 0, y)",
    "t.T.index_add(0, index, y[:2])",
    "t.T.index_copy(0, index, y[:2])",
    "t.T.index_fill(0, index, 2.0)",
    "t.T.scatter(0, index[:, None], 2.0)",
    "t.T.scatter_add(0, index[:, None], y)",
    "t.T.tril()",
    "torch.nn.functional.mse_loss(t.T, y, reduction='none')",
    "torch.nn.functional.mse_loss(y, t.T, reduction='none')",
    "torch.nn.functional.mse_loss(cube.permute(2, 0, 1), cube.permute(2, 0, 1)[:, :, ::1], reduction='none')",
    "torch.nn.functional.smooth_l1_loss(t.T, t.T, reduction='none')",
    "torch.nn.functional.huber_loss(t.T, y, reduction='none')",
    "torch.nn.functional.binary_cross_entropy(t.T, y, reduction='none')",
    "torch.nn.functional.binary_cross_entropy_with_logits(t.T, y, reduction='none')",
    "torch.nn.functional.binary_cross_entropy_with_logits(y, t.T, reduction='none')",
    "torch.nn.functional.rrelu(t.T)",
    "torch.nn.functional.rrelu(t.T, training=True)",
    "torch.nn.functional.normalize(t.T)",
    "torch.nn.functional.pad(last, (1, 0, 0, 1), 'circular')",
    "torch.nn.functional.pad(last, (1, 0, 0, 1), 'reflect')",
    "torch.nn.functional.fractional_max_pool2d(last, 2, 2)",
    "last.repeat_interleave(2, 0)",
    "torch.rot90(t.T, -4)",
    "t[:, :0].T.masked_fill(y[:0] > 0, 2.0)",
    "t[:0].T.index_add(0, index, y[:2, :0])",
    "t[:0].T.masked_scatter(y[:, :0] > 0, y)",
]


def strides_of(library, program):
    values = {
        "torch": library, "t": library.ones(3, 4), "y": library.ones(4, 3), "scalar": library.tensor(2.0),
        "cube": library.ones(2, 4, 3),
        "last": library.ones(2, 3, 4, 5).contiguous(memory_format=library.channels_last),
        "index": library.tensor([0, 1]),
    }  # fmt: skip
    return tuple(eval(program, values).stride())


@pytest.mark.parametrize("program", PROGRAMS)
def test_result_has_the_order_of_dims_of_its_operands(program):
    assert strides_of(jitgrad, program) == strides_of(torch, program)


def operand(library, shape, order, steps, repeated):
    """A tensor of ``shape``: dims in ``order`` in memory, every ``steps``-th element, one stored where ``repeated``."""
    stored = [1 if repeated[d] else shape[d] * steps[d] for d in order]
    x = library.ones(stored)[tuple(slice(None, None, 1 if repeated[d] else steps[d]) for d in order)]
    return x.permute([order.index(d) for d in range(len(shape))]).expand(shape)


@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 2), (2, 3, 0)])
@pytest.mark.parametrize(
    "program",
    ["x.exp()", "x.clone()", "x.frexp()[0]", "x.frexp()[1]", "x.nan_to_num()", "torch.prelu(x, torch.ones(1))",
     "x.roll(1, 0)", "x.roll((1, 2), (0, 1))", "x.roll(1)", "x.sort()[0]", "x.sort(0)[1]", "torch.complex(x, x)"],
)  # fmt: skip
def test_empty_results(program, shape):
    ours, theirs = (
        tuple(eval(program, {"torch": library, "x": library.ones(shape).permute(2, 0, 1)}).stride())
        for library in (jitgrad, torch)
    )
    assert ours == theirs


def test_random_layouts():
    generator = random.Random(0)
    for _ in range(150):
        shape = [generator.choice((2, 3, 4)) for _ in range(generator.choice((2, 3, 4)))]
        layouts = []
        for _ in range(2):
            order = generator.sample(range(len(shape)), len(shape))
            steps = [generator.choice((1, 1, 2)) for _ in shape]
            layouts.append((order, steps, [generator.random() < 0.2 for _ in shape]))
        ours, theirs = (
            (library.add(*(operand(library, shape, *layout) for layout in layouts)) * 2).stride()
            for library in (jitgrad, torch)
        )
        assert tuple(ours) == tuple(theirs), (shape, layouts)


BESIDE_NUMBERS = (
    "x + 1", "2 - x", "x * 2", "x % 2", "x == 1", "x ** 2", "x ** 3.5", "2 ** x", "x.clamp(0, 1)", "torch.fmod(x, 2)",
    "torch.where(x > 0, x, 1.0)", "torch.lerp(x, x, 0.5)", "torch.xlogy(x, 2)", "x.exp()", "torch.add(x, 1, alpha=2)",
    "torch.nn.functional.hardtanh(x)", "torch.nn.functional.threshold(x, 0, 1)",
)  # fmt: skip


def test_numbers_beside_sizes_of_0_and_1():
    """PyTorch makes tensors without dims of some numbers: its inputs are then of several shapes, whatever x is."""
    generator = random.Random(3)
    for _ in range(60):
        shape = [generator.choice((0, 1, 1, 2, 3)) for _ in range(generator.randint(1, 5))]
        layout = generator.sample(range(len(shape)), len(shape)), [generator.choice((1, 1, 1, 2)) for _ in shape]
        repeated = [generator.random() < 0.1 for _ in shape]
        for program in BESIDE_NUMBERS:
            ours, theirs = (
                tuple(eval(program, {"torch": t, "x": operand(t, shape, *layout, repeated)}).stride())
                for t in (jitgrad, torch)
            )
            assert ours == theirs, (program, shape, layout, repeated)


def test_reads_at_indices():
    """Index tensors, masks and slices of tensors whose dims lie in another order, or are repeated, in memory."""
    generator, draws = random.Random(1), np.random.default_rng(1)
    for _ in range(200):
        shape = [generator.choice((1, 2, 3, 4)) for _ in range(generator.randint(1, 4))]
        layout = generator.sample(range(len(shape)), len(shape)), [generator.choice((1, 1, 2)) for _ in shape]
        repeated = [generator.random() < 0.2 for _ in shape]
        found = generator.choice(((2,), (3,), (2, 2), ()))
        key = [
            generator.choice((slice(None), slice(0, 2), draws.integers(0, n, found), draws.integers(0, n, found)))
            for n in shape[: generator.randint(1, len(shape))]
        ]
        if isinstance(key[0], slice) and generator.random() < 0.3:
            key[0] = draws.random(shape[0]) > 0.4

        def read(library):
            at = tuple(k if isinstance(k, slice) else library.tensor(k) for k in key)
            return operand(library, shape, *layout, repeated)[at]

        try:
            theirs = read(torch)
        except IndexError:  # a mask beside indices of another length
            continue
        assert strided(read(jitgrad)) == strided(theirs), (shape, layout, repeated, key)


def strided(x):
    return [s for s, n in zip(x.stride(), x.shape, strict=True) if n > 1] if x.numel() else []
