"""The loss of connectionist temporal classification (Graves et al., 2006)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from jitgrad.core.dtypes import int64
from jitgrad.core.errors import invalid_combination, not_implemented_for
from jitgrad.core.layout import intern
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch import table
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_flag, int_argument
from jitgrad.dispatch.structured import Structured
from jitgrad.dispatch.underived import underived
from jitgrad.kernels.launch import check, launch
from jitgrad.kernels.loops import ctc as kernels
from jitgrad.ops.creation.from_data import tensor
from jitgrad.ops.indexing.places import places_for_samples
from jitgrad.ops.nn.loss import reduced, reduction_name
from jitgrad.ops.nn.margin_losses import functional, named
from jitgrad.ops.shape.copy import cast, contiguous

__all__ = ["CtcLoss"]


def _reference(x: Any, targets: Any, sizes: tuple[tuple[int, ...], ...], blank: int, zero_infinity: bool) -> Any:
    """(losses, alpha, shifts) by sums of probabilities."""
    losses, out = [], np.full((x.shape[1], x.shape[0], 2 * max(sizes[1]) + 3), -np.inf)
    shifts = np.zeros(out.shape[:2])
    for n, (times, count, first) in enumerate(zip(*sizes, strict=True)):
        states = [blank, *itertools.chain(*((t, blank) for t in targets[first : first + count]))]
        p = np.zeros((times, len(states)))
        for t in range(times):
            for s, c in enumerate(states):
                before = float(s < 2) if t == 0 else p[t - 1, max(s - 1, 0) : s + 1].sum()
                if t and s > 1 and c != blank and c != states[s - 2]:
                    before += p[t - 1, s - 2]
                p[t, s] = before * np.exp(x[t, n, c])
        largest = p.max(1)
        largest[0] = 1
        shifts[n, :times] = np.log(largest)
        with np.errstate(divide="ignore"):
            out[n, :times, 2 : 2 + len(states)] = np.log(p / largest[:, None])
        losses.append(-np.log(p[-1, -2:].sum()))
    return np.array(losses), out, shifts


def _log_probabilities(*shape: int) -> Tensor:
    """A sample's."""
    return draw(*shape).log_softmax(-1)


class CtcLoss(Structured):
    """Minus the logarithms of the targets' probabilities; and sums of beginnings of alignments, for backward.

    targets: one vector. sizes: (input lengths, target lengths, places of the first targets).
    """

    name, multiple_results = "_ctc_loss", True
    samples = cases(
        lambda: (_log_probabilities(5, 2, 4), places_for_samples(1, 2, 3, 3), ((5, 4), (2, 2), (0, 2)), 0, False),
        lambda: (_log_probabilities(4, 2, 3), places_for_samples(1, 0, 1), ((4, 3), (3, 0), (0, 3)), 2, True),
    )
    reference = _reference

    def refuse_tangents(names):
        raise NotImplementedError(
            "Trying to use forward AD with _ctc_loss that does not support it because it has not been implemented yet."
        )

    def forward(x, targets, sizes, blank, zero_infinity):
        layout, lengths = x._layout, np.array(sizes, np.int64)
        times, n, _ = layout.shape
        states = 2 * max(sizes[1], default=0) + 1
        shapes = intern(layout.numpy_dtype, (n,)), intern(layout.numpy_dtype, (n, times, states + 2)), intern(
            np.dtype(np.float64), (n, times)
        )
        loss, alpha, shifts = (wrap(empty_for(each), each) for each in shapes)
        launch(kernels.alpha, contiguous(x.detach())._data, targets._data, lengths, alpha._data, shifts._data,
               loss._data, blank)  # fmt: skip
        return loss, alpha, shifts

    def grad_x(g, out, x, targets, sizes, blank, zero_infinity):
        # PyTorch's has no derivative, either.
        found = _gradient(g[0].detach(), x, targets, sizes, *out, blank, zero_infinity)
        return underived("aten::_ctc_loss_backward", found, g[0], x)

    def kernel_x(g, out, x, targets, sizes, blank, zero_infinity):
        return _gradient(g[0], x, targets, sizes, *out, blank, zero_infinity)


def _gradient(
    g: Tensor, x: Tensor, targets: Tensor, sizes: Any, loss: Tensor, alpha: Tensor, shifts: Tensor, blank: int,
    zero_infinity: bool,
) -> Tensor:  # fmt: skip
    layout = intern(x._layout.numpy_dtype, x._layout.shape)
    out = wrap(empty_for(layout), layout)
    arrays = [contiguous(t.detach())._data for t in (x, g)]
    launch(kernels.gradient, *arrays, targets._data, np.array(sizes, np.int64), alpha._data, shifts._data,
           loss._data, out._data, blank, zero_infinity)  # fmt: skip
    return out


# -- arguments --------------------------------------------------------------------------------------------

_CHECKED = "(while checking arguments for ctc_loss_allocate_outputs)"


_REST = "int blank = 0, int reduction = at::Reduction::Mean, bool zero_infinity = False"
_BY_TUPLES, _BY_TENSORS = (
    f"(Tensor log_probs, Tensor targets, {kind} input_lengths, {kind} target_lengths, {_REST})"
    for kind in ("tuple of ints", "Tensor")
)


