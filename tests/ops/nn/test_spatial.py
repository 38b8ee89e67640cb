"""Padding, pooling, convolution and resizing against NumPy and known values; PyTorch's samples are in tests/peer."""

import math

import numpy as np
import pytest

import jitgrad
from jitgrad.autograd import gradcheck, gradgradcheck
from jitgrad.nn import functional as F


def image(*shape, requires_grad=False):
    values = np.random.default_rng(shape).uniform(-1, 1, shape)
    return jitgrad.from_numpy(values).requires_grad_(requires_grad)


def values(x):
    return x.detach().numpy()


# -- padding ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "theirs"), [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")])
def test_padding_by_own_elements(mode, theirs):
    x = image(2, 3, 4, 5)
    wanted = np.pad(values(x), [(0, 0), (0, 0), (2, 1), (1, 3)], mode=theirs)
    assert np.array_equal(values(F.pad(x, (1, 3, 2, 1), mode)), wanted)


def test_negative_padding_takes_away():
    x = image(2, 3, 4)
    assert np.array_equal(values(F.pad(x, (-1, 0, 1, -1), value=5.0))[:, 1:], values(x)[:, :2, 1:])


def test_padding_of_five_dims_in_two_passes():
    x = image(1, 2, 1, 2, 1)
    wanted = np.pad(values(x), [(1, 0), (0, 1), (2, 0), (1, 1), (0, 2)], constant_values=3)
    assert np.array_equal(values(F.pad(x, (0, 2, 1, 1, 2, 0, 0, 1, 1, 0), value=3.0)), wanted)


def test_padding_of_bools_and_of_nothing():
    assert F.pad(jitgrad.tensor([True]), (1, 1), value=1).tolist() == [True, True, True]
    assert F.pad(jitgrad.empty(0), (2, 1), value=4.0).tolist() == [4, 4, 4]


@pytest.mark.parametrize(
    ("pad", "mode", "words"),
    [
        ((1,), "constant", "divisible by 2"),
        ((4, 0), "reflect", "should be less than the corresponding input dimension"),
        ((5, 0), "circular", "wrapping around more than once"),
        ((-2, -3), "replicate", "is too small"),
    ],
)
def test_padding_that_does_not_fit(pad, mode, words):
    with pytest.raises(RuntimeError, match=words):
        F.pad(image(1, 2, 4), pad, mode)


# -- pooling ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_padding_that_takes_all_away(mode):
    x = image(1, 2, 5, 5)
    assert F.pad(x, (-5, 0, 0, 0), mode).shape == (1, 2, 5, 0)
    for pad, words in (
        ((-5, 0, 0, -9), r"input \(H: 5, W: 5\) is too small. Calculated output H: -4 W: 0"),
        ((-9, 0), r"Trying to create tensor with negative dimension -4: \[1, 2, 5, -4\]"),
    ):
        with pytest.raises(RuntimeError, match=words):
            F.pad(x, (*pad, 0, 0)[:4], mode)


def test_a_window_of_padding_alone_has_no_gradient():
    x = jitgrad.full((1, 1, 1, 3), 2.0, requires_grad=True)  # the kernel's rows lie above and below
    out, places = F.max_pool2d(x, (2, 1), 1, (2, 0), (4, 1), return_indices=True)
    (found,) = jitgrad.autograd.grad(out, x, jitgrad.ones_like(out), create_graph=True)
    assert out.flatten().tolist() == [-math.inf] * 3 and places.flatten().tolist() == [-1] * 3
    assert found.tolist() == [[[[0, 0, 0]]]]


@pytest.mark.parametrize("kind", ["avg", "max"])
def test_adaptive_pooling_without_elements(kind):
    pool = {d: getattr(F, f"adaptive_{kind}_pool{d}d") for d in (1, 2, 3)}
    assert pool[3](jitgrad.ones(0, 4, 4, 4), 2).shape == (0, 2, 2, 2)  # the dim of channels counts as that of samples
    x = jitgrad.ones(1, 2, 4, 4, requires_grad=True)
    words = rf"adaptive_{kind}_pool2d_backward\(\): Expected .* grad_output has sizes \[1, 2, 0, 2\] with dimension 2"
    with pytest.raises(RuntimeError, match=words):
        pool[2](x, (0, 2)).sum().backward()


