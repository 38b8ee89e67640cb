"""PyTorch's own samples of its ops, called as the samples are not: other memory, dtypes, ``out=``, parts, transforms.

tests/peer/opinfo calls each op with each sample as it is. Here a sample's tensors get other strides and offsets, one of
them another dtype or special values; the call writes to ``out`` or to a part of a larger tensor, is batched by vmap,
differentiated forward, or has its gradients differentiated again. A call that PyTorch refuses need only be refused
without a word of jitgrad's insides.
"""

import itertools
import re
import warnings

import pytest
import torch

from ..opinfo.comparison import differences, tensors
from ..opinfo.known_differences import is_known
from ..opinfo.libraries import OURS, THEIRS
from ..opinfo.variants import Variant, has, variants
from .seeds import generators
from .test_bad_arguments import INSIDES, INTERNAL

samples_of = pytest.importorskip("torch.testing._internal.common_methods_invocations")
CALLS = 60  # some seconds
DTYPES = (
    "float64", "float64", "float32", "complex128", "complex64", "float16", "bfloat16",
    "int64", "int32", "int16", "int8", "uint8", "bool",
)  # fmt: skip
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, float("nan"), float("inf"), -float("inf"))
# Without numbers that could be compared: uninitialised memory, and what draws numbers in an order of its own. And
# addbmm, whose integers become int64 under PyTorch's vmap.
LEFT_OUT = (
    "addbmm", "empty", "rand", "normal", "dropout", "bernoulli", "multinomial", "exponential", "cauchy", "uniform",
    "resize",
)  # fmt: skip
# What these make of infinities and NaN follows from the steps of an algorithm: which of two routes an FFT or a
# factorisation takes, how C converts an infinite degree to an integer, in what order a variance is summed, where a sort
# that takes NaN for equal to all numbers leaves those that mode counts, how places are sought in boundaries without
# order, and in what order exponentials of infinities are added. PyTorch's tangents of linear have terms of zeros.
FINITE = (
    "fft", "stft", "linalg", "polynomial", "lu", "svd", "eig", "qr", "cholesky", "inverse", "pinv", "det", "lstsq",
    "norm", "var", "std", "grid_sampl", "mode", "bucketize", "searchsorted", "ctc_loss", "functional.linear",
)  # fmt: skip
# histc, linspace and logspace read their bounds, argwhere's shape depends on values. PyTorch's vmap interpolates bytes
# in floats, and rounds them otherwise than its kernels do; under it the gradient of select_scatter's part is as many
# times too large as the dim has places, and the chunked cross entropy has none.
UNMAPPED = (
    "histc", "linspace", "logspace", "argwhere", "upsample", "interpolate", "select_scatter",
    "linear_cross_entropy_chunked",
)  # fmt: skip
# PyTorch's ihfftn and ihfft2 of one dim write nothing to an ``out`` that is empty or strided, and its batch norm
# nothing to such statistics; its narrow_copy fills the memory of one whatever its strides, and so does avg_pool3d;
# linear gives ``out`` other strides; triu and tril write beside the memory of one whose matrices are strided.
NOT_INTO_OUT = (
    "fft.ihfftn", "fft.ihfft2", "_native_batch_norm_legit", "narrow_copy", "nn.functional.avg_pool3d",
    "nn.functional.linear", "triu", "tril",
)  # fmt: skip
# Called by itself it takes strided factors for contiguous ones.
NOT_STRIDED = ("native_group_norm",)
# At whole numbers up to 0 polygamma is infinite, PyTorch's is what rounding makes of that: 1.7e16 for order 1 at -3.
NOT_OF_INTEGERS = ("polygamma",)
ENTRIES = [op for op in samples_of.op_db if has(op) and not any(part in op.name for part in LEFT_OUT)]
ROUNDED = (torch.float32, torch.complex64, torch.float16, torch.bfloat16)
SAMPLES = 12  # of an op's, the first so many are drawn from


