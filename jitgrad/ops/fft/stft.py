"""Spectra of the frames of a signal, and the signal that has such spectra."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from jitgrad.core.errors import cpp_tensor_type, type_title
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import warn_once
from jitgrad.core.wrapped import innermost_tensor
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_flag, int_argument
from jitgrad.kernels.launch import check, launch
from jitgrad.kernels.loops.fft import any_below
from jitgrad.ops.creation.constants import new
from jitgrad.ops.creation.fill import fill_
from jitgrad.ops.fft.fft import resized
from jitgrad.ops.fft.transforms import FftC2C, FftC2R, FftR2C
from jitgrad.ops.shape.complex_view import ViewAsReal
from jitgrad.ops.shape.copy import contiguous
from jitgrad.ops.shape.expand import Expand
from jitgrad.ops.shape.join import cat
from jitgrad.ops.shape.rearrange import Flip
from jitgrad.ops.shape.slicing import Embedded, Slice, Unfold, with_size

__all__: list[str] = []


def _described(op: str, x: Tensor, window: Tensor | None, **given: Any) -> str:
    """A call as PyTorch's errors show it."""
    shape = ", ".join(map(str, x.shape))
    shown = "None" if window is None else f"{type_title(window._layout)}{{{list(window.shape)}}}"
    title = type_title(x._layout) if op == "stft" else cpp_tensor_type(x)
    parts = [f"{name}={int(v) if isinstance(v, bool) else v}" for name, v in given.items()]
    return f"{op}({title}[{shape}], {', '.join([*parts[:3], f'window={shown}', *parts[3:]])}) "


def _within(x: Tensor, n: int, left: int) -> Tensor:
    """``x`` between zeros along its last dim, ``n`` elements in all, of which ``left`` come before it."""
    d = x._layout.ndim - 1
    return Embedded.apply(x, with_size(x._layout, d, n), Slice, (d, left, left + x._layout.shape[d], 1))


def _padded(x: Tensor, width: int, mode: str) -> Tensor:
    """``x`` with ``width`` more elements at both ends of its last dim."""
    x = x if x._layout.ndim else x.unsqueeze(0)
    d, n = x._layout.ndim - 1, x._layout.shape[-1]
    if mode == "constant":
        return _within(x, n + 2 * width, width)
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if not width:
        return x
    if mode == "replicate":
        shape = (*x._layout.shape[:-1], width)
        ends = [Expand.apply(Slice.apply(x, d, k, k + 1, 1), shape) for k in (0, n - 1)]
    elif mode == "circular":
        if width > n:
            raise RuntimeError("Padding value causes wrapping around more than once.")
        ends = [Slice.apply(x, d, n - width, n, 1), Slice.apply(x, d, 0, width, 1)]
    else:
        if width >= n:
            sizes = [1] * (3 - x._layout.ndim) + list(x._layout.shape)
            raise RuntimeError(
                "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding "
                f"({width}, {width}) at dimension 2 of input {sizes}"
            )
        ends = [Flip.apply(Slice.apply(x, d, *k, 1), (d,)) for k in ((1, width + 1), (n - width - 1, n - 1))]
    return cat([ends[0], x, ends[1]], d)


def _warn(text: str) -> None:
    warn_once(text)