def test_channels_that_are_last_stay_so():
    x = image(2, 3, 4, 4).to(memory_format=jitgrad.channels_last)
    assert F.adaptive_avg_pool2d(x, 1).stride() == (3, 1, 3, 3)
    volume = image(2, 3, 4, 4, 4).to(memory_format=jitgrad.channels_last_3d)[0]
    assert F.max_pool3d(volume, 2).stride() == (1, 12, 6, 3)


def test_fractional_pooling_refuses_more_dims_and_complex_numbers():
    with pytest.raises(RuntimeError, match=r"fractional_max_pool2d\(\): Expected 3D or 4D tensor, but got: \[1, 2"):
        F.fractional_max_pool2d(jitgrad.ones(1, 2, 3, 4, 4), 2, 2)
    for pool in (lambda x: F.fractional_max_pool2d(x, 2, 2), lambda x: F.avg_pool2d(x, 2)):
        with pytest.raises(NotImplementedError, match="not implemented for 'ComplexFloat'"):
            pool(jitgrad.ones(2, 3, 4, 4, dtype=jitgrad.complex64))


def test_unpooling_volumes_wants_three_sizes():
    x = jitgrad.ones(1, 3, 1, 1, 1)
    with pytest.raises(RuntimeError, match="exactly three elements .* in output_size, but got 2 elements"):
        F.max_unpool3d(x, jitgrad.zeros(x.shape, dtype=jitgrad.int64), [1, 1])


def test_words_about_windows_that_are_no_windows():
    x = jitgrad.ones(1, 1, 6)
    with pytest.raises(RuntimeError, match=r"max_pool1d\(\) Invalid computed output size: 0"):
        F.max_pool1d(x, 8)
    with pytest.raises(RuntimeError, match=r"Given input size: \(1x1x6\). Calculated output size: \(1x1x0\)"):
        F.max_pool1d(x, 8, return_indices=True)
    with pytest.raises(RuntimeError, match="kernel size should be greater than zero, but got kH: 1 kW: -1"):
        F.max_pool1d(x, -1, return_indices=True)


def test_pooling_of_a_known_image():
    x = jitgrad.arange(16.0).reshape(1, 1, 4, 4)
    assert F.avg_pool2d(x, 2).flatten().tolist() == [2.5, 4.5, 10.5, 12.5]
    out, places = F.max_pool2d(x, 2, return_indices=True)
    assert out.flatten().tolist() == places.flatten().tolist() == [5, 7, 13, 15]
    assert F.max_unpool2d(out, places, 2).sum() == 40
    assert F.adaptive_avg_pool2d(x, (1, 2)).flatten().tolist() == [6.5, 8.5]


@pytest.mark.parametrize(
    ("shape", "pool"),
    [
        ((2, 3, 9, 13), lambda x: F.avg_pool2d(x, 2)),  # the last row and column are in no window
        ((2, 3, 9, 13), lambda x: F.avg_pool2d(x, 2, 3)),
        ((2, 3, 9, 13), lambda x: F.avg_pool2d(x, 3, 2, 1)),
        ((2, 3, 8, 12), lambda x: F.adaptive_avg_pool2d(x, (2, 5))),
        ((2, 3, 5, 6), lambda x: F.avg_pool1d(x.flatten(0, 1), 2)),
        ((1, 2, 4, 5), lambda x: F.avg_pool3d(x, 2)),
    ],
)
def test_gradients_of_means_are_those_of_a_matrix(shape, pool):
    """Pooling is linear: a matrix, whose columns are the pools of unit images, gives its gradient."""
    n = math.prod(shape)
    units = np.eye(n).reshape(n, *shape)
    matrix = np.stack([values(pool(jitgrad.from_numpy(unit))).ravel() for unit in units], 1)
    x = image(*shape, requires_grad=True)
    out = pool(x)
    g = image(*out.shape)
    (found,) = jitgrad.autograd.grad(out, x, g)
    np.testing.assert_allclose(found.numpy().ravel(), matrix.T @ values(g).ravel(), atol=1e-12)


def test_padding_counts_or_not():
    x = jitgrad.ones(1, 1, 3)
    assert F.avg_pool1d(x, 2, padding=1).flatten().tolist() == [0.5, 1.0]
    assert F.avg_pool1d(x, 2, padding=1, count_include_pad=False).flatten().tolist() == [1, 1]


def test_windows_beyond_the_end_have_fewer_elements():
    x = jitgrad.tensor([[[1.0, 2, 3, 4, 9]]])
    assert F.max_pool1d(x, 2, ceil_mode=True).flatten().tolist() == [2, 4, 9]
    assert F.avg_pool1d(x, 2, ceil_mode=True).flatten().tolist() == [1.5, 3.5, 9]