def relaid(rng, tensor):
    """The same values in other memory: dims in another order, with gaps, behind others."""
    if tensor.layout is not torch.strided or tensor.ndim == 0:
        return tensor
    plain, order = tensor.detach(), list(range(tensor.ndim))
    rng.shuffle(order)
    room = [n * (step := rng.choice([1, 1, 2])) + rng.choice([0, 0, 1]) for n in tensor.shape]
    memory = torch.zeros([room[d] for d in order], dtype=plain.dtype).permute(
        [order.index(d) for d in range(tensor.ndim)]
    )
    places = tuple(
        slice(r - n * (r // n), None, r // n) if n else slice(0, 0) for n, r in zip(plain.shape, room, strict=True)
    )
    view = memory[places].copy_(plain)
    return view.detach().requires_grad_(tensor.requires_grad)


def special(rng, tensor):
    """The same tensor with zeros, ties, infinities and NaN in some places."""
    if not tensor.is_floating_point() or tensor.layout is not torch.strided or not tensor.numel():
        return tensor
    draws = torch.Generator().manual_seed(rng.getrandbits(30))
    values = torch.tensor(rng.sample(SPECIAL, 3), dtype=tensor.dtype)
    chosen = values[torch.randint(0, 3, tensor.shape, generator=draws)]
    return torch.where(torch.rand(tensor.shape, generator=draws) < 0.3, chosen, tensor.detach())


def recast(rng, tensor):
    """The same values in another dtype."""
    return tensor.detach().to(getattr(torch, rng.choice(DTYPES)))


def changed(rng, sample, change, share):
    """A sample of which each tensor is changed with that probability."""
    return sample.transform(lambda t: change(rng, t) if isinstance(t, torch.Tensor) and rng.random() < share else t)


def copied(value):
    """Copies of results, of which strides are not compared."""
    if isinstance(value, (tuple, list)):
        return [copied(part) for part in value]
    return value.clone().contiguous() if hasattr(value, "clone") else value


def into_out(library, function, out):
    """A call that writes to ``out``, a tensor of torch's or several, of which the library gets a copy.

    Without gradients: ops that PyTorch composes of others write to ``out`` even so, those of one kernel refuse.
    """

    def call(*args, **kwargs):
        target = library.own(out, {})
        with library.module.no_grad():
            return [function(*args, **kwargs, out=target), target]

    return call


def batched(library, function, scale):
    """A call of a batch of three by vmap: of a tensor, of ``scale`` times it, and of it again."""

    def call(first, *args, **kwargs):
        stack = library.module.stack([first, first * scale, first])
        return copied(library.module.func.vmap(lambda x: function(x, *args, **kwargs))(stack))

    return call


def forward(library, function):
    """The results of a call and their tangents along the first operand itself."""

    def call(first, *args, **kwargs):
        def of_first(x):
            return function(x, *args, **kwargs)

        with library.module.no_grad():  # whether a tangent that is 0 is recorded is no promise
            return copied(library.module.func.jvp(of_first, (first.detach(),), (first.detach(),)))

    return call


def written(library, function):
    """A call in place on a part of a larger tensor, which is returned."""

    def call(first, *args, **kwargs):
        whole = library.module.stack([first, first, first], -1)
        function(whole[..., 1], *args, **kwargs)
        return whole

    return call


def out_like(rng, results):
    """Tensors for ``out`` for results that PyTorch gave: as they are, strided, empty, or of another dtype."""
    if not isinstance(results, torch.Tensor):
        return tuple(out_like(rng, r) for r in results)
    how = rng.choice(["same", "strided", "strided", "empty", "wider", "other"])
    if how in ("wider", "other") and results.dtype in ROUNDED:
        how = "same"  # a wider ``out`` would be compared as if its numbers had not been rounded
    if how == "strided":
        return relaid(rng, torch.ones_like(results.detach()))
    if how == "empty":
        return torch.empty(0, dtype=results.dtype)
    wider = torch.complex128 if results.is_complex() else torch.float64
    dtype = {"wider": wider, "other": getattr(torch, rng.choice(DTYPES))}.get(how, results.dtype)
    return torch.ones(results.shape, dtype=dtype)


def into_some_out(rng, plain, sample):
    """The variant of a function that writes to ``out``; None where PyTorch cannot run the function."""
    torch.manual_seed(42)
    try:
        with torch.no_grad():
            out = out_like(rng, plain.theirs(sample.input, *sample.args, **sample.kwargs))
    except Exception:
        return None
    return Variant("out", into_out(OURS, plain.ours, out), into_out(THEIRS, plain.theirs, out))


def way(rng, op, sample, mixed):
    """(variant, highest order of gradients) of a random way to call the op; None if it cannot be called so.

    Operands of ``mixed`` dtypes are for neither vmap nor forward mode: with them PyTorch promotes and refuses as the
    ops do of which it composes others there.
    """
    known = {v.name: v for v in variants(op)}
    plain, inplace = known.get("function") or known.get("method"), known.get("in place")
    name = rng.choice(["plain", "plain", "in place", "out", "out", "vmap", "forward"])
    if name == "in place" and inplace and not sample.broadcasts_input:
        return Variant(name, written(OURS, inplace.ours), written(THEIRS, inplace.theirs)), 1
    if plain is None:
        return None
    if name == "plain":
        return plain, 2
    if name == "out" and op.supports_out and op.name not in NOT_INTO_OUT:
        variant = into_some_out(rng, plain, sample)
        return variant and (variant, 0)
    if name == "vmap" and not mixed and not any(part in op.name for part in UNMAPPED):
        scale = rng.choice([1, 2])
        return Variant(name, batched(OURS, plain.ours, scale), batched(THEIRS, plain.theirs, scale)), 1
    if name == "forward" and not mixed and op.supports_forward_ad:
        return Variant(name, forward(OURS, plain.ours), forward(THEIRS, plain.theirs)), 0
    return None


def case(rng):
    """(op, dtype, sample, variant, order) of a random call; None if there is none of what was drawn."""
    op, dtype = rng.choice(ENTRIES), getattr(torch, rng.choice(DTYPES))
    if dtype not in op.supported_dtypes("cpu"):
        return None
    between = any(part in op.name for part in NOT_OF_INTEGERS)
    if not dtype.is_floating_point and between:
        return None
    differentiable = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    torch.manual_seed(rng.getrandbits(20))
    every = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=differentiable), SAMPLES))
    sample = rng.choice(every) if every else None
    # Of a tensor without dims PyTorch returns that, even a complex one.
    if op.name in ("kthvalue", "cummax", "cummin") and sample is not None and not sample.input.ndim:
        return None
    if sample is None or not isinstance(sample.input, torch.Tensor) or sample.input.layout is not torch.strided:
        return None
    smooth = op.supports_gradgrad and dtype in (torch.float64, torch.complex128)
    limit = 1 + smooth if differentiable else 0
    kind = 1 if between else rng.random()
    if kind < 0.15:
        sample, limit = changed(rng, sample, recast, 0.4), min(limit, 1)
    elif kind < 0.3 and not any(part in op.name for part in FINITE):
        sample, limit = changed(rng, sample, special, 0.6), 0
    if op.name not in NOT_STRIDED:
        sample = changed(rng, sample, relaid, 0.6)
    found = way(rng, op, sample, kind < 0.15)
    return found and (op, dtype, sample, found[0], min(limit, found[1]))


