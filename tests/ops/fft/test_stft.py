"""stft, istft and windows against SciPy and their definitions."""

import numpy as np
import pytest
from scipy import signal

import jitgrad as torch

RNG = np.random.default_rng(0)
X = torch.from_numpy(RNG.standard_normal(40))
HANN = torch.hann_window(8, dtype=torch.float64)


def by_definition(x, n, hop, window):
    frames = np.stack([x[k : k + n] for k in range(0, len(x) - n + 1, hop)])
    return np.fft.rfft(frames * window).T


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular", "constant"])
def test_frames_of_a_padded_signal(mode):
    kind = {"replicate": "edge", "circular": "wrap"}.get(mode, mode)
    expected = by_definition(np.pad(X.numpy(), 4, kind), 8, 2, HANN.numpy())
    found = X.stft(8, window=HANN, pad_mode=mode, return_complex=True)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)
    assert found.stride() == (1, 5) and not found._is_view()


def test_options():
    plain = torch.stft(X, 8, 3, window=HANN, center=False, return_complex=True)
    np.testing.assert_allclose(plain.numpy(), by_definition(X.numpy(), 8, 3, HANN.numpy()), atol=1e-12)
    scaled = torch.stft(X, 8, 3, window=HANN, center=False, normalized=True, return_complex=True)
    torch.testing.assert_close(scaled, plain / 8**0.5)
    both = torch.stft(X, 8, 3, window=HANN, center=False, onesided=False, return_complex=True)
    torch.testing.assert_close(both[:5], plain)
    torch.testing.assert_close(both[5:], plain[1:4].flip(0).conj().resolve_conj())
    short = torch.hann_window(6, dtype=torch.float64)
    padded = torch.nn.functional.pad(short, (1, 1)) if hasattr(torch.nn.functional, "pad") else None
    found = torch.stft(X, 8, 3, 6, short, center=False, return_complex=True)
    if padded is not None:
        torch.testing.assert_close(found, torch.stft(X, 8, 3, window=padded, center=False, return_complex=True))
    stack = torch.stack([X, 2 * X])
    double = stack.stft(8, window=HANN, return_complex=True)[1]
    torch.testing.assert_close(double, 2 * X.stft(8, window=HANN, return_complex=True))
    with pytest.warns(UserWarning, match="return_complex=False is deprecated"):
        assert X.stft(8, window=HANN, return_complex=False).shape == (5, 21, 2)
    with pytest.warns(UserWarning, match="A window was not provided"):
        X.stft(8, return_complex=True)
    aligned = torch.stft(X, 8, 3, 6, short, center=False, align_to_window=True, return_complex=True)
    assert aligned.shape == (5, 12)


def test_the_inverse():
    spectra = X.stft(8, window=HANN, return_complex=True)
    torch.testing.assert_close(spectra.istft(8, window=HANN), X)
    assert spectra.istft(8, window=HANN)._is_view()
    torch.testing.assert_close(spectra.istft(8, window=HANN, length=30), X[:30])
    with pytest.warns(UserWarning, match="The length of signal is shorter than the length parameter"):
        longer = spectra.istft(8, window=HANN, length=50)
    assert longer.shape == (50,) and (longer[44:] == 0).all()
    both = torch.stack([X, 2 * X]).stft(8, window=HANN, return_complex=True, onesided=False, normalized=True)
    torch.testing.assert_close(torch.istft(both, 8, window=HANN, normalized=True), torch.stack([X, 2 * X]))
    whole = torch.istft(both, 8, window=HANN, normalized=True, return_complex=True)
    torch.testing.assert_close(whole.real.contiguous(), torch.stack([X, 2 * X]))


def test_gradients_vmap_and_compiled():
    x, window = X[:20].clone().requires_grad_(), (HANN + 0.1).requires_grad_()

    def spectra(x, window):
        return torch.stft(x, 8, 3, window=window, return_complex=True)

    torch.autograd.gradcheck(spectra, (x, window))
    torch.autograd.gradcheck(lambda x, window: torch.istft(spectra(x, window), 8, 3, window=HANN + 0.1), (x, window))
    batch = torch.stack([X, 2 * X, X - 1])
    found = torch.vmap(lambda x: x.stft(8, window=HANN, return_complex=True))(batch)
    torch.testing.assert_close(found, batch.stft(8, window=HANN, return_complex=True))
    back = torch.vmap(lambda s: s.istft(8, window=HANN))(found)
    torch.testing.assert_close(back, batch)
    compiled = torch.compile(lambda x: x.stft(8, window=HANN, return_complex=True).istft(8, window=HANN) + 1)
    for _ in range(3):
        torch.testing.assert_close(compiled(X), X + 1)