def test_nan_is_the_largest_and_infinity_stays_in_its_window():
    x = jitgrad.tensor([[[1.0, float("nan"), 3, 4, float("inf"), 0]]])
    assert str(F.max_pool1d(x, 2).flatten().tolist()) == "[nan, 4.0, inf]"
    assert str(F.avg_pool1d(x, 2).flatten().tolist()) == "[nan, 3.5, inf]"


def test_means_of_integers_are_rounded_towards_zero():
    assert F.avg_pool1d(jitgrad.tensor([[[-3, 0, 3, 0]]]), 2).flatten().tolist() == [-1, 1]


def test_an_index_outside_of_the_image_is_an_error():
    with pytest.raises(RuntimeError, match="Found an invalid max index: 9"):
        F.max_unpool2d(jitgrad.ones(1, 1, 1), jitgrad.tensor([[[9]]]), 2)


# -- convolution ------------------------------------------------------------------------------------------


def convolved(x, w):
    """Valid convolution of one-dimensional signals."""
    return np.stack([sum(np.correlate(c, k, "valid") for c, k in zip(x, one)) for one in w])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.complex128])
def test_convolution_of_signals(dtype):
    rng = np.random.default_rng(0)
    x, w = rng.integers(-5, 5, (2, 3, 9)).astype(dtype), rng.integers(-5, 5, (4, 3, 3)).astype(dtype)
    out = F.conv1d(jitgrad.from_numpy(x), jitgrad.from_numpy(w))
    assert np.array_equal(values(out), np.stack([convolved(one, w) for one in x]))


def test_large_convolution_is_that_of_its_samples():
    x, w = image(5, 16, 20, 20).float(), image(32, 16, 3, 3).float()  # of several blocks, on two threads
    both = [t.clone().requires_grad_() for t in (x, w)]
    F.conv2d(*both, padding=1).square().sum().backward()
    one = [t.double().requires_grad_() for t in (x, w)]
    total = sum(F.conv2d(one[0][k : k + 1], one[1], padding=1).square().sum() for k in range(5))
    total.backward()
    for a, b in zip(both, one, strict=True):
        assert np.allclose(values(a.grad), values(b.grad), rtol=1e-4, atol=1e-2)


def test_same_padding_keeps_the_size():
    x = image(1, 1, 6)
    with pytest.warns(UserWarning, match="even kernel lengths"):
        out = F.conv1d(x, image(1, 1, 4), padding="same")
    assert out.shape == (1, 1, 6)


@pytest.mark.parametrize("transposed", [False, True])
def test_gradients_of_convolution(transposed):
    x, w, b = image(2, 4, 5, requires_grad=True), image(4, 2, 2, requires_grad=True), image(4, requires_grad=True)

    def function(x, w, b):
        if transposed:
            return F.conv_transpose1d(x, w, b, stride=2, padding=1, dilation=2, groups=2, output_padding=1)
        return F.conv1d(x, w, b, stride=2, padding=1, dilation=2, groups=2)

    assert gradcheck(function, (x, w, b), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(function, (x, w, b))


def test_samples_under_vmap_may_have_weights_of_their_own():
    x, w = image(3, 2, 2, 6), image(3, 4, 2, 3)
    for in_dims in ((0, 0), (0, None), (None, 0)):
        given = [t if d == 0 else t[0] for t, d in zip((x, w), in_dims, strict=True)]
        out = jitgrad.func.vmap(F.conv1d, in_dims)(*given)
        rows = [F.conv1d(*[t[k] if d == 0 else t for t, d in zip(given, in_dims, strict=True)]) for k in range(3)]
        assert np.allclose(values(out), values(jitgrad.stack(rows)))


def test_unfold_and_a_product_are_convolution():
    x, w = image(2, 3, 5, 6), image(4, 3, 2, 3)
    product = w.reshape(4, -1) @ F.unfold(x, (2, 3), padding=1)
    assert np.allclose(values(F.conv2d(x, w, padding=1)).reshape(2, 4, -1), values(product))
    ones = F.fold(F.unfold(jitgrad.ones(1, 1, 3, 3), 2), 3, 2)
    assert ones.flatten().tolist() == [1, 2, 1, 2, 4, 2, 1, 2, 1]


# -- resizing ---------------------------------------------------------------------------------------------


def test_resizing_of_a_line():
    x = jitgrad.tensor([[[0.0, 4.0]]])
    assert F.interpolate(x, 4).flatten().tolist() == [0, 0, 4, 4]
    assert F.interpolate(x, 4, mode="linear").flatten().tolist() == [0, 1, 3, 4]
    assert F.interpolate(x, 3, mode="linear", align_corners=True).flatten().tolist() == [0, 2, 4]


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "lanczos"])
def test_antialiasing_keeps_constants(mode):
    out = F.interpolate(jitgrad.full((1, 1, 9, 7), 2.0), (4, 10), mode=mode, antialias=True)
    assert np.allclose(values(out), 2)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_the_identity_grid_reads_the_image(mode):
    x = image(1, 2, 4, 5)
    grid = F.affine_grid(jitgrad.tensor([[[1.0, 0, 0], [0, 1, 0]]]).double(), (1, 2, 4, 5), align_corners=False)
    assert np.allclose(values(F.grid_sample(x, grid, mode, align_corners=False)), values(x))