@public
def stft(input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
         window: Tensor | None = None, center: bool = True, pad_mode: str = "reflect", normalized: bool = False,
         onesided: bool | None = None, return_complex: bool | None = None,
         align_to_window: bool | None = None) -> Tensor:  # fmt: skip
    """Fourier transforms of overlapping frames of a signal (n) or of several (batch, n): (..., frequencies, frames).

    Frames of ``n_fft`` elements, ``hop_length`` (n_fft // 4) apart, are multiplied by ``window``, which has
    ``win_length`` elements. ``center``: the signal is padded, so that the frames' middles are hop_length apart.
    """
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    n_fft = int_argument("stft", "n_fft", 2, n_fft)
    x = _padded(input, n_fft // 2, pad_mode) if center else input
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    if window is None:
        _warn(
            "A window was not provided. A rectangular window will be applied,which is known to cause spectral leakage. "
            "Other windows such as torch.hann_window or torch.hamming_window are recommended to reduce spectral "
            "leakage.To suppress this warning and use a rectangular window, explicitly set "
            "`window=torch.ones(n_fft, device=<device>)`."
        )
    is_complex = any(t is not None and t._layout.dtype.is_complex for t in (input, window))
    if return_complex is not None:
        return_complex = as_flag(return_complex)
    elif not is_complex:
        raise RuntimeError(
            "stft requires the return_complex parameter be given for real inputs, and will further require that "
            "return_complex=True in a future PyTorch release."
        )
    if return_complex is False:
        _warn(
            "stft with return_complex=False is deprecated. In a future pytorch release, stft will return complex "
            "tensors for all inputs, and return_complex=False will raise an error.\nNote: you can still call "
            "torch.view_as_real on the complex output to recover the old return format."
        )
    given = {"n_fft": n_fft, "hop_length": hop, "win_length": width, "normalized": bool(normalized),
             "onesided": onesided, "return_complex": return_complex, "align_to_window": align_to_window}  # fmt: skip
    _check_stft(x, n_fft, hop, width, window, _described("stft", x, window, **given))
    n = x._layout.shape[-1]
    if align_to_window:  # the first frame's window begins where the signal does
        before = (n_fft - width) // 2
        x = _within(x, n + n_fft - width, before)
    frames = Unfold.apply(x, x._layout.ndim - 1, n_fft, hop)
    if width < n_fft:
        window = fill_(new(x.dtype, (width,)), 1) if window is None else window
        window = _within(window, n_fft, (n_fft - width) // 2)
    if window is not None:
        frames = frames * window
    last = (frames._layout.ndim - 1,)
    half = not is_complex if onesided is None else onesided
    if is_complex and half:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    out = FftC2C.apply(frames, last, int(normalized), True) if is_complex else FftR2C.apply(
        frames, last, int(normalized), bool(half)
    )
    out.transpose_(-2, -1)
    return ViewAsReal.apply(out) if return_complex is False else out


def _check_stft(x: Tensor, n_fft: int, hop: int, width: int, window: Tensor | None, call: str) -> None:
    wrong = ""
    if x._layout.dtype.category < 2:
        wrong = "expected a tensor of floating point or complex values"
    elif x._layout.ndim not in (1, 2):
        wrong = "expected a 1D or 2D tensor"
    elif not 0 < n_fft <= x._layout.shape[-1]:
        wrong = f"expected 0 < n_fft < {x._layout.shape[-1]}, but got n_fft={width}"
    elif hop <= 0:
        wrong = f"expected hop_length > 0, but got hop_length={hop}"
    elif not 0 < width <= n_fft:
        wrong = f"expected 0 < win_length <= n_fft, but got win_length={width}"
    elif window is not None and window._layout.shape != (width,):
        wrong = (
            f"expected a 1D window tensor of size equal to win_length={width}, but got window with size "
            f"{list(window.shape)}"
        )
    if wrong:
        raise RuntimeError(f"{call}: {wrong}")


@public
def istft(input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
          window: Tensor | None = None, center: bool = True, normalized: bool = False, onesided: bool | None = None,
          length: int | None = None, return_complex: bool = False) -> Tensor:  # fmt: skip
    """The signal of which ``input`` (..., frequencies, frames) is the ``stft``: frames added where they overlap.

    The sum is divided by that of the squared windows, which must not vanish. ``length``: how many elements to return.
    """
    n_fft = int_argument("istft", "n_fft", 2, n_fft)
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    if window is None:
        _warn(
            "A window was not provided. A rectangular window will be applied.Please provide the same window used by "
            "stft to make the inversion lossless.To suppress this warning and use a rectangular window, explicitly "
            "set `window=torch.ones(n_fft, device=<device>)`."
        )
    if not input._layout.dtype.is_complex:
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    given = {"n_fft": n_fft, "hop_length": hop, "win_length": width, "center": bool(center),
             "normalized": bool(normalized), "onesided": onesided, "length": length,
             "return_complex": bool(return_complex)}  # fmt: skip
    call = _described("istft", input, window, **given)
    half = _check_istft(input, n_fft, hop, width, window, onesided, call)
    alone = input._layout.ndim == 2
    spectra = (input.unsqueeze(0) if alone else input).transpose(1, 2)
    if window is None:
        window = fill_(new(input.dtype.to_real(), (width,)), 1)
    if width != n_fft:
        window = _within(window, n_fft, (n_fft - width) // 2)
    how = 1 if normalized else 2
    if return_complex:
        if half:
            raise RuntimeError("Cannot have onesided output if window or input is complex")
        frames = FftC2C.apply(spectra, (2,), how, False)
    else:
        if window._layout.dtype.is_complex:
            raise RuntimeError("Complex windows are incompatible with return_complex=False")
        frames = FftC2R.apply(spectra if half else resized(spectra, (2,), (n_fft // 2 + 1,)), (2,), how, n_fft)
    return _added(frames * window, window, hop, center, length, alone, call)


def _check_istft(x: Tensor, n_fft: int, hop: int, width: int, window: Tensor | None, onesided: bool | None,
                 call: str) -> bool:  # fmt: skip
    """RuntimeError for arguments that do not fit; whether ``x`` has half of the frequencies."""
    wrong, half = "", False
    if not x._layout.numel:
        wrong = "input tensor cannot be empty."
    elif x._layout.ndim not in (2, 3):
        wrong = f"expected a tensor with 3 or 4 dimensions, but got {x._layout.ndim + 1}"
    else:
        size = x._layout.shape[-2]
        half = size != n_fft if onesided is None else bool(onesided)
        if size != (n_fft // 2 + 1 if half else n_fft):
            wanted = "n_fft / 2 + 1 when onesided=True" if half else "n_fft when onesided=False"
            wrong = (
                "expected the frequency dimension (3rd to the last) of the input tensor to match "
                f"{wanted}, but got {size}"
            )
        elif not 0 < hop <= width:
            wrong = "expected 0 < hop_length <= win_length"
        elif not 0 < width <= n_fft:
            wrong = "expected 0 < win_length <= n_fft"
        elif window is not None and window._layout.shape != (width,):
            wrong = "Invalid window shape. window has to be 1D and length of `win_length`"
    if wrong:
        raise RuntimeError(f"{call}: {wrong}")
    return half


def _added(frames: Tensor, window: Tensor, hop: int, center: bool, length: int | None, alone: bool,
           call: str) -> Tensor:  # fmt: skip
    """The frames (batch, count, n) added where they overlap, over the sum of the squared windows."""
    batch, count, n = frames._layout.shape
    whole = n + hop * (count - 1)
    start = n // 2 if center else 0
    end = start + length if length is not None else whole - n // 2 if center else whole
    squares = Expand.apply(window**2, (1, count, n))
    sums = []
    for part, rows in ((frames, batch), (squares, 1)):
        layout = with_size(new(part.dtype, (rows, 1))._layout, 1, whole)
        sums.append(Slice.apply(Embedded.apply(part, layout, Unfold, (1, n, hop)), 1, start, min(end, whole), 1))
    y, envelope = sums
    _check_envelope(envelope, call)
    y = y / envelope
    y = y.squeeze(0) if alone else y
    if end > whole:
        _warn(
            "The length of signal is shorter than the length parameter. Result is being padded with zeros in the tail. "
            "Please check your center and hop_length settings."
        )
        y = _within(y, end - start, 0)
    return y


def _check_envelope(envelope: Tensor, call: str) -> None:
    found = np.zeros(1, np.int64)
    launch(any_below, contiguous(innermost_tensor(envelope.detach()))._data, found, 1e-11)
    check(found, _fail_at_gap, call)


def _fail_at_gap(found: Any, call: str) -> NoReturn:
    raise RuntimeError(f"{call}window overlap add min: 1\n[ CPUBoolType{{}} ]")