def _lengths(name: str, lengths: Any) -> tuple[int, ...]:
    """The lengths of a batch as numbers; of a tensor, these are read."""
    if isinstance(lengths, Tensor):
        if lengths.dtype.name not in ("uint8", "int8", "int16", "int32", "int64"):
            raise RuntimeError(f"{name} must be integral")
        found = lengths.tolist()
        return tuple(found) if isinstance(found, list) else (found,)
    if not isinstance(lengths, (list, tuple)):
        raise invalid_combination("ctc_loss", (lengths,), _BY_TUPLES, _BY_TENSORS)
    return tuple([int_argument("ctc_loss", name, 3 if name[0] == "i" else 4, n) for n in lengths])


def _placed(x: Tensor, targets: Tensor, inputs: Sequence[int], counts: Sequence[int], blank: int) -> tuple[int, ...]:
    """The place of each sample's first target in the vector of all; RuntimeError for what does not fit."""
    times, n, classes = x.shape
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    for name, lengths in (("input_lengths", inputs), ("target_lengths", counts)):
        if len(lengths) != n:
            raise RuntimeError(f"{name} must be of size batch_size")
    for name, lengths in (("target_lengths", counts), ("input_lengths", inputs)):
        if lengths and min(lengths) < 0:
            raise RuntimeError(f"Expected {name} to have value at least 0, but got value {min(lengths)} {_CHECKED}")
    if targets.ndim == 1:
        if targets.shape[0] != sum(counts):
            raise RuntimeError(
                f"Expected tensor to have size {sum(counts)} at dimension 0, but got size {targets.shape[0]} for "
                f"argument #2 'targets' {_CHECKED}"
            )
        places = tuple(itertools.accumulate(counts[:-1], initial=0))
    else:
        places = _in_rows(targets, n, max(counts))
    if max(inputs) > times:
        raise RuntimeError(
            f"Expected input_lengths to have value at most {times}, but got value {max(inputs)} {_CHECKED}"
        )
    return places


def _in_rows(targets: Tensor, n: int, longest: int) -> tuple[int, ...]:
    """The places of the first targets where each sample has a row of them."""
    rows, width = targets.shape
    if rows != n:
        size = f"size {n} at dimension 0, but got size {rows}"
    elif width < longest:
        size = f"size at least {longest} at dimension 1, but got size {width}"
    else:
        return tuple(range(0, n * width, width)) if width else (0,) * n
    raise RuntimeError(f"Expected tensor to have {size} for argument #2 'targets' {_CHECKED}")


def _refuse(found: np.ndarray, classes: int) -> NoReturn:
    raise RuntimeError(f"ctc_loss: target {found[1]} is no label: there are {classes}")


def _ctc(
    x: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int, reduction: str, zero_infinity: bool
) -> Tensor:  # fmt: skip
    blank = int_argument("ctc_loss", "blank", 5, blank)
    zero_infinity = as_flag(zero_infinity)
    inputs, counts = _lengths("input_lengths", input_lengths), _lengths("target_lengths", target_lengths)
    batched = x.ndim == 3
    if not batched and (x.ndim != 2):
        raise RuntimeError(f"Expected 3-dimensional tensor, but got {x.ndim + 1}-dimensional tensor for argument #1 "
                           f"'log_probs' {_CHECKED}")  # fmt: skip
    if not x.numel():
        raise RuntimeError("log_probs tensor must not be empty")
    if not x._layout.dtype.is_floating_point:
        raise not_implemented_for("ctc_loss_cpu", x._layout.dtype)
    if not 1 <= targets.ndim <= 2:
        raise RuntimeError(f"Expected 1 to 2 dimensions, but got {targets.ndim}-dimensional tensor for argument #2 "
                           f"'targets' {_CHECKED}")  # fmt: skip
    x = x if batched else x.unsqueeze(1)
    sizes = (inputs, counts, _placed(x, targets, inputs, counts, blank))
    labels = contiguous(cast(targets.detach(), int64)).reshape(-1)
    found = np.zeros(2, np.int64)
    launch(kernels.outside, labels._data, np.array(sizes, np.int64), found, x.shape[2])
    check(found, _refuse, x.shape[2])
    loss = CtcLoss.apply(x, labels, sizes, blank, zero_infinity)[0]
    if zero_infinity:
        loss = table.where(loss == np.inf, 0, loss)
    if reduction == "mean":
        lengths = tensor([max(n, 1) for n in counts], dtype=loss.dtype)
        return (loss / lengths).mean()
    return reduced(loss if batched else loss.squeeze(0), reduction)


@functional
def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """Minus the logarithm of the probability that ``log_probs`` (T, N, C), or (T, C), spell the ``targets``.

    A spelling is a class for each time; repeated ones count once, then those that are ``blank`` are left out. targets:
    (N, S), of which the first of each row count, or all in one vector. Lengths: tensors or sequences of N ints. "mean"
    divides each loss by its target's length first. ``zero_infinity``: 0 where no spelling is that short, and no
    gradient, in the place of infinity. RuntimeError for sizes, lengths and labels that do not fit.
    """
    reduction = reduction_name(reduction)
    return _ctc(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)


def _top_ctc(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: int = 1,
    zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """``nn.functional.ctc_loss``, with the reduction as a number."""
    return _ctc(log_probs, targets, input_lengths, target_lengths, blank, named(reduction), zero_infinity)


public(_top_ctc, "ctc_loss", method_too=False)