def leaks(text):
    """Whether an error that both libraries raise speaks of jitgrad's insides."""
    ours, _, theirs = text.partition(", PyTorch ")
    internal = any(ours.startswith(f"raises {kind.__name__}") for kind in INTERNAL)
    return bool(theirs) and (internal or any(part in ours and part not in theirs for part in INSIDES))


def is_difference(op, text):
    """Whether a text of ``differences`` is one: what only PyTorch refuses may work."""
    if text.startswith("PyTorch raises") or (", PyTorch " in text and not leaks(text)):
        return False
    # A call with ``out`` has two results, each of which may have parts.
    return not any(is_known(op.formatted_name, "function", t) for t in (text, re.sub(r"^result [01]", "result", text)))


def check(rng):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drawn = case(rng)
        if drawn is None:
            return
        op, dtype, sample, variant, order = drawn
        texts = [text for text in differences(variant, sample, order) if is_difference(op, text)]
    if texts:
        operands = tensors((sample.input, sample.args, sample.kwargs))
        layouts = [f"{t.dtype} {tuple(t.shape)} {t.stride()}" for t in operands]
        call = f"{op.formatted_name}, {variant.name}, {sample.summary()}"
        pytest.fail("\n  ".join([call, *layouts, *texts[:3]]), pytrace=False)


def test_calls():
    for rng in generators(CALLS):
        check(rng)