def test_graphs_of_affine_grids_run_backward_twice():
    maps = jitgrad.ones(1, 2, 3, requires_grad=True)
    grid = F.affine_grid(maps, (1, 1, 2, 2), align_corners=False)
    grid.sum().backward()
    grid.sum().backward()
    assert maps.grad.tolist() == [[[0, 0, 8], [0, 0, 8]]]
    assert grid.grad_fn.name() == "AffineGridGeneratorBackward0"
    with pytest.raises(RuntimeError, match=r"batch2 tensor to be: \[2, 3\] but got: \[1, 3\]"):
        F.affine_grid(maps, (2, 1, 2, 2), align_corners=False)


def test_gradients_of_sampling():
    x, grid = image(1, 1, 3, 3, requires_grad=True), (image(1, 2, 2, 2) * 1.2).requires_grad_()

    def function(x, grid):
        return F.grid_sample(x, grid, "bicubic", "reflection", align_corners=False)

    assert gradcheck(function, (x, grid)) and gradgradcheck(function, (x, grid))


# -- all of them ------------------------------------------------------------------------------------------

FUNCTIONS = {
    "pad": lambda x: F.pad(x, (1, 0, 0, 1), "reflect"),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 2),
    "avg_pool": lambda x: F.avg_pool2d(x, 2, 1, 1),
    "max_pool": lambda x: F.max_pool2d(x, 2, 1),
    "lp_pool": lambda x: F.lp_pool2d(x.abs() + 1, 3, 2),
    "local_response_norm": lambda x: F.local_response_norm(x, 2),
    "interpolate": lambda x: F.interpolate(x, (2, 4), mode="bicubic"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_forward_mode_vmap_and_second_order(name):
    function, x = FUNCTIONS[name], image(1, 4, 3, 3, requires_grad=True)
    assert gradcheck(function, (x,), check_forward_ad=True) and gradgradcheck(function, (x,))
    batch = image(2, 1, 4, 3, 3)
    rows = jitgrad.stack([function(one) for one in batch])
    assert np.allclose(values(jitgrad.func.vmap(function)(batch)), values(rows))


def test_compiled_step_of_a_small_network():
    def step(x, w):
        out = F.max_pool2d(F.conv2d(x, w, padding=1).relu(), 2)
        return F.avg_pool2d(F.pad(out, (1, 1, 0, 0), "replicate"), 2).sum()

    w = image(2, 1, 3, 3, requires_grad=True)
    compiled = jitgrad.compile(step)
    for k in range(3):
        x = image(2, 1, 4, 4) + k
        grads = [jitgrad.autograd.grad(f(x, w), w)[0] for f in (step, compiled)]
        assert np.allclose(values(grads[0]), values(grads[1]))


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("modes", [(7, 0), (-1, 0), (0, 3), (0, -1), (2.5, 0), (0, 0.5), (True, 0)])
def test_a_grids_modes_are_checked(dims, modes):
    x, grid = jitgrad.ones(1, 1, *[3] * dims), jitgrad.zeros(1, *[3] * dims, dims)
    with pytest.raises((TypeError, ValueError), match=r"^grid_sampler\(\): .*(interpolation|padding)_mode"):
        jitgrad.grid_sampler(x, grid, *modes, False)


@pytest.mark.parametrize("call", [
    lambda: F.adaptive_avg_pool1d(jitgrad.ones(2, 4), 2**45), lambda: F.interpolate(jitgrad.ones(1, 1, 4), 2**45),
])  # fmt: skip
def test_sizes_beyond_all_memory(call):
    with pytest.raises((RuntimeError, MemoryError)):
        call()


def test_convolutions_of_no_channels():
    x, w, b = jitgrad.ones(2, 0, 7), jitgrad.ones(3, 0, 2, requires_grad=True), jitgrad.ones(3, requires_grad=True)
    y = F.conv1d(x, w, b)
    y.sum().backward()
    assert y.shape == (2, 0, 6) and b.grad.tolist() == [0, 0, 0] and w.grad.shape == w.shape
    with pytest.raises(RuntimeError, match="Only zero batch or zero channel inputs are supported, but got input shape"):
        F.conv2d(jitgrad.ones(2, 4, 7, 0), jitgrad.ones(3, 4, 2, 2), padding=1)


def test_inputs_without_places():
    """Transposed convolutions of them are refused, too; pooling names the shape before it counts dims."""
    with pytest.raises(RuntimeError, match=r"Only zero batch .* but got input shape: \[2, 3, 1, 0\]"):
        F.conv_transpose1d(jitgrad.ones(2, 3, 0), jitgrad.ones(3, 4, 3))
    with pytest.raises(RuntimeError, match=r"Only zero batch .* but got input shape: \[1, 3, 0, 4\]"):
        F.conv_transpose2d(jitgrad.ones(3, 0, 4), jitgrad.ones(3, 4, 3, 3))
    with pytest.raises(RuntimeError, match=r"Expected 3D or 4D .* but got:\[2, 5, 5, 5, 5\]"):
        F.avg_pool2d(jitgrad.ones(2, 5, 5, 5, 5), 2)
    with pytest.raises(RuntimeError, match=r"input has sizes \[2, 3, 0\] with dimension 2 being empty"):
        F.adaptive_avg_pool3d(jitgrad.ones(2, 3, 0), 2)


def test_sizes_of_fractional_pooling():
    x = jitgrad.ones(1, 2, 7, 7)
    assert F.fractional_max_pool2d(x, 2, output_size=6).shape == (1, 2, 6, 6)
    assert F.fractional_max_pool2d(jitgrad.ones(0, 5, 5), 2, output_size=1).shape == (0, 1, 1)
    for kernel, size, words in (((1,), 3, "kernel_size must either"), (2, (3,), "output_size must either"),
                                (2, (9, 3), "pool height 2 too large relative to input height 7")):  # fmt: skip
        with pytest.raises(RuntimeError, match=words):
            F.fractional_max_pool2d(x, kernel, output_size=size)
    with pytest.raises(RuntimeError, match="pool time 2 too large relative to input time 7"):
        F.fractional_max_pool3d(jitgrad.ones(1, 2, 7, 7, 7), 2, output_size=(6, 3, 3))


@pytest.mark.parametrize("shape", [(3, 2, 6, 10), (2, 7, 9), (1, 1, 40, 35), (2, 3, 5, 4)])
def test_windows_of_two_by_two_that_touch(shape):
    """They have a kernel of their own: the first of equal elements, the last NaN, and -inf beside nothing larger."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, shape).astype("f")
    x[rng.random(shape) < 0.1], x[rng.random(shape) < 0.1] = np.nan, -np.inf
    with jitgrad.debug.tape() as tape:
        found = F.max_pool2d(jitgrad.tensor(x), 2, return_indices=True)
    assert [e.kernel.name for e in tape] == ["largest_of_pairs"]
    volume = jitgrad.tensor(x).unsqueeze(-3)  # in three dims they are windows like any others
    for values, others in zip(found, F.max_pool3d(volume, (1, 2, 2), return_indices=True), strict=True):
        np.testing.assert_array_equal(values.numpy(), others.squeeze(-3).numpy())


def test_resized_bytes_are_bytes_after_each_dim():
    """What a cubic overshoots along the rows is cut off before the columns are summed."""
    x = jitgrad.tensor(np.random.default_rng(0).integers(0, 2, (1, 2, 5, 6)) * 255.0)

    def resized(image, *size):
        return (F.interpolate(image, size, mode="bicubic") + 0.5).floor().clamp(0, 255)

    found = F.interpolate(x.to(jitgrad.uint8), (8, 9), mode="bicubic")
    assert found.dtype is jitgrad.uint8 and (found.double() - resized(resized(x, 5, 9), 8, 9)).abs().max() <= 1
    assert (found.double() - resized(x, 8, 9)).abs().max() > 10
    # A dim that keeps its size stays as it is, whatever the scale.
    assert F.interpolate(x.to(jitgrad.uint8), scale_factor=1.1, mode="bicubic").tolist() == x.long().tolist()
