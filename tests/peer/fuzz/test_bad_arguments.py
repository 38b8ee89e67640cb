"""Calls of ops with one argument spoilt: PyTorch's kind of error, and none that speaks of jitgrad's insides.

Calls are those of PyTorch's own samples. Not compared: what jitgrad accepts beside PyTorch. It reads flags
(``keepdim=1``) for their truth and numbers beyond 64 bits as floats, and does not look at arguments that it ignores.
"""

import copy
import itertools
import warnings

import numpy as np
import pytest

import jitgrad
import jitgrad.nn.functional

from .seeds import generators

torch = pytest.importorskip("torch")
samples = pytest.importorskip("torch.testing._internal.common_methods_invocations")
CALLS = 150  # a few seconds
SPOILT = [
    None, "a", 2.5, 2**70, -7, 9, True, 1j, float("nan"), (), [], {}, (0.5, 1), (0, 0), [None], object, slice(None),
    np.ones((2, 3), np.float32), np.array(["a"]), np.int64(1), np.float64(0.5), torch.float64,
    torch.tensor(1), torch.tensor(0.5), torch.tensor([1, 0]), torch.tensor([True, False]), torch.ones(0),
    torch.ones(5, 7), torch.ones(2, 3, dtype=torch.complex64), [torch.ones(2), torch.ones(2)],
]  # fmt: skip
# After them a tensor of torch's may reach beyond its memory, and whoever reads it next crashes; or torch itself has
# written beyond statistics of a wrong size.
UNSAFE = {
    "as_strided", "as_strided_copy", "as_strided_scatter", "resize_", "resize_as_", "set_", "native_batch_norm",
    "_native_batch_norm_legit", "_batch_norm_with_update",
}  # fmt: skip
ACCEPTED = {  # what jitgrad takes in a tensor's place
    "resolve_conj", "resolve_neg", "nn.functional.kl_div",
}  # fmt: skip
INTERNAL = (AttributeError, KeyError, AssertionError, StopIteration, NameError, SystemError, MemoryError)
INSIDES = (
    "_layout", "_data", "_requires", "has no attribute", "not supported between", "unsupported operand", "ufunc",
    "cannot compile", "subscriptable", "not iterable", "has no len", "not callable", "unhashable", "indices must be",
    "cannot be interpreted", "operands could not", "<lambda>", "<locals>", "zip()",
)  # fmt: skip


def _path(library, name):
    """The function of a name with dots, None if there is none."""
    for part in name.split("."):
        library = getattr(library, part, None)
    return library


def _found(library, name):
    """The function, or else the method, of a name."""
    return _path(library, name) or getattr(library.Tensor, name, None)


def _ops():
    """The samples of each function by its name; ``add_`` has those of ``add``."""
    known = {name: op for op in samples.op_db if not op.variant_test_name for name in (op.name, f"{op.name}_")}
    return {
        name: op
        for name, op in known.items()
        if name not in UNSAFE and "__" not in name and callable(_found(torch, name)) and callable(_found(jitgrad, name))
        and not isinstance(_found(torch, name), torch.dtype)
    }  # fmt: skip


OPS = _ops()
NAMES = sorted(OPS)


def _ours(value):
    """An argument with jitgrad's tensors and dtypes for torch's."""
    if isinstance(value, torch.Tensor):
        array = value.detach().resolve_conj().resolve_neg().numpy()
        return jitgrad.tensor(array).requires_grad_(value.requires_grad)
    if isinstance(value, torch.dtype):
        return getattr(jitgrad, str(value).removeprefix("torch."))
    if type(value) in (list, tuple):
        return type(value)(map(_ours, value))
    return {k: _ours(v) for k, v in value.items()} if isinstance(value, dict) else value


def _spoilt(rng, op):
    """(arguments, keywords) of one of the op's samples in which one argument is replaced, left out or too much."""
    dtypes = [d for d in (torch.float64, torch.float32, torch.int64, torch.complex64) if d in op.dtypes]
    sample = rng.choice(list(itertools.islice(op.sample_inputs("cpu", rng.choice(dtypes[:2])), 8)))
    args, kwargs = [sample.input, *sample.args], dict(sample.kwargs)
    way = rng.random()
    if way < 0.08:
        args.pop()
    elif way < 0.12:
        args.append(copy.deepcopy(rng.choice(SPOILT)))
    else:
        place = rng.choice([*range(len(args)), *kwargs])
        (args if isinstance(place, int) else kwargs)[place] = copy.deepcopy(rng.choice(SPOILT))  # it may be written to
    return args, kwargs


def _outcome(function, args, kwargs):
    try:
        function(*args, **kwargs)
    except Exception as error:
        return error
    return None


def _complaint(name, ours, theirs):
    """What is wrong with the error that jitgrad raises, or with its silence; "" for nothing."""
    wants_tensor = isinstance(theirs, TypeError) and "must be Tensor, not" in str(theirs)
    if wants_tensor and not isinstance(ours, (TypeError, NotImplementedError)) and name not in ACCEPTED:
        return "no TypeError"
    if ours is None or (type(ours) is type(theirs) and str(ours)[:20] == str(theirs)[:20]):
        return ""
    if isinstance(ours, INTERNAL) and not isinstance(theirs, type(ours)):
        return "an internal error"
    return next((f"its text has {part!r}" for part in INSIDES if part in str(ours) and part not in str(theirs)), "")


def _shown(value):
    """A value for messages; of a tensor what it is like, as a wrong call may have left it without memory."""
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} of shape {tuple(value.shape)}"
    return f"[{', '.join(map(_shown, value))}]" if type(value) in (list, tuple) else repr(value)


def _call(rng):
    """A random call, and what is wrong with its outcome, "" for nothing."""
    name = rng.choice(NAMES)
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            args, kwargs = _spoilt(rng, OPS[name])
        except IndexError:  # the op has no samples of these dtypes
            return name, ""
        if any(isinstance(x, torch.Tensor) and x.layout is not torch.strided for x in args):
            return name, ""
        is_method = _path(jitgrad, name) is None
        if is_method and not (args and isinstance(args[0], torch.Tensor)):
            return name, ""
        own_args, own_kwargs = _ours(args), _ours(kwargs)
        theirs = _outcome(_found(torch, name), args, kwargs)
        ours = _outcome(_found(jitgrad, name), own_args, own_kwargs)
    complaint = _complaint(name, ours, theirs)
    call = f"{name}: {', '.join(map(_shown, args))}, {({k: _shown(v) for k, v in kwargs.items()})}"
    return call, complaint and f"{complaint}\n  jitgrad: {ours!r}\n  PyTorch: {theirs!r}"


def check(rng):
    call, complaint = _call(rng)
    if complaint:
        pytest.fail(f"{call}\n  {complaint}", pytrace=False)


def test_calls():
    for rng in generators(CALLS):
        check(rng)
