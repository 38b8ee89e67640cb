"""The same code under both engines: what it returns, warns of and raises, in comparable form."""

import re
import warnings

import torch

import jitgrad

ENGINES = (jitgrad, torch)


def plain(value):
    """Tensors as lists, at any depth; numbers to twelve digits."""
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return value


def words(error):
    """What an error or warning says, without addresses, line numbers and PyTorch's own frames."""
    text = re.sub(r" ?\(Triggered internally.*", "", str(error), flags=re.S)
    text = re.sub(r"<[^>]* at 0x\w+>", "<object>", text)
    return re.sub(r'  File "[^"]*torch/autograd/.*?\n.*?\n', "", text).strip()


def outcome(function, engine):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = plain(function(engine))
        except Exception as error:
            found = type(error).__name__, words(error)
    return found, [(w.category.__name__, words(w.message)) for w in caught]


def leaf(e, *values):
    return e.tensor(list(values), dtype=e.float64, requires_grad=True)
