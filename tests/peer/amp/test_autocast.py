"""autocast and GradScaler against PyTorch."""

import warnings

import pytest
import torch
from torch.testing._internal.autocast_test_lists import AutocastCPUTestLists

import jitgrad

BOTH = (jitgrad, torch)
LISTS = ["torch_16", "torch_fp32", "nn_16", "nn_fp32", "torch_need_autocast_promote", "torch_expect_builtin_promote"]


def own(lib, value):
    """PyTorch's arguments in a library's own types."""
    if isinstance(value, torch.Tensor):
        return value.clone() if lib is torch else jitgrad.from_numpy(value.float().numpy()).to(
            getattr(jitgrad, str(value.dtype).partition(".")[2]))  # fmt: skip
    return type(value)([own(lib, v) for v in value]) if isinstance(value, (list, tuple)) else value


def listed():
    lists = AutocastCPUTestLists(torch.device("cpu"))
    for title in LISTS:
        for name, args, *kwargs in getattr(lists, title):
            place = "nn.functional" if title.startswith("nn") else ""
            if jitgrad_has(place, name):
                yield pytest.param(place, name, args, (kwargs[0] if kwargs and isinstance(kwargs[0], dict) else {}),
                                   id=f"{title} {name}")  # fmt: skip


def jitgrad_has(place, name):
    return hasattr(jitgrad.nn.functional if place else jitgrad, name)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("place, name, args, kwargs", list(listed()))
def test_dtypes_of_results(place, name, args, kwargs, dtype):
    found = []
    for lib in BOTH:
        home = lib.nn.functional if place else lib
        if not hasattr(home, name):
            home = lib._C._nn if lib is torch else home
        with lib.autocast("cpu", dtype=getattr(lib, dtype)):
            try:
                out = getattr(home, name)(*own(lib, args), **kwargs)
                found.append([str(o.dtype) for o in (out if isinstance(out, tuple) else (out,))])
            except (RuntimeError, NotImplementedError) as error:
                found.append(type(error))
    assert found[0] == found[1]


def regions(lib):
    seen = []
    x = lib.linspace(-1, 1, 9).view(3, 3).requires_grad_()

    def see(label):
        seen.append((label, str((x @ x).dtype), lib.is_autocast_enabled("cpu"), str(lib.get_autocast_dtype("cpu")),
                     lib.is_autocast_cache_enabled()))  # fmt: skip

    see("before")
    with lib.autocast("cpu"):
        see("outer")
        with lib.autocast("cpu", enabled=False, cache_enabled=False):
            see("disabled")
            with lib.autocast("cpu", dtype=lib.float16):
                see("inner")
        see("outer again")
    see("after")

    @lib.amp.autocast("cpu", dtype=lib.float16)
    def decorated():
        see("decorated")

    decorated()
    lib.set_autocast_enabled("cpu", True)
    see("set")
    lib.set_autocast_enabled("cpu", False)
    with lib.autocast("cpu"):
        loss = lib.nn.functional.mse_loss((x @ x).relu() @ x, lib.zeros(3, 3))
        shared = (x @ x).grad_fn.next_functions
        seen.append(shared[0][0] is shared[1][0])
    loss.backward()
    return seen, x.grad.dtype, str(loss.dtype), x.grad


def test_regions():
    ours, theirs = regions(jitgrad), regions(torch)
    assert (ours[0], str(ours[1]), ours[2]) == (theirs[0], str(theirs[1]), theirs[2])
    assert ours[3].numpy() == pytest.approx(theirs[3].numpy(), rel=0.05, abs=0.02)


def refusals(lib):
    for call in (
        lambda: lib.autocast("foo"), lambda: lib.autocast(lib.device("cpu")),
        lambda: lib.autocast("cpu")(3), lambda: lib.autocast("cpu", dtype=lib.float64)._enabled,
        lambda: lib.autocast("cuda")._enabled, lambda: lib.amp.GradScaler("cpu", growth_factor=0.5),
        lambda: lib.amp.GradScaler("cpu").update(), lambda: lib.amp.GradScaler("cpu").load_state_dict({}),
    ):  # fmt: skip
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("always")
            try:
                answer = call()
            except Exception as error:
                answer = (type(error).__name__, str(error).replace("jitgrad.core.device.device", "torch.device"))
        yield answer, [str(w.message) for w in shown]


def test_refusals():
    assert list(refusals(jitgrad)) == list(refusals(torch))


def scaled(lib):
    p = lib.tensor([1.0, 2.0], requires_grad=True)
    optimizer = lib.optim.SGD([p], lr=0.1)
    scaler = lib.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    seen = []
    for factor in (1.0, 1.0, float("inf"), 2.0):
        optimizer.zero_grad()
        scaler.scale((p * p * factor).sum()).backward()
        if factor == 2:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        seen.append((p.tolist(), scaler.get_scale(), scaler.state_dict()))
    return seen


def test_grad_scaler():
    assert scaled(jitgrad) == scaled(torch)


def custom(lib):
    seen = []

    class Product(lib.autograd.Function):
        @staticmethod
        @lib.amp.custom_fwd(device_type="cpu", cast_inputs=lib.float32)
        def forward(ctx, x, y):
            seen.append((str(x.dtype), lib.is_autocast_enabled("cpu")))
            ctx.save_for_backward(x, y)
            return x @ y

        @staticmethod
        @lib.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            seen.append((str(g.dtype), lib.is_autocast_enabled("cpu")))
            return g @ y.t(), x.t() @ g

    x = lib.ones(2, 2, requires_grad=True)
    with lib.autocast("cpu"):
        y = x @ x
        out = Product.apply(y, x)
    out.sum().backward()
    return seen, str(out.dtype), x.grad.tolist()


def test_custom_functions():
    assert custom(jitgrad) == custom(torch)