def test_errors():
    with pytest.raises(RuntimeError, match="stft requires the return_complex parameter be given for real inputs"):
        X.stft(8, window=HANN)
    for given, words in (
        ({"n_fft": 8, "window": HANN[1:]}, "expected a 1D window tensor of size equal to win_length=8, but got window"),
        ({"n_fft": 8, "hop_length": 0, "window": HANN}, "expected hop_length > 0, but got hop_length=0"),
        ({"n_fft": 8, "win_length": 9, "window": HANN}, "expected 0 < win_length <= n_fft, but got win_length=9"),
        ({"n_fft": 50, "center": False, "window": HANN}, "expected 0 < n_fft < 40, but got n_fft=50"),
        ({"n_fft": 90, "window": HANN}, "Padding size should be less than the corresponding input dimension"),
        ({"n_fft": 8, "window": HANN, "align_to_window": True}, "should only be set when center = false"),
        ({"n_fft": 8, "window": HANN + 0j, "onesided": True}, "Cannot have onesided output if window or input is co"),
    ):
        with pytest.raises(RuntimeError, match=words):
            torch.stft(X, return_complex=True, **given)
    spectra = X.stft(8, window=HANN, return_complex=True)
    for given, words in (
        ({"center": False}, "window overlap add min: 1"),
        ({"onesided": False}, "to match n_fft when onesided=False, but got 5"),
        ({"hop_length": 10}, "expected 0 < hop_length <= win_length"),
        ({"win_length": 7}, "Invalid window shape"),
        ({"return_complex": True}, "Cannot have onesided output"),
    ):
        with pytest.raises(RuntimeError, match=words):
            spectra.istft(8, window=HANN, **given)
    with pytest.raises(RuntimeError, match="istft requires a complex-valued input tensor"):
        X.istft(8, window=HANN)


@pytest.mark.parametrize("sym", [True, False])
@pytest.mark.parametrize(("name", "given"), [
    ("bartlett", {}), ("blackman", {}), ("cosine", {}), ("exponential", {"tau": 2.0}), ("gaussian", {"std": 1.5}),
    ("general_cosine", {"a": [0.5, 0.3, 0.2]}), ("general_hamming", {"alpha": 0.6}), ("hamming", {}), ("hann", {}),
    ("kaiser", {"beta": 5.0}), ("nuttall", {}),
])  # fmt: skip
def test_windows_of_signal(name, given, sym):
    for n in (0, 1, 2, 7, 8):
        found = getattr(torch.signal.windows, name)(n, sym=sym, dtype=torch.float64, **given)
        kind = (name, *([None] if name == "exponential" else []), *given.values())
        expected = signal.get_window(kind, n, fftbins=not sym) if n else np.empty(0)
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


def test_windows():
    for name, kind in (("hann", "hann"), ("hamming", "hamming"), ("blackman", "blackman"), ("bartlett", "bartlett"),
                       ("kaiser", ("kaiser", 12.0))):  # fmt: skip
        for n in (1, 2, 7):
            for periodic in (True, False):
                found = getattr(torch, f"{name}_window")(n, periodic)
                expected = signal.get_window(kind, n, fftbins=periodic)
                np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)
                assert found.dtype is torch.float32
    assert torch.hann_window(0).shape == (0,) and torch.hann_window(3, requires_grad=True).requires_grad
    with pytest.raises(RuntimeError, match="hann_window requires non-negative window_length, got window_length=-1"):
        torch.hann_window(-1)
    with pytest.raises(RuntimeError, match=r"hann_window expects floating point dtypes, got: TensorOptions\(dtype=lo"):
        torch.hann_window(3, dtype=torch.int64)
    with pytest.raises(ValueError, match="gaussian requires non-negative window length, got M=-1"):
        torch.signal.windows.gaussian(-1)
    with pytest.raises(ValueError, match="Tau must be positive, got: -1 instead."):
        torch.signal.windows.exponential(3, tau=-1)
