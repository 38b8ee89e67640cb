"""Random calls of reductions, scans and choices along dims, of all dtypes and layouts, compared with torch."""

import warnings

import numpy as np
import torch

import jitgrad

from .seeds import generators

CALLS = [
    "x.sum()", "x.sum({dims}, keepdim={flag})", "x.sum({dim}, dtype=torch.{dtype})", "x.mean({dims}, keepdim={flag})",
    "x.mean()", "x.nan_to_num(1, 2, 3).prod()", "x.prod({dim}, keepdim={flag})", "x.prod({dim}, dtype=torch.{dtype})",
    "x.amax({dims})", "x.amin({dims}, keepdim={flag})", "x.max()", "x.min()", "x.max({dim})",
    "x.min({dim}, keepdim={flag})", "x.argmax({dim})", "x.argmin()", "x.argmin({dim}, keepdim={flag})",
    "torch.aminmax(x, dim={dim})", "x.all()", "x.any({dim})", "x.all({dim}, keepdim={flag})", "x.any({dims})",
    "x.nansum({dims})", "x.nanmean({dims})", "x.cumsum({dim})", "x.nan_to_num(1, 2, 3).cumprod({dim})",
    "x.cumsum({dim}, dtype=torch.{dtype})", "x.logsumexp({dims})", "x.softmax({dim})", "x.log_softmax({dim})",
    "x.var({dims}, correction={count}, keepdim={flag})", "x.std({dims}, correction={count})",
    "torch.var_mean(x.nan_to_num(1, 2, 3), {dims})", "torch.std_mean(x.nan_to_num(1, 2, 3), {dim}, keepdim={flag})",
    "x.norm()", "x.norm({order}, {dims})", "x.norm(p={order}, dim={dim}, keepdim={flag})",
    "x.sort(dim={dim}, stable=True)", "x.sort(dim={dim}, descending=True, stable=True)",
    "x.argsort(dim={dim}, stable=True)", "x.detach().abs().kthvalue({count} + 1, {dim}).values",
    "x.detach().topk({count}, {dim}).values", "x.median()", "x.median({dim}).values", "x.nanmedian({dim}).values",
    "x.count_nonzero({dims})", "torch.logical_not(x).sum({dims})", "x.flatten().cumsum(0)",
    "x.float().sum({dims}, dtype=torch.float64)",
]  # fmt: skip
DTYPES = ["float64", "float64", "float32", "int64", "int32", "uint8", "bool", "complex128"]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, np.nan, np.inf, -np.inf]


def operand(rng, dtype):
    """An array, and how both libraries make a tensor of it that may be a view with gaps or permuted dims."""
    shape = [rng.choice([0, 1, 2, 3, 5, 17]) if rng.random() < 0.8 else 1 for _ in range(rng.randint(0, 4))]
    kind = np.dtype(dtype).kind
    draws = np.random.default_rng(rng.getrandbits(32))
    values = draws.normal(size=shape) * 2
    if kind == "f" and rng.random() < 0.3:
        values = np.where(draws.random(shape) < 0.2, draws.choice(SPECIAL, shape), values)
    if kind == "c":
        values = values + 1j * draws.normal(size=shape)
    if kind == "b":
        values = values > 0
    layout = rng.choice(["", "", ".transpose(0, -1)", "[::2]", "[..., ::2]", ".flip(0)", "[..., 1:]", "[:, None]"])
    return np.asarray(np.abs(values) if kind == "u" else values).astype(dtype), layout if len(shape) > 1 else ""


def call(rng, ndim):
    bound = max(ndim, 1)
    dims = rng.sample(range(-bound, 0), rng.randint(1, bound))
    return rng.choice(CALLS).format(
        dim=rng.randrange(-bound, bound), dims=rng.choice([tuple(dims), dims[0]]), flag=rng.random() < 0.5,
        dtype=rng.choice(DTYPES[:-1]), count=rng.randrange(3), order=rng.choice([1, 2, 3, 0.5, "float('inf')", 0]),
    )  # fmt: skip


def run(library, array, layout, text):
    """Values of the results, and the gradient of their sum of squares where there is one; or the error."""
    leaf = library.tensor(array)
    if array.dtype.kind in "fc":
        leaf.requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            x = eval(f"x{layout}", {"x": leaf})
            out = eval(text, {"torch": library, "x": x})
            results = list(out) if isinstance(out, tuple) else [out]
            smooth = [r for r in results if r.requires_grad]
            if smooth:
                sum((r * r.conj()).real.sum() if r.is_complex() else (r * r).sum() for r in smooth).backward()
        except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError) as error:
            return type(error), str(error)
    return [r.detach().numpy() for r in results], None if leaf.grad is None else leaf.grad.numpy()


def check(rng):
    dtype = rng.choice(DTYPES)
    array, layout = operand(rng, dtype)
    text = call(rng, array.ndim + (layout == "[:, None]"))
    expected, found = (run(library, array, layout, text) for library in (torch, jitgrad))
    where = f"{text}, x = tensor({array!r}){layout}"
    if isinstance(expected[0], type):  # what PyTorch refuses by chance, such as gradients of an empty median, may work
        return
    assert not isinstance(found[0], type), f"{where}: {found}"
    if found[1] is not None and expected[1] is not None:  # jitgrad's has fewer NaN: no 0 times an infinite derivative
        expected[1][np.isnan(expected[1])] = found[1][np.isnan(expected[1])]
    for a, b in zip([*found[0], found[1]], [*expected[0], expected[1]], strict=True):
        assert (a is None) == (b is None), where
        if a is not None:
            assert a.dtype == b.dtype and a.shape == b.shape, f"{where}: {b.dtype} {b.shape} but {a.dtype} {a.shape}"
            single = "float32" in (dtype, str(b.dtype)) or "float32" in text
            near = 2e-4 if single else 1e-9
            np.testing.assert_allclose(a, b, rtol=near, atol=near, err_msg=where)


def test_reductions():
    for rng in generators(250):
        check(rng)
