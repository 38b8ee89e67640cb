"""Strides of results of tensors whose channels are last in memory, sizes of 1 among theirs."""

import numpy as np
import pytest

import jitgrad

torch = pytest.importorskip("torch")

OPS = {
    "relu": lambda m, z: z.relu(),
    "cat": lambda m, z: m.cat([z, z]),
    "cat, channels": lambda m, z: m.cat([z, z], 1),
    "conv2d": lambda m, z: m.conv2d(z, m.ones(4, z.shape[1], 1, 1)),
    "conv2d, weight": lambda m, z: m.conv2d(
        z.contiguous(), m.ones(4, z.shape[1], 1, 1).to(memory_format=m.channels_last)
    ),
    "batch_norm": lambda m, z: m.nn.functional.batch_norm(z, None, None, training=True),
    "batch_norm, eval": lambda m, z: m.nn.functional.batch_norm(z, m.zeros(z.shape[1]), m.ones(z.shape[1])),
    "instance_norm": lambda m, z: m.nn.functional.instance_norm(z, use_input_stats=z.shape[2:] != (1, 1), **(
        {"running_mean": m.zeros(z.shape[1]), "running_var": m.ones(z.shape[1])} if z.shape[2:] == (1, 1) else {})),
    "group_norm": lambda m, z: m.nn.functional.group_norm(z, 1, m.ones(z.shape[1]), m.ones(z.shape[1])),
    "layer_norm": lambda m, z: m.nn.functional.layer_norm(z, z.shape[1:]),
    "rms_norm": lambda m, z: m.nn.functional.rms_norm(z, z.shape[1:]),
    "channel_shuffle": lambda m, z: m.channel_shuffle(z, z.shape[1]),
    "pixel_shuffle": lambda m, z: m.pixel_shuffle(m.cat([z, z, z, z], 1), 2),
    "pixel_unshuffle": lambda m, z: m.pixel_unshuffle(m.nn.functional.interpolate(z, scale_factor=2.0), 2),
    "roll": lambda m, z: z.roll((1, 2), (1, 3)),
    "max_pool2d": lambda m, z: m.nn.functional.max_pool2d(z, 1),
    "avg_pool2d": lambda m, z: m.nn.functional.avg_pool2d(z, 1),
    "adaptive_avg_pool2d": lambda m, z: m.nn.functional.adaptive_avg_pool2d(z, 1),
    "interpolate": lambda m, z: m.nn.functional.interpolate(z, scale_factor=2.0),
    "pad": lambda m, z: m.nn.functional.pad(z, (1, 1, 1, 1)),
}


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 1, 4, 5), (1, 3, 4, 5), (2, 3, 1, 1), (2, 3, 1, 5), (1, 1, 4, 5)])
@pytest.mark.parametrize("op", OPS)
def test_strides(op, shape):
    found = []
    for library in (jitgrad, torch):
        z = library.arange(float(library.Size(shape).numel())).reshape(shape).to(memory_format=library.channels_last)
        y = OPS[op](library, z)
        found.append((y.stride(), y.is_contiguous(), y.tolist()))
    assert found[0][:2] == found[1][:2]
    torch.testing.assert_close(torch.tensor(found[0][2]), torch.tensor(found[1][2]))


@pytest.mark.parametrize("op", ["batch_norm", "batch_norm, eval", "instance_norm", "group_norm", "layer_norm"])
@pytest.mark.parametrize("last", [False, True])
def test_strides_of_gradients(op, last):
    found = []
    for library in (jitgrad, torch):
        source = np.random.default_rng(0).normal(size=(2, 3, 4, 5))
        z = library.tensor(source).to(memory_format=library.channels_last).requires_grad_()
        y = OPS[op](library, z.float())
        g = library.tensor(np.cos(source)).float()
        (dz,) = library.autograd.grad(y, z, g.to(memory_format=library.channels_last) if last else g)
        found.append((dz.stride(), dz.tolist()))
    assert found[0][0] == found[1][0]
    torch.testing.assert_close(torch.tensor(found[0][1]), torch.tensor(found[1][1]), atol=1e-5, rtol=1e-5)
